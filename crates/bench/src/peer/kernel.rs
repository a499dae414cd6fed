//! The kernel's sockets, at their best: defaults and offloads as they are, no delay for small
//! requests.
//!
//! Three ways, because none is the best at everything: blocking; non-blocking and tried again
//! without rest (the lowest round-trip time, a whole core); and datagrams in batches, which saves
//! system calls.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};

use super::{Batch, ByteStream, DatagramPeer, Datagrams, PATIENCE_MS, StreamPeer};
use crate::limits::sys;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// The kernel's sockets, used in one of three ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Never sleep: ask again at once.
    pub busy: bool,
    /// Many datagrams in one system call.
    pub batch: bool,
    /// Congestion control of every connection; `None`: that of the network namespace.
    pub congestion: Option<String>,
}

impl Kernel {
    /// Told to the socket, because a namespace's own setting takes fewer names than a socket does.
    /// Accepted connections have that of their listener.
    fn choose_congestion(&self, socket: impl AsFd) -> io::Result<()> {
        match &self.congestion {
            Some(name) => Ok(sockopt::set_tcp_congestion(socket, name)?),
            None => Ok(()),
        }
    }
}

impl StreamPeer for Kernel {
    type Listener = TcpListener;
    type Stream = KernelStream;

    fn listen(&self, at: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(at)?;
        // The standard library's 128 overflow when connections come fast, and each lost request
        // for a connection costs a second.
        rustix::net::listen(&listener, BACKLOG)?;
        self.choose_congestion(&listener)?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    }

    fn accept(&self, listener: &mut TcpListener) -> io::Result<KernelStream> {
        let (inner, _) = listener.accept()?;
        KernelStream::new(inner, self.busy)
    }

    fn connect(&self, to: SocketAddr) -> io::Result<KernelStream> {
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        self.choose_congestion(&socket)?;
        rustix::net::connect(&socket, &to)?;
        KernelStream::new(socket.into(), self.busy)
    }
}

/// A TCP connection of the kernel.
#[derive(Debug)]
pub struct KernelStream {
    inner: TcpStream,
    busy: bool,
}

impl KernelStream {
    fn new(inner: TcpStream, busy: bool) -> io::Result<Self> {
        inner.set_nodelay(true)?;
        inner.set_nonblocking(busy)?;
        Ok(Self { inner, busy })
    }
}

impl Read for KernelStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(into) {
                Err(error) if self.busy && error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
        }
    }
}

impl Write for KernelStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.inner.write(bytes) {
                Err(error) if self.busy && error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl ByteStream for KernelStream {
    fn finish(&mut self) -> io::Result<()> {
        self.inner.shutdown(Shutdown::Write)
    }
}

impl DatagramPeer for Kernel {
    type Socket = KernelDatagrams;

    fn bind(&self, at: SocketAddr) -> io::Result<(KernelDatagrams, SocketAddr)> {
        let inner = UdpSocket::bind(at)?;
        inner.set_read_timeout(Some(Duration::from_millis(PATIENCE_MS)))?;
        inner.set_nonblocking(self.busy)?;
        let at = inner.local_addr()?;
        let way = self.clone();
        Ok((KernelDatagrams { inner, way }, at))
    }
}

/// A UDP socket of the kernel.
#[derive(Debug)]
pub struct KernelDatagrams {
    inner: UdpSocket,
    way: Kernel,
}

impl KernelDatagrams {
    /// Asks until there is an answer or patience ends. The clock is read only now and then: asking
    /// is the work.
    fn patiently<T>(&self, mut ask: impl FnMut(&UdpSocket) -> io::Result<T>) -> io::Result<T> {
        let mut until = None;
        for turn in 0u32.. {
            match ask(&self.inner) {
                Err(error) if self.way.busy && error.kind() == ErrorKind::WouldBlock => {
                    if turn % 1024 == 1023 {
                        let now = Instant::now();
                        let end = now + Duration::from_millis(PATIENCE_MS);
                        if now >= *until.get_or_insert(end) {
                            return Err(error);
                        }
                    }
                }
                outcome => return outcome,
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

impl Datagrams for KernelDatagrams {
    fn connect(&mut self, to: SocketAddr) -> io::Result<()> {
        self.inner.connect(to)
    }

    fn receive_from(&mut self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.patiently(|socket| socket.recv_from(into))
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<usize> {
        self.patiently(|socket| socket.send(datagram))
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.patiently(|socket| socket.recv(into))
    }

    fn send_batch(&mut self, batch: &Batch) -> io::Result<usize> {
        if self.way.batch {
            return sys::send_many(&self.inner, batch.memory(), batch.place());
        }
        let mut sent = 0;
        for datagram in batch.datagrams(super::BATCH) {
            match self.send(datagram) {
                Ok(_) => sent += 1,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    fn receive_batch(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if self.way.batch {
            let place = batch.place();
            let (memory, spans) = batch.parts();
            return sys::receive_many(&self.inner, memory, place, spans);
        }
        batch.fill_first(|place| self.receive(place))
    }
}
