//! fork(2), epoll(7): children made while other threads of the parent use epoll sets, and children
//! that are killed.

use super::case::{Case, case};
use super::epoll::{ctl, new};
use crate::far;
use crate::sys::{self, Ret};
use crate::talk::{SOON, Talk, pause};
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLET, EPOLLIN, EPOLLRDHUP};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Children of a case.
const CHILDREN: usize = 400;
/// Messages of a case.
const ROUNDS: usize = 200;
/// Clients that are killed.
const KILLED: usize = 20;

pub(super) const CASES: &[Case] = &[
    case("fork/while-a-thread-uses-a-set", |t| {
        let (listener, address) = t.listener();
        far::here(listener);
        let epoll = new(t);
        ctl(epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
        forks(t, move || {
            let fd = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).fd();
            sys::connect(fd, address);
            sys::epoll_wait(epoll, 8, SOON);
            let server = sys::accept(listener).fd();
            ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
            sys::send(fd, b"x", 0);
            sys::epoll_wait(epoll, 8, SOON);
            let got = sys::recv(server, 1, 0).data == b"x";
            ctl(epoll, EPOLL_CTL_DEL, server, EPOLLIN);
            sys::close(server);
            sys::close(fd);
            got
        });
    }),
    case("fork/while-a-thread-uses-a-set-in-a-set", |t| {
        let (client, server) = t.pair();
        far::here(client);
        far::here(server);
        // The inner one has the lower number.
        let (inner, outer) = (new(t), new(t));
        ctl(inner, EPOLL_CTL_ADD, server, EPOLLIN);
        ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN);
        forks(t, move || {
            sys::send(client, b"x", 0);
            let (found, _) = sys::epoll_wait(outer, 8, SOON);
            found == Ret::Value(1) && sys::recv(server, 1, 0).ret == Ret::Value(1)
        });
    }),
    case("fork/a-set-with-two-descriptors", |t| {
        let (client, server) = t.pair();
        far::here(client);
        far::here(server);
        let epoll = new(t);
        let other = t.made("dup", sys::dup(epoll));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        let pid = sys::fork(|| i32::from(sys::send(client, b"x", 0) != Ret::Value(1)));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.epolled(sys::epoll_wait(other, 8, SOON));
    }),
    case("fork/each-process-has-a-set", |t| {
        let (client, server) = t.pair();
        far::here(client);
        far::here(server);
        let epoll = new(t);
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET);
        let pid = sys::fork(|| {
            let own = sys::epoll_create1(0).fd();
            ctl(own, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET);
            let answered = (0..ROUNDS).take_while(|_| {
                let told = sys::epoll_wait(own, 8, SOON).0 == Ret::Value(1);
                told && sys::recv(server, 8, 0).data == b"x"
                    && sys::send(server, b"y", 0) == Ret::Value(1)
            });
            (answered.count() / 10) as i32
        });
        // Takes what there is to hear, and reads nothing: the bytes are for the child.
        let over = Arc::new(AtomicBool::new(false));
        let hearing = thread::spawn({
            let over = over.clone();
            move || {
                while !over.load(Relaxed) {
                    sys::epoll_wait(epoll, 8, 50);
                }
            }
        });
        sys::set_timeout(client, libc::SO_RCVTIMEO, i64::from(SOON));
        let heard = (0..ROUNDS).take_while(|_| {
            // Both sleep by now.
            pause(2);
            sys::send(client, b"x", 0) == Ret::Value(1) && sys::recv(client, 8, 0).data == b"y"
        });
        t.say(heard.count());
        over.store(true, Relaxed);
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.say(hearing.join().is_ok());
    }),
    case("kill/clients-in-a-set", |t| killed(t, EPOLLIN | EPOLLRDHUP)),
    case("kill/clients-in-a-set-edge", |t| {
        killed(t, EPOLLIN | EPOLLRDHUP | EPOLLET);
    }),
];

/// A thread does `work` again and again while children are made, which end at once.
fn forks(t: &Talk, work: impl Fn() -> bool + Send + 'static) {
    static OVER: AtomicBool = AtomicBool::new(false);
    let other = thread::spawn(move || {
        let mut all = true;
        while !OVER.load(Relaxed) {
            all &= work();
        }
        all
    });
    let ended = (0..CHILDREN).filter(|_| {
        let pid = sys::fork(|| 0);
        sys::waitpid(pid, 0) == sys::End::Exit(0)
    });
    t.say(ended.count());
    OVER.store(true, Relaxed);
    t.say(other.join().unwrap_or(false));
}

/// The server hears of the end of each client that was killed just after it woke the server: the
/// wake-up and the hang-up are there at once, since the server was stopped meanwhile.
fn killed(t: &Talk, events: i32) {
    let (listener, address) = t.listener();
    far::here(listener);
    let epoll = new(t);
    let server = sys::own_pid();
    sys::fork(|| goes_on(server));
    let ended = (0..KILLED).filter(|_| {
        let pid = sys::fork(|| {
            let fd = t.connected(address);
            sys::send(fd, b"a", 0);
            sys::recv(fd, 1, 0);
            pause(3);
            sys::kill(server, libc::SIGSTOP);
            sys::send(fd, b"x", 0);
            sys::kill(sys::own_pid(), libc::SIGKILL);
            1
        });
        let fd = sys::accept(listener).fd();
        ctl(epoll, EPOLL_CTL_ADD, fd, events);
        let ended = ends(epoll, fd);
        sys::close(fd);
        sys::waitpid(pid, 0);
        ended
    });
    t.say(ended.count());
}

/// A process that lets another go on whenever it was stopped.
fn goes_on(stopped: i32) -> i32 {
    while let Some(state) = sys::state_of(stopped) {
        pause(2);
        if state == 'T' {
            sys::kill(stopped, libc::SIGCONT);
        }
    }
    0
}

/// Reads what comes and answers it, as an event loop does, until the end.
fn ends(epoll: i32, fd: i32) -> bool {
    loop {
        match sys::epoll_wait(epoll, 8, SOON).0 {
            Ret::Value(1) => {}
            Ret::Errno(libc::EINTR) => continue,
            _ => return false,
        }
        loop {
            let got = sys::recv(fd, 100, libc::MSG_DONTWAIT);
            match got.ret {
                // The answer to what came last may be a reset.
                Ret::Value(0) | Ret::Errno(libc::ECONNRESET) => return true,
                Ret::Value(_) => drop(sys::send(fd, b"b", libc::MSG_NOSIGNAL)),
                Ret::Errno(libc::EAGAIN) => break,
                Ret::Errno(_) => return false,
            }
        }
    }
}
