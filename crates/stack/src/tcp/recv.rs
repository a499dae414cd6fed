//! The receiving half of a synchronised connection: RCV.* and what arrived.
//!
//! ```text
//!        read |  queue (in order)  | rcv.nxt   (out of order: assembler)   | right edge
//!   ----------[--------------------|------------------[####]------[##]-----)------------
//!                                  |<------------- rcv.wnd --------------->|
//! ```
//! It shares no field with the sending half; what the sender must know travels in a
//! [`super::notice::Notice`].

use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Driver, Endpoint, Range, Space};

use super::assembler::{Assembler, Limits, Memory, Piece};
use super::autotune::{AutoTune, ReceiverRtt};
use super::ecn::EcnReceiver;
use super::recv_queue::RecvQueue;
use super::sack_blocks::SackGenerator;
use super::segment::Segment;
use super::seq::SeqNum;
use super::window::{WindowScale, WindowSize, window_to_advertise, window_update_due};
/// Bookkeeping charged per out-of-order piece, so that one-byte segments cannot hold more memory
/// than the buffer allows.
const PIECE_OVERHEAD: u32 = 64;
/// The least that a piece is charged: a small one shares a block with others, but keeps it from
/// going home when those have gone (what Linux calls `truesize`).
const PIECE_LEAST: u32 = 512;
/// Segments acknowledged at once at the start of a connection and after a pause, so that the peer's
/// slow start is not held up (the idea and the count are Linux's).
const QUICK_ACKS: u8 = 16;

/// An out-of-order piece: a range with a reference.
#[derive(Debug)]
pub(super) struct OutOfOrder(pub(super) Range);

impl Piece for OutOfOrder {
    fn len(&self) -> u32 {
        self.0.len
    }

    fn trim_front(&mut self, n: u32) {
        self.0 = self.0.skip(n);
    }

    fn trim_back(&mut self, n: u32) {
        self.0 = self.0.front(self.0.len.saturating_sub(n));
    }

    fn cost(&self) -> u32 {
        self.0.len.max(PIECE_LEAST).saturating_add(PIECE_OVERHEAD)
    }
}

/// The memory of one link, in which an out-of-order piece and its tail can each have a reference.
struct Blocks<'a, D>(&'a mut Endpoint<D>);

impl<D: Driver> Memory<OutOfOrder> for Blocks<'_, D> {
    fn release(&mut self, piece: OutOfOrder) {
        self.0.release(piece.0);
    }

    // (a peer's memory has but one reference: what lies behind an island is dropped as if lost)
    fn split_off(&mut self, piece: &mut OutOfOrder, at: u32) -> Option<OutOfOrder> {
        let shared = piece.0.space == Space::Own && self.0.pool.retain(piece.0);
        let tail = shared.then(|| OutOfOrder(piece.0.skip(at)))?;
        piece.0 = piece.0.front(at);
        Some(tail)
    }
}

/// Whether an acknowledgement is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckOwed {
    /// No.
    No,
    /// Yes, but it may wait for company until the delayed-ACK timer.
    Later,
    /// Yes, with the next output.
    Now,
}

/// RCV.* of RFC 9293 section 3.3.1 and its neighbours.
#[derive(Debug)]
pub(super) struct Recv {
    /// RCV.NXT: next byte expected.
    pub(super) nxt: SeqNum,
    /// First byte beyond the window we advertised; RCV.WND is `edge - nxt`.
    pub(super) edge: SeqNum,
    /// RCV.UP: end of urgent data.
    pub(super) up: Option<SeqNum>,
    /// Where the urgent data ends that was last pointed to: bytes of the stream before it, 0 for
    /// none. It stays when that data was received, until it is read.
    pub(super) urgent_end: u64,
    /// In order, unread.
    pub(super) queue: RecvQueue,
    /// Out of order.
    pub(super) assembler: Assembler<OutOfOrder>,
    /// What to report in SACK blocks.
    pub(super) sack: SackGenerator,
    /// Marks seen and echoed (RFC 3168).
    pub(super) ecn: EcnReceiver,
    /// Sequence number of the peer's FIN, once a segment with it arrived.
    pub(super) fin: Option<SeqNum>,
    /// Everything up to and including the FIN arrived.
    pub(super) finished: bool,
    /// The application does not read any more: payload is acknowledged and dropped.
    pub(super) deaf: bool,
    /// TS.Recent, and when it was set.
    pub(super) ts_recent: u32,
    /// See `ts_recent`.
    pub(super) ts_recent_at: Instant,
    /// Last.ACK.sent
    pub(super) last_ack_sent: SeqNum,
    /// Shift of the windows we advertise.
    pub(super) scale: WindowScale,
    /// Largest payload seen in a TCP segment: the peer's idea of a full-sized one.
    pub(super) mss: u32,
    /// Whether an acknowledgement is owed.
    pub(super) owed: AckOwed,
    /// Payload bytes not yet acknowledged.
    pub(super) unacked: u32,
    /// Quick acknowledgements left.
    pub(super) quick: u8,
    /// When an owed acknowledgement must leave.
    pub(super) ack_at: Instant,
    /// Growth of the buffer.
    pub(super) tune: AutoTune,
    /// Round trip as seen from here.
    pub(super) rtt: ReceiverRtt,
    /// Buffer in bytes; grows unless the application set it.
    pub(super) buffer: u32,
    /// The application set the buffer.
    pub(super) fixed: bool,
    /// Bytes it may hold of the link's memory, when that is short; `u32::MAX` when it is not.
    pub(super) share: u32,
    /// The peer was told that there is no window, although more was promised before.
    pub(super) shut: bool,
    /// Payload bytes received in order.
    pub(super) total: u64,
    /// When the last data arrived.
    pub(super) last_data: Instant,
}

impl Recv {
    /// The half after the handshake: the peer's SYN was `irs`, our SYN or SYN-ACK offered `window`
    /// bytes.
    pub(super) fn new(irs: SeqNum, window: u32, scale: WindowScale, tune: AutoTune) -> Self {
        let nxt = irs + 1;
        let buffer = tune.buffer();
        Recv {
            nxt,
            edge: nxt + window,
            up: None,
            urgent_end: 0,
            queue: RecvQueue::new(),
            assembler: Assembler::new(Limits {
                // as many full segments as the largest window has
                pieces: 16_384,
                cost: buffer,
            }),
            sack: SackGenerator::new(),
            ecn: EcnReceiver::default(),
            fin: None,
            finished: false,
            deaf: false,
            ts_recent: 0,
            ts_recent_at: Instant::ZERO,
            last_ack_sent: nxt,
            scale,
            mss: 536,
            owed: AckOwed::No,
            unacked: 0,
            quick: QUICK_ACKS,
            ack_at: Instant::FAR_FUTURE,
            tune,
            rtt: ReceiverRtt::new(),
            buffer,
            fixed: false,
            share: u32::MAX,
            shut: false,
            total: 0,
            last_data: Instant::ZERO,
        }
    }

    /// RCV.WND
    #[inline]
    pub(super) fn wnd(&self) -> u32 {
        let left = self.edge.since(self.nxt);
        left.max(0) as u32
    }

    /// RFC 9293 section 3.10.7.4, first check: the four cases of segment and window length.
    #[inline]
    pub(super) fn acceptable(&self, seg: &Segment) -> bool {
        let (len, wnd) = (seg.seq_len(), self.wnd());
        let inside = |seq: SeqNum| seq.in_range(self.nxt, wnd);
        match (len, wnd) {
            (0, 0) => seg.seq == self.nxt,
            // A peer that has filled the window speaks from its edge; with a probe sent, from one
            // number further. When both have, and both lost the front of it, nothing else brings
            // the acknowledgement that either waits for (RFC 9293 appendix A.2).
            (0, _) => seg.seq.in_range(self.nxt, wnd.saturating_add(2)),
            (_, 0) => false,
            _ => inside(seg.seq) || inside(seg.seq + (len - 1)),
        }
    }

    /// PAWS, RFC 7323 section 5: whether `tsval` is older than what came before.
    pub(super) fn is_old(&self, tsval: u32, now: Instant) -> bool {
        //= https://www.rfc-editor.org/rfc/rfc7323#section-5.5
        //# We therefore require that an implementation of PAWS include a mechanism to
        //# "invalidate" the TS.Recent value when a connection is idle for more than 24 days.
        const INVALID_AFTER: Duration = Duration::from_secs(24 * 24 * 3600);
        let age = now.saturating_duration_since(self.ts_recent_at);
        if planted!(PawsReversed) {
            return (tsval.wrapping_sub(self.ts_recent) as i32) > 0;
        }
        if planted!(PawsWithoutWrap) {
            return tsval < self.ts_recent;
        }
        (tsval.wrapping_sub(self.ts_recent) as i32) < 0 && age <= INVALID_AFTER
    }

    /// RFC 7323 section 4.3: remembers TSval of a segment that starts at `seq` if it covers
    /// Last.ACK.sent.
    #[inline]
    pub(super) fn record_timestamp(&mut self, seq: SeqNum, tsval: u32, now: Instant) {
        //= https://www.rfc-editor.org/rfc/rfc7323#section-5.3
        //# R3) If an arriving segment satisfies SEG.TSval >= TS.Recent and SEG.SEQ <=
        //# Last.ACK.sent (see Section 4.3), then record its timestamp in TS.Recent.
        //= https://www.rfc-editor.org/rfc/rfc7323#section-4.3
        //# Thus, the timestamp from the latest segment (which filled the hole) MUST be echoed.
        //= https://www.rfc-editor.org/rfc/rfc7323#section-5.2
        //# The choice of incoming timestamps to be saved for this comparison MUST guarantee a value
        //# that is monotonically non-decreasing.
        let newer = tsval.wrapping_sub(self.ts_recent) as i32 >= 0;
        if newer && seq.before_eq(self.last_ack_sent) {
            self.ts_recent = tsval;
            self.ts_recent_at = now;
        }
    }

    /// Whether the segment has text behind the peer's FIN, or a FIN elsewhere than where the stream
    /// is known to end. An acknowledgement alone comes from behind the FIN, and says nothing of it:
    /// answered, it would be answered in turn, for as long as there is a hole on both sides.
    pub(super) fn contradicts_fin(&self, seg: &Segment) -> bool {
        if seg.len == 0 && !seg.fin() {
            return false;
        }
        let end = seg.seq + seg.len;
        let by_fin = self
            .fin
            .is_some_and(|fin| end.after(fin) || (seg.fin() && end != fin));
        let by_text = self.assembler.end().is_some_and(|last| last.after(end));
        by_fin || (seg.fin() && by_text)
    }

    /// Queues one in-order range.
    #[inline]
    pub(super) fn take_in_order<D: Driver>(&mut self, endpoint: &mut Endpoint<D>, range: Range) {
        self.nxt += range.len;
        self.total += u64::from(range.len);
        if self.deaf {
            endpoint.release(range);
        } else {
            self.queue.push(endpoint, range);
        }
    }

    /// Queues one range that starts at `seq`, not after RCV.NXT, while islands wait behind it.
    /// Where it lies over one its bytes are thrown away: the first copy wins, whatever comes to
    /// fill the hole.
    pub(super) fn take_around_islands<D: Driver>(
        &mut self,
        endpoint: &mut Endpoint<D>,
        seq: SeqNum,
        range: Range,
    ) {
        let mut rest = range.skip(self.nxt - seq);
        self.note_filled(self.nxt + rest.len);
        while let Some(island) = self.assembler.start()
            && island.before(self.nxt + rest.len)
        {
            let hole = island - self.nxt;
            // a piece in front of the island and one behind it: two references. A peer's memory has
            // but one, and the piece behind is dropped as if it had been lost.
            let shared = rest.space == Space::Own && endpoint.pool.retain(rest);
            self.take_in_order(endpoint, rest.front(hole));
            let filled = self.nxt;
            self.take_islands(endpoint);
            if !shared {
                return;
            }
            rest = rest.skip(hole + (self.nxt - filled));
        }
        self.take_in_order(endpoint, rest);
        self.take_islands(endpoint);
    }

    /// Text from RCV.NXT to `end` arrives: what lies over an island is a duplicate to report, if no
    /// octets before RCV.NXT are already the first one.
    //= https://www.rfc-editor.org/rfc/rfc2883#section-4
    //# (2) Each duplicate contiguous sequence of data received is reported in at most one D-SACK
    //# block.
    fn note_filled(&mut self, end: SeqNum) {
        if let Some((from, to)) = self.assembler.ranges().next()
            && from.before(end)
            && !self.sack.has_dsack()
        {
            self.sack.on_duplicate((from, to.min(end)));
        }
    }

    /// Queues one out-of-order range that starts at `seq`.
    pub(super) fn take_out_of_order<D: Driver>(
        &mut self,
        endpoint: &mut Endpoint<D>,
        seq: SeqNum,
        range: Range,
    ) {
        let (nxt, wnd) = (self.nxt, self.wnd());
        self.sack.on_arrival(seq);
        let piece = OutOfOrder(range);
        let inserted = self
            .assembler
            .insert(nxt, wnd, seq, piece, &mut Blocks(endpoint));
        if let Some(range) = inserted.duplicate {
            self.sack.on_duplicate(range);
        }
    }

    /// Moves what has become contiguous from the assembler to the queue.
    pub(super) fn join<D: Driver>(&mut self, endpoint: &mut Endpoint<D>) {
        self.take_islands(endpoint);
        if self.fin == Some(self.nxt) || (self.fin.is_some() && planted!(FinEarly)) {
            self.nxt += 1 + u32::from(planted!(FinTwice));
            self.finished = true;
            // a peer that sent text behind its FIN: nobody will read it
            self.assembler.clear(&mut Blocks(endpoint));
        }
    }

    fn take_islands<D: Driver>(&mut self, endpoint: &mut Endpoint<D>) {
        while let Some(piece) = self.assembler.pop_in_order(self.nxt) {
            if planted!(TextLost) {
                self.nxt += piece.0.len;
                endpoint.release(piece.0);
                continue;
            }
            self.take_in_order(endpoint, piece.0);
        }
    }

    /// An acknowledgement leaves with the next output.
    #[inline]
    pub(super) fn ack_now(&mut self) {
        self.owed = AckOwed::Now;
        self.ack_at = Instant::FAR_FUTURE;
    }

    /// Decides when the text of a segment is acknowledged. `len`: its payload bytes, `merged`:
    /// bytes per TCP segment if the link joined several.
    #[inline]
    pub(super) fn owe_ack(&mut self, len: u32, merged: u32, delay: Duration, now: Instant) {
        let one = if merged == 0 { len } else { merged };
        self.mss = self.mss.max(one.min(65_535));
        if now.saturating_duration_since(self.last_data) > Duration::from_secs(1) {
            self.quick = QUICK_ACKS;
        }
        self.last_data = now;
        self.unacked = self.unacked.saturating_add(len);
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.3
        //# An ACK SHOULD be generated for at least every second full-sized
        //# segment or 2*RMSS bytes of new data (where RMSS is the MSS specified by
        //# the TCP endpoint receiving the segments to be acknowledged, or the
        //# default value if not specified) (SHLD-19).
        //= https://www.rfc-editor.org/rfc/rfc5681#section-4.2
        //# When using delayed ACKs, a TCP receiver MUST NOT excessively delay acknowledgments.
        //= https://www.rfc-editor.org/rfc/rfc5681#section-4.2
        //# Specifically, an ACK SHOULD be generated for at least every second full-sized segment,
        //# and MUST be generated within 500 ms of the arrival of the first unacknowledged packet.
        let due = self.unacked >= self.mss.saturating_mul(2);
        if due || (self.quick > 0 && len >= 512) || !self.assembler.is_empty() {
            self.quick = self.quick.saturating_sub(1);
            self.ack_now();
        } else if self.owed == AckOwed::No {
            self.owed = AckOwed::Later;
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.3
            //# A TCP endpoint SHOULD implement a delayed ACK (SHLD-18), but an ACK
            //# should not be excessively delayed; in particular, the delay MUST be
            //# less than 0.5 seconds (MUST-40).
            self.ack_at = now + delay;
            if planted!(NeverAcks) {
                self.ack_at = Instant::FAR_FUTURE;
            }
        }
    }

    /// Nothing is acknowledged any more.
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc5681#section-4.2
    //# A TCP receiver MUST NOT generate more than one ACK for every incoming segment, other than to
    //# update the offered window as the receiving application consumes new data (see [RFC813] and
    //# page 42 of [RFC793]).
    pub(super) fn ack_never(&mut self) {
        self.owed = AckOwed::No;
        self.unacked = 0;
        self.ack_at = Instant::FAR_FUTURE;
    }

    /// An acknowledgement left with this half's numbers.
    #[inline]
    pub(super) fn acked(&mut self) {
        self.ack_never();
        self.last_ack_sent = self.nxt;
    }

    /// The window to advertise in a segment that leaves now; moves the right edge.
    #[inline]
    pub(super) fn advertise(&mut self) -> u16 {
        self.shut = self.refuses_text();
        if self.shut {
            // A peer whose text is refused must not count that as loss, time-out after time-out,
            // and give up: it probes a closed window for as long as it takes.
            return 0;
        }
        let window = self.would_advertise();
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.4
        //# When window scaling is in effect, the receiver SHOULD track the
        //# actual maximum window sequence number (which is likely to be greater
        //# than the window announced by the most recent <ACK>, if more than one
        //# segment has arrived since the application consumed any data in the
        //# receive buffer).
        if planted!(WindowShrinks) {
            return WindowSize(window.0 / 2).unscale(self.scale).0;
        }
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.4
        //# 1) The receiver MUST honor, as in window, any segment that would have been in window for
        //# any <ACK> sent by the receiver.
        self.edge = self.edge.max(self.nxt + window.0);
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
        //# The window field (SEG.WND) of every outgoing segment, with the exception of <SYN>
        //# segments, MUST be right-shifted by Rcv.Wind.Shift bits:
        window.unscale(self.scale).0
    }

    fn would_advertise(&self) -> WindowSize {
        // (a reader that keeps up goes on, two segments at a time)
        let share = self.share.max(self.mss.saturating_mul(2));
        let buffer = self.buffer.min(share);
        let free = buffer.saturating_sub(self.held());
        let offered = WindowSize(self.wnd());
        window_to_advertise(offered, free, buffer, self.mss, self.scale)
    }

    /// Bytes that wait here, with what they cost.
    #[inline]
    fn held(&self) -> u32 {
        self.queue.len().saturating_add(self.assembler.cost())
    }

    /// Memory is short and more than this connection's share waits to be read: nothing more is
    /// taken in, although it was promised. The peer sends it again.
    #[inline]
    pub(super) fn refuses_text(&self) -> bool {
        self.queue.len() > self.share
    }

    /// The same for text that would wait behind a hole: it must not stand in the way of what fills
    /// the hole.
    pub(super) fn refuses_island(&self) -> bool {
        self.share == 0 || self.held() > self.share
    }

    /// Forgets what arrived out of order.
    pub(super) fn let_go_of_islands<D: Driver>(&mut self, endpoint: &mut Endpoint<D>) {
        self.assembler.clear(&mut Blocks(endpoint));
        // a FIN behind a hole went with it
        if !self.finished {
            self.fin = None;
        }
    }

    /// The application read `bytes`: grows the buffer if it keeps up; whether the peer should hear
    /// of the larger window now.
    #[inline]
    pub(super) fn on_read(&mut self, bytes: u32, now: Instant) -> bool {
        if !self.fixed
            && let Some(size) = self.tune.on_copied(bytes, now, self.rtt.get(), self.mss)
        {
            self.buffer = size;
            self.assembler.set_cost_limit(size);
        }
        if self.shut {
            return !self.refuses_text();
        }
        let offered = WindowSize(self.wnd());
        !self.finished
            && !planted!(NoWindowUpdate)
            && window_update_due(offered, self.would_advertise(), self.mss)
    }

    /// Sets the buffer for good.
    pub(super) fn set_buffer(&mut self, bytes: u32) {
        self.fixed = true;
        self.buffer = bytes.max(2048);
        self.assembler.set_cost_limit(self.buffer);
    }

    /// Bytes that remain to be read up to the end of urgent data; 0: none is pending.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
    //# The TCP implementation MUST (MUST-33) provide a way for the application to learn how much
    //# urgent data remains to be read from the connection, or at least to determine whether more
    //# urgent data remains to be read [19].
    pub(super) fn urgent_pending(&self) -> u64 {
        let read = self.total.saturating_sub(u64::from(self.queue.len()));
        self.urgent_end.saturating_sub(read)
    }

    /// Whether reading gives something at once.
    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        self.queue.len() > 0 || self.finished
    }

    /// Lets go of everything queued.
    pub(super) fn clear<D: Driver>(&mut self, endpoint: &mut Endpoint<D>) {
        self.queue.clear(endpoint);
        self.assembler.clear(&mut Blocks(endpoint));
    }
}
