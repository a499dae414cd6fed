//! Starting, pairing and stopping workers.
//!
//! * [`interrupt`] is Ctrl-C
//! * [`workers`]: one worker process: start, talk, stop
//! * [`namespaces`]: two network namespaces with a virtual Ethernet between them
//! * [`plan`]: what is compared with what
//! * [`pair`]: one run of one contender: two workers, one outcome
//! * [`impaired`]: two hosts with an impaired wire between them
//! * [`wire_marks`]: the marks over it
//! * [`compare`]: all runs, interleaved, within a time budget

pub mod compare;
pub mod impaired;
pub mod interrupt;
pub mod namespaces;
pub mod pair;
pub mod plan;
pub mod wire_marks;
pub mod workers;
