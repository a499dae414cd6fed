//! The programs that are checked, one file each; shared between them: `peers.rs`, which calls the
//! echo and HTTP programs of our own.

mod busybox;
mod daemons;
mod go;
mod iperf3;
mod java;
mod memcached;
pub(crate) mod nginx;
mod node;
mod openssh;
mod peers;
mod postgresql;
mod python;
pub(crate) mod redis;
mod unnamed;

mod list;
pub(crate) use list::{ALL, is_check};
