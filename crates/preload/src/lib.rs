//! Carries the sockets of unmodified programs over Gannet: `LD_PRELOAD=libgannet_preload.so`, set
//! by `gannet run`.
//!
//! * `calls/`: the functions that take the C library's place
//! * `state.rs`: this process as part of a carried program; what is ours and what the kernel's
//! * `object.rs`: what a descriptor stands for
//! * `open.rs`, `bound.rs`, `listen.rs`: `bind`, `listen`, `connect`, `accept` at addresses of ours
//! * `disconnect.rs`: `connect` to nothing; `descriptors.rs`: `connect` where they have run out
//! * `transfer.rs`, `files.rs`: bytes; `wait.rs`, `lead.rs`: sleeping
//! * `exclusive.rs`: sleeping in `accept` beside other processes
//! * `place.rs`: arguments of calls, which may lead nowhere
//! * `epoll.rs`, `poll.rs`: readiness of ours beside the kernel's
//! * `control.rs`, `error_queue.rs`: control data of messages, completions of `MSG_ZEROCOPY`
//! * `passing.rs`: descriptors from other processes; `calls/process.rs`: fork and exec
//! * `options.rs`, `info.rs`: socket options, `TCP_INFO`; `wishes.rs`: which of them are the
//!   program's own; `fresh.rs`: sockets without any; `datagrams.rs`: UDP
//! * `border/`: system calls that are made without a name: the program's own, the C library's
//! * `loader/`: static programs, into which ld.so does not bring this library
//! * `interfaces.rs`: our addresses among those of interfaces; `netlink.rs`: where programs ask the
//!   kernel for them themselves
//! * `note.rs`: what became of sockets, for `gannet run -v`
//! * `real.rs`: the C library's own functions; `begin.rs`: what runs before `main`
//!
//! Nothing on a path that the program calls uses functions of the C library that this library
//! replaces: system calls are made directly.
#![allow(unsafe_code)]

/// Not the program's heap: a handler may have interrupted it inside.
#[global_allocator]
static HEAP: gannet_local::Heap = gannet_local::Heap::new();

mod address;
mod begin;
mod border;
mod bound;
mod by_number;
mod calls;
mod control;
mod datagrams;
mod disconnect;
mod epoll;
mod errno;
mod error_queue;
mod exclusive;
mod files;
mod fresh;
mod info;
mod interfaces;
mod lead;
mod listen;
mod loader;
mod netlink;
mod note;
mod object;
mod open;
mod options;
mod passing;
mod place;
mod poll;
mod real;
mod state;
mod transfer;
mod wait;
mod wishes;
