//! Results as the C library gives them.

use libc::c_int;
use rustix::io::Errno;

/// The outcome of a call: a value, or an errno.
pub(crate) type Outcome<T> = Result<T, c_int>;

/// This thread's errno.
pub(crate) fn get() -> c_int {
    // SAFETY: always a valid place.
    unsafe { *libc::__errno_location() }
}

/// Sets this thread's errno.
pub(crate) fn set(errno: c_int) {
    // SAFETY: always a valid place.
    unsafe { *libc::__errno_location() = errno }
}

/// `-1` and errno, or the value.
pub(crate) fn give<T: From<i8>>(outcome: Outcome<T>) -> T {
    outcome.unwrap_or_else(|errno| {
        set(errno);
        T::from(-1)
    })
}

/// `-1` and errno, or the number of bytes.
pub(crate) fn give_len(outcome: Outcome<usize>) -> libc::ssize_t {
    give(outcome.map(|n| n as libc::ssize_t))
}

/// What a call of the C library gave, as an outcome.
pub(crate) fn of(result: c_int) -> Outcome<c_int> {
    if result < 0 { Err(get()) } else { Ok(result) }
}

/// An errno of a system call.
pub(crate) fn raw(error: Errno) -> c_int {
    error.raw_os_error()
}
