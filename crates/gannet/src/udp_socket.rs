//! A UDP socket with the calls of `std::net::UdpSocket`, and those that move many datagrams at
//! once.

mod groups;

use crate::address::{first_that_works, resolve_one};
use crate::deadline::Manners;
use crate::error::{fail, time_to_live};
use crate::host::{Host, Inner};
use crate::poller::Source;
use crate::poller::sealed::{Origin, Sealed};
use crate::shard::{Shard, Socket};
use gannet_base::Instant;
use gannet_stack::udp::{
    BindError, Binding, Datagram, PathMtuDiscovery, UdpError, UdpId, UdpOption, WhenFull,
};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

/// A UDP socket; the counterpart of [`std::net::UdpSocket`], with the same names and behaviour.
///
/// One difference is to the application's advantage: on a channel nothing is lost. A sender that is
/// ahead of its receiver waits for it (or gets `WouldBlock`).
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use gannet::{Host, UdpSocket};
/// let network = format!("doc-udp-{}", std::process::id());
/// let a = Host::builder().channel(&network, "10.0.0.1/24").build()?;
/// let b = Host::builder().channel(&network, "10.0.0.2/24").build()?;
/// let (one, two) = (UdpSocket::bind(&a, "10.0.0.1:53")?, UdpSocket::bind(&b, "10.0.0.2:0")?);
///
/// two.send_to(b"question", "10.0.0.1:53")?;
/// let mut buffer = [0; 100];
/// let (len, from) = one.recv_from(&mut buffer)?;
/// assert_eq!((&buffer[..len], from), (&b"question"[..], two.local_addr()?));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    socket: Arc<Bound>,
}

#[derive(Debug)]
struct Bound {
    host: Arc<Inner>,
    id: UdpId,
    manners: Manners,
    broadcast: AtomicBool,
    ttl: AtomicU8,
    group_ttl: AtomicU8,
    group_loop: AtomicBool,
    /// The destination last found to have a link, and the links' generation then.
    reached: AtomicU64,
}

impl UdpSocket {
    /// A socket at the first address that works (0.0.0.0: all of the host's; port 0: a free one).
    ///
    /// # Errors
    /// `AddrInUse`; `AddrNotAvailable` when the address is not the host's.
    pub fn bind(host: &Host, address: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        Self::bind_as(host, address, Binding::default())
    }

    /// As [`UdpSocket::bind`]; on `::` for IPv6 alone (RFC 3493's IPV6_V6ONLY), so that another may
    /// be bound to 0.0.0.0 at the same port.
    ///
    /// # Errors
    /// As [`UdpSocket::bind`].
    pub fn bind_only_v6(host: &Host, address: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        let only_six = Binding {
            only_six: true,
            ..Binding::default()
        };
        Self::bind_as(host, address, only_six)
    }

    /// As [`UdpSocket::bind`], together with others that are bound so to the same address and port
    /// (SO_REUSEADDR): each gets what is sent to the groups it has joined. What is sent to the
    /// address itself goes to one of them.
    ///
    /// # Errors
    /// As [`UdpSocket::bind`]; `AddrInUse` when one that is there does not share.
    pub fn bind_shared(host: &Host, address: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        let shared = Binding {
            shared: true,
            ..Binding::default()
        };
        Self::bind_as(host, address, shared)
    }

    /// [`UdpSocket::bind_shared`] and [`UdpSocket::bind_only_v6`] in one.
    ///
    /// # Errors
    /// As [`UdpSocket::bind_shared`].
    pub fn bind_shared_only_v6(host: &Host, address: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        let both = Binding {
            only_six: true,
            shared: true,
        };
        Self::bind_as(host, address, both)
    }

    fn bind_as(host: &Host, address: impl ToSocketAddrs, how: Binding) -> io::Result<UdpSocket> {
        first_that_works(address, |at| {
            let inner = host.inner();
            let id = inner
                .shared
                .call(|shard, _| shard.stack.udp_bind_as(at, how));
            let id = id.map_err(|error| bind_failed(at, error))?;
            Ok(UdpSocket {
                socket: Arc::new(Bound {
                    host: inner.clone(),
                    id,
                    manners: Manners::default(),
                    broadcast: AtomicBool::new(false),
                    ttl: AtomicU8::new(64),
                    group_ttl: AtomicU8::new(1),
                    group_loop: AtomicBool::new(true),
                    reached: AtomicU64::new(0),
                }),
            })
        })
    }

    /// From now on this socket talks to one peer: `send` and `recv` work, others' datagrams are not
    /// taken.
    ///
    /// # Errors
    /// `NetworkUnreachable`, `HostUnreachable`; `InvalidInput` when it is no host.
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        let Bound { host, id, .. } = &*self.socket;
        first_that_works(address, |to| {
            host.shared.reach(to.ip())?;
            let connected = host
                .shared
                .call(|shard, _| shard.stack.udp_connect(*id, Some(to)));
            connected.map_err(|error| self.socket.failed("connect to", Some(to), error))
        })
    }

    /// Takes [`UdpSocket::connect`] back: everybody's datagrams are taken again.
    ///
    /// # Errors
    /// None.
    pub fn disconnect(&self) -> io::Result<()> {
        let Bound { host, id, .. } = &*self.socket;
        let done = host
            .shared
            .call(|shard, _| shard.stack.udp_connect(*id, None));
        done.map_err(|error| self.socket.failed("disconnect", None, error))
    }

    /// Our end.
    ///
    /// # Errors
    /// None; as in std.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket.addresses()?.0)
    }

    /// The connected peer.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let (local, peer) = self.socket.addresses()?;
        let what = || format!("name the peer of {local}");
        let why = "the socket is not connected";
        peer.ok_or_else(|| fail(libc::ENOTCONN, what(), why))
    }

    /// Sends one datagram to `address`; its length.
    ///
    /// # Errors
    /// The kind of `EMSGSIZE` when it is too large for one packet; `NetworkUnreachable`,
    /// `HostUnreachable`; `WouldBlock`.
    pub fn send_to(&self, data: &[u8], address: impl ToSocketAddrs) -> io::Result<usize> {
        let to = resolve_one(address)?;
        self.socket.send(Some(to), |shard, now, id| {
            shard.stack.udp_send_to(now, id, data, Some(to))
        })
    }

    /// Sends one datagram to the connected peer; its length.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`]; the kind of `EDESTADDRREQ` when not connected;
    /// `ConnectionRefused` when an earlier one met nobody.
    pub fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.socket.send(None, |shard, now, id| {
            shard.stack.udp_send_to(now, id, data, None)
        })
    }

    /// Sends the datagrams that lie back to back in `data`, `size` bytes each (the last may be
    /// shorter), to the connected peer. How many were sent, at least one.
    ///
    /// # Errors
    /// As [`UdpSocket::send`], when not even one was sent.
    pub fn send_batch(&self, data: &[u8], size: usize) -> io::Result<usize> {
        self.socket.send(None, |shard, now, id| {
            shard.stack.udp_send_batch(now, id, None, data, size)
        })
    }

    /// As [`UdpSocket::send_batch`], to `address`.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`], when not even one was sent.
    pub fn send_batch_to(
        &self,
        data: &[u8],
        size: usize,
        address: impl ToSocketAddrs,
    ) -> io::Result<usize> {
        let to = resolve_one(address)?;
        self.socket.send(Some(to), |shard, now, id| {
            shard.stack.udp_send_batch(now, id, Some(to), data, size)
        })
    }

    /// The next datagram: bytes copied (what does not fit is lost), and the sender.
    ///
    /// # Errors
    /// `WouldBlock`; `ConnectionRefused` when an earlier one met nobody.
    pub fn recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (len, _, from) = self
            .socket
            .receive(|shard, id| shard.stack.udp_recv_from(id, out))?;
        Ok((len, from))
    }

    /// As [`UdpSocket::recv_from`] without the sender.
    ///
    /// # Errors
    /// As there.
    pub fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        self.recv_from(out).map(|(len, _)| len)
    }

    /// As [`UdpSocket::recv_from`], but the datagram stays to be read again.
    ///
    /// # Errors
    /// As there.
    pub fn peek_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (len, _, from) = self
            .socket
            .receive(|shard, id| shard.stack.udp_peek_from(id, out))?;
        Ok((len, from))
    }

    /// As [`UdpSocket::peek_from`] without the sender.
    ///
    /// # Errors
    /// As there.
    pub fn peek(&self, out: &mut [u8]) -> io::Result<usize> {
        self.peek_from(out).map(|(len, _)| len)
    }

    /// Fills `buffer` back to back with as many datagrams as are there, fit, and have a place in
    /// `places`. Waits for the first; how many came.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn recv_batch(&self, buffer: &mut [u8], places: &mut [Datagram]) -> io::Result<usize> {
        self.socket
            .receive(|shard, id| shard.stack.udp_recv_batch(id, buffer, places))
    }

    /// Fills `buffer` back to back with datagrams of one size from one sender. Waits for the first.
    /// Bytes copied, size of each (only the last may be shorter), and the sender.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn recv_segments(&self, buffer: &mut [u8]) -> io::Result<(usize, usize, SocketAddr)> {
        let (len, size, from) = self
            .socket
            .receive(|shard, id| shard.stack.udp_recv_segments(id, buffer))?;
        Ok((len, size, from))
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

    /// How long receiving may wait; `None`: for ever. Then it gives `WouldBlock`, as std on Unix.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.manners.read.set(timeout)
    }

    /// How long sending may wait; `None`: for ever. Then it gives `WouldBlock`, as std on Unix.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.manners.write.set(timeout)
    }

    /// See [`UdpSocket::set_read_timeout`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.socket.manners.read.get())
    }

    /// See [`UdpSocket::set_write_timeout`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.socket.manners.write.get())
    }

    /// Whether datagrams may go to broadcast addresses. Off at first.
    ///
    /// # Errors
    /// None; as in std.
    pub fn set_broadcast(&self, allowed: bool) -> io::Result<()> {
        self.socket.broadcast.store(allowed, Ordering::Relaxed);
        self.socket.set_option(UdpOption::Broadcast(allowed))
    }

    /// See [`UdpSocket::set_broadcast`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn broadcast(&self) -> io::Result<bool> {
        Ok(self.socket.broadcast.load(Ordering::Relaxed))
    }

    /// How many routers a packet of this socket may pass, 1 to 255; 64 at first.
    ///
    /// # Errors
    /// `InvalidInput` when it is out of range.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hops = time_to_live(ttl)?;
        self.socket.ttl.store(hops, Ordering::Relaxed);
        self.socket.set_option(UdpOption::TimeToLive(hops))
    }

    /// See [`UdpSocket::set_ttl`].
    ///
    /// # Errors
    /// None; as in std.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(self.socket.ttl.load(Ordering::Relaxed).into())
    }

    /// Type of service of this socket's packets (RFC 2474): Differentiated Services in the upper
    /// six bits, ECN in the lower two; 0 at first.
    ///
    /// # Errors
    /// None.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.socket.set_option(UdpOption::TypeOfService(tos))
    }

    /// How many bytes may have been sent and not yet taken by the link (on a channel: by the peer).
    ///
    /// # Errors
    /// None.
    pub fn set_send_buffer(&self, bytes: u32) -> io::Result<()> {
        self.socket.set_option(UdpOption::SendBuffer(bytes))
    }

    /// How many bytes may wait to be read.
    ///
    /// # Errors
    /// None.
    pub fn set_receive_buffer(&self, bytes: u32) -> io::Result<()> {
        self.socket.set_option(UdpOption::ReceiveBuffer(bytes))
    }

    /// Whether datagrams longer than the path's MTU are sent in fragments (the default) or refused,
    /// and whether routers may cut others; `IP_MTU_DISCOVER`.
    ///
    /// # Errors
    /// None.
    pub fn set_path_mtu_discovery(&self, choice: PathMtuDiscovery) -> io::Result<()> {
        self.socket.set_option(UdpOption::PathMtu(choice))
    }

    /// Which datagrams are lost when as many bytes wait as may: those that arrive, or those that
    /// have waited longest. [`WhenFull::DropNewest`] at first.
    ///
    /// # Errors
    /// None.
    pub fn set_when_full(&self, choice: WhenFull) -> io::Result<()> {
        self.socket.set_option(UdpOption::WhenFull(choice))
    }

    /// How many datagrams were lost so far because too many bytes waited to be read.
    ///
    /// # Errors
    /// None.
    pub fn dropped(&self) -> io::Result<u64> {
        let id = self.socket.id;
        let shared = &self.socket.host.shared;
        let status = shared.call(|shard, _| shard.stack.udp_status(id));
        Ok(status.map_or(0, |s| s.dropped))
    }

    /// The error that the next call would report, which then does not report it.
    ///
    /// # Errors
    /// None; as in std.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let Bound { host, id, .. } = &*self.socket;
        let error = host.shared.call(|shard, _| shard.stack.udp_take_error(*id));
        Ok(error.map(|error| self.socket.failed("use the socket to", None, error)))
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// None; as in std.
    pub fn try_clone(&self) -> io::Result<UdpSocket> {
        Ok(UdpSocket {
            socket: self.socket.clone(),
        })
    }
}

impl Bound {
    #[inline]
    fn receive<T>(
        &self,
        mut take: impl FnMut(&mut Shard, UdpId) -> Result<T, UdpError>,
    ) -> io::Result<T> {
        let socket = Socket::Datagrams(self.id);
        let patience = self.manners.reading();
        self.host
            .shared
            .wait(socket, patience, |shard, _| match take(shard, self.id) {
                Ok(done) => Poll::Ready(Ok(done)),
                Err(UdpError::WouldBlock) => Poll::Pending,
                Err(error) => Poll::Ready(Err(self.failed("receive from", None, error))),
            })
    }

    /// One sending call. `None` comes back from the wait when there is no channel to the
    /// destination yet: it is made, and the call repeated.
    #[inline]
    fn send<T>(
        &self,
        to: Option<SocketAddr>,
        mut give: impl FnMut(&mut Shard, Instant, UdpId) -> Result<T, UdpError>,
    ) -> io::Result<T> {
        let socket = Socket::Datagrams(self.id);
        let patience = self.manners.writing();
        loop {
            let sent = self.host.shared.wait(socket, patience, |shard, now| {
                if let Some(to) = to
                    && !self.is_reached(shard, to.ip())
                {
                    return Poll::Ready(Ok(None));
                }
                match give(shard, now, self.id) {
                    Ok(done) => Poll::Ready(Ok(Some(done))),
                    Err(UdpError::WouldBlock) => Poll::Pending,
                    Err(error) => Poll::Ready(Err(self.failed("send to", to, error))),
                }
            })?;
            match (sent, to) {
                (Some(sent), _) => return Ok(sent),
                (None, Some(to)) => self.host.shared.reach(to.ip())?,
                (None, None) => {}
            }
        }
    }

    /// Whether `to` needs no new channel. Remembered until links come or go.
    #[inline]
    fn is_reached(&self, shard: &Shard, to: IpAddr) -> bool {
        let IpAddr::V4(four) = to else {
            return shard.unlinked_network(to).is_none();
        };
        let known = u64::from(four.to_bits()) << 32 | u64::from(shard.links_generation());
        if self.reached.load(Ordering::Relaxed) == known {
            return true;
        }
        let reached = shard.unlinked_network(to).is_none();
        if reached {
            self.reached.store(known, Ordering::Relaxed);
        }
        reached
    }

    fn addresses(&self) -> io::Result<(SocketAddr, Option<SocketAddr>)> {
        let id = self.id;
        let found = self
            .host
            .shared
            .call(|shard, _| shard.stack.udp_addresses(id));
        found.ok_or_else(|| fail(libc::EBADF, "use a socket", "it is closed"))
    }

    fn set_option(&self, option: UdpOption) -> io::Result<()> {
        let id = self.id;
        self.host
            .shared
            .call(|shard, _| shard.stack.udp_set_option(id, option));
        Ok(())
    }

    #[cold]
    fn failed(&self, what: &str, to: Option<SocketAddr>, error: UdpError) -> io::Error {
        let (code, why) = udp_reason(error);
        // Called under the lock, so without asking the stack who the connected peer is.
        let whom = to.map_or_else(|| "the peer".to_owned(), |to| to.to_string());
        fail(code, format!("{what} {whom}"), why)
    }
}

fn udp_reason(error: UdpError) -> (i32, &'static str) {
    match error {
        UdpError::WouldBlock => (libc::EAGAIN, "not now"),
        UdpError::NoRoute => (libc::ENETUNREACH, "no link or route leads there"),
        UdpError::TooLarge => (
            libc::EMSGSIZE,
            "the datagram is too large for one packet on the way there",
        ),
        UdpError::NotConnected => (
            libc::EDESTADDRREQ,
            "the socket is not connected: name a destination",
        ),
        UdpError::InvalidDestination => (libc::EINVAL, "it is no single host and port"),
        UdpError::NotPermitted => (
            libc::EACCES,
            "a broadcast address\ntry: set_broadcast(true)",
        ),
        UdpError::HostUnreachable => (libc::EHOSTUNREACH, "the host cannot be reached"),
        UdpError::Refused => (libc::ECONNREFUSED, "nobody has a socket at that port"),
        UdpError::LinkGone => (
            libc::ECONNREFUSED,
            "peer gone: the process at the other end of the channel has ended, or the interface \
             was removed",
        ),
        UdpError::Closed => (libc::EBADF, "the socket is closed"),
    }
}

fn bind_failed(at: SocketAddr, error: BindError) -> io::Error {
    let (code, why) = match error {
        BindError::AddressInUse => (libc::EADDRINUSE, "another socket has this address"),
        BindError::AddressNotAvailable => (
            libc::EADDRNOTAVAIL,
            "the address is not one of this host's links",
        ),
        BindError::TooManySockets => (libc::ENFILE, "this host has too many sockets"),
    };
    fail(code, format!("bind to {at}"), why)
}

impl Drop for Bound {
    fn drop(&mut self) {
        let id = self.id;
        self.host.shared.call(|shard, _| {
            shard.pollers.forget(Socket::Datagrams(id));
            shard.stack.udp_close(id);
        });
    }
}

impl Sealed for UdpSocket {
    fn source(&self) -> Origin<'_> {
        Origin {
            host: &self.socket.host,
            socket: Socket::Datagrams(self.socket.id),
        }
    }
}

impl Source for UdpSocket {}
