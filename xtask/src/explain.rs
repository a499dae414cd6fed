//! An error in three lines: what happened, why, and what to try.

use std::fmt;

/// What happened, why, and what to try.
#[derive(Debug)]
pub(crate) struct Explained {
    what: String,
    why: String,
    remedy: String,
}

impl Explained {
    /// An error from its three lines.
    pub(crate) fn new(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.what)?;
        writeln!(out, "  why: {}", self.why)?;
        write!(out, "  try: {}", self.remedy)
    }
}
