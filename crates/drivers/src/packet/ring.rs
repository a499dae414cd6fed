//! The receive ring: memory that the kernel puts small frames into (`PACKET_RX_RING`, version 2).
//!
//! ```text
//! frame of the ring:  [status, lengths, places | ...... virtio-net header | frame .......]
//! ```
//! A look at it costs no system call, nor does a frame. One that has no room there (anything cut
//! out of several segments) is taken from the socket as without a ring: the kernel keeps it whole
//! in the socket's queue and says so in the ring, which gives the order of all.

use super::sys::{self, RingFrame, RingMemory};
use crate::virtio::{Front, HEADER};
use std::io;
use std::os::fd::BorrowedFd;

/// Bytes of the ring for each frame: an Ethernet frame of the usual size, and what describes it.
const FRAME: usize = 2048;
/// Frames of the ring: 4 MiB of them.
const FRAMES: usize = 2048;
/// Bytes of memory in one piece.
const BLOCK: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct ReceiveRing {
    memory: RingMemory,
    /// The frame that comes next.
    next: usize,
}

impl ReceiveRing {
    /// A ring for a socket that is not bound yet.
    ///
    /// # Errors
    /// What the kernel says: mostly that it has no memory.
    pub(super) fn new(socket: BorrowedFd<'_>) -> io::Result<ReceiveRing> {
        let memory = sys::receive_ring(socket, FRAME, FRAMES, BLOCK)?;
        Ok(ReceiveRing { memory, next: 0 })
    }

    /// What comes next.
    #[inline]
    pub(super) fn front(&self) -> Front<'_> {
        match self.memory.frame(self.next) {
            None => Front::Nothing,
            Some(frame) if frame.status & libc::TP_STATUS_COPY != 0 => Front::Large,
            Some(frame) => stored(&frame).unwrap_or(Front::Lost),
        }
    }

    /// The frame at the front was taken.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.memory.give_back(self.next);
        self.next = (self.next + 1) % FRAMES;
    }
}

/// The frame and its header; `None` when it is not there as a whole.
#[inline]
fn stored<'a>(frame: &RingFrame<'a>) -> Option<Front<'a>> {
    let start = usize::from(frame.mac);
    let header = frame.bytes.get(start.checked_sub(HEADER)?..start)?;
    let bytes = frame.bytes.get(start..)?.get(..frame.stored as usize)?;
    (frame.stored == frame.whole).then_some(Front::Frame {
        header: header.try_into().ok()?,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of a frame of `len` bytes of which it stored `stored` at `mac`.
    fn told(bytes: &[u8], mac: u16, stored: u32, whole: u32) -> RingFrame<'_> {
        let status = libc::TP_STATUS_USER;
        RingFrame {
            status,
            whole,
            stored,
            mac,
            bytes,
        }
    }

    #[test]
    fn whole_frames_only() {
        let mut bytes = [0; 256];
        bytes[90..100].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        bytes[100..104].copy_from_slice(b"abcd");
        match stored(&told(&bytes, 100, 4, 4)) {
            Some(Front::Frame { header, bytes }) => {
                assert_eq!(header, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
                assert_eq!(bytes, b"abcd");
            }
            other => panic!("{other:?}"),
        }
        for (mac, len, whole) in [
            (100, 4, 5), // cut
            (9, 4, 4),   // no room for the header
            (255, 2, 2), // beyond the end
            (300, 1, 1), // begins there
            (100, u32::MAX, u32::MAX),
        ] {
            assert!(
                stored(&told(&bytes, mac, len, whole)).is_none(),
                "{mac} {len} {whole}"
            );
        }
    }
}
