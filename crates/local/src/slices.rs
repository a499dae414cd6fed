//! Streams for those who have slices: what Rust code uses; the interposed calls have pointers.

#![allow(unsafe_code)]

use crate::stream::{Hindrance, Span, Stream};
use std::io;

impl Stream<'_> {
    /// [`Stream::send`] of a slice.
    ///
    /// # Errors
    /// As there.
    pub fn send_slice(&self, bytes: &[u8]) -> Result<usize, Hindrance> {
        // SAFETY: a slice can be read, and is not written through this.
        unsafe { self.send(&[reading(bytes)]) }
    }

    /// Sends two slices as one record, whole or not at all.
    ///
    /// # Errors
    /// As [`Stream::send_at_least`].
    pub fn send_record(&self, head: &[u8], body: &[u8]) -> Result<usize, Hindrance> {
        let spans = [reading(head), reading(body)];
        // SAFETY: as above.
        unsafe { self.send_at_least(&spans, head.len() + body.len()) }
    }

    /// [`Stream::receive`] into a slice; with `keep` the bytes are there the next time too.
    ///
    /// # Errors
    /// As there.
    pub fn receive_slice(&self, out: &mut [u8], keep: bool) -> Result<usize, Hindrance> {
        let span = Span {
            first: out.as_mut_ptr(),
            len: out.len(),
        };
        // SAFETY: a mutable slice can be written.
        unsafe { self.receive(&[span], 0, keep) }
    }

    /// Throws up to `len` bytes away unread; how many.
    ///
    /// # Errors
    /// As [`Stream::receive`].
    pub fn skip(&self, len: usize) -> Result<usize, Hindrance> {
        let nowhere = Span {
            first: std::ptr::null_mut(),
            len,
        };
        // SAFETY: nothing is written to a null span.
        unsafe { self.receive(&[nowhere], 0, false) }
    }

    /// Sends what `source` writes into the ring itself: at most `most` bytes, at once as many as it
    /// says it has written. For arenas made by [`crate::Arena::create_alone`].
    ///
    /// # Errors
    /// As [`Stream::send`]; what `source` says, as the inner error.
    pub fn fill_with(
        &self,
        most: usize,
        source: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> Result<io::Result<usize>, Hindrance> {
        let held = self.own.hold_write().map_err(Hindrance::File)?;
        let room = self.may_send()?;
        let start = self.begin(room);
        let ((at, len), _) = self.places(start, most.min(room as usize));
        if !self.arena.memory.is_alone() {
            return Err(Hindrance::File(rustix::io::Errno::PERM));
        }
        // SAFETY: sealed against other writers; behind what was sent, before what the other end
        // has still to read; the lock is held.
        let place = unsafe { self.own_ring()?.place(at, len) };
        let n = match source(place) {
            Ok(n) => n.min(len),
            Err(error) => return Ok(Err(error)),
        };
        self.own.set_produced(start + n as u64);
        drop(held);
        if n > 0 {
            self.tell_reader();
        }
        Ok(Ok(n))
    }
}

fn reading(bytes: &[u8]) -> Span {
    Span {
        first: bytes.as_ptr().cast_mut(),
        len: bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Geometry};
    use rustix::fd::AsFd;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn slices_pass_and_the_ring_is_filled_in_place() {
        let small = Geometry {
            slots: 64,
            ring: 4096,
        };
        let (_file, alone) = Arena::create_alone(1, small).unwrap();
        let (_file, shared) = Arena::create(2, small).unwrap();
        let here = alone.allocate(alone.enter(1).unwrap(), 0).unwrap();
        let there = shared.allocate(shared.enter(2).unwrap(), 0).unwrap();
        alone.own(here).set_peer(shared.own(there).name());
        shared.own(there).set_peer(alone.own(here).name());
        let (stream, unix) = (SocketType::STREAM, AddressFamily::UNIX);
        let (a, b) = socketpair(unix, stream, SocketFlags::NONBLOCK, None).unwrap();
        let a = Stream::new(&alone, here, Some(&shared), a.as_fd());
        let b = Stream::new(&shared, there, Some(&alone), b.as_fd());

        let filled = a.fill_with(100, |place| {
            place[..3].copy_from_slice(b"abc");
            Ok(3)
        });
        assert_eq!(filled.unwrap().unwrap(), 3);
        assert_eq!(a.send_slice(b"de").unwrap(), 2);
        let mut out = [0; 8];
        assert_eq!(b.receive_slice(&mut out, true).unwrap(), 5);
        assert_eq!(&out[..5], b"abcde");
        assert_eq!(b.skip(2).unwrap(), 2);
        assert_eq!(b.receive_slice(&mut out, false).unwrap(), 3);
        assert_eq!(&out[..3], b"cde");

        let failed = a.fill_with(1, |_| Err(io::Error::from(io::ErrorKind::WouldBlock)));
        assert!(failed.unwrap().is_err());
        assert_eq!(
            a.fill_with(9999, |all| Ok(all.len())).unwrap().unwrap(),
            4096
        );
        assert_eq!(a.send_record(b"x", b"y"), Err(Hindrance::Wait));
        assert_eq!(b.skip(1).unwrap(), 1);
        assert_eq!(a.send_record(b"x", b"y"), Err(Hindrance::Wait));
        let refused = b.fill_with(1, |_| Ok(1));
        assert!(matches!(refused, Err(Hindrance::File(_))), "others write");
    }
}
