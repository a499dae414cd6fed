//! `TCP_INFO` in Linux's layout.

use crate::object::Found;
use crate::state::State;
use gannet_local::slot::State as Standing;
use gannet_local::slot::{flags, sent};
use libc::c_int;

/// Bytes of `struct tcp_info` that are filled in.
const LEN: usize = 248;
/// Largest payload of one segment where there are no segments: what the kernel's loopback says.
const LARGEST: u32 = 65_483;

/// Whether a stream that was accepted comes from the carrier.
pub(crate) fn is_carried(object: &Found) -> bool {
    object
        .theirs()
        .is_some_and(|theirs| !theirs.has_carrier() || theirs.is_gateway())
}

/// The structure, as bytes.
pub(crate) fn bytes(state: &State, object: &Found, fd: c_int) -> Vec<u8> {
    let mut bytes = vec![0u8; LEN];
    let slot = state.arena().own(object.slot());
    let stream = object.stream(state, fd);
    let mut put = |at: usize, value: &[u8]| {
        if let Some(place) = bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    };
    put(0, &[standing(state, object, fd)]);
    // Timestamps, SACK and window scaling: what both ends have.
    put(5, &[0x07, 0x77]);
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes();
    let path = object
        .theirs()
        .filter(|_| slot.flags() & flags::CARRIED != 0 || is_carried(object))
        .map(|theirs| theirs.peer(slot.peer_name().slot).path());
    let ring = state.arena().geometry().ring;
    let mss = path.map_or(LARGEST, |path| path.mss);
    put(8, &path.map_or(200_000, |path| path.rto).to_ne_bytes());
    put(12, &40_000u32.to_ne_bytes());
    put(16, &mss.to_ne_bytes());
    put(20, &mss.to_ne_bytes());
    put(24, &small(stream.unread().div_ceil(u64::from(mss.max(1)))));
    put(60, &65_535u32.to_ne_bytes());
    put(64, &ring.to_ne_bytes());
    put(68, &path.map_or(10, |path| path.rtt).to_ne_bytes());
    put(72, &path.map_or(5, |path| path.rtt_var).to_ne_bytes());
    put(76, &path.map_or(u32::MAX >> 1, |path| path.ssthresh).to_ne_bytes());
    put(80, &path.map_or(ring / mss.max(1), |path| path.cwnd).to_ne_bytes());
    put(84, &mss.to_ne_bytes());
    put(88, &3u32.to_ne_bytes());
    put(96, &ring.to_ne_bytes());
    put(100, &path.map_or(0, |path| path.retransmits).to_ne_bytes());
    let acked = slot.produced().wrapping_sub(stream.unread());
    put(120, &acked.to_ne_bytes());
    put(128, &slot.consumed().wrapping_add(stream.waiting()).to_ne_bytes());
    put(200, &slot.produced().to_ne_bytes());
    bytes
}

/// The state, by its number in Linux.
fn standing(state: &State, object: &Found, fd: c_int) -> u8 {
    const FIN_WAIT2: u8 = 5;
    const CLOSE: u8 = 7;
    const CLOSE_WAIT: u8 = 8;
    let slot = state.arena().own(object.slot());
    if slot.state() == Standing::SynSent {
        return Standing::SynSent as u8;
    }
    let ready = object.stream(state, fd).readiness();
    let finished = slot.sent() & sent::FIN != 0;
    match (ready.failed, finished, ready.ended) {
        (true, _, _) | (_, true, true) => CLOSE,
        (_, true, false) => FIN_WAIT2,
        (_, false, true) => CLOSE_WAIT,
        _ => Standing::Established as u8,
    }
}
