//! What a connection knows about itself.
#![allow(unsafe_code)]

use crate::error::guarded;
use crate::memory::put_first;
use crate::tcp::{STREAMS, gannet_tcp};
use gannet::{TcpInfo, TcpState};
use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

/// What gannet_tcp_describe tells. Times in nanoseconds, sizes in bytes. Later versions add fields
/// at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gannet_tcp_info {
    /// State, numbered as in Linux's struct tcp_info: see gannet_tcp_state_name.
    pub state: u32,
    /// Largest segment we send, without headers.
    pub send_mss: u32,
    /// Round trip, smoothed; 0 before it was measured.
    pub rtt_ns: u64,
    /// Its variation.
    pub rtt_variation_ns: u64,
    /// The shortest round trip.
    pub rtt_min_ns: u64,
    /// Retransmission time-out.
    pub rto_ns: u64,
    /// Congestion window.
    pub congestion_window: u32,
    /// Slow start threshold.
    pub slow_start_threshold: u32,
    /// Window that the peer offers.
    pub send_window: u32,
    /// Window that we offer.
    pub receive_window: u32,
    /// Sent and not acknowledged.
    pub in_flight: u32,
    /// Written and not sent.
    pub unsent: u32,
    /// Received and not read.
    pub unread: u32,
    /// Received behind a hole.
    pub out_of_order: u32,
    /// Size of the send buffer.
    pub send_buffer: u32,
    /// Size of the receive buffer.
    pub receive_buffer: u32,
    /// Bytes that the peer has acknowledged.
    pub bytes_acknowledged: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent.
    pub segments_sent: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Losses that were found without a time-out.
    pub fast_recoveries: u64,
    /// Bytes each second that leave at most; 0: not limited.
    pub pacing_rate: u64,
}

const _: () = assert!(size_of::<gannet_tcp_info>() == 12 * 8 + 12 * 4);

/// Describes the connection: writes the first `size` bytes of what this version knows to `*info`;
/// `size` is sizeof *info, whichever version the program was built with.
///
/// Returns 0; -1 with ENOTCONN when it has ended and nothing is left of it.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_describe(
    tcp: *const gannet_tcp,
    info: *mut gannet_tcp_info,
    size: usize,
) -> c_int {
    guarded(-1, || {
        let told = told(&STREAMS.get(tcp)?.socket.info()?);
        // SAFETY: the caller's promise; the structure has no padding.
        unsafe { put_first(info, size, told) }.map(|()| 0)
    })
}

fn told(info: &TcpInfo) -> gannet_tcp_info {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let measured = |time: Option<Duration>| time.map_or(0, nanos);
    gannet_tcp_info {
        state: number(info.state),
        send_mss: info.send_mss,
        rtt_ns: measured(info.rtt),
        rtt_variation_ns: measured(info.rtt_variation),
        rtt_min_ns: measured(info.rtt_min),
        rto_ns: nanos(info.rto),
        congestion_window: info.congestion_window,
        slow_start_threshold: info.slow_start_threshold,
        send_window: info.send_window,
        receive_window: info.receive_window,
        in_flight: info.in_flight,
        unsent: info.unsent,
        unread: info.unread,
        out_of_order: info.out_of_order,
        send_buffer: info.send_buffer,
        receive_buffer: info.receive_buffer,
        bytes_acknowledged: info.bytes_acknowledged,
        bytes_received: info.bytes_received,
        segments_sent: info.segments_sent,
        segments_received: info.segments_received,
        retransmissions: info.retransmissions,
        timeouts: info.timeouts,
        fast_recoveries: info.fast_recoveries,
        pacing_rate: info.pacing_rate.unwrap_or(0),
    }
}

/// Every state, with its number in Linux's `struct tcp_info`.
const STATES: [(u32, TcpState, &CStr); 10] = [
    (1, TcpState::Established, c"ESTABLISHED"),
    (2, TcpState::SynSent, c"SYN-SENT"),
    (3, TcpState::SynReceived, c"SYN-RECEIVED"),
    (4, TcpState::FinWait1, c"FIN-WAIT-1"),
    (5, TcpState::FinWait2, c"FIN-WAIT-2"),
    (6, TcpState::TimeWait, c"TIME-WAIT"),
    (7, TcpState::Closed, c"CLOSED"),
    (8, TcpState::CloseWait, c"CLOSE-WAIT"),
    (9, TcpState::LastAck, c"LAST-ACK"),
    (11, TcpState::Closing, c"CLOSING"),
];

fn number(state: TcpState) -> u32 {
    let row = STATES.iter().find(|(_, s, _)| *s == state);
    row.map_or(0, |(number, ..)| *number)
}

/// The name of a state in gannet_tcp_info, such as "ESTABLISHED"; "?" for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_tcp_state_name(state: u32) -> *const c_char {
    let row = STATES.iter().find(|(number, ..)| *number == state);
    row.map_or(c"?", |(.., name)| name).as_ptr()
}
