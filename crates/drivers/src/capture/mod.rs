//! Watching a link: any driver can be wrapped, and what passes both ways is written to a pcapng
//! file that the usual tools open, or printed a line per frame.
//!
//! * `watch.rs`: [`Watched`]: a driver that shows a [`Sink`] every frame.
//! * `file.rs`: [`Capture`]: the sink is a pcapng file.
//! * `trace.rs`: [`Trace`]: the sink prints.

mod file;
mod trace;
mod watch;

pub use file::{Capture, FileSink};
pub use trace::{Trace, TraceSink};
pub use watch::{Direction, Seen, Sink, Watched};
