//! The table at the end of a run.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a step went.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) passed: u64,
    /// Failed tests; at least one if the step itself failed.
    pub(super) failed: u64,
    pub(super) note: String,
    /// The lines that named what failed, repeated below the table: the rest of a long output may
    /// be cut away by whoever keeps it.
    pub(super) findings: Vec<String>,
}

impl Outcome {
    pub(super) fn passed(passed: u64) -> Self {
        Self {
            passed,
            failed: 0,
            note: String::new(),
            findings: Vec::new(),
        }
    }

    pub(super) fn failed(note: &str) -> Self {
        Self {
            passed: 0,
            failed: 1,
            note: note.to_owned(),
            findings: Vec::new(),
        }
    }
}

/// One row of the table.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    /// The step.
    pub(super) name: String,
    /// None for a step that did not run.
    outcome: Option<Outcome>,
    note: String,
    took: Duration,
}

impl Row {
    /// A step that ran.
    pub(super) fn done(name: &str, outcome: Outcome, took: Duration) -> Self {
        Self {
            name: name.to_owned(),
            note: outcome.note.clone(),
            outcome: Some(outcome),
            took,
        }
    }

    /// A step that did not run, and why.
    pub(super) fn skipped(name: &str, why: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            outcome: None,
            note: why.into(),
            took: Duration::ZERO,
        }
    }

    /// Says that this step ran in the second lane: its seconds are not part of the sum.
    pub(super) fn beside(mut self) -> Self {
        let rest = match self.note.is_empty() {
            true => String::new(),
            false => format!(": {}", self.note),
        };
        self.note = format!("beside the others{rest}");
        self
    }

    /// Whether this step makes the whole run fail.
    pub(super) fn is_failure(&self) -> bool {
        self.outcome
            .as_ref()
            .is_some_and(|outcome| outcome.failed > 0)
    }
}

/// Prints the table, and alone on the last line what passed and failed.
pub(super) fn print(rows: &[Row], total: Duration) {
    print!("\n{}", table(rows, total));
}

fn table(rows: &[Row], total: Duration) -> String {
    let mut text = format!(
        "{:<14} {:<8} {:>7} {:>7} {:>8}  note\n",
        "step", "result", "passed", "failed", "seconds"
    );
    for row in rows {
        let (result, passed, failed) = match &row.outcome {
            None => ("not run", 0, 0),
            Some(outcome) if outcome.failed > 0 => ("FAILED", outcome.passed, outcome.failed),
            Some(outcome) => ("ok", outcome.passed, 0),
        };
        let seconds = row.took.as_secs_f64();
        let line = format!(
            "{:<14} {result:<8} {passed:>7} {failed:>7} {seconds:>8.1}  {}",
            row.name, row.note
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let sum = |of: fn(&Outcome) -> u64| -> u64 {
        rows.iter()
            .filter_map(|row| row.outcome.as_ref())
            .map(of)
            .sum()
    };
    text.push_str(&format!("{:<14} {:>34.1}\n", "all", total.as_secs_f64()));
    for row in rows {
        for finding in row.outcome.iter().flat_map(|outcome| &outcome.findings) {
            text.push_str(&format!("{}: {finding}\n", row.name));
        }
    }
    text.push_str(&format!(
        "{} passed, {} failed\n",
        sum(|outcome| outcome.passed),
        sum(|outcome| outcome.failed)
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_sum() {
        let mut failed = Outcome::failed("see above");
        failed.findings.push("test four ... FAILED".to_owned());
        let rows = [
            Row::done("a", Outcome::passed(3), Duration::from_secs(2)),
            Row::done("b", failed, Duration::from_secs(1)).beside(),
            Row::skipped("c", "there is no c"),
        ];
        let text = table(&rows, Duration::from_secs(2));
        assert_eq!(text.lines().last(), Some("3 passed, 1 failed"));
        assert!(text.contains("not run"), "{text}");
        assert!(text.contains("1.0  beside the others: see above"), "{text}");
        assert!(text.contains("\nb: test four ... FAILED\n"), "{text}");
        let failures: Vec<bool> = rows.iter().map(Row::is_failure).collect();
        assert_eq!(failures, [false, true, false]);
    }
}
