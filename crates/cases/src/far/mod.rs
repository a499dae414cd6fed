//! The other end of a connection in another program.
//!
//! A helper (`gannet-cases peer`) makes socket calls for cases that run elsewhere; a descriptor of
//! its is a number from [`FIRST`] on here, and the functions of `sys/` that are given one ask the
//! helper. So the cases need not know that one of their two ends is in another program, which may
//! run under another `gannet run` of the same network.
//!
//! * `ask.rs`: which calls, as they travel
//! * `call.rs`: asking
//! * `serve.rs`: the helper

mod ask;
mod call;
mod serve;

pub(crate) use ask::{Answer, Ask};
pub(crate) use call::{FIRST, all, ask, here, is_far, number, one, pid, report_to, used};
pub(crate) use serve::serve;

/// What a case observes that is none of two programs.
pub(crate) const ONE_PROCESS: &str = "needs one process";

/// Which end of a case's connections is in the other program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// It listens and accepts.
    Accepts,
    /// It connects.
    Connects,
}

/// The other program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) side: Side,
    /// Its own IPv4 address.
    pub(crate) v4: std::net::Ipv4Addr,
}
