//! The world: hosts, what lies between them, and the order of events. [`run()`] plays a scenario to
//! its end.
//!
//! * [`network`]: wires, switch, routers: where a frame goes.
//! * [`mod@run`]: the loop over events, mishaps, the end.
//! * [`outcome`]: [`Outcome`]: what is known afterwards.
//! * [`witness`]: [`Witness`]: who looks on.

pub mod network;
pub mod outcome;
pub mod run;
pub mod witness;

pub use outcome::Outcome;
pub use run::run;
pub use witness::{Silent, Witness};
