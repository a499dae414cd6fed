//! The one error of this crate: three lines that a person can act on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What went wrong, why, and what to try. Shown as three lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What could not be done, in the user's words.
    pub what: String,
    /// The cause.
    pub why: String,
    /// One thing that is likely to help.
    #[serde(rename = "try")]
    pub hint: String,
}

impl Problem {
    /// A problem from its three lines.
    pub fn new(what: impl Into<String>, why: impl fmt::Display, hint: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.to_string(),
            hint: hint.into(),
        }
    }

    /// The user asked to stop.
    pub fn interrupted() -> Self {
        Self::new(
            "stopped before the end",
            "interrupted",
            "run it again; nothing was left behind",
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\nwhy: {}\ntry: {}", self.what, self.why, self.hint)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_lines() {
        let text = Problem::new("cannot listen", "address in use", "another port").to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            ["cannot listen", "why: address in use", "try: another port"]
        );
    }
}
