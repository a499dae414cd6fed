//! The quotes in the source: `//= address`, perhaps `//= type=test`, then `//# text` lines.

use crate::tidy::source::{Source, functions};

/// One quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Annotation {
    pub(super) path: String,
    /// Line of the address, from 1.
    pub(super) line: usize,
    /// None if the address is not that of an RFC.
    pub(super) rfc: Option<u32>,
    pub(super) section: String,
    /// Beside a test, by its type or because it stands in test code.
    pub(super) is_test: bool,
    /// The test that it stands at or in.
    pub(super) test: Option<String>,
    pub(super) quote: String,
}

/// Every quote of a Rust file of a crate.
pub(super) fn scan(file: &Source) -> Vec<Annotation> {
    let mut found: Vec<Annotation> = Vec::new();
    if !file.path.starts_with("crates/") || !file.path.ends_with(".rs") {
        return found;
    }
    let mut open = false;
    for (index, text) in file.text.lines().enumerate() {
        let text = text.trim();
        if let Some(note) = text.strip_prefix("//=").map(str::trim) {
            match (
                note.strip_prefix("type="),
                found.last_mut().filter(|_| open),
            ) {
                (Some(kind), Some(last)) => last.is_test |= kind.trim() == "test",
                _ => found.push(start(file, index + 1, note)),
            }
            open = true;
        } else if let (Some(words), true) = (text.strip_prefix("//#"), open) {
            if let Some(last) = found.last_mut() {
                last.quote.push_str(words);
                last.quote.push('\n');
            }
        } else {
            open = false;
        }
    }
    let functions = functions(file);
    for quote in found.iter_mut().filter(|quote| quote.is_test) {
        let within = functions.iter().filter(|f| f.lines.contains(&quote.line));
        let next = functions.iter().filter(|f| *f.lines.start() > quote.line);
        let innermost = within.max_by_key(|f| *f.lines.start());
        let at = innermost.or_else(|| next.min_by_key(|f| *f.lines.start()));
        quote.test = at.filter(|f| f.is_test).map(|f| f.name.clone());
    }
    found
}

fn start(file: &Source, line: usize, address: &str) -> Annotation {
    let (rfc, section) = parse_address(address);
    let (path, is_test) = (file.path.clone(), file.line_is_test(line));
    Annotation {
        path,
        line,
        rfc,
        section,
        is_test,
        test: None,
        quote: String::new(),
    }
}

/// RFC number and section of `https://www.rfc-editor.org/rfc/rfc9293#section-3.1`.
fn parse_address(address: &str) -> (Option<u32>, String) {
    let (page, place) = address.split_once('#').unwrap_or((address, ""));
    let name = page.rsplit('/').next().unwrap_or("");
    let name = name.trim_end_matches(".html").trim_end_matches(".txt");
    let number = name
        .strip_prefix("rfc")
        .and_then(|digits| digits.parse().ok());
    let section = place
        .trim_start_matches("section-")
        .trim_start_matches("appendix-");
    (number, section.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_an_address_and_lines() {
        let text = "\
fn f() {
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
    //# One
    //# two.
    g();
    //= https://www.rfc-editor.org/rfc/rfc768
    //= type=test
    //# Three.
    //= https://example.net/page
    //# Four.
}
//# stray
#[cfg(test)]
mod tests {
    //= https://www.rfc-editor.org/rfc/rfc1.txt#appendix-A.1
    //# Five.
}
";
        let found = scan(&Source::new("crates/x/src/y.rs", text.to_owned()));
        let seen: Vec<_> = found
            .iter()
            .map(|a| (a.line, a.rfc, a.section.as_str(), a.is_test, a.quote.trim()))
            .collect();
        let expected = [
            (2, Some(9293), "3.1", false, "One\n two."),
            (6, Some(768), "", true, "Three."),
            (9, None, "", false, "Four."),
            (15, Some(1), "A.1", true, "Five."),
        ];
        assert_eq!(seen, expected);
        assert_eq!(scan(&Source::new("xtask/src/y.rs", text.to_owned())), []);
    }

    #[test]
    fn a_quote_at_a_test_knows_its_name() {
        let text = "\
//= https://www.rfc-editor.org/rfc/rfc768
//= type=test
//# One.
#[test]
fn first() {
    //= https://www.rfc-editor.org/rfc/rfc768
    //= type=test
    //# Two.
}
//= https://www.rfc-editor.org/rfc/rfc768
//= type=test
//# Three.
fn helper() {}
";
        let found = scan(&Source::new("crates/x/src/y.rs", text.to_owned()));
        let names: Vec<_> = found.iter().map(|a| a.test.as_deref()).collect();
        assert_eq!(names, [Some("first"), Some("first"), None]);
    }
}
