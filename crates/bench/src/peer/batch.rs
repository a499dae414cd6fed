//! Places for many datagrams, filled and emptied in one call.

use std::io;

/// Datagrams in one call at most. The same for every stack.
pub const BATCH: usize = 64;

/// Equal places for datagrams, side by side.
#[derive(Debug)]
pub struct Batch {
    memory: Vec<u8>,
    place: usize,
    lengths: Vec<usize>,
}

impl Batch {
    /// [`BATCH`] places of `place` bytes, all in use with their full length.
    pub fn new(place: usize) -> Self {
        let place = place.max(1);
        Self {
            memory: vec![0; place * BATCH],
            place,
            lengths: vec![place; BATCH],
        }
    }

    /// Bytes in a place.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The first `count` datagrams.
    pub fn datagrams(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        let places = self.memory.chunks_exact(self.place).zip(&self.lengths);
        places
            .map(|(place, length)| place.get(..*length).unwrap_or(place))
            .take(count)
    }

    /// The first `count` places, to be filled.
    pub fn places(&mut self, count: usize) -> impl Iterator<Item = &mut [u8]> {
        self.memory.chunks_exact_mut(self.place).take(count)
    }

    /// All memory and all lengths, for a socket that fills many places at once.
    pub fn parts(&mut self) -> (&mut [u8], &mut [usize]) {
        (&mut self.memory, &mut self.lengths)
    }

    /// All memory, for a socket that sends many places at once.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// Receives one datagram into the first place with `receive`.
    ///
    /// # Errors
    /// Those of `receive`.
    pub fn fill_first(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let place = self.memory.get_mut(..self.place).unwrap_or_default();
        let length = receive(place)?;
        if let Some(first) = self.lengths.first_mut() {
            *first = length;
        }
        Ok(1)
    }
}
