//! Addresses at which there is no memory, of every kind; and faults that are the program's own.

use super::case::{Case, case};
use crate::sys::{self, Nowhere};
use crate::talk::{Talk, pause, ready};
use libc::{FIONBIO, FIONREAD, IPPROTO_TCP, MSG_DONTWAIT, POLLIN, SA_RESETHAND, SIGBUS, SIGSEGV};
use libc::{SO_LINGER, SO_TYPE, SOL_SOCKET, TCP_CONGESTION, TCP_NODELAY};

pub(super) const CASES: &[Case] = &[
    case("nowhere/far", |t| everything(t, Nowhere::Far)),
    case("nowhere/closed", |t| everything(t, Nowhere::Closed)),
    case("nowhere/edge", |t| structures(t, Nowhere::Edge)),
    case("nowhere/high", |t| everything(t, Nowhere::High)),
    case("nowhere/last", |t| everything(t, Nowhere::Last)),
    case("nowhere/udp", |t| {
        sys::nowhere_is(Nowhere::Closed);
        let (a, b) = t.udps_connected();
        t.saw("send", sys::send_bad(a));
        for text in [&b"one"[..], b"two", b"three"] {
            sys::send(a, text, 0);
        }
        ready(b, POLLIN);
        pause(20);
        t.saw("recv", sys::recv_bad(b));
        t.saw("recvmsg", sys::recvmsg_bad(b));
        t.saw("next", sys::recv(b, 9, MSG_DONTWAIT));
        t.saw("next", sys::recv(b, 9, MSG_DONTWAIT));
    }),
    case("nowhere/part-of-a-message", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"abcdef", 0);
        ready(server, POLLIN);
        sys::nowhere_is(Nowhere::Closed);
        t.saw("recv", sys::recv_over_edge(server, 6));
        t.saw("readv", sys::readv_half_bad(server));
        t.saw("rest", sys::recv(server, 9, MSG_DONTWAIT));
        t.saw("send", sys::send_over_edge(client));
        t.saw("recv", sys::recv(server, 9, MSG_DONTWAIT));
    }),
    case("nowhere/own-fault", |t| {
        t.say(dies(|| sys::crash()));
        t.say(dies(|| {
            sys::default_signal(SIGSEGV);
            sys::crash()
        }));
        t.say(dies(|| {
            sys::default_signal(SIGBUS);
            sys::kill(sys::own_pid(), SIGBUS);
        }));
        t.say(dies(|| {
            // The second fault finds the default.
            sys::handle(SIGSEGV, SA_RESETHAND);
            sys::crash()
        }));
    }),
    case("nowhere/fault-sent-to-a-sleeper", |t| {
        let (_client, server) = t.pair();
        let pid = sys::fork(|| {
            sys::default_signal(SIGSEGV);
            sys::recv(server, 9, 0);
            0
        });
        pause(50);
        sys::kill(pid, SIGSEGV);
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("nowhere/fault-sent-while-bytes-are-copied", |t| {
        let (client, server) = t.pair();
        sys::handle(SIGSEGV, libc::SA_RESTART);
        let parent = sys::own_pid();
        let pid = sys::fork(|| {
            (0..20_000).for_each(|_| _ = sys::kill(parent, SIGSEGV));
            0
        });
        let bytes = [7; 64 << 10];
        let mut failed = 0;
        while sys::waitpid(pid, libc::WNOHANG) == sys::End::Not {
            let sent = sys::send(client, &bytes, MSG_DONTWAIT);
            let got = sys::recv(server, bytes.len(), MSG_DONTWAIT).ret;
            failed += [sent, got]
                .iter()
                .filter(|ret| **ret == sys::Ret::Errno(libc::EFAULT))
                .count();
        }
        t.saw("failed", failed);
    }),
    case("nowhere/what-is-done-with-faults", |t| {
        sys::nowhere_is(Nowhere::Closed);
        let (_client, server) = t.pair();
        sys::default_signal(SIGSEGV);
        t.saw("send", sys::send_bad(server));
        t.saw("default", sys::action_of(SIGSEGV));
        sys::handle(SIGSEGV, SA_RESETHAND);
        t.saw("send", sys::send_bad(server));
        t.saw("handled", sys::signals_handled());
        t.saw("stays", sys::action_of(SIGSEGV));
        sys::kill(sys::own_pid(), SIGSEGV);
        t.saw("handled", sys::signals_handled());
        t.saw("reset", sys::action_of(SIGSEGV));
        t.saw("send", sys::send_bad(server));
        sys::ignore_signal(SIGSEGV);
        t.saw("kill", sys::kill(sys::own_pid(), SIGSEGV));
    }),
];

/// How a child ends that does `work`.
fn dies(work: impl FnOnce()) -> String {
    let pid = sys::fork(|| {
        work();
        0
    });
    format!("{:?}", sys::waitpid(pid, 0))
}

/// Each call with such an address, at a connection with something to be read.
fn everything(t: &Talk, kind: Nowhere) {
    sys::nowhere_is(kind);
    let (client, server) = t.pair();
    sys::send(client, b"abcdef", 0);
    ready(server, POLLIN);
    t.saw("send", sys::send_bad(server));
    t.saw("write", sys::write_bad(server));
    t.saw("recv", sys::recv_bad(server));
    t.saw("read", sys::read_bad(server));
    t.saw("ioctl", sys::ioctl_bad(server, FIONREAD));
    t.saw("ioctl", sys::ioctl_bad(server, FIONBIO));
    t.saw("writev", sys::writev_half_bad(server));
    t.saw("sent", sys::recv(client, 9, MSG_DONTWAIT));
    t.saw("kept", sys::recv(server, 9, MSG_DONTWAIT));
    structures(t, kind);
}

/// Those calls of which the kernel looks at the whole of what it is told.
fn structures(t: &Talk, kind: Nowhere) {
    sys::nowhere_is(kind);
    let fd = t.tcp();
    t.saw("bind", sys::bind_bad(fd));
    t.saw("connect", sys::connect_bad(fd));
    let (client, server) = t.pair();
    t.saw("readv", sys::readv_bad(server));
    t.saw("sendmsg", sys::sendmsg_bad(server));
    t.saw("recvmsg", sys::recvmsg_bad(server));
    t.saw("getsockname", sys::getsockname_bad(server));
    t.saw("length", sys::getsockname_bad_len(server));
    t.saw("getpeername", sys::getpeername_bad(server));
    t.saw(
        "setsockopt",
        sys::setsockopt_bad(server, IPPROTO_TCP, TCP_NODELAY),
    );
    t.saw("linger", sys::setsockopt_bad(server, SOL_SOCKET, SO_LINGER));
    t.saw(
        "congestion",
        sys::setsockopt_bad(server, IPPROTO_TCP, TCP_CONGESTION),
    );
    t.saw(
        "getsockopt",
        sys::getsockopt_bad(server, SOL_SOCKET, SO_TYPE),
    );
    t.saw("tcp", sys::getsockopt_bad(server, IPPROTO_TCP, TCP_NODELAY));
    t.saw(
        "length",
        sys::getsockopt_bad_len(server, IPPROTO_TCP, TCP_NODELAY),
    );
    let epoll = t.made("epoll", sys::epoll_create1(0));
    t.saw("epoll_ctl", sys::epoll_ctl_bad(epoll, server));
    sys::send(client, b"x", 0);
    ready(server, POLLIN);
    sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, server, libc::EPOLLIN, 1);
    t.saw("epoll_wait", sys::epoll_wait_bad(epoll));
    t.saw("poll", sys::poll_bad());
    t.saw("select", sys::select_bad(server));
    t.saw("recvfrom", sys::recvfrom_bad(server));
    let (listener, address) = t.listener();
    let other = t.connected(address);
    ready(listener, POLLIN);
    t.saw("accept", sys::accept_bad(listener));
    sys::close(other);
}
