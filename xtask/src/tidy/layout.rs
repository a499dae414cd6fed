//! Where things live: file names, tables of contents without logic, `unsafe` in few files.

use super::Finding;
use super::source::{Source, names_test};
use super::structure::{Structure, fits};
use syn::spanned::Spanned;

/// Names, tables of contents, `unsafe` and leftovers of one file.
pub(super) fn check(file: &Source, structure: &Structure) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(parses(file));
    findings.extend(name(file, &structure.names.banned));
    findings.extend(contents(file));
    findings.extend(unsafe_words(file, &structure.unsafe_code.allowed));
    findings.extend(unsafe_attribute(file, &structure.unsafe_code.allowed));
    findings.extend(leftovers(file));
    findings
}

/// What can only be said of the tree as a whole.
pub(super) fn check_whole(files: &[Source]) -> Vec<Finding> {
    if files.iter().any(|file| file.path == "Cargo.lock") {
        return Vec::new();
    }
    vec![Finding {
        path: "Cargo.lock".to_owned(),
        line: 1,
        rule: "lock",
        message: "the lock file is not tracked".to_owned(),
        remedy: "git add Cargo.lock".to_owned(),
    }]
}

fn finding(file: &Source, line: usize, rule: &'static str, what: String, remedy: &str) -> Finding {
    Finding {
        path: file.path.clone(),
        line,
        rule,
        message: what,
        remedy: remedy.to_owned(),
    }
}

fn parses(file: &Source) -> Option<Finding> {
    let error = file.parse_error.as_ref()?;
    Some(finding(file, 1, "parse", error.clone(), "cargo check"))
}

fn name(file: &Source, banned: &[String]) -> Option<Finding> {
    let name = file.path.rsplit('/').next()?;
    banned.iter().any(|bad| bad == name).then(|| {
        let message = format!("`{name}` does not say what the file does");
        finding(file, 1, "file-name", message, "name the file after its job")
    })
}

/// `mod.rs` and `lib.rs` list what is there; the code is in files with a name.
fn contents(file: &Source) -> Vec<Finding> {
    let name = file.path.rsplit('/').next().unwrap_or("");
    let (Some(tree), "mod.rs" | "lib.rs", false) = (&file.tree, name, file.is_test) else {
        return Vec::new();
    };
    let logic = |item: &&syn::Item| match item {
        syn::Item::Fn(function) => !names_test(&function.attrs),
        syn::Item::Impl(block) => {
            let function = |item: &syn::ImplItem| matches!(item, syn::ImplItem::Fn(_));
            !names_test(&block.attrs) && block.items.iter().any(function)
        }
        _ => false,
    };
    let remedy = "move it to a file named after its job";
    tree.items
        .iter()
        .filter(logic)
        .map(|item| {
            let message = format!("logic in `{name}`, which is a table of contents");
            finding(file, item.span().start().line, "contents", message, remedy)
        })
        .collect()
}

fn unsafe_words(file: &Source, allowed: &[String]) -> Vec<Finding> {
    if allowed.iter().any(|pattern| fits(pattern, &file.path)) {
        return Vec::new();
    }
    let remedy =
        "move it to a file of `unsafe_code.allowed` in xtask/structure.toml, or do without";
    file.code_with_lines()
        .filter(|(_, text)| has_word(text, "unsafe"))
        .map(|(line, _)| finding(file, line, "unsafe", "`unsafe` here".to_owned(), remedy))
        .collect()
}

/// A crate without a file for `unsafe` forbids it; a crate with one denies it everywhere else.
fn unsafe_attribute(file: &Source, allowed: &[String]) -> Option<Finding> {
    let (home, rest) = file.crate_and_rest()?;
    if !matches!(rest, "src/lib.rs" | "src/main.rs") {
        return None;
    }
    let has_unsafe_file = allowed
        .iter()
        .any(|pattern| pattern.starts_with(&format!("{home}/")));
    let wanted: &[&str] = if has_unsafe_file {
        &["#![deny(unsafe_code)]", "#![forbid(unsafe_code)]"]
    } else {
        &["#![forbid(unsafe_code)]"]
    };
    if allowed.iter().any(|pattern| fits(pattern, &file.path))
        || wanted.iter().any(|attribute| file.code.contains(attribute))
    {
        return None;
    }
    let message = "the crate root does not keep `unsafe` out".to_owned();
    Some(finding(
        file,
        1,
        "unsafe-attribute",
        message,
        &format!("add {}", wanted.join(" or ")),
    ))
}

/// Half-done work and switched-off tests.
fn leftovers(file: &Source) -> Vec<Finding> {
    let macros = ["todo", "unimplemented", "dbg"];
    let mut findings = Vec::new();
    for (line, text) in file.code_with_lines() {
        for name in macros.iter().filter(|name| calls_macro(text, name)) {
            let message = format!("`{name}!` is left over");
            findings.push(finding(
                file,
                line,
                "leftover",
                message,
                "finish it or take it out",
            ));
        }
        if text.trim_start().starts_with("#[ignore") {
            let message = "a test that never runs".to_owned();
            let remedy = "make it fast or steady enough to run, or remove it";
            findings.push(finding(file, line, "ignored-test", message, remedy));
        }
    }
    findings
}

fn calls_macro(text: &str, name: &str) -> bool {
    let bang = format!("{name}!");
    words_at(text, name).any(|at| text.get(at..).is_some_and(|tail| tail.starts_with(&bang)))
}

/// Whether `word` stands in `text` with no letter, digit or underscore on either side.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    words_at(text, word).next().is_some()
}

fn words_at<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = text.get(..at).and_then(|head| head.chars().next_back());
            let after = text
                .get(at + word.len()..)
                .and_then(|tail| tail.chars().next());
            !before.is_some_and(part) && !after.is_some_and(part)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let structure: Structure = toml::from_str(
            "names.banned = ['util.rs']\n\
             unsafe_code.allowed = ['crates/x/src/*/sys.rs']\n\
             sans_io = { crates = [], forbidden = [] }\n\
             modules = { root = 'none', top = {}, edges = {} }\n",
        )
        .expect("structure of the test");
        let file = Source::new(path, text.to_owned());
        check(&file, &structure)
            .into_iter()
            .map(|found| found.rule)
            .collect()
    }

    #[test]
    fn each_rule_passes_one_sample_and_fails_another() {
        let rows: [(&str, &str, &[&str]); 18] = [
            ("crates/y/src/checksum.rs", "fn f() {}", &[]),
            ("crates/y/src/util.rs", "fn f() {}", &["file-name"]),
            ("crates/y/src/a.rs", "fn f( {}", &["parse"]),
            ("crates/y/src/a/mod.rs", "mod b;\npub use b::C;", &[]),
            ("crates/y/src/a/mod.rs", "mod b;\nfn f() {}", &["contents"]),
            (
                "crates/y/src/a/mod.rs",
                "struct A;\nimpl A { fn f() {} }",
                &["contents"],
            ),
            ("crates/y/src/a/mod.rs", "#[cfg(test)]\nfn f() {}", &[]),
            ("crates/x/src/tap/sys.rs", "fn f() { unsafe { g() } }", &[]),
            (
                "crates/x/src/tap/rx.rs",
                "fn f() { unsafe { g() } }",
                &["unsafe"],
            ),
            (
                "crates/x/src/tap/rx.rs",
                "// unsafe\nfn f() { g(\"unsafe\") }",
                &[],
            ),
            ("crates/y/src/lib.rs", "#![forbid(unsafe_code)]", &[]),
            (
                "crates/y/src/lib.rs",
                "#![deny(unsafe_code)]",
                &["unsafe-attribute"],
            ),
            ("crates/x/src/lib.rs", "#![deny(unsafe_code)]", &[]),
            ("crates/x/src/lib.rs", "mod a;", &["unsafe-attribute"]),
            ("crates/y/src/a.rs", "fn f() { g(\"todo!\") }", &[]),
            ("crates/y/src/a.rs", "fn f() { todo!() }", &["leftover"]),
            ("crates/y/src/a.rs", "fn f() { dbg!(1); }", &["leftover"]),
            (
                "crates/y/src/a.rs",
                "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
                &["ignored-test"],
            ),
        ];
        for (path, text, expected) in rows {
            assert_eq!(rules(path, text), expected, "{path}: {text}");
        }
    }

    #[test]
    fn the_lock_file_is_tracked() {
        let file = |path: &str| Source::new(path, String::new());
        assert_eq!(check_whole(&[file("Cargo.lock")]), []);
        assert_eq!(check_whole(&[file("Cargo.toml")]).len(), 1);
    }
}
