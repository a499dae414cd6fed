//! The sink that prints a line per frame.

use super::watch::{Direction, Seen, Sink, Watched};
use gannet_link::{Driver, Endpoint, Medium};
use gannet_wire::pretty;
use std::io::Write;

/// A driver that prints what passes. `W` takes the lines, `C` tells the time in nanoseconds since
/// whenever the reader likes.
pub type Trace<D, W, C> = Watched<D, TraceSink<W, C>>;

/// Prints frames: time in seconds, direction, and what tcpdump would say.
pub struct TraceSink<W: Write, C> {
    output: W,
    clock: C,
}

impl<W: Write, C: FnMut() -> u64> TraceSink<W, C> {
    /// Lines for `output`.
    pub fn new(output: W, clock: C) -> Self {
        TraceSink { output, clock }
    }
}

impl<D: Driver, W: Write, C: FnMut() -> u64> Trace<D, W, C> {
    /// Prints what passes `endpoint`.
    pub fn start(endpoint: Endpoint<D>, output: W, clock: C) -> Endpoint<Self> {
        Watched::endpoint(endpoint, TraceSink::new(output, clock))
    }
}

impl<W: Write, C: FnMut() -> u64> Sink for TraceSink<W, C> {
    fn frame(&mut self, seen: &Seen<'_>) {
        let now = (self.clock)();
        let (seconds, nanoseconds) = (now / 1_000_000_000, now % 1_000_000_000);
        let direction = match seen.direction {
            Direction::In => "in ",
            Direction::Out => "out",
        };
        let out = &mut self.output;
        // A trace that cannot be written must not disturb what is traced.
        let _ = write!(out, "{seconds}.{nanoseconds:09} {direction} ");
        let _ = match seen.medium {
            Medium::Ethernet => write!(out, "{}", pretty::ethernet(seen.bytes)),
            Medium::Ip => write!(out, "{}", pretty::ipv4(seen.bytes)),
        };
        let _ = match seen.gso_size {
            0 => writeln!(out),
            size => writeln!(out, " (in segments of {size})"),
        };
    }
}

impl<W: Write, C> Drop for TraceSink<W, C> {
    fn drop(&mut self) {
        let _ = self.output.flush();
    }
}
