//! Segment arrival in the synchronised states (RFC 9293 section 3.10.7.4), as a list of steps in
//! the RFC's order: sequence, reset, (security), SYN, ACK, URG, text, FIN. Each step says whether
//! to go on; none sends anything: owed acknowledgements leave through `output.rs`.

use core::time::Duration;

use gannet_link::{Driver, Frame};
use gannet_wire::tcp::Flags;

use super::black_hole::BlackHole;
use super::connection::{Connection, Cx, Open, State, TimeWait};
use super::counters::TcpEvent;
use super::ecn::Echo;
use super::error::TcpError;
use super::fast_open;
use super::handshake::drop_frame;
use super::notice::{Acked, Notice};
use super::output;
use super::recv::AckOwed;
use super::recv_queue::keep_payload;
use super::segment::Segment;
use super::seq::SeqNum;
use super::transitions::{Event, Phase};
use super::window::UnscaledWindow;
use crate::link::LinkId;

/// What a step decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Go on with the next step.
    Go,
    /// The segment ends here, counted under this.
    Drop(TcpEvent),
    /// The same, and an acknowledgement tells the peer where we are.
    Ack(TcpEvent),
    /// The same, but rarely: RFC 5961's challenge.
    Challenge(TcpEvent),
    /// The connection ends here.
    Fail(TcpError),
    /// Text for somebody who has gone: reset.
    Refuse,
}

/// A segment arrives for an open connection. `link` is where its frame came in; its ranges are kept
/// or released here.
pub(super) fn arrives<D: Driver>(
    conn: &mut Connection,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &mut Segment,
    frame: &mut Frame,
) {
    let State::Open(open) = &mut conn.state else {
        return drop_frame(cx, link, frame);
    };
    if open.straight && cx.config.straight_line && straight_line(open, cx, link, seg, frame) {
        return;
    }
    if open.fast.is_some() && !fast_open::arrives_before_ack(conn, cx, link, seg, frame) {
        return;
    }
    let State::Open(open) = &mut conn.state else {
        return;
    };
    if open.recv.owed != AckOwed::No && open.recv.ecn.look(seg.ce, seg.len > 0) == Echo::Split {
        output::acknowledge_before(conn, cx);
    }
    let State::Open(open) = &mut conn.state else {
        return;
    };
    let urgent = open.recv.urgent_end;
    let step = steps(open, cx, link, conn.attached, seg, frame);
    if open.send.probes_size() && BlackHole::on_answer(open, &conn.path, cx.now) {
        cx.counters.add(TcpEvent::MtuProbeFailed);
    }
    open.refresh();
    if step == Step::Go {
        conn.settings.user_timeout.take(&seg.options);
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
    //# A TCP implementation MUST (MUST-32) inform the application layer asynchronously whenever it
    //# receives an urgent pointer and there was previously no pending urgent data, or whenever the
    //# urgent pointer advances in the data stream.
    conn.news |= open.recv.urgent_end != urgent;
    match step {
        Step::Go => {}
        Step::Drop(why) => cx.counters.add(why),
        Step::Ack(why) => {
            cx.counters.add(why);
            open.recv.ack_now();
        }
        Step::Challenge(why) => {
            cx.counters.add(why);
            output::challenge(conn, cx);
        }
        Step::Fail(error) => {
            cx.counters.add(TcpEvent::ResetReceived);
            if let Some(fast) = &open.fast {
                fast.was_reset(cx.now);
            }
            conn.fail(cx.ip, Some(error));
        }
        Step::Refuse => {
            cx.counters.add(TcpEvent::UnexpectedText);
            output::send_reset(conn, cx);
            conn.fail(cx.ip, None);
        }
    }
}

/// The steps in order. Whatever is left of the frame when one ends the segment is released.
fn steps<D: Driver>(
    open: &mut Open,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    attached: bool,
    seg: &mut Segment,
    frame: &mut Frame,
) -> Step {
    let start = seg.seq;
    let mut step = check_sequence(open, cx, seg, frame);
    if step == Step::Go {
        step = check_reset(open, seg);
    }
    if step == Step::Go {
        step = check_syn(seg);
    }
    if step == Step::Go {
        step = check_ack(open, cx, link, seg);
    }
    if step == Step::Go {
        open.heard(cx.now);
        // only now: a forger who hits the window, but not the acknowledgement, must not set the
        // time by which others are judged (PAWS poisoning)
        if let Some((value, _)) = seg.timestamps.filter(|_| open.timestamps) {
            open.recv.record_timestamp(start, value, cx.now);
        }
        check_urgent(open, seg);
        check_marks(open, seg);
        if seg.len > 0 && !attached && open.phase.takes_text() {
            step = Step::Refuse;
        }
    }
    if step == Step::Go {
        take_text(open, cx, link, seg, frame)
    } else {
        drop_frame(cx, link, frame);
        step
    }
}

/// The straight-line path: an ordinary segment, next in order, on a connection with no special
/// condition. `false`, and nothing has happened, when it is not such a segment.
#[inline]
fn straight_line<D: Driver>(
    open: &mut Open,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &Segment,
    frame: &Frame,
) -> bool {
    let timestamps = open.timestamps;
    let Open { send, recv, .. } = &*open;
    let ordinary = seg.plain
        && seg.flags.difference(Flags::PSH) == Flags::ACK
        && seg.seq == recv.nxt
        && seg.len <= recv.wnd()
        && seg.timestamps.is_some() == timestamps
        && seg.ack - send.una <= send.max - send.una;
    if !ordinary {
        return false;
    }
    if let Some((value, _)) = seg.timestamps {
        if value.wrapping_sub(recv.ts_recent) as i32 >= 0 && !planted!(PawsWithoutWrap) {
            open.recv.record_timestamp(seg.seq, value, cx.now);
        } else {
            return false;
        }
    }
    open.heard(cx.now);
    let send = &mut open.send;
    cx.counters.add(TcpEvent::Straight);
    let window = UnscaledWindow(seg.window).scale(send.scale);
    let news = seg.ack != send.una || window.0 != send.wnd || seg.len == 0;
    if news {
        acknowledge(open, cx, link, seg);
        if !open.send.is_plain() {
            open.refresh();
        }
    } else {
        send.no_news(seg.seq, seg.ack);
        if let Some(age) = echo_age(open, seg, cx.now) {
            open.recv.rtt.on_timestamp(age);
        }
    }
    if seg.len > 0 {
        receive_in_order(open, cx, link, seg, frame);
    } else {
        drop_frame(cx, link, frame);
        if planted!(AckStorm) {
            open.recv.ack_now();
        }
    }
    true
}

/// First: is the segment within the window (and not an old one, RFC 7323)? Cuts off what is not.
fn check_sequence<D: Driver>(
    open: &mut Open,
    cx: &mut Cx<'_, D>,
    seg: &mut Segment,
    frame: &mut Frame,
) -> Step {
    let recv = &mut open.recv;
    //= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
    //# When an <RST> segment is received, it MUST NOT be subjected to the PAWS check by verifying
    //# an acceptable value in SEG.TSval, and information from the Timestamps option MUST NOT be
    //# used to update connection state information.
    //= https://www.rfc-editor.org/rfc/rfc7323#section-5.3
    //# If the PAWS algorithm is used, the following processing MUST be performed on all incoming
    //# segments for a synchronized connection.
    //= https://www.rfc-editor.org/rfc/rfc7323#section-5.3
    //# Also, PAWS processing MUST take precedence over the regular TCP acceptability check (Section
    //# 3.3 in [RFC0793]), which is performed after verification of the received Timestamps option:
    //= https://www.rfc-editor.org/rfc/rfc7323#section-5.3
    //# It is important to note that the timestamp MUST be checked only when a segment first arrives
    //# at the receiver, regardless of whether it is in sequence or it must be queued for later
    //# delivery.
    if open.timestamps && !seg.rst() {
        match seg.timestamps {
            //= https://www.rfc-editor.org/rfc/rfc7323#section-5.3
            //# R1)  If there is a Timestamps option in the arriving segment,
            //# SEG.TSval < TS.Recent, TS.Recent is valid (see later
            //# discussion), and if the RST bit is not set, then treat the
            //# arriving segment as not acceptable:
            Some((value, _)) if recv.is_old(value, cx.now) => {
                return Step::Challenge(TcpEvent::OldTimestamp);
            }
            Some(_) => {}
            //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
            //# If a non-<RST> segment is received without a TSopt, a TCP SHOULD
            //# silently drop the segment.
            //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
            //# A TCP MUST NOT abort a TCP connection because any segment lacks an expected TSopt.
            None => return Step::Drop(TcpEvent::MissingTimestamp),
        }
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4
    //# A TCP receiver MUST process the RST and URG fields of all incoming segments, even when the
    //# receive window is zero (MUST-66).
    let zero_window = recv.wnd() == 0 && seg.seq == recv.nxt;
    if !recv.acceptable(seg) && !zero_window {
        if seg.rst() {
            //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
            //# In all other cases, where the SEQ-field does not match and is outside the window,
            //# the receiver MUST silently discard the segment.
            //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
            //# In all other cases the receiver MUST silently discard the segment.
            return Step::Drop(TcpEvent::InexactReset);
        }
        if seg.syn() {
            return Step::Challenge(TcpEvent::UnexpectedSyn);
        }
        let old_end = seg.seq + seg.len;
        let again = seg.len > 0 && old_end.before_eq(open.recv.nxt) && open.send.sack;
        if again && acceptable_ack(open, seg) {
            open.recv.sack.on_duplicate((seg.seq, old_end));
        }
        if seg.fin() && open.phase == Phase::TimeWait && old_end + 1 == open.recv.nxt {
            // our last ACK was lost: 2 MSL begin again
            open.linger_until = cx.now + cx.config.time_wait;
        }
        return tell(open, seg, TcpEvent::OutOfWindow);
    }
    if !seg.syn() && !seg.rst() {
        trim(open, seg, frame);
    }
    Step::Go
}

/// The answer to an unacceptable segment. A retransmission, whose acknowledgement was lost, is
/// answered at once; what carries nothing, or does not look like anything that the peer can have
/// sent, rarely: two ends that disagree about where they are would answer each other for ever, and
/// a forger would make us send as much as he does.
fn tell(open: &Open, seg: &Segment, why: TcpEvent) -> Step {
    let back = open.recv.nxt - seg.seq;
    let again = seg.seq_len() > 0 && back <= open.recv.buffer.max(65_535).saturating_mul(2);
    match again && seg.has_ack() && acceptable_ack(open, seg) {
        true => Step::Ack(why),
        false => Step::Challenge(why),
    }
}

/// Cuts off what was received before and what lies beyond the window.
fn trim(open: &mut Open, seg: &mut Segment, frame: &mut Frame) {
    let front = open.recv.nxt.since(seg.seq).max(0) as u32;
    let front = front.min(seg.len);
    let start = seg.seq + front;
    let keep = open.recv.edge.since(start).max(0) as u32;
    // (what acknowledges nothing that can be true is a forger's, who is not answered every time)
    if (front > 0 || keep < seg.len - front) && seg.has_ack() && acceptable_ack(open, seg) {
        if front > 0 && open.send.sack {
            open.recv.sack.on_duplicate((seg.seq, start));
        }
        open.recv.ack_now();
    }
    seg.trim(frame, front, keep);
}

/// Second: RST (RFC 5961 section 3).
fn check_reset(open: &Open, seg: &Segment) -> Step {
    if !seg.rst() {
        return Step::Go;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# 3) If the RST bit is set and the sequence number does not exactly match the next expected
    //# sequence value, yet is within the current receive window, TCP endpoints MUST send an
    //# acknowledgment (challenge ACK):
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# After sending the challenge ACK, TCP endpoints MUST drop the unacceptable segment and stop
    //# processing the incoming packet further.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
    //# 2) If the RST bit is set and the sequence number exactly matches the next expected sequence
    //# number (RCV.NXT), then TCP MUST reset the connection.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
    //# 3) If the RST bit is set and the sequence number does not exactly match the next expected
    //# sequence value, yet is within the current receive window (RCV.NXT < SEG.SEQ <
    //# RCV.NXT+RCV.WND), TCP MUST send an acknowledgment (challenge ACK):
    //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
    //# After sending the challenge ACK, TCP MUST drop the unacceptable segment and stop processing
    //# the incoming packet further.
    if seg.seq != open.recv.nxt {
        return Step::Challenge(TcpEvent::InexactReset);
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# 2) If the RST bit is set and the sequence number exactly matches the next expected sequence
    //# number (RCV.NXT), then TCP endpoints MUST reset the connection in the manner prescribed
    //# below according to the connection state.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.5.3
    //# TCP implementations SHOULD allow a received RST segment to include data (SHLD-2).
    // (nothing here looks at its length)
    match open.phase {
        // RFC 1337 section 3, fix (F1): resets are ignored in TIME-WAIT
        Phase::TimeWait => Step::Drop(TcpEvent::Ignored),
        //= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
        //# Upon receipt of a valid RST, the local TCP endpoint MUST terminate its connection.
        _ => Step::Fail(TcpError::Reset),
    }
}

/// Fourth: SYN (RFC 5961 section 4).
//= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
//# After sending the acknowledgment, TCP MUST drop the unacceptable segment and stop processing
//# further.
fn check_syn(seg: &Segment) -> Step {
    //= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
    //# 1) If the SYN bit is set, irrespective of the sequence number, TCP
    //# MUST send an ACK (also referred to as challenge ACK) to the remote
    //# peer:
    if seg.syn() {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# RFC 5961 recommends that in these synchronized states, if the SYN bit is set,
        //# irrespective of the sequence number, TCP endpoints MUST send a "challenge ACK" to the
        //# remote peer:
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# After sending the acknowledgment, TCP implementations MUST drop the unacceptable
        //# segment and stop processing further.
        Step::Challenge(TcpEvent::UnexpectedSyn)
    } else {
        Step::Go
    }
}

/// Fifth: ACK.
fn check_ack<D: Driver>(open: &mut Open, cx: &mut Cx<'_, D>, link: LinkId, seg: &Segment) -> Step {
    //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
    //# When the ACK bit is not set, the receiver MUST ignore the value of the TSecr field.
    if !seg.has_ack() {
        return Step::Drop(TcpEvent::NoAck);
    }
    //= https://www.rfc-editor.org/rfc/rfc5961#section-5.2
    //# TCP stacks that implement this mitigation MUST add an additional input check to any incoming
    //# segment.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-5.2
    //# All incoming segments whose ACK value doesn't satisfy the above condition MUST be discarded
    //# and an ACK sent back.
    if !acceptable_ack(open, seg) {
        return Step::Challenge(TcpEvent::BadAck);
    }
    let acked = acknowledge(open, cx, link, seg);
    if acked.fin {
        let before = open.phase;
        open.phase = open.phase.after(Event::FinAcked);
        entered(open, cx, before);
    }
    Step::Go
}

/// Whether the segment acknowledges what was sent, and nothing too old to be true.
fn acceptable_ack(open: &Open, seg: &Segment) -> bool {
    let send = &open.send;
    //= https://www.rfc-editor.org/rfc/rfc5961#section-5.2
    //# The ACK value is considered acceptable only if
    //# it is in the range of ((SND.UNA - MAX.SND.WND) <= SEG.ACK <=
    //# SND.NXT).
    // all distances from the left end of that range, so that no number is both before and behind
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# TCP stacks that implement RFC 5961 MUST add an input check that the ACK value is
    //# acceptable only if it is in the range of ((SND.UNA - MAX.SND.WND) =< SEG.ACK =< SND.NXT).
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# All incoming segments whose ACK value doesn't satisfy the above condition MUST be
    //# discarded and an ACK sent back.
    let most = send.max_wnd.saturating_add(send.max - send.una);
    let left = send.una.0.wrapping_sub(send.max_wnd);
    seg.ack.0.wrapping_sub(left) <= most
}

/// How old the time stamp is that the segment echoes; `None` without one, or when it cannot be
/// ours.
#[inline]
fn echo_age(open: &Open, seg: &Segment, now: gannet_base::Instant) -> Option<Duration> {
    //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
    //# If a TSopt is received on a connection where TSopt was not negotiated in the initial
    //# three-way handshake, the TSopt MUST be ignored and the packet processed normally.
    let (_, echo) = seg.timestamps.filter(|_| open.timestamps)?;
    let age = open.timestamp(now).wrapping_sub(echo);
    (age < 1 << 30).then(|| Duration::from_millis(u64::from(age)))
}

/// Tells the sending half what the segment says.
#[inline]
fn acknowledge<D: Driver>(
    open: &mut Open,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &Segment,
) -> Acked {
    let notice = Notice {
        ack: seg.ack,
        seq: seg.seq,
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
        //# The window field (SEG.WND) in the header of every incoming segment, with the exception
        //# of <SYN> segments, MUST be left-shifted by Snd.Wind.Shift bits before updating SND.WND:
        window: UnscaledWindow(seg.window).scale(open.send.scale),
        has_text: seg.len > 0 || seg.fin(),
        sack: seg.options.sack,
        ece: seg.flags.contains(Flags::ECE) && open.send.ecn.is_on(),
        echo_age: echo_age(open, seg, cx.now),
    };
    if let Some(age) = notice.echo_age.filter(|_| seg.len > 0) {
        open.recv.rtt.on_timestamp(age);
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# If the ACK is a duplicate (SEG.ACK =< SND.UNA), it can be ignored.
    if notice.ack.before(open.send.una) {
        return Acked::default();
    }
    match cx.ip.endpoint(link) {
        Some(endpoint) => open.send.on_ack(&mut endpoint.pool, &notice, cx.now),
        None => Acked::default(),
    }
}

/// Marks of routers, and that the peer has slowed down (RFC 3168 section 6.1.3). Behind the check
/// of the window: what lies outside says nothing.
fn check_marks(open: &mut Open, seg: &Segment) {
    let (ce, text) = (seg.ce, seg.len > 0);
    if open.recv.ecn.look(ce, text) != Echo::Same {
        open.recv.ack_now();
    }
    let cwr = seg.flags.contains(Flags::CWR);
    open.recv.ecn.take(ce, cwr, text);
}

/// Sixth: URG. The pointer is remembered; the data stays in the stream (RFC 6093).
fn check_urgent(open: &mut Open, seg: &Segment) {
    if !seg.flags.contains(Flags::URG) || !open.phase.takes_text() || seg.urgent == 0 {
        return;
    }
    // never beyond the window: a pointer alone must not promise bytes without end
    let up = (seg.seq + u32::from(seg.urgent)).min(open.recv.edge);
    let newer = open.recv.up.is_none_or(|old| up.after(old));
    if newer && up.after(open.recv.nxt) {
        open.recv.up = Some(up);
        open.recv.urgent_end = open.recv.total + u64::from(up - open.recv.nxt);
    }
}

/// Seventh and eighth: text and FIN.
fn take_text<D: Driver>(
    open: &mut Open,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &Segment,
    frame: &Frame,
) -> Step {
    if !open.phase.takes_text() {
        drop_frame(cx, link, frame);
        if seg.seq_len() > 0 {
            return Step::Ack(TcpEvent::UnexpectedText);
        }
        return Step::Go;
    }
    if open.recv.contradicts_fin(seg) {
        drop_frame(cx, link, frame);
        return Step::Ack(TcpEvent::UnexpectedText);
    }
    let refused = match seg.seq == open.recv.nxt {
        true => open.recv.refuses_text(),
        false => open.recv.refuses_island(),
    };
    if seg.len > 0 && refused {
        drop_frame(cx, link, frame);
        no_memory(open, cx);
        return Step::Go;
    }
    if seg.fin() {
        open.recv.fin = Some(seg.seq + seg.len);
        open.recv.ack_now();
    }
    if seg.len == 0 {
        drop_frame(cx, link, frame);
        if seg.fin() {
            join(open, cx, link);
        }
    } else if seg.seq == open.recv.nxt {
        receive_in_order(open, cx, link, seg, frame);
    } else {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# Segments with higher beginning sequence numbers SHOULD be held for later processing
        //# (SHLD-31).
        receive_out_of_order(open, cx, link, seg, frame);
    }
    if open.recv.up.is_some_and(|up| up.before_eq(open.recv.nxt)) {
        open.recv.up = None;
    }
    Step::Go
}

/// The text of a SYN, which acknowledges nothing (RFC 7413): as much as the window takes.
pub(super) fn take_first_text<D: Driver>(
    open: &mut Open,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &mut Segment,
    frame: &mut Frame,
) {
    trim(open, seg, frame);
    // what was not taken comes again
    let _ = take_text(open, cx, link, seg, frame);
}

#[inline]
fn receive_in_order<D: Driver>(
    open: &mut Open,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &Segment,
    frame: &Frame,
) {
    let Some(at) = cx.ip.links.get_mut(link) else {
        return;
    };
    let recv = &mut open.recv;
    let gap = !recv.assembler.is_empty();
    let mut seq = seg.seq;
    let whole = keep_payload(at, frame, |endpoint, range| {
        match gap {
            false => recv.take_in_order(endpoint, range),
            true if seq.after(recv.nxt) => recv.take_out_of_order(endpoint, seq, range),
            true => recv.take_around_islands(endpoint, seq, range),
        }
        seq += range.len;
    });
    let taken = seq - seg.seq;
    if gap || recv.fin.is_some() {
        join(open, cx, link);
    }
    let recv = &mut open.recv;
    recv.owe_ack(taken, u32::from(seg.merged), cx.config.delayed_ack, cx.now);
    if gap {
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
        //# In addition, a TCP receiver SHOULD send an immediate ACK when the incoming segment
        //# fills in all or part of a gap in the sequence space.
        recv.ack_now();
    }
    if !open.timestamps {
        let wnd = recv.wnd();
        recv.rtt.on_data(recv.nxt, wnd, cx.now);
    }
    if !whole {
        no_memory(open, cx);
    }
}

fn receive_out_of_order<D: Driver>(
    open: &mut Open,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &Segment,
    frame: &Frame,
) {
    let Some(at) = cx.ip.links.get_mut(link) else {
        return;
    };
    let recv = &mut open.recv;
    let mut seq: SeqNum = seg.seq;
    let whole = keep_payload(at, frame, |endpoint, range| {
        recv.take_out_of_order(endpoint, seq, range);
        seq += range.len;
    });
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
    //# A TCP receiver SHOULD send an immediate duplicate ACK when an out-
    //# of-order segment arrives.
    recv.ack_now();
    if !whole {
        no_memory(open, cx);
    }
}

fn no_memory<D: Driver>(open: &mut Open, cx: &mut Cx<'_, D>) {
    cx.counters.add(TcpEvent::NoMemory);
    // a FIN behind text that was dropped has not arrived
    if open.recv.fin.is_some() && !open.recv.finished {
        open.recv.fin = None;
    }
    open.recv.ack_now();
}

/// Moves what has become contiguous to the reader, and the FIN if it is next.
fn join<D: Driver>(open: &mut Open, cx: &mut Cx<'_, D>, link: LinkId) {
    let Some(endpoint) = cx.ip.endpoint(link) else {
        return;
    };
    let finished = open.recv.finished;
    open.recv.join(endpoint);
    if open.recv.finished && !finished {
        open.recv.ack_now();
        let before = open.phase;
        open.phase = open.phase.after(Event::FinArrived);
        entered(open, cx, before);
    }
}

/// The phase may have changed from `before`.
fn entered<D: Driver>(open: &mut Open, cx: &mut Cx<'_, D>, before: Phase) {
    match open.phase {
        phase if phase == before => {}
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.6.1
        //# When a connection is closed actively, it MUST linger in the TIME-WAIT
        //# state for a time 2xMSL (Maximum Segment Lifetime) (MUST-13).
        Phase::TimeWait => {
            let wait = cx.config.time_wait * u32::from(!planted!(NoTimeWait));
            open.linger_until = cx.now + wait;
            open.send.timer = super::send::SendTimer::Off;
        }
        Phase::FinWait2 => open.linger_until = cx.now + cx.config.fin_wait_2,
        Phase::Closed => open.send.timer = super::send::SendTimer::Off,
        _ => {}
    }
}

/// TIME-WAIT after the application let go (RFC 9293 section 3.10.7.4; RFC 1122 section 4.2.2.13).
/// When the segment is a SYN that may open the connection anew: the old connection's last number.
pub(super) fn arrives_in_time_wait<D: Driver>(
    conn: &mut Connection,
    cx: &mut Cx<'_, D>,
    seg: &Segment,
) -> Option<SeqNum> {
    let State::TimeWait(wait) = &mut conn.state else {
        return None;
    };
    if seg.rst() || planted!(TimeWaitSilent) {
        cx.counters.add(TcpEvent::Ignored);
        return None;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.6.1
    //# This algorithm for reducing TIME-WAIT is a Best Current Practice that SHOULD be
    //# implemented since Timestamp Options are commonly used, and using them to reduce TIME-WAIT
    //# provides benefits for busy Internet servers (SHLD-4).
    if seg.syn() && !seg.has_ack() && opens_anew(wait, seg) {
        return Some(wait.snd_nxt);
    }
    if seg.fin() && seg.seq + seg.len + 1 == wait.rcv_nxt {
        wait.until = cx.now + cx.config.time_wait;
    }
    // an acknowledgement where it belongs is not answered: the peer may be in TIME-WAIT too
    let window = u32::from(wait.window).max(1);
    if seg.seq_len() > 0 || !seg.seq.in_range(wait.rcv_nxt, window) {
        let wait = *wait;
        output::send_time_wait_ack(conn, &wait, cx);
    }
    None
}

/// RFC 6191 section 2: whether the SYN comes from a later connection.
fn opens_anew(wait: &TimeWait, syn: &Segment) -> bool {
    let later = syn.seq.after(wait.rcv_nxt);
    match (syn.timestamps, wait.timestamps) {
        (Some((value, _)), Some((_, last))) if value == last => later,
        (Some((value, _)), Some((_, last))) => (value.wrapping_sub(last) as i32) > 0,
        (Some(_), None) => true,
        (None, _) => later,
    }
}
