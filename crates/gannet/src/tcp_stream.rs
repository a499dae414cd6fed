//! A TCP connection with the calls of `std::net::TcpStream`.

use crate::blocks::{RecvBlock, SendBlock};
use crate::connect::Connect;
use crate::deadline::Manners;
use crate::error::{connection_failed, fail, time_to_live};
use crate::host::{Host, Inner};
use crate::poller::Source;
use crate::poller::sealed::{Origin, Sealed};
use crate::shard::{Shard, Socket};
use crate::waiting::{Habit, Patience};
use gannet_base::Instant;
use gannet_stack::CongestionControl;
use gannet_stack::tcp::{
    BusyTimes, RecvError, SendError, Shutdown as StackShutdown, TcpError, TcpId, TcpInfo,
    TcpOption, TcpState,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

/// Bytes handed to the stack at a time: what is sent is on its way while the rest is copied.
const PIECE: usize = 64 << 10;
/// Longest write that may only join what waits to be sent.
const SMALL_WRITE: usize = 4096;
/// Pieces of a gathering write that are not more than this together are sent as one.
const GATHERED: usize = 16 << 10;
/// Most bytes read in one go. Two super-segments: one is copied while the other is under way.
const READ_MOST: usize = 128 << 10;

/// A TCP connection; the counterpart of [`std::net::TcpStream`], with the same names and behaviour.
/// Beyond those: [`TcpStream::info`], and sending and receiving without copies
/// ([`TcpStream::take_block`], [`TcpStream::recv_block`]).
///
/// Dropping the last handle closes the connection: what was written still reaches the peer; bytes
/// that nobody read make it a reset, as with the kernel's sockets.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use gannet::{Host, TcpListener, TcpStream};
/// use std::io::{Read, Write};
/// let network = format!("doc-stream-{}", std::process::id());
/// let server = Host::builder().channel(&network, "10.0.0.1/24").build()?;
/// let client = Host::builder().channel(&network, "10.0.0.2/24").build()?;
///
/// let listener = TcpListener::bind(&server, "10.0.0.1:80")?;
/// let mut near = TcpStream::connect(&client, "10.0.0.1:80")?;
/// let (mut far, from) = listener.accept()?;
/// assert_eq!(from, near.local_addr()?);
///
/// near.write_all(b"hello")?;
/// let mut text = [0; 5];
/// far.read_exact(&mut text)?;
/// assert_eq!(&text, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TcpStream {
    socket: Arc<Connection>,
}

#[derive(Debug)]
struct Connection {
    host: Arc<Inner>,
    id: TcpId,
    local: SocketAddr,
    peer: SocketAddr,
    manners: Manners,
    /// The end of the connection was reported: from now on it is only closed.
    reported: AtomicBool,
    nodelay: AtomicBool,
    linger: std::sync::Mutex<Option<Duration>>,
}

impl TcpStream {
    pub(crate) fn new(
        host: Arc<Inner>,
        id: TcpId,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> TcpStream {
        TcpStream {
            socket: Arc::new(Connection {
                host,
                id,
                local,
                peer,
                manners: Manners::default(),
                reported: AtomicBool::new(false),
                nodelay: AtomicBool::new(false),
                linger: std::sync::Mutex::new(None),
            }),
        }
    }

    /// Connects to the first address that works.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens there; `HostUnreachable` when no process of the
    /// network has the address; `NetworkUnreachable` without a route; `TimedOut`.
    pub fn connect(host: &Host, address: impl ToSocketAddrs) -> io::Result<TcpStream> {
        Connect::new(host).to(address)
    }

    /// Connects to the first address that works, and writes all of `data`: with the first packet
    /// where [`crate::FastOpenConfig::client`] is set and the server said that it takes it so (TCP
    /// Fast Open, RFC 7413), which saves a round trip; else after the handshake. With Fast Open the
    /// network may deliver the data twice: only for requests that may arrive twice.
    ///
    /// # Errors
    /// As [`TcpStream::connect`], and those of writing.
    pub fn connect_with_data(
        host: &Host,
        address: impl ToSocketAddrs,
        data: &[u8],
    ) -> io::Result<TcpStream> {
        Connect::new(host).open(address, data)
    }

    /// As [`TcpStream::connect`], for one address, and not for ever.
    ///
    /// # Errors
    /// As there; `TimedOut` when `timeout` has passed; `InvalidInput` when it is zero.
    pub fn connect_timeout(
        host: &Host,
        address: &SocketAddr,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        Connect::new(host).timeout(timeout).to(address)
    }

    /// As [`TcpStream::connect`] from an address and port of the caller's choice: see
    /// [`Connect::from`].
    ///
    /// # Errors
    /// As [`Connect::to`].
    pub fn connect_from(
        host: &Host,
        local: SocketAddr,
        address: impl ToSocketAddrs,
    ) -> io::Result<TcpStream> {
        Connect::new(host).from(local).to(address)
    }

    /// Begins to connect and returns at once: see [`Connect::begin`].
    ///
    /// # Errors
    /// As [`Connect::begin`].
    pub fn connect_nonblocking(host: &Host, address: &SocketAddr) -> io::Result<TcpStream> {
        Connect::new(host).begin(*address)
    }

    /// Whether the handshake is still going on: see [`Connect::begin`].
    pub fn is_connecting(&self) -> bool {
        let Connection { host, id, .. } = &*self.socket;
        host.shared.call(|shard, _| is_opening(shard, *id))
    }

    /// The peer's end.
    ///
    /// # Errors
    /// None; as in std.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket.peer)
    }

    /// Our end.
    ///
    /// # Errors
    /// None; as in std.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket.local)
    }

    /// Another handle of the same connection.
    ///
    /// # Errors
    /// None; as in std.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        Ok(self.clone())
    }

    /// Closes one direction or both: after `Write` the peer reads the end of the stream.
    ///
    /// # Errors
    /// `NotConnected` when the connection has ended.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => StackShutdown::Read,
            Shutdown::Write => StackShutdown::Write,
            Shutdown::Both => StackShutdown::Both,
        };
        let Connection { host, id, peer, .. } = &*self.socket;
        let done = host.shared.call(|shard, now| {
            let over = [TcpState::TimeWait, TcpState::Closed];
            let status = shard.stack.tcp_status(*id);
            if status.is_none_or(|s| over.contains(&s.state)) {
                return Err(SendError::NotConnected);
            }
            shard.stack.tcp_shutdown(now, *id, how)
        });
        done.map_err(|_| {
            let what = format!("shut down the connection to {peer}");
            fail(libc::ENOTCONN, what, "it has ended")
        })
    }

    /// How long reading may wait; `None`: for ever. Then it gives `WouldBlock`, as std on Unix.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.manners.read.set(timeout)
    }

    /// How long writing may wait; `None`: for ever. Then it gives `WouldBlock`, as std on Unix.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.manners.write.set(timeout)
    }

    /// See [`TcpStream::set_read_timeout`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.socket.manners.read.get())
    }

    /// See [`TcpStream::set_write_timeout`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.socket.manners.write.get())
    }

    /// Whether calls give `WouldBlock` rather than waiting.
    ///
    /// # Errors
    /// None; as in std.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        let flag = &self.socket.manners.nonblocking;
        flag.store(nonblocking, Ordering::Relaxed);
        Ok(())
    }

    /// No segment of this connection has more than `bytes` from now on, options included (at least
    /// 48); never raised again. What the peer sends: see `TcpConfig::max_segment` and
    /// [`crate::TcpListener::set_max_segment`].
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_max_segment(&self, bytes: u16) -> io::Result<()> {
        self.set_option(TcpOption::MaxSegment(Some(bytes)))
    }

    /// `true`: small writes leave at once, rather than waiting for what is unacknowledged (Nagle).
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.nodelay.store(nodelay, Ordering::Relaxed);
        self.set_option(TcpOption::NoDelay(nodelay))
    }

    /// See [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.socket.nodelay.load(Ordering::Relaxed))
    }

    /// `Some(0)`: closing resets the connection and throws away what is unsent. `Some(time)`: the
    /// last handle waits when it is dropped until the peer has acknowledged everything, at most so
    /// long. `None` (the default): it does not wait. The host goes on sending in either case.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        *lock(&self.socket.linger) = linger;
        self.set_option(TcpOption::Linger(linger))
    }

    /// See [`TcpStream::set_linger`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(*lock(&self.socket.linger))
    }

    /// Probes a silent peer after this idle time, and fails when it does not answer; `None` (the
    /// default): never.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_keepalive(&self, idle: Option<Duration>) -> io::Result<()> {
        self.set_option(TcpOption::KeepAlive(idle))
    }

    /// As [`TcpStream::set_keepalive`], after the idle time of the host's settings
    /// (`TcpConfig::keep_alive_idle`).
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_keepalive_as_configured(&self) -> io::Result<()> {
        let shared = &self.socket.host.shared;
        let idle = shared.call(|shard, _| shard.stack.config().tcp.keep_alive_idle);
        self.set_keepalive(Some(idle))
    }

    /// Between two probes of [`TcpStream::set_keepalive`], in whole seconds, at least one; `None`
    /// (the default): `TcpConfig::keep_alive_interval`.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_keepalive_interval(&self, interval: Option<Duration>) -> io::Result<()> {
        self.set_option(TcpOption::KeepAliveInterval(interval))
    }

    /// After how many unanswered probes of [`TcpStream::set_keepalive`] the connection fails, at
    /// least one; `None` (the default): `TcpConfig::keep_alive_probes`. With
    /// [`TcpStream::set_user_timeout`] that time decides instead.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_keepalive_probes(&self, probes: Option<u8>) -> io::Result<()> {
        self.set_option(TcpOption::KeepAliveProbes(probes))
    }

    /// How often the SYN is sent again while nobody answers ([`crate::Connect::begin`]); `None`
    /// (the default): `TcpConfig::syn_retries`.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_syn_retries(&self, retries: Option<u8>) -> io::Result<()> {
        self.set_option(TcpOption::SynRetries(retries))
    }

    /// Gives up when data stays unacknowledged for this long (RFC 9293 section 3.8.3); `None` (the
    /// default): after a number of retransmissions.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_option(TcpOption::UserTimeout(timeout))
    }

    /// Suggests to the peer how long data may stay unacknowledged, and lets the peer suggest it
    /// (RFC 5482); `None` (the default): neither. Where both ends suggest, the longer time holds,
    /// within `TcpConfig::user_timeout`, unless [`TcpStream::set_user_timeout`] says otherwise.
    /// What the peer suggests: [`TcpInfo::peer_user_timeout`].
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn advertise_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_option(TcpOption::AdvertiseUserTimeout(timeout))
    }

    /// How many bytes may be written and not yet acknowledged.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_send_buffer(&self, bytes: u32) -> io::Result<()> {
        self.set_option(TcpOption::SendBuffer(bytes))
    }

    /// How many bytes may wait to be read. Switches off the buffer's growth with the flow.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_receive_buffer(&self, bytes: u32) -> io::Result<()> {
        self.set_option(TcpOption::ReceiveBuffer(bytes))
    }

    /// How many bytes may be written and not sent yet, at least a segment or 4 KiB (Linux's
    /// `TCP_NOTSENT_LOWAT`): writing takes no more, and a [`crate::Poller`] says `writable` when
    /// less than half of it is left. `None` (the default): as many as the send buffer holds.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_unsent_max(&self, bytes: Option<u32>) -> io::Result<()> {
        self.set_option(TcpOption::UnsentMax(bytes))
    }

    /// How many routers a packet of this connection may pass, 1 to 255; 64 at first.
    ///
    /// # Errors
    /// `InvalidInput` when it is out of range or the connection has ended.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.set_option(TcpOption::TimeToLive(time_to_live(ttl)?))
    }

    /// See [`TcpStream::set_ttl`].
    ///
    /// # Errors
    /// `NotConnected` when the connection has ended and nothing is left of it.
    pub fn ttl(&self) -> io::Result<u32> {
        self.info().map(|info| info.time_to_live.into())
    }

    /// Type of service of this connection's packets (RFC 2474): Differentiated Services in the
    /// upper six bits, 0 at first; the lower two are not the application's.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.set_option(TcpOption::TypeOfService(tos))
    }

    /// See [`TcpStream::set_tos`].
    ///
    /// # Errors
    /// `NotConnected` when the connection has ended and nothing is left of it.
    pub fn tos(&self) -> io::Result<u8> {
        self.info().map(|info| info.type_of_service)
    }

    /// Congestion control of this connection, at once; [`crate::TcpConfig::congestion`] is what new
    /// ones have.
    ///
    /// # Errors
    /// `InvalidInput` when the connection has ended.
    pub fn set_congestion_control(&self, control: CongestionControl) -> io::Result<()> {
        self.set_option(TcpOption::CongestionControl(control))
    }

    /// See [`TcpStream::set_congestion_control`].
    ///
    /// # Errors
    /// `NotConnected` when the connection has ended and nothing is left of it.
    pub fn congestion_control(&self) -> io::Result<CongestionControl> {
        self.info().map(|info| info.congestion_control)
    }

    /// The error that the next call would report, which then does not report it.
    ///
    /// # Errors
    /// None; as in std.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let Connection {
            host,
            id,
            peer,
            reported,
            ..
        } = &*self.socket;
        let error = host.shared.call(|shard, _| shard.stack.tcp_take_error(*id));
        let fresh = error.filter(|_| !reported.swap(true, Ordering::Relaxed));
        Ok(fresh.map(|error| connection_failed("use the connection to", *peer, error)))
    }

    /// What the connection knows about itself: round trip, windows, queues, retransmissions.
    ///
    /// # Errors
    /// `NotConnected` when it has ended and nothing is left of it.
    pub fn info(&self) -> io::Result<TcpInfo> {
        let Connection { host, id, peer, .. } = &*self.socket;
        let info = host.shared.call(|shard, _| shard.stack.tcp_info(*id));
        let what = || format!("describe the connection to {peer}");
        info.ok_or_else(|| fail(libc::ENOTCONN, what(), "it has ended"))
    }

    /// How long ago the last payload arrived; `None` before the first, and when the connection has
    /// ended.
    pub fn since_received(&self) -> Option<Duration> {
        let Connection { host, id, .. } = &*self.socket;
        host.shared.call(|shard, now| {
            let at = shard.stack.tcp_info(*id)?.last_received?;
            Some(now.saturating_duration_since(at))
        })
    }

    /// How long there was something to send until now, and what held it back; nothing when the
    /// connection has ended.
    pub fn busy_times(&self) -> BusyTimes {
        let Connection { host, id, .. } = &*self.socket;
        let times = host.shared.call(|shard, now| {
            let info = shard.stack.tcp_info(*id)?;
            Some(info.busy.times(now))
        });
        times.unwrap_or_default()
    }

    /// Bytes that remain to be read up to the end of the peer's urgent data, 0 when none is pending
    /// or the connection has ended. Urgent data stays in the stream, where it was written (as with
    /// `SO_OOBINLINE`); RFC 6093 advises new protocols against it.
    pub fn urgent_pending(&self) -> u64 {
        let Connection { host, id, .. } = &*self.socket;
        let pending = host
            .shared
            .call(|shard, _| shard.stack.tcp_urgent_pending(*id));
        pending.unwrap_or(0)
    }

    /// As reading, but the bytes stay to be read again.
    ///
    /// # Errors
    /// As reading.
    pub fn peek(&self, out: &mut [u8]) -> io::Result<usize> {
        self.socket
            .receive(|shard, _, id| shard.stack.tcp_peek(id, out))
    }

    /// The same behind the first `skip` bytes that wait to be read; 0 bytes when no more wait than
    /// those.
    ///
    /// # Errors
    /// As reading.
    pub fn peek_at(&self, skip: usize, out: &mut [u8]) -> io::Result<usize> {
        self.socket
            .receive(|shard, _, id| shard.stack.tcp_peek_at(id, skip, out))
    }

    /// As reading `most` bytes, but throws them away without looking at them; how many.
    ///
    /// # Errors
    /// As reading.
    pub fn discard(&self, most: usize) -> io::Result<usize> {
        self.socket
            .receive(|shard, now, id| shard.stack.tcp_discard(now, id, most))
    }

    /// A block of the connection's memory, to be filled in place and sent with
    /// [`TcpStream::send_block`]: nothing is copied on the way, not even to another process.
    ///
    /// # Errors
    /// As writing; waits while all blocks are under way.
    pub fn take_block(&self) -> io::Result<SendBlock> {
        let sent = self
            .socket
            .send(|shard, _, id| shard.stack.tcp_take_block(id));
        sent.map(SendBlock::new)
    }

    /// Sends the first `len` bytes of a filled block. Waits for room like writing.
    ///
    /// # Errors
    /// As writing, and `InvalidInput` when the block is another host's or `len` is 0 or too large;
    /// the block is lost with the error. See [`TcpStream::try_send_block`].
    pub fn send_block(&self, block: SendBlock, len: usize) -> io::Result<()> {
        self.try_send_block(block, len).map_err(|(error, _)| error)
    }

    /// As [`TcpStream::send_block`], but with an error the block comes back, unless it was the
    /// fault: a stream that does not wait can send it later.
    ///
    /// # Errors
    /// As there.
    pub fn try_send_block(
        &self,
        block: SendBlock,
        len: usize,
    ) -> Result<(), (io::Error, Option<SendBlock>)> {
        let mut block = Some(block.into_inner());
        let sent = self.socket.send(|shard, now, id| {
            let Some(filled) = block.take() else {
                return Err(SendError::BadBlock);
            };
            let sent = shard.stack.tcp_send_block(now, id, filled, len);
            sent.map_err(|(error, returned)| {
                block = returned;
                error
            })
        });
        sent.map_err(|error| (error, block.map(SendBlock::new)))
    }

    /// The next received bytes where they lie, not copied: at most one block's worth; `None` at the
    /// end of the stream. The sender's memory is held until the block is dropped.
    ///
    /// # Errors
    /// As reading.
    pub fn recv_block(&self) -> io::Result<Option<RecvBlock>> {
        let host = &self.socket.host;
        let block = self
            .socket
            .receive(|shard, now, id| shard.stack.tcp_recv_block(now, id))?;
        Ok(block.map(|block| RecvBlock::new(host.clone(), block)))
    }

    fn set_option(&self, option: TcpOption) -> io::Result<()> {
        let Connection { host, id, peer, .. } = &*self.socket;
        let known = host
            .shared
            .call(|shard, _| shard.stack.tcp_set_option(*id, option));
        let what = || format!("set an option of the connection to {peer}");
        known
            .then_some(())
            .ok_or_else(|| fail(libc::EINVAL, what(), "it has ended"))
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whether a connection is between its first SYN and the end of the handshake.
fn is_opening(shard: &Shard, id: TcpId) -> bool {
    let status = shard.stack.tcp_status(id);
    status.is_some_and(|s| matches!(s.state, TcpState::SynSent | TcpState::SynReceived))
}

impl Connection {
    /// One reading call.
    #[inline]
    fn receive<T: Ended>(
        &self,
        mut take: impl FnMut(&mut Shard, Instant, TcpId) -> Result<T, RecvError>,
    ) -> io::Result<T> {
        let socket = Socket::Connection(self.id);
        let patience = self.manners.reading();
        self.host.shared.wait(socket, patience, |shard, now| {
            match take(shard, now, self.id) {
                Ok(done) => Poll::Ready(Ok(done)),
                Err(RecvError::WouldBlock) => Poll::Pending,
                Err(RecvError::NotConnected) if is_opening(shard, self.id) => Poll::Pending,
                Err(RecvError::NotConnected) => Poll::Ready(Err(self.unconnected("read from"))),
                Err(RecvError::Failed(error)) => Poll::Ready(self.end_of_reading(error)),
            }
        })
    }

    /// One writing call.
    #[inline]
    fn send<T>(
        &self,
        mut give: impl FnMut(&mut Shard, Instant, TcpId) -> Result<T, SendError>,
    ) -> io::Result<T> {
        let socket = Socket::Connection(self.id);
        let patience = self.manners.writing();
        self.host.shared.wait(socket, patience, |shard, now| {
            match give(shard, now, self.id) {
                Ok(done) => Poll::Ready(Ok(done)),
                Err(SendError::WouldBlock) => Poll::Pending,
                Err(SendError::NotConnected) if is_opening(shard, self.id) => Poll::Pending,
                Err(error) => Poll::Ready(Err(self.end_of_writing(error))),
            }
        })
    }

    /// Queues the first bytes of `data` if it is small and only joins what waits to be sent anyway:
    /// then everything else that belongs to a call can be spared. `None`: it is not so, write in
    /// the ordinary way.
    #[inline]
    fn join(&self, data: &[u8]) -> Option<usize> {
        if data.len() > SMALL_WRITE {
            return None;
        }
        let shared = &self.host.shared;
        shared.brief(|shard| shard.stack.tcp_join(self.id, data))
    }

    /// Queues all of `data`, waiting for room as often as needed; less only if patience ends.
    fn write(&self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut slices = data.iter();
        let mut rest: &[u8] = &[];
        let mut done = 0;
        let wrote = self.send(|shard, now, id| {
            loop {
                if rest.is_empty() {
                    match slices.next() {
                        Some(slice) => rest = slice,
                        None => return Ok(()),
                    }
                    continue;
                }
                // An error after some bytes is the next call's: it must not be taken here.
                if done > 0
                    && shard
                        .stack
                        .tcp_status(id)
                        .is_some_and(|s| s.error.is_some())
                {
                    return Ok(());
                }
                let piece = rest.get(..PIECE).unwrap_or(rest);
                let taken = shard.stack.tcp_send(now, id, piece)?;
                done += taken;
                rest = rest.get(taken..).unwrap_or(&[]);
                if !rest.is_empty() {
                    shard.stack.flush();
                }
            }
        });
        match wrote {
            // Patience ended, or the connection was closed meanwhile.
            Err(_) if done > 0 => Ok(done),
            Err(error) => Err(error),
            Ok(()) => Ok(done),
        }
    }

    #[cold]
    fn unconnected(&self, what: &str) -> io::Error {
        let what = format!("{what} {}", self.peer);
        fail(libc::ENOTCONN, what, "the connection is not open")
    }

    /// As the kernel does it: the error once, then the end of the stream.
    #[cold]
    fn end_of_reading<T: Ended>(&self, error: TcpError) -> io::Result<T> {
        if self.reported.swap(true, Ordering::Relaxed) {
            return Ok(T::END);
        }
        Err(connection_failed("read from", self.peer, error))
    }

    #[cold]
    fn end_of_writing(&self, error: SendError) -> io::Error {
        let what = || format!("write to {}", self.peer);
        match error {
            SendError::WouldBlock => crate::error::would_block(),
            SendError::NotConnected => self.unconnected("write to"),
            SendError::ShutDown => fail(libc::EPIPE, what(), "this side has shut down writing"),
            SendError::BadBlock => {
                let why = "the block is another link's, or its length is 0 or too large";
                fail(libc::EINVAL, what(), why)
            }
            SendError::Failed(error) => {
                if self.reported.swap(true, Ordering::Relaxed) {
                    return fail(libc::EPIPE, what(), "the connection has ended");
                }
                connection_failed("write to", self.peer, error)
            }
        }
    }
}

/// What a reading call gives at the end of the stream.
trait Ended {
    const END: Self;
}

impl Ended for usize {
    const END: usize = 0;
}

impl<T> Ended for Option<T> {
    const END: Option<T> = None;
}

impl Connection {
    /// Waits until the peer has acknowledged everything, as long as the application asked for.
    #[cold]
    fn linger(&self, time: Duration) {
        let id = self.id;
        let lingers = self.host.shared.call(|shard, now| {
            // What was not read will be answered with a reset: then there is nothing to wait for.
            let unread = shard.stack.tcp_info(id).is_none_or(|info| info.unread > 0);
            !unread
                && shard
                    .stack
                    .tcp_shutdown(now, id, StackShutdown::Write)
                    .is_ok()
        });
        if !lingers {
            return;
        }
        let until = Patience::Until(crate::clock::now() + time);
        let socket = Socket::Connection(id);
        // Too late is no error: the connection goes on without us.
        let _ = self
            .host
            .shared
            .wait(socket, (until, &Habit::default()), |shard, _| {
                match shard.stack.tcp_status(id) {
                    Some(status) if status.error.is_none() && !status.writable => Poll::Pending,
                    _ => Poll::Ready(Ok(())),
                }
            });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let id = self.id;
        if let Some(time) = lock(&self.linger).take().filter(|time| !time.is_zero()) {
            self.linger(time);
        }
        self.host.shared.call(|shard, now| {
            shard.pollers.forget(Socket::Connection(id));
            shard.stack.tcp_close(now, id);
        });
    }
}

impl Read for &TcpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        // not too much at a time: the sender hears of what was taken only between two calls
        let most = out.len().min(READ_MOST);
        let out = out.get_mut(..most).unwrap_or_default();
        self.socket
            .receive(|shard, now, id| shard.stack.tcp_recv(now, id, out))
    }

    fn read_vectored(&mut self, out: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.socket.receive(|shard, now, id| {
            let mut done = 0;
            for slice in out.iter_mut().filter(|s| !s.is_empty()) {
                match shard.stack.tcp_recv(now, id, slice) {
                    Ok(n) => done += n,
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            Ok(done)
        })
    }
}

impl Write for &TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self.socket.join(data) {
            Some(taken) => Ok(taken),
            None => self.socket.write(&[IoSlice::new(data)]),
        }
    }

    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        let total = data
            .iter()
            .fold(0_usize, |n, piece| n.saturating_add(piece.len()));
        if total > GATHERED || data.len() < 2 {
            return self.socket.write(data);
        }
        // One after the other the first would leave alone, and the others wait for its answer.
        let mut whole = Vec::with_capacity(total);
        data.iter().for_each(|piece| whole.extend_from_slice(piece));
        self.write(&whole)
    }

    /// Nothing to do: what was written is on its way.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        (&*self).read(out)
    }

    fn read_vectored(&mut self, out: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(out)
    }
}

impl Write for TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sealed for TcpStream {
    fn source(&self) -> Origin<'_> {
        Origin {
            host: &self.socket.host,
            socket: Socket::Connection(self.socket.id),
        }
    }
}

impl Source for TcpStream {}
