//! Every error that reaches an application: the kind that `std::net` gives in the same place, with
//! a message that names the address and the cause.

use gannet_stack::tcp::{ConnectError, ListenError, TcpError};
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// What an [`io::Error`] of this crate holds: what was tried, why it failed, and the number that
/// the kernel's sockets give for it (`errno.h`).
///
/// ```
/// let error = gannet::Host::builder().channel("doc", "10.0.0.0.1/24").build().unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
/// assert_eq!(gannet::os_code(&error), Some(22)); // EINVAL
/// ```
#[derive(Debug)]
pub struct Failure {
    code: i32,
    what: String,
    why: String,
}

impl Failure {
    /// The number that the kernel's sockets give in the same place.
    pub fn os_code(&self) -> i32 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}\nwhy: {}", self.what, self.why)
    }
}

impl std::error::Error for Failure {}

/// The number in `errno.h` that stands for `error`, whoever made it; `None` when it has none.
pub fn os_code(error: &io::Error) -> Option<i32> {
    let ours = error.get_ref().and_then(|e| e.downcast_ref::<Failure>());
    match ours {
        Some(failure) => Some(failure.code),
        None if error.kind() == io::ErrorKind::WouldBlock => Some(libc::EAGAIN),
        None => error.raw_os_error(),
    }
}

/// The error with std's kind for `code`: "cannot `what`", "why: `why`".
#[cold]
pub(crate) fn fail(code: i32, what: impl Into<String>, why: impl Into<String>) -> io::Error {
    // Some kinds (that of EMSGSIZE) have no public name; the number leads to all of them.
    let kind = io::Error::from_raw_os_error(code).kind();
    let (what, why) = (what.into(), why.into());
    io::Error::new(kind, Failure { code, what, why })
}

/// Not now. Made without an allocation: non-blocking programs meet it all the time.
#[inline]
pub(crate) fn would_block() -> io::Error {
    io::Error::from(io::ErrorKind::WouldBlock)
}

/// A time-out of 0 means nothing; std says so too.
pub(crate) fn zero_timeout() -> io::Error {
    let why = "a duration of zero; None waits for ever, set_nonblocking(true) does not wait";
    fail(libc::EINVAL, "set this time-out", why)
}

/// The number of hops as IP has it; the kernel refuses the same.
pub(crate) fn time_to_live(ttl: u32) -> io::Result<u8> {
    let hops = u8::try_from(ttl).ok().filter(|&hops| hops > 0);
    let what = || format!("set the time to live to {ttl}");
    hops.ok_or_else(|| fail(libc::EINVAL, what(), "it is a number from 1 to 255"))
}

pub(crate) fn connect_failed(to: SocketAddr, error: ConnectError) -> io::Error {
    let (code, why) = match error {
        ConnectError::NoRoute => (libc::ENETUNREACH, "no link or route leads there"),
        ConnectError::AddressNotAvailable => (
            libc::EADDRNOTAVAIL,
            "the local address is not one of this host's",
        ),
        ConnectError::AddressInUse => (
            libc::EADDRNOTAVAIL,
            "no free port is left for this destination",
        ),
        ConnectError::InvalidDestination => (
            libc::EINVAL,
            "no single host and port: unspecified, broadcast or multicast",
        ),
        ConnectError::TooManyConnections => (
            libc::ENOBUFS,
            "this host has as many connections as it may have",
        ),
    };
    fail(code, format!("connect to {to}"), why)
}

pub(crate) fn listen_failed(at: SocketAddr, error: ListenError) -> io::Error {
    let (code, why) = match error {
        ListenError::AddressInUse => (libc::EADDRINUSE, "another socket has this address"),
        ListenError::AddressNotAvailable => (
            libc::EADDRNOTAVAIL,
            "the address is not one of this host's links",
        ),
    };
    fail(code, format!("listen on {at}"), why)
}

/// The end of a connection, as its next call reports it.
pub(crate) fn connection_failed(what: &str, peer: SocketAddr, error: TcpError) -> io::Error {
    let (code, why) = tcp_reason(error);
    fail(code, format!("{what} {peer}"), why)
}

fn tcp_reason(error: TcpError) -> (i32, &'static str) {
    match error {
        TcpError::Refused => (libc::ECONNREFUSED, "the peer refused: nobody listens there"),
        TcpError::Reset => (libc::ECONNRESET, "the peer reset the connection"),
        TcpError::Aborted => (libc::ECONNABORTED, "this side aborted the connection"),
        TcpError::TimedOut => (libc::ETIMEDOUT, "the peer did not answer for too long"),
        TcpError::HostUnreachable => (libc::EHOSTUNREACH, "the host cannot be reached"),
        TcpError::NetworkUnreachable => (libc::ENETUNREACH, "the network cannot be reached"),
        TcpError::LinkGone => (
            libc::ECONNRESET,
            "peer gone: the process at the other end of the channel has ended, or the interface \
             was removed",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn kinds_follow_std() {
        for (code, kind) in [
            (libc::EADDRINUSE, ErrorKind::AddrInUse),
            (libc::ENETUNREACH, ErrorKind::NetworkUnreachable),
            (libc::ECONNRESET, ErrorKind::ConnectionReset),
            (libc::ETIMEDOUT, ErrorKind::TimedOut),
            (libc::EAGAIN, ErrorKind::WouldBlock),
        ] {
            let error = fail(code, "x", "y");
            assert_eq!((error.kind(), os_code(&error)), (kind, Some(code)));
        }
        let too_long = io::Error::from_raw_os_error(libc::EMSGSIZE);
        assert_eq!(fail(libc::EMSGSIZE, "x", "y").kind(), too_long.kind());
        assert_eq!(os_code(&would_block()), Some(libc::EAGAIN));
    }
}
