//! SYN-SENT and SYN-RECEIVED: what is agreed before a connection has halves.

use core::time::Duration;

use alloc::boxed::Box;

use gannet_base::Instant;
use gannet_link::{Driver, Frame, Pool};
use gannet_wire::tcp::Flags;
use gannet_wire::tcp::{HEADER_LEN, Options};

use super::autotune::AutoTune;
use super::bare::{send_bare, send_or_hold};
use super::black_hole::BlackHole;
use super::connection::{Connection, Cx, Open, State};
use super::cookie::{Extras, mark_timestamp};
use super::counters::TcpEvent;
use super::ecn::{EcnReceiver, EcnSender};
use super::error::TcpError;
use super::fast_open::{self, Early};
use super::header::Outgoing;
use super::isn;
use super::offer::{Offer, Wanted, says};
use super::output;
use super::recv::Recv;
use super::rtt::{RttConfig, RttEstimator};
use super::segment::Segment;
use super::send::Send;
use super::seq::SeqNum;
use super::transitions::Phase;
use super::window::WindowScale;
use crate::config::{CongestionControl, EcnMode, TcpConfig};
use crate::hash::FourTuple;
use crate::ip::{Path, Resolution};

/// A peer that accepts less is not believed: tiny segments cost more than they carry
/// (CVE-2019-11479; the floor is Linux's).
pub(super) const MIN_MSS: u16 = 48;
/// Bytes that time stamps take in every segment.
const TIMESTAMPS_LEN: u32 = 12;

/// A connection being opened, from either side.
#[derive(Debug)]
pub(super) struct Opening {
    /// ISS
    pub(super) iss: SeqNum,
    /// IRS; meaningful in SYN-RECEIVED.
    pub(super) irs: SeqNum,
    /// Window our SYN offers, bytes.
    window: u16,
    scale: WindowScale,
    wanted: Wanted,
    pub(super) offer: Offer,
    timestamp_offset: u32,
    /// We are ready to use ECN.
    ecn: bool,
    /// When the first SYN left.
    pub(super) sent_at: Instant,
    /// SYNs sent.
    pub(super) sent: u8,
    /// When the SYN is sent again.
    pub(super) resend_at: Instant,
    /// We sent the first SYN.
    active: bool,
    /// Nothing of it is kept: what was offered travels in the answer's time stamp.
    pub(super) cookie: bool,
    /// The application closed before the connection was open: a FIN follows.
    pub(super) close: bool,
    /// Not before this time does another challenge ACK leave (RFC 5961).
    pub(super) challenge_at: Instant,
    /// The last soft error heard of: why it failed, if it does.
    pub(super) soft_error: Option<TcpError>,
    /// What was written before the connection is open.
    pub(super) early: Option<Box<Early>>,
}

/// The window of a SYN, and the scale of all later ones.
fn first_window(buffer: u32, max: u32) -> (u16, WindowScale) {
    (buffer.min(65_535) as u16, WindowScale::for_buffer(max))
}

impl Opening {
    /// The application has chosen a buffer. What a SYN has offered stays.
    pub(super) fn fit_buffer(&mut self, bytes: u32) {
        if self.sent == 0 {
            (self.window, self.scale) = first_window(bytes, bytes);
        }
    }

    fn new<D: Driver>(cx: &Cx<'_, D>, conn: &Connection, active: bool) -> Self {
        let tuple = FourTuple {
            local: conn.local,
            remote: conn.remote,
        };
        let (window, scale) = match conn.settings.receive_buffer {
            Some(bytes) => first_window(bytes, bytes),
            None => first_window(cx.config.receive_buffer, cx.config.receive_buffer_max),
        };
        Opening {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4.1
            //# A TCP implementation MUST use the above type of "clock" for clock-
            //# driven selection of initial sequence numbers (MUST-8), and SHOULD
            //# generate its initial sequence numbers with the expression:
            iss: isn::initial_sequence(cx.key, &tuple, cx.now),
            irs: SeqNum(0),
            window,
            scale,
            wanted: Wanted::of(cx.config),
            offer: Offer::default(),
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4.1
            //# F() MUST NOT be computable from the outside (MUST-9), or an attacker could still
            //# guess at sequence numbers from the ISN used for some other connection.
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4.1
            //# where M is the 4 microsecond timer, and F() is a pseudorandom function (PRF) of
            //# the connection's identifying parameters ("localip, localport, remoteip,
            //# remoteport") and a secret key ("secretkey") (SHLD-1).
            timestamp_offset: isn::timestamp_offset(cx.key, &tuple),
            ecn: ready_for_ecn(conn.settings.congestion, cx.config.ecn, active),
            sent_at: cx.now,
            sent: 0,
            resend_at: Instant::FAR_FUTURE,
            active,
            cookie: false,
            close: false,
            challenge_at: Instant::ZERO,
            soft_error: None,
            early: None,
        }
    }

    /// Active open: SYN-SENT.
    pub(super) fn active<D: Driver>(cx: &Cx<'_, D>, conn: &Connection) -> Self {
        Self::new(cx, conn, true)
    }

    /// Passive open: SYN-RECEIVED, in answer to `syn`. `above`: the last number of a connection in
    /// TIME-WAIT that this one replaces.
    pub(super) fn passive<D: Driver>(
        cx: &Cx<'_, D>,
        conn: &Connection,
        syn: &Segment,
        above: Option<SeqNum>,
    ) -> Self {
        let mut offer = Offer::of(syn);
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2
        //# When this flag is off, the server does not
        //# perform any TFO-related operations and MUST ignore all cookie
        //# options.
        offer.fast_open = conn.settings.fast_open > 0 && syn.options.fast_open().is_some();
        let mut opening = Self::answer(cx, conn, syn.seq, offer);
        // RFC 9293 MAY-2 (1): an old connection may have sent faster than the clock of ISNs runs;
        // one whole unscaled window above it nothing of its can be mistaken for ours
        if let Some(old) = above.filter(|&old| !opening.iss.after(old)) {
            opening.iss = old + 65_537;
        }
        opening
    }

    /// SYN-RECEIVED after a SYN with number `irs` that offered `offer`.
    pub(super) fn answer<D: Driver>(
        cx: &Cx<'_, D>,
        conn: &Connection,
        irs: SeqNum,
        offer: Offer,
    ) -> Self {
        let mut opening = Self::new(cx, conn, false);
        (opening.irs, opening.offer) = (irs, offer.only(opening.wanted));
        opening
    }

    /// Whether `ack` acknowledges our SYN and nothing that was not sent.
    pub(super) fn is_acked_by(&self, ack: SeqNum) -> bool {
        let early = self.early.as_ref().map_or(0, |e| e.sent);
        ack - (self.iss + 1) <= early
    }

    /// Lets go of what waits to be sent.
    pub(super) fn let_go(&mut self, pool: &mut Pool) {
        if let Some(early) = &mut self.early {
            early.let_go(pool);
        }
    }

    /// When the SYN is sent that just left, and when again if nobody answers.
    fn sent(&mut self, now: Instant, config: &TcpConfig) {
        if self.sent == 0 {
            self.sent_at = now;
        }
        // RFC 6298: 1 s, or what the host says, doubled each time
        let shift = u32::from(self.sent.min(6));
        self.sent = self.sent.saturating_add(1);
        let first = RttConfig::of(config).initial_rto;
        let first = if planted!(SynTooSoon) {
            first / 10
        } else {
            first
        };
        self.resend_at = now + first * (1 << shift);
    }

    /// Control bits of our SYN or SYN-ACK, and what its packet has in the ECN field.
    fn flags(&self, answer: bool, control: CongestionControl) -> (Flags, u8) {
        let syn = if answer {
            Flags::SYN | Flags::ACK
        } else {
            Flags::SYN
        };
        //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.1.1
        //# A host that receives no reply to an ECN-setup SYN within the normal SYN
        //# retransmission timeout interval MAY resend the SYN and any subsequent
        //# SYN retransmissions with CWR and ECE cleared.
        let ecn = if answer {
            self.uses_ecn()
        } else {
            self.ecn && self.sent == 0
        };
        if !ecn {
            return (syn, 0);
        }
        //= https://www.rfc-editor.org/rfc/rfc8257#section-3.6
        //# Hence, for DCTCP connections, the sender SHOULD set ECT for SYN, SYN-ACK, and RST
        //# packets.
        let ecn = EcnSender::new(true, control.needs_ecn());
        let bits = match answer {
            true => Flags::ECE,
            false => Flags::ECE | Flags::CWR,
        };
        (syn | bits, ecn.other_mark())
    }

    /// Both sides agreed to use ECN.
    pub(super) fn uses_ecn(&self) -> bool {
        self.ecn && self.offer.ecn
    }

    /// The parts of both halves in what was agreed about ECN.
    fn ecn(&self, control: CongestionControl) -> (EcnSender, EcnReceiver) {
        // a SYN of ours that did not ask has left: the peer may have seen only that one
        let asked_always = !(self.active && self.sent > 1);
        let exact = control.needs_ecn();
        (
            EcnSender::new(self.uses_ecn() && asked_always, exact),
            EcnReceiver::new(self.uses_ecn(), exact),
        )
    }

    pub(super) fn options(&self, mss: u32, now: Instant, answer: bool) -> Options {
        let mut options = Options::NONE;
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
        //# TCP implementations SHOULD send an MSS Option in every SYN segment
        //# when its receive MSS differs from the default 536 for IPv4 or 1220 for
        //# IPv6 (SHLD-5), and MAY send it always (MAY-3).
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
        //# TCP endpoints MUST implement both sending and receiving the MSS Option (MUST-14).
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.2
        //# This field may be sent in the initial connection request (i.e., in segments with the
        //# SYN control bit set) and MUST NOT be sent in other segments (MUST-65).
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
        //# where MMS_R is the maximum size for a transport-layer message that can be received
        //# (and reassembled at the IP layer) (MUST-67).
        options.mss = Some(mss.min(65_535) as u16);
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
        //# If a Window Scale option was received in the initial <SYN> segment,
        //# then this option MAY be sent in the <SYN,ACK> segment.
        if says(answer, self.wanted.scale, self.offer.scale.is_some()) {
            //= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
            //# This option is an offer, not a promise; both sides MUST send Window Scale options in
            //# their <SYN> segments to enable window scaling in either direction.
            //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
            //# The Window Scale option MUST be sent with shift.cnt = R, where R is the value that
            //# the TCP would like to use for its receive window.
            options.window_scale = Some(self.scale.shift());
        }
        //= https://www.rfc-editor.org/rfc/rfc2018#section-2
        //# It MUST NOT be sent on non-SYN segments.
        options.sack_permitted = says(answer, self.wanted.sack, self.offer.sack);
        let asked = self.offer.timestamp.is_some();
        if says(answer, self.wanted.timestamps, asked) {
            //= https://www.rfc-editor.org/rfc/rfc7323#section-4.1
            //# Values of this clock MUST be at least approximately proportional to real time, in
            //# order to measure actual RTT.
            //= https://www.rfc-editor.org/rfc/rfc7323#section-5.4
            //# It MUST tick at least once for each 2^31 bytes sent.
            //= https://www.rfc-editor.org/rfc/rfc7323#section-5.4
            //# The recycling time of the timestamp clock MUST be greater than MSL seconds.
            let clock = (now.as_millis() as u32).wrapping_add(self.timestamp_offset);
            let value = if self.cookie {
                let Offer { scale, sack, .. } = self.offer;
                let extras = Extras {
                    scale,
                    sack,
                    ecn: self.uses_ecn(),
                };
                mark_timestamp(clock, extras)
            } else {
                clock
            };
            options.timestamps = Some((value, self.offer.timestamp.unwrap_or(0)));
        }
        options
    }
}

/// Whether we use ECN if the peer agrees: a control that lives on marks asks by itself.
fn ready_for_ecn(control: CongestionControl, mode: EcnMode, active: bool) -> bool {
    match mode {
        EcnMode::Off => false,
        EcnMode::Active => true,
        EcnMode::Passive => !active || control.needs_ecn(),
    }
}

/// Sends the SYN of SYN-SENT or the SYN-ACK of SYN-RECEIVED, for the first time or again, and sets
/// the timer for the next time.
pub(super) fn send_syn<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let Connection {
        state,
        path,
        local,
        remote,
        settings,
        segments_sent,
        ..
    } = conn;
    let Some((opening, acks)) = state.opening() else {
        return;
    };
    /// How soon a SYN is tried again that could not leave.
    const SOON: Duration = Duration::from_millis(10);
    match cx.ip.resolve(cx.now, path) {
        Resolution::Ready => {}
        Resolution::Pending => {
            opening.resend_at = cx.now + SOON;
            return;
        }
        // The neighbour was there, and may be again: whoever got our answer is connected, and not
        // to be refused because his link is down for a while. It counts as sent.
        Resolution::Failed if acks.is_some() && opening.sent > 0 => {
            return opening.sent(cx.now, cx.config);
        }
        Resolution::Failed => return conn.fail(cx.ip, Some(TcpError::HostUnreachable)),
    }
    let mss = path.mtu.saturating_sub(headers(path)).min(65_495);
    let mss = mss.min(settings.max_segment());
    let (flags, ecn) = opening.flags(acks.is_some(), settings.congestion);
    let mut options = opening.options(mss, cx.now, acks.is_some());
    let text = fast_open::prepare(opening, cx, (path, acks.is_some()), &mut options);
    // (a SYN-ACK does not tell it: what follows from either end does)
    let timeout = settings.user_timeout.advertised();
    if let Some(timeout) = timeout.filter(|_| acks.is_none() && options.fast_open().is_none()) {
        options.set_user_timeout(timeout);
    }
    let out = Outgoing {
        source_port: local.port(),
        destination_port: remote.port(),
        seq: opening.iss,
        ack: acks.unwrap_or(SeqNum(0)),
        flags,
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
        //# The window field in a segment where the SYN bit is set (i.e., a <SYN>
        //# or <SYN,ACK>) MUST NOT be scaled.
        window: opening.window,
        urgent: 0,
        options,
    };
    let path = path.marked(ecn);
    let left = match opening.early.as_mut().filter(|_| text > 0) {
        Some(early) => {
            let text = (&mut early.queue, text);
            let sent = output::send_syn_with_text(cx, &path, &out, text);
            early.sent = sent.unwrap_or(0);
            sent.is_some()
        }
        None => send_bare(cx, &path, &out),
    };
    if !left {
        opening.resend_at = cx.now + SOON;
        return;
    }
    *segments_sent += 1;
    opening.sent(cx.now, cx.config);
}

impl State {
    /// Whose SYN is to be sent, and what it acknowledges.
    fn opening(&mut self) -> Option<(&mut Opening, Option<SeqNum>)> {
        match self {
            State::SynSent(opening) => Some((opening, None)),
            State::SynReceived(opening) => {
                let ack = opening.irs + 1;
                Some((opening, Some(ack)))
            }
            State::Open(open) => {
                let fast = open.fast.as_deref_mut()?;
                // what was promised before, and no more
                fast.opening.window = open.recv.wnd().min(65_535) as u16;
                Some((&mut fast.opening, Some(open.recv.nxt)))
            }
            State::Dormant(_) | State::TimeWait(_) | State::Closed => None,
        }
    }
}

/// What a segment in SYN-SENT or SYN-RECEIVED led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// Nothing, or an answer was sent.
    No,
    /// The connection is open; the rest of the segment is still to be processed.
    Yes,
    /// A reset must answer the segment.
    Reset,
}

/// RFC 9293 section 3.10.7.3: a segment arrives in SYN-SENT.
pub(super) fn arrives_in_syn_sent<D: Driver>(
    conn: &mut Connection,
    cx: &mut Cx<'_, D>,
    seg: &Segment,
) -> Opened {
    let State::SynSent(opening) = &mut conn.state else {
        return Opened::No;
    };
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.3
    //# If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the
    //# RST bit is set, if so drop the segment and return)
    let acks_syn = seg.has_ack() && opening.is_acked_by(seg.ack);
    if seg.has_ack() && !acks_syn {
        cx.counters.add(TcpEvent::BadAck);
        return if seg.rst() { Opened::No } else { Opened::Reset };
    }
    if seg.rst() {
        if acks_syn {
            cx.counters.add(TcpEvent::ResetReceived);
            conn.fail(cx.ip, Some(TcpError::Refused));
        } else {
            cx.counters.add(TcpEvent::Ignored);
        }
        return Opened::No;
    }
    if !seg.syn() {
        cx.counters.add(TcpEvent::Ignored);
        return Opened::No;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.5
    //# A TCP implementation MUST support simultaneous open attempts (MUST-10).
    (opening.irs, opening.offer) = (seg.seq, Offer::of(seg).only(opening.wanted));
    if acks_syn {
        become_open(conn, cx, seg);
        if let State::Open(open) = &mut conn.state {
            open.recv.ack_now();
        }
        return Opened::Yes;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.3
    //# Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment
    if let State::SynSent(opening) = core::mem::replace(&mut conn.state, State::Closed) {
        conn.state = State::SynReceived(Opening { sent: 0, ..opening });
    }
    send_syn(conn, cx);
    Opened::No
}

/// RFC 9293 section 3.10.7.4 for SYN-RECEIVED.
pub(super) fn arrives_in_syn_received<D: Driver>(
    conn: &mut Connection,
    cx: &mut Cx<'_, D>,
    seg: &Segment,
) -> Opened {
    let State::SynReceived(opening) = &conn.state else {
        return Opened::No;
    };
    let rcv_nxt = opening.irs + 1;
    if seg.syn() && seg.seq == opening.irs && !seg.rst() {
        // the peer's SYN again, or its SYN-ACK in a simultaneous open
        if seg.has_ack() && opening.is_acked_by(seg.ack) {
            become_open(conn, cx, seg);
            return Opened::Yes;
        }
        if opening.sent < 3 {
            send_syn(conn, cx);
        }
        return Opened::No;
    }
    let window = u32::from(opening.window);
    let len = seg.seq_len();
    let inside = seg.seq.in_range(rcv_nxt, window.max(1))
        || (len > 0 && (seg.seq + (len - 1)).in_range(rcv_nxt, window));
    if !inside {
        cx.counters.add(TcpEvent::OutOfWindow);
        if !seg.rst() {
            challenge(conn, cx);
        }
        return Opened::No;
    }
    if seg.rst() {
        return reset_in_syn_received(conn, cx, seg.seq == rcv_nxt);
    }
    if seg.syn() {
        cx.counters.add(TcpEvent::UnexpectedSyn);
        if opening.active {
            challenge(conn, cx);
        } else {
            conn.fail(cx.ip, None);
        }
        return Opened::No;
    }
    if !seg.has_ack() {
        cx.counters.add(TcpEvent::NoAck);
        return Opened::No;
    }
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# If the segment acknowledgment is not acceptable, form a
    //# reset segment
    if !opening.is_acked_by(seg.ack) {
        cx.counters.add(TcpEvent::BadAck);
        return Opened::Reset;
    }
    become_open(conn, cx, seg);
    Opened::Yes
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
//# 3) If the RST bit is set and the sequence number does not exactly match the next expected
//# sequence value, yet is within the current receive window, TCP endpoints MUST send an
//# acknowledgment (challenge ACK):
fn reset_in_syn_received<D: Driver>(
    conn: &mut Connection,
    cx: &mut Cx<'_, D>,
    exact: bool,
) -> Opened {
    let State::SynReceived(opening) = &conn.state else {
        return Opened::No;
    };
    if !exact {
        cx.counters.add(TcpEvent::InexactReset);
        challenge(conn, cx);
        return Opened::No;
    }
    cx.counters.add(TcpEvent::ResetReceived);
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.5
    //# Note that a TCP implementation MUST keep track of whether a connection has reached SYN-
    //# RECEIVED state as the result of a passive OPEN or an active OPEN (MUST-11).
    let error = opening.active.then_some(TcpError::Refused);
    conn.fail(cx.ip, error);
    Opened::No
}

/// Tells the peer where we are, at most once in `TcpConfig::challenge_interval`: a peer that has
/// forgotten an older attempt answers with the reset that ends it.
fn challenge<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let State::SynReceived(opening) = &mut conn.state else {
        return;
    };
    if cx.now < opening.challenge_at {
        return cx.counters.add(TcpEvent::Suppressed);
    }
    opening.challenge_at = cx.now + cx.config.challenge_interval;
    let mut options = Options::NONE;
    options.timestamps = opening.options(0, cx.now, true).timestamps;
    let scaled = opening.offer.scale.map_or(0, |_| opening.scale.shift());
    let out = Outgoing {
        source_port: conn.local.port(),
        destination_port: conn.remote.port(),
        seq: opening.iss + 1,
        ack: opening.irs + 1,
        flags: Flags::ACK,
        window: opening.window >> scaled,
        urgent: 0,
        options,
    };
    if send_or_hold(cx, &mut conn.path, &out) {
        conn.segments_sent += 1;
    }
}

/// Both SYNs are acknowledged: makes the halves. `seg` carried the last acknowledgement.
fn become_open<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>, seg: &Segment) {
    let (State::SynSent(mut opening) | State::SynReceived(mut opening)) =
        core::mem::replace(&mut conn.state, State::Closed)
    else {
        return;
    };
    conn.settings.user_timeout.take(&seg.options);
    if let Some(open) = halves(conn, cx, &mut opening, seg) {
        conn.state = State::Open(Box::new(open));
    }
}

/// The halves of a connection that `seg` opens.
pub(super) fn halves<D: Driver>(
    conn: &Connection,
    cx: &mut Cx<'_, D>,
    opening: &mut Opening,
    seg: &Segment,
) -> Option<Open> {
    let endpoint = cx.ip.endpoint(conn.path.link)?;
    let checksum = endpoint.capabilities().checksum;
    let Offer { scale, sack, .. } = opening.offer;
    let timestamp = opening.offer.timestamp;
    let timestamps = timestamp.is_some();
    let peer_mss = u32::from(opening.offer.mss(conn.local.is_ipv6()));
    let peer_mss = peer_mss.min(conn.settings.max_segment());
    let send_mss = effective_mss(peer_mss, &conn.path, timestamps);
    let mut rtt = RttEstimator::new(&RttConfig::of(cx.config));
    rtt.on_established(opening.sent > 1);
    if opening.sent == 1 {
        rtt.on_sample(cx.now.saturating_duration_since(opening.sent_at));
    }
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
    //# As specified in [RFC3390], the SYN/ACK and the acknowledgment of the SYN/ACK MUST NOT
    //# increase the size of the congestion window.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
    //# If the FastOpened flag is set, the server MUST follow [RFC5681] (based on [RFC3390]) to set
    //# the initial congestion window for sending more data packets.
    let mut send = Send::new(opening.iss, send_mss, checksum, rtt);
    if let Some(early) = opening.early.take() {
        send.take_early(&mut endpoint.pool, early.queue, seg.ack);
    }
    send.congestion.set_initial_window(cx.config.initial_window);
    if opening.sent > 1 {
        send.congestion.on_syn_lost();
    }
    send.set_control(conn.settings.congestion, cx.config.pacing);
    (send.sack, send.timestamps) = (sack, timestamps);
    send.nagle = conn.settings.nagle;
    (send.buffer, send.buffer_max) = (conn.settings.send_buffer, conn.settings.send_buffer_max);
    send.fit_buffer();
    send.last_progress = cx.now;
    let window = u32::from(opening.window);
    let mut recv = new_recv(conn, cx, opening, scale.is_some(), window);
    (send.ecn, recv.ecn) = opening.ecn(conn.settings.congestion);
    //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
    //# Upon receiving a <SYN> segment with a Window Scale option containing shift.cnt = S, a TCP
    //# MUST set Snd.Wind.Shift to S and MUST set Rcv.Wind.Shift to R; otherwise, it MUST set both
    //# Snd.Wind.Shift and Rcv.Wind.Shift to zero.
    if let Some(scale) = scale {
        send.scale = WindowScale::new(scale);
    }
    take_first_window(&mut send, seg);
    if let Some(value) = seg.timestamps.map(|t| t.0).or(timestamp) {
        recv.ts_recent = value;
        recv.ts_recent_at = cx.now;
    }
    let mut open = Open {
        phase: Phase::Established,
        send,
        recv,
        template: None,
        straight: false,
        timestamps,
        timestamp_offset: opening.timestamp_offset,
        challenge_at: Instant::ZERO,
        heard_at: cx.now,
        keep_alive_probes: 0,
        linger_until: cx.now + cx.config.rest_after,
        black_hole: BlackHole::NONE,
        fast: None,
        peer_mss,
        owed_timeout: conn.settings.user_timeout.advertised(),
        blocked: false,
    };
    BlackHole::begin(&mut open, &conn.path, cx.config.mtu_probing, cx.now);
    if opening.close {
        open.send.fin = super::send::Fin::Queued;
        open.phase = open.phase.after(super::transitions::Event::Close);
    }
    Some(open)
}

/// SND.WND from the segment that opened the connection.
fn take_first_window(send: &mut Send, seg: &Segment) {
    // SEG.WND of a SYN is never scaled
    let shift = if seg.syn() {
        WindowScale::new(0)
    } else {
        send.scale
    };
    send.wnd = u32::from(seg.window) << shift.shift();
    send.max_wnd = send.wnd;
    send.wl1 = seg.seq;
    send.wl2 = if seg.has_ack() { seg.ack } else { send.una };
}

fn new_recv<D: Driver>(
    conn: &Connection,
    cx: &Cx<'_, D>,
    opening: &Opening,
    scaled: bool,
    window: u32,
) -> Recv {
    //= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
    //# This option is an offer, not a promise; both sides MUST send Window Scale options in their
    //# <SYN> segments to enable window scaling in either direction.
    let scale = if scaled {
        opening.scale
    } else {
        WindowScale::new(0)
    };
    let fixed = conn.settings.receive_buffer;
    let initial = fixed.unwrap_or(cx.config.receive_buffer);
    let limit = if scaled {
        cx.config.receive_buffer_max
    } else {
        65_535
    };
    let tune = AutoTune::new(initial.min(limit.max(65_535)), fixed.unwrap_or(limit));
    let mut recv = Recv::new(opening.irs, window, scale, tune);
    recv.fixed = fixed.is_some();
    recv
}

/// Payload bytes of a full-sized segment.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
//# The maximum size of a segment that a TCP endpoint really sends, the
//# "effective send MSS", MUST be the smaller (MUST-16) of the send MSS
//# (that reflects the available reassembly buffer size at the remote
//# host, the EMTU_R [19]) and the largest transmission size permitted by
//# the IP layer (EMTU_S [19]):
pub(super) fn effective_mss(peer_mss: u32, path: &Path, timestamps: bool) -> u32 {
    let by_path = path.mtu.saturating_sub(headers(path));
    let none = !timestamps || planted!(MssWithoutOptions);
    let options = if none { 0 } else { TIMESTAMPS_LEN };
    peer_mss.min(by_path).max(u32::from(MIN_MSS)) - options
}

/// Bytes of IP and TCP headers without options.
pub(super) fn headers(path: &Path) -> u32 {
    //= https://www.rfc-editor.org/rfc/rfc8200#section-8.3
    //# When computing the maximum payload size available for upper-layer data, an upper-layer
    //# protocol must take into account the larger size of the IPv6 header relative to the IPv4
    //# header.
    //= https://www.rfc-editor.org/rfc/rfc8200#section-8.3
    //# When using TCP over IPv6, the MSS must be computed as the maximum packet size minus 60
    //# octets, because the minimum-length IPv6 header (i.e., an IPv6 header with no extension
    //# headers) is 20 octets longer than a minimum-length IPv4 header.
    (path.ip_header_len() + HEADER_LEN) as u32
}

/// Releases a frame whose payload nobody wants.
pub(super) fn drop_frame<D: Driver>(cx: &mut Cx<'_, D>, link: crate::link::LinkId, frame: &Frame) {
    if let Some(endpoint) = cx.ip.endpoint(link) {
        endpoint.release_frame(frame);
    }
}
