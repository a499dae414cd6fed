//! Why a text is no model, in three lines.

use core::fmt;

/// What is wrong with a model's text, why, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// The word that cannot be used.
    pub what: String,
    /// The cause.
    pub why: String,
    /// What is likely to help.
    pub hint: &'static str,
}

impl ModelError {
    pub(crate) fn new(word: &str, why: impl Into<String>, hint: &'static str) -> Self {
        ModelError {
            what: format!("cannot use `{word}` in a model"),
            why: why.into(),
            hint,
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nwhy: {}\ntry: {}", self.what, self.why, self.hint)
    }
}

impl core::error::Error for ModelError {}
