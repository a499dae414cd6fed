//! `gannet explain`: what a code means here, its usual causes, and what to try.
//!
//! | file | job |
//! |---|---|
//! | `command.rs` | the subcommand: looks codes up, prints |
//! | `entry.rs` | what is known of one code; the catalogue; looking up |
//! | `errno.rs` | numbers that calls give |
//! | `program.rs` | why a program stays with the kernel; exit statuses of `gannet run` |
//! | `socket.rs` | why a socket stays with the kernel |
//! | `counter.rs` | what the stack counts: reasons of drops |

mod command;
mod counter;
mod entry;
mod errno;
mod program;
mod socket;

pub(crate) use command::{Arguments, run};
#[cfg(test)]
pub(crate) use entry::is_known;
#[cfg(test)]
pub(crate) use socket::codes;
pub(crate) use socket::meaning;
