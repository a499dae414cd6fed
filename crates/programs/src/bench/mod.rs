//! How fast unmodified programs are on Gannet, paired with the same programs on the kernel.
//!
//! * `subjects.rs`: what is measured, its mark, and how one run of it is done
//! * `pairs.rs`: runs in turns on the kernel and on Gannet, ratios of neighbours, their median
//! * `single.rs`: what is no pair of throughputs: a call that is not ours, idle connections
//! * `options.rs`: the subcommand

mod options;
mod pairs;
mod single;
mod subjects;

pub(crate) use options::{Options, run};
