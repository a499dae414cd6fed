//! No wake-up is lost. Each test is one interleaving of threads, made by one thread: it takes the
//! part of whoever else is inside at the very moment at which that matters.

use super::*;
use crate::address::Prefix;
use crate::driver::{AnyDriver, any};
use crate::network::Network;
use crate::watch::{Signal, Signals};
use gannet_drivers::channel::{Connector, Directory, Options};
use gannet_stack::udp::{UdpError, UdpId};
use gannet_stack::{Config, Stack};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Only how long a failure takes: whoever waits as long as this has slept through the news.
const TOO_LONG: Duration = Duration::from_secs(5);

thread_local! {
    /// What others do while this thread is about to lock a shard, one entry for each time.
    static OTHERS: RefCell<VecDeque<Box<dyn FnOnce()>>> = RefCell::default();
}

/// This thread does not hold the lock now: others may, and do.
pub(super) fn lock_is_open() {
    let other = OTHERS.with_borrow_mut(VecDeque::pop_front);
    if let Some(other) = other {
        other();
    }
}

/// A host without a background thread: nothing happens but what the test does.
struct Side {
    shared: Shared,
    socket: UdpId,
    address: SocketAddr,
}

impl Side {
    fn new(network: &str, last: u8) -> Side {
        let watch = Arc::new(Watch::new().unwrap());
        let stack = Stack::new(Config::new([last; 16], u64::from(last)));
        let mut shard = Shard::new(stack, watch.clone());
        let own = Prefix::parse(&format!("10.0.0.{last}/24")).unwrap();
        let joined = Network::join(network, own, Options::default()).unwrap();
        shard.add_network(joined).unwrap();
        let address = SocketAddr::new(own.address, 7);
        let socket = shard.stack.udp_bind(address).unwrap();
        let policy = WaitPolicy {
            spin_max: Duration::ZERO,
            ..WaitPolicy::default()
        };
        Side {
            shared: Shared::new(shard, watch, policy),
            socket,
            address,
        }
    }

    fn socket(&self) -> Socket {
        Socket::Datagrams(self.socket)
    }

    /// Leaves a datagram for `to` on the link, not yet announced to it.
    fn send(&self, to: &Side, text: &[u8]) {
        let mut shard = self.shared.lock();
        let (stack, to) = (&mut shard.stack, Some(to.address));
        let sent = stack.udp_send_to(clock::now(), self.socket, text, to);
        assert_eq!(sent, Ok(text.len()));
    }

    /// What has been taken in.
    fn receive(&self, shard: &mut Shard) -> Poll<io::Result<usize>> {
        let mut space = [0; 100];
        match shard.stack.udp_recv_from(self.socket, &mut space) {
            Ok((len, _, _)) => Poll::Ready(Ok(len)),
            Err(UdpError::WouldBlock) => Poll::Pending,
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Some thread falls asleep as the leader. (None does, but it looks just so.)
    fn leader_lies_down(&self) {
        let mut shard = self.shared.lock();
        for _ in 0..100 {
            shard.turn(clock::now());
            if shard.stack.arm() {
                shard.waiting.leader = Some(Leader {
                    socket: None,
                    until: Instant::FAR_FUTURE,
                    kicked: false,
                });
                return;
            }
        }
        panic!("a link that has nothing to tell cannot be armed");
    }

    /// What the leader, if it slept, would be woken for.
    fn wakes_for(&self) -> Vec<Signal> {
        let mut signals = Signals::default();
        self.shared.watch.wait(&mut signals, Some(Duration::ZERO));
        signals.iter().collect()
    }
}

fn is_ring(signals: &[Signal]) -> bool {
    matches!(signals, [Signal::Traffic(_)])
}

/// Two hosts in a network of their own.
fn two_sides(name: &str) -> (Side, Side) {
    let network = network(name);
    let sides = (Side::new(&network, 1), Side::new(&network, 2));
    link(&network, &sides.0, &sides.1);
    (sides.0, sides.1)
}

fn network(name: &str) -> String {
    format!("waiting-{name}-{}", std::process::id())
}

/// Makes the channel between them.
fn link(network: &str, one: &Side, two: &Side) {
    let directory = Directory::open(network).unwrap();
    let names = [two, one].map(|side| side.address.ip().to_string());
    let options = Options::default();
    let (start, mut now) = (clock::now(), clock::now());
    let mut connector = Connector::start(&directory, &names[0], &names[1], &options, now).unwrap();
    let to = |side: &Side, ip: IpAddr| side.shared.lock().unlinked_network(ip).is_none();
    while now < start + TOO_LONG {
        one.shared.lock().open_doors(0, now);
        if let Some(end) = connector.progress(now).unwrap() {
            let end = any(end, AnyDriver::Channel);
            let mut shard = two.shared.lock();
            shard.add_channel(0, end, one.address.ip()).unwrap();
        }
        if to(one, two.address.ip()) && to(two, one.address.ip()) {
            return;
        }
        now = clock::now();
    }
    panic!("no channel after {TOO_LONG:?}");
}

/// A bell that has rung once does not ring again until the links are armed anew. If somebody else
/// forgot the ring, the leader, which was about to be woken for it, slept on, deaf from then on.
#[test]
fn the_leaders_doorbell_is_left_to_the_leader() {
    let (here, there) = two_sides("bell");
    here.leader_lies_down();
    assert_eq!(here.wakes_for(), []);
    there.send(&here, b"news");
    there.shared.lock().stack.flush();
    assert!(is_ring(&here.wakes_for()), "no ring for a sleeper");

    // Before the leader has the lock somebody else turns the loop, and is told of the ring too.
    let mut shard = here.shared.lock();
    shard.turn_with_look(clock::now());
    assert!(here.receive(&mut shard).is_ready(), "the news is there");
    assert!(
        is_ring(&here.wakes_for()),
        "the leader's ring was forgotten"
    );

    // The leader itself forgets it, or it would never sleep again.
    shard.waiting.leader = None;
    shard.stack.disarm();
    shard.turn_with_look(clock::now());
    assert_eq!(here.wakes_for(), [], "a ring that nobody forgets");
}

/// Somebody else may take in what a call waits for whenever the call has not got the lock, and
/// tells nobody if nobody sleeps yet. So a call that falls asleep after that must look again first.
#[test]
fn what_came_in_while_the_lock_was_open_is_not_slept_through() {
    // Another thread that spins makes this one a follower, else it leads.
    for (name, others) in [("follows", 1), ("leads", 0)] {
        // The lock is open before the first look, and between the last but one and the last.
        for before in 0..2 {
            let (here, there) = two_sides(&format!("open-{name}-{before}"));
            let (here, there) = (Arc::new(here), Arc::new(there));
            here.shared.lock().waiting.spinners = others;
            let (inside, sender) = (here.clone(), there.clone());
            let other = move || {
                sender.send(&inside, b"news");
                sender.shared.lock().stack.flush();
                let mut shard = inside.shared.lock();
                let Waiting { leader, asleep, .. } = &shard.waiting;
                assert!(
                    leader.is_none() && *asleep == 0,
                    "{name}: the lock was not opened"
                );
                shard.turn(clock::now());
            };
            OTHERS.with_borrow_mut(|others| {
                others.extend((0..before).map(|_| Box::new(|| {}) as Box<dyn FnOnce()>));
                others.push_back(Box::new(other));
            });
            let end = clock::now() + TOO_LONG;
            let habit = Habit::default();
            let got = here.shared.wait(
                here.socket(),
                (Patience::Until(end), &habit),
                |shard, now| {
                    let late = now >= end;
                    here.receive(shard).map(|got| got.map(|len| (len, late)))
                },
            );
            let (len, late) = got.unwrap();
            assert_eq!(len, b"news".len());
            assert!(
                !late,
                "{name}, opened {before} times before: slept through the news"
            );
            assert!(OTHERS.with_borrow(VecDeque::is_empty), "nobody came");
        }
    }
}

/// Whoever sleeps has armed the links that were there; a new one does not ring for it.
#[test]
fn a_new_link_wakes_the_leader() {
    let network = network("link");
    let (here, there) = (Side::new(&network, 1), Side::new(&network, 2));
    here.leader_lies_down();
    there.leader_lies_down();
    link(&network, &here, &there);
    assert_eq!(here.wakes_for(), [Signal::Kick], "accepted");
    assert_eq!(there.wakes_for(), [Signal::Kick], "connected");
}

/// The leader sleeps until the first timer that there was when it lay down. An attempt that sets an
/// earlier one and then follows must tell it.
#[test]
fn a_follower_tells_the_leader_of_its_timer() {
    let (here, there) = two_sides("timer");
    here.leader_lies_down();
    let (shard, _) = here
        .shared
        .follow(here.shared.lock(), here.socket(), Instant::ZERO);
    drop(shard);
    assert_eq!(here.wakes_for(), [], "no timer, no kick");

    let mut shard = here.shared.lock();
    let connection = shard
        .stack
        .tcp_connect(clock::now(), None, there.address)
        .unwrap();
    assert!(shard.next_timeout() < Instant::FAR_FUTURE);
    let socket = Socket::Connection(connection);
    drop(here.shared.follow(shard, socket, Instant::ZERO));
    assert_eq!(here.wakes_for(), [Signal::Kick]);
}

/// What the last attempt sent must not wait for the sleeper to wake up, which may wait for the
/// answer to it. Who was asleep at the other end is rung for, else nothing would wake it either.
#[test]
fn nobody_sleeps_on_what_it_has_to_say() {
    for leads in [false, true] {
        let (here, there) = two_sides(&format!("flush-{leads}"));
        there.leader_lies_down();
        here.send(&there, b"news");
        assert_eq!(there.wakes_for(), [], "announced with what follows it");
        let shard = here.shared.lock();
        match leads {
            false => drop(here.shared.follow(shard, here.socket(), Instant::ZERO)),
            true => drop(here.shared.lead(shard, None, Instant::ZERO)),
        }
        assert!(
            is_ring(&there.wakes_for()),
            "kept to itself, leads: {leads}"
        );
    }
}

/// Rare news teach a wait not to spin, frequent news to spin again; other waits do not learn of it.
#[test]
fn a_wait_gets_into_a_habit() {
    let policy = WaitPolicy::default();
    let (habit, other) = (Habit::default(), Habit::default());
    let sleeps = |each: Duration| {
        for _ in 0..6 {
            let mut spinner = habit.spinner(policy);
            spinner.slept(each);
            habit.learn(policy, &spinner);
        }
        habit.spinner(policy).window()
    };
    assert_eq!(sleeps(policy.spin_max * 10), Duration::ZERO);
    assert_eq!(other.spinner(policy).window(), policy.spin_max);
    assert_eq!(sleeps(policy.spin_max / 10), policy.spin_max);
    let mut fixed = policy;
    fixed.spin_max = Duration::ZERO;
    assert_eq!(habit.spinner(fixed).window(), Duration::ZERO);
}
