//! Names that are taken, given back, left behind; and which users may use them.

#![allow(
    unsafe_code,
    reason = "children with other users, which only fork can make"
)]

use super::*;
use crate::name::{Family, Place, stem};
use std::os::unix::fs::PermissionsExt;

/// A network in a directory of a test's own.
pub(crate) struct Private {
    pub(crate) network: Network,
    directory: tempfile::TempDir,
}

impl Private {
    pub(crate) fn new() -> Private {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let path = directory.path().as_os_str().as_bytes();
        let network = Network::at(path, uid, 0).unwrap();
        Private { network, directory }
    }

    fn left(&self) -> Vec<String> {
        let mut names = self.network.names();
        names.sort_unstable();
        names
    }
}

fn socket() -> OwnedFd {
    stream_socket(SocketFlags::CLOEXEC).unwrap()
}

fn place() -> Stem {
    stem(Family::Four, Place::Loopback, 80)
}

#[test]
fn a_network_is_told_by_user_carrier_and_path() {
    let network = Network::at(b"/run/x:y", 7, 0).unwrap().with_carrier(9);
    assert_eq!(network.to_string(), "7:9:/run/x:y");
    assert_eq!(Network::parse("7:9:/run/x:y"), Some(network));
    for bad in [
        "",
        "7:9",
        "7:9:relative",
        "x:9:/run",
        "7:-1:/run",
        "7:9:/a\0b",
    ] {
        assert_eq!(Network::parse(bad), None, "{bad:?}");
    }
    assert_eq!(Network::at(&[b'/'; PATH_MAX + 1], 0, 0), None);
    assert!(Network::at(&[b'/'; PATH_MAX], 0, 0).is_some());
}

#[test]
fn a_name_is_free_once_no_socket_has_it() {
    let private = Private::new();
    let network = private.network;
    let (first, second) = (socket(), socket());
    network.take(&first, &place(), false).unwrap();
    // Bound and not listening: as taken as when it listens.
    assert_eq!(
        network.take(&second, &place(), false),
        Err(Errno::ADDRINUSE)
    );
    assert_eq!(network.take(&second, &place(), true), Err(Errno::ADDRINUSE));
    rustix::net::listen(&first, 1).unwrap();
    assert_eq!(
        network.take(&second, &place(), false),
        Err(Errno::ADDRINUSE)
    );
    // As after a kill.
    drop(first);
    assert_eq!(private.left(), ["l-4-lo-80-0"]);
    network.take(&second, &place(), false).unwrap();
    let name = place().listener(&network, 0).unwrap();
    assert!(!network.remove_stale(&name), "it lives");
    drop(second);
    assert!(network.remove_stale(&name));
    assert!(private.left().is_empty());
}

#[test]
fn those_who_share_a_place_keep_others_out_and_leave_nothing_behind() {
    let private = Private::new();
    let network = private.network;
    let mut all: Vec<OwnedFd> = (0..3).map(|_| socket()).collect();
    for fd in &all {
        network.take(fd, &place(), true).unwrap();
    }
    let alone = socket();
    assert_eq!(network.take(&alone, &place(), false), Err(Errno::ADDRINUSE));
    let names = ["l-4-lo-80-1", "l-4-lo-80-2", "l-4-lo-80-3", "s-4-lo-80"];
    assert_eq!(private.left(), names);
    all.remove(0);
    network.sweep();
    assert_eq!(
        private.left(),
        names[1..],
        "the marker stays with the others"
    );
    let alone = socket();
    assert_eq!(network.take(&alone, &place(), false), Err(Errno::ADDRINUSE));
    all.clear();
    network.sweep();
    assert!(private.left().is_empty());
    let alone = socket();
    network.take(&alone, &place(), false).unwrap();
    let more = socket();
    assert_eq!(network.take(&more, &place(), true), Err(Errno::ADDRINUSE));
}

#[test]
fn what_the_file_mode_creation_mask_takes_away_is_given_back() {
    let private = Private::new();
    let name = name::carrier(&private.network, 1).unwrap();
    let fd = socket();
    let bound = in_child(|| {
        rustix::process::umask(Mode::RWXU);
        private.network.bind(&fd, &name).is_ok()
    });
    assert!(bound);
    let mode = std::fs::metadata(private.directory.path().join("h-0000000000000001"));
    assert_eq!(mode.unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_sweep_leaves_what_is_not_ours_and_what_lives() {
    let private = Private::new();
    let network = private.network;
    std::fs::write(private.directory.path().join("notes"), "").unwrap();
    let claim = network.claim("10.0.0.1".parse().unwrap(), 3).unwrap();
    assert!(network.has_claimed("10.0.0.1".parse().unwrap(), 3));
    assert!(!network.has_claimed("10.0.0.1".parse().unwrap(), 4));
    drop(network.claim("10.0.0.2".parse().unwrap(), 3).unwrap());
    network.sweep();
    assert_eq!(private.left(), ["a-a000001-0000000000000003", "notes"]);
    drop(claim);
    network.leave();
    assert_eq!(private.left(), ["notes"]);
}

fn in_child(work: impl FnOnce() -> bool) -> bool {
    use rustix::process::{Pid, WaitOptions, waitpid};
    // SAFETY: the child makes system calls, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = work();
        // SAFETY: nothing of the parent's is run.
        unsafe { libc::_exit(i32::from(!done)) };
    }
    let status = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap();
    status.unwrap().1.exit_status() == Some(0)
}

/// In a child with another user, as root alone can make one.
fn as_another_user(work: impl FnOnce() -> bool) -> Option<bool> {
    let root = rustix::process::geteuid().is_root();
    root.then(|| {
        in_child(|| {
            // SAFETY: no pointers.
            let changed = unsafe { libc::setgid(12_345) == 0 && libc::setuid(12_345) == 0 };
            changed && work()
        })
    })
}

#[test]
fn s4_another_user_can_neither_take_nor_reach_nor_remove_a_name() {
    let private = Private::new();
    let network = private.network;
    let listener = socket();
    network.take(&listener, &place(), false).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let name = place().listener(&network, 0).unwrap();
    let other = stem(Family::Four, Place::Loopback, 81);
    let kept_out = as_another_user(|| {
        let connected = rustix::net::connect(socket(), &name);
        let taken = rustix::net::bind(socket(), &other.listener(&network, 0).unwrap());
        let removed = rustix::fs::unlink(name.path_bytes().unwrap());
        let all = [
            connected,
            taken,
            removed,
            network.take(socket(), &other, true),
        ];
        all.iter().all(|each| *each == Err(Errno::ACCESS)) && !network.is_visible()
    });
    assert_ne!(kept_out, Some(false));
    assert!(network.is_visible());
    assert_eq!(private.left(), ["l-4-lo-80-0"]);
}

#[test]
fn s4_a_process_of_another_user_is_neither_admitted_nor_a_carrier() {
    let private = Private::new();
    let network = private.network.with_carrier(std::process::id());
    let name =
        SocketAddrUnix::new_abstract_name(format!("gannet-test-{}", std::process::id()).as_bytes())
            .unwrap();
    let listener = socket();
    rustix::net::bind(&listener, &name).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    let come = |fd: &OwnedFd| rustix::net::connect(fd, &name).is_ok();
    let ours = socket();
    assert!(come(&ours) && network.is_carrier(&ours));
    assert!(
        !network.with_carrier(1 << 20).is_carrier(&ours),
        "another process of the user's"
    );
    assert!(network.admits(rustix::net::accept(&listener).unwrap()));
    let stranger = as_another_user(|| come(&socket()));
    if stranger == Some(true) {
        assert!(!network.admits(rustix::net::accept(&listener).unwrap()));
    }
    assert_ne!(stranger, Some(false));
    let believed = as_another_user(|| {
        let own = socket();
        let mine = SocketAddrUnix::new_abstract_name(b"gannet-test-forged").unwrap();
        let listens =
            rustix::net::bind(&own, &mine).is_ok() && rustix::net::listen(&own, 1).is_ok();
        let asks = socket();
        listens && rustix::net::connect(&asks, &mine).is_ok() && !network.is_carrier(&asks)
    });
    assert_ne!(believed, Some(false));
}
