//! Everything decided before the program starts.

use std::ffi::OsString;
use std::path::PathBuf;

use gannet::settings::{HANDOVER, Settings};

use super::check::Verdict;
use super::library::preload_with;
use super::static_program::VARIABLE;

/// Says in the environment of the programs that `-v` was given.
const VERBOSE: &str = "GANNET_RUN_VERBOSE";

/// What is started, and how.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The file that is executed.
    pub(crate) program: PathBuf,
    /// What is executed in its place: the loader, where the program is static.
    pub(crate) loader: Option<PathBuf>,
    /// The words of the command, its name first, as they were written.
    pub(crate) words: Vec<OsString>,
    /// The settings of the host.
    pub(crate) settings: Settings,
    /// The library that is loaded into the program and what it starts; `None`: it would do harm,
    /// and nothing is carried.
    pub(crate) library: Option<PathBuf>,
    /// Why the program itself stays with the kernel, if it does.
    pub(crate) verdict: Option<Verdict>,
    /// Say at the end which sockets were carried.
    pub(crate) verbose: bool,
}

impl Plan {
    /// The variables that the program gets beyond those of this process.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Some(library) = &self.library else {
            return Vec::new();
        };
        let preload = preload_with(library, std::env::var_os("LD_PRELOAD"));
        let mut all = vec![
            ("LD_PRELOAD", preload),
            (HANDOVER, self.settings.handover().into()),
        ];
        if self.loader.is_some() {
            all.push((VARIABLE, self.program.clone().into_os_string()));
        }
        if self.verbose {
            all.push((VERBOSE, "1".into()));
        }
        all
    }
}
