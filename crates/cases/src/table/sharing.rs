//! Processes that share a listener, each with an epoll set of its own.

use super::case::{Case, case};
use crate::sys::{self, Addr};
use crate::talk::{Talk, nonblocking, take};
use libc::{EPOLL_CTL_ADD, EPOLLEXCLUSIVE, EPOLLIN, SIGKILL, SIGSTOP};

/// Processes that accept.
const PROCESSES: u8 = 4;
/// Connections that are made, one after the other, and stay.
const CONNECTIONS: usize = 64;

pub(super) const CASES: &[Case] = &[
    case("sharing/one-is-woken", |t| {
        t.say(served(t, EPOLLIN | EPOLLEXCLUSIVE, |_| ()));
    }),
    case("sharing/all-are-woken", |t| {
        t.say(served(t, EPOLLIN, |_| ()))
    }),
    case("sharing/one-is-stopped", |t| {
        let stop = |pids: &[i32]| {
            sys::kill(pids[1], SIGSTOP);
            sys::wait_stopped(pids[1]);
        };
        t.say(served(t, EPOLLIN | EPOLLEXCLUSIVE, stop));
    }),
    case("sharing/one-is-killed", |t| {
        let kill = |pids: &[i32]| {
            sys::kill(pids[1], SIGKILL);
            sys::waitpid(pids[1], 0);
        };
        t.say(served(t, EPOLLIN | EPOLLEXCLUSIVE, kill));
    }),
];

/// How many connections were accepted by anybody.
fn served(t: &Talk, events: i32, midway: fn(&[i32])) -> usize {
    let (listener, address) = t.listener();
    spread(listener, address, events, midway).iter().sum()
}

/// How many connections each of the processes accepts that share `listener`, which is in their
/// sets for `events`; all sleep when one comes. `midway` does something to them when half of the
/// connections are there.
pub(crate) fn spread(listener: i32, address: Addr, events: i32, midway: fn(&[i32])) -> Vec<usize> {
    nonblocking(listener);
    crate::far::here(listener);
    let serve = |n| sys::fork(|| greet_all(listener, events, n));
    let pids: Vec<i32> = (0..PROCESSES).map(serve).collect();
    let mut count = vec![0; PROCESSES.into()];
    for turn in 0..CONNECTIONS {
        if turn == CONNECTIONS / 2 {
            midway(&pids);
        }
        let awake = |pid: &i32| sys::state_of(*pid) == Some('R');
        while pids.iter().any(awake) {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        let fd = sys::socket(address.family(), libc::SOCK_STREAM, 0).fd();
        sys::connect(fd, address);
        if let Some(&n) = take(fd, 1).data.first() {
            count[usize::from(n)] += 1;
        }
    }
    for pid in pids {
        sys::kill(pid, SIGKILL);
        sys::waitpid(pid, 0);
    }
    count
}

/// Accepts whoever comes and tells him the number `n`.
fn greet_all(listener: i32, events: i32, n: u8) -> i32 {
    let epoll = sys::epoll_create1(0).fd();
    sys::epoll_ctl(epoll, EPOLL_CTL_ADD, listener, events, 0);
    loop {
        sys::epoll_wait(epoll, 8, -1);
        let fd = sys::accept(listener).fd();
        if fd >= 0 {
            sys::send(fd, &[n], 0);
        }
    }
}
