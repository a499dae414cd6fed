//! Numbers that must not be guessed: initial sequence numbers (RFC 6528), time stamp offsets (RFC
//! 7323 section 7.1) and ephemeral ports (RFC 6056). All from one secret key and SipHash.

use alloc::boxed::Box;
use alloc::vec;
use core::net::SocketAddr;

use gannet_base::Instant;

use super::seq::SeqNum;
use crate::hash::{FourTuple, HashKey, Purpose};

/// Nanoseconds per step of the sequence number clock.
const ISN_CLOCK_NANOS: u64 = 4_000;

/// The initial sequence number for a new connection.
#[must_use]
pub fn initial_sequence(key: &HashKey, tuple: &FourTuple, now: Instant) -> SeqNum {
    //= https://www.rfc-editor.org/rfc/rfc6528#section-3
    //# ISN = M + F(localip, localport, remoteip, remoteport, secretkey)
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4.1
    //# F() MUST NOT be computable from the outside (MUST-9)
    let m = (now.as_nanos() / ISN_CLOCK_NANOS) as u32;
    let f = key.hash(Purpose::InitialSequence, &tuple.bytes()) as u32;
    SeqNum(m.wrapping_add(f))
}

/// What to add to the time stamp clock of a connection. The same for every connection with the
/// same four-tuple, so time stamps keep rising when one is opened again (TIME-WAIT, PAWS), and
/// unrelated between others, so they reveal neither uptime nor who shares a host.
#[must_use]
pub fn timestamp_offset(key: &HashKey, tuple: &FourTuple) -> u32 {
    key.hash(Purpose::TimestampOffset, &tuple.bytes()) as u32
}

/// Linux's default range.
pub const EPHEMERAL_FIRST: u16 = 32_768;
/// Last port of the range, included.
pub const EPHEMERAL_LAST: u16 = 60_999;
/// Counters of algorithm 4. Few let one server see how many connections others got (the RFC's
/// section 3.3.4); 8192 cost 16 KiB per host.
const COUNTERS: usize = 8192;
const _: () = assert!(COUNTERS.is_power_of_two());

/// Chooses ephemeral ports: RFC 6056 algorithm 4, "Double-Hash Port Selection".
#[derive(Debug)]
pub struct EphemeralPorts {
    key: HashKey,
    first: u16,
    /// Number of ports in the range, at least 1.
    count: u32,
    counters: Box<[u16]>,
}

impl EphemeralPorts {
    /// The default range.
    #[must_use]
    pub fn new(key: HashKey) -> Self {
        Self::with_range(key, EPHEMERAL_FIRST, EPHEMERAL_LAST)
    }

    /// Ports `first..=last`, in either order.
    #[must_use]
    pub fn with_range(key: HashKey, first: u16, last: u16) -> Self {
        let (first, last) = (first.min(last), first.max(last));
        let count = u32::from(last - first) + 1;
        Self {
            key,
            first,
            count,
            counters: vec![0; COUNTERS].into_boxed_slice(),
        }
    }

    /// A port for a connection from `local` (its port is ignored) to `remote`. `is_free` is asked
    /// for at most every port once; `None` when none is free.
    pub fn choose(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        is_free: &mut impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        let tuple = FourTuple {
            local: SocketAddr::new(local.ip(), 0),
            remote,
        };
        let bytes = tuple.bytes();
        let offset = self.key.hash(Purpose::PortOffset, &bytes) % u64::from(self.count);
        let index = self.key.hash(Purpose::PortCounter, &bytes) as usize & (COUNTERS - 1);
        let counter = self.counters.get_mut(index)?;
        for _ in 0..self.count {
            let at = (offset + u64::from(*counter)) % u64::from(self.count);
            *counter = ((u32::from(*counter) + 1) % self.count) as u16;
            let port = self.first + at as u16;
            if port != 0 && is_free(port) {
                return Some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
