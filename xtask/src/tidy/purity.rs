//! The sans-IO crates take time and packets as arguments: they have no clock and no system to ask.

use super::Finding;
use super::layout::has_word;
use super::source::Source;
use super::structure::Structure;

/// `no_std` at the root, and none of the forbidden names anywhere outside tests.
pub(super) fn check(file: &Source, structure: &Structure) -> Vec<Finding> {
    let Some((home, rest)) = file.crate_and_rest() else {
        return Vec::new();
    };
    let pure = structure.sans_io.crates.iter().any(|name| name == home);
    if !pure || !rest.starts_with("src/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if rest == "src/lib.rs" && !has_word(&file.code, "no_std") {
        let message = format!("{home} promises to work without an operating system");
        findings.push(finding(file, 1, message, "add #![no_std]"));
    }
    for (line, text) in file
        .code_with_lines()
        .filter(|(line, _)| !file.line_is_test(*line))
    {
        for name in structure
            .sans_io
            .forbidden
            .iter()
            .filter(|name| has_word(text, name))
        {
            let message = format!("`{name}` in {home}, which has no clock and no system");
            findings.push(finding(file, line, message, "take it as an argument"));
        }
    }
    findings
}

fn finding(file: &Source, line: usize, message: String, remedy: &str) -> Finding {
    let (path, remedy) = (file.path.clone(), remedy.to_owned());
    Finding {
        path,
        line,
        rule: "sans-io",
        message,
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_found_in_code_but_not_in_tests_and_comments() {
        let structure: Structure = toml::from_str(
            "names.banned = []\nunsafe_code.allowed = []\n\
             sans_io = { crates = ['crates/x'], forbidden = ['std', 'Instant::now'] }\n\
             modules = { root = 'none', top = {}, edges = {} }\n",
        )
        .expect("structure of the test");
        let rows = [
            ("crates/x/src/lib.rs", "#![cfg_attr(not(test), no_std)]", 0),
            ("crates/x/src/lib.rs", "mod a;", 1),
            ("crates/x/src/a.rs", "use core::fmt;", 0),
            ("crates/x/src/a.rs", "use std::fmt;", 1),
            ("crates/x/src/a.rs", "fn f() { Instant::now(); }", 1),
            (
                "crates/x/src/a.rs",
                "// std\n#[cfg(test)]\nmod t { use std::fmt; }",
                0,
            ),
            ("crates/x/tests/a.rs", "use std::fmt;", 0),
            ("crates/y/src/a.rs", "use std::fmt;", 0),
        ];
        for (path, text, expected) in rows {
            let file = Source::new(path, text.to_owned());
            assert_eq!(check(&file, &structure).len(), expected, "{path}: {text}");
        }
    }
}
