//! What happens when a connection's time has come.

use gannet_base::Instant;
use gannet_link::Driver;

use super::black_hole::BlackHole;
use super::connection::{Connection, Cx, State};
use super::counters::TcpEvent;
use super::error::TcpError;
use super::fast_open;
use super::handshake::send_syn;
use super::output;
use super::recv::AckOwed;
use super::send::SendTimer;
use super::transitions::{Event, Phase};

/// Looks at every timer of the connection; those that expired act. Data that became due leaves with
/// the next output.
pub(super) fn expired<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    match &conn.state {
        State::SynSent(_) | State::SynReceived(_) => handshake_timer(conn, cx),
        State::Dormant(_) if conn.deadline(cx.config) > cx.now => {}
        State::Open(_) | State::Dormant(_) => {
            conn.wake(cx.now + cx.config.rest_after);
            pace_timer(conn, cx.now);
            send_timer(conn, cx);
            ack_timer(conn, cx);
            keep_alive_timer(conn, cx);
            linger_timer(conn, cx);
            mtu_timer(conn, cx);
        }
        State::TimeWait(wait) if wait.until <= cx.now => conn.state = State::Closed,
        State::TimeWait(_) | State::Closed => {}
    }
}

fn handshake_timer<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let (opening, most) = match &conn.state {
        State::SynSent(o) => (o, conn.settings.syn_retries(cx.config)),
        State::SynReceived(o) => (o, cx.config.syn_ack_retries),
        _ => return,
    };
    if opening.resend_at > cx.now {
        return;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
    //# SYN retransmissions MUST be handled in the general way just described for data
    //# retransmissions, including notification of the application layer.
    if opening.sent > most {
        let why = opening.soft_error.unwrap_or(TcpError::TimedOut);
        return conn.fail(cx.ip, Some(why));
    }
    if opening.sent > 1 {
        conn.path.header = None;
        cx.ip.suspect(cx.now, &conn.path);
    }
    send_syn(conn, cx);
}

/// Retransmissions in a row after which the application is told to look.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//# The value of R1 SHOULD correspond to at least 3 retransmissions, at the current RTO (SHLD-10).
const R1: u32 = 3;

fn send_timer<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let State::Open(open) = &mut conn.state else {
        return;
    };
    if open.send.deadline() > cx.now {
        return;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
    //# The following procedure MUST be used to handle excessive retransmissions of data segments
    //# (MUST-20):
    let retransmission = matches!(open.send.timer, SendTimer::Retransmit(_));
    let alive = open
        .send
        .on_timer(cx.now, u32::from(cx.config.data_retries));
    let waited = cx.now.saturating_duration_since(open.send.last_progress);
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
    //# (c) When the number of transmissions of the same segment reaches a
    //# threshold R2 greater than R1, close the connection.
    let orphan = (!conn.attached).then_some(cx.config.orphan_timeout);
    let limits = &cx.config.user_timeout;
    let user = conn.settings.user_timeout;
    let user = user.adopted(limits, open.send.rtt.rto());
    let given_up = [user, orphan]
        .into_iter()
        .flatten()
        .any(|most| waited >= most);
    // (a time takes the place of the number)
    if (!alive && user.is_none()) || given_up {
        let why = open.send.soft_error.unwrap_or(TcpError::TimedOut);
        return conn.fail(cx.ip, Some(why));
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
    //# (e) TCP implementations SHOULD inform the application of the delivery problem (unless such
    //# information has been disabled by the application; see the "Asynchronous Reports" section
    //# (Section 3.9.1.8)), when R1 is reached and before R2 (SHLD-9).
    conn.news |= retransmission && open.send.retries == R1;
    if retransmission {
        // perhaps the neighbour has moved: it is asked, and the link header looked up again
        conn.path.header = None;
        cx.ip.suspect(cx.now, &conn.path);
        open.template = None;
        if BlackHole::on_timeout(open, &conn.path, cx.now) {
            cx.counters.add(TcpEvent::BlackHole);
        }
    }
    open.refresh();
}

fn pace_timer(conn: &mut Connection, now: Instant) {
    if let State::Open(open) = &mut conn.state {
        open.send.on_pace_timer(now);
    }
}

fn mtu_timer<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    if let State::Open(open) = &mut conn.state
        && open.black_hole.raise_at <= cx.now
    {
        BlackHole::raise(open, &conn.path, cx.config.mtu_probing, cx.now);
    }
}

fn ack_timer<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    if let State::Open(open) = &mut conn.state
        && open.recv.owed == AckOwed::Later
        && open.recv.ack_at <= cx.now
    {
        open.recv.ack_now();
    }
}

fn keep_alive_timer<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let State::Open(open) = &mut conn.state else {
        return;
    };
    if open.keep_alive_at(&conn.settings, cx.config) > cx.now {
        return;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
    //# Keep-alive packets MUST only be sent when no sent data is outstanding, and no data or
    //# acknowledgment packets have been received for the connection within an interval (MUST-26).
    if open.send.outstanding() {
        // data under way probes the peer by itself
        open.heard_at = cx.now;
        return;
    }
    let silent = cx.now - open.heard_at;
    if conn
        .settings
        .is_given_up(open.keep_alive_probes, silent, cx.config)
    {
        output::send_reset(conn, cx);
        return conn.fail(cx.ip, Some(TcpError::TimedOut));
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
    //# Consequently, if a keep-alive mechanism is implemented it MUST NOT interpret failure to
    //# respond to any specific probe as a dead connection (MUST-29).
    open.keep_alive_probes += 1;
    output::send_keep_alive(conn, cx);
}

fn linger_timer<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let State::Open(open) = &mut conn.state else {
        return;
    };
    if open.linger_until > cx.now {
        return;
    }
    if open.fast.is_some() {
        open.linger_until = Instant::FAR_FUTURE;
        return fast_open::expired(conn, cx);
    }
    if open.phase == Phase::Established {
        return; // whether it may rest is looked at behind the timers
    }
    open.linger_until = Instant::FAR_FUTURE;
    match open.phase {
        Phase::TimeWait => open.phase = open.phase.after(Event::Expired),
        // only an orphan is not waited for for ever
        Phase::FinWait2 if !conn.attached => conn.fail(cx.ip, None),
        _ => {}
    }
}
