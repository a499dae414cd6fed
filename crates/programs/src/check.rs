//! Runs the chosen checks of the chosen programs, mode after mode.

use crate::case::{Case, Checked, Fault, Program};
use crate::family;
use crate::install;
use crate::interrupt;
use crate::known::Known;
use crate::mode::Mode;
use crate::place::Place;
use crate::report::{Row, Verdict};
use crate::stage::Stage;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long what a check started may take to go by itself.
const TO_GO: Duration = Duration::from_secs(4);

/// What is to run.
pub(crate) struct Plan {
    pub(crate) modes: Vec<Mode>,
    pub(crate) programs: Vec<&'static Program>,
    /// Only checks whose name holds this.
    pub(crate) check: Option<String>,
    pub(crate) quick: bool,
    pub(crate) gannet: PathBuf,
    /// Folder of this run.
    pub(crate) directory: PathBuf,
}

impl Plan {
    /// Runs everything; `see` sees each row as it comes.
    pub(crate) fn run(&self, known: &Known, mut see: impl FnMut(&Row)) -> Vec<Row> {
        let versions: Vec<String> = self
            .programs
            .iter()
            .map(|it| install::version(it))
            .collect();
        let mut rows = Vec::new();
        for &mode in &self.modes {
            let place = Place::new(mode, self.gannet.clone());
            for (program, version) in self.programs.iter().zip(&versions) {
                for case in program.cases {
                    if !self.includes(case, mode) || interrupt::came() {
                        continue;
                    }
                    let started = Instant::now();
                    let outcome = match (&place, install::missing(program)) {
                        (_, Some(why)) => Err(Fault::LeftOut(why)),
                        (Err(fault), None) => Err(fault.clone()),
                        (Ok(place), None) => self.check(place, program, case),
                    };
                    let reason = known.reason(program.name, case.name, mode);
                    let row = Row {
                        program: program.name,
                        version: version.clone(),
                        check: case.name,
                        mode,
                        verdict: Verdict::new(outcome, reason),
                        seconds: started.elapsed().as_secs_f64(),
                    };
                    see(&row);
                    rows.push(row);
                }
            }
        }
        rows
    }

    fn includes(&self, case: &Case, mode: Mode) -> bool {
        let named = self
            .check
            .as_ref()
            .is_none_or(|part| case.name.contains(part.as_str()));
        named && case.modes.contains(&mode.stands_for())
    }

    /// One check. Its folder stays if it fails, until the run ends.
    fn check(&self, place: &Place, program: &Program, case: &Case) -> Checked {
        let name = format!("{}-{}-{}", place.wrapping.mode, program.name, case.name);
        let directory = self.directory.join(name.replace([' ', '/'], "-"));
        let before = place.traffic();
        let outcome = {
            let deadline = Instant::now() + Duration::from_secs(case.limit);
            let shared = self.directory.join("shared");
            let stage = Stage::new(place, directory.clone(), &shared, deadline, self.quick)?;
            (case.run)(&stage)
        };
        let left = family::end_all(TO_GO);
        let after = place.traffic();
        let remark = outcome?;
        remove(&directory);
        if !left.is_empty() {
            return Err(format!("left behind: {}", left.join(" ")).into());
        }
        if let (Mode::Gannet, Some(before), Some(after)) = (place.wrapping.mode, before, after) {
            after.nothing_since(before)?;
        }
        Ok(remark)
    }
}

/// Removes a folder and all in it.
pub(crate) fn remove(directory: &Path) {
    if let Err(error) = std::fs::remove_dir_all(directory) {
        eprintln!("{} stays: {error}", directory.display());
    }
}
