//! What no tracked file may hold: paths of one machine, and hosts of package registries.

use super::Finding;
use super::source::Source;

// Put together from parts, so that this file passes its own check.
const PLACES: [&str; 5] = [
    concat!("/", "work/"),
    concat!("/", "tmp/wt/"),
    concat!("/", "tmp/target-"),
    concat!("/", "root/"),
    concat!("/", "Users/"),
];
const HOSTS: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("deb.debian", ".org"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("proxy.golang", ".org"),
];

/// Words of one machine in one file. The lock file is cargo's.
pub(super) fn check(file: &Source) -> Vec<Finding> {
    if file.path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, text) in file.text.lines().enumerate() {
        let line = index + 1;
        findings.extend(
            PLACES
                .iter()
                .filter(|place| starts_path(text, place))
                .map(|place| {
                    found(
                        file,
                        line,
                        "machine-path",
                        place,
                        "write a path relative to the repository",
                    )
                }),
        );
        findings.extend(
            HOSTS
                .iter()
                .filter(|host| text.contains(**host))
                .map(|host| {
                    found(
                        file,
                        line,
                        "registry-host",
                        host,
                        "name the package, not where it comes from",
                    )
                }),
        );
    }
    findings
}

/// Whether an absolute path starts with `place`: `docs/work/x` does not.
fn starts_path(text: &str, place: &str) -> bool {
    text.match_indices(place).any(|(at, _)| {
        let before = text.get(..at).and_then(|head| head.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || "._-)}>~*".contains(c))
    })
}

fn found(file: &Source, line: usize, rule: &'static str, word: &str, remedy: &str) -> Finding {
    let (path, remedy) = (file.path.clone(), remedy.to_owned());
    Finding {
        path,
        line,
        rule,
        message: format!("`{word}` in a tracked file"),
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_and_hosts_are_found() {
        let rows = [
            ("see docs/decisions/ring.md".to_owned(), 0),
            (format!("see docs{}x", PLACES[0]), 0),
            (format!("see {}x", PLACES[0]), 1),
            (format!("\"{}x\"", PLACES[3]), 1),
            (format!("https://{}/x", HOSTS[0]), 1),
        ];
        for (text, expected) in rows {
            let file = Source::new("README.md", text.clone());
            assert_eq!(check(&file).len(), expected, "{text}");
            let lock = Source::new("Cargo.lock", text);
            assert_eq!(check(&lock), []);
        }
    }
}
