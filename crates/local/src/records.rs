//! Records out of a stream, each taken whole: what a program reads datagrams with. Header and
//! payload are taken under one lock, so that several readers of one socket get a datagram each.

#![allow(unsafe_code)]

use crate::Arena;
use crate::datagram::{HEADER, Header, What};
use crate::slot::PeerSlot;
use crate::stream::{Hindrance, Span, Stream, places, ring_of};
use rustix::io::Errno;

/// A record that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its header; the length is that of the whole payload.
    pub header: Header,
    /// Bytes of the payload that were copied: all, or as many as there was room for.
    pub copied: usize,
}

impl Stream<'_> {
    /// Receives the next record: as much of its payload as the spans hold, the rest is lost. With
    /// `keep` it is there the next time too.
    ///
    /// # Errors
    /// [`Hindrance::Wait`] when there is none, [`Hindrance::End`], [`Hindrance::Reset`] (also when
    /// the other end writes nonsense), [`Hindrance::File`] with `FAULT` when there is no memory
    /// where a span says.
    ///
    /// # Safety
    /// What can be written of the spans is no other's.
    pub unsafe fn receive_record(&self, spans: &[Span], keep: bool) -> Result<Record, Hindrance> {
        let held = self.own.hold_read().map_err(Hindrance::File)?;
        let (arena, peer, header) = self.next_header()?;
        let whole = HEADER + header.len as usize;
        let start = self.own.consumed();
        let mut done = 0;
        let mut outcome = Ok(());
        for span in spans {
            let n = span.len.min(header.len as usize - done);
            let from = start + (HEADER + done) as u64;
            // SAFETY: the caller vouches for the span; `n` bytes are at most as long.
            outcome = unsafe { copy_out(arena, peer, from, span.first, n) };
            match outcome {
                Ok(()) => done += n,
                // It is lost, as the kernel has it.
                Err(Hindrance::File(Errno::FAULT)) => break,
                Err(other) => return Err(other),
            }
        }
        if !keep {
            self.own.set_consumed(start + whole as u64);
        }
        drop(held);
        if !keep {
            self.tell_writer();
        }
        let copied = done;
        outcome.map(|()| Record { header, copied })
    }

    /// The header of the next record, which stays.
    ///
    /// # Errors
    /// As [`Stream::receive_record`].
    pub fn peek_record(&self) -> Result<Header, Hindrance> {
        let held = self.own.hold_read().map_err(Hindrance::File)?;
        let header = self.next_header().map(|(_, _, header)| header);
        drop(held);
        header
    }

    /// Takes the next record if it carries no datagram: what the other end has to tell.
    pub fn take_unless_data(&self) -> Option<Header> {
        let held = self.own.hold_read().ok()?;
        let (_, _, header) = self.next_header().ok()?;
        if header.what == What::Data {
            return None;
        }
        let whole = HEADER + header.len as usize;
        self.own.set_consumed(self.own.consumed() + whole as u64);
        drop(held);
        self.tell_writer();
        Some(header)
    }

    /// To be called with the readers' lock held.
    fn next_header(&self) -> Result<(&Arena, PeerSlot<'_>, Header), Hindrance> {
        let there = self.there()?;
        let Some((arena, peer)) = self.peer else {
            return Err(Hindrance::Wait);
        };
        if there < HEADER as u64 {
            // Records are sent whole: half a header is nonsense.
            return Err(self.broken());
        }
        let mut bytes = [0u8; HEADER];
        let start = self.own.consumed();
        // SAFETY: a place of our own, as long as said.
        unsafe { copy_out(arena, peer, start, bytes.as_mut_ptr(), HEADER) }?;
        match Header::unpack(&bytes) {
            Some(header) if u64::from(header.len) <= there - HEADER as u64 => {
                Ok((arena, peer, header))
            }
            _ => Err(self.broken()),
        }
    }
}

/// Copies `len` bytes at `position` of the other end's ring.
///
/// # Safety
/// `to` can be written for `len` bytes.
unsafe fn copy_out(
    arena: &Arena,
    peer: PeerSlot<'_>,
    position: u64,
    to: *mut u8,
    len: usize,
) -> Result<(), Hindrance> {
    let from = position.wrapping_sub(peer.base());
    let (first, second) = places(from, len, arena.geometry().ring_len());
    let ring = ring_of(arena, peer)?;
    // SAFETY: the caller vouches for the place; the two pieces make up at most `len`.
    unsafe {
        ring.read(first.0, to, first.1)
            .and_then(|()| ring.read(0, to.wrapping_add(first.1), second))
            .map_err(Hindrance::File)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use rustix::fd::AsFd;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn with_pair(test: impl FnOnce(Stream<'_>, Stream<'_>)) {
        let small = Geometry {
            slots: 64,
            ring: 4096,
        };
        let (_file, one) = Arena::create(1, small).unwrap();
        let (_file, two) = Arena::create(2, small).unwrap();
        let here = one.allocate(one.enter(1).unwrap(), 0).unwrap();
        let there = two.allocate(two.enter(2).unwrap(), 0).unwrap();
        one.own(here).set_peer(two.own(there).name());
        two.own(there).set_peer(one.own(here).name());
        let (stream, unix) = (SocketType::STREAM, AddressFamily::UNIX);
        let (a, b) = socketpair(unix, stream, SocketFlags::NONBLOCK, None).unwrap();
        let a = Stream::new(&one, here, Some(&two), a.as_fd());
        let b = Stream::new(&two, there, Some(&one), b.as_fd());
        test(a, b);
    }

    fn receive(stream: &Stream<'_>, out: &mut [u8], keep: bool) -> Result<Record, Hindrance> {
        let span = Span {
            first: out.as_mut_ptr(),
            len: out.len(),
        };
        // SAFETY: a mutable slice can be written.
        unsafe { stream.receive_record(&[span], keep) }
    }

    #[test]
    fn records_come_whole_or_cut_but_one_at_a_time() {
        with_pair(|a, b| {
            let from = "10.0.0.1:53".parse().unwrap();
            let mut out = [0u8; 8];
            assert_eq!(receive(&b, &mut out, false), Err(Hindrance::Wait));
            // Enough to come round the ring several times.
            for round in 0..500u32 {
                let body: Vec<u8> = (0..20).map(|n| (n + round) as u8).collect();
                for len in [20, 0, 5] {
                    let head = Header::data(from, len).pack();
                    a.send_record(&head, &body[..len]).unwrap();
                }
                assert_eq!(b.peek_record().unwrap().len, 20);
                let first = receive(&b, &mut out, true).unwrap();
                assert_eq!((first.header.len, first.copied), (20, 8));
                assert_eq!(receive(&b, &mut out, false), Ok(first));
                assert_eq!(out, body[..8]);
                assert_eq!(receive(&b, &mut out, false).unwrap().copied, 0);
                let last = receive(&b, &mut out, false).unwrap();
                assert_eq!((last.header.address, last.copied), (from, 5));
                assert_eq!(out[..5], body[..5]);
            }
        });
    }

    #[test]
    fn what_is_told_is_taken_apart_from_datagrams() {
        with_pair(|a, b| {
            let from = "10.0.0.1:53".parse().unwrap();
            assert_eq!(b.take_unless_data(), None);
            let told = Header::error(from, 111);
            a.send_record(&told.pack(), &[]).unwrap();
            a.send_record(&Header::data(from, 1).pack(), b"x").unwrap();
            assert_eq!(b.take_unless_data(), Some(told));
            assert_eq!(b.take_unless_data(), None);
            assert_eq!(receive(&b, &mut [0; 8], false).unwrap().copied, 1);
        });
    }

    #[test]
    fn nonsense_breaks_the_stream() {
        let from = "10.0.0.1:53".parse().unwrap();
        let longer_than_sent = Header::data(from, 100).pack();
        let mut unknown = Header::error(from, 5).pack();
        unknown[24] = 99;
        assert_eq!(What::Error as u8, 1);
        for bytes in [&longer_than_sent[..], &unknown[..], &unknown[..7]] {
            with_pair(|a, b| {
                a.send_slice(bytes).unwrap();
                assert_eq!(b.peek_record(), Err(Hindrance::Reset));
                assert_eq!(receive(&b, &mut [0; 8], false), Err(Hindrance::Reset));
            });
        }
    }
}
