//! Which directory it is, and when it is refused.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn private() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    mode(directory.path(), 0o700);
    directory
}

fn of(base: &Path, private: bool) -> Candidate {
    Candidate {
        base: base.to_owned(),
        name: "gannet".to_owned(),
        private,
    }
}

#[test]
fn the_places_of_a_user_and_of_root() {
    let list = |uid, runtime: Option<&str>, home: Option<&str>| -> Vec<String> {
        let path = |text: Option<&str>| text.map(PathBuf::from);
        let all = candidates(uid, path(runtime), path(home), "/tmp".into());
        let full = |c: &Candidate| c.base.join(&c.name).display().to_string();
        all.iter().map(full).collect()
    };
    assert_eq!(
        list(7, Some("/run/user/7"), Some("/home/x")),
        [
            "/run/user/7/gannet",
            "/run/user/7/gannet",
            "/home/x/.gannet",
            "/tmp/gannet-7"
        ]
    );
    assert_eq!(
        list(0, Some("relative"), None),
        ["/run/gannet", "/run/user/0/gannet", "/tmp/gannet-0"]
    );
}

#[test]
fn the_first_that_can_be_had_is_taken() {
    let (open, closed) = (private(), private());
    mode(open.path(), 0o755);
    let all = [of(open.path(), true), of(closed.path(), true)];
    let found = first(&all, 100).unwrap();
    assert_eq!(found.path, closed.path().join("gannet"));
    let bits = fs::metadata(&found.path).unwrap().permissions().mode();
    assert_eq!(bits & 0o7777, 0o700);
    let error = first(&all, 10).unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(Errno::NAMETOOLONG.raw_os_error())
    );
}

#[test]
fn what_another_user_could_have_made_is_refused_in_three_lines() {
    let base = private();
    let made = base.path().join("gannet");
    let all = [of(base.path(), false)];
    let elsewhere = private();
    symlink(elsewhere.path(), &made).unwrap();
    first(&all, 100).expect_err("a link in place of the directory");
    fs::remove_file(&made).unwrap();
    fs::create_dir(&made).unwrap();
    mode(&made, 0o755);
    let error = first(&all, 100).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 3, "{error}");
    mode(&made, 0o700);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&made, Some(12_345), None).unwrap();
        let error = first(&all, 100).unwrap_err().to_string();
        assert!(error.contains("another user"), "{error}");
        assert_eq!(error.lines().count(), 3, "{error}");
        open_checked(&made).expect_err("another user's");
        std::os::unix::fs::chown(&made, Some(0), None).unwrap();
    }
    assert!(first(&all, 100).is_ok() && open_checked(&made).is_ok());
    mode(base.path(), 0o777);
    first(&all, 100).expect_err("others may rename it");
    mode(base.path(), 0o1777);
    assert!(first(&all, 100).is_ok(), "like /tmp: sticky");
}

#[test]
fn a_lock_that_another_process_keeps_is_not_waited_for() {
    let base = private();
    let (one, other) = (
        open_base(base.path()).unwrap(),
        open_base(base.path()).unwrap(),
    );
    let held = lock(&one).unwrap();
    assert_eq!(lock(&other).err(), Some(Errno::WOULDBLOCK));
    drop(held);
    assert!(lock(&other).is_ok());
}
