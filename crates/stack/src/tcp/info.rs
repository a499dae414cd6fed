//! What callers see of a connection.

use super::connection::{Connection, Open, State};
use super::recv::Recv;
use super::send::{Busy, Send};
use super::socket::{ControlState, LossState, TcpInfo, TcpStatus};
use core::time::Duration;
use gannet_base::Instant;

/// What can be done with it right now.
pub(super) fn status(conn: &Connection) -> TcpStatus {
    let read_closed = match &conn.state {
        State::Open(open) => open.recv.finished && open.recv.queue.len() == 0,
        State::SynSent(_) | State::SynReceived(_) | State::Dormant(_) => false,
        State::TimeWait(_) | State::Closed => true,
    };
    TcpStatus {
        state: conn.state_name(),
        readable: conn.is_readable(),
        writable: conn.is_writable(),
        read_closed,
        error: conn.error,
    }
}

/// What it knows about itself.
pub(super) fn info(conn: &Connection) -> TcpInfo {
    let mut info = TcpInfo {
        state: conn.state_name(),
        local: conn.local,
        remote: conn.remote,
        rtt: None,
        rtt_variation: None,
        rtt_min: None,
        rto: Duration::from_secs(1),
        send_mss: 0,
        receive_mss: 0,
        congestion_window: 0,
        slow_start_threshold: 0,
        send_window: 0,
        receive_window: 0,
        in_flight: 0,
        sacked: 0,
        loss_state: LossState::Open,
        last_received: None,
        unsent: 0,
        unread: 0,
        out_of_order: 0,
        send_buffer: conn.settings.send_buffer,
        receive_buffer: 0,
        bytes_acknowledged: 0,
        bytes_received: 0,
        segments_sent: conn.segments_sent,
        segments_received: conn.segments_received,
        retransmissions: 0,
        timeouts: 0,
        fast_recoveries: 0,
        spurious_recoveries: 0,
        tail_probes: 0,
        reordering_seen: false,
        window_scale: None,
        sack: false,
        timestamps: false,
        ecn: false,
        congestion_control: conn.settings.congestion,
        control_state: ControlState::default(),
        busy: Busy::default(),
        pacing_rate: None,
        time_to_live: conn.path.ttl,
        type_of_service: conn.path.tos,
        peer_user_timeout: conn.settings.user_timeout.remote(),
        soft_error: None,
    };
    if let State::SynSent(opening) | State::SynReceived(opening) = &conn.state {
        info.soft_error = opening.soft_error;
    }
    match &conn.state {
        State::Open(open) => describe(open, &mut info),
        State::Dormant(dormant) => describe(&dormant.unfold(Instant::ZERO), &mut info),
        _ => {}
    }
    info
}

fn describe(open: &Open, info: &mut TcpInfo) {
    describe_send(&open.send, info);
    describe_recv(&open.recv, info);
    info.timestamps = open.timestamps;
    let (ours, theirs) = (open.recv.scale.shift(), open.send.scale.shift());
    info.window_scale = (ours > 0 || theirs > 0).then_some((ours, theirs));
}

fn describe_send(send: &Send, info: &mut TcpInfo) {
    info.rtt = send.rtt.srtt();
    info.rtt_variation = send.rtt.rttvar();
    info.rtt_min = send.rtt.min_rtt();
    info.rto = send.rtt.rto();
    info.send_mss = send.mss;
    info.send_buffer = send.buffer_now();
    info.congestion_window = send.congestion.cwnd();
    info.slow_start_threshold = send.congestion.ssthresh();
    info.pacing_rate = send.pace();
    info.control_state = send.congestion.state();
    info.busy = send.busy;
    info.send_window = send.wnd;
    info.in_flight = send.max - send.una;
    info.sacked = send.sent.sacked();
    info.loss_state = send.loss_state();
    info.unsent = send.unsent();
    info.bytes_acknowledged = send.acknowledged;
    info.retransmissions = send.retransmissions;
    info.timeouts = send.timeouts;
    info.fast_recoveries = send.recoveries;
    info.spurious_recoveries = send.undone;
    info.tail_probes = send.tail_probes;
    info.reordering_seen = send.rack.reordering_seen();
    info.sack = send.sack;
    info.ecn = send.ecn.is_on();
    info.soft_error = send.soft_error;
}

fn describe_recv(recv: &Recv, info: &mut TcpInfo) {
    info.receive_mss = recv.mss;
    info.last_received = (recv.last_data > Instant::ZERO).then_some(recv.last_data);
    info.receive_window = recv.wnd();
    info.unread = recv.queue.len();
    info.out_of_order = recv.assembler.buffered_bytes();
    info.receive_buffer = recv.buffer;
    info.bytes_received = recv.total;
}
