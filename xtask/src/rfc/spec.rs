//! Requirement sentences of an RFC, and where a quote stands among them.
//!
//! Texts are compared without blanks, line ends and requirement labels such as `(MUST-58)`, so that
//! a quote may be wrapped anywhere, also at a hyphen.

use crate::explain::Explained;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// How strong a sentence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Level {
    /// MUST, MUST NOT, SHALL, REQUIRED; in RFCs from before RFC 2119 also in small letters.
    Must,
    /// SHOULD, SHOULD NOT, RECOMMENDED.
    Should,
    /// MAY, OPTIONAL.
    May,
    /// A sentence of an algorithm, without one of these words.
    Text,
}

/// One sentence.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requirement {
    pub(super) section: String,
    pub(super) level: Level,
    /// The RFC's own labels, where it has them: MUST-1, SHLD-2, MAY-3, REC-1.
    #[serde(default)]
    pub(super) id: Vec<String>,
    pub(super) quote: String,
}

/// One file of `specs/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    pub(super) rfc: u32,
    pub(super) title: String,
    pub(super) url: String,
    #[serde(default)]
    pub(super) requirement: Vec<Requirement>,
}

/// Why a quote does not stand in a spec.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// It stands in this other section.
    Elsewhere(String),
    /// It stands nowhere; this sentence of the section starts alike.
    Nowhere(Option<String>),
}

impl Spec {
    /// Indices of the requirements that a quote covers, at least half of each.
    pub(super) fn find(&self, section: &str, quote: &str) -> Result<Vec<usize>, Mismatch> {
        if let Some(found) = self.find_in(section, quote) {
            return Ok(found);
        }
        let sections = self
            .requirement
            .iter()
            .map(|requirement| requirement.section.as_str());
        let elsewhere = sections.filter(|other| *other != section);
        for other in elsewhere.collect::<std::collections::BTreeSet<_>>() {
            if let Some(found) = self.find_in(other, quote) {
                // An RFC without numbers, or an address that names no section.
                if other.is_empty() || section.is_empty() {
                    return Ok(found);
                }
                return Err(Mismatch::Elsewhere(other.to_owned()));
            }
        }
        Err(Mismatch::Nowhere(self.alike(section, quote)))
    }

    /// Indices of the requirements of a section; `6.2*` also of those below it.
    pub(super) fn of_section(&self, name: &str) -> Vec<usize> {
        let is_meant = |section: &str| match name.strip_suffix('*') {
            Some(above) => section
                .strip_prefix(above)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.')),
            None => section == name,
        };
        self.indices(|requirement| is_meant(&requirement.section))
    }

    /// Indices of the requirements that begin so.
    pub(super) fn starting(&self, start: &str) -> Vec<usize> {
        let start = squeezed(start);
        self.indices(|requirement| {
            !start.is_empty() && squeezed(&requirement.quote).starts_with(&start)
        })
    }

    fn indices(&self, is_meant: impl Fn(&Requirement) -> bool) -> Vec<usize> {
        let all = self.requirement.iter().enumerate();
        all.filter(|(_, requirement)| is_meant(requirement))
            .map(|(index, _)| index)
            .collect()
    }

    /// The quote as a whole, or sentence by sentence when it leaves something out in between.
    fn find_in(&self, section: &str, quote: &str) -> Option<Vec<usize>> {
        let page = Page::of(self, section);
        if let Some(found) = page.find(quote) {
            return Some(found);
        }
        let parts: Option<Vec<Vec<usize>>> = sentences(quote)
            .iter()
            .map(|sentence| page.find(sentence))
            .collect();
        parts.map(|parts| parts.concat())
    }

    /// The sentence of a section that shares the longest start with a quote.
    fn alike(&self, section: &str, quote: &str) -> Option<String> {
        let quote = squeezed(quote);
        let shared = |requirement: &&Requirement| {
            let pairs = squeezed(&requirement.quote);
            pairs
                .bytes()
                .zip(quote.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let candidates = self
            .requirement
            .iter()
            .filter(|candidate| candidate.section == section);
        let best = candidates
            .max_by_key(shared)
            .filter(|best| shared(best) >= 10)?;
        Some(one_line(&best.quote))
    }
}

/// The squeezed sentences of one section, one after the other.
struct Page {
    text: String,
    /// Index of the requirement, and where its sentence is in `text`.
    places: Vec<(usize, Range<usize>)>,
}

impl Page {
    fn of(spec: &Spec, section: &str) -> Self {
        let mut page = Self {
            text: String::new(),
            places: Vec::new(),
        };
        for (index, requirement) in spec.requirement.iter().enumerate() {
            if requirement.section == section {
                let start = page.text.len();
                page.text.push_str(&squeezed(&requirement.quote));
                page.places.push((index, start..page.text.len()));
            }
        }
        page
    }

    /// Some sentences stand in a section several times: a quote means all of them.
    fn find(&self, quote: &str) -> Option<Vec<usize>> {
        let quote = squeezed(quote);
        if quote.is_empty() || !self.text.contains(&quote) {
            return None;
        }
        let mut found = Vec::new();
        for (start, _) in self.text.match_indices(&quote) {
            let end = start + quote.len();
            let covered = self.places.iter().filter(|(_, place)| {
                let shared = place.end.min(end).saturating_sub(place.start.max(start));
                shared * 2 >= place.len()
            });
            found.extend(covered.map(|(index, _)| *index));
        }
        Some(found)
    }
}

/// Every file of `specs/`, by RFC number.
pub(super) fn load_all(root: &Path) -> Result<BTreeMap<u32, Spec>, Explained> {
    let mut specs = BTreeMap::new();
    for (path, text) in toml_files(&root.join("specs"))? {
        let spec: Spec = toml::from_str(&text).map_err(|error| {
            Explained::new(
                format!("{path} is not a spec"),
                error.to_string(),
                "mend the file",
            )
        })?;
        specs.insert(spec.rfc, spec);
    }
    Ok(specs)
}

/// Names and texts of the TOML files directly in a folder, in order; none if it does not exist.
pub(super) fn toml_files(folder: &Path) -> Result<Vec<(String, String)>, Explained> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Ok((name, text)),
            Err(error) => {
                let what = format!("{name} cannot be read");
                Err(Explained::new(
                    what,
                    error.to_string(),
                    "mend its permissions",
                ))
            }
        }
    };
    paths.iter().map(read).collect()
}

/// A text without blanks and labels.
pub(super) fn squeezed(text: &str) -> String {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    // Where the RFC quotes another one, its labels stand in brackets of their own.
    without_labels(&dense).replace("[]", "")
}

/// A text with single blanks, as one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const LABELS: [&str; 4] = ["MUST-", "SHLD-", "MAY-", "REC-"];

/// Takes out bracketed labels, such as `(MUST-58)` and `(MUST-1,SHLD-2)`, from a dense text.
fn without_labels(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('(') {
        out.push_str(before);
        match after.split_once(')') {
            Some((inside, tail)) if is_labels(inside) => rest = tail,
            _ => {
                out.push('(');
                rest = after;
            }
        }
    }
    out + rest
}

fn is_labels(inside: &str) -> bool {
    inside.split([',', ';', '/']).all(|label| {
        let number = LABELS
            .iter()
            .find_map(|prefix| label.trim().strip_prefix(prefix));
        number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// The labels in a text, in order, also one with a remark: `(MUST-4 -- note ...)`.
pub(super) fn labels(text: &str) -> Vec<String> {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut found = Vec::new();
    for inside in dense
        .split('(')
        .skip(1)
        .filter_map(|part| part.split(')').next())
    {
        if is_labels(inside) {
            found.extend(inside.split([',', ';', '/']).map(str::to_owned));
        } else if let Some((label, _)) = inside.split_once("--").filter(|(l, _)| is_labels(l)) {
            found.push(label.to_owned());
        }
    }
    found
}

/// The sentences of a text. Two blanks or a line end after the dot end a sentence, as in RFCs; so
/// does one blank before a capital, unless the dot belongs to an abbreviation.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut found = Vec::new();
    let mut current: Vec<&str> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        current.push(word);
        let next = words.get(at + 1).copied().unwrap_or("");
        if ends_sentence(word) && starts_sentence(next) {
            found.push(current.join(" "));
            current.clear();
        }
    }
    if !current.is_empty() {
        found.push(current.join(" "));
    }
    found
}

fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches([')', '"', '\'', ']']);
    let abbreviation = [
        "e.g.", "i.e.", "etc.", "vs.", "cf.", "Sec.", "Fig.", "al.", "No.",
    ];
    bare.ends_with(['.', '!', '?'])
        && !abbreviation
            .iter()
            .any(|known| bare.trim_start_matches('(') == *known)
}

fn starts_sentence(word: &str) -> bool {
    let bare = word.trim_start_matches(['(', '"', '\'', '[', '<']);
    bare.chars()
        .next()
        .is_none_or(|c| c.is_uppercase() || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        let text = "rfc = 1\ntitle = 't'\nurl = 'u'\n\
            [[requirement]]\nsection = '3.1'\nlevel = 'MUST'\nid = ['MUST-1']\n\
            quote = 'A host MUST keep half-open connections (MUST-1).'\n\
            [[requirement]]\nsection = '3.1'\nlevel = 'SHOULD'\nquote = 'It SHOULD say so.'\n\
            [[requirement]]\nsection = '3.2'\nlevel = 'MAY'\nquote = 'It MAY rest.'\n";
        toml::from_str(text).expect("spec of the test")
    }

    #[test]
    fn a_quote_stands_in_its_section_word_for_word() {
        let rows = [
            (
                "3.1",
                "A host MUST keep half-open connections (MUST-1).",
                Ok(vec![0]),
            ),
            (
                "3.1",
                "A host MUST keep half-\nopen   connections.",
                Ok(vec![0]),
            ),
            ("3.1", "connections. It SHOULD say so.", Ok(vec![1])),
            (
                "3.1",
                "It SHOULD say so. A host MUST keep half-open connections.",
                Ok(vec![1, 0]),
            ),
            ("3.1", "say", Ok(vec![])),
            (
                "3.1",
                "It MAY rest.",
                Err(Mismatch::Elsewhere("3.2".to_owned())),
            ),
            ("3.1", "It MUST rest.", Err(Mismatch::Nowhere(None))),
        ];
        for (section, quote, expected) in rows {
            assert_eq!(spec().find(section, quote), expected, "{quote}");
        }
        let near = spec().find("3.1", "A host MUST keep all connections.");
        let hint = "A host MUST keep half-open connections (MUST-1).".to_owned();
        assert_eq!(near, Err(Mismatch::Nowhere(Some(hint))));
    }

    #[test]
    fn sections_and_beginnings_mean_several() {
        let spec = spec();
        assert_eq!(spec.of_section("3.1"), [0, 1]);
        assert_eq!(spec.of_section("3*"), [0, 1, 2]);
        assert_eq!(spec.of_section("3"), [0; 0]);
        assert_eq!(spec.starting("It"), [1, 2]);
        assert_eq!(spec.starting("A host  MUST"), [0]);
        assert_eq!(spec.starting(" "), [0; 0]);
    }

    #[test]
    fn labels_are_found_and_taken_out() {
        assert_eq!(
            labels("a (MUST-1), b (REC-\n1, MAY-2) (see 3)"),
            ["MUST-1", "REC-1", "MAY-2"]
        );
        assert_eq!(squeezed("a (MUST-1), (b) (MUST-x) c"), "a,(b)(MUST-x)c");
    }

    #[test]
    fn sentences_end_at_dots_but_not_at_abbreviations() {
        let text = "One, e.g. a DNS name (i.e. This one). Two has 3.5 parts. three? \"Four.\" Five";
        let expected = [
            "One, e.g. a DNS name (i.e. This one).",
            "Two has 3.5 parts. three?",
            "\"Four.\"",
            "Five",
        ];
        assert_eq!(sentences(text), expected);
    }
}
