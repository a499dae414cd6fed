//! All TCP of a host: who gets a segment, whose time has come, who owes output.

use core::net::SocketAddrV4;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use gannet_base::Instant;
use gannet_link::{Driver, Frame, RxChecksum};
use gannet_wire::tcp::{Flags, MAX_HEADER_LEN};

use super::api::memory_share;
use super::connection::{Connection, Cx, Open, Settings, State};
use super::counters::{TcpCounters, TcpEvent};
use super::error::TcpError;
use super::handshake::{self, Opened, Opening};
use super::icmp::{self, IcmpError};
use super::input;
use super::isn::EphemeralPorts;
use super::output;
use super::reset;
use super::segment::{Preview, Segment};
use super::seq::SeqNum;
use super::socket::{ListenerId, TcpId, TcpReady};
use super::table::Table;
use super::timers;
use super::transitions::Phase;
use crate::config::{Config, TcpConfig};
use crate::hash::HashKey;
use crate::ip::{Ip, Packet};
use crate::link::LinkId;
use crate::timer::Wheel;

/// Most blocks that must be free before those who wait for memory are called.
const MEMORY_BACK: usize = 8;

/// All TCP of a host.
pub struct Tcp {
    pub(super) config: TcpConfig,
    key: HashKey,
    pub(super) table: Table,
    pub(super) ports: EphemeralPorts,
    wheel: Wheel,
    /// Connections that owe output at the end of the batch.
    owing: Vec<u32>,
    /// Those whose turn it is, while their output is made.
    serving: Vec<u32>,
    ready: VecDeque<TcpReady>,
    /// Connections that wait for free blocks.
    memory_waiters: Vec<u32>,
    pub(super) counters: TcpCounters,
}

impl Tcp {
    /// No sockets.
    pub fn new(config: &Config) -> Self {
        let key = HashKey::new(config.secret);
        Tcp {
            config: config.tcp.clone(),
            key,
            table: Table::new(key),
            ports: EphemeralPorts::new(key),
            wheel: Wheel::new(64),
            owing: Vec::new(),
            serving: Vec::new(),
            ready: VecDeque::new(),
            memory_waiters: Vec::new(),
            counters: TcpCounters::new(),
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> &TcpCounters {
        &self.counters
    }

    /// Number of connections in any state.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// Sockets whose readiness may have changed since the last call, each once.
    pub fn take_ready(&mut self) -> Option<TcpReady> {
        let ready = self.ready.pop_front()?;
        match ready {
            TcpReady::Connection(id) => {
                if let Some(entry) = self.table.get_mut(id) {
                    entry.signalled = false;
                }
            }
            TcpReady::Listener(id) => {
                if let Some(listener) = self.table.listener_mut(id) {
                    listener.signalled = false;
                }
            }
        }
        Some(ready)
    }

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
    ) -> Result<(SocketAddrV4, SocketAddrV4, Segment), TcpEvent> {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
        //# the receiver MUST check it (MUST-3).
        if frame.checksum() == RxChecksum::Unknown {
            let len = u16::try_from(frame.len()).map_err(|_| TcpEvent::BadHeader)?;
            let pseudo = gannet_wire::checksum::pseudo_v4(
                packet.source,
                packet.destination,
                gannet_wire::IpProtocol::TCP,
                len,
            );
            let sum = ip.frame_sum(packet.link, frame).combine(pseudo, false);
            if sum.finish() != 0 {
                return Err(TcpEvent::BadChecksum);
            }
        }
        let mut head = [0; MAX_HEADER_LEN];
        let endpoint = ip.endpoint(packet.link).ok_or(TcpEvent::BadHeader)?;
        let n = endpoint.peek(frame, &mut head);
        let head = head.get(..n).unwrap_or(&[]);
        let preview = Preview::parse(head).map_err(|_| TcpEvent::BadHeader)?;
        let seg_ports = (preview.source_port, preview.destination_port);
        if seg_ports.0 == 0 || seg_ports.1 == 0 || ip.is_broadcast(packet.destination) {
            return Err(TcpEvent::BadAddress);
        }
        let seg = preview.into_segment(head, frame);
        let local = SocketAddrV4::new(packet.destination, seg_ports.1);
        let remote = SocketAddrV4::new(packet.source, seg_ports.0);
        Ok((local, remote, seg))
    }

    /// To the connection it belongs to, to a listener, or to nobody.
    #[inline]
    fn dispatch<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        (local, remote): (SocketAddrV4, SocketAddrV4),
        seg: &mut Segment,
        frame: &mut Frame,
    ) {
        let mut above = None;
        if let Some(index) = self.table.find(local, remote) {
            above = self.arrives_at(ip, now, packet.link, index, seg, frame);
            if above.is_none() {
                return;
            }
            // TIME-WAIT ends early only for a connection that can be made
            if !self.table.has_room(local) {
                self.counters.add(TcpEvent::BacklogFull);
                return self.drop_frame(ip, packet.link, frame);
            }
            self.forget(ip, index);
        }
        let listener = self.table.find_listener(local);
        // text of a SYN comes again once the connection is open
        self.drop_frame(ip, packet.link, frame);
        match listener {
            Some(listener) => {
                let way = (listener, packet.link, above);
                self.arrives_in_listen(ip, now, way, (local, remote), seg);
            }
            None => {
                self.counters.add(TcpEvent::NoSocket);
                self.refuse(ip, now, (local, remote), seg);
            }
        }
    }

    fn drop_frame<D: Driver>(&mut self, ip: &mut Ip<D>, link: LinkId, frame: &Frame) {
        if let Some(endpoint) = ip.endpoint(link) {
            endpoint.release_frame(frame);
        }
    }

    /// A reset answers a segment that belongs to nobody.
    fn refuse<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        (local, remote): (SocketAddrV4, SocketAddrV4),
        seg: &Segment,
    ) {
        let Tcp {
            config,
            key,
            counters,
            ..
        } = self;
        let mut cx = Cx {
            ip,
            now,
            config,
            key,
            counters,
        };
        reset::answer(&mut cx, local, remote, seg);
    }

    /// A segment for the connection at `index`. When it is a SYN that may replace it: the number that
    /// the new connection must begin above.
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
        let mut stranger = false;
        self.with(ip, now, index, |conn, cx| {
            conn.segments_received += 1;
            if conn.path.link != link {
                // a connection lives on one link, whose memory its queues refer to
                cx.counters.add(TcpEvent::BadAddress);
                return handshake::drop_frame(cx, link, frame);
            }
            let opened = match &conn.state {
                State::Open(_) => return input::arrives(conn, cx, link, seg, frame),
                State::SynSent(_) => handshake::arrives_in_syn_sent(conn, cx, seg),
                State::SynReceived(_) => handshake::arrives_in_syn_received(conn, cx, seg),
                State::TimeWait(_) => {
                    reopen = input::arrives_in_time_wait(conn, cx, seg);
                    Opened::No
                }
                State::Closed => Opened::No,
            };
            match opened {
                Opened::Yes => after_opening(conn, cx, link, seg, frame),
                Opened::Reset => stranger = true,
                Opened::No => {}
            }
            if opened != Opened::Yes && reopen.is_none() {
                handshake::drop_frame(cx, link, frame);
            }
        });
        if stranger && let Some(entry) = self.table.at_mut(index) {
            let ends = (entry.conn.local, entry.conn.remote);
            self.refuse(ip, now, ends, seg);
        }
        self.owe(index);
        reopen
    }

    /// RFC 9293 section 3.10.7.2: a segment arrives in LISTEN.
    fn arrives_in_listen<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        (listener, link, above): (ListenerId, LinkId, Option<SeqNum>),
        (local, remote): (SocketAddrV4, SocketAddrV4),
        seg: &Segment,
    ) {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.2
        //# An incoming RST should be ignored.
        if seg.rst() {
            return self.counters.add(TcpEvent::Ignored);
        }
        if seg.has_ack() {
            self.counters.add(TcpEvent::BadAck);
            return self.refuse(ip, now, (local, remote), seg);
        }
        if !seg.syn() {
            return self.counters.add(TcpEvent::Ignored);
        }
        let Some(at) = self.table.listener_mut(listener) else {
            return;
        };
        if at.opening + at.waiting.len() >= at.backlog {
            return self.counters.add(TcpEvent::BacklogFull);
        }
        at.opening += 1;
        let Ok(mut path) = ip.path(Some(*local.ip()), *remote.ip()) else {
            at.opening -= 1;
            return self.counters.add(TcpEvent::BadAddress);
        };
        // Two processes that meet at the same time have two channels: answer in the one it came by.
        let peer = ip.links.get(link).and_then(|l| l.config.peer);
        if peer == Some(*remote.ip()) {
            path.link = link;
        }
        if self.table.len() >= self.config.connections_max {
            if let Some(at) = self.table.listener_mut(listener) {
                at.opening -= 1;
            }
            return self.counters.add(TcpEvent::TooManyConnections);
        }
        let conn = Connection {
            local,
            remote,
            path,
            state: State::Closed,
            settings: Settings::new(&self.config),
            error: None,
            told: false,
            attached: false,
            listener: Some(listener),
            segments_sent: 0,
            segments_received: 1,
        };
        let id = self.table.add(conn);
        self.with(ip, now, id.index, |conn, cx| {
            conn.state = State::SynReceived(Opening::passive(cx, conn, seg, above));
            handshake::send_syn(conn, cx);
        });
    }

    /// An ICMP error about a segment of ours.
    pub(crate) fn icmp_error<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        error: &IcmpError,
    ) {
        let Some(index) = self.table.find(error.local, error.remote) else {
            return;
        };
        self.with(ip, now, index, |conn, cx| icmp::arrives(conn, cx, error));
        self.owe(index);
    }

    /// Expired timers and owed output: acknowledgements of the batch, data that waited for room.
    pub(crate) fn poll<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant) {
        while let Some(index) = self.wheel.pop_expired(now) {
            if let Some(entry) = self.table.at_mut(index) {
                entry.armed = Instant::FAR_FUTURE;
                self.with(ip, now, index, timers::expired);
                self.owe(index);
            }
        }
        self.call_memory_waiters(ip);
        // whoever finds the link full owes again, behind all others
        let mut serving = core::mem::take(&mut self.serving);
        core::mem::swap(&mut serving, &mut self.owing);
        for index in serving.drain(..) {
            if let Some(entry) = self.table.at_mut(index) {
                entry.owes = false;
                self.output_one(ip, now, index);
            }
        }
        self.serving = serving;
    }

    /// When [`Tcp::poll`] must run next, at the latest.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        if !self.owing.is_empty() {
            return Some(Instant::ZERO);
        }
        self.wheel.next_expiry()
    }

    /// The link's other side is gone: its connections fail. What arrived can still be read, and where
    /// the peer had said that this was all, its end too.
    pub(crate) fn link_gone<D: Driver>(&mut self, ip: &mut Ip<D>, link: LinkId) {
        for index in self.on_link(link) {
            self.with(ip, Instant::ZERO, index, |conn, cx| {
                if !conn.is_closed() {
                    conn.fail(cx.ip, Some(TcpError::LinkGone));
                }
            });
        }
    }

    /// The link, and so the memory, goes: what was not read is lost.
    pub(crate) fn link_removed<D: Driver>(&mut self, ip: &mut Ip<D>, link: LinkId) {
        for index in self.on_link(link) {
            self.with(ip, Instant::ZERO, index, |conn, cx| {
                if !conn.is_closed() {
                    conn.fail(cx.ip, Some(TcpError::LinkGone));
                }
                if let (State::Open(open), Some(endpoint)) =
                    (&mut conn.state, cx.ip.endpoint(link))
                {
                    open.recv.clear(endpoint);
                }
            });
        }
    }

    /// Whether bytes that came by `link` wait to be read.
    pub(crate) fn has_unread(&mut self, link: LinkId) -> bool {
        self.on_link(link).into_iter().any(|index| {
            let entry = self.table.at_mut(index);
            entry.is_some_and(|e| match &e.conn.state {
                State::Open(open) => open.recv.queue.len() > 0,
                _ => false,
            })
        })
    }

    fn on_link(&mut self, link: LinkId) -> Vec<u32> {
        let all = self.table.indices();
        all.filter(|&index| {
            let entry = self.table.at_mut(index);
            entry.is_some_and(|e| e.conn.path.link == link)
        })
        .collect()
    }

    /// Number of connections that nobody holds any more, and whose peer has not acknowledged
    /// everything.
    pub fn undelivered(&mut self) -> usize {
        let mut count = 0;
        for index in self.table.indices() {
            let entry = self.table.at_mut(index).filter(|e| !e.conn.attached);
            count += usize::from(entry.is_some_and(|e| match &e.conn.state {
                State::Open(open) => open.phase.sends(),
                State::SynReceived(opening) => opening.close,
                _ => false,
            }));
        }
        count
    }

    /// A neighbour answered, or gave up answering: connections that wait for one look again.
    pub(crate) fn neighbours_changed(&mut self) {
        for index in self.table.indices() {
            let waits = self
                .table
                .at_mut(index)
                .is_some_and(|e| match &e.conn.state {
                    State::Open(open) => open.blocked,
                    State::SynSent(o) | State::SynReceived(o) => o.sent == 0,
                    _ => false,
                });
            if waits {
                self.wheel.arm(index, Instant::ZERO);
            }
        }
    }

    /// Runs `work` on a connection and then brings everything that follows from its state up to
    /// date: timers, readiness, its listener's queue, its place in the table.
    #[inline]
    pub(super) fn with<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        index: u32,
        work: impl FnOnce(&mut Connection, &mut Cx<'_, D>),
    ) {
        let Tcp {
            config,
            key,
            counters,
            table,
            ..
        } = self;
        let Some(entry) = table.at_mut(index) else {
            return;
        };
        work(
            &mut entry.conn,
            &mut Cx {
                ip,
                now,
                config,
                key,
                counters,
            },
        );
        self.settle(ip, index);
    }

    #[inline]
    fn settle<D: Driver>(&mut self, ip: &mut Ip<D>, index: u32) {
        let Some(entry) = self.table.at_mut(index) else {
            return;
        };
        let conn = &entry.conn;
        if conn.listener.is_some() && !conn.attached {
            self.settle_passive(index);
        }
        let Some(entry) = self.table.at_mut(index) else {
            return;
        };
        if entry.conn.is_closed() {
            if entry.conn.is_over() {
                return self.forget(ip, index);
            }
            let pair = (entry.conn.local, entry.conn.remote);
            self.table.forget_pair(index, pair);
        }
        self.settle_timer(index);
        self.settle_readiness(index);
    }

    /// A connection made by a listener has been opened, or has failed before that.
    fn settle_passive(&mut self, index: u32) {
        let Some(id) = self.table.id(index) else {
            return;
        };
        let Some(entry) = self.table.at_mut(index) else {
            return;
        };
        let Some(listener) = entry.conn.listener else {
            return;
        };
        let (opened, over) = (
            matches!(&entry.conn.state, State::Open(_)),
            entry.conn.is_closed(),
        );
        if !opened && !over {
            return;
        }
        entry.conn.attached = opened && !over;
        if let Some(at) = self.table.listener_mut(listener) {
            at.opening = at.opening.saturating_sub(1);
            if opened && !over {
                at.waiting.push_back(id);
                self.counters.add(TcpEvent::PassiveOpen);
                if !core::mem::replace(&mut at.signalled, true) {
                    self.ready.push_back(TcpReady::Listener(listener));
                }
            }
        }
    }

    /// Makes the wheel call no later than the connection's next deadline. An earlier call than
    /// needed is left alone: moving the deadline forward then costs nothing.
    #[inline]
    pub(super) fn settle_timer(&mut self, index: u32) {
        let Tcp {
            config,
            wheel,
            table,
            ..
        } = self;
        if let Some(entry) = table.at_mut(index) {
            let at = entry.conn.deadline(config);
            if at < entry.armed {
                entry.armed = at;
                wheel.arm(index, at);
            }
        }
    }

    #[inline]
    fn settle_readiness(&mut self, index: u32) {
        let Some(entry) = self.table.at_mut(index) else {
            return;
        };
        let is = (entry.conn.is_readable(), entry.conn.is_writable());
        let news = (is.0 && !entry.was.0) || (is.1 && !entry.was.1) || entry.conn.error.is_some();
        entry.was = is;
        if news
            && entry.conn.attached
            && !core::mem::replace(&mut entry.signalled, true)
            && let Some(id) = self.table.id(index)
        {
            self.ready.push_back(TcpReady::Connection(id));
        }
    }

    /// The connection sends at the end of the batch.
    #[inline]
    pub(super) fn owe(&mut self, index: u32) {
        if let Some(entry) = self.table.at_mut(index)
            && !core::mem::replace(&mut entry.owes, true)
        {
            self.owing.push(index);
        }
    }

    /// Sends for one connection now; if the link is full, again at the next poll.
    #[inline]
    pub(super) fn output_one<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, index: u32) {
        let mut done = true;
        self.with(ip, now, index, |conn, cx| done = output::output(conn, cx));
        if !done {
            let pending = self
                .table
                .at_mut(index)
                .is_some_and(|e| e.conn.path.header.is_none());
            if !pending {
                self.owe(index);
            }
        }
    }

    /// Output on behalf of the application.
    #[inline]
    pub(super) fn push_out<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: TcpId) {
        self.output_one(ip, now, id.index);
    }

    /// The open connection that `id` names.
    pub(super) fn open_mut(&mut self, id: TcpId) -> Option<&mut Open> {
        match &mut self.table.get_mut(id)?.conn.state {
            State::Open(open) => Some(open),
            _ => None,
        }
    }

    /// The connection is told when blocks are free again.
    pub(super) fn wait_for_memory(&mut self, index: u32) {
        if let Some(entry) = self.table.at_mut(index)
            && !core::mem::replace(&mut entry.wants_memory, true)
        {
            self.memory_waiters.push(index);
        }
    }

    fn call_memory_waiters<D: Driver>(&mut self, ip: &mut Ip<D>) {
        let mut at = 0;
        while let Some(&index) = self.memory_waiters.get(at) {
            if self.still_short(ip, index) {
                at += 1;
                continue;
            }
            self.memory_waiters.swap_remove(at);
            if let Some(entry) = self.table.at_mut(index) {
                entry.wants_memory = false;
                entry.was.1 = false;
            }
            self.settle_readiness(index);
        }
    }

    /// Whether the connection, which waits for memory, would still get none.
    fn still_short<D: Driver>(&mut self, ip: &mut Ip<D>, index: u32) -> bool {
        let Some(entry) = self.table.at_mut(index) else {
            return false;
        };
        let (State::Open(open), Some(endpoint)) =
            (&entry.conn.state, ip.endpoint(entry.conn.path.link))
        else {
            return false;
        };
        // a few blocks at least, so that not every block that comes back wakes somebody
        let pool = &endpoint.pool;
        let few = (pool.blocks() / 8).clamp(1, MEMORY_BACK);
        pool.available() < few || memory_share(pool, open.send.queue.len()) == 0
    }

    fn forget<D: Driver>(&mut self, ip: &mut Ip<D>, index: u32) {
        self.wheel.cancel(index);
        if let Some(mut entry) = self.table.remove(index) {
            entry.conn.free(ip);
            if entry.wants_memory {
                self.memory_waiters.retain(|&w| w != index);
            }
        }
    }
}

/// The segment that opened the connection may carry more: text, a FIN.
fn after_opening<D: Driver>(
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
        seg.seq = seg.seq + 1;
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
