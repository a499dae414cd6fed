//! How calls fail: -1 (or NULL), `errno`, and a message of three lines for people.
#![allow(unsafe_code)]

use libc::{EAFNOSUPPORT, EBADF, EINVAL, EMFILE, ENOENT, ENOPROTOOPT, EOPNOTSUPP};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a call was given that it cannot work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Number in errno.h.
    code: i32,
    what: &'static str,
    why: &'static str,
    remedy: &'static str,
}

impl Refusal {
    pub(crate) const NULL: Refusal = Refusal::new(
        EINVAL,
        "use a pointer",
        "it is NULL",
        "look at the call before",
    );
    pub(crate) const NO_HANDLE: Refusal = Refusal::new(
        EBADF,
        "use a handle",
        "it is none, or of another kind",
        "a handle that a gannet function returned",
    );
    pub(crate) const CLOSED: Refusal =
        Refusal::new(EBADF, "use a handle", "it was closed", "close last");
    pub(crate) const TOO_MANY_HANDLES: Refusal =
        Refusal::new(EMFILE, "make a handle", "there are 16,777,216", "close");
    pub(crate) const NOT_TEXT: Refusal =
        Refusal::new(EINVAL, "read a text", "it is not UTF-8", "ASCII");
    pub(crate) const NO_ADDRESS: Refusal = Refusal::new(
        EINVAL,
        "read an address",
        "it is no address with a port",
        "10.0.0.1:80 or [fd00::1]:80",
    );
    pub(crate) const SHORT_ADDRESS: Refusal = Refusal::new(
        EINVAL,
        "use an address",
        "its length is too small for its family",
        "sizeof(struct sockaddr_in) or sizeof(struct sockaddr_in6)",
    );
    pub(crate) const FAMILY: Refusal = Refusal::new(
        EAFNOSUPPORT,
        "use an address",
        "it is of another family",
        "AF_INET or AF_INET6",
    );
    pub(crate) const NEGATIVE: Refusal =
        Refusal::new(EINVAL, "use a number", "it is out of range", "gannet.h");
    pub(crate) const OPTION: Refusal = Refusal::new(
        ENOPROTOOPT,
        "use an option",
        "sockets of this kind do not have it",
        "the descriptions of options in gannet.h say who has them",
    );
    pub(crate) const FLAGS: Refusal = Refusal::new(
        EOPNOTSUPP,
        "use these flags",
        "unknown here",
        "MSG_PEEK or 0",
    );
    pub(crate) const DIRECTION: Refusal = Refusal::new(
        EINVAL,
        "shut down a connection",
        "no such direction",
        "SHUT_RD, SHUT_WR, SHUT_RDWR",
    );
    pub(crate) const NO_SOCKET: Refusal = Refusal::new(
        EBADF,
        "watch a socket",
        "it is none",
        "a gannet_tcp, gannet_listener or gannet_udp",
    );
    pub(crate) const CONGESTION: Refusal = Refusal::new(
        ENOENT,
        "set the congestion control",
        "none has that name",
        "cubic, newreno, bbr",
    );
    pub(crate) const SETTING: Refusal = Refusal::new(
        EINVAL,
        "read a setting",
        "it has no `=`",
        "tcp.congestion=bbr",
    );
    pub(crate) const GROUP: Refusal = Refusal::new(
        EINVAL,
        "read the address of a group or source",
        "it is none",
        "239.1.2.3 or ff02::1:3",
    );

    const fn new(
        code: i32,
        what: &'static str,
        why: &'static str,
        remedy: &'static str,
    ) -> Refusal {
        Refusal {
            code,
            what,
            why,
            remedy,
        }
    }
}

/// An error of this crate's own.
#[derive(Debug)]
struct Refused(Refusal);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal {
            what, why, remedy, ..
        } = self.0;
        write!(f, "cannot {what}\nwhy: {why}\ntry: {remedy}")
    }
}

impl std::error::Error for Refused {}

/// The error for something that no call is made with.
#[cold]
pub(crate) fn refuse(refusal: Refusal) -> io::Error {
    let kind = io::Error::from_raw_os_error(refusal.code).kind();
    io::Error::new(kind, Refused(refusal))
}

/// The number in errno.h that stands for `error`.
pub(crate) fn code_of(error: &io::Error) -> i32 {
    let ours = error.get_ref().and_then(|e| e.downcast_ref::<Refused>());
    match ours {
        Some(refused) => refused.0.code,
        None => gannet::os_code(error).unwrap_or_else(|| code_of_kind(error.kind())),
    }
}

/// Of errors that say no more than their kind.
fn code_of_kind(kind: io::ErrorKind) -> i32 {
    match kind {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => libc::EINVAL,
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::AddrInUse => libc::EADDRINUSE,
        io::ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        io::ErrorKind::Unsupported => libc::EOPNOTSUPP,
        _ => libc::EIO,
    }
}

thread_local! {
    /// What [`gannet_last_error`] returns.
    static LAST: RefCell<Last> = const { RefCell::new(Last::None) };
}

enum Last {
    None,
    Fixed(&'static CStr),
    Made(CString),
}

const NOT_NOW: &CStr = c"cannot do it now\nwhy: the call would have to wait, and must not, or \
    waited too long\ntry: wait with gannet_poller_wait";
const PANICKED: &CStr = c"cannot finish the call\nwhy: a mistake in Gannet; what it printed says \
    more\ntry: report it";

/// Runs `call`; an error, or a panic, becomes `failed`, `errno` and a message.
pub(crate) fn guarded<T>(failed: T, call: impl FnOnce() -> io::Result<T>) -> T {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(done)) => return done,
        Ok(Err(error)) => error,
        Err(cause) => {
            // What was panicked with may panic when it is dropped.
            std::mem::forget(cause);
            keep(Last::Fixed(PANICKED));
            set_errno(libc::EIO);
            return failed;
        }
    };
    tell(&error);
    failed
}

/// Makes `error` the last one of this thread.
pub(crate) fn tell(error: &io::Error) -> i32 {
    let code = code_of(error);
    match error.kind() {
        // Met all the time by programs that do not wait: no allocation.
        io::ErrorKind::WouldBlock => keep(Last::Fixed(NOT_NOW)),
        _ => keep(Last::Made(message(error, code))),
    }
    set_errno(code);
    code
}

/// Three lines, whatever the error has.
fn message(error: &io::Error, code: i32) -> CString {
    let mut text = error.to_string();
    if !text.contains("\nwhy: ") {
        text = format!("cannot finish the call\nwhy: {text}");
    }
    if !text.contains("\ntry: ") {
        text.push_str("\ntry: ");
        text.push_str(remedy(code));
    }
    text.retain(|c| c != '\0');
    CString::new(text).unwrap_or_default()
}

fn remedy(code: i32) -> &'static str {
    match code {
        libc::ECONNREFUSED => "look whether the other program listens, and at which port",
        libc::EADDRINUSE => "another port, or 0 for any free one",
        libc::EADDRNOTAVAIL => "an address that the host was given",
        libc::ENETUNREACH | libc::EHOSTUNREACH => "look at the addresses and routes of the host",
        libc::ETIMEDOUT => "look whether the other program runs",
        libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN => "connect again",
        libc::EPERM | libc::EACCES => "run it with the rights that the link needs",
        _ => "see gannet.h at the function's name",
    }
}

fn keep(last: Last) {
    // Fails only while the thread ends, when nobody asks any more.
    let _ = LAST.try_with(|place| place.replace(last));
}

fn set_errno(code: i32) {
    // SAFETY: glibc and musl give the address of this thread's errno, good for its whole life.
    unsafe { *libc::__errno_location() = code };
}

/// Why the last call that failed in this thread did so: three lines, "cannot ...", "why: ..." and
/// "try: ...", without a newline at the end. The empty text when none has. The text stays until
/// another call fails in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_last_error() -> *const c_char {
    let text = LAST.try_with(|last| match &*last.borrow() {
        Last::None => c"".as_ptr(),
        Last::Fixed(text) => text.as_ptr(),
        Last::Made(text) => text.as_ptr(),
    });
    text.unwrap_or(c"".as_ptr())
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn gannet_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: the text of this thread, which is not replaced meanwhile.
        let text = unsafe { CStr::from_ptr(gannet_last_error()) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn three_lines_and_a_number() {
        assert_eq!(last(), "");
        let all = [Refusal::NULL, Refusal::FAMILY, Refusal::GROUP];
        let made = all.map(refuse);
        let foreign = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        for error in made.iter().chain([&foreign]) {
            tell(error);
            let text = last();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 3, "{text}");
            assert!(lines[0].starts_with("cannot "), "{text}");
            assert!(
                lines[1].starts_with("why: ") && lines[2].starts_with("try: "),
                "{text}"
            );
            let errno = io::Error::last_os_error().raw_os_error();
            assert_eq!(errno, Some(code_of(error)));
        }
        tell(&io::ErrorKind::WouldBlock.into());
        assert_eq!(
            io::Error::last_os_error().raw_os_error(),
            Some(libc::EAGAIN)
        );
        assert_eq!(last().lines().count(), 3);
    }

    #[test]
    fn a_panic_stops_here() {
        let outcome = guarded(-1, || -> io::Result<i32> { panic!("on purpose") });
        assert_eq!(outcome, -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
        assert!(last().contains("mistake"));
        assert_eq!(guarded(-1, || Ok(5)), 5);
    }
}
