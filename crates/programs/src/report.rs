//! What came out: lines while it runs, a table at the end, JSON, and the matrix of the docs.

use crate::case::Fault;
use crate::mode::Mode;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// What became of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "remark")]
pub(crate) enum Verdict {
    /// It holds.
    Ok(String),
    /// It does not hold.
    Failed(String),
    /// It does not hold, which is known, for this reason.
    Known(String),
    /// It could not run, for this reason.
    LeftOut(String),
}

impl Verdict {
    /// What came out, beside what is known.
    pub(crate) fn new(outcome: Result<String, Fault>, known: Option<&str>) -> Self {
        match (outcome, known) {
            (Err(Fault::LeftOut(why)), _) => Verdict::LeftOut(why),
            (Ok(remark), None) => Verdict::Ok(remark),
            (Err(Fault::Failed(why)), None) => Verdict::Failed(why),
            (Err(Fault::Failed(_)), Some(reason)) => Verdict::Known(reason.to_owned()),
            (Ok(_), Some(_)) => {
                Verdict::Failed("passes, but stands in known.toml; take it out there".to_owned())
            }
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Verdict::Ok(_) => "ok",
            Verdict::Failed(_) => "FAILED",
            Verdict::Known(_) => "no",
            Verdict::LeftOut(_) => "left out",
        }
    }

    fn remark(&self) -> &str {
        match self {
            Verdict::Ok(text)
            | Verdict::Failed(text)
            | Verdict::Known(text)
            | Verdict::LeftOut(text) => text,
        }
    }
}

/// One check in one mode.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) program: &'static str,
    pub(crate) version: String,
    pub(crate) check: &'static str,
    pub(crate) mode: Mode,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
    pub(crate) seconds: f64,
}

impl Row {
    /// Whether it makes the run fail.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        let line = format!(
            "{:<8} {:<10} {:<24} {:<8} {:>5.1} s  {}",
            self.mode,
            self.program,
            self.check,
            self.verdict.word(),
            self.seconds,
            self.verdict.remark()
        );
        line.trim_end().to_owned()
    }
}

/// The table at the end: how many of each kind for a program in a mode, then what failed.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\n{:<8} {:<10} {:<12} {:>4} {:>7} {:>5} {:>9} {:>8}\n",
        "mode", "program", "version", "ok", "failed", "known", "left out", "seconds"
    );
    let same = |a: &Row, b: &Row| a.mode == b.mode && a.program == b.program;
    for rows in rows.chunk_by(same) {
        let Some(first) = rows.first() else { continue };
        let count = |word: &str| rows.iter().filter(|row| row.verdict.word() == word).count();
        let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
        let _ = writeln!(
            text,
            "{:<8} {:<10} {:<12} {:>4} {:>7} {:>5} {:>9} {seconds:>8.1}",
            first.mode,
            first.program,
            first.version,
            count("ok"),
            count("FAILED"),
            count("no"),
            count("left out"),
        );
    }
    for row in rows.iter().filter(|row| row.is_failure()) {
        let _ = writeln!(text, "{}", row.line());
    }
    text + &summary(rows)
}

/// The last line, in the form of cargo's tests, so that whoever adds those up can add this.
fn summary(rows: &[Row]) -> String {
    let count = |of: fn(&Verdict) -> bool| rows.iter().filter(|row| of(&row.verdict)).count();
    let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    let result = if failed == 0 { "ok" } else { "FAILED" };
    let passed = count(|verdict| matches!(verdict, Verdict::Ok(_)));
    let known = count(|verdict| matches!(verdict, Verdict::Known(_)));
    let left = count(|verdict| matches!(verdict, Verdict::LeftOut(_)));
    format!(
        "test result: {result}. {passed} passed; {failed} failed; {known} known; {left} left out\n"
    )
}

/// Everything as JSON.
pub(crate) fn json(rows: &[Row]) -> String {
    let value = serde_json::json!({ "schema": "gannet-programs/1", "checks": rows });
    format!("{value:#}")
}

/// The matrix as a page: one line per check, a column per mode.
pub(crate) fn matrix(rows: &[Row]) -> String {
    let mut text = String::from(
        "# Compatibility\n\n\
         Written by `cargo xtask programs --write-matrix`; changes by hand are lost.\n\n\
         Unmodified programs of Debian 12, checked in three ways: on the *kernel*'s loopback\n\
         (which proves the check), with server and client on *gannet*, and with the server on\n\
         Gannet and the client on the kernel at the other end of a *veth* pair. `no` has a\n\
         reason, `-` means that the check is none there. What each check does stands in\n\
         `crates/programs/src/programs/`, what is known not to work in\n\
         `crates/programs/known.toml`.\n\n\
         | program | version | check | kernel | gannet | veth | remark |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut checks: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        if !checks.contains(&(row.program, row.check)) {
            checks.push((row.program, row.check));
        }
    }
    for (program, check) in checks {
        let of = |mode: Mode| {
            let is_it = |row: &&Row| (row.program, row.check, row.mode) == (program, check, mode);
            rows.iter().find(is_it)
        };
        let found = Mode::ALL.map(of);
        let version = found
            .iter()
            .flatten()
            .next()
            .map_or("", |row| row.version.as_str());
        let [kernel, gannet, veth] = found.map(|row| row.map_or("-", |row| row.verdict.word()));
        let remark = remark(&found);
        let _ = writeln!(
            text,
            "| {program} | {version} | {check} | {kernel} | {gannet} | {veth} | {remark} |"
        );
    }
    text
}

/// Reasons, which always stand in the matrix; remarks with figures would change with every run.
fn remark(found: &[Option<&Row>; 3]) -> String {
    let mut reasons: Vec<&str> = found
        .iter()
        .flatten()
        .filter(|row| !matches!(row.verdict, Verdict::Ok(_)))
        .map(|row| row.verdict.remark())
        .collect();
    reasons.dedup();
    reasons.join("; ").replace('|', "/").replace('\n', " ")
}

/// Writes the matrix.
pub(crate) fn write_matrix(rows: &[Row]) -> std::io::Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = home.join("../../docs/compatibility.md");
    std::fs::write(path, matrix(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(check: &'static str, mode: Mode, verdict: Verdict) -> Row {
        Row {
            program: "p",
            version: "1.0".to_owned(),
            check,
            mode,
            verdict,
            seconds: 0.5,
        }
    }

    #[test]
    fn what_is_known_must_fail() {
        let failed = || Err(Fault::Failed("x".to_owned()));
        let known = |reason: &str| Verdict::Known(reason.to_owned());
        assert_eq!(Verdict::new(failed(), Some("why")), known("why"));
        assert_eq!(Verdict::new(failed(), None).word(), "FAILED");
        assert_eq!(Verdict::new(Ok(String::new()), None).word(), "ok");
        assert_eq!(
            Verdict::new(Ok(String::new()), Some("why")).word(),
            "FAILED"
        );
    }

    #[test]
    fn the_matrix_has_a_line_per_check() {
        let rows = [
            row("a", Mode::Kernel, Verdict::Ok("7 ms".to_owned())),
            row("a", Mode::Gannet, Verdict::Known("one|two".to_owned())),
            row("b", Mode::Veth, Verdict::Ok(String::new())),
        ];
        let text = matrix(&rows);
        assert!(
            text.contains("| p | 1.0 | a | ok | no | - | one/two |\n"),
            "{text}"
        );
        assert!(text.contains("| p | 1.0 | b | - | - | ok |  |\n"), "{text}");
        let table = table(&rows);
        let last = "test result: ok. 2 passed; 0 failed; 1 known; 0 left out";
        assert_eq!(table.lines().last(), Some(last));
    }
}
