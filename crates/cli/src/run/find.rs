//! Finds a program as `execvp` does, and follows scripts to what runs them.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gannet_bench::Problem;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::elf::{self, Image};
use super::ending::Failed;

/// What PATH is where there is none.
const USUAL_PATH: &str = "/bin:/usr/bin";
/// How many scripts may run one another: the kernel follows five.
const SCRIPTS_MAX: usize = 5;

/// A program that exists and may be executed.
#[derive(Debug)]
pub(super) struct Found {
    /// What is executed.
    pub(super) path: PathBuf,
    /// The files that are loaded for it, with their contents: itself, or what runs the script.
    pub(super) images: Vec<(PathBuf, io::Result<Image>)>,
}

/// Looks for `name` in this process's PATH.
pub(super) fn find(name: &OsStr) -> Result<Found, Failed> {
    let path = env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let path = look_up(name, &path)?;
    let mut images = Vec::new();
    follow(&path, SCRIPTS_MAX, &mut images)?;
    Ok(Found { path, images })
}

/// The file that `name` stands for.
fn look_up(name: &OsStr, path: &OsStr) -> Result<PathBuf, Failed> {
    let what = || format!("cannot start {}", name.to_string_lossy());
    if name.as_bytes().contains(&b'/') {
        let file = PathBuf::from(name);
        return executable(&file).map(|()| file);
    }
    let mut refused = None;
    for directory in env::split_paths(path).take(1000) {
        let file = match directory.as_os_str().is_empty() {
            true => Path::new(".").join(name),
            false => directory.join(name),
        };
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(failed) if !is_missing(&file) => refused = refused.or(Some(failed)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| {
        let why = "no directory of PATH has a program of that name";
        Failed::not_found(Problem::new(what(), why, "its full path, or another PATH"))
    }))
}

fn is_missing(file: &Path) -> bool {
    fs::metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether this process may execute `file`.
fn executable(file: &Path) -> Result<(), Failed> {
    let what = format!("cannot start {}", file.display());
    let data = fs::metadata(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let hint = "ls -l, for a name like that";
            Failed::not_found(Problem::new(&*what, "there is no such file", hint))
        }
        _ => Failed::not_executable(Problem::new(&*what, error, "ls -ld, on each directory")),
    })?;
    let why = match data.is_file() {
        false if data.is_dir() => "it is a directory".to_owned(),
        false => "it is no ordinary file".to_owned(),
        true => match accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) => return Ok(()),
            Err(error) => io::Error::from(error).to_string(),
        },
    };
    let hint = format!("chmod +x {}, if it is a program", file.display());
    Err(Failed::not_executable(Problem::new(what, why, hint)))
}

/// Reads `file`, and what runs it if it is a script.
fn follow(
    file: &Path,
    left: usize,
    images: &mut Vec<(PathBuf, io::Result<Image>)>,
) -> Result<(), Failed> {
    let image = elf::read(file);
    let Ok(Image::Script(interpreter, argument)) = &image else {
        images.push((file.to_owned(), image));
        return Ok(());
    };
    let what = || format!("cannot start {}", file.display());
    let Some(left) = left.checked_sub(1) else {
        let why = "scripts that run scripts, too many times over";
        let hint = "a first line that names a program";
        return Err(Failed::not_executable(Problem::new(what(), why, hint)));
    };
    if let Err(Failed { status, problem }) = executable(interpreter) {
        let why = format!("its interpreter {}: {}", interpreter.display(), problem.why);
        let hint = "install the interpreter, or correct the script's first line";
        let problem = Problem::new(what(), why, hint);
        return Err(Failed { status, problem });
    }
    follow(interpreter, left, images)?;
    // `#!/usr/bin/env python3` runs what PATH has
    if interpreter.file_name() == Some(OsStr::new("env"))
        && let Some(name) = env_target(argument)
    {
        let path = env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
        if let Ok(target) = look_up(OsStr::new(name), &path) {
            follow(&target, left, images)?;
        }
    }
    Ok(())
}

/// The program among the words of an `env` line: the first that is no option and sets nothing.
fn env_target(argument: &str) -> Option<&str> {
    let mut words = argument.split_whitespace();
    words.find(|word| !word.starts_with('-') && !word.contains('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let file = directory.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn paths_are_searched_in_order() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        for directory in [&a, &b] {
            fs::create_dir(directory).unwrap();
        }
        script(&a, "plain", "#!/bin/sh\n", 0o644);
        let plain = script(&b, "plain", "#!/bin/sh\n", 0o755);
        script(&a, "never", "#!/bin/sh\n", 0o644);
        fs::create_dir(a.join("directory")).unwrap();
        let path = env::join_paths([&a, &b]).unwrap();
        let found = look_up(OsStr::new("plain"), &path).unwrap();
        assert_eq!(found, plain, "the first that can be executed");
        for (name, status, why) in [
            ("never", 126, "ermission denied"),
            ("directory", 126, "it is a directory"),
            ("nothing", 127, "no directory of PATH"),
            ("", 126, "it is a directory"),
            ("./nothing/at/all", 127, "no such file"),
            ("/etc/passwd/x", 127, "no such file"),
            ("/dev/null", 126, "no ordinary file"),
        ] {
            let failed = look_up(OsStr::new(name), &path).unwrap_err();
            assert_eq!(failed.status, status, "{name}: {}", failed.problem);
            assert!(
                failed.problem.why.contains(why),
                "{name}: {}",
                failed.problem
            );
        }
    }

    #[test]
    fn scripts_lead_to_what_runs_them() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| script(root.path(), name, text, 0o755);
        let images = |file: &Path| {
            let mut images = Vec::new();
            follow(file, SCRIPTS_MAX, &mut images).map(|()| images)
        };
        let names = |file: &Path| -> Vec<PathBuf> {
            images(file)
                .unwrap()
                .into_iter()
                .map(|(path, _)| path)
                .collect()
        };
        assert_eq!(
            names(&at("sh", "#! /bin/sh -e\nexit")),
            [Path::new("/bin/sh")]
        );
        let outer = at(
            "outer",
            &format!("#!{}\n", root.path().join("sh").display()),
        );
        assert_eq!(names(&outer), [Path::new("/bin/sh")]);
        let env = names(&at("env", "#!/usr/bin/env -S A=1 sh -e\n"));
        assert_eq!(env[0], Path::new("/usr/bin/env"));
        assert!(env[1].ends_with("sh"), "{env:?}");
        assert_eq!(names(&at("text", "echo")).len(), 1);

        let lost = images(&at("lost", "#!/no/such/interpreter\n")).unwrap_err();
        assert_eq!(lost.status, 127);
        assert!(lost.problem.why.contains("/no/such/interpreter"));
        let circle = root.path().join("circle");
        at("circle", &format!("#!{}\n", circle.display()));
        assert_eq!(images(&circle).unwrap_err().status, 126);
    }

    #[test]
    fn what_env_runs() {
        for (line, name) in [
            ("python3", Some("python3")),
            ("-S node --harmony", Some("node")),
            ("-S -i A=b perl -w", Some("perl")),
            ("", None),
            ("-i", None),
        ] {
            assert_eq!(env_target(line), name);
        }
    }
}
