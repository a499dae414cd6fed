//! Listeners: SYNs, half-open requests, SYN cookies, and the way into the queue of those who wait
//! to be accepted (RFC 9293 section 3.10.7.2, RFC 4987).
//!
//! ```text
//!   SYN --> request --> ACK --> open, in the accept queue
//!        `- too many of them: cookie --> ACK with a cookie of ours -^
//! ```
//! A SYN is answered with at most one segment, and nothing but a request is kept before the peer
//! has shown that it is where it says it is.

use gannet_base::Instant;
use gannet_link::Driver;

use super::connection::{Connection, State};
use super::cookie::{self, Asked, Extras};
use super::counters::TcpEvent;
use super::demux::{Arrival, after_opening};
use super::engine::Tcp;
use super::handshake::{self, Opened, Opening, send_syn};
use super::offer::Offer;
use super::output;
use super::request::{Request, passive};
use super::seq::SeqNum;
use super::settings::Settings;
use super::socket::ListenerId;
use super::table::Pair;
use crate::config::SynCookies;
use crate::hash::FourTuple;
use crate::ip::Ip;
use crate::link::LinkId;

impl Tcp {
    /// RFC 9293 section 3.10.7.2: a segment arrives in LISTEN. `above`: see [`Opening::passive`].
    pub(super) fn arrives_in_listen<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        (listener, above): (ListenerId, Option<SeqNum>),
        arrival: &mut Arrival<'_>,
    ) {
        let seg = &arrival.seg;
        if seg.has_ack() && !seg.rst() && !seg.syn() && self.may_be_cookie(listener, now) {
            return self.cookie_arrives(ip, now, listener, arrival);
        }
        let fresh = seg.syn() && !seg.has_ack() && !seg.rst() && seg.len > 0;
        if fresh
            && self.room_for(listener) == Ok(true)
            && self.opens_at_once(ip, now, (listener, above), arrival)
        {
            return;
        }
        let seg = &arrival.seg;
        // text of a SYN comes again once the connection is open
        self.drop_frame(ip, arrival.link, arrival.frame);
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.2
        //# An incoming RST should be ignored.
        if seg.rst() {
            return self.counters.add(TcpEvent::Ignored);
        }
        if seg.has_ack() {
            self.counters.add(TcpEvent::BadAck);
            return self.refuse(ip, now, arrival.pair, seg);
        }
        if !seg.syn() {
            return self.counters.add(TcpEvent::Ignored);
        }
        match self.room_for(listener) {
            Ok(true) => self.answer_syn(ip, now, (listener, above), arrival),
            Ok(false) => self.answer_with_cookie(ip, now, listener, arrival),
            Err(why) => self.counters.add(why),
        }
    }

    /// Whether the listener keeps one more request (`true`) or answers with a cookie.
    fn room_for(&self, listener: ListenerId) -> Result<bool, TcpEvent> {
        let at = self
            .table
            .listeners
            .get(listener)
            .ok_or(TcpEvent::NoSocket)?;
        if at.waiting.len() >= at.backlog {
            return Err(TcpEvent::BacklogFull);
        }
        if self.table.len() >= self.config.connections_max {
            return Err(TcpEvent::TooManyConnections);
        }
        let full = at.opening >= self.config.syn_backlog;
        match self.config.syn_cookies {
            SynCookies::Off if full => Err(TcpEvent::BacklogFull),
            SynCookies::Off => Ok(true),
            SynCookies::OnOverflow => Ok(!full),
            SynCookies::Always => Ok(false),
        }
    }

    fn listener_settings(&self, listener: ListenerId) -> Option<Settings> {
        self.table.listeners.get(listener).map(|l| l.settings)
    }

    /// SYN-RECEIVED begins.
    fn answer_syn<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        (listener, above): (ListenerId, Option<SeqNum>),
        arrival: &Arrival<'_>,
    ) {
        let Some(settings) = self.listener_settings(listener) else {
            return;
        };
        let mut cx = self.cx(ip, now);
        let Some(mut conn) = passive(&mut cx, arrival.pair, arrival.link, (listener, settings))
        else {
            return self.counters.add(TcpEvent::BadAddress);
        };
        conn.state = State::SynReceived(Opening::passive(&cx, &conn, arrival.seg, above));
        send_syn(&mut conn, &mut cx);
        let at = conn.deadline(&self.config);
        if let Some(request) = Request::of(&conn, arrival.link) {
            self.requests.add(request, at);
            if let Some(at) = self.table.listeners.get_mut(listener) {
                at.opening += 1;
            }
        }
    }

    /// Answers and forgets.
    fn answer_with_cookie<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        listener: ListenerId,
        arrival: &Arrival<'_>,
    ) {
        let Some(settings) = self.listener_settings(listener) else {
            return;
        };
        let mut cx = self.cx(ip, now);
        let (pair, link) = (arrival.pair, arrival.link);
        let Some(mut conn) = passive(&mut cx, pair, link, (listener, settings)) else {
            return self.counters.add(TcpEvent::BadAddress);
        };
        let mut opening = Opening::passive(&cx, &conn, arrival.seg, None);
        opening.offer.fast_open = false;
        let ends = ends_of(pair);
        let asked = Asked {
            key: cx.key,
            ends: &ends,
            irs: opening.irs,
            timestamps: opening.offer.timestamp.is_some(),
        };
        opening.iss = asked.cookie(opening.offer.mss(arrival.pair.0.is_ipv6()), now);
        // without a time stamp to carry them the other options cannot be had
        if !asked.timestamps {
            (opening.offer.scale, opening.offer.sack) = (None, false);
            opening.offer.ecn = false;
        }
        opening.cookie = true;
        conn.state = State::SynReceived(opening);
        send_syn(&mut conn, &mut cx);
        self.counters.add(TcpEvent::CookieSent);
        if let Some(at) = self.table.listeners.get_mut(listener) {
            at.cookies_until = now + cookie::LIFE;
        }
    }

    fn may_be_cookie(&self, listener: ListenerId, now: Instant) -> bool {
        let at = self.table.listeners.get(listener);
        at.is_some_and(|l| now <= l.cookies_until)
    }

    /// An acknowledgement for a listener that has sent cookies: checked before anything is made of
    /// it.
    fn cookie_arrives<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        listener: ListenerId,
        arrival: &mut Arrival<'_>,
    ) {
        let seg = &arrival.seg;
        let ends = ends_of(arrival.pair);
        let before = |number: SeqNum| SeqNum(number.0.wrapping_sub(1));
        let (iss, irs) = (before(seg.ack), before(seg.seq));
        let asked = Asked {
            key: &self.key,
            ends: &ends,
            irs,
            timestamps: seg.timestamps.is_some(),
        };
        let Some(mss) = asked.check(iss, now) else {
            self.counters.add(TcpEvent::BadAck);
            self.drop_frame(ip, arrival.link, arrival.frame);
            return self.refuse(ip, now, arrival.pair, seg);
        };
        let extras = seg.timestamps.map(|(_, echo)| cookie::read_timestamp(echo));
        let Extras { scale, sack, ecn } = extras.unwrap_or_default();
        let offer = Offer {
            mss: Some(mss),
            scale,
            sack,
            timestamp: seg.timestamps.map(|(value, _)| value),
            ecn,
            fast_open: false,
        };
        if let Err(why) = self.may_open(listener) {
            self.counters.add(why);
            return self.drop_frame(ip, arrival.link, arrival.frame);
        }
        let Some(settings) = self.listener_settings(listener) else {
            return self.drop_frame(ip, arrival.link, arrival.frame);
        };
        let mut cx = self.cx(ip, now);
        let made = passive(&mut cx, arrival.pair, arrival.link, (listener, settings));
        let Some(mut conn) = made else {
            return self.drop_frame(ip, arrival.link, arrival.frame);
        };
        let mut opening = Opening::answer(&cx, &conn, irs, offer);
        opening.iss = iss;
        conn.state = State::SynReceived(opening);
        let opened = handshake::arrives_in_syn_received(&mut conn, &mut cx, arrival.seg);
        if opened != Opened::Yes {
            return self.drop_frame(ip, arrival.link, arrival.frame);
        }
        self.counters.add(TcpEvent::CookieTaken);
        self.opens(ip, now, conn, arrival);
    }

    /// Whether one more connection may enter the listener's queue.
    fn may_open(&self, listener: ListenerId) -> Result<(), TcpEvent> {
        let at = self
            .table
            .listeners
            .get(listener)
            .ok_or(TcpEvent::NoSocket)?;
        if at.waiting.len() >= at.backlog {
            return Err(TcpEvent::AcceptQueueFull);
        }
        if self.table.len() >= self.config.connections_max {
            return Err(TcpEvent::TooManyConnections);
        }
        Ok(())
    }

    /// A segment for a half-open request.
    pub(super) fn arrives_at_request<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        place: u32,
        arrival: &mut Arrival<'_>,
    ) {
        let Some(&request) = self.requests.get(place) else {
            return self.drop_frame(ip, arrival.link, arrival.frame);
        };
        let seg = &arrival.seg;
        let opens = seg.has_ack() && !seg.rst();
        if opens && let Err(why) = self.may_open(request.listener) {
            // the peer believes that it is open and sends again
            self.counters.add(why);
            return self.drop_frame(ip, arrival.link, arrival.frame);
        }
        let Some(mut conn) = self.inflate(ip, now, &request) else {
            self.forget_request(place);
            return self.drop_frame(ip, arrival.link, arrival.frame);
        };
        if conn.path.link != arrival.link {
            // a connection lives on one link, whose memory its queues refer to
            self.counters.add(TcpEvent::BadAddress);
            return self.drop_frame(ip, arrival.link, arrival.frame);
        }
        let mut cx = self.cx(ip, now);
        match handshake::arrives_in_syn_received(&mut conn, &mut cx, arrival.seg) {
            Opened::Yes => {
                self.forget_request(place);
                return self.opens(ip, now, conn, arrival);
            }
            Opened::Reset => self.refuse(ip, now, arrival.pair, arrival.seg),
            Opened::No => {}
        }
        self.drop_frame(ip, arrival.link, arrival.frame);
        self.keep_request(place, &conn, arrival.link);
    }

    /// The connection, which has just opened, goes into the table and the listener's queue.
    fn opens<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        conn: Connection,
        arrival: &mut Arrival<'_>,
    ) {
        let index = self.table.add(conn).index;
        self.with(ip, now, index, |conn, cx| {
            after_opening(conn, cx, arrival.link, arrival.seg, arrival.frame);
        });
        self.owe(index);
    }

    fn inflate<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        request: &Request,
    ) -> Option<Connection> {
        let settings = self.listener_settings(request.listener)?;
        request.connection(&mut self.cx(ip, now), settings)
    }

    fn keep_request(&mut self, place: u32, conn: &Connection, link: LinkId) {
        let at = conn.deadline(&self.config);
        match Request::of(conn, link) {
            Some(request) => self.requests.update(place, request, at),
            None => self.forget_request(place),
        }
    }

    fn forget_request(&mut self, place: u32) {
        if let Some(request) = self.requests.remove(place)
            && let Some(at) = self.table.listeners.get_mut(request.listener)
        {
            at.opening = at.opening.saturating_sub(1);
        }
    }

    /// The answer to a SYN stays unacknowledged: it is sent again, or given up.
    pub(super) fn request_expired<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, place: u32) {
        let Some(&request) = self.requests.get(place) else {
            return;
        };
        let opening = self.table.listeners.get(request.listener);
        let crowded = opening.is_some_and(|l| l.opening > self.config.syn_backlog / 2);
        // in a crowd most are no real peers, and would be sent more than they sent; a real one
        // whose SYN was answered in vain sends it again itself
        let most = match crowded {
            true => self.config.syn_ack_retries.min(1),
            false => self.config.syn_ack_retries,
        };
        let conn = self.inflate(ip, now, &request);
        let Some(mut conn) = conn.filter(|_| request.sent <= most) else {
            return self.forget_request(place);
        };
        let mut cx = self.cx(ip, now);
        if request.sent > 1 {
            cx.ip.suspect(now, &conn.path);
        }
        send_syn(&mut conn, &mut cx);
        self.keep_request(place, &conn, request.link);
    }

    /// The link by which requests came goes.
    pub(super) fn forget_requests(&mut self, link: LinkId) {
        for place in self.requests.on_link(link) {
            self.forget_request(place);
        }
    }

    /// Ends requests, with a reset where the peer may believe to be connected.
    pub(super) fn end_requests<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        places: impl IntoIterator<Item = u32>,
    ) {
        for place in places {
            let request = self.requests.get(place).copied();
            if let Some(mut conn) = request.and_then(|r| self.inflate(ip, now, &r)) {
                output::send_reset(&mut conn, &mut self.cx(ip, now));
            }
            self.forget_request(place);
        }
    }
}

fn ends_of((local, remote): Pair) -> FourTuple {
    FourTuple { local, remote }
}
