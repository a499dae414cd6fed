//! Instructions of this very program, counted by valgrind: the same number every time.

use std::process::Command;

use crate::error::Problem;

/// Instructions of `gannet bench` with these arguments.
///
/// # Errors
/// When valgrind is missing or cannot run this program.
pub(super) fn count(arguments: &[&str]) -> Result<u64, Problem> {
    let broken = |why: &dyn std::fmt::Display| {
        let hint = "install valgrind (Debian: apt install valgrind)";
        Problem::new("instructions cannot be counted", why, hint)
    };
    let own = std::env::current_exe().map_err(|e| broken(&e))?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .args(["--cachegrind-out-file=/dev/null", "--"])
        .arg(own)
        .arg("bench")
        .args(arguments)
        .output()
        .map_err(|e| broken(&format!("valgrind: {e}")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(broken(&text.lines().last().unwrap_or("valgrind failed")));
    }
    let line = text.lines().find(|l| l.contains(" refs:")).unwrap_or("");
    let count = line.rsplit(':').next().unwrap_or("");
    let digits: String = count.chars().filter(char::is_ascii_digit).collect();
    digits
        .parse()
        .map_err(|_| broken(&"valgrind printed no count"))
}
