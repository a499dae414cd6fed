//! Who has a name, and whose directory it is.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn runtime() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn names() {
    for good in ["a", "10.0.0.1", "fe80::1", "a b", "\u{e9}"] {
        assert_eq!(Name::new(good).unwrap().as_str(), good);
    }
    let long = "x".repeat(NAME_MAX + 1);
    for bad in ["", ".", "..", ".x", "a/b", "a\0b", "a\nb", &long] {
        let error = Name::new(bad).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad:?}");
    }
}

#[test]
fn a_name_belongs_to_one_at_a_time() {
    let runtime = runtime();
    let directory = Directory::open_below(runtime.path(), "n").unwrap();
    let name = Name::new("x").unwrap();
    let claim = directory.claim(&name).unwrap();
    let error = directory.claim(&name).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains("\"x\""), "{error}");
    directory.claim(&Name::new("y").unwrap()).unwrap();
    drop(claim);
    assert!(!directory.path().exists(), "nothing is left");
    directory.claim(&name).unwrap();
}

#[test]
fn what_a_dead_owner_left_is_cleared_away() {
    let runtime = runtime();
    let directory = Directory::open_below(runtime.path(), "n").unwrap();
    fs::write(directory.path().join("x.sock"), "stale").unwrap();
    fs::write(directory.path().join("x.lock"), "stale").unwrap();
    let _claim = directory.claim(&Name::new("x").unwrap()).unwrap();
    assert!(!directory.path().join("x.sock").exists());
}

/// Many threads fight for one name and let go at once: never two have it.
#[test]
fn a_name_never_has_two_owners() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let runtime = runtime();
    let owners = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let directory = Directory::open_below(runtime.path(), "n").unwrap();
                let name = Name::new("x").unwrap();
                let mut won = 0;
                while won < 200 {
                    let Ok(claim) = directory.claim(&name) else {
                        continue;
                    };
                    assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0);
                    owners.fetch_sub(1, Ordering::SeqCst);
                    drop(claim);
                    won += 1;
                }
            });
        }
    });
}

#[test]
fn directories_of_others_are_refused() {
    let runtime = runtime();
    let open = || Directory::open_below(runtime.path(), "n");
    let made = runtime.path().join("gannet");

    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), &made).unwrap();
    open().expect_err("a link in place of the directory");
    fs::remove_file(&made).unwrap();

    fs::write(&made, "").unwrap();
    open().expect_err("a file in place of the directory");
    fs::remove_file(&made).unwrap();

    fs::create_dir(&made).unwrap();
    fs::set_permissions(&made, fs::Permissions::from_mode(0o755)).unwrap();
    let error = open().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("try: chmod 700"), "{error}");
    fs::set_permissions(&made, fs::Permissions::from_mode(0o700)).unwrap();

    let directory = open().unwrap();
    let mode = fs::metadata(directory.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);

    fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(open().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    open().expect("like /tmp: sticky");
}

#[test]
fn long_paths_still_have_an_address() {
    let runtime = runtime();
    let deep = runtime.path().join("d".repeat(120));
    fs::create_dir(&deep).unwrap();
    let directory = Directory::open_below(&deep, "n").unwrap();
    let address = directory.address(&Name::new(&"x".repeat(NAME_MAX)).unwrap());
    assert!(
        address
            .unwrap()
            .path_bytes()
            .unwrap()
            .starts_with(b"/proc/self/fd/")
    );
}

#[test]
fn the_last_to_leave_removes_the_network_and_an_open_directory_makes_it_anew() {
    let runtime = runtime();
    let directory = Directory::open_below(runtime.path(), "n").unwrap();
    let [a, b] = ["a", "b"].map(|n| Name::new(n).unwrap());
    let first = directory.claim(&a).unwrap();
    let second = directory.claim(&b).unwrap();
    drop(first);
    assert!(directory.path().exists(), "somebody is still there");
    drop(second);
    assert!(!directory.path().exists());
    let again = directory.claim(&a).unwrap();
    assert!(directory.path().join("a.lock").exists());
    drop(again);
    assert!(!directory.path().exists());
}

/// Entering and leaving at once from many threads: nobody fails for want of the directory.
#[test]
fn a_network_removed_under_way_is_made_anew() {
    let runtime = runtime();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let path = runtime.path();
            scope.spawn(move || {
                let directory = Directory::open_below(path, "n").unwrap();
                let name = Name::new(&format!("{n}")).unwrap();
                for _ in 0..200 {
                    drop(directory.claim(&name).unwrap());
                }
            });
        }
    });
}
