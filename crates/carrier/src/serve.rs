//! A carrier begins, and ends.

use crate::carrier::Carrier;
use crate::config::Config;
use crate::host;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fmt;
use std::io;

/// Why a carrier cannot begin, in three lines: what, why, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble(String);

impl Trouble {
    pub(crate) fn new(what: &str, why: impl fmt::Display, hint: &str) -> Trouble {
        Trouble(format!("{what}\nwhy: {why}\ntry: {hint}"))
    }

    /// What another process wrote.
    pub(crate) fn told(text: String) -> Trouble {
        Trouble(text)
    }

    /// An error that may say all three by itself.
    pub(crate) fn from_io(what: &str, error: &io::Error) -> Trouble {
        let text = error.to_string();
        match text.contains("\nwhy: ") && text.contains("\ntry: ") {
            true => Trouble(text),
            false => {
                let hint = "another network or a smaller stream.buffer, see `gannet config show`";
                Trouble::new(what, text, hint)
            }
        }
    }

    fn from_host(error: &io::Error) -> Trouble {
        let text = error.to_string();
        match text.contains("\nwhy: ") {
            true if text.contains("\ntry: ") => Trouble(text),
            true => Trouble(format!("{text}\ntry: another address, link or network")),
            false => Trouble::new("cannot begin the stack", text, "another link or address"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

/// Carries a program until none of its processes is left. `ready` is called once its processes can
/// attach.
///
/// # Errors
/// Whatever keeps it from beginning; then `ready` was not called.
pub fn serve(config: Config, ready: impl FnOnce()) -> Result<(), Trouble> {
    raise_limits();
    let stack = host::build(&config).map_err(|error| Trouble::from_host(&error))?;
    let carrier = Carrier::open(config, stack);
    let mut carrier =
        carrier.map_err(|error| Trouble::from_io("cannot carry a program", &error))?;
    ready();
    carrier.run();
    let network = carrier.network;
    // With its sockets open its names would not be free.
    drop(carrier);
    network.leave();
    Ok(())
}

/// A descriptor and a ring for each stream of the program's that goes through here.
fn raise_limits() {
    // As much as there is, then; address space for the memory of programs.
    for resource in [Resource::Nofile, Resource::As] {
        let mut limit = getrlimit(resource);
        limit.current = limit.maximum;
        let _ = setrlimit(resource, limit);
    }
}
