//! What can go wrong with a call, one small enum per kind of call. Nothing here holds text: whoever
//! faces people adds the address and the cause.

/// Why a listener could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Another listener has this address and port.
    AddressInUse,
    /// The address is not one of ours.
    AddressNotAvailable,
}

/// Why a connection could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// No link leads to the destination.
    NoRoute,
    /// The local address is not one of ours.
    AddressNotAvailable,
    /// This pair of addresses and ports is in use, or no ephemeral port is left.
    AddressInUse,
    /// The destination is no host: unspecified, broadcast, multicast, or port 0.
    InvalidDestination,
    /// As many connections as the configuration allows exist already.
    TooManyConnections,
}

/// Why a connection ended otherwise than by both sides closing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpError {
    /// The peer refused: a reset in answer to our SYN.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// This side aborted it.
    Aborted,
    /// The peer did not acknowledge for too long.
    TimedOut,
    /// An ICMP error or a failed neighbour: the host cannot be reached.
    HostUnreachable,
    /// An ICMP error: the network cannot be reached.
    NetworkUnreachable,
    /// The link is gone: the process at its other end died, or the interface was removed.
    LinkGone,
}

/// Why nothing could be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The send buffer is full, or no block is free: wait until the socket is writable.
    WouldBlock,
    /// The connection is still being opened.
    NotConnected,
    /// This side has shut down sending.
    ShutDown,
    /// The connection failed, or the id names none.
    Failed(TcpError),
    /// The block belongs to another link, or its length is 0 or more than a block.
    BadBlock,
}

/// Why nothing could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// Nothing has arrived: wait until the socket is readable.
    WouldBlock,
    /// The connection is still being opened.
    NotConnected,
    /// The connection failed, or the id names none.
    Failed(TcpError),
}
