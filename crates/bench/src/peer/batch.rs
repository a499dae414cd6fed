//! Places for many datagrams, filled and emptied in one call.

use std::io;

/// Datagrams in one call at most. The same for every stack.
pub const BATCH: usize = 64;

/// Where a datagram lies in a batch's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// Its length in bytes.
    pub length: usize,
}

/// Memory for datagrams, and where each lies in it. At first they lie side by side in equal places.
#[derive(Debug)]
pub struct Batch {
    memory: Vec<u8>,
    place: usize,
    spans: Vec<Span>,
}

impl Batch {
    /// [`BATCH`] places of `place` bytes, all in use with their full length.
    pub fn new(place: usize) -> Self {
        let place = place.max(1);
        let spans = (0..BATCH).map(|index| Span {
            start: index * place,
            length: place,
        });
        Self {
            memory: vec![0; place * BATCH],
            place,
            spans: spans.collect(),
        }
    }

    /// Bytes in a place.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The first `count` datagrams.
    pub fn datagrams(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        let spans = self.spans.iter().take(count);
        spans.filter_map(|span| self.memory.get(span.start..)?.get(..span.length))
    }

    /// The first `count` places, to be filled.
    pub fn places(&mut self, count: usize) -> impl Iterator<Item = &mut [u8]> {
        self.memory.chunks_exact_mut(self.place).take(count)
    }

    /// All memory and all spans, for a socket that fills many places at once.
    pub fn parts(&mut self) -> (&mut [u8], &mut [Span]) {
        (&mut self.memory, &mut self.spans)
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
        let length = receive(self.memory.get_mut(..self.place).unwrap_or_default())?;
        if let Some(first) = self.spans.first_mut() {
            *first = Span { start: 0, length };
        }
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_then_spans() {
        let mut batch = Batch::new(3);
        for (index, place) in batch.places(BATCH).enumerate() {
            place.fill(index as u8);
        }
        assert_eq!(
            batch.datagrams(2).collect::<Vec<_>>(),
            [[0, 0, 0], [1, 1, 1]]
        );
        assert_eq!(batch.datagrams(1000).count(), BATCH);
        let (_, spans) = batch.parts();
        spans[0] = Span {
            start: 2,
            length: 2,
        };
        spans[1] = Span {
            start: 3 * BATCH,
            length: 1,
        };
        let found: Vec<_> = batch.datagrams(3).collect();
        assert_eq!(
            found,
            [&[0, 1][..], &[2, 2, 2]],
            "what is outside is not there"
        );
        assert_eq!(batch.fill_first(|place| Ok(place.len() - 1)).unwrap(), 1);
        assert_eq!(batch.datagrams(1).next(), Some(&[0, 0][..]));
    }
}
