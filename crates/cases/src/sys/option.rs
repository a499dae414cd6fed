//! `getsockopt` and `setsockopt`.

use super::Ret;
use crate::far::{self, Ask};
use libc::c_void;
use std::fmt;

/// What `getsockopt` gave.
#[derive(Debug, Clone)]
pub(crate) struct OptionValue {
    pub(crate) ret: Ret,
    /// The length it said.
    pub(crate) len: u32,
    /// All bytes of the room that was given, cut to `len`.
    pub(crate) bytes: Vec<u8>,
}

impl OptionValue {
    /// The value as an `int`.
    pub(crate) fn int(&self) -> Option<i32> {
        let four = self.bytes.get(..4)?.try_into().ok()?;
        Some(i32::from_ne_bytes(four))
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ret, self.int()) {
            (Ret::Errno(_), _) => write!(out, "{}", self.ret),
            (_, Some(value)) if self.bytes.len() == 4 => write!(out, "{value}"),
            _ => write!(out, "len {} {:?}", self.len, self.bytes),
        }
    }
}

pub(crate) fn setsockopt(fd: i32, level: i32, name: i32, value: &[u8]) -> Ret {
    if let Some(answer) = far::one(fd, |fd| Ask::Setsockopt(fd, level, name, value.to_vec())) {
        return answer.ret();
    }
    let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let bytes = value.as_ptr().cast::<c_void>();
    call!(setsockopt(fd, level, name, bytes, len))
}

/// `setsockopt` of an `int`.
pub(crate) fn set_int(fd: i32, level: i32, name: i32, value: i32) -> Ret {
    setsockopt(fd, level, name, &value.to_ne_bytes())
}

/// `getsockopt` with room for `len` bytes.
pub(crate) fn getsockopt(fd: i32, level: i32, name: i32, len: usize) -> OptionValue {
    if let Some(answer) = far::one(fd, |fd| Ask::Getsockopt(fd, level, name, len)) {
        return OptionValue {
            ret: answer.ret(),
            len: answer.first(),
            bytes: answer.bytes,
        };
    }
    let mut bytes = vec![0_u8; len];
    let mut size = u32::try_from(len).unwrap_or(u32::MAX);
    let room = bytes.as_mut_ptr().cast::<c_void>();
    let ret = call!(getsockopt(fd, level, name, room, &mut size));
    bytes.truncate(size as usize);
    OptionValue {
        ret,
        len: size,
        bytes,
    }
}

/// `getsockopt` of an `int`.
pub(crate) fn get_int(fd: i32, level: i32, name: i32) -> OptionValue {
    getsockopt(fd, level, name, 4)
}

/// `SO_LINGER`.
pub(crate) fn set_linger(fd: i32, on: bool, seconds: i32) -> Ret {
    let value = [i32::from(on), seconds];
    let bytes: Vec<u8> = value.iter().flat_map(|part| part.to_ne_bytes()).collect();
    setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &bytes)
}

/// `SO_RCVTIMEO` or `SO_SNDTIMEO`, in milliseconds.
pub(crate) fn set_timeout(fd: i32, name: i32, ms: i64) -> Ret {
    let value = [ms.div_euclid(1000), ms.rem_euclid(1000) * 1000];
    let bytes: Vec<u8> = value.iter().flat_map(|part| part.to_ne_bytes()).collect();
    setsockopt(fd, libc::SOL_SOCKET, name, &bytes)
}
