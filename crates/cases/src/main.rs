//! The socket calls of the Linux manual pages, one observation each.
//!
//! A program like any other: it calls glibc and knows nothing of Gannet. Run plainly it says what
//! the kernel does; run under `gannet run` it says what Gannet does; `tests/differential.rs` puts
//! the two side by side.
//!
//! * `arguments.rs`: the command line
//! * `table/`: the cases, a file for each group of manual pages
//! * `faults/`: two processes, and something bad that happens to one of them
//! * `far/`: one end of a connection in another program
//! * `stage.rs`: what the program does when a case has executed it anew
//! * `runner.rs`: one case in a process of its own, with a limit on its time
//! * `talk.rs`: what a case has at hand
//! * `show.rs`: observations as text
//! * `sys/`: the calls

#![deny(unsafe_code)]

mod arguments;
mod far;
mod faults;
mod runner;
mod show;
mod stage;
#[expect(unsafe_code, reason = "the calls of the C library")]
mod sys;
mod table;
mod talk;

use std::process::ExitCode;

fn main() -> ExitCode {
    match arguments::parse(std::env::args().skip(1).collect()) {
        Ok(arguments::Wish::Stage(words)) => stage::play(&words),
        Ok(arguments::Wish::Peer(name)) => far::serve(&name),
        Ok(arguments::Wish::Run(request)) => request.serve(),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
