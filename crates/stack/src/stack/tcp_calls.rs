//! The calls on TCP sockets: see [`crate::tcp::Tcp`], which does the work.

use core::net::SocketAddr;

use gannet_base::Instant;
use gannet_link::{Driver, OwnedBlock};

use super::Stack;
use crate::tcp::{
    ConnectError, ListenError, ListenerId, ReceivedBlock, RecvError, SendError, Shutdown,
    TcpCounters, TcpError, TcpId, TcpInfo, TcpOption, TcpReady, TcpStatus,
};

impl<D: Driver> Stack<D> {
    /// Listens on `local` (address 0.0.0.0: every address of ours; `::`: those of both families;
    /// port 0: any free one). At most `backlog` connections wait to be accepted; those half open
    /// are bounded by
    /// [`crate::TcpConfig::syn_backlog`].
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn tcp_listen(
        &mut self,
        local: SocketAddr,
        backlog: usize,
    ) -> Result<ListenerId, ListenError> {
        self.tcp.listen(&mut self.ip, (local, false), backlog)
    }

    /// As [`Stack::tcp_listen`], but on `::` for IPv6 alone (RFC 3493's IPV6_V6ONLY).
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn tcp_listen_only_six(
        &mut self,
        local: SocketAddr,
        backlog: usize,
    ) -> Result<ListenerId, ListenError> {
        self.tcp.listen(&mut self.ip, (local, true), backlog)
    }

    /// The address a listener has.
    pub fn tcp_listener_address(&self, listener: ListenerId) -> Option<SocketAddr> {
        self.tcp.listener_address(listener)
    }

    /// The next connection that was established, if one waits.
    pub fn tcp_accept(&mut self, listener: ListenerId) -> Option<TcpId> {
        self.tcp.accept(listener)
    }

    /// Whether [`Stack::tcp_accept`] would give one.
    pub fn tcp_can_accept(&self, listener: ListenerId) -> bool {
        self.tcp.can_accept(listener)
    }

    /// Stops listening; connections that wait to be accepted are reset.
    pub fn tcp_close_listener(&mut self, now: Instant, listener: ListenerId) {
        self.tcp.close_listener(&mut self.ip, now, listener)
    }

    /// Starts a connection; the id is valid at once, see [`TcpStatus::state`] for progress.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<TcpId, ConnectError> {
        self.tcp_connect_with_options(now, local, remote, &[])
    }

    /// As [`Stack::tcp_connect`], with options that hold from the SYN on: it leaves at once where
    /// the neighbour is known.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn tcp_connect_with_options(
        &mut self,
        now: Instant,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        options: &[TcpOption],
    ) -> Result<TcpId, ConnectError> {
        let ends = (local, remote);
        self.tcp.connect(&mut self.ip, now, ends, options)
    }

    /// A link to the peer of a connection that is being opened has come: its SYN leaves anew, by
    /// the best link there is. Whether it was in SYN-SENT, without data, and a link leads there.
    pub fn tcp_start_over(&mut self, now: Instant, id: TcpId) -> bool {
        self.tcp.start_over(&mut self.ip, now, id)
    }

    /// No link to the peer of a connection that is being opened will come: it fails for this
    /// reason. Of a connection in any other state than SYN-SENT nothing changes.
    pub fn tcp_give_up(&mut self, now: Instant, id: TcpId, error: TcpError) {
        self.tcp.give_up(&mut self.ip, now, id, error)
    }

    /// As [`Stack::tcp_connect`], with data that is sent as soon as it may be: with the SYN where
    /// [`crate::FastOpenConfig::client`] is set and the server gave us a cookie before (RFC 7413),
    /// else after the handshake. How many bytes were taken: as many as the send buffer holds. With
    /// Fast Open they may reach the server's application twice: only for requests that may.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn tcp_connect_with_data(
        &mut self,
        now: Instant,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        data: &[u8],
    ) -> Result<(TcpId, usize), ConnectError> {
        let ends = (local, remote);
        self.tcp.connect_with_data(&mut self.ip, now, ends, data)
    }

    /// Queues the first bytes of `data` and sends what may be sent; how many were taken (0 only
    /// when `data` is empty).
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn tcp_send(&mut self, now: Instant, id: TcpId, data: &[u8]) -> Result<usize, SendError> {
        self.tcp.send(&mut self.ip, now, id, data)
    }

    /// Queues the first bytes of `data` if they only join others that wait for company (Nagle), all
    /// together less than a full segment: nothing is to be sent then, so this needs neither the
    /// time nor a look at the links. How many bytes were taken, never 0; `None`, and nothing has
    /// happened, when it is not so: see [`Stack::tcp_send`].
    #[inline]
    pub fn tcp_join(&mut self, id: TcpId, data: &[u8]) -> Option<usize> {
        self.tcp.join(&mut self.ip, id, data)
    }

    /// As [`Stack::tcp_send`] for urgent data: the last byte taken is the last urgent one (RFC 6093
    /// says: do not use it in anything new).
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn tcp_send_urgent(
        &mut self,
        now: Instant,
        id: TcpId,
        data: &[u8],
    ) -> Result<usize, SendError> {
        self.tcp.send_urgent(&mut self.ip, now, id, data)
    }

    /// A block of the connection's link to be filled in place.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when none is free.
    pub fn tcp_take_block(&mut self, id: TcpId) -> Result<OwnedBlock, SendError> {
        self.tcp.take_block(&mut self.ip, id)
    }

    /// Queues the first `len` bytes of a filled block, without copying them.
    ///
    /// # Errors
    /// See [`SendError`]; the block comes back with it unless it was bad.
    pub fn tcp_send_block(
        &mut self,
        now: Instant,
        id: TcpId,
        block: OwnedBlock,
        len: usize,
    ) -> Result<(), (SendError, Option<OwnedBlock>)> {
        self.tcp.send_block(&mut self.ip, now, id, block, len)
    }

    /// Copies received bytes into `out` and removes them; how many, 0 for the end of the stream.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn tcp_recv(
        &mut self,
        now: Instant,
        id: TcpId,
        out: &mut [u8],
    ) -> Result<usize, RecvError> {
        self.tcp.recv(&mut self.ip, now, id, out)
    }

    /// As [`Stack::tcp_recv`], but leaves the bytes where they are.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn tcp_peek(&mut self, id: TcpId, out: &mut [u8]) -> Result<usize, RecvError> {
        self.tcp.peek_at(&mut self.ip, id, 0, out)
    }

    /// As [`Stack::tcp_peek`] behind the first `skip` bytes; 0 when no more than those wait.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn tcp_peek_at(
        &mut self,
        id: TcpId,
        skip: usize,
        out: &mut [u8],
    ) -> Result<usize, RecvError> {
        self.tcp.peek_at(&mut self.ip, id, skip, out)
    }

    /// As [`Stack::tcp_recv`] of `most` bytes that nobody wants to see.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn tcp_discard(
        &mut self,
        now: Instant,
        id: TcpId,
        most: usize,
    ) -> Result<usize, RecvError> {
        self.tcp.discard(&mut self.ip, now, id, most)
    }

    /// Takes the next received bytes without copying them: at most one block's worth. `None` at the
    /// end of the stream. The holder gives it back with [`Stack::tcp_release_block`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn tcp_recv_block(
        &mut self,
        now: Instant,
        id: TcpId,
    ) -> Result<Option<ReceivedBlock>, RecvError> {
        self.tcp.recv_block(&mut self.ip, now, id)
    }

    /// Gives received bytes back. Also right after the connection, or its link, is gone.
    pub fn tcp_release_block(&mut self, block: ReceivedBlock) {
        self.tcp.release_block(&mut self.ip, block)
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// [`SendError::NotConnected`] or [`SendError::Failed`].
    pub fn tcp_shutdown(
        &mut self,
        now: Instant,
        id: TcpId,
        how: Shutdown,
    ) -> Result<(), SendError> {
        self.tcp.shutdown(&mut self.ip, now, id, how)
    }

    /// The application lets go: queued data and a FIN are still delivered; unread data, or
    /// `Linger(Some(0))`, resets. The id names nothing afterwards.
    pub fn tcp_close(&mut self, now: Instant, id: TcpId) {
        self.tcp.close(&mut self.ip, now, id)
    }

    /// Resets the connection at once.
    pub fn tcp_abort(&mut self, now: Instant, id: TcpId) {
        self.tcp.abort(&mut self.ip, now, id)
    }

    /// What can be done with a connection right now; `None` when the id names none.
    pub fn tcp_status(&self, id: TcpId) -> Option<TcpStatus> {
        self.tcp.status(id)
    }

    /// What a connection knows about itself; `None` when the id names none.
    pub fn tcp_info(&self, id: TcpId) -> Option<TcpInfo> {
        self.tcp.info(id)
    }

    /// The same of every connection, TIME-WAIT included, in no order.
    pub fn tcp_infos(&self) -> impl Iterator<Item = TcpInfo> + '_ {
        self.tcp.all()
    }

    /// Bytes that remain to be read up to the end of the peer's urgent data, 0 when none is pending
    /// (it stays in the stream, RFC 6093); `None` when the id names no open connection. Its
    /// announcement makes the connection appear in [`Stack::tcp_take_ready`].
    pub fn tcp_urgent_pending(&self, id: TcpId) -> Option<u64> {
        self.tcp.urgent_pending(id)
    }

    /// Our end and the peer's end; `None` when the id names none.
    pub fn tcp_addresses(&self, id: TcpId) -> Option<(SocketAddr, SocketAddr)> {
        self.tcp.addresses(id)
    }

    /// Sets one option; `false` when the id names no connection.
    pub fn tcp_set_option(&mut self, id: TcpId, option: TcpOption) -> bool {
        self.tcp.set_option(id, option)
    }

    /// Sets one option of every connection that the listener makes from now on; `false` when the id
    /// names no listener.
    pub fn tcp_set_listener_option(&mut self, id: ListenerId, option: TcpOption) -> bool {
        self.tcp.set_listener_option(id, option)
    }

    /// Sockets whose readiness may have changed since the last call, each once.
    pub fn tcp_take_ready(&mut self) -> Option<TcpReady> {
        self.tcp.take_ready()
    }

    /// Number of connections that nobody holds any more, and whose peer has not acknowledged
    /// everything.
    pub fn tcp_undelivered(&mut self) -> usize {
        self.tcp.undelivered()
    }

    /// Number of connections in any state.
    pub fn tcp_connections(&self) -> usize {
        self.tcp.connections()
    }

    /// Bytes that half-open connections take: SYNs that were answered.
    pub fn tcp_requests_memory(&self) -> usize {
        self.tcp.requests_memory()
    }

    /// Takes the error that the next call would report.
    pub fn tcp_take_error(&mut self, id: TcpId) -> Option<TcpError> {
        self.tcp.take_error(id)
    }

    /// What TCP counted.
    pub fn tcp_counters(&self) -> &TcpCounters {
        self.tcp.counters()
    }

    /// Asserts what must hold of every connection between two calls.
    ///
    /// # Panics
    /// When it does not.
    #[cfg(any(test, feature = "testing"))]
    pub fn check_tcp(&mut self) {
        self.tcp.invariants();
    }

    /// See [`crate::tcp::Tcp`].
    #[cfg(test)]
    pub(crate) fn skip_received(&mut self, id: TcpId, bytes: u32) {
        self.tcp.skip_received(id, bytes);
    }
}
