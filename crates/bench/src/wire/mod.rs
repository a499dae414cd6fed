//! An impaired wire in real time: two interfaces joined by the paths of [`gannet_sim::path`].
//!
//! What comes in at one interface is cut into packets, travels its path, and leaves by the other
//! interface when its time has come. One thread; how late frames were is measured and reported.
//! Why one may trust it, and how far: `docs/decisions/sim-wire.md`.
//!
//! * [`end`]: one interface: a packet socket or a TAP device, in any network namespace
//! * [`joint`]: both ends and both paths: the loop
//! * [`trace`]: what passed, as a file
//! * [`report`]: what happened, for people and for programs

pub mod end;
pub mod joint;
pub mod report;
pub mod trace;

pub use end::{End, Place};
pub use joint::{Joint, Models};
pub use report::WireReport;
pub use trace::Trace;
