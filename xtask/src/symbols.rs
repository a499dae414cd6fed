//! The names of the C library that `libgannet_preload.so` takes, compared with those that real
//! programs import; and the names it needs itself. The lists are `crates/preload/symbols.toml`.
//!
//! A program that imports a call with descriptors which is neither taken nor left for a reason
//! would meet the wake-ups of a stream instead of its bytes. Programs that are not installed are
//! left out by name.

use crate::explain::Explained;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const LIST: &str = "crates/preload/symbols.toml";

/// See the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    exported: BTreeSet<String>,
    left: BTreeMap<String, String>,
    words: Vec<String>,
    unrelated: Vec<String>,
    undefined: BTreeSet<String>,
    called: BTreeMap<String, String>,
    programs: Vec<String>,
}

impl List {
    fn load(root: &Path) -> Result<List, Explained> {
        let hint = format!("mend {LIST}");
        let wrong = |why: String| Explained::new("the list of symbols cannot be read", why, hint);
        std::fs::read_to_string(root.join(LIST))
            .map_err(|error| error.to_string())
            .and_then(|text| toml::from_str(&text).map_err(|error| error.to_string()))
            .map_err(wrong)
    }

    /// Whether a name is a call with descriptors, as far as its letters tell.
    fn is_suspect(&self, name: &str) -> bool {
        self.words.iter().any(|word| name.contains(word))
            && !self.unrelated.iter().any(|start| name.starts_with(start))
    }

    /// What is wrong with a library that has and needs these.
    fn judge_library(&self, has: &Names, needs: &Names, relocated: &Names) -> Vec<String> {
        let mut all = Vec::new();
        for name in self.exported.difference(has) {
            all.push(format!("`{name}` is not exported"));
        }
        for name in has.difference(&self.exported) {
            all.push(format!("`{name}` is exported and not in the list"));
        }
        for name in needs.difference(&self.undefined) {
            all.push(format!(
                "the library needs `{name}`, which is not in the list"
            ));
        }
        let taken = relocated.intersection(has);
        for name in taken.filter(|name| !self.called.contains_key(*name)) {
            all.push(format!("the library calls `{name}`, which it replaces"));
        }
        all
    }

    /// What is wrong with a program that imports these.
    fn judge_program(&self, program: &str, imports: &Names) -> Vec<String> {
        imports
            .iter()
            .filter(|name| self.is_suspect(name))
            .filter(|name| !self.exported.contains(*name) && !self.left.contains_key(*name))
            .map(|name| format!("{program} imports `{name}`: neither exported nor left"))
            .collect()
    }
}

type Names = BTreeSet<String>;

/// Checks the library at the path given, or the one that `target` holds.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<bool, Explained> {
    let list = List::load(root)?;
    let library = match options {
        [] => newest(root)?,
        [path] => PathBuf::from(path),
        _ => {
            return Err(Explained::new(
                "one library at a time",
                "it is a path",
                "give one",
            ));
        }
    };
    let has = symbols(&["-D", "--defined-only"], &library)?;
    let needs = symbols(&["-D", "--undefined-only"], &library)?;
    let mut findings = list.judge_library(&has, &needs, &relocations(&library)?);
    let mut absent = Vec::new();
    let mut looked_at = 0;
    for program in &list.programs {
        let files = find(program);
        if files.is_empty() {
            absent.push(program.as_str());
        }
        for file in files {
            looked_at += 1;
            findings.extend(list.judge_program(program, &imports(&file)?));
        }
    }
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}\n    try: take the call, or say in {LIST} why not");
    }
    if !absent.is_empty() {
        println!(
            "symbols: not installed, not looked at: {}",
            absent.join(" ")
        );
    }
    let (n, all) = (findings.len(), list.exported.len());
    println!("symbols: {all} names taken, {looked_at} files of programs, {n} findings");
    Ok(findings.is_empty())
}

/// The library as the step before built it.
fn newest(root: &Path) -> Result<PathBuf, Explained> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let places = ["heavy/release", "release", "debug"];
    let files = places.map(|place| target.join(place).join("libgannet_preload.so"));
    let age = |file: &PathBuf| file.metadata().and_then(|it| it.modified()).ok();
    let newest = files
        .into_iter()
        .filter(|file| file.exists())
        .max_by_key(age);
    newest.ok_or_else(|| {
        let why = format!("there is none below {}", target.display());
        let hint = "cargo build --release -p gannet-preload";
        Explained::new("there is no library to check", why, hint)
    })
}

/// The files of a program: an absolute path, or the name of a command, and what it is linked with
/// of its own: the C library's parts have no names of interest.
fn find(program: &str) -> Vec<PathBuf> {
    if program.starts_with('/') {
        return expand(program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(more);
    let found = folders
        .map(|folder| folder.join(program))
        .find(|file| is_elf(file));
    found.into_iter().collect()
}

/// Where `*` stands for any name of a folder or file.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let one = |folder: PathBuf| match part.split_once('*') {
            None => vec![folder.join(part)],
            Some((start, end)) => std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| {
                    let name = entry.file_name();
                    let name = name.to_string_lossy();
                    name.starts_with(start) && name.ends_with(end)
                })
                .map(|entry| entry.path())
                .collect(),
        };
        all = all.into_iter().flat_map(one).collect();
    }
    all.retain(|file| is_elf(file));
    all
}

fn is_elf(file: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// Names that `nm` tells, without their versions.
fn symbols(options: &[&str], file: &Path) -> Result<Names, Explained> {
    let text = tool("nm", options, file)?;
    Ok(lasts(&text).map(plain).collect())
}

/// What a file wants of the C library: names of its versions.
fn imports(file: &Path) -> Result<Names, Explained> {
    let text = tool("nm", &["-D", "--undefined-only"], file)?;
    let all = lasts(&text).filter(|name| name.contains("@GLIBC_"));
    Ok(all.map(plain).collect())
}

fn lasts(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.split_whitespace().last())
}

fn plain(name: &str) -> String {
    name.split('@').next().unwrap_or(name).to_owned()
}

/// Names that the library reaches by relocation.
fn relocations(file: &Path) -> Result<Names, Explained> {
    let text = tool("readelf", &["-rW"], file)?;
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(4));
    Ok(names.map(plain).collect())
}

fn tool(name: &str, options: &[&str], file: &Path) -> Result<String, Explained> {
    let hint = "sudo apt-get install binutils";
    let output = Command::new(name).args(options).arg(file).output();
    let output = output
        .map_err(|error| Explained::new(format!("{name} did not run"), error.to_string(), hint))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Names {
        all.iter().map(|name| name.to_string()).collect()
    }

    fn list() -> List {
        let text = "exported = ['read', 'close']\nwords = ['read', 'recv']\n\
            unrelated = ['pthread_']\nundefined = ['memcpy']\nprograms = []\n\
            [left]\npread = 'a stream has no offsets'\n[called]\nclose = 'of its own'\n";
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_library_has_what_is_listed_and_needs_no_more() {
        let list = list();
        let has = names(&["read", "close"]);
        let (needs, relocated) = (names(&["memcpy"]), names(&["memcpy", "close"]));
        assert!(list.judge_library(&has, &needs, &relocated).is_empty());
        let more = names(&["memcpy", "write", "read"]);
        assert_eq!(list.judge_library(&has, &more, &more).len(), 3);
        assert_eq!(
            list.judge_library(&names(&["send"]), &needs, &relocated)
                .len(),
            3
        );
    }

    #[test]
    fn a_program_imports_what_is_taken_or_left() {
        let list = list();
        let good = names(&["read", "pread", "pthread_spread", "malloc"]);
        assert!(list.judge_program("x", &good).is_empty());
        let bad = list.judge_program("x", &names(&["recvfrom", "read"]));
        assert_eq!(bad, ["x imports `recvfrom`: neither exported nor left"]);
    }

    #[test]
    fn versions_are_not_part_of_a_name() {
        assert_eq!(plain("read@GLIBC_2.2.5"), "read");
        assert_eq!(plain("read@@GLIBC_2.2.5"), "read");
    }

    #[test]
    fn the_list_itself_can_be_read() {
        let list = List::load(&crate::repository_root()).unwrap();
        assert!(list.exported.len() > 50 && !list.programs.is_empty());
        let twice = list
            .left
            .keys()
            .filter(|name| list.exported.contains(*name));
        assert_eq!(twice.count(), 0);
        assert!(list.left.values().all(|reason| reason.len() > 10));
    }
}
