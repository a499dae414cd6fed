//! Urgent data, as TCP has it (RFC 9293, section 3.8.5; RFC 6093): a mark at a byte of the stream.
//!
//! The sender notes the byte's position before the byte itself is there. The receiver stops at the
//! mark once; the byte is read apart (`MSG_OOB`), or left out, or read in its place
//! (`SO_OOBINLINE`). A later mark takes the place of an earlier one.

#![allow(unsafe_code)]

use crate::fault;
use crate::options::Opt;
use crate::slot::{PeerSlot, sent};
use crate::stream::{Hindrance, Stream, ring_of};

impl Stream<'_> {
    /// Sends one byte with the mark on it.
    ///
    /// # Errors
    /// As [`Stream::send`].
    pub fn send_urgent(&self, byte: u8) -> Result<(), Hindrance> {
        let held = self.own.hold_write().map_err(Hindrance::File)?;
        let room = self.may_send()?;
        let start = self.begin(room);
        let ring = self.own_ring()?;
        // SAFETY: one byte of our own.
        unsafe { self.copy_in(ring, start, &raw const byte, 1) }?;
        self.own.set_urgent(start);
        self.own.say_sent(sent::URGENT);
        fault::point("urgent");
        self.own.set_produced(start + 1);
        drop(held);
        self.tell_reader();
        Ok(())
    }

    /// The byte with the mark; once, unless it is to be kept. `None` when there is none, or it was
    /// read, or passed.
    ///
    /// # Errors
    /// [`Hindrance::File`] as in [`Stream::receive`].
    pub fn receive_urgent(&self, keep: bool) -> Result<Option<u8>, Hindrance> {
        let held = self.own.hold_read().map_err(Hindrance::File)?;
        let Some(((arena, peer), at)) = self.peer.zip(self.mark()) else {
            return Ok(None);
        };
        if self.own.urgent_read() == at + 1 || self.own.is_on(Opt::OobInline) {
            return Ok(None);
        }
        let ring = arena.geometry().ring_len();
        let place = at.wrapping_sub(peer.base()) as usize & (ring - 1);
        let bytes = ring_of(arena, peer)?;
        let mut byte = 0u8;
        // SAFETY: one byte of our own; the place lies within the ring.
        unsafe { bytes.read(place, &raw mut byte, 1) }.map_err(Hindrance::File)?;
        if !keep {
            self.own.set_urgent_read(at + 1);
        }
        drop(held);
        Ok(Some(byte))
    }

    /// Whether there is a byte with the mark that was not read apart.
    pub fn has_urgent(&self) -> bool {
        self.mark()
            .is_some_and(|at| self.own.urgent_read() != at + 1)
    }

    /// Whether the next byte is the one with the mark.
    pub fn is_at_mark(&self) -> bool {
        self.mark() == Some(self.own.consumed())
    }

    /// Where the mark is, if it is on a byte that was not passed.
    fn mark(&self) -> Option<u64> {
        let (_, peer) = self.peer?;
        if peer.sent() & sent::URGENT == 0 || peer.generation() != self.own.peer_name().generation {
            return None;
        }
        let next = self.own.consumed();
        // What the other end claims is looked at only where there are bytes; the mark after them,
        // since one without a byte is taken back before the next byte comes.
        let there = peer
            .produced()
            .checked_sub(next)?
            .min(self.peer_ring().into());
        let at = peer.urgent();
        at.checked_sub(next)
            .is_some_and(|far| far < there)
            .then_some(at)
    }

    /// Of `there` bytes, how many are left out and how many can be read at once. Left out is the
    /// one with the mark, and one that was read apart before another was marked.
    pub(crate) fn up_to_mark(&self, peer: PeerSlot<'_>, there: u64) -> (u64, u64) {
        let (at, next) = (peer.urgent(), self.own.consumed());
        let apart = !self.own.is_on(Opt::OobInline);
        let is_apart = |place: u64| apart && (at == place || self.own.urgent_read() == place + 1);
        let left_out = (0..there).take_while(|n| is_apart(next + n)).count() as u64;
        let there = there - left_out;
        match at.checked_sub(next + left_out) {
            Some(far) if far > 0 && far < there => (left_out, far),
            _ => (left_out, there),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::options::Opt;
    use crate::pair::{Pair, Random};
    use crate::{Hindrance, fault};

    /// Against a queue of bytes with a mark, as the kernel has it.
    #[test]
    fn marks_are_where_a_model_has_them() {
        for inline in [0, 1] {
            let pair = Pair::new();
            let (a, b) = (pair.a(), pair.b());
            b.slot().set(Opt::OobInline, inline);
            let mut random = Random(17 + u64::from(inline));
            let (mut sent, mut mark, mut taken) = (Vec::new(), None, 0usize);
            for _ in 0..20_000 {
                match random.below(4) {
                    0 if sent.len() - taken < 4000 => {
                        let byte = random.next() as u8;
                        a.send_urgent(byte).unwrap();
                        mark = Some(sent.len());
                        sent.push(byte);
                    }
                    1 if sent.len() - taken < 4000 => {
                        let text = [random.next() as u8; 7];
                        let n = a.send_slice(&text[..1 + random.below(7)]).unwrap();
                        sent.extend(&text[..n]);
                    }
                    _ => {
                        let mut out = [0; 9];
                        let most = 1 + random.below(9);
                        assert_eq!(b.is_at_mark(), mark == Some(taken) && taken < sent.len());
                        let from = taken + usize::from(mark == Some(taken) && inline == 0);
                        let end = match mark {
                            Some(mark) if mark > taken => mark,
                            _ => sent.len(),
                        };
                        let got = b.receive_slice(&mut out[..most], false);
                        match end.saturating_sub(from).min(most) {
                            0 => assert_eq!(got, Err(Hindrance::Wait)),
                            n => {
                                assert_eq!(got, Ok(n));
                                assert_eq!(out[..n], sent[from..from + n]);
                                taken = from + n;
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_urgent_byte_is_read_once_and_not_after_it_was_passed() {
        let pair = Pair::new();
        let (a, b) = (pair.a(), pair.b());
        a.send_slice(b"ab").unwrap();
        a.send_urgent(b'!').unwrap();
        assert!(b.has_urgent());
        assert_eq!(b.receive_urgent(true), Ok(Some(b'!')));
        assert_eq!(b.receive_urgent(false), Ok(Some(b'!')));
        assert_eq!(b.receive_urgent(false), Ok(None));
        assert!(!b.has_urgent());
        a.send_urgent(b'?').unwrap();
        a.send_slice(b"c").unwrap();
        assert_eq!(b.skip(9), Ok(3), "the earlier mark is a byte like others");
        assert_eq!(b.skip(9), Ok(1));
        assert_eq!(b.receive_urgent(false), Ok(None));
    }

    /// A process that shares the sending end is killed before the byte is there.
    #[test]
    fn a_mark_without_its_byte_marks_no_other() {
        let pair = Pair::new();
        let (a, b) = (pair.a(), pair.b());
        a.send_slice(b"ab").unwrap();
        fault::kill_at("urgent", || a.send_urgent(b'!').unwrap());
        assert!(!b.has_urgent());
        a.send_slice(b"cd").unwrap();
        assert!(!b.has_urgent() && !b.is_at_mark());
        let mut out = [0; 9];
        assert_eq!(b.receive_slice(&mut out, false), Ok(4));
        assert_eq!(&out[..4], b"abcd");
        a.send_urgent(b'?').unwrap();
        assert_eq!(b.receive_urgent(false), Ok(Some(b'?')));
    }

    #[test]
    fn a_mark_that_cannot_be_is_none() {
        let pair = Pair::new();
        let (a, b) = (pair.a(), pair.b());
        a.send_slice(b"abc").unwrap();
        a.slot().say_sent(crate::slot::sent::URGENT);
        for at in [3, 4, 5000, u64::MAX] {
            a.slot().set_urgent(at);
            assert!(!b.has_urgent() && !b.is_at_mark());
            assert_eq!(b.receive_urgent(false), Ok(None));
            assert_eq!(b.waiting(), 3);
        }
    }
}
