//! `known.toml`: what does not work, with its reason. It is held to be true in both directions.

use crate::mode::Mode;
use serde::Deserialize;
use std::path::Path;

/// The list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    #[serde(default)]
    known: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    program: String,
    check: String,
    mode: Mode,
    reason: String,
}

impl Known {
    /// Reads the list; a row that names nothing is an error.
    pub(crate) fn read(is_check: impl Fn(&str, &str) -> bool) -> Result<Self, String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("known.toml");
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let list: Known = toml::from_str(&text).map_err(|error| error.to_string())?;
        match list
            .known
            .iter()
            .find(|row| !is_check(&row.program, &row.check))
        {
            Some(row) => Err(format!("no check `{}` of `{}`", row.check, row.program)),
            None => Ok(list),
        }
    }

    /// Why this check does not work, if that is known.
    pub(crate) fn reason(&self, program: &str, check: &str, mode: Mode) -> Option<&str> {
        let fits = |row: &&Row| {
            row.program == program && row.mode == mode && (row.check == check || row.check == "*")
        };
        self.known.iter().find(fits).map(|row| row.reason.as_str())
    }
}
