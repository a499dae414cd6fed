//! Who gets a segment: a connection, a listener, or nobody (RFC 9293 sections 3.10.7.1 and 2).

use core::net::SocketAddr;

use gannet_base::Instant;
use gannet_link::{Driver, Frame, RxChecksum};
use gannet_wire::IpProtocol;
use gannet_wire::tcp::{Flags, MAX_HEADER_LEN};

use super::connection::{Connection, Cx, State};
use super::counters::TcpEvent;
use super::ecn;
use super::engine::Tcp;
use super::fast_open::{self, News};
use super::handshake::{self, Opened};
use super::input;
use super::reset;
use super::segment::{Preview, Segment};
use super::seq::SeqNum;
use super::table::Pair;
use super::transitions::Phase;
use crate::address;
use crate::ip::{Ip, Packet};
use crate::link::LinkId;

/// A segment for no connection, with all that came with it.
pub(super) struct Arrival<'a> {
    /// Where it came in.
    pub(super) link: LinkId,
    /// Our end and the sender's.
    pub(super) pair: Pair,
    pub(super) seg: &'a mut Segment,
    pub(super) frame: &'a mut Frame,
}

/// What a segment calls for beyond its connection.
enum Then {
    Nothing,
    /// A reset.
    Refuse,
    /// To be remembered of the server.
    Learn(News),
}

impl Tcp {
    /// A segment arrives (RFC 9293 section 3.10.7). `frame` starts at the TCP header and ends with
    /// the IP packet; its ranges are kept or released here.
    #[inline]
    pub(crate) fn segment_arrives<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        frame: &mut Frame,
    ) {
        self.counters.add(TcpEvent::Received);
        match self.parse(ip, packet, frame) {
            Ok((local, remote, mut seg)) => {
                self.dispatch(ip, now, packet, (local, remote), &mut seg, frame);
            }
            Err(why) => {
                self.counters.add(why);
                if let Some(endpoint) = ip.endpoint(packet.link) {
                    endpoint.release_frame(frame);
                }
            }
        }
    }

    /// Verifies and takes apart the header.
    #[inline]
    fn parse<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        packet: &Packet,
        frame: &mut Frame,
    ) -> Result<(SocketAddr, SocketAddr, Segment), TcpEvent> {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
        //# the receiver MUST check it (MUST-3).
        if frame.checksum() == RxChecksum::Unknown {
            let len = u16::try_from(frame.len()).map_err(|_| TcpEvent::BadHeader)?;
            let (source, destination) = (packet.source, packet.destination);
            let pseudo = address::pseudo(source, destination, IpProtocol::TCP, u32::from(len));
            let sum = ip.frame_sum(packet.link, frame).combine(pseudo, false);
            if sum.finish() != 0 && !planted!(NoTcpChecksum) {
                return Err(TcpEvent::BadChecksum);
            }
        }
        let mut head = [0; MAX_HEADER_LEN];
        let endpoint = ip.endpoint(packet.link).ok_or(TcpEvent::BadHeader)?;
        let n = endpoint.peek(frame, &mut head);
        let head = head.get(..n).unwrap_or(&[]);
        let preview = Preview::parse(head).map_err(|_| TcpEvent::BadHeader)?;
        let seg_ports = (preview.source_port, preview.destination_port);
        // (what is for many, or from an impossible source, has been dropped by IP)
        if seg_ports.0 == 0 || seg_ports.1 == 0 {
            return Err(TcpEvent::BadAddress);
        }
        let seg = preview.into_segment(head, ecn::is_marked(packet.tos), frame);
        let local = SocketAddr::new(packet.destination, seg_ports.1);
        let remote = SocketAddr::new(packet.source, seg_ports.0);
        Ok((local, remote, seg))
    }

    /// To the connection it belongs to, to a listener, or to nobody.
    #[inline]
    fn dispatch<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        pair: Pair,
        seg: &mut Segment,
        frame: &mut Frame,
    ) {
        let mut above = None;
        if let Some(index) = self.table.find(pair.0, pair.1) {
            above = self.arrives_at(ip, now, packet.link, index, seg, frame);
            if above.is_none() {
                return;
            }
            // TIME-WAIT ends early only for a connection that can be made
            if !self.table.has_room(pair.0) {
                self.counters.add(TcpEvent::BacklogFull);
                return self.drop_frame(ip, packet.link, frame);
            }
            self.forget(ip, index);
        }
        let link = packet.link;
        let mut arrival = Arrival {
            link,
            pair,
            seg,
            frame,
        };
        if let Some(request) = self.requests.find(&pair.into()) {
            self.arrives_at_request(ip, now, request, &mut arrival);
        } else if let Some(listener) = self.table.listeners.find(pair.0) {
            self.arrives_in_listen(ip, now, (listener, above), &mut arrival);
        } else {
            self.drop_frame(ip, link, arrival.frame);
            self.counters.add(TcpEvent::NoSocket);
            self.refuse(ip, now, pair, arrival.seg);
        }
    }

    pub(super) fn drop_frame<D: Driver>(&mut self, ip: &mut Ip<D>, link: LinkId, frame: &Frame) {
        if let Some(endpoint) = ip.endpoint(link) {
            endpoint.release_frame(frame);
        }
    }

    /// A reset answers a segment that belongs to nobody.
    pub(super) fn refuse<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        (local, remote): (SocketAddr, SocketAddr),
        seg: &Segment,
    ) {
        reset::answer(&mut self.cx(ip, now), local, remote, seg);
    }

    /// A segment for the connection at `index`. When it is a SYN that may replace it: the number
    /// that the new connection must begin above.
    #[inline]
    fn arrives_at<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        link: LinkId,
        index: u32,
        seg: &mut Segment,
        frame: &mut Frame,
    ) -> Option<SeqNum> {
        let mut reopen = None;
        let mut then = Then::Nothing;
        let mut quiet = false;
        self.with(ip, now, index, |conn, cx| {
            conn.segments_received += 1;
            if conn.path.link != link {
                // a connection lives on one link, whose memory its queues refer to
                cx.counters.add(TcpEvent::BadAddress);
                return handshake::drop_frame(cx, link, frame);
            }
            let opened = match &conn.state {
                State::Open(_) => {
                    input::arrives(conn, cx, link, seg, frame);
                    quiet = conn.has_nothing_to_send();
                    return;
                }
                State::SynSent(_) => {
                    let news = fast_open::news(conn, seg);
                    let opened = handshake::arrives_in_syn_sent(conn, cx, seg);
                    if let Some(news) = news.filter(|_| opened == Opened::Yes) {
                        then = Then::Learn(news);
                    }
                    opened
                }
                State::Dormant(_) => {
                    conn.wake(cx.now + cx.config.rest_after);
                    return input::arrives(conn, cx, link, seg, frame);
                }
                State::SynReceived(_) => handshake::arrives_in_syn_received(conn, cx, seg),
                State::TimeWait(_) => {
                    reopen = input::arrives_in_time_wait(conn, cx, seg);
                    Opened::No
                }
                State::Closed => Opened::No,
            };
            match opened {
                Opened::Yes => after_opening(conn, cx, link, seg, frame),
                Opened::Reset => then = Then::Refuse,
                Opened::No => {}
            }
            if opened != Opened::Yes && reopen.is_none() {
                handshake::drop_frame(cx, link, frame);
            }
        });
        if quiet {
            return None;
        }
        match then {
            Then::Nothing => {}
            Then::Learn(news) => self.learn(now, &news),
            Then::Refuse => {
                if let Some(entry) = self.table.at_mut(index) {
                    let ends = (entry.conn.local, entry.conn.remote);
                    self.refuse(ip, now, ends, seg);
                }
            }
        }
        self.owe(index);
        reopen
    }
}

/// The segment that opened the connection may carry more: text, a FIN.
pub(super) fn after_opening<D: Driver>(
    conn: &mut Connection,
    cx: &mut Cx<'_, D>,
    link: LinkId,
    seg: &mut Segment,
    frame: &mut Frame,
) {
    conn.attached = conn.attached || conn.listener.is_some();
    let fresh = conn.listener.is_some();
    if seg.syn() {
        // the SYN is done with; what is left counts from the next sequence number, and its window
        // is read as scaled from here on
        seg.flags.remove(Flags::SYN);
        seg.seq += 1;
        if let State::Open(open) = &conn.state {
            seg.window >>= open.send.scale.shift();
        }
        if seg.seq_len() == 0 {
            handshake::drop_frame(cx, link, frame);
            return mark_unaccepted(conn, fresh);
        }
    }
    input::arrives(conn, cx, link, seg, frame);
    mark_unaccepted(conn, fresh);
}

/// A connection that its listener has yet to queue is marked so that `settle` does it.
fn mark_unaccepted(conn: &mut Connection, fresh: bool) {
    if fresh && !conn.is_closed() {
        conn.attached = false;
    }
    if let State::Open(open) = &mut conn.state
        && open.phase != Phase::Closed
    {
        open.refresh();
    }
}
