//! What leaves: the one door through which a synchronised connection sends.

use core::time::Duration;

use gannet_base::Instant;
use gannet_link::slot::INLINE_MAX;
use gannet_link::{Driver, Full, Range, Slot};
use gannet_wire::checksum::Sum;
use gannet_wire::tcp::Flags;
use gannet_wire::tcp::{HEADER_LEN, Options};

use super::bare::{send_bare, send_or_hold};
use super::connection::{Connection, Cx, Open, State, TimeWait};
use super::counters::TcpEvent;
use super::error::TcpError;
use super::header::{self, Outgoing, Template};
use super::recv::AckOwed;
use super::sack_blocks::blocks_that_fit;
use super::send::{Plan, Send, Why};
use super::send_queue::SendQueue;
use super::seq::SeqNum;
use super::transitions::Phase;
use crate::ip::{Path, Resolution};

/// How long a silent neighbour is waited for: the least that RFC 9293 section 3.8.3 allows for R2.
const UNREACHABLE_MAX: Duration = Duration::from_secs(100);
/// Longest IP packet that a frame holds, super-segments included.
const PACKET_MAX: u32 = 65_535;
/// Bytes of a TCP header with time stamps, the least a super-segment carries beside its IP header
/// and payload.
const TCP_HEADER: u32 = 32;

/// Sends what may be sent now: data and FIN as the windows allow, else an owed acknowledgement.
/// `false` when the link had no room and the rest must wait for the next poll.
pub(super) fn output<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) -> bool {
    match &conn.state {
        State::Open(open) if open.phase != Phase::Closed => {}
        _ => return true,
    }
    match cx.ip.resolve(cx.now, &mut conn.path) {
        Resolution::Ready => {}
        Resolution::Pending => return set_blocked(conn),
        Resolution::Failed => return unreachable(conn, cx),
    }
    let ports = (conn.local.port(), conn.remote.port());
    let Connection {
        state: State::Open(open),
        path,
        segments_sent,
        ..
    } = conn
    else {
        return true;
    };
    if open.template.is_none() && open.owed_timeout.is_none() {
        let template = Template::new(cx.ip, path, ports, open.timestamps);
        let ecn = &open.send.ecn;
        open.template = template.map(|t| t.marked(ecn.data_mark(), ecn.other_mark()));
        open.refresh();
    }
    open.blocked = false;
    let before = *segments_sent;
    let mut room = send_data(open, path, ports, cx, segments_sent);
    if *segments_sent == before && open.recv.owed == AckOwed::Now {
        room = send_ack(open, path, ports, cx, segments_sent);
    }
    open.send.adjust_timer(cx.now);
    open.blocked = !room;
    if open.phase == Phase::TimeWait && !conn.attached && open.recv.owed != AckOwed::Now {
        shrink_to_time_wait(conn, cx);
    }
    room
}

/// What stays of a connection in TIME-WAIT when nobody holds it any more.
fn shrink_to_time_wait<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let State::Open(open) = &mut conn.state else {
        return;
    };
    let wait = TimeWait {
        snd_nxt: open.send.max,
        rcv_nxt: open.recv.nxt,
        window: open.recv.advertise(),
        timestamps: open
            .timestamps
            .then(|| (open.timestamp(cx.now), open.recv.ts_recent)),
        until: open.linger_until,
    };
    conn.free(cx.ip);
    conn.state = State::TimeWait(wait);
}

/// The neighbour is silent. It may come back: that alone does not end a connection (RFC 1122
/// section 4.2.3.9), unless it lasts. Until then the neighbour is asked again now and then.
fn unreachable<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) -> bool {
    if let State::Open(open) = &conn.state {
        let waited = cx.now.saturating_duration_since(open.send.last_progress);
        if waited >= UNREACHABLE_MAX {
            conn.fail(cx.ip, Some(TcpError::HostUnreachable));
            return true;
        }
    }
    set_blocked(conn)
}

fn set_blocked(conn: &mut Connection) -> bool {
    if let State::Open(open) = &mut conn.state {
        open.blocked = true;
    }
    false
}

/// Everything the send half wants to send; `false` when the link is full.
fn send_data<D: Driver>(
    open: &mut Open,
    path: &Path,
    ports: (u16, u16),
    cx: &mut Cx<'_, D>,
    segments_sent: &mut u64,
) -> bool {
    if !open.phase.sends() {
        return true;
    }
    let limit = super_segment(cx, path);
    while let Some(plan) = open.send.next(limit, cx.now) {
        match send_plan(open, path, ports, cx, &plan) {
            Ok(len) => {
                if len == 0 && (plan.len > 0 || !plan.fin) {
                    return true;
                }
                *segments_sent += 1;
                open.send.on_sent(&plan, len, cx.now);
                open.recv.acked();
            }
            Err(Full) => return false,
        }
    }
    true
}

/// Most payload bytes one emission can carry on this path.
#[inline]
fn super_segment<D: Driver>(cx: &mut Cx<'_, D>, path: &Path) -> u32 {
    let segmentation = cx
        .ip
        .endpoint(path.link)
        .map_or(0, |e| e.capabilities().tcp_segmentation);
    segmentation.saturating_sub(path.ip_header_len() as u32 + TCP_HEADER)
}

/// Sends one planned segment, or the beginning of it when it has more pieces than fit; how many of
/// its bytes left.
fn send_plan<D: Driver>(
    open: &mut Open,
    path: &Path,
    ports: (u16, u16),
    cx: &mut Cx<'_, D>,
    plan: &Plan,
) -> Result<u32, Full> {
    let mut gathered = Gathered::default();
    let straight =
        open.straight && cx.config.straight_line && !plan.fin && plan.seq == open.send.max;
    let carries = match plan.len {
        0 => Carries::Nothing,
        _ => Carries::Text,
    };
    let mut out = outgoing(open, ports, cx, (path, plan.seq, carries));
    let head = match &open.template {
        Some(t) if straight => t.len(),
        _ => {
            tell_user_timeout(open, &mut out.options);
            header_len(path, &out.options)
        }
    };
    let most = ranges_that_fit(cx, path, head);
    let mss = open
        .send
        .mss
        .saturating_sub(extra_options(open, &out.options))
        .max(1);
    let wanted = wanted(open, plan, mss, path, &out.options);
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
    //# The transmitter SHOULD collapse successive bits when it packetizes data, to send the
    //# largest possible segment (SHLD-27).
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
    //# However, a TCP implementation SHOULD send a maximum-sized segment whenever possible
    //# (SHLD-28) to improve performance (see Section 3.8.6.2.1).
    gather(&mut open.send, plan, wanted, most, &mut gathered);
    let whole = gathered.len == plan.len;
    if !whole && gathered.len > mss {
        gathered.cut_to_multiple(mss);
    }
    if gathered.len == 0 && !plan.fin {
        return Ok(0);
    }
    let ends_queue = plan.seq + gathered.len == open.send.queue.end();
    if ends_queue && gathered.len > 0 {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
        //# If PUSH flags are not implemented, then the sending TCP peer: (1) MUST NOT buffer data
        //# indefinitely (MUST-60), and (2) MUST set the PSH bit in the last buffered segment
        //# (i.e., when there is no more queued data to be sent) (MUST-61).
        out.flags |= Flags::PSH;
    }
    if plan.fin && whole {
        out.flags |= Flags::FIN;
    }
    let new_data = gathered.len > 0 && plan.seq == open.send.max && plan.why <= Why::Size;
    out.flags |= window_reduced(&open.send, new_data);
    point_to_urgent(open, plan, &mut out);
    out.window = open.recv.advertise();
    let mut slot = Slot::new();
    let written = if straight {
        cx.counters.add(TcpEvent::FromTemplate);
        write_straight(open, cx, path, &out, &gathered, &mut slot)
    } else {
        let mark = open.send.ecn.mark(new_data);
        told_user_timeout(open, &out.options);
        write_general(cx, &path.marked(mark), &out, &gathered, &mut slot)
    };
    written.ok_or(Full)?;
    if gathered.len > mss && plan.why != Why::Size {
        slot.set_gso_size(piece_size(mss));
    }
    cx.ip.send(path, &slot)?;
    cx.counters.add(TcpEvent::Sent);
    if out.flags.contains(Flags::CWR) {
        open.send.ecn.cwr_sent();
    }
    Ok(gathered.len)
}

/// How much of `plan` one emission is to carry, in segments of `mss` bytes.
#[inline(always)]
fn wanted(open: &mut Open, plan: &Plan, mss: u32, path: &Path, options: &Options) -> u32 {
    // (an interface would repeat CWR in every piece that it cuts)
    if plan.len <= open.send.mss || open.send.ecn.owes_cwr() {
        return plan.len.min(mss);
    }
    if plan.why == Why::Size {
        // (its answer is looked for off the straight line)
        open.straight = false;
        return plan.len - (open.send.mss - mss);
    }
    // options beyond the ordinary ones may take what was left of the longest IP packet
    plan.len.min(PACKET_MAX - above_link(path, options) as u32)
}

/// The size of the pieces that an interface cuts.
#[inline]
fn piece_size(mss: u32) -> u16 {
    mss.min(65_535) as u16 + u16::from(planted!(MssOfCutting))
}

/// What new data says when the window was reduced since the last.
#[inline]
fn window_reduced(send: &Send, new_data: bool) -> Flags {
    //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
    //# When the TCP data sender is ready to set the CWR bit after reducing the congestion
    //# window, it SHOULD set the CWR bit only on the first new data packet that it transmits.
    if new_data && send.ecn.owes_cwr() {
        Flags::CWR
    } else {
        Flags::empty()
    }
}

/// Bytes that this segment's options take beyond those of ordinary segments.
fn extra_options(open: &Open, options: &Options) -> u32 {
    let ordinary = if open.timestamps { 12 } else { 0 };
    (options.encoded_len() as u32).saturating_sub(ordinary)
}

/// Bytes of IP and TCP headers.
#[inline]
fn above_link(path: &Path, options: &Options) -> usize {
    path.ip_header_len() + HEADER_LEN + options.encoded_len()
}

fn header_len(path: &Path, options: &Options) -> usize {
    let link = path.header.map_or(0, |h| h.as_slice().len());
    link + above_link(path, options)
}

/// Payload ranges that a slot with `head` bytes of headers has room for.
fn ranges_that_fit<D: Driver>(cx: &mut Cx<'_, D>, path: &Path, head: usize) -> usize {
    let gather = cx
        .ip
        .endpoint(path.link)
        .map_or(1, |e| e.capabilities().gather);
    let room = 112usize.saturating_sub(head) / 8;
    room.min(usize::from(gather)).clamp(1, MOST)
}

/// Most ranges in one segment.
const MOST: usize = 8;

/// The payload of one segment, still in pieces.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    ranges: [Range; MOST],
    sums: [Option<u16>; MOST],
    count: usize,
    len: u32,
}

impl Default for Gathered {
    fn default() -> Self {
        Gathered {
            ranges: [Range::EMPTY; MOST],
            sums: [None; MOST],
            count: 0,
            len: 0,
        }
    }
}

impl Gathered {
    #[inline]
    fn push(&mut self, range: Range, sum: Option<u16>, most: usize) -> bool {
        let (Some(to), Some(s)) = (
            self.ranges.get_mut(self.count),
            self.sums.get_mut(self.count),
        ) else {
            return false;
        };
        if self.count >= most {
            return false;
        }
        *to = range;
        *s = sum;
        self.count += 1;
        self.len += range.len;
        true
    }

    fn ranges(&self) -> &[Range] {
        self.ranges.get(..self.count).unwrap_or(&[])
    }

    /// Cuts bytes off the end until the length is a multiple of `mss`.
    fn cut_to_multiple(&mut self, mss: u32) {
        let mut cut = self.len % mss;
        self.len -= cut;
        while cut > 0 && self.count > 0 {
            let Some(last) = self.ranges.get_mut(self.count - 1) else {
                return;
            };
            let n = cut.min(last.len);
            last.len -= n;
            cut -= n;
            if let Some(sum) = self.sums.get_mut(self.count - 1) {
                *sum = None;
            }
            if last.len == 0 {
                self.count -= 1;
            }
        }
    }

    /// Sum of the payload: kept sums where there are any, else read.
    fn sum<D: Driver>(&self, cx: &mut Cx<'_, D>, path: &Path) -> Sum {
        let mut total = Sum::new();
        let mut odd = false;
        let Some(endpoint) = cx.ip.endpoint(path.link) else {
            return total;
        };
        for (range, kept) in self.ranges().iter().zip(self.sums) {
            let sum = match kept {
                Some(kept) => Sum::from_folded(kept),
                None => gannet_wire::checksum::sum(endpoint.pool.bytes(*range).unwrap_or(&[])),
            };
            total = total.combine(sum, odd);
            odd ^= range.len % 2 == 1;
        }
        total
    }
}

#[inline]
fn gather(send: &mut Send, plan: &Plan, len: u32, most: usize, into: &mut Gathered) {
    if len > 0 {
        let again = plan.why == Why::Hole && planted!(WrongBytesAgain);
        send.queue
            .gather(plan.seq + u32::from(again), len, |range, sum| {
                into.push(range, sum, most)
            });
    }
}

/// The header of a segment at `seq`: acknowledgement, time stamps, SACK blocks.
#[inline]
fn outgoing<D: Driver>(
    open: &mut Open,
    ports: (u16, u16),
    cx: &Cx<'_, D>,
    (path, seq, carries): (&Path, SeqNum, Carries),
) -> Outgoing {
    let mut options = Options::NONE;
    if open.timestamps && !(seq.before(open.send.max) && planted!(StampMissingAgain)) {
        let echo = u32::from(!planted!(EchoMissing)).wrapping_mul(open.recv.ts_recent);
        //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
        //# When the ACK bit is set in an outgoing segment, the sender MUST echo a recently received
        //# TSval sent by the remote TCP in the TSval field of a Timestamps option.
        //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
        //# The exact rules on which TSval MUST be echoed are given in Section 4.3.
        //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
        //# Once TSopt has been successfully negotiated, that is both <SYN> and <SYN,ACK> contain
        //# TSopt, the TSopt MUST be sent in every non-<RST> segment for the duration of the
        //# connection, and SHOULD be sent in an <RST> segment (see Section 5.2 for details).
        options.timestamps = Some((open.timestamp(cx.now), echo));
    }
    let report = !open.recv.assembler.is_empty() || open.recv.sack.has_dsack();
    //= https://www.rfc-editor.org/rfc/rfc2018#section-4
    //# If the data receiver has not received a SACK-Permitted option for a given connection, it
    //# MUST NOT send SACK options on that connection.
    if open.send.sack && report {
        let room = sack_room(path, open.timestamps, carries);
        let fit = blocks_that_fit(open.timestamps).min(room);
        let blocks = open.recv.sack.blocks(&open.recv.assembler, fit);
        for (left, right) in blocks.as_slice() {
            options
                .sack
                .push(left.0, (*right + u32::from(planted!(SackTooLong))).0);
        }
    }
    Outgoing {
        source_port: ports.0,
        destination_port: ports.1,
        seq,
        ack: open.recv.nxt + u32::from(report && planted!(AcksUnreceived)),
        flags: if open.recv.ecn.echoes() {
            Flags::ACK | Flags::ECE
        } else {
            Flags::ACK
        },
        window: 0,
        urgent: 0,
        options,
    }
}

/// What follows a segment's headers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carries {
    Nothing,
    Text,
}

/// SACK blocks that a slot has room for behind the other headers: IPv6's are longer.
fn sack_room(path: &Path, timestamps: bool, carries: Carries) -> usize {
    let link = path.header.map_or(0, |h| h.as_slice().len());
    let options = if timestamps { 12 } else { 0 };
    let reference = match carries {
        Carries::Nothing => 0,
        Carries::Text => 8,
    };
    // kind and length with two bytes of padding; a block
    let used = link + path.ip_header_len() + HEADER_LEN + options + reference + 4;
    INLINE_MAX.saturating_sub(used) / 8
}

/// RFC 9293 section 3.8.5, with RFC 6093's reading of the pointer.
fn point_to_urgent(open: &Open, plan: &Plan, out: &mut Outgoing) {
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
    //# The urgent pointer MUST point to the sequence number of the octet following the urgent
    //# data (MUST-62).
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
    //# However, TCP implementations MUST still include support for the urgent mechanism
    //# (MUST-30).
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
    //# A TCP implementation MUST support a sequence of urgent data of any length (MUST-31) [19].
    if let Some(up) = open.send.up.filter(|up| up.after(plan.seq)) {
        out.flags |= Flags::URG;
        out.urgent = (up - plan.seq).min(65_535) as u16;
    }
}

/// The straight-line path: template, ranges, done.
#[inline]
fn write_straight<D: Driver>(
    open: &Open,
    cx: &mut Cx<'_, D>,
    path: &Path,
    out: &Outgoing,
    payload: &Gathered,
    slot: &mut Slot,
) -> Option<()> {
    let template = open.template.as_ref()?;
    template.write(slot, out, payload.len as usize, || payload.sum(cx, path))?;
    place_payload(cx, path, payload, slot)
}

/// The general path: every header written in full.
fn write_general<D: Driver>(
    cx: &mut Cx<'_, D>,
    path: &Path,
    out: &Outgoing,
    payload: &Gathered,
    slot: &mut Slot,
) -> Option<()> {
    let at = header::write(cx.ip, path, out, payload.len as usize, slot)?;
    let tcp_len = slot.inline().len() - at;
    let checksum = cx.ip.endpoint(path.link)?.capabilities().checksum;
    let sum = match checksum {
        gannet_link::Checksum::Software => payload.sum(cx, path),
        _ => Sum::new(),
    };
    let pseudo = header::pseudo(path, tcp_len + payload.len as usize);
    header::finish(slot, at, tcp_len, pseudo, checksum, sum);
    place_payload(cx, path, payload, slot)
}

/// Puts the payload behind the headers: within the slot when it fits there, else by reference.
#[inline]
fn place_payload<D: Driver>(
    cx: &mut Cx<'_, D>,
    path: &Path,
    payload: &Gathered,
    slot: &mut Slot,
) -> Option<()> {
    let head = slot.inline().len();
    let len = payload.len as usize;
    if len > 0 && head + len <= INLINE_MAX {
        let endpoint = cx.ip.endpoint(path.link)?;
        let mut to = slot.inline_mut(head + len)?.get_mut(head..)?;
        for range in payload.ranges() {
            let (part, rest) = to.split_at_mut_checked(range.len as usize)?;
            part.copy_from_slice(endpoint.pool.bytes(*range)?);
            to = rest;
        }
        return Some(());
    }
    payload
        .ranges()
        .iter()
        .all(|r| slot.push_range(*r))
        .then_some(())
}

/// Whether a segment of the connection's own memory fits behind these headers.
pub(super) fn has_room_for_text(path: &Path, options: &Options) -> bool {
    header_len(path, options) + size_of::<Range>() <= INLINE_MAX
}

/// A SYN with the first `len` bytes of `queue` (RFC 7413); how many left.
pub(super) fn send_syn_with_text<D: Driver>(
    cx: &mut Cx<'_, D>,
    path: &Path,
    out: &Outgoing,
    (queue, len): (&mut SendQueue, u32),
) -> Option<u32> {
    let most = ranges_that_fit(cx, path, header_len(path, &out.options));
    let mut text = Gathered::default();
    queue.gather(out.seq + 1, len, |range, sum| text.push(range, sum, most));
    let mut slot = Slot::new();
    write_general(cx, path, out, &text, &mut slot)?;
    cx.ip.send(path, &slot).ok()?;
    cx.counters.add(TcpEvent::Sent);
    cx.counters.add(TcpEvent::FastOpenSent);
    Some(text.len)
}

/// An acknowledgement without data; `false` when the link is full.
pub(super) fn send_ack<D: Driver>(
    open: &mut Open,
    path: &Path,
    ports: (u16, u16),
    cx: &mut Cx<'_, D>,
    segments_sent: &mut u64,
) -> bool {
    let at = (path, open.send.max, Carries::Nothing);
    let mut out = outgoing(open, ports, cx, at);
    out.window = open.recv.advertise();
    let ordinary = out.options.sack.is_empty();
    let sent = match &open.template {
        Some(template) if ordinary && cx.config.straight_line => {
            let mut slot = Slot::new();
            template.write(&mut slot, &out, 0, Sum::new).is_some()
                && cx.ip.send(path, &slot).is_ok()
        }
        _ => {
            tell_user_timeout(open, &mut out.options);
            let mark = open.send.ecn.other_mark();
            send_bare(cx, &path.marked(mark), &out)
        }
    };
    if sent {
        told_user_timeout(open, &out.options);
        *segments_sent += 1;
        open.recv.acked();
    }
    sent
}

/// What the peer is to be told of our user time-out, where nothing else needs the room.
//= https://www.rfc-editor.org/rfc/rfc5482#section-3
//# A host that supports the UTO option SHOULD include one in the next possible outgoing segment
//# whenever it starts using a new user timeout for the connection.
fn tell_user_timeout(open: &Open, options: &mut Options) {
    if let Some(timeout) = open.owed_timeout.filter(|_| options.sack.is_empty()) {
        options.set_user_timeout(timeout);
    }
}

/// A segment with these options has left.
//= https://www.rfc-editor.org/rfc/rfc5482#section-3.2
//# Consequently, implementations MUST NOT assume that UTO options are transmitted reliably.
// (nor do we ever repeat one)
fn told_user_timeout(open: &mut Open, options: &Options) {
    if options.user_timeout().is_some() {
        open.owed_timeout = None;
    }
}

/// The acknowledgement that is owed leaves now, before what has just arrived changes what it says.
pub(super) fn acknowledge_before<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let ports = (conn.local.port(), conn.remote.port());
    let Connection {
        state: State::Open(open),
        path,
        segments_sent,
        ..
    } = conn
    else {
        return;
    };
    if path.header.is_some() {
        send_ack(open, path, ports, cx, segments_sent);
    }
}

/// RFC 5961: an acknowledgement that tells a sender of doubtful segments where we are; at most one
/// in `TcpConfig::challenge_interval` per connection, so that two confused ends cannot keep each
/// other busy and a forger learns nothing from a shared limit (CVE-2016-5696).
pub(super) fn challenge<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let State::Open(open) = &mut conn.state else {
        return;
    };
    if cx.now < open.challenge_at {
        cx.counters.add(TcpEvent::Suppressed);
        return;
    }
    open.challenge_at = cx.now + cx.config.challenge_interval;
    open.recv.ack_now();
}

/// A keep-alive probe: an old sequence number, which the peer must answer.
pub(super) fn send_keep_alive<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let ports = (conn.local.port(), conn.remote.port());
    let State::Open(open) = &mut conn.state else {
        return;
    };
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
    //# An implementation SHOULD send a keep-alive segment with no data (SHLD-12); however, it MAY
    //# be configurable to send a keep-alive segment containing one garbage octet (MAY-6), for
    //# compatibility with erroneous TCP implementations.
    let seq = SeqNum(open.send.una.0.wrapping_sub(1));
    let mut out = outgoing(open, ports, cx, (&conn.path, seq, Carries::Nothing));
    out.window = open.recv.advertise();
    if send_or_hold(cx, &mut conn.path, &out) {
        conn.segments_sent += 1;
    }
}

/// Tells the peer that the connection is no more.
pub(super) fn send_reset<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    conn.wake(Instant::FAR_FUTURE);
    let mut options = Options::NONE;
    let (seq, ack) = match &conn.state {
        State::Open(open) if open.phase != Phase::Closed => {
            //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
            //# Once TSopt has been successfully negotiated, that is both <SYN> and <SYN,ACK>
            //# contain TSopt, the TSopt MUST be sent in every non-<RST> segment for the duration of
            //# the connection, and SHOULD be sent in an <RST> segment (see Section 5.2 for
            //# details).
            //= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
            //# If an <RST> is being generated because of a user abort, and Snd.TS.OK is set, then a
            //# Timestamps option SHOULD be included in the <RST>.
            let stamp = open.timestamp(cx.now);
            options.timestamps = open.timestamps.then_some((stamp, open.recv.ts_recent));
            (open.send.max, open.recv.nxt)
        }
        State::SynReceived(o) => {
            options.timestamps = o.options(0, cx.now, true).timestamps;
            (o.iss + 1, o.irs + 1)
        }
        _ => return,
    };
    let out = Outgoing {
        source_port: conn.local.port(),
        destination_port: conn.remote.port(),
        seq,
        ack,
        flags: Flags::RST | Flags::ACK,
        window: 0,
        urgent: 0,
        options,
    };
    if send_or_hold(cx, &mut conn.path, &out) {
        conn.segments_sent += 1;
        cx.counters.add(TcpEvent::ResetSent);
    }
}

/// The acknowledgement that TIME-WAIT gives to whatever still arrives.
pub(super) fn send_time_wait_ack<D: Driver>(
    conn: &mut Connection,
    wait: &TimeWait,
    cx: &mut Cx<'_, D>,
) {
    let mut options = Options::NONE;
    options.timestamps = wait.timestamps;
    let out = Outgoing {
        source_port: conn.local.port(),
        destination_port: conn.remote.port(),
        seq: wait.snd_nxt,
        ack: wait.rcv_nxt - u32::from(planted!(TimeWaitAckOld)),
        flags: Flags::ACK,
        window: wait.window,
        urgent: 0,
        options,
    };
    if send_or_hold(cx, &mut conn.path, &out) {
        conn.segments_sent += 1;
    }
}
