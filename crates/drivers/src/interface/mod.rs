//! Network interfaces of the kernel, by the `SIOC*IF*` requests: no `ip` command, no netlink.
//!
//! * `control.rs`: [`Interface`]: MTU, address, state of one interface.
//! * `error.rs`: [`explain`]: an error in three lines: what, why, try.
//! * `sys.rs`: the requests.

mod control;
mod error;
pub(crate) mod sys;

pub use control::{Interface, Offload};
pub use error::explain;
