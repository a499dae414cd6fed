//! Sizes, and the ratchet that only lets them go down.
//!
//! A size is counted in lines of code: comments, blank lines and quoted RFC sentences are free, so
//! that nobody saves on them. Code that is over a limit is listed in `xtask/budgets.toml` with its
//! exact number and a reason; more than the number fails, and so does less, because a number that
//! may go down must be taken down.

use super::Finding;
use super::source::{Source, lines_of};
use super::structure::{Budgets, Exception};
use syn::spanned::Spanned;
use syn::visit::Visit;

/// One limit: rule name, largest value without an exception, and what to do about more.
struct Limit {
    rule: &'static str,
    most: usize,
    remedy: &'static str,
}

const FUNCTION_LINES: Limit = Limit {
    rule: "function-lines",
    most: 70,
    remedy: "give the shared locals a type of their own, then split (style guide 15)",
};
const ARGUMENTS: Limit = Limit {
    rule: "arguments",
    most: 6,
    remedy: "group what belongs together into a struct",
};
const FILE_LINES: Limit = Limit {
    rule: "file-lines",
    most: 600,
    remedy: "split the file by job",
};
const TEST_FILE_LINES: Limit = Limit {
    rule: "test-file-lines",
    most: 1000,
    remedy: "split the tests by RFC section",
};
const INLINE_TEST_LINES: Limit = Limit {
    rule: "inline-test-lines",
    most: 200,
    remedy: "move the tests to a file of their own: `#[cfg(test)] mod tests;`",
};
const LINE_COLUMNS: Limit = Limit {
    rule: "line-columns",
    most: 100,
    remedy: "break the line",
};

const LIMITS: [&Limit; 6] = [
    &FUNCTION_LINES,
    &ARGUMENTS,
    &FILE_LINES,
    &TEST_FILE_LINES,
    &INLINE_TEST_LINES,
    &LINE_COLUMNS,
];

/// One measured thing that is over its limit.
struct Measure<'a> {
    limit: &'static Limit,
    path: &'a str,
    item: String,
    line: usize,
    value: usize,
}

/// Everything over a limit and not excepted, and every exception that is no longer exact.
pub(super) fn check(files: &[Source], budgets: &Budgets) -> Vec<Finding> {
    let over: Vec<Measure<'_>> = files.iter().flat_map(measure).collect();
    let mut findings: Vec<Finding> = over
        .iter()
        .filter(|measure| !budgets.exception.iter().any(|entry| covers(entry, measure)))
        .map(too_large)
        .collect();
    findings.extend(
        budgets
            .exception
            .iter()
            .filter_map(|entry| stale(entry, &over)),
    );
    findings
}

fn too_large(measure: &Measure<'_>) -> Finding {
    let Measure {
        limit,
        path,
        item,
        line,
        value,
    } = measure;
    Finding {
        path: (*path).to_owned(),
        line: *line,
        rule: limit.rule,
        message: format!("{item}: {value}, at most {}", limit.most),
        remedy: limit.remedy.to_owned(),
    }
}

/// Whether an exception is about this thing and allows its size.
fn covers(entry: &Exception, measure: &Measure<'_>) -> bool {
    is_about(entry, measure) && measure.value <= entry.value
}

fn is_about(entry: &Exception, measure: &Measure<'_>) -> bool {
    entry.rule == measure.limit.rule && entry.path == measure.path && entry.item == measure.item
}

/// An exception that is void, larger than needed, or without a reason.
fn stale(entry: &Exception, over: &[Measure<'_>]) -> Option<Finding> {
    let largest = over
        .iter()
        .filter(|measure| is_about(entry, measure))
        .map(|m| m.value)
        .max();
    let (message, remedy) = match largest {
        _ if entry.reason.trim().is_empty() => ("no reason".to_owned(), "say why".to_owned()),
        _ if !LIMITS.iter().any(|limit| limit.rule == entry.rule) => (
            format!("no rule `{}`", entry.rule),
            "name a rule of xtask/src/tidy/size.rs".to_owned(),
        ),
        None => (
            "nothing is over the limit any more".to_owned(),
            "remove the entry".to_owned(),
        ),
        Some(value) if value < entry.value => (
            format!("it is down to {value}"),
            format!("lower `value` to {value}"),
        ),
        Some(_) => return None,
    };
    let item = format!("{} {} {}", entry.rule, entry.path, entry.item);
    Some(Finding {
        path: "xtask/budgets.toml".to_owned(),
        line: 1,
        rule: "budgets",
        message: format!("{}: {message}", item.trim()),
        remedy,
    })
}

fn measure(file: &Source) -> Vec<Measure<'_>> {
    let Some(tree) = &file.tree else {
        return Vec::new();
    };
    let mut functions = Functions {
        file,
        found: Vec::new(),
        within: Vec::new(),
    };
    functions.visit_file(tree);
    let mut found = functions.found;
    let mut whole = |limit: &'static Limit, value: usize, line: usize| {
        if value > limit.most {
            found.push(Measure {
                limit,
                path: &file.path,
                item: String::new(),
                line,
                value,
            });
        }
    };
    if file.is_test {
        whole(&TEST_FILE_LINES, file.code_lines(1..=usize::MAX, true), 1);
    } else {
        whole(&FILE_LINES, file.code_lines(1..=usize::MAX, false), 1);
        whole(&INLINE_TEST_LINES, file.inline_test_lines(), 1);
    }
    for (index, line) in file.text.lines().enumerate() {
        // A long address cannot be broken.
        let columns = if line.contains("://") {
            0
        } else {
            line.chars().count()
        };
        whole(&LINE_COLUMNS, columns, index + 1);
    }
    found
}

/// Visits every function that is not test code.
struct Functions<'a> {
    file: &'a Source,
    found: Vec<Measure<'a>>,
    /// The type whose `impl` block or the trait that is being visited.
    within: Vec<String>,
}

impl Functions<'_> {
    fn function(&mut self, signature: &syn::Signature, last: usize) {
        let first = signature.span().start().line;
        if self.file.line_is_test(first) {
            return;
        }
        let mut item = self.within.join("::");
        if !item.is_empty() {
            item.push_str("::");
        }
        item.push_str(&signature.ident.to_string());
        let receiver = |input: &&syn::FnArg| !matches!(input, syn::FnArg::Receiver(_));
        let arguments = signature.inputs.iter().filter(receiver).count();
        let lines = self.file.code_lines(first..=last, true);
        for (limit, value) in [(&FUNCTION_LINES, lines), (&ARGUMENTS, arguments)] {
            if value > limit.most {
                let (path, item) = (self.file.path.as_str(), item.clone());
                self.found.push(Measure {
                    limit,
                    path,
                    item,
                    line: first,
                    value,
                });
            }
        }
    }

    fn inside(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.within.push(name);
        visit(self);
        self.within.pop();
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, *lines_of(function.block.span()).end());
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, *lines_of(function.block.span()).end());
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.function(&function.sig, *lines_of(function.span()).end());
        syn::visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let name = match &*block.self_ty {
            syn::Type::Path(path) => path
                .path
                .segments
                .last()
                .map_or(String::new(), |last| last.ident.to_string()),
            _ => "impl".to_owned(),
        };
        self.inside(name, |visitor| syn::visit::visit_item_impl(visitor, block));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let name = item.ident.to_string();
        self.inside(name, |visitor| syn::visit::visit_item_trait(visitor, item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/x/src/y.rs";

    fn findings(text: &str, exceptions: &str) -> Vec<(&'static str, String)> {
        let files = [Source::new(PATH, text.to_owned())];
        let budgets: Budgets = toml::from_str(exceptions).expect("budgets of the test");
        check(&files, &budgets)
            .into_iter()
            .map(|found| (found.rule, found.message))
            .collect()
    }

    fn function_of(lines: usize) -> String {
        format!(
            "impl T {{\nfn long() {{\n{}}}\n}}\n",
            "    step();\n".repeat(lines - 2)
        )
    }

    fn exception(value: usize, reason: &str) -> String {
        format!(
            "[[exception]]\nrule = \"function-lines\"\npath = \"{PATH}\"\nitem = \"T::long\"\n\
             value = {value}\nreason = \"{reason}\"\n"
        )
    }

    #[test]
    fn a_function_of_seventy_lines_passes_and_one_more_fails() {
        assert_eq!(findings(&function_of(70), ""), []);
        let over = [("function-lines", "T::long: 71, at most 70".to_owned())];
        assert_eq!(findings(&function_of(71), ""), over);
        let commented = function_of(70).replace("step();\n", "step(); // why\n    // more\n\n");
        assert_eq!(findings(&commented, ""), []);
    }

    #[test]
    fn the_ratchet_goes_down_only() {
        let rows = [
            (80, exception(80, "a table"), None),
            (
                81,
                exception(80, "a table"),
                Some("T::long: 81, at most 70"),
            ),
            (79, exception(80, "a table"), Some("it is down to 79")),
            (
                70,
                exception(80, "a table"),
                Some("nothing is over the limit any more"),
            ),
            (80, exception(80, ""), Some("no reason")),
        ];
        for (lines, exceptions, expected) in rows {
            let found = findings(&function_of(lines), &exceptions);
            match expected {
                None => assert_eq!(found, []),
                Some(part) => assert!(found.iter().any(|(_, m)| m.contains(part)), "{found:?}"),
            }
        }
    }

    #[test]
    fn arguments_are_counted_without_self() {
        let of = |count: usize| {
            let arguments: String = (0..count).map(|n| format!("a{n}: u8, ")).collect();
            format!("impl T {{ fn f(&self, {arguments}) {{}} }}")
        };
        assert_eq!(findings(&of(6), ""), []);
        assert_eq!(
            findings(&of(7), ""),
            [("arguments", "T::f: 7, at most 6".to_owned())]
        );
    }

    #[test]
    fn a_file_is_counted_without_its_tests() {
        let code = "const A: u8 = 0;\n".repeat(600);
        let tests = |lines| {
            format!(
                "#[cfg(test)]\nmod tests {{\n{}}}\n",
                "//\nx!();\n".repeat(lines)
            )
        };
        assert_eq!(findings(&format!("{code}{}", tests(197)), ""), []);
        let both = findings(&format!("{code}const B: u8 = 0;\n{}", tests(198)), "");
        let expected = [
            ("file-lines", ": 601, at most 600".to_owned()),
            ("inline-test-lines", ": 201, at most 200".to_owned()),
        ];
        assert_eq!(both, expected);
    }

    #[test]
    fn a_line_has_a_hundred_columns() {
        let of = |columns: usize| format!("// {}\n", "é".repeat(columns - 3));
        assert_eq!(findings(&of(100), ""), []);
        assert_eq!(
            findings(&of(101), ""),
            [("line-columns", ": 101, at most 100".to_owned())]
        );
        assert_eq!(findings(&format!("// a://{}", "b".repeat(100)), ""), []);
    }
}
