//! `TCP_INFO` in Linux's layout.

use crate::object::Found;
use crate::state::State;
use gannet_local::Figures;
use gannet_local::options::CONGESTION;
use gannet_local::service::{self, Question};
use gannet_local::slot::State as Standing;
use gannet_local::slot::{flags, sent};
use libc::c_int;

/// What the kernel says where the slow start has no limit yet.
const NO_THRESHOLD: u32 = 0x7fff_ffff;
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

/// Has the carrier say it anew. One that does not answer has said enough before.
pub(crate) fn ask_for_figures(state: &State, object: &Found) {
    let slot = state.arena().own(object.slot());
    let carried = slot.flags() & flags::CARRIED != 0 && slot.flags() & flags::HUNG_UP == 0;
    if carried && object.theirs().is_some() {
        let question = Question::Figures(slot.peer_name().slot);
        let _ = service::ask(state.peers().network(), state.host(), &question);
    }
}

/// The structure, as bytes.
pub(crate) fn bytes(state: &State, object: &Found, fd: c_int) -> Vec<u8> {
    ask_for_figures(state, object);
    let mut bytes = vec![0u8; LEN];
    let slot = state.arena().own(object.slot());
    let stream = object.stream(state, fd);
    let mut put = |at: usize, value: &[u8]| {
        if let Some(place) = bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    };
    let ring = state.arena().geometry().ring;
    let path = figures(state, object).unwrap_or(without_a_path(ring, stream.unread()));
    put(0, &[standing(state, object, fd, &path)]);
    put(1, &[path.loss_state as u8]);
    let mss = path.send_mss.max(1);
    put(5, &path.options.to_le_bytes()[..2]);
    put(8, &path.rto.to_ne_bytes());
    put(12, &40_000u32.to_ne_bytes());
    put(16, &mss.to_ne_bytes());
    put(20, &path.receive_mss.to_ne_bytes());
    put(24, &path.in_flight.div_ceil(mss).to_ne_bytes());
    put(28, &path.sacked.div_ceil(mss).to_ne_bytes());
    put(52, &path.since_received.to_ne_bytes());
    put(60, &mtu(&path, slot.remote().is_ipv6()).to_ne_bytes());
    put(64, &ring.to_ne_bytes());
    put(68, &path.rtt.to_ne_bytes());
    put(72, &path.rtt_variation.to_ne_bytes());
    let threshold = match path.slow_start_threshold {
        u32::MAX => NO_THRESHOLD,
        bytes => bytes / mss,
    };
    put(76, &threshold.to_ne_bytes());
    put(80, &path.congestion_window.div_ceil(mss).to_ne_bytes());
    put(84, &mss.to_ne_bytes());
    put(88, &3u32.to_ne_bytes());
    put(96, &ring.to_ne_bytes());
    put(100, &path.retransmissions.to_ne_bytes());
    let rate = match path.pacing_rate {
        u32::MAX => u64::MAX,
        kilobytes => u64::from(kilobytes) * 1000,
    };
    put(104, &rate.to_ne_bytes());
    put(112, &u64::MAX.to_ne_bytes());
    let taken = slot.produced().wrapping_sub(stream.unread());
    let of_tcp = match path.state {
        0 => 0,
        _ => u64::from(path.in_flight) + u64::from(path.unsent),
    };
    put(120, &taken.saturating_sub(of_tcp).to_ne_bytes());
    put(
        128,
        &slot.consumed().wrapping_add(stream.waiting()).to_ne_bytes(),
    );
    put(136, &path.segments_sent.to_ne_bytes());
    put(140, &path.segments_received.to_ne_bytes());
    // What the carrier has not taken yet is not sent either.
    let in_ring = if path.state == 0 { 0 } else { stream.unread() };
    let unsent = u64::from(path.unsent) + in_ring;
    put(144, &(unsent as u32).to_ne_bytes());
    put(148, &path.rtt_min.to_ne_bytes());
    let times = [path.busy, path.window_limited, path.buffer_limited];
    for (at, [low, high]) in [168, 176, 184].into_iter().zip(times) {
        put(at, &(u64::from(low) | u64::from(high) << 32).to_ne_bytes());
    }
    put(200, &slot.produced().to_ne_bytes());
    put(228, &path.send_window.to_ne_bytes());
    put(232, &path.receive_window.to_ne_bytes());
    bytes
}

/// What the congestion control in use says of itself (`TCP_CC_INFO`); CUBIC and Reno say nothing,
/// as at the kernel, and between two programs there is none.
pub(crate) fn of_control(state: &State, object: &Found) -> Vec<u8> {
    ask_for_figures(state, object);
    let Some(path) = figures(state, object) else {
        return Vec::new();
    };
    let name = (path.congestion_control as usize).checked_sub(1);
    let words = match name.and_then(|n| CONGESTION.get(n)) {
        Some(&"bbr") => 5,
        Some(&"dctcp") => 4,
        _ => 0,
    };
    let words = path.control_state.into_iter().take(words);
    words.flat_map(u32::to_ne_bytes).collect()
}

/// Between two programs nothing is lost or late: as over the kernel's loopback.
fn without_a_path(ring: u32, unread: u64) -> Figures {
    Figures {
        rtt: 10,
        rtt_variation: 5,
        rto: 200_000,
        congestion_window: ring,
        slow_start_threshold: u32::MAX,
        send_mss: LARGEST,
        receive_mss: LARGEST,
        in_flight: unread as u32,
        send_window: ring,
        options: 0x7707,
        receive_window: ring,
        pacing_rate: u32::MAX,
        ..Figures::default()
    }
}

/// Longest packet of the path, from the largest text of a segment.
fn mtu(path: &Figures, six: bool) -> u32 {
    const TCP: u32 = 20;
    let ip = if six { 40 } else { 20 };
    let stamps = if path.options & 1 != 0 { 12 } else { 0 };
    match path.send_mss {
        LARGEST => 65_535,
        mss => mss.saturating_add(TCP + ip + stamps),
    }
}

/// The state, by its number in Linux: TCP's own where there is TCP.
fn standing(state: &State, object: &Found, fd: c_int, path: &Figures) -> u8 {
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
        (true, _, _) => CLOSE,
        _ if path.state != 0 => path.state as u8,
        (_, true, true) => CLOSE,
        (_, true, false) => FIN_WAIT2,
        (_, false, true) => CLOSE_WAIT,
        _ => Standing::Established as u8,
    }
}
