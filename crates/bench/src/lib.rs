//! Scenarios that put Gannet beside the kernel and other stacks, and the limits of the machine
//! beside both.
//!
//! Every figure comes from real processes: the command starts its own binary again as *workers*,
//! tells each its [`role`] over a pipe, starts both sides together and reads one report from each.
//! Workloads are written once, against the traits in [`peer`]; every stack runs the same loops with
//! the same buffer sizes.
//!
//! What this crate does not do: draw progress or parse a command line (that is the `gannet`
//! command), or judge one run by another that was not interleaved with it.
//!
//! * [`error`]: what, why, try
//! * [`statistics`]: medians and paired ratios
//! * [`pattern`]: the bytes of a transfer, computed from their position
//! * [`role`]: what a worker is told and what it answers
//! * [`peer`]: the traits a stack implements, and the kernel
//! * [`workload`]: the four loops
//! * [`limits`]: cache-line round trip and raw ring over shared memory (the only `unsafe`)
//! * [`in_process`]: stacks as a library, both ends on one core
//! * [`worker`]: the process that plays one role
//! * [`run`]: starting, pairing and stopping workers; what is run and in which order
//! * [`environment`]: what the figures depend on
//! * [`report`]: JSON, table and marks
//! * [`wire`]: an impaired wire between two interfaces, in real time

#![deny(unsafe_code)]

pub mod environment;
pub mod error;
pub mod in_process;
pub mod limits;
pub mod pattern;
pub mod peer;
pub mod report;
pub mod role;
pub mod run;
pub mod statistics;
pub mod wire;
pub mod worker;
pub mod workload;

pub use error::Problem;
