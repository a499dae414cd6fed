//! The functions that take the C library's place, by subject. Each asks whether the descriptor is
//! ours, which costs one load, and passes on what is not.

pub(crate) mod direct;
mod exec_list;
pub(crate) mod fds;
mod io;
mod multiplex;
mod options;
mod process;
mod socket;
mod stdio;

pub(crate) use process::{enter_child, prepare_forks, tell_carrier};
