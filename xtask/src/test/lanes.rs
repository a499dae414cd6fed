//! The second lane: steps that keep the processors busy and that no clock judges run beside the
//! others, in a process of its own with low priority.
//!
//! A process, not a thread: whatever its steps start inherits its priority, and its output, which
//! goes to a file, so that the two lanes' lines do not mix. Its standard input is a pipe that the
//! first lane holds: at the pipe's end, which comes with the first lane's end however that ended,
//! the second lane ends what it started.

use super::report::{Outcome, Row};
use super::{Wish, child, steps, target};
use crate::explain::Explained;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The option with which the first lane starts the second.
pub(super) const OPTION: &str = "--beside";

/// The second lane, seen from the first. It ends with this value.
pub(super) struct Beside {
    child: Child,
    folder: PathBuf,
}

impl Beside {
    /// Starts the second lane.
    pub(super) fn start(root: &Path, wish: &Wish) -> Result<Beside, Explained> {
        let folder = target(root).join("lanes");
        let child = spawn(&folder, wish).map_err(|error| {
            let hint = "cargo xtask test --step=NAME runs one step, in one lane";
            Explained::new("the second lane did not start", error.to_string(), hint)
        })?;
        let names: Vec<&str> = wish.beside().map(|step| step.name).collect();
        println!(
            "== beside the others: {}\n   until the end their output is in {}",
            names.join(" "),
            output(&folder).display()
        );
        Ok(Beside { child, folder })
    }

    /// Whether a step of it has failed so far.
    pub(super) fn has_failed(&self) -> bool {
        self.rows().iter().any(Row::is_failure)
    }

    /// Ends it where it is.
    pub(super) fn stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end and prints what it said; the rows of its steps. Those it did not come to
    /// have none.
    pub(super) fn finish(mut self) -> Vec<Row> {
        // Its standard input stays open: `Child::wait` would close it, and end the lane.
        let input = self.child.stdin.take();
        let status = self.child.wait();
        drop(input);
        let said = std::fs::read(output(&self.folder)).unwrap_or_default();
        println!("\n== beside the others, meanwhile:");
        print!("{}", String::from_utf8_lossy(&said));
        if let Ok(status) = status {
            println!("== beside the others: {status}");
        }
        self.rows()
    }

    fn rows(&self) -> Vec<Row> {
        let text = std::fs::read(rows(&self.folder)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop();
        drop(self.child.wait());
    }
}

fn output(folder: &Path) -> PathBuf {
    folder.join("beside.txt")
}

fn rows(folder: &Path) -> PathBuf {
    folder.join("beside.json")
}

fn spawn(folder: &Path, wish: &Wish) -> std::io::Result<Child> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(rows(folder), "[]")?;
    let output = File::create(output(folder))?;
    // `nice` becomes the program: the child is the lane itself. It has a tenth of the weight of the
    // others; with the least there is, it does not come on beside programs that are no part of it.
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(std::env::current_exe()?);
    command.args(["test", OPTION]);
    if wish.fail_fast {
        command.arg("--fail-fast");
    }
    command.stdin(Stdio::piped());
    command.stdout(output.try_clone()?).stderr(output);
    command.spawn()
}

/// Whether the second lane is being ended by the first.
static OVER: AtomicBool = AtomicBool::new(false);

/// What the second lane does: its steps, one after the other. True when none failed.
pub(super) fn serve(root: &Path, wish: &Wish) -> Result<bool, Explained> {
    std::thread::spawn(|| {
        // Nothing is ever written to it: what comes is its end.
        let _ = std::io::stdin().read(&mut [0]);
        eprintln!("!! ended with the first lane");
        OVER.store(true, Ordering::SeqCst);
        child::end_descendants(std::process::id());
        // Once more: a step may have been about to start something.
        child::end_descendants(std::process::id());
        std::process::exit(1);
    });
    let path = rows(&target(root).join("lanes"));
    let mut done: Vec<Row> = Vec::new();
    for step in wish.beside() {
        if wish.fail_fast && done.iter().any(Row::is_failure) {
            break;
        }
        let row = super::run_step(root, step)?.beside();
        if OVER.load(Ordering::SeqCst) {
            // It failed because it was ended. No other starts until the process is gone.
            std::thread::sleep(Duration::from_secs(60));
        }
        done.push(row);
        keep(&path, &done).map_err(|error| {
            let hint = "look for space on the disk";
            Explained::new("a result was not kept", error.to_string(), hint)
        })?;
    }
    Ok(!done.iter().any(Row::is_failure))
}

/// Writes the rows so that a reader finds all of them or those of before.
fn keep(path: &Path, done: &[Row]) -> std::io::Result<()> {
    let half = path.with_extension("half");
    std::fs::write(&half, serde_json::to_vec(done)?)?;
    std::fs::rename(half, path)
}

/// All rows in the order of the list of steps. Steps that the second lane did not come to were left
/// out by `--fail-fast` if there is a failure; else they have failed.
pub(super) fn merge(mut rows: Vec<Row>, beside: Vec<Row>, wish: &Wish) -> Vec<Row> {
    let failed = rows.iter().chain(&beside).any(Row::is_failure);
    let missing: Vec<Row> = wish
        .beside()
        .filter(|step| !beside.iter().any(|row| row.name == step.name))
        .map(|step| match wish.fail_fast && failed {
            true => Row::skipped(step.name, super::LEFT_OUT),
            false => Row::done(
                step.name,
                Outcome::failed("the second lane ended before it"),
                Duration::ZERO,
            ),
        })
        .collect();
    rows.extend(beside);
    rows.extend(missing);
    let place = |row: &Row| steps::ALL.iter().position(|step| step.name == row.name);
    rows.sort_by_key(place);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(fail_fast: bool) -> Wish<'static> {
        Wish {
            chosen: Vec::new(),
            quick: false,
            fail_fast,
            extent: super::super::Extent::Usual,
        }
    }

    fn done(name: &str) -> Row {
        Row::done(name, Outcome::passed(1), Duration::from_secs(1))
    }

    #[test]
    fn rows_of_both_lanes_stand_in_the_order_of_the_list() {
        let wish = wish(false);
        let (beside, first): (Vec<_>, Vec<_>) = steps::ALL
            .iter()
            .filter(|step| wish.left_out(step).is_none())
            .partition(|step| step.lane == steps::Lane::Beside);
        let of = |steps: &[&steps::Step]| steps.iter().map(|step| done(step.name)).collect();
        let rows = merge(of(&first), of(&beside), &wish);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let list: Vec<&str> = steps::ALL.iter().map(|step| step.name).collect();
        assert!(beside.len() > 1 && first.len() > 1);
        assert_eq!(names, list[..names.len()]);
        assert!(!rows.iter().any(Row::is_failure));
    }

    #[test]
    fn a_step_that_the_second_lane_did_not_come_to_has_failed() {
        let rows = merge(Vec::new(), vec![done("miri")], &wish(false));
        let failed = rows.iter().filter(|row| row.is_failure()).count();
        assert_eq!(
            (failed, rows.len()),
            (rows.len() - 1, wish(false).beside().count())
        );
        assert!(
            merge(Vec::new(), Vec::new(), &wish(true))
                .iter()
                .all(Row::is_failure)
        );
        let why = Row::done("workspace", Outcome::failed("see above"), Duration::ZERO);
        let rows = merge(vec![why], Vec::new(), &wish(true));
        assert_eq!(rows.iter().filter(|row| row.is_failure()).count(), 1);
    }

    #[test]
    fn rows_come_back_as_they_were_kept() {
        let folder = std::env::temp_dir().join(format!("gannet-lanes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut failed = Outcome::failed("see above");
        failed.findings.push("test four ... FAILED".to_owned());
        let all = [done("miri"), Row::done("loom", failed, Duration::ZERO)];
        keep(&rows(&folder), &all).expect("kept");
        let read = std::fs::read(rows(&folder)).expect("a file");
        std::fs::remove_dir_all(&folder).expect("removed");
        let read: Vec<Row> = serde_json::from_slice(&read).expect("rows");
        assert_eq!(format!("{read:?}"), format!("{all:?}"));
    }
}
