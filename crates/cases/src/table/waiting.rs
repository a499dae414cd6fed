//! Several that wait at one socket at once, and what ends or must not end their waits.

use super::case::{Case, case};
use super::send::fill;
use crate::sys::{self, Got, Ret};
use crate::talk::{SOON, Talk, pause, ready, take};
use libc::{
    EPOLL_CTL_ADD, EPOLLET, EPOLLIN, EPOLLOUT, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, POLLIN,
    POLLOUT, SA_RESTART, SHUT_RD, SHUT_WR, SIGALRM, SO_RCVTIMEO, SO_SNDTIMEO,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Round trips of a case that looks for a wake-up which is lost now and then.
const ROUNDS: u32 = 1500;

pub(super) const CASES: &[Case] = &[
    case("select/handlers-allocate-meanwhile", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| i32::from(sys::wait_while_handlers_allocate(server) != 0));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        sys::send(client, b"still", 0);
        t.saw("recv", take(server, 9));
    }),
    case("waiting/shutdown-wakes-poll-for-room", |t| {
        let (client, _server) = t.pair();
        fill(client);
        let waiter = thread::spawn(move || sys::poll(&[(client, POLLOUT)], -1));
        pause(30);
        t.saw("shutdown", sys::shutdown(client, SHUT_WR));
        t.polled(waiter.join().unwrap_or((Ret::Value(-9), Vec::new())));
    }),
    case("waiting/shutdown-wakes-epoll-for-room", |t| {
        let (client, _server) = t.pair();
        fill(client);
        let epoll = set_of(t, client, EPOLLOUT);
        let waiter = thread::spawn(move || sys::epoll_wait(epoll, 4, -1).0);
        pause(30);
        t.saw("shutdown", sys::shutdown(client, SHUT_WR));
        t.saw("epoll", joined(waiter));
    }),
    case("waiting/shutdown-of-reading-wakes-epoll", |t| {
        let (client, server) = t.pair();
        let epoll = set_of(t, client, EPOLLIN);
        let waiter = thread::spawn(move || sys::epoll_wait(epoll, 4, -1).0);
        pause(30);
        t.saw("shutdown", sys::shutdown(client, SHUT_RD));
        t.saw("epoll", joined(waiter));
        t.saw("send", sys::send(client, b"still", 0));
        t.saw("recv", take(server, 9));
    }),
    case("waiting/room-after-a-reader-was-woken-by-shutdown", |t| {
        // Reading is over, writing goes on, and has to wait for room.
        let (client, server) = t.pair();
        let reader = thread::spawn(move || sys::recv(client, 9, 0).ret);
        pause(30);
        t.saw("shutdown", sys::shutdown(client, SHUT_RD));
        t.saw("reader", joined(reader));
        let text = vec![5_u8; 6 << 20];
        let writer = thread::spawn(move || super::recv::send_all(client, &text));
        pause(30);
        t.say(drained(server, 6 << 20));
        t.say(writer.join().unwrap_or(false));
        fill(client);
        let waiter = thread::spawn(move || sys::poll(&[(client, POLLOUT)], SOON).0);
        pause(30);
        while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
        t.saw("poll", joined(waiter));
        sys::close(server);
        t.say(ready(client, libc::POLLHUP | libc::POLLERR));
    }),
    case("waiting/poll-for-room-beside-recv", |t| {
        let (client, server) = t.pair();
        fill(client);
        let reader = thread::spawn(move || sys::recv(client, 9, 0));
        pause(20);
        let waiter = thread::spawn(move || sys::poll(&[(client, POLLOUT)], SOON).0);
        pause(30);
        while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
        t.saw("poll", joined(waiter));
        sys::send(server, b"answer", 0);
        t.saw("recv", got(reader));
    }),
    case("waiting/recv-beside-poll-for-room", |t| {
        let (client, server) = t.pair();
        fill(client);
        let waiter = thread::spawn(move || sys::poll(&[(client, POLLOUT)], SOON).0);
        pause(20);
        let reader = thread::spawn(move || sys::recv(client, 9, 0));
        pause(30);
        sys::send(server, b"answer", 0);
        t.saw("recv", got(reader));
        while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
        t.saw("poll", joined(waiter));
    }),
    case("waiting/epoll-beside-a-send-for-room", |t| {
        let (client, server) = t.pair();
        fill(client);
        let epoll = set_of(t, client, EPOLLIN | EPOLLET);
        let watcher = thread::spawn(move || sys::epoll_wait(epoll, 4, SOON).0);
        pause(20);
        let writer = thread::spawn(move || sys::send(client, b"x", 0));
        pause(30);
        while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
        t.saw("send", joined(writer));
        sys::send(server, b"answer", 0);
        t.saw("epoll", joined(watcher));
    }),
    case("waiting/epoll-beside-poll-many-times", |t| {
        // Both wait for the same answer, one after the other takes it.
        let (client, server) = t.pair();
        let epoll = set_of(t, client, EPOLLIN | EPOLLET);
        let echo = thread::spawn(move || echoed(server));
        let watcher = thread::spawn(move || {
            let mut woken = 0;
            while sys::epoll_wait(epoll, 4, SOON).0 == Ret::Value(1) {
                woken += 1;
                if sys::recv(client, 1, MSG_PEEK | MSG_DONTWAIT).ret == Ret::Value(0) {
                    break;
                }
            }
            woken > 0
        });
        for _ in 0..ROUNDS {
            sys::send(client, b"x", MSG_NOSIGNAL);
            if sys::poll(&[(client, POLLIN)], SOON).0 != Ret::Value(1) {
                t.say("poll was not woken");
                break;
            }
            sys::recv(client, 1, 0);
        }
        sys::shutdown(client, SHUT_WR);
        t.say(echo.join().unwrap_or(0));
        t.say(watcher.join().unwrap_or(false));
    }),
    case("waiting/recv-beside-fruitless-calls", |t| {
        let (client, server) = t.pair();
        let echo = thread::spawn(move || echoed(server));
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let looker = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                sys::recv(client, 1, MSG_PEEK | MSG_DONTWAIT);
                sys::poll(&[(client, POLLIN)], 0);
                thread::yield_now();
            }
        });
        let answers = (0..ROUNDS / 5).filter(|_| {
            sys::send(client, b"x", MSG_NOSIGNAL);
            sys::recv(client, 1, 0).ret == Ret::Value(1)
        });
        t.say(answers.count());
        over.store(true, Ordering::Relaxed);
        sys::shutdown(client, SHUT_WR);
        t.say(echo.join().unwrap_or(0));
        t.say(looker.join().is_ok());
    }),
    case("waiting/number-used-again-during-recv", |t| {
        // What stands under the number now is not the waiting call's.
        let (client, server) = t.pair();
        let [from, to] = sys::pipe();
        sys::write(to, b"pipe");
        let reader = thread::spawn(move || sys::recv(client, 9, 0));
        pause(30);
        t.saw("dup2", sys::dup2(from, client) == Ret::Value(client.into()));
        t.saw("send", sys::send(server, b"late", MSG_NOSIGNAL));
        t.saw("recv", got(reader));
        t.saw("end", take(server, 9));
        t.saw("pipe", sys::read(client, 9));
    }),
    case("waiting/closed-and-the-last-call-ends-it", |t| {
        let (client, server) = t.pair();
        let waiter = thread::spawn(move || sys::poll(&[(client, POLLIN)], 300).0);
        pause(20);
        sys::close(client);
        t.polled(sys::poll(&[(server, POLLIN)], 0));
        t.saw("poll", joined(waiter));
        t.polled(sys::poll(&[(server, POLLIN)], SOON));
        t.saw("recv", sys::recv(server, 9, 0));
    }),
    case("waiting/fork-while-another-thread-reads", |t| {
        let (client, server) = t.pair();
        let reader = thread::spawn(move || sys::recv(client, 9, 0));
        pause(30);
        let [from, to] = sys::pipe();
        let pid = sys::fork(|| {
            // The other thread, asleep in the parent, is not here.
            sys::send(client, b"from the child", 0);
            sys::read(from, 1);
            i32::from(sys::recv(client, 9, 0).data != b"child")
        });
        t.saw("recv", take(server, 99));
        sys::send(server, b"parent", 0);
        t.saw("reader", got(reader));
        sys::write(to, b"x");
        pause(30);
        sys::send(server, b"child", 0);
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("waiting/SO_RCVTIMEO-is-not-for-sending", |t| {
        let (client, server) = t.pair();
        fill(client);
        sys::set_timeout(client, SO_RCVTIMEO, 20);
        let writer = thread::spawn(move || sys::send(client, b"x", 0));
        pause(80);
        while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
        t.saw("send", joined(writer));
    }),
    case("waiting/SO_SNDTIMEO-is-not-for-receiving", |t| {
        let (client, server) = t.pair();
        sys::set_timeout(client, SO_SNDTIMEO, 20);
        let reader = thread::spawn(move || sys::recv(client, 9, 0));
        pause(80);
        sys::send(server, b"late", 0);
        t.saw("recv", got(reader));
    }),
    case("waiting/SA_RESTART-for-a-full-send", |t| {
        let (client, server) = t.pair();
        fill(client);
        sys::handle(SIGALRM, SA_RESTART);
        let pid = sys::fork(|| {
            pause(80);
            while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
            pause(300);
            0
        });
        sys::alarm_in(20);
        t.saw("send", sys::send(client, b"x", 0));
        t.say(sys::signals_handled());
        sys::waitpid(pid, 0);
    }),
    case("waiting/epoll-hears-an-answer-taken-elsewhere", |t| {
        // The set waits for a connection that another call finds open first.
        let (listener, address) = t.listener();
        for _ in 0..50 {
            let client = t.tcp_nonblocking();
            sys::connect(client, address);
            let epoll = set_of(t, client, EPOLLIN | EPOLLET);
            let watcher = thread::spawn(move || sys::epoll_wait(epoll, 4, SOON).0);
            ready(listener, POLLIN);
            let server = sys::accept(listener).fd();
            sys::getpeername(client);
            sys::send(client, b"x", 0);
            sys::send(server, b"y", 0);
            if joined(watcher) != Ret::Value(1) {
                t.say("not woken");
            }
            for fd in [client, server, epoll] {
                sys::close(fd);
            }
        }
        t.say("done");
    }),
    case("waiting/a-number-used-again-has-one-event", |t| {
        let (listener, address) = t.listener();
        let ret = sys::epoll_create1(0);
        let epoll = t.must("epoll", ret);
        let mut twice = 0;
        let mut before = -1;
        for round in 0..20 {
            let (client, server) = t.pair_at(listener, address);
            if round == 0 {
                before = server;
            }
            sys::epoll_ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET, round);
            sys::send(client, b"x", 0);
            ready(server, POLLIN);
            if round % 2 == 0 {
                // Left unread and untold.
                sys::close(server);
                sys::close(client);
                continue;
            }
            t.say(server == before);
            let (first, _) = sys::epoll_wait(epoll, 4, SOON);
            let (second, _) = sys::epoll_wait(epoll, 4, 0);
            twice += i32::from((first, second) != (Ret::Value(1), Ret::Value(0)));
            sys::close(server);
            sys::close(client);
        }
        t.saw("events that were not one", twice);
    }),
];

/// An epoll set with one descriptor.
fn set_of(t: &Talk, fd: i32, events: i32) -> i32 {
    let ret = sys::epoll_create1(0);
    let epoll = t.must("epoll", ret);
    sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, events, 1);
    epoll
}

fn joined(thread: JoinHandle<Ret>) -> Ret {
    thread.join().unwrap_or(Ret::Value(-9))
}

fn got(thread: JoinHandle<Got>) -> String {
    let got = thread.join().map(|got| got.to_string());
    got.unwrap_or_else(|_| "?".to_owned())
}

/// Sends back byte by byte what comes, to the end; how much that was.
fn echoed(fd: i32) -> u32 {
    let mut count = 0;
    loop {
        let got = sys::recv(fd, 1, 0);
        if got.data.is_empty() {
            sys::shutdown(fd, SHUT_WR);
            return count;
        }
        count += 1;
        sys::send(fd, &got.data, MSG_NOSIGNAL);
    }
}

/// Reads this much; whether it came.
fn drained(fd: i32, bytes: usize) -> bool {
    let mut left = bytes;
    while left > 0 {
        let n = sys::recv(fd, left.min(1 << 18), 0).data.len();
        if n == 0 {
            return false;
        }
        left -= n;
    }
    true
}
