//! A driver around another one: keeps a copy of every slot that is sent, loses what it is told to.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::boxed::Box;
use std::vec::Vec;

use gannet_base::{Instant, Rng};
use gannet_link::driver::Received;
use gannet_link::{Capabilities, Driver, Frame, LinkState, Pool, Range, Slot, Space, View};

use crate::testing::Simulated;

/// A slot as it was sent, its payload resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) at: Instant,
    pub(super) inline: Vec<u8>,
    pub(super) ranges: Vec<Vec<u8>>,
    pub(super) flags: u16,
    pub(super) gso_size: u16,
    pub(super) checksum_place: (u16, u16),
}

impl Sent {
    fn of(at: Instant, pool: &Pool, slot: &Slot) -> Self {
        let range = |index| {
            let (offset, len) = slot.raw_range(index);
            let space = Space::Own;
            let range = Range { offset, len, space };
            pool.bytes(range).expect("a pinned range").to_vec()
        };
        Sent {
            at,
            inline: slot.inline().to_vec(),
            ranges: (0..slot.range_count()).map(range).collect(),
            flags: slot.flags(),
            gso_size: slot.gso_size(),
            checksum_place: slot.checksum_place(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.inline.len() + self.ranges.iter().map(Vec::len).sum::<usize>()
    }
}

static ORDER: AtomicU64 = AtomicU64::new(0);

/// Which slots are lost.
pub(super) enum Loss {
    None,
    /// Those without payload, in so many of a million cases.
    Acks(u32),
    /// In bursts (Gilbert): chances per million to begin and to end losing.
    Bursts {
        begin: u32,
        end: u32,
    },
}

pub(super) struct Recorder<D> {
    inner: D,
    /// With the order over all recorders.
    pub(super) sent: Option<Vec<(u64, Sent)>>,
    pub(super) loss: Loss,
    /// Nanoseconds that each byte takes to arrive; 0: none.
    pub(super) per_byte: u64,
    now: Instant,
    busy_until: Instant,
    losing: bool,
    rng: Box<Rng>,
}

impl<D> Recorder<D> {
    pub(super) fn new(inner: D, seed: u64) -> Self {
        Recorder {
            inner,
            sent: None,
            loss: Loss::None,
            per_byte: 0,
            now: Instant::ZERO,
            busy_until: Instant::ZERO,
            losing: false,
            rng: Box::new(Rng::new(seed)),
        }
    }

    fn loses(&mut self, slot: &Slot) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Acks(chance) => {
                slot.range_count() == 0 && slot.inline_len() < 70 && self.rng.chance(chance)
            }
            Loss::Bursts { begin, end } => {
                let turn = if self.losing { end } else { begin };
                self.losing ^= self.rng.chance(turn);
                self.losing
            }
        }
    }
}

impl<D: Simulated> Simulated for Recorder<D> {
    fn advance(&mut self, now: Instant) {
        self.now = now;
        self.inner.advance(now);
    }

    fn next_arrival(&self) -> Option<Instant> {
        let next = self.inner.next_arrival()?;
        Some(next.max(self.busy_until))
    }
}

impl<D: Driver> Driver for Recorder<D> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn transmit(&mut self, pool: &mut Pool, slot: &Slot) -> bool {
        if self.inner.room() == 0 {
            return false;
        }
        if let Some(sent) = &mut self.sent {
            let order = ORDER.fetch_add(1, Ordering::Relaxed);
            sent.push((order, Sent::of(self.now, pool, slot)));
        }
        if self.loses(slot) {
            for index in 0..slot.range_count() {
                pool.completed(slot.raw_range(index).0);
            }
            return true;
        }
        self.inner.transmit(pool, slot)
    }

    fn room(&mut self) -> usize {
        self.inner.room()
    }

    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received {
        if self.now < self.busy_until {
            return Received::Empty;
        }
        let received = self.inner.receive(pool, frame);
        if received == Received::Frame {
            let time = self.per_byte * frame.len() as u64;
            self.busy_until = self.now + Duration::from_nanos(time);
        }
        received
    }

    fn reclaim(&mut self, pool: &mut Pool) -> usize {
        self.inner.reclaim(pool)
    }

    fn flush(&mut self, pool: &mut Pool) {
        self.inner.flush(pool);
    }

    fn release(&mut self, range: Range) {
        self.inner.release(range);
    }

    fn read(&self, range: Range, out: &mut [u8]) -> usize {
        self.inner.read(range, out)
    }

    fn view(&self, range: Range) -> Option<View> {
        self.inner.view(range)
    }

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn state(&self) -> LinkState {
        self.inner.state()
    }
}
