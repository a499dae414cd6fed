//! The calls as a C program makes them: by glibc's symbols, so that whatever stands before glibc
//! is called. All `unsafe` of this crate is in this folder.
//!
//! * `ret.rs`: what a call gave: a number, or -1 and `errno`
//! * `address.rs`: socket addresses as bytes
//! * `socket.rs`: from `socket` to `shutdown`
//! * `transfer.rs`: `send`, `recv` and their families
//! * `message.rs`: `sendmsg`, `recvmsg`, control messages
//! * `file.rs`: what sockets share with files: `read`, `dup`, `fcntl`, `ioctl`, `splice`
//! * `stdio.rs`: `fdopen`, `dprintf`, `syscall`
//! * `wait.rs`: `poll`, `select`, `epoll`
//! * `option.rs`: `getsockopt`, `setsockopt`
//! * `process.rs`: `fork`, `exec`, signals, limits
//! * `handler.rs`: a signal handler that allocates
//! * `signal.rs`: handlers that do not return or make calls, cancelled threads
//! * `inline.rs`: system calls without the C library
//! * `bad.rs`: the same calls with addresses at which there is no memory

#[macro_use]
mod ret;

mod address;
mod bad;
mod file;
mod handler;
mod inline;
mod message;
mod option;
mod process;
mod signal;
mod socket;
mod stdio;
mod transfer;
mod wait;

pub(crate) use address::Addr;
pub(crate) use bad::*;
pub(crate) use file::*;
pub(crate) use handler::*;
pub(crate) use inline::*;
pub(crate) use message::*;
pub(crate) use option::*;
pub(crate) use process::*;
pub(crate) use ret::*;
pub(crate) use signal::*;
pub(crate) use socket::*;
pub(crate) use stdio::*;
pub(crate) use transfer::*;
pub(crate) use wait::*;
