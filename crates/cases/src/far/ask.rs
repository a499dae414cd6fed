//! The calls that are made in another program: as lines of JSON, one each way.

use crate::sys::Ret;
use serde::{Deserialize, Serialize};

/// A call. Descriptors are the helper's numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// The helper's process.
    Pid,
    /// A child that keeps every descriptor and sleeps; its process.
    Fork,
    /// The process becomes the program anew in a role; there is no answer.
    Become(String, i32),
    /// The process exits; there is no answer.
    Exit,
    /// A child gets the descriptor by `SCM_RIGHTS`, after which it is closed here, and echoes.
    HandOver(i32),
    Socket(i32, i32, i32),
    Bind(i32, Vec<u8>),
    Listen(i32, i32),
    Accept(i32, u32),
    Accept4(i32, i32),
    Connect(i32, Vec<u8>),
    Getsockname(i32, u32),
    Getpeername(i32, u32),
    Shutdown(i32, i32),
    Send(i32, Vec<u8>, i32),
    Recv(i32, usize, i32),
    Sendmsg(i32, Vec<Vec<u8>>, i32),
    Read(i32, usize),
    Write(i32, Vec<u8>),
    Readv(i32, Vec<usize>),
    Writev(i32, Vec<Vec<u8>>),
    Close(i32),
    Dup(i32),
    Fcntl(i32, i32, i32),
    Ioctl(i32, u64, i32),
    Setsockopt(i32, i32, i32, Vec<u8>),
    Getsockopt(i32, i32, i32, usize),
    Poll(Vec<(i32, i16)>, i32),
}

/// What it gave.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The result; -1 with an errno.
    value: i64,
    errno: i32,
    /// Bytes that came with it: data, an address, an option's value.
    pub(crate) bytes: Vec<u8>,
    /// Numbers that came with it: a length, `revents`.
    pub(crate) numbers: Vec<i64>,
}

impl Answer {
    pub(crate) fn new(ret: Ret) -> Answer {
        let (value, errno) = match ret {
            Ret::Value(value) => (value, 0),
            Ret::Errno(errno) => (-1, errno),
        };
        Answer {
            value,
            errno,
            ..Answer::default()
        }
    }

    pub(crate) fn with(mut self, bytes: Vec<u8>) -> Answer {
        self.bytes = bytes;
        self
    }

    pub(crate) fn number(mut self, number: impl Into<i64>) -> Answer {
        self.numbers.push(number.into());
        self
    }

    pub(crate) fn ret(&self) -> Ret {
        match self.value {
            -1 => Ret::Errno(self.errno),
            value => Ret::Value(value),
        }
    }

    /// The result of a call that makes a descriptor, as a number of this side.
    pub(crate) fn made(&self) -> Ret {
        match self.ret() {
            Ret::Value(value) => Ret::Value(value + i64::from(super::FIRST)),
            errno => errno,
        }
    }

    /// The first number that came with it.
    pub(crate) fn first<T: TryFrom<i64> + Default>(&self) -> T {
        let first = self.numbers.first().copied().unwrap_or(0);
        T::try_from(first).unwrap_or_default()
    }
}
