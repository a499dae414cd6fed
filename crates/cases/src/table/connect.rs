//! connect(2).

use super::case::{Case, case};
use crate::sys::{self, Addr};
use crate::talk::{SOON, Talk, ready, take};
use libc::{AF_UNIX, POLLERR, POLLHUP, POLLIN, POLLOUT, SO_ERROR, SOL_SOCKET};
use std::net::Ipv4Addr;

pub(super) const CASES: &[Case] = &[
    case("connect/ok", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        t.saw("connect", sys::connect(fd, address));
        t.polled(sys::poll(&[(fd, POLLIN | POLLOUT)], 0));
    }),
    case("connect/ECONNREFUSED", |t| {
        let dead = t.dead();
        let fd = t.tcp();
        t.saw("connect", sys::connect(fd, dead));
        t.polled(sys::poll(&[(fd, POLLIN | POLLOUT)], 0));
        t.saw("SO_ERROR", sys::get_int(fd, SOL_SOCKET, SO_ERROR));
    }),
    case("connect/refused-then-elsewhere", |t| {
        let dead = t.dead();
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        t.saw("dead", sys::connect(fd, dead));
        t.saw("alive", sys::connect(fd, address));
        t.saw("getpeername", sys::getpeername(fd).0);
    }),
    case("connect/refused-then-recv", |t| {
        let dead = t.dead();
        let fd = t.tcp();
        t.saw("connect", sys::connect(fd, dead));
        t.saw("recv", sys::recv(fd, 1, 0));
        t.saw("send", sys::send(fd, b"x", libc::MSG_NOSIGNAL));
    }),
    case("connect/EISCONN", |t| {
        let (listener, address) = t.listener();
        let (client, server) = t.pair_at(listener, address);
        t.saw("client", sys::connect(client, address));
        t.saw("server", sys::connect(server, address));
    }),
    case("connect/listener", |t| {
        let (listener, address) = t.listener();
        t.saw("connect", sys::connect(listener, address));
    }),
    case("connect/EAFNOSUPPORT", |t| {
        let fd = t.tcp();
        t.saw("ipv6", sys::connect(fd, t.any6().with_port(9)));
        t.saw("unix", sys::connect(fd, Addr::family_only(AF_UNIX, 16)));
        let fd = t.tcp6();
        t.saw("ipv4", sys::connect(fd, t.any().with_port(9)));
    }),
    case("connect/length-too-short", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        t.saw("15", sys::connect(fd, address.cut(15)));
        t.saw("0", sys::connect(fd, address.cut(0)));
        t.saw("1", sys::connect(fd, address.cut(1)));
        t.saw("129", sys::connect(fd, address.cut(129)));
        let fd = t.tcp6();
        t.saw("ipv6 23", sys::connect(fd, t.any6().with_port(9).cut(23)));
    }),
    case("connect/length-too-long-is-fine", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        t.saw("128", sys::connect(fd, address.cut(128)));
    }),
    case("connect/EFAULT", |t| {
        let fd = t.tcp();
        t.saw("tcp", sys::connect_bad(fd));
        let fd = t.udp();
        t.saw("udp", sys::connect_bad(fd));
    }),
    case("connect/EBADF-ENOTSOCK", |t| {
        let (_listener, address) = t.listener();
        t.saw("EBADF", sys::connect(-1, address));
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::connect(fd, address));
    }),
    case("connect/EINPROGRESS", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp_nonblocking();
        t.saw("connect", sys::connect(fd, address));
        t.polled(sys::poll(&[(fd, POLLOUT)], SOON));
        t.saw("SO_ERROR", sys::get_int(fd, SOL_SOCKET, SO_ERROR));
        t.saw("again", sys::connect(fd, address));
        t.saw("and again", sys::connect(fd, address));
    }),
    case("connect/EINPROGRESS-refused", |t| {
        let dead = t.dead();
        let fd = t.tcp_nonblocking();
        t.saw("connect", sys::connect(fd, dead));
        t.polled(sys::poll(&[(fd, POLLOUT)], SOON));
        t.saw("SO_ERROR", sys::get_int(fd, SOL_SOCKET, SO_ERROR));
        t.saw("SO_ERROR", sys::get_int(fd, SOL_SOCKET, SO_ERROR));
    }),
    case("connect/EINPROGRESS-refused-by-connect", |t| {
        let dead = t.dead();
        let fd = t.tcp_nonblocking();
        t.saw("connect", sys::connect(fd, dead));
        ready(fd, POLLERR | POLLHUP);
        t.saw("again", sys::connect(fd, dead));
    }),
    case("connect/EINPROGRESS-refused-by-recv", |t| {
        let dead = t.dead();
        let fd = t.tcp_nonblocking();
        t.saw("connect", sys::connect(fd, dead));
        ready(fd, POLLERR | POLLHUP);
        t.saw("recv", sys::recv(fd, 1, 0));
        t.saw("recv", sys::recv(fd, 1, 0));
    }),
    case("connect/EINPROGRESS-then-send", |t| {
        let (listener, address) = t.listener();
        let fd = t.tcp_nonblocking();
        t.saw("connect", sys::connect(fd, address));
        ready(fd, POLLOUT);
        t.saw("send", sys::send(fd, b"after", 0));
        ready(listener, POLLIN);
        let server = sys::accept(listener).fd();
        t.saw("recv", take(server, 9));
    }),
    case("connect/bound-client", |t| {
        let (listener, address) = t.listener();
        let fd = t.tcp();
        let any = t.any();
        let own = t.bound(fd, any);
        t.saw("connect", sys::connect(fd, address));
        ready(listener, POLLIN);
        let (ret, from) = sys::accept_from(listener, 128);
        t.made("accept", ret);
        t.say(from.port() == own.port());
    }),
    case("connect/to-wildcard", |t| {
        let listener = t.tcp();
        let address = t.bound(listener, Addr::v4(Ipv4Addr::UNSPECIFIED, 0));
        sys::listen(listener, 1);
        let fd = t.tcp();
        t.saw("connect", sys::connect(fd, address));
        let (ret, peer) = sys::getpeername(fd);
        t.saw("getpeername", format!("{ret} {:?}", peer.ip()));
    }),
    case("connect/port-0", |t| {
        let fd = t.tcp();
        t.saw("connect", sys::connect(fd, t.any()));
    }),
    case("connect/broadcast", |t| {
        let fd = t.tcp();
        t.saw("tcp", sys::connect(fd, Addr::v4(Ipv4Addr::BROADCAST, 9)));
        let fd = t.udp();
        t.saw("udp", sys::connect(fd, Addr::v4(Ipv4Addr::BROADCAST, 9)));
    }),
    case("connect/multicast", |t| {
        let fd = t.tcp();
        t.saw(
            "tcp",
            sys::connect(fd, Addr::v4(Ipv4Addr::new(224, 0, 0, 1), 9)),
        );
    }),
    case("connect/unspecified-disconnects", |t| {
        let (client, server) = t.pair();
        t.saw("connect", sys::connect(client, Addr::family_only(0, 16)));
        t.saw("getpeername", sys::getpeername(client).0);
        t.saw("send", sys::send(client, b"x", libc::MSG_NOSIGNAL));
        t.saw("peer", take(server, 9));
    }),
    case("connect/unspecified-on-fresh", |t| {
        let fd = t.tcp();
        t.saw("connect", sys::connect(fd, Addr::family_only(0, 16)));
    }),
    case("connect/disconnect-keeps-options-and-registrations", |t| {
        let (listener, address) = t.listener();
        let (client, server) = t.pair_at(listener, address);
        let nodelay = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        sys::set_int(client, nodelay.0, nodelay.1, 1);
        sys::set_int(client, SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        let other = sys::dup(client).fd();
        let ret = sys::epoll_create1(0);
        let epoll = t.must("epoll", ret);
        sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, client, libc::EPOLLIN, 5);
        t.saw("disconnect", sys::connect(client, Addr::family_only(0, 16)));
        t.saw("peer", take(server, 9));
        sys::get_int(client, SOL_SOCKET, SO_ERROR);
        t.saw("TCP_NODELAY", sys::get_int(client, nodelay.0, nodelay.1));
        t.saw(
            "SO_KEEPALIVE",
            sys::get_int(client, SOL_SOCKET, libc::SO_KEEPALIVE),
        );
        t.saw("connect", sys::connect(client, address));
        ready(listener, POLLIN);
        let server = sys::accept(listener).fd();
        t.saw("TCP_NODELAY", sys::get_int(client, nodelay.0, nodelay.1));
        t.saw("send", sys::send(client, b"again", 0));
        t.saw("recv", take(server, 9));
        sys::send(server, b"x", 0);
        let (woken, events) = sys::epoll_wait(epoll, 4, SOON);
        t.say(format!(
            "epoll {woken} {:?}",
            events.first().map(|event| event.0)
        ));
        t.saw("close", sys::close(other));
    }),
    case("connect/disconnect-and-reconnect", |t| {
        let (listener, address) = t.listener();
        let (client, _server) = t.pair_at(listener, address);
        t.saw("disconnect", sys::connect(client, Addr::family_only(0, 16)));
        t.saw("connect", sys::connect(client, address));
        ready(listener, POLLIN);
        let server = t.made("accept", sys::accept(listener));
        sys::send(client, b"twice", 0);
        t.saw("recv", take(server, 9));
    }),
    case("connect/to-itself", |t| {
        let fd = t.tcp();
        let any = t.any();
        let own = t.bound(fd, any);
        t.saw("connect", sys::connect(fd, own));
        t.saw("send", sys::send(fd, b"me", libc::MSG_NOSIGNAL));
        t.saw("recv", sys::recv(fd, 9, libc::MSG_DONTWAIT));
    }),
    case("connect/many", |t| {
        let (listener, address) = t.listener_with(128);
        let clients: Vec<i32> = (0..100).map(|_| t.connected(address)).collect();
        let mut total = 0;
        for client in clients {
            ready(listener, POLLIN);
            let server = sys::accept(listener).fd();
            sys::send(server, b"1", 0);
            sys::shutdown(server, libc::SHUT_WR);
            total += 1;
            sys::close(server);
            sys::close(client);
        }
        t.say(total);
    }),
    case("connect/names-before-and-after", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        t.say(name_of(t, fd));
        t.saw("connect", sys::connect(fd, address));
        let name = t.name(fd);
        t.say(format!(
            "{} {}",
            name.ip() == t.any().ip(),
            name.port() != 0
        ));
    }),
];

fn name_of(t: &Talk, fd: i32) -> String {
    let name = t.name(fd);
    format!("{:?} {}", name.ip(), name.port())
}
