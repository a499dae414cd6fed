//! `TCP_INFO` in Linux's layout.

use crate::object::Found;
use crate::state::State;
use gannet_local::Figures;
use gannet_local::slot::State as Standing;
use gannet_local::slot::sent;
use libc::c_int;

/// Bytes of `struct tcp_info` that are filled in.
const LEN: usize = 248;
/// Largest payload of one segment where there are no segments: what the kernel's loopback says.
const LARGEST: u32 = 65_483;

/// What the carrier says of the connection behind a stream; `None` between two programs.
pub(crate) fn figures(state: &State, object: &Found) -> Option<Figures> {
    let slot = state.arena().own(object.slot());
    let figures = object.theirs()?.peer(slot.peer_name().slot).figures();
    (figures.rto != 0).then_some(figures)
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
    let ring = state.arena().geometry().ring;
    let path = figures(state, object).unwrap_or(Figures {
        // Between two programs nothing is lost or late: as over the kernel's loopback.
        rtt: 10,
        rtt_variation: 5,
        rto: 200_000,
        congestion_window: ring,
        slow_start_threshold: u32::MAX,
        send_mss: LARGEST,
        receive_mss: LARGEST,
        in_flight: stream.unread() as u32,
        send_window: ring,
        options: 0x7707,
        ..Figures::default()
    });
    let mss = path.send_mss.max(1);
    put(5, &path.options.to_le_bytes()[..2]);
    put(8, &path.rto.to_ne_bytes());
    put(12, &40_000u32.to_ne_bytes());
    put(16, &mss.to_ne_bytes());
    put(20, &path.receive_mss.to_ne_bytes());
    put(24, &path.in_flight.div_ceil(mss).to_ne_bytes());
    put(60, &65_535u32.to_ne_bytes());
    put(64, &ring.to_ne_bytes());
    put(68, &path.rtt.to_ne_bytes());
    put(72, &path.rtt_variation.to_ne_bytes());
    put(76, &(path.slow_start_threshold / mss).to_ne_bytes());
    put(80, &path.congestion_window.div_ceil(mss).to_ne_bytes());
    put(84, &mss.to_ne_bytes());
    put(88, &3u32.to_ne_bytes());
    put(96, &ring.to_ne_bytes());
    put(100, &path.retransmissions.to_ne_bytes());
    let acked = slot.produced().wrapping_sub(stream.unread());
    put(120, &acked.to_ne_bytes());
    put(
        128,
        &slot.consumed().wrapping_add(stream.waiting()).to_ne_bytes(),
    );
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
