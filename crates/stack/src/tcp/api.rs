//! The calls on TCP sockets. [`crate::Stack`] offers them to the outside under the same names with
//! a `tcp_` prefix; `ip` is where packets go, `now` the time of the call.

use core::net::SocketAddrV4;

use gannet_base::Instant;
use gannet_link::{Driver, Frame, OwnedBlock};

use super::error::{ConnectError, ListenError, RecvError, SendError};
use super::socket::{
    ListenerId, ReceivedBlock, Shutdown, TcpId, TcpInfo, TcpOption, TcpReady, TcpStatus,
};
use crate::config::Config;
use crate::ip::{Ip, Packet};
use crate::link::LinkId;

/// All TCP of a host.
pub struct Tcp {}

/// An ICMP error about a segment of ours, already found to quote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What it says.
    pub kind: IcmpErrorKind,
    /// Source of the quoted packet: ours.
    pub local: SocketAddrV4,
    /// Destination of the quoted packet.
    pub remote: SocketAddrV4,
    /// Sequence number of the quoted segment.
    pub seq: u32,
}

/// What an ICMP error says, as far as TCP cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpErrorKind {
    /// Fragmentation needed and DF set, with the next hop's MTU (0 when not told).
    FragmentationNeeded(u16),
    /// Destination unreachable with this code (0 network, 1 host, 2 protocol, 3 port, ...).
    Unreachable(u8),
    /// Time exceeded or parameter problem: always soft.
    Soft,
}

impl Tcp {
    /// No sockets.
    pub fn new(_config: &Config) -> Self {
        todo!()
    }

    /// Listens on `local` (address 0.0.0.0: every address of ours; port 0: any free one). At most
    /// `backlog` connections wait to be accepted.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _local: SocketAddrV4,
        _backlog: usize,
    ) -> Result<ListenerId, ListenError> {
        todo!()
    }

    /// The address a listener has.
    pub fn listener_address(&self, _listener: ListenerId) -> Option<SocketAddrV4> {
        todo!()
    }

    /// The next connection that was established, if one waits.
    pub fn accept(&mut self, _listener: ListenerId) -> Option<TcpId> {
        todo!()
    }

    /// Whether [`Tcp::accept`] would give one.
    pub fn can_accept(&self, _listener: ListenerId) -> bool {
        todo!()
    }

    /// Stops listening; connections that wait to be accepted are reset.
    pub fn close_listener<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _listener: ListenerId,
    ) {
        todo!()
    }

    /// Starts a connection; the id is valid at once, see [`TcpStatus::state`] for progress.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _local: Option<SocketAddrV4>,
        _remote: SocketAddrV4,
    ) -> Result<TcpId, ConnectError> {
        todo!()
    }

    /// Queues the first bytes of `data` and sends what may be sent; how many were taken (0 only when
    /// `data` is empty).
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _id: TcpId,
        _data: &[u8],
    ) -> Result<usize, SendError> {
        todo!()
    }

    /// As [`Tcp::send`] for urgent data: the last byte taken is the last urgent one (RFC 6093 says:
    /// do not use it in anything new).
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_urgent<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _id: TcpId,
        _data: &[u8],
    ) -> Result<usize, SendError> {
        todo!()
    }

    /// A block of the connection's link to be filled in place.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when none is free.
    pub fn take_block<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _id: TcpId,
    ) -> Result<OwnedBlock, SendError> {
        todo!()
    }

    /// Queues the first `len` bytes of a filled block, without copying them.
    ///
    /// # Errors
    /// See [`SendError`]; the block comes back with it unless it was bad.
    pub fn send_block<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _id: TcpId,
        _block: OwnedBlock,
        _len: usize,
    ) -> Result<(), (SendError, Option<OwnedBlock>)> {
        todo!()
    }

    /// Copies received bytes into `out` and removes them; how many, 0 for the end of the stream.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _id: TcpId,
        _out: &mut [u8],
    ) -> Result<usize, RecvError> {
        todo!()
    }

    /// As [`Tcp::recv`], but leaves the bytes where they are.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn peek<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _id: TcpId,
        _out: &mut [u8],
    ) -> Result<usize, RecvError> {
        todo!()
    }

    /// Takes the next received bytes without copying them: at most one block's worth. `None` at the
    /// end of the stream. The holder gives it back with [`Tcp::release_block`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv_block<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _id: TcpId,
    ) -> Result<Option<ReceivedBlock>, RecvError> {
        todo!()
    }

    /// Gives received bytes back. Also right after the connection, or its link, is gone.
    pub fn release_block<D: Driver>(&mut self, _ip: &mut Ip<D>, _block: ReceivedBlock) {
        todo!()
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// [`SendError::NotConnected`] or [`SendError::Failed`].
    pub fn shutdown<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _id: TcpId,
        _how: Shutdown,
    ) -> Result<(), SendError> {
        todo!()
    }

    /// The application lets go: queued data and a FIN are still delivered; unread data, or
    /// `Linger(Some(0))`, resets. The id names nothing afterwards.
    pub fn close<D: Driver>(&mut self, _ip: &mut Ip<D>, _now: Instant, _id: TcpId) {
        todo!()
    }

    /// Resets the connection at once.
    pub fn abort<D: Driver>(&mut self, _ip: &mut Ip<D>, _now: Instant, _id: TcpId) {
        todo!()
    }

    /// What can be done with a connection right now; `None` when the id names none.
    pub fn status(&self, _id: TcpId) -> Option<TcpStatus> {
        todo!()
    }

    /// What a connection knows about itself; `None` when the id names none.
    pub fn info(&self, _id: TcpId) -> Option<TcpInfo> {
        todo!()
    }

    /// Our end and the peer's end; `None` when the id names none.
    pub fn addresses(&self, _id: TcpId) -> Option<(SocketAddrV4, SocketAddrV4)> {
        todo!()
    }

    /// Sets one option; `false` when the id names no connection.
    pub fn set_option(&mut self, _id: TcpId, _option: TcpOption) -> bool {
        todo!()
    }

    /// Sockets whose readiness may have changed since the last call, each once.
    pub fn take_ready(&mut self) -> Option<TcpReady> {
        todo!()
    }

    /// Number of connections in any state.
    pub fn connections(&self) -> usize {
        todo!()
    }

    /// A segment arrives (RFC 9293 section 3.10.7). `frame` starts at the TCP header and ends with
    /// the IP packet; its ranges are kept or released here.
    pub(crate) fn segment_arrives<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _packet: &Packet,
        _frame: &mut Frame,
    ) {
        todo!()
    }

    /// An ICMP error about a segment of ours.
    pub(crate) fn icmp_error<D: Driver>(
        &mut self,
        _ip: &mut Ip<D>,
        _now: Instant,
        _error: &IcmpError,
    ) {
        todo!()
    }

    /// Expired timers and owed output: acknowledgements of the batch, data that waited for room.
    pub(crate) fn poll<D: Driver>(&mut self, _ip: &mut Ip<D>, _now: Instant) {
        todo!()
    }

    /// When [`Tcp::poll`] must run next, at the latest.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// The link is gone: its connections fail.
    pub(crate) fn link_gone<D: Driver>(&mut self, _ip: &mut Ip<D>, _link: LinkId) {
        todo!()
    }

    /// A neighbour answered, or gave up answering: connections that wait for one look again.
    pub(crate) fn neighbours_changed(&mut self) {
        todo!()
    }
}
