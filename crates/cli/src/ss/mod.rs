//! `gannet ss`: the sockets of running programs, with the columns and filters of `ss`.
//!
//! | file | job |
//! |---|---|
//! | `command.rs` | the subcommand: options, the order of things |
//! | `find.rs` | which carriers run, and what they list |
//! | `gone.rs` | processes whose carrier has ended before them |
//! | `socket.rs` | one socket, as its carrier describes it |
//! | `filter.rs` | which sockets are shown |
//! | `print.rs` | as a table, or as JSON |

mod command;
mod filter;
mod find;
mod gone;
mod print;
mod socket;

pub(crate) use command::{Arguments, run};
