//! What `xtask/robustness.toml` claims is shown by tests that exist.
//!
//! The file lists bad input row by row. Each claim of a row names the tests in which it can fail; a
//! test that was renamed or taken out is noticed here, and so is a row that was left out.

use super::Finding;
use super::source::{Source, functions};
use crate::explain::Explained;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const FILE: &str = "xtask/robustness.toml";

/// How many rows each family has: without a gap, and no fewer than this.
const FAMILIES: [(&str, usize); 8] = [
    ("L", 6),
    ("I", 10),
    ("6.", 6),
    ("C", 7),
    ("T", 11),
    ("U", 4),
    ("faults", 0),
    ("attacks", 0),
];

/// What shows a claim.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Shown {
    /// By these tests.
    By(Vec<String>),
    /// By none, because there is nothing that it could be about.
    Not { because: String },
}

/// Row, claim, what shows it.
type Rows = BTreeMap<String, BTreeMap<String, Shown>>;

/// The list, as it was read.
pub(super) struct Evidence {
    rows: Rows,
    text: String,
}

impl Evidence {
    /// Reads the file.
    pub(super) fn load(root: &Path) -> Result<Self, Explained> {
        let failed =
            |why: String| Explained::new(format!("{FILE} cannot be used"), why, "mend the file");
        let read = std::fs::read_to_string(root.join(FILE));
        let text = read.map_err(|error| failed(error.to_string()))?;
        Self::parse(text).map_err(|error| failed(error.to_string()))
    }

    fn parse(text: String) -> Result<Self, toml::de::Error> {
        let rows = toml::from_str(&text)?;
        Ok(Evidence { rows, text })
    }

    fn line_of(&self, what: &str) -> usize {
        let found = self.text.lines().position(|line| line.contains(what));
        found.map_or(1, |at| at + 1)
    }
}

/// Rows without claims, claims without tests, tests that do not exist.
pub(super) fn check(files: &[Source], evidence: &Evidence) -> Vec<Finding> {
    let tests = tests(files);
    let mut findings = gaps(&evidence.rows);
    for (row, claims) in &evidence.rows {
        if claims.is_empty() {
            findings.push(finding(1, format!("row {row} claims nothing")));
        }
        for (claim, shown) in claims {
            let line = evidence.line_of(claim);
            let names = match shown {
                Shown::By(names) => names,
                Shown::Not { because } if !because.trim().is_empty() => continue,
                Shown::Not { .. } => {
                    findings.push(finding(line, format!("{row}: no reason: {claim}")));
                    continue;
                }
            };
            if names.is_empty() {
                findings.push(finding(line, format!("{row}: no test: {claim}")));
            }
            let unknown = names.iter().filter(|name| !tests.contains(name.as_str()));
            findings.extend(unknown.map(|name| {
                let line = evidence.line_of(&format!("\"{name}\""));
                finding(line, format!("{row}: there is no test `{name}`"))
            }));
        }
    }
    findings
}

/// Rows that the list should have and has not.
fn gaps(rows: &Rows) -> Vec<Finding> {
    let names = FAMILIES.iter().flat_map(|(family, count)| match count {
        0 => vec![(*family).to_owned()],
        _ => (1..=*count).map(|n| format!("{family}{n}")).collect(),
    });
    let missing = names.filter(|name| !rows.contains_key(name));
    missing
        .map(|name| finding(1, format!("row {name} is missing")))
        .collect()
}

fn finding(line: usize, message: String) -> Finding {
    Finding {
        path: FILE.to_owned(),
        line,
        rule: "evidence",
        message,
        remedy: "name tests in which the claim can fail; write them first".to_owned(),
    }
}

/// The names of all functions that are tests.
fn tests(files: &[Source]) -> BTreeSet<String> {
    let crates = files.iter().filter(|file| file.path.starts_with("crates/"));
    let all = crates.flat_map(functions);
    all.filter(|f| f.is_test).map(|f| f.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<Source> {
        let text = "#[test]\nfn l1_runts() {}\nfn l2_helper() {}\n\
                    mod tests {\n#[test]\nfn i9_teardrop() {}\n}\n";
        vec![Source::new("crates/x/src/y.rs", text.to_owned())]
    }

    #[test]
    fn only_tests_count() {
        let expected = ["i9_teardrop", "l1_runts"].map(str::to_owned);
        assert_eq!(tests(&files()), BTreeSet::from(expected));
    }

    #[test]
    fn claims_need_tests_or_a_reason() {
        let text = "[L1]\n\"short\" = [\"l1_runts\"]\n\"shorter\" = []\n\
                    [L2]\n\"long\" = [\"l2_helper\"]\n\
                    [U3]\n\"names\" = { because = \"no such thing\" }\n\
                    \"more\" = { because = \"\" }\n";
        let evidence = Evidence::parse(text.to_owned()).expect("a list");
        let found = check(&files(), &evidence);
        let said = |what: &str| found.iter().filter(|f| f.message.contains(what)).count();
        assert_eq!(said("no test: shorter"), 1);
        assert_eq!(said("there is no test `l2_helper`"), 1);
        assert_eq!(said("no reason: more"), 1);
        let rows: usize = FAMILIES.iter().map(|(_, count)| (*count).max(1)).sum();
        assert_eq!(said("is missing"), rows - 3);
        assert_eq!(found.len(), rows, "nothing else");
    }
}
