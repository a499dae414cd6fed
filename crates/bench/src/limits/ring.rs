//! The raw ring: one process copies messages into shared memory, another copies them out. Nothing
//! else happens, so that it is the ceiling for a stream that is copied once on each side.
//!
//! Both indices count messages, lie on cache lines of their own and are read again only when the
//! private copy says full or empty.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sys::SharedMemory;
use super::wait::until;
use crate::pattern;
use crate::role::{Load, Report, Side};
use crate::workload::{Clock, cpu_seconds};

/// Bytes of shared memory: a page for the indices, then the messages. 1 MiB leaves room in the
/// caches for the two sides' own buffers; measured, anything from 1 to 16 MiB is within a tenth.
pub const MEMORY: usize = PAGE + (1 << 20);

/// A longer message travels in pieces of this size, so that the second core copies while the first
/// does.
const PIECE: usize = 64 * 1024;

/// Small messages are published together, as any good sender would: a cache line moves between the
/// cores for each publication.
const PUBLISH: usize = 8 * 1024;

const PAGE: usize = 4096;
const SENT: usize = 0;
const RECEIVED: usize = 256;
const TOTAL: usize = 512;

/// One side of the ring.
///
/// # Errors
/// `TimedOut` when the other side stops; `InvalidData` when a verified byte is wrong.
pub fn run(memory: &SharedMemory, side: Side, load: &Load) -> io::Result<Report> {
    let stride = load.size.clamp(1, PIECE).next_multiple_of(64);
    let ring = Ring {
        memory,
        sent: memory.word(SENT)?,
        received: memory.word(RECEIVED)?,
        total: memory.word(TOTAL)?,
        stride,
        slots: ((MEMORY - PAGE) / stride) as u64,
    };
    match side {
        Side::Client => ring.send(load),
        Side::Server => ring.receive(load),
    }
}

struct Ring<'a> {
    memory: &'a SharedMemory,
    sent: &'a AtomicU64,
    received: &'a AtomicU64,
    /// One more than the number of pieces, once the sender has decided to stop.
    total: &'a AtomicU64,
    stride: usize,
    slots: u64,
}

impl Ring<'_> {
    fn place(&self, index: u64) -> usize {
        PAGE + (index % self.slots) as usize * self.stride
    }

    fn send(&self, load: &Load) -> io::Result<Report> {
        let mut message = vec![0x5a; load.size.max(1)];
        let mut clock = Clock::start(load);
        let begin = cpu_seconds();
        let (mut sent, mut received, mut position) = (0u64, 0u64, 0u64);
        let mut fresh = 0;
        loop {
            if load.verify {
                pattern::fill(position, &mut message);
            }
            for piece in message.chunks(PIECE) {
                if sent - received >= self.slots {
                    self.sent.store(sent, Ordering::Release);
                    received = self.room_for(sent)?;
                }
                self.memory.copy_in(self.place(sent), piece);
                sent += 1;
                fresh += piece.len();
                if fresh >= PUBLISH {
                    fresh = 0;
                    self.sent.store(sent, Ordering::Release);
                }
            }
            position += message.len() as u64;
            if clock.count(message.len() as u64) {
                break;
            }
        }
        self.sent.store(sent, Ordering::Release);
        self.total.store(sent + 1, Ordering::Release);
        until(|| (self.received.load(Ordering::Acquire) >= sent).then_some(()))?;
        Ok(clock.report(cpu_seconds() - begin))
    }

    /// Waits until another piece fits; says how many have been received.
    fn room_for(&self, sent: u64) -> io::Result<u64> {
        until(|| {
            let received = self.received.load(Ordering::Acquire);
            (sent - received < self.slots).then_some(received)
        })
    }

    fn receive(&self, load: &Load) -> io::Result<Report> {
        let mut message = vec![0; load.size.max(1)];
        let mut clock = Clock::start(load);
        let begin = cpu_seconds();
        let (mut sent, mut received, mut position) = (0u64, 0u64, 0u64);
        let mut fresh = 0;
        'all: loop {
            for piece in message.chunks_mut(PIECE) {
                if sent == received {
                    self.received.store(received, Ordering::Release);
                    sent = self.more_than(received)?;
                }
                if sent == received {
                    break 'all;
                }
                self.memory.copy_out(self.place(received), piece);
                received += 1;
                fresh += piece.len();
                if fresh >= PUBLISH {
                    fresh = 0;
                    self.received.store(received, Ordering::Release);
                }
            }
            if load.verify && pattern::first_difference(position, &message).is_some() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            position += message.len() as u64;
            clock.count(message.len() as u64);
        }
        clock.end();
        let verified_bytes = if load.verify { position } else { 0 };
        Ok(Report {
            verified_bytes,
            ..clock.report(cpu_seconds() - begin)
        })
    }

    /// Waits for more pieces than these; says how many there are, as many only when no more will
    /// come.
    fn more_than(&self, received: u64) -> io::Result<u64> {
        until(|| {
            let total = self.total.load(Ordering::Acquire);
            let sent = self.sent.load(Ordering::Acquire);
            (sent > received || total == received + 1).then_some(sent)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives() {
        for size in [1, 64, 100, 65_536, 1 << 20] {
            let file = crate::limits::memory_file(MEMORY).unwrap();
            let load = Load {
                size,
                seconds: 0.02,
                warm_up: 0.0,
                verify: true,
                bytes: None,
            };
            std::thread::scope(|scope| {
                let file = &file;
                let server = scope.spawn(move || {
                    let memory = SharedMemory::map(file, MEMORY).unwrap();
                    run(&memory, Side::Server, &load).unwrap()
                });
                let memory = SharedMemory::map(file, MEMORY).unwrap();
                let client = run(&memory, Side::Client, &load).unwrap();
                let server = server.join().unwrap();
                assert_eq!(server.all_bytes, client.all_bytes);
                assert_eq!(server.verified_bytes, client.all_bytes);
                assert!(client.all_bytes > 0);
            });
        }
    }
}
