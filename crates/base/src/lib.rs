//! What every part of Gannet shares and nothing more: points in time, seeded randomness, counters,
//! what waiting has taught.
//!
//! Not here: a clock (time is always an argument), the operating system, packet formats.
//!
//! * [`instant`]: [`Instant`], nanoseconds since an epoch the caller chose.
//! * [`rng`]: [`Rng`], a small seeded generator for everything that need not be secret.
//! * [`counter`]: [`Counters`], counts indexed by an enum of reasons.
//! * [`crowd`]: [`Crowd`], whether looking before sleeping is worth nothing, since others want the
//!   cores.

#![no_std]
#![forbid(unsafe_code)]

pub mod counter;
pub mod crowd;
pub mod instant;
pub mod rng;

pub use counter::{Counters, Reason};
pub use crowd::Crowd;
pub use instant::Instant;
pub use rng::Rng;
