//! Where the library lies that is loaded into programs.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gannet_bench::Problem;

/// Its file.
const NAME: &str = "libgannet_preload.so";
/// Where it may lie, seen from the directory of this command.
const BESIDE: [&str; 4] = [".", "deps", "../lib/gannet", "../lib"];

/// The library: what $GANNET_PRELOAD names, else the one that belongs to this command.
pub(super) fn find() -> Result<PathBuf, Problem> {
    let own = env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent);
    find_from(env::var_os("GANNET_PRELOAD"), own)
}

fn find_from(named: Option<OsString>, own: Option<&Path>) -> Result<PathBuf, Problem> {
    let what = "cannot find the library that carries programs";
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let file = PathBuf::from(named);
        let why = format!("GANNET_PRELOAD names {}, which is no file", file.display());
        let hint = "unset GANNET_PRELOAD";
        return usable(&file)?.ok_or_else(|| Problem::new(what, why, hint));
    }
    for place in own
        .iter()
        .flat_map(|own| BESIDE.map(|place| own.join(place)))
    {
        if let Some(file) = usable(&place.join(NAME))? {
            return Ok(file);
        }
    }
    let near = own.map_or_else(
        || "this command".to_owned(),
        |own| own.display().to_string(),
    );
    let why = format!("no {NAME} in {near}, nor in deps or ../lib/gannet or ../lib there");
    Err(Problem::new(what, why, "cargo build --release"))
}

/// The full path of `file`, if it is one; LD_PRELOAD has no way to write some.
fn usable(file: &Path) -> Result<Option<PathBuf>, Problem> {
    let Ok(full) = file.canonicalize() else {
        return Ok(None);
    };
    if !full.is_file() {
        return Ok(None);
    }
    let bytes = full.as_os_str().as_bytes();
    match bytes.iter().any(|byte| matches!(byte, b' ' | b'\t' | b':')) {
        false => Ok(Some(full)),
        true => Err(Problem::new(
            format!("cannot load {}", full.display()),
            "LD_PRELOAD takes no path with a space or a colon",
            "GANNET_PRELOAD with another path to it, or a link in /tmp",
        )),
    }
}

/// What LD_PRELOAD is to be: the library in front of what is there already.
pub(super) fn preload_with(library: &Path, before: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    let before = before.unwrap_or_default();
    let mut rest = before.as_bytes().split(|byte| matches!(byte, b' ' | b':'));
    for other in rest.by_ref().filter(|other| !other.is_empty()) {
        if other != library.as_os_str().as_bytes() {
            all.push(":");
            all.push(std::ffi::OsStr::from_bytes(other));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_library_is_looked_for_near_the_command() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let own = root.join("bin");
        let missing = find_from(None, Some(&own)).unwrap_err();
        assert_eq!(missing.hint, "cargo build --release");
        // from the weakest place to the strongest
        for place in ["lib", "lib/gannet", "bin/deps", "bin"] {
            let place = root.join(place);
            fs::create_dir_all(&place).unwrap();
            fs::create_dir_all(&own).unwrap();
            fs::write(place.join(NAME), "").unwrap();
            assert_eq!(find_from(None, Some(&own)).unwrap(), place.join(NAME));
        }
        let named = root.join("named.so");
        let wrong = find_from(Some(named.clone().into()), Some(&own)).unwrap_err();
        assert!(wrong.why.contains("named.so"), "{wrong}");
        fs::write(&named, "").unwrap();
        assert_eq!(find_from(Some(named.clone().into()), None).unwrap(), named);
        let spaced = root.join("a b.so");
        fs::write(&spaced, "").unwrap();
        assert!(find_from(Some(spaced.into()), None).is_err());
    }

    #[test]
    fn other_libraries_stay() {
        for (before, after) in [
            (None, "/l.so"),
            (Some(""), "/l.so"),
            (Some("/a.so b.so"), "/l.so:/a.so:b.so"),
            (Some("/l.so:/a.so"), "/l.so:/a.so"),
        ] {
            let before = before.map(OsString::from);
            assert_eq!(preload_with(Path::new("/l.so"), before), after);
        }
    }
}
