//! What a call gave, and the one place where a call of the C library is made.

use crate::show::errno_name;
use std::fmt;
use std::io;

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ret {
    /// Its value, when that was not -1.
    Value(i64),
    /// -1 and this `errno`.
    Errno(i32),
}

impl Ret {
    /// From what the call returned; `errno` is read at once.
    pub(crate) fn of(value: i64) -> Self {
        if value == -1 {
            Self::Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
        } else {
            Self::Value(value)
        }
    }

    /// The value as a descriptor; -1 after a failure, which later calls answer with `EBADF`.
    pub(crate) fn fd(self) -> i32 {
        match self {
            Self::Value(value) => i32::try_from(value).unwrap_or(-1),
            Self::Errno(_) => -1,
        }
    }

    /// The value as a count of bytes or things; 0 after a failure.
    pub(crate) fn count(self) -> usize {
        match self {
            Self::Value(value) => usize::try_from(value).unwrap_or(0),
            Self::Errno(_) => 0,
        }
    }

    /// Whether the call failed with this `errno`.
    pub(crate) fn is_errno(self, errno: i32) -> bool {
        self == Self::Errno(errno)
    }

    /// For calls whose value is a new descriptor: its number says nothing, that there is one does.
    pub(crate) fn made(self) -> String {
        match self {
            Self::Value(_) => "fd".to_owned(),
            Self::Errno(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Ret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(out, "{value}"),
            Self::Errno(errno) => write!(out, "-1 {}", errno_name(*errno)),
        }
    }
}

/// One call of the C library.
macro_rules! call {
    ($name:ident ( $($argument:expr),* $(,)? )) => {{
        // SAFETY: arguments are numbers, null, pointers to values that live across the call with
        // lengths taken from those values, or `bad::NOWHERE`, which the kernel refuses.
        let value = unsafe { libc::$name($($argument),*) };
        $crate::sys::Ret::of(i64::try_from(value).unwrap_or(i64::MAX))
    }};
}
