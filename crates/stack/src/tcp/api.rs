//! The calls on TCP sockets. [`crate::Stack`] offers them to the outside under the same names with
//! a `tcp_` prefix; `ip` is where packets go, `now` the time of the call.

mod read;

use core::net::{IpAddr, SocketAddr};

use gannet_base::Instant;
use gannet_link::{Driver, OwnedBlock, Pool};

use super::black_hole::BlackHole;
use super::connection::{Connection, State};
use super::counters::TcpEvent;
use super::engine::Tcp;
use super::error::{ConnectError, ListenError, SendError, TcpError};
use super::handshake::{self, Opening};
use super::info;
use super::output;
use super::recv::AckOwed;
use super::send::Fin;
use super::settings::Settings;
use super::socket::{ListenerId, Shutdown, TcpId, TcpInfo, TcpOption, TcpStatus};
use super::transitions::{Event, Phase};
use crate::address;
use crate::hash::FourTuple;
use crate::ip::Ip;

impl Tcp {
    /// Listens on `local` (address 0.0.0.0: every address of ours; `::`: those of IPv4 too unless
    /// `only_six`; port 0: any free one). At most
    /// `backlog` connections wait to be accepted; those still being opened are bounded by
    /// [`crate::TcpConfig::syn_backlog`].
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        (local, only_six): (SocketAddr, bool),
        backlog: usize,
    ) -> Result<ListenerId, ListenError> {
        if !local.ip().is_unspecified() && !ip.is_local(local.ip()) {
            return Err(ListenError::AddressNotAvailable);
        }
        let mut local = SocketAddr::new(local.ip(), local.port()); // without a zone
        if local.port() == 0 {
            let table = &self.table;
            let any = SocketAddr::new(address::unspecified(local.ip()), 0);
            let port = self.ports.choose(local, any, &mut |port| {
                !table
                    .listeners
                    .collides(SocketAddr::new(local.ip(), port), only_six)
            });
            local.set_port(port.ok_or(ListenError::AddressInUse)?);
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
        //# Every passive OPEN call either creates a new connection record in LISTEN state, or it
        //# returns an error; it MUST NOT affect any previously created connection record
        //# (MUST-41).
        if self.table.listeners.collides(local, only_six) {
            return Err(ListenError::AddressInUse);
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
        //# A TCP implementation that supports multiple concurrent connections MUST provide an
        //# OPEN call that will functionally allow an application to LISTEN on a port while a
        //# connection block with the same local port is in SYN-SENT or SYN-RECEIVED state
        //# (MUST-42).
        let settings = Settings::new(&self.config);
        let backlog = backlog.clamp(1, 65_535);
        Ok(self
            .table
            .listeners
            .add((local, only_six), backlog, settings))
    }

    /// The address a listener has.
    pub fn listener_address(&self, listener: ListenerId) -> Option<SocketAddr> {
        self.table.listeners.get(listener).map(|l| l.local)
    }

    /// The next connection that was established, if one waits.
    pub fn accept(&mut self, listener: ListenerId) -> Option<TcpId> {
        let id = self
            .table
            .listeners
            .get_mut(listener)?
            .waiting
            .pop_front()?;
        if let Some(entry) = self.table.get_mut(id) {
            entry.conn.listener = None;
        }
        Some(id)
    }

    /// Whether [`Tcp::accept`] would give one.
    pub fn can_accept(&self, listener: ListenerId) -> bool {
        self.table
            .listeners
            .get(listener)
            .is_some_and(|l| !l.waiting.is_empty())
    }

    /// Stops listening; connections that wait to be accepted, or are being opened, are reset.
    pub fn close_listener<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: ListenerId) {
        if self.table.listeners.get(id).is_none() {
            return;
        }
        let requests = self.requests.which(|r| r.listener == id);
        self.end_requests(ip, now, requests);
        self.table.listeners.remove(id);
        for index in self.table.indices() {
            let of_listener = self
                .table
                .at_mut(index)
                .is_some_and(|e| e.conn.listener == Some(id));
            if of_listener {
                self.with(ip, now, index, |conn, cx| {
                    output::send_reset(conn, cx);
                    conn.attached = false;
                    conn.fail(cx.ip, None);
                });
            }
        }
    }

    /// Starts a connection; the id is valid at once, see [`TcpStatus::state`] for progress.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        (local, remote): (Option<SocketAddr>, SocketAddr),
        options: &[TcpOption],
    ) -> Result<TcpId, ConnectError> {
        let id = self.begin(ip, local, remote)?;
        self.with(ip, now, id.index, |conn, cx| {
            for option in options {
                conn.settings.set(*option);
            }
            if !options.is_empty() {
                conn.settings.mark(&mut conn.path);
            }
            conn.state = State::SynSent(Opening::active(cx, conn));
            handshake::send_syn(conn, cx);
        });
        Ok(id)
    }

    /// A connection that nobody knows of yet.
    pub(super) fn begin<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<TcpId, ConnectError> {
        let zone = ip.zone_of(remote).map_err(|_| ConnectError::NoRoute)?;
        let (local, remote) = (local.map(address::unmapped), address::unmapped(remote));
        let to = remote.ip();
        let no_host = to.is_unspecified() || to.is_multicast() || address::is_broadcast(to);
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
        //# A TCP implementation MUST reject as an error a local OPEN call for an invalid remote
        //# IP address (e.g., a broadcast or multicast address) (MUST-46).
        if no_host || remote.port() == 0 || ip.is_broadcast(to) {
            return Err(ConnectError::InvalidDestination);
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
        //# The optional "local IP address" parameter MUST be supported to allow the specification
        //# of the local IP address (MUST-43).
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
        //# If an application on a multihomed host does not specify the local IP address when
        //# actively opening a TCP connection, then the TCP implementation MUST ask the IP layer
        //# to select a local IP address before sending the (first) SYN (MUST-44).
        let from = local.map(|l| l.ip()).filter(|a| !a.is_unspecified());
        if from.is_some_and(|a| !ip.is_local(a)) {
            return Err(ConnectError::AddressNotAvailable);
        }
        let path = ip.path_in(zone, from, to);
        let mut path = path.map_err(|_| ConnectError::NoRoute)?;
        if self.table.len() >= self.config.connections_max {
            return Err(ConnectError::TooManyConnections);
        }
        let port = self.local_port(path.source, local.map_or(0, |l| l.port()), remote)?;
        let local = SocketAddr::new(path.source, port);
        path.flow_label = FourTuple { local, remote }.flow_label(&self.key);
        let conn = Connection {
            local,
            remote,
            path,
            state: State::Closed,
            settings: Settings::new(&self.config),
            error: None,
            told: false,
            news: false,
            attached: true,
            listener: None,
            segments_sent: 0,
            segments_received: 0,
        };
        let id = self.table.add(conn);
        self.counters.add(TcpEvent::ActiveOpen);
        Ok(id)
    }

    fn local_port(
        &mut self,
        address: IpAddr,
        port: u16,
        remote: SocketAddr,
    ) -> Result<u16, ConnectError> {
        let table = &self.table;
        let is_free = |port| {
            let local = SocketAddr::new(address, port);
            !table.is_taken(local, remote)
        };
        if port != 0 {
            return is_free(port)
                .then_some(port)
                .ok_or(ConnectError::AddressInUse);
        }
        let from = SocketAddr::new(address, 0);
        self.ports
            .choose(from, remote, &mut |port| {
                is_free(port) && table.listeners.on(SocketAddr::new(address, port)).is_none()
            })
            .ok_or(ConnectError::AddressInUse)
    }

    /// Queues the first bytes of `data` and sends what may be sent; how many were taken (0 only
    /// when
    /// `data` is empty).
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: TcpId,
        data: &[u8],
    ) -> Result<usize, SendError> {
        self.can_send(id)?;
        if data.is_empty() {
            return Ok(0);
        }
        let mut taken = 0;
        while let Some(rest) = data.get(taken..).filter(|r| !r.is_empty()) {
            // a super-segment's worth at a time, so that the peer reads while we copy on
            let n = self.append(ip, now, id, rest, 64 << 10)?;
            if n == 0 {
                break;
            }
            taken += n;
            if !self.gathers(id) {
                self.push_out(ip, now, id);
            }
        }
        if taken > 0 {
            Ok(taken)
        } else {
            Err(SendError::WouldBlock)
        }
    }

    /// Whether what was just written waits for company and nothing else is to be sent: the way to
    /// the output can be spared. Many small writes then cost little more than their copy.
    #[inline]
    fn gathers(&mut self, id: TcpId) -> bool {
        self.open_mut(id).is_some_and(|open| {
            open.straight && open.recv.owed != AckOwed::Now && open.send.gathers()
        })
    }

    /// Queues the first bytes of `data` if that is all there is to do: see
    /// [`crate::Stack::tcp_join`].
    #[inline]
    pub fn join<D: Driver>(&mut self, ip: &mut Ip<D>, id: TcpId, data: &[u8]) -> Option<usize> {
        let entry = self.table.get_mut(id).filter(|e| e.conn.error.is_none())?;
        let State::Open(open) = &mut entry.conn.state else {
            return None;
        };
        let pool = &mut ip.endpoint(entry.conn.path.link)?.pool;
        let send = &mut open.send;
        let len = u32::try_from(data.len()).ok()?;
        let joins = len > 0
            && open.straight
            && open.recv.owed != AckOwed::Now
            && send.fin == Fin::Open
            && send.gathers_with(len)
            && entry.conn.settings.room(send) >= len
            && memory_share(pool, send.queue.len()) >= len;
        let taken = if joins {
            send.queue.append(pool, data, len)
        } else {
            0
        };
        (taken > 0).then_some(taken as usize)
    }

    /// As [`Tcp::send`] for urgent data: the last byte taken is the last urgent one (RFC 6093 says:
    /// do not use it in anything new).
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_urgent<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: TcpId,
        data: &[u8],
    ) -> Result<usize, SendError> {
        self.can_send(id)?;
        let n = self.append(ip, now, id, data, u32::MAX)?;
        if n == 0 && !data.is_empty() {
            return Err(SendError::WouldBlock);
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
        //# New applications SHOULD NOT set the URGENT flag [39] due to implementation differences
        //# and middlebox issues (SHLD-13).
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
        //# As a result of implementation differences and middlebox interactions, new applications
        //# SHOULD NOT employ the TCP urgent mechanism (SHLD-13).
        // nothing but this call sets it, and its description says so
        if let Some(open) = self.open_mut(id) {
            open.send.up = Some(open.send.queue.end());
            open.refresh();
        }
        self.push_out(ip, now, id);
        Ok(n)
    }

    /// Copies up to `most` bytes of `data` into blocks of the connection's link.
    fn append<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: TcpId,
        data: &[u8],
        most: u32,
    ) -> Result<usize, SendError> {
        let entry = self
            .table
            .get_mut(id)
            .ok_or(SendError::Failed(TcpError::Aborted))?;
        let State::Open(open) = &mut entry.conn.state else {
            return Err(SendError::NotConnected);
        };
        let endpoint = ip
            .endpoint(entry.conn.path.link)
            .ok_or(SendError::Failed(TcpError::LinkGone))?;
        let pool = &mut endpoint.pool;
        open.send.before_write(now);
        let room = entry.conn.settings.room(&open.send);
        let mut left = room.min(most);
        left = left.min(memory_share(pool, open.send.queue.len()));
        let mut taken = 0;
        while let Some(rest) = data.get(taken..).filter(|r| !r.is_empty() && left > 0) {
            let n = open.send.queue.append(pool, rest, left);
            if n == 0 {
                break;
            }
            taken += n as usize;
            left -= n;
        }
        // (`most` is a share of a write, after which the next one follows)
        let cut = taken < data.len() && taken < most as usize;
        open.send.note_write(cut, now);
        if taken == 0 && room > 0 && !data.is_empty() {
            self.wait_for_memory(id.index);
        }
        Ok(taken)
    }

    /// A block of the connection's link to be filled in place.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when none is free.
    pub fn take_block<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: TcpId,
    ) -> Result<OwnedBlock, SendError> {
        self.can_send(id)?;
        let entry = self.table.get_mut(id).ok_or(SendError::NotConnected)?;
        let endpoint = ip
            .endpoint(entry.conn.path.link)
            .ok_or(SendError::Failed(TcpError::LinkGone))?;
        let State::Open(open) = &entry.conn.state else {
            return Err(SendError::NotConnected);
        };
        let block = if entry.conn.settings.room(&open.send) > 0 {
            endpoint.pool.detach()
        } else {
            None
        };
        if block.is_none() {
            self.wait_for_memory(id.index);
        }
        block.ok_or(SendError::WouldBlock)
    }

    /// Queues the first `len` bytes of a filled block, without copying them.
    ///
    /// # Errors
    /// See [`SendError`]; the block comes back with it unless it was bad.
    pub fn send_block<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: TcpId,
        block: OwnedBlock,
        len: usize,
    ) -> Result<(), (SendError, Option<OwnedBlock>)> {
        if let Err(error) = self.can_send(id) {
            return Err((error, Some(block)));
        }
        let Some(entry) = self.table.get_mut(id) else {
            return Err((SendError::NotConnected, Some(block)));
        };
        let link = entry.conn.path.link;
        let (State::Open(open), Some(endpoint)) = (&mut entry.conn.state, ip.endpoint(link)) else {
            return Err((SendError::Failed(TcpError::LinkGone), None));
        };
        if entry.conn.settings.room(&open.send) == 0 {
            return Err((SendError::WouldBlock, Some(block)));
        }
        open.send.before_write(now);
        if !open.send.queue.append_block(&mut endpoint.pool, block, len) {
            return Err((SendError::BadBlock, None));
        }
        self.push_out(ip, now, id);
        Ok(())
    }

    /// Whether writing is possible at all.
    fn can_send(&mut self, id: TcpId) -> Result<(), SendError> {
        let entry = self.awake(id).ok_or(SendError::Failed(TcpError::Aborted))?;
        let conn = &mut entry.conn;
        if let Some(error) = conn.error.take() {
            conn.told = true;
            return Err(SendError::Failed(error));
        }
        match &conn.state {
            State::SynSent(_) | State::SynReceived(_) => Err(SendError::NotConnected),
            State::Dormant(_) => Ok(()),
            State::Open(open) if open.phase == Phase::Closed => Err(SendError::ShutDown),
            State::Open(open) if open.send.fin != Fin::Open => Err(SendError::ShutDown),
            State::Open(_) => Ok(()),
            State::TimeWait(_) | State::Closed => Err(SendError::ShutDown),
        }
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// [`SendError::NotConnected`] or [`SendError::Failed`].
    pub fn shutdown<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: TcpId,
        how: Shutdown,
    ) -> Result<(), SendError> {
        let entry = self.awake(id).ok_or(SendError::NotConnected)?;
        let link = entry.conn.path.link;
        let State::Open(open) = &mut entry.conn.state else {
            return Err(SendError::NotConnected);
        };
        if open.phase == Phase::Closed {
            return Err(SendError::NotConnected);
        }
        if how != Shutdown::Write {
            open.recv.deaf = true;
            if let Some(endpoint) = ip.endpoint(link) {
                open.recv.queue.clear(endpoint);
            }
            if open.recv.on_read(0, now) {
                open.recv.ack_now();
            }
        }
        if how != Shutdown::Read {
            queue_fin(open, now);
        }
        open.refresh();
        self.push_out(ip, now, id);
        Ok(())
    }

    /// The application lets go: queued data and a FIN are still delivered; unread data, or
    /// `Linger(Some(0))`, resets. The id names nothing afterwards.
    pub fn close<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: TcpId) {
        if self.awake(id).is_none() {
            return;
        }
        self.with(ip, now, id.index, |conn, cx| {
            conn.attached = false;
            let abrupt = conn.settings.linger.is_some_and(|l| l.is_zero());
            match &mut conn.state {
                State::SynSent(_) => conn.fail(cx.ip, None),
                State::SynReceived(opening) => opening.close = true,
                //= https://www.rfc-editor.org/rfc/rfc9293#section-3.6.1
                //# If such a host issues a CLOSE call
                //# while received data is still pending in the TCP connection, or if
                //# new data is received after CLOSE is called, its TCP implementation
                //# SHOULD send a RST to show that data was lost (SHLD-3).
                State::Open(open)
                    if open.phase != Phase::Closed
                        && (abrupt || (open.recv.queue.len() > 0 && !open.recv.deaf)) =>
                {
                    output::send_reset(conn, cx);
                    conn.fail(cx.ip, None);
                }
                State::Open(open) => {
                    queue_fin(open, cx.now);
                    if open.phase == Phase::FinWait2 {
                        open.linger_until = cx.now + cx.config.fin_wait_2;
                    }
                    open.refresh();
                }
                State::Dormant(_) | State::TimeWait(_) | State::Closed => {}
            }
        });
        self.limit_orphans(ip, now, id);
        self.output_one(ip, now, id.index);
    }

    /// Resets the connection at once.
    pub fn abort<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: TcpId) {
        if self.awake(id).is_none() {
            return;
        }
        self.with(ip, now, id.index, |conn, cx| {
            output::send_reset(conn, cx);
            conn.attached = false;
            conn.fail(cx.ip, Some(TcpError::Aborted));
        });
    }

    /// What can be done with a connection right now; `None` when the id names none.
    pub fn status(&self, id: TcpId) -> Option<TcpStatus> {
        self.table.get(id).map(|e| {
            let mut status = info::status(&e.conn);
            // room in the buffer is of no use without memory to fill it with
            status.writable &= !e.wants_memory || e.conn.is_closed();
            status
        })
    }

    /// Takes the reason why the connection failed, if it did and nobody was told.
    pub fn take_error(&mut self, id: TcpId) -> Option<TcpError> {
        let conn = &mut self.table.get_mut(id)?.conn;
        let error = conn.error.take();
        conn.told |= error.is_some();
        error
    }

    /// What a connection knows about itself; `None` when the id names none.
    pub fn info(&self, id: TcpId) -> Option<TcpInfo> {
        self.table.get(id).map(|e| info::info(&e.conn))
    }

    /// The same of all, TIME-WAIT included, in no order.
    pub fn all(&self) -> impl Iterator<Item = TcpInfo> + '_ {
        self.table.entries().map(|entry| info::info(&entry.conn))
    }

    /// Bytes that remain to be read up to the end of urgent data, 0 when none is pending; `None`
    /// when the id names no open connection.
    pub fn urgent_pending(&self, id: TcpId) -> Option<u64> {
        match &self.table.get(id)?.conn.state {
            State::Open(open) => Some(open.recv.urgent_pending()),
            State::Dormant(_) => Some(0),
            _ => None,
        }
    }

    /// Our end and the peer's end; `None` when the id names none.
    pub fn addresses(&self, id: TcpId) -> Option<(SocketAddr, SocketAddr)> {
        self.table.get(id).map(|e| (e.conn.local, e.conn.remote))
    }

    /// Sets one option; `false` when the id names no connection.
    pub fn set_option(&mut self, id: TcpId, option: TcpOption) -> bool {
        let pacing = self.config.pacing;
        let Some(entry) = self.awake(id) else {
            return false;
        };
        let conn = &mut entry.conn;
        conn.settings.set(option);
        let settings = &conn.settings;
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.9
        //# It is not required, but the application SHOULD be able to change the Differentiated
        //# Services field during the connection lifetime (SHLD-21).
        let marked = settings.mark(&mut conn.path);
        if let (State::SynSent(opening), Some(bytes)) = (&mut conn.state, settings.receive_buffer) {
            opening.fit_buffer(bytes);
        }
        if let State::Open(open) = &mut conn.state {
            if matches!(option, TcpOption::AdvertiseUserTimeout(_)) {
                open.owed_timeout = settings.user_timeout.advertised();
                open.template = None; // ordinary segments do not tell it
                open.refresh();
            }
            open.peer_mss = open.peer_mss.min(settings.max_segment());
            let mss = BlackHole::mss(open, &conn.path);
            open.send.lower_mss(mss);
            open.send.nagle = settings.nagle;
            open.send.buffer = settings.send_buffer;
            if open.send.set_control(settings.congestion, pacing) {
                let exact = settings.congestion.needs_ecn();
                open.send.ecn.mark_all(exact);
                open.recv.ecn.follow_exactly(exact);
                open.template = None; // it has the old marks
                open.refresh();
            }
            open.send.buffer_max = settings.send_buffer_max;
            open.send.fit_buffer();
            if let Some(bytes) = settings.receive_buffer {
                open.recv.set_buffer(bytes);
            }
            if marked {
                open.template = None; // it has the old values
                open.refresh();
            }
        }
        let index = id.index;
        self.settle_timer(index);
        self.owe(index);
        true
    }

    /// Sets one option of every connection that the listener makes from now on; `false` when the id
    /// names no listener.
    pub fn set_listener_option(&mut self, id: ListenerId, option: TcpOption) -> bool {
        let Some(listener) = self.table.listeners.get_mut(id) else {
            return false;
        };
        listener.settings.set(option);
        true
    }
}

/// Bytes that a connection with `queued` bytes may still take of the pool's memory: when it is
/// short, nobody gets more than a little of it.
pub(super) fn memory_share(pool: &Pool, queued: u32) -> u32 {
    if pool.available() == 0 {
        0
    } else if pool.available() < pool.blocks() / 4 {
        let share = pool.block_bytes().saturating_mul(2);
        share.saturating_sub(queued)
    } else {
        u32::MAX
    }
}

/// The FIN follows what is queued, unless it already does.
fn queue_fin(open: &mut super::connection::Open, now: Instant) {
    if open.send.fin == Fin::Open && open.phase != Phase::Closed {
        open.send.before_queueing(now);
        open.send.fin = Fin::Queued;
        open.phase = open.phase.after(Event::Close);
    }
}
