//! What a connection's stack knows of it, as the program's library and `gannet ss` read it.

use gannet::{BusyTimes, CongestionControl, ControlState, LossState, TcpInfo, TcpState};
use gannet_local::Figures;
use gannet_local::options::CONGESTION;
use std::time::Duration;

fn microseconds(time: Option<Duration>) -> u32 {
    u32::try_from(time.unwrap_or_default().as_micros()).unwrap_or(u32::MAX)
}

/// The number of a state in Linux (`tcp_states.h`).
fn number(state: TcpState) -> u32 {
    match state {
        TcpState::Established => 1,
        TcpState::SynSent => 2,
        TcpState::SynReceived => 3,
        TcpState::FinWait1 => 4,
        TcpState::FinWait2 => 5,
        TcpState::TimeWait => 6,
        TcpState::Closed => 7,
        TcpState::CloseWait => 8,
        TcpState::LastAck => 9,
        TcpState::Closing => 11,
    }
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// The number of a state in Linux (`enum tcp_ca_state`).
fn loss_state(state: LossState) -> u32 {
    match state {
        LossState::Open => 0,
        LossState::Disorder => 1,
        LossState::Recovery => 3,
        LossState::Loss => 4,
    }
}

fn control_number(control: CongestionControl) -> u32 {
    let name = control.name();
    let place = CONGESTION.iter().position(|known| *known == name);
    place.map_or(0, |place| place as u32 + 1)
}

/// What a control says of itself: `struct tcp_bbr_info` or `struct tcp_dctcp_info`
/// (linux/inet_diag.h); of the others Linux says nothing more.
fn control_state(info: &TcpInfo) -> [u32; 5] {
    match info.control_state {
        ControlState::Window => [0; 5],
        ControlState::Bbr {
            bandwidth,
            min_rtt,
            pacing_gain,
            window_gain,
        } => {
            let [low, high] = halves(bandwidth);
            // BBR's unit is 1/256
            let gain = |percent: u32| percent * 256 / 100;
            let min_rtt = min_rtt.map_or(u32::MAX, |time| microseconds(Some(time)));
            [low, high, min_rtt, gain(pacing_gain), gain(window_gain)]
        }
        ControlState::Dctcp {
            alpha,
            acknowledged,
            marked,
        } => [u32::from(info.ecn), alpha, marked, acknowledged, 0],
    }
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// What is known of a connection.
pub(crate) fn of(info: &TcpInfo, since_received: Option<Duration>, busy: BusyTimes) -> Figures {
    let flag = |on: bool, bit: u32| u32::from(on) << bit;
    let (own, peers) = info.window_scale.unwrap_or_default();
    let scales = u32::from(peers & 15) << 8 | u32::from(own & 15) << 12;
    let rate = |bytes: u64| u32::try_from(bytes / 1000).unwrap_or(u32::MAX);
    Figures {
        rtt: microseconds(info.rtt),
        rtt_variation: microseconds(info.rtt_variation),
        rto: microseconds(Some(info.rto)),
        congestion_window: info.congestion_window,
        slow_start_threshold: info.slow_start_threshold,
        send_mss: info.send_mss,
        receive_mss: info.receive_mss,
        retransmissions: u32::try_from(info.retransmissions).unwrap_or(u32::MAX),
        in_flight: info.in_flight,
        send_window: info.send_window,
        unsent: info.unsent,
        options: flag(info.timestamps, 0)
            | flag(info.sack, 1)
            | flag(info.window_scale.is_some(), 2)
            | flag(info.ecn, 3)
            | scales,
        state: number(info.state),
        rtt_min: microseconds(info.rtt_min),
        receive_window: info.receive_window,
        segments_sent: info.segments_sent as u32,
        segments_received: info.segments_received as u32,
        pacing_rate: info.pacing_rate.map_or(u32::MAX, rate),
        out_of_order: info.out_of_order,
        sacked: info.sacked,
        loss_state: loss_state(info.loss_state),
        since_received: since_received.map_or(0, milliseconds),
        congestion_control: control_number(info.congestion_control),
        control_state: control_state(info),
        busy: halves(busy.busy.as_micros() as u64),
        window_limited: halves(busy.window_limited.as_micros() as u64),
        buffer_limited: halves(busy.buffer_limited.as_micros() as u64),
    }
}
