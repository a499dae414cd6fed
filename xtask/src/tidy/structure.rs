//! The data of the rules, read from `xtask/structure.toml` and `xtask/budgets.toml`.

use crate::explain::Explained;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;

/// Everything in `xtask/structure.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Structure {
    pub(super) names: Names,
    pub(super) unsafe_code: UnsafeCode,
    pub(super) sans_io: SansIo,
    pub(super) modules: Modules,
}

/// File names that say nothing about the job of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Names {
    pub(super) banned: Vec<String>,
}

/// Where `unsafe` may be written. A `*` stands for any number of characters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnsafeCode {
    pub(super) allowed: Vec<String>,
}

/// Crates without a clock and without an operating system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SansIo {
    pub(super) crates: Vec<String>,
    pub(super) forbidden: Vec<String>,
}

/// Which module below `root` may name which other one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Modules {
    pub(super) root: String,
    /// Modules that put the others together, with the reason: nobody else may name them.
    pub(super) top: BTreeMap<String, String>,
    pub(super) edges: BTreeMap<String, Vec<String>>,
}

/// Everything in `xtask/budgets.toml`: the exceptions from the size limits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budgets {
    #[serde(default)]
    pub(super) exception: Vec<Exception>,
}

/// One thing that is larger than the limit today. Its number may only go down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    pub(super) rule: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) item: String,
    pub(super) value: usize,
    pub(super) reason: String,
}

impl Structure {
    /// Reads the file.
    pub(super) fn load(root: &Path) -> Result<Self, Explained> {
        load(&root.join("xtask/structure.toml"))
    }
}

impl Budgets {
    /// Reads the file.
    pub(super) fn load(root: &Path) -> Result<Self, Explained> {
        load(&root.join("xtask/budgets.toml"))
    }
}

fn load<T: DeserializeOwned>(path: &Path) -> Result<T, Explained> {
    let failed = |why: String| {
        Explained::new(
            format!("{} cannot be used", path.display()),
            why,
            "mend the file",
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    toml::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// Whether `path` fits `pattern`, in which `*` stands for any number of characters.
pub(super) fn fits(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((start, rest)) => path.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len())
                .filter_map(|at| tail.get(at..))
                .any(|tail| fits(rest, tail))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_any_number_of_characters() {
        let rows = [
            ("crates/a.rs", "crates/a.rs", true),
            ("crates/a.rs", "crates/ab.rs", false),
            ("crates/*/sys.rs", "crates/tap/sys.rs", true),
            ("crates/*/sys.rs", "crates/tap/rx/sys.rs", true),
            ("crates/*/sys.rs", "crates/sys.rs", false),
            ("crates/capi/*", "crates/capi/src/lib.rs", true),
        ];
        for (pattern, path, expected) in rows {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        }
    }
}
