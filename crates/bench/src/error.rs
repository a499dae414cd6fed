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
    /// A problem from its three lines. A cause that has three lines itself becomes one, and what
    /// it says to try is better than `hint`.
    pub fn new(what: impl Into<String>, why: impl fmt::Display, hint: impl Into<String>) -> Self {
        let (mut causes, mut hint) = (Vec::new(), hint.into());
        for line in why.to_string().lines() {
            match (line.strip_prefix("try: "), line.strip_prefix("why: ")) {
                (Some(better), _) => hint = better.to_owned(),
                (None, cause) => causes.push(cause.unwrap_or(line).to_owned()),
            }
        }
        Self {
            what: what.into(),
            why: causes.join(": "),
            hint,
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
    fn a_cause_of_three_lines_stays_three_lines() {
        let inner = Problem::new("cannot open eth9", "there is none", "ip link");
        let outer = Problem::new("cannot start a host", inner, "less");
        assert_eq!(
            outer.to_string(),
            "cannot start a host\nwhy: cannot open eth9: there is none\ntry: ip link"
        );
    }

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
