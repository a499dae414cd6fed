//! How a TCP connection is opened: from where, for how long, and whether anybody waits for it.

use crate::address::first_that_works;
use crate::deadline::deadline;
use crate::error::{connect_failed, connection_failed, fail, zero_timeout};
use crate::host::{Host, Inner};
use crate::shard::Socket;
use crate::tcp_stream::TcpStream;
use crate::waiting::{Habit, Patience};
use gannet_base::Instant;
use gannet_stack::CongestionControl;
use gannet_stack::tcp::{TcpError, TcpId, TcpOption, TcpState};
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Opens TCP connections in other ways than [`TcpStream::connect`]: from an address or port of the
/// caller's choice, for a limited time, or without waiting.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use gannet::{Connect, Host, Interest, Poller, TcpListener};
/// let network = format!("doc-connect-{}", std::process::id());
/// let server = Host::builder().channel(&network, "10.0.0.1/24").build()?;
/// let client = Host::builder().channel(&network, "10.0.0.2/24").build()?;
/// let listener = TcpListener::bind(&server, "10.0.0.1:80")?;
///
/// let from = "10.0.0.2:4000".parse().unwrap();
/// let stream = Connect::new(&client).from(from).begin("10.0.0.1:80".parse().unwrap())?;
/// let poller = Poller::new(&client);
/// poller.add(&stream, 1, Interest::WRITABLE)?;
/// poller.wait(&mut Vec::new(), None)?;
/// assert!(stream.take_error()?.is_none(), "it is open");
/// assert_eq!(listener.accept()?.1, from);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Connect {
    host: Host,
    from: Option<SocketAddr>,
    timeout: Option<Duration>,
    options: Vec<TcpOption>,
}

/// What is to be opened, and until when it is waited for.
struct Wanted<'a> {
    from: Option<SocketAddr>,
    to: SocketAddr,
    deadline: Instant,
    data: &'a [u8],
}

impl Connect {
    /// From an address and port that the host chooses, for as long as TCP tries.
    pub fn new(host: &Host) -> Connect {
        Connect {
            host: host.clone(),
            from: None,
            timeout: None,
            options: Vec::new(),
        }
    }

    fn with(mut self, option: TcpOption) -> Connect {
        self.options.push(option);
        self
    }

    /// No segment has more than `bytes`, options included (at least 48), in either direction: the
    /// SYN of [`Connect::begin`] says so.
    #[must_use]
    pub fn max_segment(self, bytes: u16) -> Connect {
        self.with(TcpOption::MaxSegment(Some(bytes)))
    }

    /// As [`TcpStream::set_ttl`], from the SYN of [`Connect::begin`] on; 0 is taken as 1.
    #[must_use]
    pub fn ttl(self, hops: u8) -> Connect {
        self.with(TcpOption::TimeToLive(hops))
    }

    /// As [`TcpStream::set_tos`], from the SYN of [`Connect::begin`] on.
    #[must_use]
    pub fn tos(self, tos: u8) -> Connect {
        self.with(TcpOption::TypeOfService(tos))
    }

    /// As [`TcpStream::set_syn_retries`]: of [`Connect::begin`].
    #[must_use]
    pub fn syn_retries(self, retries: u8) -> Connect {
        self.with(TcpOption::SynRetries(Some(retries)))
    }

    /// As [`TcpStream::set_receive_buffer`], from the SYN of [`Connect::begin`] on.
    #[must_use]
    pub fn receive_buffer(self, bytes: u32) -> Connect {
        self.with(TcpOption::ReceiveBuffer(bytes))
    }

    /// As [`TcpStream::set_congestion_control`], from the SYN of [`Connect::begin`] on: it offers
    /// what the control needs.
    #[must_use]
    pub fn congestion_control(self, control: CongestionControl) -> Connect {
        self.with(TcpOption::CongestionControl(control))
    }

    /// From `local`: 0.0.0.0 or `::` leaves the address to the host, port 0 the port. A port that
    /// other connections have, or a listener, is free for as long as the peer is another.
    #[must_use]
    pub fn from(mut self, local: SocketAddr) -> Connect {
        self.from = Some(local);
        self
    }

    /// [`Connect::to`] waits no longer than this.
    #[must_use]
    pub fn timeout(mut self, at_most: Duration) -> Connect {
        self.timeout = Some(at_most);
        self
    }

    /// Connects to the first address that works, and waits until the connection is open.
    ///
    /// # Errors
    /// As [`TcpStream::connect`]; `AddrNotAvailable` when the address to come from is not the
    /// host's or the port is taken; `InvalidInput` for a time-out of zero.
    pub fn to(&self, address: impl ToSocketAddrs) -> io::Result<TcpStream> {
        self.open(address, &[])
    }

    /// As [`Connect::to`], and writes all of `data`: see [`TcpStream::connect_with_data`].
    pub(crate) fn open(&self, address: impl ToSocketAddrs, data: &[u8]) -> io::Result<TcpStream> {
        if self.timeout.is_some_and(|t| t.is_zero()) {
            return Err(zero_timeout());
        }
        first_that_works(address, |to| {
            let wanted = Wanted {
                from: self.from,
                to,
                deadline: deadline(self.timeout),
                data,
            };
            open(self.host.inner(), &wanted)
        })
    }

    /// Begins to connect to `to` and returns at once, with a stream that does not wait
    /// ([`TcpStream::set_nonblocking`]). [`crate::Poller`] tells what becomes of it: `writable`
    /// when it is open, `failed` when it will not be; [`TcpStream::take_error`] says why. Until
    /// then reading and writing give `WouldBlock` (and wait, when the stream is made to wait).
    ///
    /// Even the channel to a process that was never talked to is made meanwhile.
    ///
    /// # Errors
    /// What is known at once: `NetworkUnreachable` without a route, `HostUnreachable` when no
    /// process of the network has the address, `AddrNotAvailable` as for [`Connect::to`]. All else,
    /// `ConnectionRefused` for one, is told later.
    pub fn begin(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let inner = self.host.inner();
        let begun = inner.shared.call(|shard, now| {
            let stack = &mut shard.stack;
            let id = stack.tcp_connect_with_options(now, self.from, to, &self.options);
            let id = id.map_err(|error| connect_failed(to, error))?;
            if let Err(error) = shard.dial(id, to.ip().to_canonical(), now) {
                shard.stack.tcp_close(now, id);
                return Err(error);
            }
            let (local, peer) = shard.stack.tcp_addresses(id).unwrap_or((to, to));
            Ok((id, local, peer))
        });
        let (id, local, peer) = begun?;
        let stream = TcpStream::new(inner.clone(), id, local, peer);
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

/// Connects and waits until it is open, or has failed.
fn open(host: &Arc<Inner>, wanted: &Wanted<'_>) -> io::Result<TcpStream> {
    let Wanted { from, to, data, .. } = *wanted;
    host.shared.reach(to.ip())?;
    let begun = host.shared.call(|shard, now| match data {
        [] => shard.stack.tcp_connect(now, from, to).map(|id| (id, 0)),
        _ => shard.stack.tcp_connect_with_data(now, from, to, data),
    });
    let (id, written) = begun.map_err(|error| connect_failed(to, error))?;
    match wait_until_open(host, id, wanted) {
        Ok((local, peer)) => {
            let mut stream = TcpStream::new(host.clone(), id, local, peer);
            stream.write_all(data.get(written..).unwrap_or_default())?;
            Ok(stream)
        }
        Err(error) => {
            host.shared
                .call(|shard, now| shard.stack.tcp_close(now, id));
            if error.kind() == io::ErrorKind::WouldBlock {
                let why = "no answer within the time given";
                return Err(fail(libc::ETIMEDOUT, format!("connect to {to}"), why));
            }
            Err(error)
        }
    }
}

/// Both addresses of the connection once it is open; `WouldBlock` when time is up.
fn wait_until_open(
    host: &Inner,
    id: TcpId,
    &Wanted { to, deadline, .. }: &Wanted<'_>,
) -> io::Result<(SocketAddr, SocketAddr)> {
    let once = Habit::default();
    let how = (Patience::Until(deadline), &once);
    host.shared.wait(Socket::Connection(id), how, |shard, _| {
        let Some(status) = shard.stack.tcp_status(id) else {
            return Poll::Ready(Err(connection_failed("connect to", to, TcpError::Aborted)));
        };
        match (status.error, status.state) {
            (Some(error), _) => Poll::Ready(Err(connection_failed("connect to", to, error))),
            (None, TcpState::SynSent | TcpState::SynReceived) => Poll::Pending,
            (None, _) => Poll::Ready(Ok(shard.stack.tcp_addresses(id).unwrap_or((to, to)))),
        }
    })
}
