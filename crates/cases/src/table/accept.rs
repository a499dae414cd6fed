//! accept(2), accept4(2), getpeername(2).

use super::case::{Case, case};
use crate::sys::{self, Addr};
use crate::talk::{SOON, Talk, nonblocking, pause, queued, ready, take};
use libc::{F_GETFD, F_GETFL, MSG_NOSIGNAL, O_NONBLOCK, POLLIN, SOCK_CLOEXEC, SOCK_NONBLOCK};
use std::net::Ipv4Addr;

pub(super) const CASES: &[Case] = &[
    case("accept/address", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        ready(listener, POLLIN);
        let (ret, from) = sys::accept_from(listener, 128);
        t.made("accept", ret);
        t.say(from.port() == t.name(client).port());
        t.say(format!(
            "len {} ours {}",
            from.len,
            from.ip() == t.any().ip()
        ));
    }),
    case("accept/room-short", |t| {
        let (listener, address) = t.listener();
        t.connected(address);
        ready(listener, POLLIN);
        let (ret, from) = sys::accept_from(listener, 2);
        t.made("accept", ret);
        t.say(format!("len {} family {}", from.len, from.family()));
    }),
    case("accept/room-negative", |t| {
        let (listener, address) = t.listener();
        t.connected(address);
        ready(listener, POLLIN);
        t.saw("accept", sys::accept_from(listener, u32::MAX).0.made());
    }),
    case("accept/EFAULT", |t| {
        let (listener, address) = t.listener();
        t.connected(address);
        ready(listener, POLLIN);
        t.made("address", sys::accept_bad(listener));
        t.connected(address);
        ready(listener, POLLIN);
        t.made("length", sys::accept_bad_len(listener));
    }),
    case("accept/EAGAIN", |t| {
        let (listener, _) = t.listener();
        nonblocking(listener);
        t.saw("accept", sys::accept(listener));
    }),
    case("accept/EINVAL-not-listening", |t| {
        let fd = t.tcp();
        t.saw("fresh", sys::accept(fd));
        let any = t.any();
        t.bound(fd, any);
        t.saw("bound", sys::accept(fd));
        let (client, server) = t.pair();
        t.saw("client", sys::accept(client));
        t.saw("server", sys::accept(server));
    }),
    case("accept/EOPNOTSUPP", |t| {
        let (fd, _) = t.udp_bound();
        t.saw("accept", sys::accept(fd));
    }),
    case("accept/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::accept(-1));
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::accept(fd));
    }),
    case("accept4/flags", |t| {
        for flags in [0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC] {
            let (listener, address) = t.listener();
            t.connected(address);
            ready(listener, POLLIN);
            let fd = t.made("accept4", sys::accept4(listener, flags));
            let status = sys::fcntl(fd, F_GETFL, 0).fd() & O_NONBLOCK != 0;
            t.say(format!("{status} {}", sys::fcntl(fd, F_GETFD, 0)));
        }
    }),
    case("accept4/flag-unknown", |t| {
        let (listener, _) = t.listener();
        t.saw("accept4", sys::accept4(listener, 0x100));
    }),
    case("accept/non-blocking-is-not-inherited", |t| {
        let (listener, address) = t.listener();
        nonblocking(listener);
        t.connected(address);
        ready(listener, POLLIN);
        let fd = t.made("accept", sys::accept(listener));
        t.say(sys::fcntl(fd, F_GETFL, 0).fd() & O_NONBLOCK != 0);
    }),
    case("accept/in-order", |t| {
        let (listener, address) = t.listener();
        let clients = [
            t.connected(address),
            t.connected(address),
            t.connected(address),
        ];
        for client in clients {
            ready(listener, POLLIN);
            let (ret, from) = sys::accept_from(listener, 128);
            t.made("accept", ret);
            t.say(from.port() == t.name(client).port());
        }
    }),
    case("accept/client-has-closed", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        sys::send(client, b"left", 0);
        sys::close(client);
        ready(listener, POLLIN);
        let fd = t.made("accept", sys::accept(listener));
        t.saw("recv", take(fd, 9));
        t.saw("recv", take(fd, 9));
    }),
    case("accept/client-has-shut-down-both", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        sys::send(client, b"left", 0);
        t.saw("shutdown", sys::shutdown(client, libc::SHUT_RDWR));
        t.saw("client", sys::recv(client, 9, 0));
        ready(listener, POLLIN);
        let fd = t.made("accept", sys::accept(listener));
        t.saw("recv", take(fd, 9));
        t.saw("recv", take(fd, 9));
    }),
    case("accept/client-has-shut-down-both-and-closed", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        sys::send(client, b"left", 0);
        t.saw("shutdown", sys::shutdown(client, libc::SHUT_RDWR));
        sys::close(client);
        ready(listener, POLLIN);
        nonblocking(listener);
        let fd = t.made("accept", sys::accept(listener));
        t.saw("recv", take(fd, 9));
        t.saw("recv", take(fd, 9));
    }),
    case("accept/client-has-shut-down-reading", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        t.saw("shutdown", sys::shutdown(client, libc::SHUT_RD));
        ready(listener, POLLIN);
        let fd = t.made("accept", sys::accept(listener));
        t.saw("send", sys::send(client, b"still", MSG_NOSIGNAL));
        t.saw("recv", take(fd, 9));
        sys::send(fd, b"late", MSG_NOSIGNAL);
        queued(client, 4);
        t.saw("client", sys::recv(client, 9, 0));
        t.saw("client", sys::recv(client, 9, 0));
    }),
    case("accept/client-has-reset", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        sys::set_linger(client, true, 0);
        sys::close(client);
        pause(20);
        t.polled(sys::poll(&[(listener, POLLIN)], 0));
        nonblocking(listener);
        let fd = t.made("accept", sys::accept(listener));
        t.saw("recv", sys::recv(fd, 9, 0));
        t.saw("getpeername", sys::getpeername(fd).0);
    }),
    case("accept/data-before-accept", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        t.saw("send", sys::send(client, b"early", 0));
        t.polled(sys::poll(&[(client, libc::POLLOUT)], 0));
        ready(listener, POLLIN);
        let fd = sys::accept(listener).fd();
        t.saw("recv", take(fd, 9));
    }),
    case("accept/listener-closed-with-queue", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        sys::close(listener);
        t.polled(sys::poll(&[(client, POLLIN | libc::POLLRDHUP)], SOON));
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("again", sys::connect(t.tcp(), address));
    }),
    case("accept/listener-shutdown-with-queue", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        t.saw("shutdown", sys::shutdown(listener, libc::SHUT_RD));
        t.polled(sys::poll(&[(client, POLLIN)], SOON));
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("accept", sys::accept(listener));
        t.polled(sys::poll(&[(listener, POLLIN)], 0));
    }),
    case("accept/connections-outlive-the-listener", |t| {
        let (client, server) = t.pair();
        t.saw("send", sys::send(client, b"still", 0));
        t.saw("recv", take(server, 9));
    }),
    case("accept/wildcard-listener", |t| {
        let listener = t.tcp();
        let address = t.bound(listener, Addr::v4(Ipv4Addr::UNSPECIFIED, 0));
        sys::listen(listener, 4);
        let client = t.tcp();
        t.saw("connect", sys::connect(client, address.at_v4(t.at.v4)));
        ready(listener, POLLIN);
        let fd = t.made("accept", sys::accept(listener));
        t.say(t.name(fd).ip() == t.any().ip());
        t.saw("send", sys::send(fd, b"hello", 0));
        t.saw("recv", take(client, 9));
    }),
    case("accept/two-listeners-with-reuseport", |t| {
        let (a, b) = reuseport_listeners(t);
        let mut accepted = 0;
        for _ in 0..8 {
            let client = t.connected(a.1);
            sys::poll(&[(a.0, POLLIN), (b, POLLIN)], SOON);
            for listener in [a.0, b] {
                accepted += i32::from(sys::accept(listener).fd() >= 0);
            }
            sys::close(client);
        }
        t.say(format!("accepted {accepted}"));
    }),
    case("accept/reuseport-one-closes", |t| {
        let (a, b) = reuseport_listeners(t);
        sys::close(a.0);
        for _ in 0..4 {
            let client = t.tcp();
            t.saw("connect", sys::connect(client, a.1));
            ready(b, POLLIN);
            t.made("accept", sys::accept(b));
        }
    }),
    case("getpeername/both-ends", |t| {
        let (client, server) = t.pair();
        let (a, b) = (sys::getpeername(client), sys::getpeername(server));
        t.saw("client", a.0);
        t.saw("server", b.0);
        let names = (t.name(server), t.name(client));
        t.say(a.1.port() == names.0.port() && b.1.port() == names.1.port());
        t.say(format!("{} {}", a.1.ip() == t.any().ip(), a.1.len));
    }),
    case("getpeername/ENOTCONN", |t| {
        let fd = t.tcp();
        t.saw("fresh", sys::getpeername(fd).0);
        let (listener, _) = t.listener();
        t.saw("listener", sys::getpeername(listener).0);
        let fd = t.udp();
        t.saw("udp", sys::getpeername(fd).0);
    }),
    case("getpeername/room-short", |t| {
        let (client, _server) = t.pair();
        let (ret, name) = sys::getpeername_in(client, 2);
        t.say(format!("{ret} len {} family {}", name.len, name.family()));
    }),
    case("getpeername/room-negative", |t| {
        let (client, _server) = t.pair();
        t.saw("getpeername", sys::getpeername_in(client, u32::MAX).0);
    }),
    case("getpeername/EFAULT", |t| {
        let (client, _server) = t.pair();
        t.saw("getpeername", sys::getpeername_bad(client));
    }),
    case("getpeername/after-the-peer-closed", |t| {
        let (client, server) = t.pair();
        sys::close(server);
        ready(client, POLLIN);
        t.saw("getpeername", sys::getpeername(client).0);
    }),
    case("getpeername/after-reset", |t| {
        let (client, server) = t.pair();
        sys::set_linger(server, true, 0);
        sys::close(server);
        ready(client, POLLIN);
        t.saw("getpeername", sys::getpeername(client).0);
    }),
    case("getpeername/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::getpeername(-1).0);
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::getpeername(fd).0);
    }),
];

/// Two non-blocking listeners at one address: the first with its address, and the second.
fn reuseport_listeners(t: &Talk) -> ((i32, Addr), i32) {
    let (a, b) = (t.tcp_nonblocking(), t.tcp_nonblocking());
    for fd in [a, b] {
        sys::set_int(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1);
    }
    let any = t.any();
    let address = t.bound(a, any);
    t.must("listen", sys::listen(a, 16));
    t.must("bind", sys::bind(b, address));
    t.must("listen", sys::listen(b, 16));
    ((a, address), b)
}
