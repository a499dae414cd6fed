//! Looking on: traces and captures see what hosts send and get, and change nothing.

use gannet_base::Instant;
use gannet_link::Medium;

/// Which way a frame goes at a host's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Sent by the host.
    Out,
    /// Delivered to the host.
    In,
    /// Arrived at an interface whose ring was full, or whose host was off.
    Missed,
}

/// Somebody who looks on.
pub trait Witness {
    /// A frame passes the interface of `host`.
    fn frame(&mut self, now: Instant, host: usize, way: Way, medium: Medium, frame: &[u8]);
    /// Something else happens.
    fn note(&mut self, now: Instant, text: &str);
}

/// Nobody looks on.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Witness for Silent {
    fn frame(&mut self, _: Instant, _: usize, _: Way, _: Medium, _: &[u8]) {}

    fn note(&mut self, _: Instant, _: &str) {}
}
