//! Starting, pairing and stopping workers.
//!
//! * [`interrupt`] is Ctrl-C
//! * [`workers`]: one worker process: start, talk, stop
//! * [`namespaces`]: two network namespaces with a virtual Ethernet between them
//! * [`plan`]: what is compared with what
//! * [`pair`]: one run of one contender: two workers, one outcome
//! * [`compare`]: all runs, interleaved, within a time budget

pub mod compare;
pub mod interrupt;
pub mod namespaces;
pub mod pair;
pub mod plan;
pub mod workers;
