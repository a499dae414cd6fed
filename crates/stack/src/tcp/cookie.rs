//! SYN cookies (RFC 4987 section 3.6): a listener whose requests are too many answers a SYN without
//! remembering it. What it would have kept travels in the numbers of the SYN-ACK and comes back
//! with the acknowledgement:
//!
//! ```text
//!   ISS = F(ends) + [ minute 1 | MSS class 3 | keyed hash 28 ]
//!   TSval = clock, its low six bits replaced by [ ECN 1 | SACK 1 | window scale 4 ]
//! ```
//! The hash covers both ends, the peer's number, the minute, the class and whether time stamps were
//! offered; F hides the fields, so that the number looks like any other. Nothing is allocated
//! before the hash fits. What a cookie cannot carry is lost: without time stamps there is no window
//! scaling and no SACK, the MSS is rounded down, and a SYN-ACK is not sent again. (The idea is D.
//! J. Bernstein's, the use of the time stamp Linux's.)

use core::time::Duration;

use gannet_base::Instant;

use super::seq::SeqNum;
use crate::hash::{FourTuple, HashKey, Purpose};

/// A cookie made in one period is taken in this and the next: it lives for one to two minutes.
const PERIOD: Duration = Duration::from_secs(60);
/// How long after the last cookie one may still come back.
pub(super) const LIFE: Duration = Duration::from_secs(120);
/// The MSS that a cookie can express, rising: never more than the peer said. The floor of
/// `handshake.rs`; the default of RFC 9293; IPv6's least; a tunnel's; PPPoE's; Ethernet's for both
/// families; jumbo frames'.
const CLASSES: [u16; 8] = [48, 536, 1220, 1360, 1432, 1440, 1460, 8920];
const CLASS_SHIFT: u32 = 28;
const HASH_MASK: u32 = (1 << CLASS_SHIFT) - 1;
/// No window scale in the four bits for it: RFC 7323 allows up to 14.
const NO_SCALE: u8 = 15;
/// Bits of a time stamp that carry options.
const TIMESTAMP_BITS: u32 = 6;
const _: () = assert!(CLASSES.len() == 1 << 3);

/// What a SYN offered beside its MSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extras {
    /// Shift of the peer's windows.
    pub(super) scale: Option<u8>,
    /// Selective acknowledgements.
    pub(super) sack: bool,
    /// Explicit congestion notification.
    pub(super) ecn: bool,
}

/// What a cookie stands for: who, and what cannot change between the SYN and its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) key: &'a HashKey,
    pub(super) ends: &'a FourTuple,
    /// The peer's initial sequence number.
    pub(super) irs: SeqNum,
    /// It offered time stamps.
    pub(super) timestamps: bool,
}

impl Asked<'_> {
    /// Our initial sequence number in answer to a SYN that offered `mss`.
    pub(super) fn cookie(&self, mss: u16, now: Instant) -> SeqNum {
        let class = CLASSES.iter().rposition(|&c| c <= mss).unwrap_or(0) as u32;
        self.number(class, period(now))
    }

    /// The MSS that `iss` stands for, if we made it lately.
    pub(super) fn check(&self, iss: SeqNum, now: Instant) -> Option<u16> {
        let fields = iss.0.wrapping_sub(self.cover());
        let class = fields >> CLASS_SHIFT & 7;
        let current = period(now);
        let made = if current & 1 == u64::from(fields >> 31) {
            current
        } else {
            current.checked_sub(1)?
        };
        if self.number(class, made) != iss {
            return None;
        }
        CLASSES.get(class as usize).copied()
    }

    fn number(&self, class: u32, period: u64) -> SeqNum {
        let mut bytes = [0; 36 + 4 + 8 + 2];
        let (ends, rest) = bytes.split_at_mut(36);
        ends.copy_from_slice(&self.ends.bytes());
        let (irs, rest) = rest.split_at_mut(4);
        irs.copy_from_slice(&self.irs.0.to_be_bytes());
        let (minute, rest) = rest.split_at_mut(8);
        minute.copy_from_slice(&period.to_be_bytes());
        rest.copy_from_slice(&[class as u8, u8::from(self.timestamps)]);
        let hash = self.key.hash(Purpose::SynCookie, &bytes) as u32 & HASH_MASK;
        let fields = ((period & 1) as u32) << 31 | class << CLASS_SHIFT | hash;
        SeqNum(self.cover().wrapping_add(fields))
    }

    /// F(ends): what hides the fields.
    fn cover(&self) -> u32 {
        let purpose = Purpose::InitialSequence;
        self.key.hash(purpose, &self.ends.bytes()) as u32
    }
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / PERIOD.as_nanos() as u64
}

/// The time stamp `clock` with the options in its low bits, never ahead of the clock: later ones
/// must not seem older.
pub(super) fn mark_timestamp(clock: u32, extras: Extras) -> u32 {
    let Extras { scale, sack, ecn } = extras;
    let scale = scale.map_or(NO_SCALE, |s| s.min(14));
    let bits = u32::from(scale) | u32::from(sack) << 4 | u32::from(ecn) << 5;
    let marked = clock >> TIMESTAMP_BITS << TIMESTAMP_BITS | bits;
    if marked > clock {
        marked.wrapping_sub(1 << TIMESTAMP_BITS)
    } else {
        marked
    }
}

/// The options in a time stamp that came back.
pub(super) fn read_timestamp(echo: u32) -> Extras {
    let scale = (echo & 15) as u8;
    Extras {
        scale: (scale != NO_SCALE).then_some(scale),
        sack: echo & 16 != 0,
        ecn: echo & 32 != 0,
    }
}

#[cfg(test)]
mod tests;
