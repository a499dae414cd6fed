//! The functions that take the C library's place, by subject. Each asks whether the descriptor is
//! ours, which costs one load, and passes on what is not.

mod checked;
mod copying;
pub(crate) mod direct;
mod exec_list;
mod fast_open;
pub(crate) mod fds;
mod interfaces;
mod io;
mod multiplex;
mod options;
mod process;
mod socket;
mod stdio;

pub(crate) use process::{
    after_fork_in_child, after_fork_in_parent, before_fork, enter_child, execveat,
    is_fork_prepared, prepare_forks, tell_carrier,
};
