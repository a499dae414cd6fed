//! What a stack must offer to be measured. Workloads are written against these traits, once for all
//! stacks.
//!
//! The traits follow `std::net`: whatever mirrors its sockets fits in a page. To add a stack: a
//! file here that implements [`StreamPeer`] and [`DatagramPeer`], a variant of
//! [`crate::role::PeerKind`], an arm in [`crate::worker`], and a place in [`crate::run::plan`].
//!
//! * [`Batch`]: places for many datagrams
//! * [`gannet`]: Gannet's sockets, over a channel or an interface
//! * [`kernel`]: the kernel's sockets, blocking, busy-polling or batched

mod batch;
pub mod gannet;
pub mod kernel;

pub use batch::{BATCH, Batch, Span};

use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// A stack with TCP.
pub trait StreamPeer {
    /// Its listening socket.
    type Listener;
    /// Its connection.
    type Stream: ByteStream;

    /// Listens at an address (port 0: any), and says which it became.
    ///
    /// # Errors
    /// Those of `TcpListener::bind`.
    fn listen(&self, at: SocketAddr) -> io::Result<(Self::Listener, SocketAddr)>;

    /// Takes the next connection; waits for it.
    ///
    /// # Errors
    /// Those of `TcpListener::accept`.
    fn accept(&self, listener: &mut Self::Listener) -> io::Result<Self::Stream>;

    /// Connects.
    ///
    /// # Errors
    /// Those of `TcpStream::connect`.
    fn connect(&self, to: SocketAddr) -> io::Result<Self::Stream>;
}

/// A connection.
pub trait ByteStream: Read + Write {
    /// Nothing more will be written; the other side reads the end of the stream.
    ///
    /// # Errors
    /// Those of `TcpStream::shutdown`.
    fn finish(&mut self) -> io::Result<()>;
}

/// A stack with UDP.
pub trait DatagramPeer {
    /// Its socket.
    type Socket: Datagrams;

    /// Binds a socket (port 0: any), and says to which address.
    ///
    /// # Errors
    /// Those of `UdpSocket::bind`.
    fn bind(&self, at: SocketAddr) -> io::Result<(Self::Socket, SocketAddr)>;
}

/// A UDP socket. Receiving gives up with `WouldBlock` or `TimedOut` after [`PATIENCE_MS`] without a
/// datagram.
pub trait Datagrams {
    /// Fixes the other side.
    ///
    /// # Errors
    /// Those of `UdpSocket::connect`.
    fn connect(&mut self, to: SocketAddr) -> io::Result<()>;

    /// Waits for one datagram from anybody.
    ///
    /// # Errors
    /// Those of `UdpSocket::recv_from`.
    fn receive_from(&mut self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)>;

    /// Sends one datagram to the connected side.
    ///
    /// # Errors
    /// Those of `UdpSocket::send`.
    fn send(&mut self, datagram: &[u8]) -> io::Result<usize>;

    /// Waits for one datagram from the connected side.
    ///
    /// # Errors
    /// Those of `UdpSocket::recv`.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Sends datagrams from the front of the batch, at least one; says how many.
    ///
    /// # Errors
    /// Those of `UdpSocket::send`, when not even one could be sent.
    fn send_batch(&mut self, batch: &Batch) -> io::Result<usize>;

    /// Waits for at least one datagram and takes those that are there, up to the batch's size; says
    /// how many.
    ///
    /// # Errors
    /// Those of `UdpSocket::recv`, when not even one came.
    fn receive_batch(&mut self, batch: &mut Batch) -> io::Result<usize>;
}

/// Milliseconds that a UDP socket waits for a datagram.
pub const PATIENCE_MS: u64 = 250;
