//! The bytes of one frame on their way through a world.
//!
//! A world makes and drops a buffer for every frame. They are too large for the quick ways of most
//! allocators, so what is dropped is kept, for the next one that the same thread makes.

use core::cell::RefCell;
use core::ops::{Deref, DerefMut};

/// Buffers kept on a thread.
const SPARE_MAX: usize = 512;
/// A kept buffer is not larger: a super-segment's is not worth its memory.
const KEPT_BYTES_MAX: usize = 16 << 10;
/// Room of a new one: a full Ethernet frame.
const USUAL: usize = 1514;

/// The bytes of a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// See [`Buffer::is_sound`].
    sound: bool,
}

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

impl Buffer {
    /// No bytes yet.
    pub fn new() -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        Buffer {
            bytes: spare.unwrap_or_else(|| Vec::with_capacity(USUAL)),
            sound: false,
        }
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.sound = false;
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes it `len` bytes long, with `filler` behind what there is.
    pub fn resize(&mut self, len: usize, filler: u8) {
        self.sound = false;
        self.bytes.resize(len, filler);
    }

    /// Whether somebody found its checksums right, and nobody could have changed a byte since.
    pub fn is_sound(&self) -> bool {
        self.sound
    }

    /// Its checksums were found to be right.
    pub fn set_sound(&mut self) {
        self.sound = true;
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = core::mem::take(&mut self.bytes);
        if bytes.capacity() == 0 || bytes.capacity() > KEPT_BYTES_MAX {
            return;
        }
        bytes.clear();
        // (a thread that ends keeps nothing)
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(bytes);
            }
        });
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        let mut other = Buffer::from(self.bytes.as_slice());
        other.sound = self.sound;
        other
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Buffer::new();
        buffer.extend_from_slice(bytes);
        buffer
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Buffer {
            bytes,
            sound: false,
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.sound = false;
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_change_it_makes_it_doubtful() {
        let changes: [fn(&mut Buffer); 4] = [
            |buffer| buffer[1] ^= 1,
            |buffer| buffer.extend_from_slice(&[1]),
            |buffer| buffer.resize(2, 0),
            |buffer| drop(buffer.get_mut(0)),
        ];
        for change in changes {
            let mut buffer = Buffer::from([1, 2, 3].as_slice());
            assert!(!buffer.is_sound());
            buffer.set_sound();
            assert!(buffer.is_sound() && buffer.clone().is_sound());
            change(&mut buffer);
            assert!(!buffer.is_sound());
        }
    }

    #[test]
    fn memory_is_used_again_and_begins_empty() {
        let mut buffer = Buffer::from([7; 100].as_slice());
        buffer.set_sound();
        let place = buffer.as_ptr();
        drop(buffer);
        let mut again = Buffer::new();
        assert!(again.is_empty() && !again.is_sound());
        again.resize(10, 0);
        assert_eq!((again.as_ptr(), &*again), (place, &[0; 10][..]));
    }
}
