//! One direction of a link: a queue, a rate, a distance, and what goes wrong. All from one seed.
//!
//! ```text
//! push -> too big? -> queue (bound, marks) -> the line: len / rate -> lost? spoiled? twice?
//!      -> delay + jitter (in order, but for the frames chosen to be late) -> pop
//! ```
//!
//! What is lost has used the line: loss happens behind the bottleneck, as on a radio link.
//! Not here: routing, addresses, clocks. Super-segments are cut ([`segment::cut`]) before they
//! are pushed: a line carries packets.
//!
//! * [`model`]: [`Model`], [`Faults`]: what a path is like; figures and units.
//! * [`text`]: a model as text, `rate=100mbit,delay=25ms,queue=bdp,loss=1%`, and back.
//! * [`error`]: why a text is no model.
//! * [`mod@line`]: [`Path`]: the queue and the line.
//! * [`flying`]: frames behind the line, until they arrive.
//! * [`dice`]: which frame is struck by which fault.
//! * [`spoil`]: flipped bits, with and without a wrong checksum; congestion marks.
//! * [`codel`]: active queue management (RFC 8289).
//! * [`place`]: where the headers of a frame lie.
//! * [`segment`]: super-segments into packets, checksums completed.
//! * [`counters`]: what happened, by reason.

pub mod codel;
pub mod counters;
pub mod dice;
pub mod error;
pub mod flying;
pub mod line;
pub mod model;
pub mod place;
pub mod segment;
pub mod spoil;
pub mod text;

pub use counters::{Event, PathCounters};
pub use error::ModelError;
pub use line::Path;
pub use model::{Burst, Change, Codel, Faults, Flap, Model, Step};
