//! Processes that are killed, crash, stop and go on.

use super::transfer::{MIDDLE, Reader, ending, pour, receiver, sender, text};
use crate::sys::{self, Ret};
use crate::table::{Case, case, send_all};
use crate::talk::{SOON, Talk, pause, ready, wait_for};
use libc::{POLLHUP, POLLIN, SIGCONT, SIGKILL, SIGSEGV, SIGSTOP};

pub(super) const CASES: &[Case] = &[
    case("faults/sender-killed", |t| sender_dies(t, SIGKILL)),
    case("faults/sender-crashes", |t| sender_dies(t, SIGSEGV)),
    case("faults/sender-terminated", |t| {
        sender_dies(t, libc::SIGTERM)
    }),
    case("faults/receiver-killed", |t| receiver_dies(t, SIGKILL)),
    case("faults/receiver-crashes", |t| receiver_dies(t, SIGSEGV)),
    case("faults/receiver-crashes-by-itself", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            sys::close(ours);
            Reader::default().until(theirs, MIDDLE);
            sys::crash()
        });
        sys::close(theirs);
        t.saw("send", ending(pour(ours)));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("faults/sender-stopped-and-continued", |t| {
        let (fd, pid) = sender(t);
        let mut reader = Reader::default();
        t.say(reader.until(fd, MIDDLE));
        sys::kill(pid, SIGSTOP);
        sys::wait_stopped(pid);
        while sys::poll(&[(fd, POLLIN)], 100).0 == Ret::Value(1) {
            reader.once(fd);
        }
        t.say("silent while stopped");
        sys::kill(pid, SIGCONT);
        t.say(reader.drain(fd));
        t.say(reader.verdict());
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("faults/receiver-stopped-and-continued", |t| {
        let (fd, pid) = receiver(t);
        let text = text();
        let mut rest = text.get(MIDDLE..).unwrap_or_default();
        t.say(send_all(fd, text.get(..MIDDLE).unwrap_or_default()));
        sys::kill(pid, SIGSTOP);
        sys::wait_stopped(pid);
        loop {
            let sent = sys::send(fd, rest, libc::MSG_DONTWAIT).count();
            rest = rest.get(sent..).unwrap_or_default();
            if sent == 0 && sys::poll(&[(fd, libc::POLLOUT)], 100).0 == Ret::Value(0) {
                break;
            }
        }
        t.say(format!("full before the end {}", !rest.is_empty()));
        sys::kill(pid, SIGCONT);
        t.say(send_all(fd, rest));
        sys::close(fd);
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("faults/killed-while-out-of-the-epoll-set", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            sys::close(ours);
            pause(60_000);
            0
        });
        sys::close(theirs);
        let epoll = sys::epoll_create1(0).fd();
        let ctl = |operation| sys::epoll_ctl(epoll, operation, ours, libc::EPOLLIN, 7);
        ctl(libc::EPOLL_CTL_ADD);
        ctl(libc::EPOLL_CTL_DEL);
        sys::kill(pid, SIGKILL);
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.epolled(sys::epoll_wait(epoll, 8, 100));
        ctl(libc::EPOLL_CTL_ADD);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("faults/stopped-peer-killed", |t| {
        let (fd, pid) = sender(t);
        let mut reader = Reader::default();
        reader.until(fd, MIDDLE);
        sys::kill(pid, SIGSTOP);
        sys::wait_stopped(pid);
        sys::kill(pid, SIGKILL);
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.say(reader.drain(fd));
        t.say(reader.verdict());
    }),
    case("faults/killed-while-waiting-in-recv", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            sys::close(ours);
            sys::recv(theirs, 9, 0).ret.fd()
        });
        sys::close(theirs);
        pause(30);
        sys::kill(pid, SIGKILL);
        t.polled(sys::poll(&[(ours, POLLIN)], SOON));
        t.saw("recv", sys::recv(ours, 9, 0));
    }),
    case("faults/killed-while-waiting-in-a-full-send", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            sys::close(ours);
            i32::from(send_all(theirs, &text()))
        });
        sys::close(theirs);
        pause(400);
        sys::kill(pid, SIGKILL);
        sys::waitpid(pid, 0);
        let mut reader = Reader::default();
        t.say(reader.drain(ours));
        t.say(reader.verdict());
    }),
    case("faults/killed-with-unread-data", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            sys::close(ours);
            pause(10_000);
            0
        });
        sys::send(ours, b"unread", 0);
        sys::close(theirs);
        pause(30);
        sys::kill(pid, SIGKILL);
        ready(ours, POLLHUP);
        t.saw("recv", sys::recv(ours, 9, 0));
    }),
    case("faults/both-ends-killed-listener-goes-on", |t| {
        let (listener, address) = t.listener();
        let (ours, theirs) = t.pair_at(listener, address);
        let ends = [ours, theirs].map(|fd| {
            sys::fork(|| {
                sys::close(if fd == ours { theirs } else { ours });
                pour(fd);
                0
            })
        });
        sys::close(ours);
        sys::close(theirs);
        pause(30);
        // Stopped first, so that neither ends because the other did.
        for pid in ends {
            sys::kill(pid, SIGSTOP);
            sys::wait_stopped(pid);
        }
        for pid in ends {
            sys::kill(pid, SIGKILL);
            t.say(format!("{:?}", sys::waitpid(pid, 0)));
        }
        let (client, server) = t.pair_at(listener, address);
        sys::send(client, b"next", 0);
        t.saw("recv", crate::talk::take(server, 9));
    }),
    case("faults/one-of-two-holders-killed", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            pause(10_000);
            0
        });
        sys::kill(pid, SIGKILL);
        sys::waitpid(pid, 0);
        t.polled(sys::poll(&[(ours, POLLIN)], 30));
        sys::send(theirs, b"alive", 0);
        t.saw("recv", crate::talk::take(ours, 9));
    }),
    case("faults/killed-listener-with-queue", |t| {
        let listener = t.tcp();
        let any = t.any();
        let address = t.bound(listener, any);
        let pid = sys::fork(|| {
            sys::listen(listener, 4);
            pause(10_000);
            0
        });
        wait_for(|| sys::get_int(listener, libc::SOL_SOCKET, libc::SO_ACCEPTCONN).int() == Some(1));
        sys::close(listener);
        let client = t.connected(address);
        sys::kill(pid, SIGKILL);
        sys::waitpid(pid, 0);
        t.polled(sys::poll(&[(client, POLLIN)], SOON));
        t.saw("recv", ending(sys::recv(client, 9, 0).ret));
        let again = t.tcp();
        t.saw("connect", sys::connect(again, address));
    }),
    case("faults/killed-udp-peer-refuses", |t| {
        let (ours, theirs) = t.udps_connected();
        let pid = sys::fork(|| {
            sys::recv(theirs, 9, 0);
            sys::send(theirs, b"y", 0);
            pause(10_000);
            0
        });
        sys::close(theirs);
        t.saw("send", sys::send(ours, b"x", 0));
        // Answered: it is not the first datagram that is refused, however long it was on its way.
        t.saw("recv", sys::recv(ours, 9, 0));
        sys::kill(pid, SIGKILL);
        sys::waitpid(pid, 0);
        t.saw("send", sys::send(ours, b"x", 0));
        t.polled(sys::poll(&[(ours, POLLIN)], SOON));
        t.saw("recv", sys::recv(ours, 9, 0));
    }),
];

fn sender_dies(t: &Talk, signal: i32) {
    let (fd, pid) = sender(t);
    let mut reader = Reader::default();
    t.say(reader.until(fd, MIDDLE));
    sys::kill(pid, signal);
    t.say(format!("{:?}", sys::waitpid(pid, 0)));
    t.say(reader.drain(fd));
    t.say(reader.verdict());
}

fn receiver_dies(t: &Talk, signal: i32) {
    let (fd, pid) = receiver(t);
    let text = text();
    t.say(send_all(fd, text.get(..MIDDLE).unwrap_or_default()));
    sys::kill(pid, signal);
    t.say(format!("{:?}", sys::waitpid(pid, 0)));
    t.saw("send", ending(pour(fd)));
}
