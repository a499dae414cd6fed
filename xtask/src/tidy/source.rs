//! One tracked file as the rules see it.
//!
//! Three views of the same text, line for line: the text itself; the *code*, in which comments and
//! the insides of string literals are blank, so that a word search finds words of the language
//! only; and the syntax tree. Test code is everything under an attribute that names `test`.

use crate::explain::Explained;
use proc_macro2::Span;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use syn::spanned::Spanned;
use syn::visit::Visit;

/// One tracked file.
pub(crate) struct Source {
    /// Relative to the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and the insides of strings blank; empty unless this is Rust.
    pub(super) code: String,
    /// The syntax tree, if this is Rust.
    pub(super) tree: Option<syn::File>,
    /// What the parser said, if this is Rust that does not parse.
    pub(super) parse_error: Option<String>,
    /// The whole file is test code.
    pub(super) is_test: bool,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl Source {
    /// A file from its path and text.
    pub(crate) fn new(path: &str, text: String) -> Self {
        let mut source = Self {
            path: path.to_owned(),
            code: String::new(),
            tree: None,
            parse_error: None,
            is_test: path_is_test(path),
            test_lines: Vec::new(),
            text,
        };
        if path.ends_with(".rs") {
            source.code = code_only(&source.text);
            match syn::parse_file(&source.text) {
                Ok(tree) => {
                    source.test_lines = test_lines(&tree);
                    source.tree = Some(tree);
                }
                Err(error) => source.parse_error = Some(error.to_string()),
            }
        }
        source
    }

    /// Whether a line (from 1) is compiled for tests only.
    pub(crate) fn line_is_test(&self, line: usize) -> bool {
        self.is_test || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// Lines of code in a range: not blank, not comment; test code counts only if asked for.
    pub(super) fn code_lines(&self, lines: RangeInclusive<usize>, with_tests: bool) -> usize {
        self.code_with_lines()
            .filter(|(line, text)| lines.contains(line) && !text.trim().is_empty())
            .filter(|(line, _)| with_tests || !self.line_is_test(*line))
            .count()
    }

    /// Lines of code inside test modules of a file that is not a test file as a whole.
    pub(super) fn inline_test_lines(&self) -> usize {
        let whole = self.code_lines(1..=usize::MAX, true);
        if self.is_test {
            0
        } else {
            whole - self.code_lines(1..=usize::MAX, false)
        }
    }

    /// The code view, line by line, from 1.
    pub(super) fn code_with_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(index, text)| (index + 1, text))
    }

    /// The crate directory (`crates/stack`) and the rest of the path, for a file of a crate.
    pub(super) fn crate_and_rest(&self) -> Option<(&str, &str)> {
        if let Some(rest) = self.path.strip_prefix("xtask/") {
            return Some(("xtask", rest));
        }
        let name_end = self.path.strip_prefix("crates/")?.find('/')? + "crates/".len();
        Some((self.path.get(..name_end)?, self.path.get(name_end + 1..)?))
    }
}

/// First and last line of a piece of syntax.
pub(super) fn lines_of(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

/// A function somewhere in a file.
pub(crate) struct Function {
    pub(crate) name: String,
    /// From its documentation to its end.
    pub(crate) lines: RangeInclusive<usize>,
    /// It has the attribute `#[test]`.
    pub(crate) is_test: bool,
}

/// Every free function of a file, also within modules and functions.
pub(crate) fn functions(file: &Source) -> Vec<Function> {
    #[derive(Default)]
    struct All(Vec<Function>);
    impl<'ast> Visit<'ast> for All {
        fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
            let mut attributes = function.attrs.iter();
            self.0.push(Function {
                name: function.sig.ident.to_string(),
                lines: lines_of(function.span()),
                is_test: attributes.any(|attribute| attribute.path().is_ident("test")),
            });
            syn::visit::visit_item_fn(self, function);
        }
    }
    let mut all = All::default();
    if let Some(tree) = &file.tree {
        all.visit_file(tree);
    }
    all.0
}

/// Every file that git tracks or would track, without those that are not text.
pub(crate) fn tracked_files(root: &Path) -> Result<Vec<Source>, Explained> {
    let failed = |why: String| {
        Explained::new(
            "the list of tracked files is not to be had",
            why,
            "run in a git clone, with git installed",
        )
    };
    let listing = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !listing.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&listing.stderr).trim().to_owned(),
        ));
    }
    let names = String::from_utf8_lossy(&listing.stdout).into_owned();
    let mut files: Vec<Source> = names
        .split('\0')
        .filter(|name| !name.is_empty())
        .filter_map(|name| {
            std::fs::read_to_string(root.join(name))
                .ok()
                .map(|text| Source::new(name, text))
        })
        .collect();
    mark_test_modules(&mut files);
    Ok(files)
}

/// Marks the files of modules that are declared under `#[cfg(test)] mod name;`.
fn mark_test_modules(files: &mut [Source]) {
    let declared: BTreeSet<String> = files.iter().flat_map(declared_test_modules).collect();
    for file in files {
        let inside = |module: &String| {
            let rest = file.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        file.is_test |= declared.iter().any(inside);
    }
}

/// Paths without `.rs` of the modules that a file declares for tests only.
fn declared_test_modules(file: &Source) -> Vec<String> {
    let Some(tree) = &file.tree else {
        return Vec::new();
    };
    let stem = file.path.trim_end_matches(".rs");
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let home = if matches!(name, "mod" | "lib" | "main") {
        folder
    } else {
        stem
    };
    let modules = tree.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && names_test(&module.attrs) => {
            Some(format!("{home}/{}", module.ident))
        }
        _ => None,
    });
    modules.collect()
}

fn path_is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Whether an attribute makes an item test code: `#[test]`, or `cfg` that asks for `test`.
pub(super) fn names_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let condition = match &attribute.meta {
            syn::Meta::List(list) if path.is_ident("cfg") => list.tokens.to_string(),
            _ => return path.is_ident("test"),
        };
        let negated = condition.replace(' ', "").contains("not(test)");
        let word = |piece: &str| piece == "test";
        !negated
            && condition
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(word)
    })
}

fn test_lines(tree: &syn::File) -> Vec<RangeInclusive<usize>> {
    struct Collect(Vec<RangeInclusive<usize>>);
    impl<'ast> Visit<'ast> for Collect {
        fn visit_item(&mut self, item: &'ast syn::Item) {
            if names_test(attributes_of(item)) {
                self.0.push(lines_of(item.span()));
            } else {
                syn::visit::visit_item(self, item);
            }
        }
        fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
            if names_test(&function.attrs) {
                self.0.push(lines_of(function.span()));
            }
        }
    }
    let mut collect = Collect(Vec::new());
    collect.visit_file(tree);
    collect.0
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The text with every comment, and every character inside a string literal, turned into a blank.
///
/// A small scanner, not a full lexer: it must only know where comments and literals start and end.
/// Line ends stay, so that line numbers are those of the text.
pub(super) fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(first) = rest.chars().next() {
        let (length, keep) = piece(rest, after_word);
        let taken = rest.get(..length).unwrap_or(rest);
        match keep {
            Keep::All => out.push_str(taken),
            Keep::Nothing => out.extend(taken.chars().map(blank)),
            Keep::Ends => {
                let last = taken.chars().count().saturating_sub(1);
                let ends = taken.chars().enumerate();
                out.extend(ends.map(|(at, c)| if at == 0 || at == last { c } else { blank(c) }));
            }
        }
        after_word = first.is_alphanumeric() || first == '_';
        rest = rest.get(length..).unwrap_or("");
    }
    out
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

enum Keep {
    All,
    Ends,
    Nothing,
}

/// Length in bytes of the next comment, literal or single character, and what stays of it.
fn piece(rest: &str, after_word: bool) -> (usize, Keep) {
    let to_line_end = || rest.find('\n').unwrap_or(rest.len());
    if rest.starts_with("//") {
        return (to_line_end(), Keep::Nothing);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), Keep::Nothing);
    }
    if let Some(length) = raw_string(rest).filter(|_| !after_word) {
        return (length, Keep::Ends);
    }
    if rest.starts_with('"') {
        return (quoted(rest, '"'), Keep::Ends);
    }
    // A quote starts a character literal only if it also ends one: 'a', '\n'; else a lifetime.
    let character = rest
        .strip_prefix('\'')
        .map(|tail| tail.starts_with('\\') || tail.chars().nth(1) == Some('\''));
    if character == Some(true) {
        return (quoted(rest, '\''), Keep::Ends);
    }
    (rest.chars().next().map_or(1, char::len_utf8), Keep::All)
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let start = ["r", "br", "cr"].iter().find_map(|prefix| {
        let tail = rest.strip_prefix(prefix)?;
        tail.trim_start_matches('#')
            .starts_with('"')
            .then_some(prefix.len())
    })?;
    let hashes = rest.get(start..)?.chars().take_while(|&c| c == '#').count();
    let end = format!("\"{}", "#".repeat(hashes));
    let body = start + hashes + 1;
    let length = rest.get(body..)?.find(&end)?;
    Some(body + length + end.len())
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if !escaped && c == quote {
            return at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_the_insides_of_strings_are_blank() {
        let rows = [
            ("a // unsafe\nb", "a          \nb"),
            ("a /* x /* y */ z */ b", "a                   b"),
            (r#"f("unsafe") g"#, r#"f("      ") g"#),
            (r#"f("a\"b") g"#, r#"f("    ") g"#),
            ("r#\"a\"b\"# c", "r      # c"),
            ("'\"' x \"y\"", "' ' x \" \""),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("'\\'' // z", "'  '     "),
        ];
        for (text, expected) in rows {
            assert_eq!(code_only(text), expected, "{text}");
        }
    }

    #[test]
    fn test_code_is_what_an_attribute_calls_so() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n\
                    #[cfg(not(test))]\nfn c() {}\n#[cfg(all(test, loom))]\nfn d() {}\n";
        let source = Source::new("crates/x/src/y.rs", text.to_owned());
        let test: Vec<usize> = (1..=9).filter(|&line| source.line_is_test(line)).collect();
        assert_eq!(test, [2, 3, 4, 5, 8, 9]);
        assert_eq!(source.inline_test_lines(), 6);
        assert_eq!(source.code_lines(1..=usize::MAX, false), 3);
    }

    #[test]
    fn a_module_declared_for_tests_is_a_test_file() {
        let mut files = vec![
            Source::new(
                "crates/x/src/y.rs",
                "#[cfg(test)]\nmod oracle;\nmod real;\n".to_owned(),
            ),
            Source::new("crates/x/src/y/oracle.rs", String::new()),
            Source::new("crates/x/src/y/oracle/deep.rs", String::new()),
            Source::new("crates/x/src/y/real.rs", String::new()),
        ];
        mark_test_modules(&mut files);
        let test: Vec<bool> = files.iter().map(|file| file.is_test).collect();
        assert_eq!(test, [false, true, true, false]);
    }
}
