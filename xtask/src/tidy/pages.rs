//! The files that `ARCHITECTURE.md` names exist.
//!
//! It writes paths from any folder on: `tcp/listen.rs` is enough, and `send/{next,ack}.rs` stands
//! for two. A name counts as there when a tracked path ends with it; a folder, when one has it.

use super::Finding;
use super::source::Source;

const PAGE: &str = "ARCHITECTURE.md";

/// Paths in backquotes that no tracked file has.
pub(super) fn check(files: &[Source]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for path in line.split('`').skip(1).step_by(2).flat_map(expanded) {
            if !exists(files, &path) {
                findings.push(Finding {
                    path: PAGE.to_owned(),
                    line: index + 1,
                    rule: "page",
                    message: format!("there is no `{path}`"),
                    remedy: "name the file that does it now".to_owned(),
                });
            }
        }
    }
    findings
}

fn exists(files: &[Source], path: &str) -> bool {
    let somewhere = format!("/{path}");
    files.iter().any(|file| {
        let place = format!("/{}", file.path);
        match path.ends_with('/') {
            true => place.contains(&somewhere),
            false => place.ends_with(&somewhere),
        }
    })
}

/// The paths that a quoted word stands for; none if it is no path.
fn expanded(word: &str) -> Vec<String> {
    let is_path = word.ends_with(".rs") || word.ends_with(".toml") || word.ends_with('/');
    let plain = word
        .chars()
        .all(|c| c.is_alphanumeric() || "_-./{},".contains(c));
    if !is_path || !plain || word.starts_with('/') {
        return Vec::new();
    }
    match word.split_once('{').zip(word.split_once('}')) {
        Some(((before, _), (_, after))) => {
            let names = word.get(before.len() + 1..word.len() - after.len() - 1);
            let names = names.unwrap_or("").split(',');
            names.map(|name| format!("{before}{name}{after}")).collect()
        }
        None => vec![word.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_from_any_folder_on() {
        let page =
            "| a | `tcp/{listen,gone}.rs`, `src/bbr/`, `udp/` |\n| b | `fn x/y` `*/sys.rs` |\n";
        let files = [
            Source::new(PAGE, page.to_owned()),
            Source::new("crates/stack/src/tcp/listen.rs", String::new()),
            Source::new("crates/stack/src/bbr/model.rs", String::new()),
        ];
        let said: Vec<_> = check(&files).into_iter().map(|f| f.message).collect();
        assert_eq!(said, ["there is no `tcp/gone.rs`", "there is no `udp/`"]);
    }
}
