//! Carries the sockets of unmodified programs over Gannet: `LD_PRELOAD=libgannet_preload.so`, set
//! by `gannet run`.
//!
//! * `calls/`: the functions that take the C library's place
//! * `state.rs`: this process as part of a carried program; what is ours and what the kernel's
//! * `object.rs`: what a descriptor stands for
//! * `open.rs`, `bound.rs`, `listen.rs`: `bind`, `listen`, `connect`, `accept` at addresses of ours
//! * `disconnect.rs`: `connect` to nothing
//! * `transfer.rs`, `files.rs`: bytes; `wait.rs`, `lead.rs`: sleeping
//! * `epoll.rs`, `poll.rs`: readiness of ours beside the kernel's
//! * `passing.rs`: descriptors from other processes; `calls/process.rs`: fork and exec
//! * `options.rs`, `info.rs`: socket options, `TCP_INFO`; `datagrams.rs`: UDP
//! * `golang.rs`: programs of Go, which make their system calls themselves
//! * `note.rs`: what became of sockets, for `gannet run -v`
//! * `real.rs`: the C library's own functions; `begin.rs`: what runs before `main`
//!
//! Nothing on a path that the program calls uses functions of the C library that this library
//! replaces: system calls are made directly.
#![allow(unsafe_code)]

mod address;
mod begin;
mod bound;
mod by_number;
mod calls;
mod datagrams;
mod disconnect;
mod epoll;
mod errno;
mod files;
#[cfg(target_arch = "x86_64")]
mod golang;
mod info;
mod lead;
mod listen;
mod note;
mod object;
mod open;
mod options;
mod passing;
mod poll;
mod real;
mod state;
mod transfer;
mod wait;
