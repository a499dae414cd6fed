//! The other process dies, by SIGKILL, at any moment; and who can see whose memory.

use crate::raw;
use crate::support::{
    End, Other, accept, connect, descriptors, mappings, network, options, send, take, until,
};
use gannet_base::Rng;
use gannet_drivers::wait::sleep;
use gannet_drivers::{Directory, Listener};
use gannet_link::{Frame, LinkState};
use rustix::net::{RecvFlags, recv};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// In a process of its own, so that descriptors and mappings can be counted.
#[test]
fn sigkill_a_hundred_times_leaves_nothing_behind() {
    let (runtime, _directory) = network();
    Other::start("survive", runtime.path()).finish();
}

/// The other process listens and connects in turn, and dies in the middle of an exchange.
pub(crate) fn survive(runtime: &Path, directory: &Directory) {
    let seed = 11;
    let mut rng = Rng::new(seed);
    let mut noticed = Vec::new();
    let mut before = (0, 0);
    for round in 0..100 {
        if round == 1 {
            // The first round has opened what stays open (the clock, the random source ...).
            before = (descriptors(), mappings());
        }
        let mut listener = None;
        let role = if round % 2 == 0 {
            "connect_and_echo"
        } else {
            "echo"
        };
        if round % 2 == 0 {
            listener = Some(Listener::bind(directory, "main", &options()).unwrap());
        }
        let mut other = Other::start(role, runtime);
        let mut end = match &mut listener {
            Some(listener) => accept(listener),
            None => connect(directory, "main", "echo"),
        };
        noticed.push(exchange_until_killed(&mut end, &mut other, &mut rng));
        bury(end);
        drop((listener, other));
        if round > 0 {
            assert_eq!(
                (descriptors(), mappings()),
                before,
                "round {round}, seed {seed}"
            );
        }
    }
    noticed.sort_unstable();
    let median = noticed[noticed.len() / 2];
    assert!(median < Duration::from_millis(100), "{noticed:?}");
    // The last victim was a listener: its files stay, and are no obstacle.
    Listener::bind(directory, "echo", &options()).unwrap();
    assert!(!directory.path().exists(), "files of the dead");
}

/// Sends and receives for a random while, kills, and returns how long it took to be told.
fn exchange_until_killed(end: &mut End, other: &mut Other, rng: &mut Rng) -> Duration {
    let start = Instant::now();
    let while_ = Duration::from_micros(rng.below(3_000));
    let mut frame = Frame::new();
    while start.elapsed() < while_ {
        let body = vec![1; rng.below(5_000) as usize];
        send(end, b"head", &body);
        end.flush();
        if rng.chance(700_000) && end.receive(&mut frame, &mut 8) {
            take(end, &frame);
        }
        end.reclaim();
    }
    let killed = Instant::now();
    other.kill();
    assert!(
        sleep(&[end.driver.control_fd()], Some(crate::support::PATIENCE)).unwrap(),
        "the death was never told"
    );
    let told = killed.elapsed();
    assert_eq!(end.driver.check_peer(), LinkState::Gone);
    told
}

/// What the dead one sent is read, and every block comes back.
fn bury(mut end: End) {
    let mut frame = Frame::new();
    while end.receive(&mut frame, &mut 1_000) {
        take(&mut end, &frame);
    }
    end.reclaim();
    end.pool.complete_all();
    end.pool.invariants();
    assert_eq!(end.pool.free_blocks(), end.pool.blocks());
    assert_eq!(end.pool.bad_completions(), 0);
    assert!(!send(&mut end, b"anybody there?", b""));
}

/// A child of the dead process holds its socket open: the death is told all the same.
#[test]
fn a_death_is_told_though_a_child_of_the_dead_lives_on() {
    let (runtime, directory) = network();
    let mut listener = Listener::bind(&directory, "main", &options()).unwrap();
    let mut other = Other::start("leave_an_heir", runtime.path());
    let mut end = accept(&mut listener);
    // The heir has been born when the message arrives.
    let heir = until("a message", || {
        let mut frame = Frame::new();
        let mut at = [0; 8];
        let _ = end.receive(&mut frame, &mut 8);
        std::fs::read(runtime.path().join("heir")).ok().map(|pid| {
            at[..pid.len()].copy_from_slice(&pid);
            i32::from_ne_bytes(at[..4].try_into().unwrap())
        })
    });
    assert_eq!(end.driver.check_peer(), LinkState::Up);
    other.kill();
    assert!(sleep(&[end.driver.control_fd()], Some(crate::support::PATIENCE)).unwrap());
    assert_eq!(end.driver.check_peer(), LinkState::Gone);
    let heir = rustix::process::Pid::from_raw(heir).unwrap();
    rustix::process::kill_process(heir, rustix::process::Signal::KILL).unwrap();
}

/// Makes a channel by hand and gives its socket to a child.
pub(crate) fn leave_an_heir(directory: &Directory) {
    let socket = raw::knock(directory, "main").unwrap();
    let file = raw::memory(raw::LAYOUT.bytes(), raw::seals());
    let bell = raw::bell();
    raw::say(
        &socket,
        &raw::hello("heir", raw::LAYOUT),
        &[file.as_fd(), bell.as_fd()],
    );
    let mut answer = [0; 200];
    recv(&socket, &mut answer[..], RecvFlags::empty()).unwrap();
    let mut heir = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::from(socket.try_clone().unwrap()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let path = directory.path().parent().unwrap().parent().unwrap();
    let (part, whole) = (path.join("heir.part"), path.join("heir"));
    std::fs::write(&part, heir.id().to_ne_bytes()).unwrap();
    std::fs::rename(part, whole).unwrap();
    // Killed long before the heir ends.
    heir.wait().unwrap();
}

/// S12: of two peers of one process neither has the other's memory.
#[test]
fn s12_memory_is_mapped_pairwise_and_no_further() {
    let (runtime, _directory) = network();
    Other::start("alone_with_two", runtime.path()).finish();
}

pub(crate) fn alone_with_two(runtime: &Path, directory: &Directory) {
    let mut listener = Listener::bind(directory, "main", &options()).unwrap();
    let others = [(); 2].map(|()| Other::start("connect_and_echo", runtime));
    let ends = [(); 2].map(|()| accept(&mut listener));
    let own = channel_files("self");
    assert_eq!(
        own.len(),
        4,
        "each channel: one memory of ours, one of the peer's"
    );
    let theirs = others.each_ref().map(|other| {
        let pid = other.0.id().to_string();
        // It maps our memory when our answer has arrived.
        until("the other side's mapping", || {
            let files = channel_files(&pid);
            (files.len() == 2).then_some(files)
        })
    });
    for files in &theirs {
        assert!(files.iter().all(|file| own.contains(file)));
    }
    assert!(theirs[0].iter().all(|file| !theirs[1].contains(file)));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let modes = maps.lines().filter(|l| l.contains("gannet-channel"));
    let writable = modes.filter(|l| l.contains(" rw-s ")).count();
    assert_eq!(writable, 2, "the peers' memory is read-only");
    drop(ends);
    others.into_iter().for_each(Other::finish);
}

/// The memory files mapped by a process: device and inode.
fn channel_files(pid: &str) -> Vec<(String, String)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let lines = maps.lines().filter(|l| l.contains("gannet-channel"));
    let files = lines.map(|line| {
        let mut words = line.split_whitespace().skip(3);
        let mut next = || words.next().unwrap_or("").to_string();
        (next(), next())
    });
    files.collect()
}
