//! Finding each other, data both ways, simultaneous connects, calls that make no sense.

use crate::support::{
    Other, accept, both_ends, connect, network, now, options, receive, send, until,
};
use gannet_base::Rng;
use gannet_drivers::channel::{HugePages, Options};
use gannet_drivers::{Connector, Listener};
use gannet_link::{Driver, LinkState};
use std::io::ErrorKind;

#[test]
fn two_processes_exchange_slots() {
    let (runtime, directory) = network();
    let other = Other::start("echo", runtime.path());
    let mut end = connect(&directory, "main", "echo");
    assert_eq!(
        (end.driver.peer_name(), end.driver.own_name()),
        ("echo", "main")
    );
    assert_eq!(end.driver.peer_pid(), Some(other.0.id()));
    let blocks = end.pool.free_blocks();
    let seed = 7;
    let mut rng = Rng::new(seed);
    for round in 0..2_000 {
        let mut bytes = vec![0; 1 + rng.below(9_000) as usize];
        rng.fill(&mut bytes);
        let (head, body) = bytes.split_at(bytes.len().min(40));
        assert!(send(&mut end, head, body));
        end.flush();
        assert_eq!(receive(&mut end), Some(bytes), "round {round}, seed {seed}");
    }
    until("the last block to come back", || {
        end.reclaim();
        (end.pool.free_blocks() == blocks).then_some(())
    });
    assert_eq!(end.faults().total(), 0);
    drop(end);
    other.finish();
}

#[test]
fn the_other_side_may_connect() {
    let (runtime, directory) = network();
    let mut listener = Listener::bind(&directory, "main", &options()).unwrap();
    let other = Other::start("connect_and_echo", runtime.path());
    let mut end = accept(&mut listener);
    assert_eq!(end.driver.peer_name(), "other");
    assert!(send(&mut end, b"hello", b""));
    end.flush();
    assert_eq!(receive(&mut end).as_deref(), Some(&b"hello"[..]));
    drop(end);
    other.finish();
}

/// Both are asleep most of the time; every wake-up arrives.
#[test]
fn sleeping_sides_wake_each_other() {
    let (runtime, directory) = network();
    let other = Other::start("echo", runtime.path());
    let mut end = connect(&directory, "main", "echo");
    for round in 0..300u32 {
        // Longer than the other side spins.
        std::thread::sleep(std::time::Duration::from_micros(300));
        assert!(send(&mut end, &round.to_le_bytes(), b""));
        end.flush();
        assert_eq!(receive(&mut end), Some(round.to_le_bytes().to_vec()));
    }
    assert!(end.driver.stats().wakeups > 0, "the other side did sleep");
    drop(end);
    other.finish();
}

#[test]
fn every_kind_of_page() {
    for huge_pages in [HugePages::Never, HugePages::Wish, HugePages::Reserve] {
        let (_runtime, directory) = network();
        let options = Options {
            huge_pages,
            ..options()
        };
        let mut listener = Listener::bind(&directory, "a", &options).unwrap();
        let mut connector = Connector::start(&directory, "b", "a", &options, now()).unwrap();
        let mut a = accept(&mut listener);
        let mut b = until("a channel", || connector.progress(now()).unwrap());
        assert!(send(&mut b, b"x", &[9; 5000]));
        b.flush();
        assert_eq!(receive(&mut a).map(|bytes| bytes.len()), Some(5001));
    }
}

/// Of two channels that were made from opposite sides at once both sides keep the same one.
#[test]
fn simultaneous_connects_end_in_one_channel() {
    let (_runtime, directory) = network();
    let mut low = Listener::bind(&directory, "low", &options()).unwrap();
    let mut top = Listener::bind(&directory, "top", &options()).unwrap();
    let mut from_low = Connector::start(&directory, "low", "top", &options(), now()).unwrap();
    let mut from_top = Connector::start(&directory, "top", "low", &options(), now()).unwrap();
    let in_top = accept(&mut top);
    let in_low = accept(&mut low);
    let out_low = until("a channel", || from_low.progress(now()).unwrap());
    let out_top = until("a channel", || from_top.progress(now()).unwrap());
    for (kept, dropped) in [(&out_low, &in_low), (&in_top, &out_top)] {
        assert!(kept.driver.supersedes(&dropped.driver));
        assert!(!dropped.driver.supersedes(&kept.driver));
    }
    let (mut a, mut b) = (out_low, in_top);
    drop((in_low, out_top));
    assert!(send(&mut a, b"still here", b""));
    a.flush();
    assert_eq!(receive(&mut b).as_deref(), Some(&b"still here"[..]));
}

#[test]
fn goodbye_is_noticed_and_what_was_sent_before_arrives() {
    let (_runtime, directory) = network();
    let (mut a, mut b) = both_ends(&directory);
    assert!(send(&mut a, b"last words", &[3; 100]));
    a.flush();
    drop(a);
    assert_eq!(b.driver.check_peer(), LinkState::Gone);
    assert_eq!(receive(&mut b).map(|bytes| bytes.len()), Some(110));
    assert_eq!(receive(&mut b), None);
    assert!(!b.driver.arm(), "nothing to sleep for");
    assert!(!send(&mut b, b"anybody there?", b""));
}

#[test]
fn mistakes_are_named() {
    let (_runtime, directory) = network();
    let start = |own, peer| Connector::start(&directory, own, peer, &options(), now());
    let kind = |result: std::io::Result<Connector>| result.unwrap_err().kind();
    assert_eq!(kind(start("a", "nobody")), ErrorKind::ConnectionRefused);
    assert_eq!(kind(start("a", "a")), ErrorKind::InvalidInput);
    assert_eq!(kind(start("a", "../a")), ErrorKind::InvalidInput);
    let _listener = Listener::bind(&directory, "x", &options()).unwrap();
    let taken = Listener::bind(&directory, "x", &options()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    let mut bad = options();
    bad.layout.slots = 3;
    let error = Listener::bind(&directory, "y", &bad).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_listener_that_never_answers_costs_a_time_out() {
    let (_runtime, directory) = network();
    let _listener = Listener::bind(&directory, "x", &options()).unwrap();
    let mut connector = Connector::start(&directory, "a", "x", &options(), now()).unwrap();
    assert!(connector.progress(now()).unwrap().is_none());
    let late = connector.next_deadline();
    assert_eq!(
        connector.progress(late).err().unwrap().kind(),
        ErrorKind::TimedOut
    );
}
