//! `gannet run`: unmodified programs over Gannet. What can be known beforehand is checked before
//! the program starts: the program itself, the settings, the link and the right to use it.
//!
//! | file | job |
//! |---|---|
//! | `command.rs` | the subcommand: options, the order of things, exit statuses |
//! | `find.rs` | the program in PATH, the interpreters of scripts |
//! | `elf.rs` | what an executable file says of itself |
//! | `check.rs` | whether a program can be carried, and why not |
//! | `static_program.rs` | whether a static program can be loaded, and by what |
//! | `library.rs` | where the library lies that carries it |
//! | `place.rs` | whether the link, its interface and the address will do |
//! | `plan.rs` | everything decided: what is started, and how |
//! | `launch.rs` | starts it, waits, hands signals on |
//! | `account.rs` | what `-v` says at the end: which sockets were carried |
//! | `ending.rs` | how it ends: exit statuses |

mod account;
mod check;
mod command;
mod elf;
mod ending;
mod find;
mod launch;
mod library;
mod place;
mod plan;
mod static_program;

pub(crate) use command::{Arguments, run};
pub(crate) use ending::OWN_FAILURE;
