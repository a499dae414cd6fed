//! Which module of the stack may name which: one direction, written down as a table.
//!
//! Cargo enforces the direction between crates; inside `stack` this does. A module may name itself,
//! what its row of the table lists, and nothing else. The rows must not form a circle: a circle
//! is one module in disguise. Test code is free.

use super::Finding;
use super::source::{Source, names_test};
use super::structure::Modules;
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::Visit;

/// Edges out of one file that are not in the table.
pub(super) fn check(file: &Source, modules: &Modules) -> Vec<Finding> {
    let Some((home, inner)) = module_of(file, modules) else {
        return Vec::new();
    };
    let Some(tree) = file.tree.as_ref().filter(|_| !file.is_test) else {
        return Vec::new();
    };
    let found = |line: usize, message: String, remedy: &str| {
        let (path, remedy) = (file.path.clone(), remedy.to_owned());
        Finding {
            path,
            line,
            rule: "direction",
            message,
            remedy,
        }
    };
    let is_top = modules.top.contains_key(&home);
    if !is_top && !modules.edges.contains_key(&home) {
        let message = format!("module `{home}` is not in the table");
        return vec![found(
            1,
            message,
            "add a row to [modules.edges] in xtask/structure.toml",
        )];
    }
    let mut named = Named {
        inner,
        found: BTreeSet::new(),
    };
    named.visit_file(tree);
    let allowed = modules.edges.get(&home);
    let known = |to: &String| modules.edges.contains_key(to) || modules.top.contains_key(to);
    let unlisted = |to: &String| !is_top && !allowed.is_some_and(|row| row.contains(to));
    named
        .found
        .iter()
        .filter(|(_, to)| *to != home && known(to) && unlisted(to))
        .map(|(line, to)| {
            let remedy = "pass it in as an argument, or move it below both";
            found(*line, format!("`{home}` may not name `{to}`"), remedy)
        })
        .collect()
}

/// The table itself: no row that lists an unknown or top module, no circle.
pub(super) fn check_table(modules: &Modules) -> Vec<Finding> {
    let found = |message: String, remedy: &str| {
        let (path, remedy) = ("xtask/structure.toml".to_owned(), remedy.to_owned());
        Finding {
            path,
            line: 1,
            rule: "direction",
            message,
            remedy,
        }
    };
    let mut findings = Vec::new();
    for (from, row) in &modules.edges {
        for to in row.iter().filter(|to| !modules.edges.contains_key(*to)) {
            findings.push(found(
                format!("`{from}` lists `{to}`, which has no row"),
                "add the row",
            ));
        }
    }
    // Take away modules whose every target is gone, until nothing changes; the rest is a circle.
    let mut left: BTreeSet<&String> = modules.edges.keys().collect();
    loop {
        let free = |from: &&String| {
            let row = modules.edges.get(*from);
            row.is_none_or(|row| !row.iter().any(|to| to != *from && left.contains(to)))
        };
        let gone: Vec<&String> = left.iter().copied().filter(free).collect();
        if gone.is_empty() {
            break;
        }
        left.retain(|name| !gone.contains(name));
    }
    if !left.is_empty() {
        let names: Vec<&str> = left.iter().map(|name| name.as_str()).collect();
        let message = format!("the rows form a circle: {}", names.join(", "));
        findings.push(found(message, "break it with a smaller module below"));
    }
    findings
}

/// Top module of a file and the module path inside the crate; none for the crate root.
fn module_of(file: &Source, modules: &Modules) -> Option<(String, Vec<String>)> {
    let rest = file
        .path
        .strip_prefix(&format!("{}/", modules.root))?
        .strip_suffix(".rs")?;
    let mut path: Vec<String> = rest.split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    let home = path
        .first()
        .filter(|first| *first != "lib" && *first != "main")?
        .clone();
    Some((home, path))
}

/// Collects the top modules that a file names through `crate::` and `super::`.
struct Named {
    /// Path of the module that is being visited, from the crate root.
    inner: Vec<String>,
    found: BTreeSet<(usize, String)>,
}

impl Named {
    fn path(&mut self, line: usize, segments: &[String]) {
        let supers = segments
            .iter()
            .take_while(|segment| *segment == "super")
            .count();
        let first = segments.first().map(String::as_str);
        let target = match first {
            Some("crate") => segments.get(1).cloned(),
            Some("super") => {
                let kept = self.inner.len().checked_sub(supers);
                match kept {
                    Some(0) => segments.get(supers).cloned(),
                    Some(_) => self.inner.first().cloned(),
                    None => None,
                }
            }
            _ => None,
        };
        self.found.extend(target.map(|target| (line, target)));
    }

    fn tree(&mut self, prefix: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(prefix, &path.tree);
                prefix.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.tree(prefix, item));
            }
            syn::UseTree::Name(name) => self.leaf(prefix, &name.ident),
            syn::UseTree::Rename(name) => self.leaf(prefix, &name.ident),
            syn::UseTree::Glob(glob) => self.path(glob.span().start().line, prefix),
        }
    }

    fn leaf(&mut self, prefix: &[String], ident: &syn::Ident) {
        let mut whole = prefix.to_vec();
        whole.push(ident.to_string());
        self.path(ident.span().start().line, &whole);
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !names_test(&item.attrs) {
            self.tree(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !names_test(&module.attrs) {
            self.inner.push(module.ident.to_string());
            syn::visit::visit_item_mod(self, module);
            self.inner.pop();
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !names_test(&function.attrs) {
            syn::visit::visit_item_fn(self, function);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(super)` and `pub(in crate::x)` give, they do not take.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.path(path.span().start().line, &segments);
        syn::visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(edges: &str) -> Modules {
        let text = format!("root = 'crates/s/src'\ntop = {{ stack = 'joins' }}\nedges = {edges}\n");
        toml::from_str(&text).expect("table of the test")
    }

    #[test]
    fn each_edge_out_of_a_module_is_in_the_table() {
        let modules = table("{ tcp = ['ip'], ip = ['neighbour'], neighbour = [] }");
        let rows = [
            ("tcp/input.rs", "use crate::ip::Route;", 0),
            ("ip/output.rs", "use crate::tcp::State;", 1),
            ("ip.rs", "use super::tcp::State;", 1),
            ("ip/output.rs", "use super::route::Route;", 0),
            ("ip/output.rs", "use super::super::tcp::State;", 1),
            (
                "ip/output.rs",
                "use crate::{neighbour::Cache, tcp::State};",
                1,
            ),
            ("ip/output.rs", "fn f(s: &crate::tcp::State) {}", 1),
            ("ip/output.rs", "pub(in crate::tcp) fn f() {}", 0),
            (
                "ip/output.rs",
                "#[cfg(test)]\nmod tests { use crate::tcp::State; }",
                0,
            ),
            (
                "ip/mod.rs",
                "mod inner { use super::super::neighbour::Cache; }",
                0,
            ),
            (
                "ip/mod.rs",
                "mod inner { use super::super::tcp::State; }",
                1,
            ),
            ("ip/output.rs", "use crate::stack::Stack;", 1),
            ("ip/output.rs", "use crate::Instant;", 0),
            ("stack.rs", "use crate::{ip::Route, tcp::State};", 0),
            ("lib.rs", "pub use crate::tcp::State;", 0),
            ("new.rs", "", 1),
        ];
        for (path, text, expected) in rows {
            let file = Source::new(&format!("crates/s/src/{path}"), text.to_owned());
            let found = check(&file, &modules);
            assert_eq!(found.len(), expected, "{path}: {text}: {found:?}");
        }
    }

    #[test]
    fn the_table_has_no_circle_and_no_unknown_name() {
        assert_eq!(check_table(&table("{ a = ['b'], b = ['c'], c = [] }")), []);
        assert_eq!(
            check_table(&table("{ a = ['b'], b = ['c'], c = ['a'] }")).len(),
            1
        );
        assert_eq!(check_table(&table("{ a = ['gone'] }")).len(), 1);
    }
}
