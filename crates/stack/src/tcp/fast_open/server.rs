//! The server (RFC 7413 section 4.2.2): a connection that is open, readable and writable, while its
//! SYN-ACK is not acknowledged.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use alloc::boxed::Box;
use alloc::sync::Arc;

use gannet_base::Instant;
use gannet_link::{Driver, Frame};
use gannet_wire::tcp::{FastOpenCookie, Flags};

use super::cookie;
use crate::ip::Ip;
use crate::link::LinkId;
use crate::tcp::connection::{Connection, Cx, State};
use crate::tcp::counters::TcpEvent;
use crate::tcp::demux::Arrival;
use crate::tcp::engine::Tcp;
use crate::tcp::error::TcpError;
use crate::tcp::handshake::{self, Opening, drop_frame, send_syn};
use crate::tcp::input;
use crate::tcp::request::passive;
use crate::tcp::reset;
use crate::tcp::segment::Segment;
use crate::tcp::seq::SeqNum;
use crate::tcp::socket::ListenerId;
use crate::tcp::transitions::Phase;

/// How long a connection that was reset before it was acknowledged still counts as pending.
const RESET_COUNTS: Duration = Duration::from_secs(60);

/// PendingFastOpenRequests of a listener. Its connections share it, so that it is right however one
/// of them ends.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Pending {
    open: AtomicU32,
    /// Those that were reset lately (RFC 7413 section 5.1).
    reset: AtomicU32,
    /// Until when they count, in nanoseconds.
    reset_until: AtomicU64,
}

impl Pending {
    fn count(&self, now: Instant) -> u32 {
        if now.as_nanos() >= self.reset_until.load(Ordering::Relaxed) {
            self.reset.store(0, Ordering::Relaxed);
        }
        let reset = self.reset.load(Ordering::Relaxed);
        self.open.load(Ordering::Relaxed).saturating_add(reset)
    }

    fn was_reset(&self, now: Instant) {
        self.reset.fetch_add(1, Ordering::Relaxed);
        let until = (now + RESET_COUNTS).as_nanos();
        self.reset_until.store(until, Ordering::Relaxed);
    }
}

/// A connection's place among the pending.
#[derive(Debug)]
struct Place(Arc<Pending>);

impl Place {
    fn take(pending: &Arc<Pending>) -> Self {
        pending.open.fetch_add(1, Ordering::Relaxed);
        Place(pending.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What an open connection keeps of its SYN-RECEIVED until its SYN-ACK is acknowledged.
#[derive(Debug)]
pub(in crate::tcp) struct FastOpened {
    pub(in crate::tcp) opening: Opening,
    place: Place,
}

impl FastOpened {
    /// The peer knows nothing of this connection.
    pub(in crate::tcp) fn was_reset(&self, now: Instant) {
        self.place.0.was_reset(now);
    }
}

impl Tcp {
    /// A SYN with data arrives for a listener that may keep a request: whether it was taken.
    /// Otherwise nothing has happened, and the ordinary handshake begins.
    pub(in crate::tcp) fn opens_at_once<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        (listener, above): (ListenerId, Option<SeqNum>),
        arrival: &mut Arrival<'_>,
    ) -> bool {
        let Some((settings, pending)) = self.may_open_at_once(now, listener, arrival) else {
            return false;
        };
        let mut cx = self.cx(ip, now);
        let ours = passive(&mut cx, arrival.pair, arrival.link, (listener, settings));
        // a connection lives on one link, whose memory its queues refer to
        let Some(mut conn) = ours.filter(|c| c.path.link == arrival.link) else {
            return false;
        };
        let mut opening = Opening::passive(&cx, &conn, arrival.seg, above);
        opening.offer.fast_open = false; // it has one
        let Some(mut open) = handshake::halves(&conn, &mut cx, &mut opening, arrival.seg) else {
            return false;
        };
        open.fast = Some(Box::new(FastOpened {
            opening,
            place: Place::take(&pending),
        }));
        conn.state = State::Open(Box::new(open));
        cx.counters.add(TcpEvent::FastOpen);
        let index = self.table.add(conn).index;
        self.with(ip, now, index, |conn, cx| {
            take_data(conn, cx, arrival.link, arrival.seg, arrival.frame);
            answer(conn, cx);
        });
        self.owe(index);
        true
    }

    fn may_open_at_once(
        &mut self,
        now: Instant,
        listener: ListenerId,
        arrival: &Arrival<'_>,
    ) -> Option<(crate::tcp::settings::Settings, Arc<Pending>)> {
        let seg = &arrival.seg;
        let cookie = seg.options.fast_open();
        let cookie = cookie.filter(|c| *c != FastOpenCookie::REQUEST && seg.len > 0)?;
        let at = self.table.listeners.get(listener)?;
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2
        //# When this flag is off, the server does not
        //# perform any TFO-related operations and MUST ignore all cookie
        //# options.
        let most = u32::from(at.settings.fast_open);
        if most == 0 || seg.fin() {
            return None;
        }
        let ends = (arrival.pair.0.ip(), arrival.pair.1.ip());
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
        //# If IsCookieValid() (in Section 4.1.2) returns false, go to step 5.
        if !cookie::is_valid(&self.key, ends, &cookie, now) {
            self.counters.add(TcpEvent::FastOpenBadCookie);
            return None;
        }
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2
        //# If this variable goes over a preset system limit, the
        //# server MUST disable TFO for all new connection requests until
        //# PendingFastOpenRequests drops below the system limit.
        if at.fast.count(now) >= most {
            self.counters.add(TcpEvent::FastOpenFull);
            return None;
        }
        Some((at.settings, at.fast.clone()))
    }
}

/// The data of the SYN goes where the application reads it.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//# Buffer the data and notify the application.
fn take_data<D: Driver>(
    conn: &mut Connection,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &mut Segment,
    frame: &mut Frame,
) {
    let State::Open(open) = &mut conn.state else {
        return drop_frame(cx, link, frame);
    };
    seg.flags.remove(Flags::SYN);
    seg.seq += 1;
    input::take_first_text(open, cx, link, seg, frame);
    // the SYN-ACK acknowledges it
    open.recv.acked();
    open.refresh();
}

/// Sends the SYN-ACK, for the first time or again.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//# If the FastOpened flag is set, the packet acknowledges
//# the SYN and data sequence.
fn answer<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    send_syn(conn, cx);
    if let State::Open(open) = &mut conn.state
        && let Some(fast) = &open.fast
    {
        open.linger_until = fast.opening.resend_at;
    }
}

/// The SYN-ACK's timer has expired.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//# If the SYN-ACK timer fires, the server SHOULD retransmit a SYN-ACK
//# segment with neither data nor Fast Open options for compatibility
//# reasons.
pub(in crate::tcp) fn expired<D: Driver>(conn: &mut Connection, cx: &mut Cx<'_, D>) {
    let State::Open(open) = &mut conn.state else {
        return;
    };
    let Some(fast) = &open.fast else {
        return;
    };
    let sent = fast.opening.sent;
    if sent > cx.config.syn_ack_retries {
        return conn.fail(cx.ip, Some(TcpError::TimedOut));
    }
    if sent == 1 {
        open.send.congestion.on_syn_lost();
    }
    if sent > 1 {
        cx.ip.suspect(cx.now, &conn.path);
    }
    answer(conn, cx);
}

/// A segment arrives while our SYN is not acknowledged: whether the ordinary steps are to look at
/// it.
pub(in crate::tcp) fn arrives_before_ack<D: Driver>(
    conn: &mut Connection,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &Segment,
    frame: &Frame,
) -> bool {
    let ends = (conn.local, conn.remote);
    let State::Open(open) = &mut conn.state else {
        return true;
    };
    let Some(fast) = &open.fast else {
        return true;
    };
    let opening = &fast.opening;
    if seg.syn() && seg.seq == opening.irs && !seg.rst() {
        // the peer's SYN again: its data was taken
        if opening.sent < 3 {
            answer(conn, cx);
        }
        drop_frame(cx, link, frame);
        return false;
    }
    if seg.rst() || !seg.has_ack() || !open.recv.acceptable(seg) {
        return true;
    }
    let first = opening.iss + 1;
    if seg.ack - first > open.send.max - first {
        cx.counters.add(TcpEvent::BadAck);
        drop_frame(cx, link, frame);
        reset::answer(cx, ends.0, ends.1, seg);
        return false;
    }
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
    //# Upon receiving an ACK acknowledging the SYN sequence, the server
    //# decrements PendingFastOpenRequests and advances to the ESTABLISHED
    //# state.
    let (sent, sent_at) = (opening.sent, opening.sent_at);
    open.fast = None;
    // from here on it may rest, as any other
    open.linger_until = match open.phase {
        Phase::Established => cx.now + cx.config.rest_after,
        _ => Instant::FAR_FUTURE,
    };
    open.send.rtt.on_established(sent > 1);
    if sent == 1 {
        let round_trip = cx.now.saturating_duration_since(sent_at);
        open.send.rtt.on_sample(round_trip);
    }
    true
}
