//! All TCP of a host: who gets a segment, whose time has come, who owes output.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::Driver;

use super::api::memory_share;
use super::connection::{Connection, Cx, Open, State};
use super::counters::{TcpCounters, TcpEvent};
use super::error::TcpError;
use super::fast_open::{self, Servers};
use super::icmp::{self, IcmpError};
use super::isn::EphemeralPorts;
use super::orphans::{Kept, Orphans};
use super::output;
use super::request::Requests;
use super::socket::{TcpId, TcpReady};
use super::table::{Entry, Table};
use super::timers;
use crate::config::{Config, TcpConfig};
use crate::hash::HashKey;
use crate::ip::Ip;
use crate::link::LinkId;
use crate::timer::{Wheel, earliest};

/// Most blocks that must be free before those who wait for memory are called.
const MEMORY_BACK: usize = 8;
/// No setting makes an acknowledgement wait for longer.
const DELAYED_ACK_MAX: Duration = Duration::from_millis(490);

/// All TCP of a host.
pub struct Tcp {
    pub(super) config: TcpConfig,
    pub(super) key: HashKey,
    pub(super) table: Table,
    /// Connections that listeners are about to make.
    pub(super) requests: Requests,
    pub(super) orphans: Orphans,
    pub(super) ports: EphemeralPorts,
    /// What we know of servers (RFC 7413).
    pub(super) servers: Servers,
    wheel: Wheel,
    /// Connections that owe output at the end of the batch.
    owing: Vec<u32>,
    /// Connections that found their link full: its driver wakes us when there is room.
    stuck: Vec<u32>,
    /// There is room already, or nobody has looked yet.
    room_again: bool,
    /// Those whose turn it is, while their output is made.
    serving: Vec<u32>,
    ready: VecDeque<TcpReady>,
    /// Connections that wait for free blocks.
    memory_waiters: Vec<u32>,
    /// Connections that wait for a neighbour's answer; some may wait no more.
    unresolved: Vec<u32>,
    pub(super) counters: TcpCounters,
}

impl Tcp {
    /// No sockets.
    pub fn new(config: &Config) -> Self {
        let key = HashKey::new(config.secret);
        let mut tcp = config.tcp.clone();
        //= https://www.rfc-editor.org/rfc/rfc5681#section-4.2
        //# Finally, we repeat that an ACK MUST NOT be delayed for more than 500 ms waiting on a
        //# second full-sized segment to arrive.
        tcp.delayed_ack = tcp.delayed_ack.min(DELAYED_ACK_MAX);
        Tcp {
            config: tcp,
            key,
            table: Table::new(key),
            requests: Requests::new(key),
            orphans: Orphans::default(),
            ports: EphemeralPorts::new(key),
            servers: Servers::new(key, config.tcp.fast_open.servers_max),
            wheel: Wheel::new(64),
            owing: Vec::new(),
            stuck: Vec::new(),
            room_again: false,
            serving: Vec::new(),
            ready: VecDeque::new(),
            memory_waiters: Vec::new(),
            unresolved: Vec::new(),
            counters: TcpCounters::new(),
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> &TcpCounters {
        &self.counters
    }

    /// Number of connections in any state.
    pub fn connections(&self) -> usize {
        self.table.len() + self.requests.len()
    }

    /// Bytes that half-open connections take.
    pub fn requests_memory(&self) -> usize {
        self.requests.memory()
    }

    /// What every step needs, for a connection that is in no table.
    pub(super) fn cx<'a, D>(&'a mut self, ip: &'a mut Ip<D>, now: Instant) -> Cx<'a, D> {
        let Tcp {
            config,
            key,
            counters,
            ..
        } = self;
        Cx {
            ip,
            now,
            config,
            key,
            counters,
        }
    }

    /// Sockets whose readiness may have changed since the last call, each once.
    pub fn take_ready(&mut self) -> Option<TcpReady> {
        let ready = self.ready.pop_front()?;
        if planted!(WokenOnce) {
            return Some(ready);
        }
        match ready {
            TcpReady::Connection(id) => {
                if let Some(entry) = self.table.get_mut(id) {
                    entry.signalled = false;
                }
            }
            TcpReady::Listener(id) => {
                if let Some(listener) = self.table.listeners.get_mut(id) {
                    listener.signalled = false;
                }
            }
        }
        Some(ready)
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
        self.doubt(now, index);
        self.with(ip, now, index, |conn, cx| icmp::arrives(conn, cx, error));
        self.owe(index);
    }

    /// Expired timers and owed output: acknowledgements of the batch, data that waited for room.
    pub(crate) fn poll<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant) {
        while let Some(index) = self.wheel.pop_expired(now) {
            if let Some(entry) = self.table.at_mut(index) {
                entry.armed = Instant::FAR_FUTURE;
                let wanted = entry.wants_memory || entry.stuck;
                if entry.conn.deadline(&self.config) <= now {
                    self.doubt(now, index);
                }
                self.with(ip, now, index, |conn, cx| {
                    timers::expired(conn, cx);
                    if conn.look_at_rest(now, cx.config.rest_after, wanted) {
                        cx.counters.add(TcpEvent::Rested);
                    }
                });
                self.owe(index);
            }
        }
        while self.requests.len() > 0
            && let Some(place) = self.requests.pop_expired(now)
        {
            self.request_expired(ip, now, place);
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# For example, if the TCP endpoint is processing a series of queued segments, it MUST
        //# process them all before sending any ACK segments (MUST-59).
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# In general, the processing of received segments MUST be implemented to aggregate ACK
        //# segments whenever possible (MUST-58).
        self.call_memory_waiters(ip);
        if self.stuck.is_empty() && self.owing.is_empty() {
            return;
        }
        let mut serving = core::mem::take(&mut self.serving);
        for index in self.stuck.drain(..) {
            if let Some(entry) = self.table.at_mut(index) {
                entry.stuck = false;
                if !entry.owes {
                    serving.push(index);
                }
            }
        }
        serving.append(&mut self.owing);
        for index in serving.drain(..) {
            if let Some(entry) = self.table.at_mut(index) {
                entry.owes = false;
                self.output_one(ip, now, index);
            }
        }
        self.serving = serving;
    }

    /// Something is wrong with the connection at `index`: perhaps that it tried Fast Open.
    fn doubt(&mut self, now: Instant, index: u32) {
        let entry = self.table.at_mut(index);
        if let Some(server) = entry.and_then(|e| fast_open::doubts(&e.conn)) {
            self.servers.failed(&server, now);
        }
    }

    /// When [`Tcp::poll`] must run next, at the latest.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        // Whoever waits for room on a full link is called by the driver, not by the clock: the
        // other side may be stopped for long.
        let room = self.room_again && !self.stuck.is_empty();
        if room || !self.owing.is_empty() {
            return Some(Instant::ZERO);
        }
        earliest([self.wheel.next_expiry(), self.requests.next_timeout()])
    }

    /// The links have handed over what they had: whether one that was full has room again, about
    /// which its driver would wake nobody.
    #[inline]
    pub(crate) fn flushed<D: Driver>(&mut self, ip: &mut Ip<D>) {
        if !self.stuck.is_empty() {
            self.look_for_room(ip);
        }
    }

    fn look_for_room<D: Driver>(&mut self, ip: &mut Ip<D>) {
        let table = &mut self.table;
        self.room_again = self.stuck.iter().any(|&index| {
            let link = table.at_mut(index).map(|e| e.conn.path.link);
            let endpoint = link.and_then(|l| ip.endpoint(l));
            endpoint.is_none_or(|e| e.driver.room() > 0)
        });
    }

    /// The link's other side is gone: its connections fail. What arrived can still be read, and
    /// where the peer had said that this was all, its end too.
    pub(crate) fn link_gone<D: Driver>(&mut self, ip: &mut Ip<D>, link: LinkId) {
        self.forget_requests(link);
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
        self.forget_requests(link);
        for index in self.on_link(link) {
            self.with(ip, Instant::ZERO, index, |conn, cx| {
                if !conn.is_closed() {
                    conn.fail(cx.ip, Some(TcpError::LinkGone));
                }
                if let (State::Open(open), Some(endpoint)) = (&mut conn.state, cx.ip.endpoint(link))
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

    pub(super) fn on_link(&mut self, link: LinkId) -> Vec<u32> {
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
                State::Dormant(_) => true,
                _ => false,
            }));
        }
        count
    }

    /// A neighbour answered, or gave up answering: connections that wait for one look again.
    pub(crate) fn neighbours_changed(&mut self) {
        self.requests.neighbours_changed();
        for index in core::mem::take(&mut self.unresolved) {
            let Some(entry) = self.table.at_mut(index) else {
                continue;
            };
            if core::mem::take(&mut entry.unresolved) && entry.conn.waits_for_neighbour() {
                self.wheel.arm(index, Instant::ZERO);
            }
        }
    }

    /// The connection is called when a neighbour answers.
    pub(super) fn wait_for_neighbour(&mut self, index: u32) {
        if let Some(entry) = self.table.at_mut(index)
            && entry.conn.waits_for_neighbour()
            && !core::mem::replace(&mut entry.unresolved, true)
        {
            self.unresolved.push(index);
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
        let Tcp {
            config,
            wheel,
            table,
            ..
        } = self;
        let Some(entry) = table.at_mut(index) else {
            return;
        };
        if !entry.conn.attached || entry.conn.is_closed() {
            return self.settle_in_full(ip, index);
        }
        let at = entry.conn.deadline(config);
        if at < entry.armed {
            entry.armed = at;
            wheel.arm(index, at);
        }
        if entry.take_news() {
            self.tell_ready(index);
        }
    }

    /// As [`Tcp::settle`] for a connection that is over, or that nobody holds.
    fn settle_in_full<D: Driver>(&mut self, ip: &mut Ip<D>, index: u32) {
        let Some(entry) = self.table.at_mut(index) else {
            return;
        };
        let conn = &entry.conn;
        if !conn.attached {
            match conn.listener {
                Some(_) => self.settle_passive(index),
                None => self.settle_orphan(ip, index),
            }
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
            matches!(&entry.conn.state, State::Open(_) | State::Dormant(_)),
            entry.conn.is_closed(),
        );
        if !opened && !over {
            return;
        }
        entry.conn.attached = opened && !over;
        if let Some(at) = self
            .table
            .listeners
            .get_mut(listener)
            .filter(|_| opened && !over)
        {
            at.waiting.push_back(id);
            self.counters.add(TcpEvent::PassiveOpen);
            if !core::mem::replace(&mut at.signalled, true) {
                self.ready.push_back(TcpReady::Listener(listener));
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

    fn settle_readiness(&mut self, index: u32) {
        let entry = self.table.at_mut(index);
        if entry.is_some_and(|e| e.take_news()) {
            self.tell_ready(index);
        }
    }

    fn tell_ready(&mut self, index: u32) {
        if let Some(id) = self.table.id(index) {
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

    /// The connection tries again in every poll, and the driver sees to it that there is one.
    fn wait_for_room(&mut self, index: u32) {
        if let Some(entry) = self.table.at_mut(index)
            && !core::mem::replace(&mut entry.stuck, true)
        {
            self.stuck.push(index);
            self.room_again = true;
        }
    }

    /// Sends for one connection now; if the link is full, again at the next poll.
    #[inline]
    pub(super) fn output_one<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, index: u32) {
        let mut done = true;
        self.with(ip, now, index, |conn, cx| done = output::output(conn, cx));
        if !done {
            let entry = self.table.at_mut(index);
            match entry.is_some_and(|e| e.conn.path.header.is_none()) {
                true => self.wait_for_neighbour(index),
                false => self.wait_for_room(index),
            }
        }
    }

    /// Output on behalf of the application.
    #[inline]
    pub(super) fn push_out<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: TcpId) {
        self.output_one(ip, now, id.index);
    }

    /// The connection that `id` names, unfolded if it rests, because the application does something
    /// with it.
    #[inline]
    pub(super) fn awake(&mut self, id: TcpId) -> Option<&mut Entry> {
        let entry = self.table.get_mut(id)?;
        if matches!(entry.conn.state, State::Dormant(_)) {
            entry.conn.wake(Instant::ZERO);
            entry.armed = Instant::ZERO;
            self.wheel.arm(id.index, Instant::ZERO);
        }
        Some(entry)
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

    pub(super) fn forget<D: Driver>(&mut self, ip: &mut Ip<D>, index: u32) {
        self.wheel.cancel(index);
        if let Some(mut entry) = self.table.remove(index) {
            self.orphans.change(entry.kept, Kept::No);
            entry.conn.free(ip);
            if entry.wants_memory {
                self.memory_waiters.retain(|&w| w != index);
            }
        }
    }
}
