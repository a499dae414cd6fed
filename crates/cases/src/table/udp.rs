//! udp(7).

use super::case::{Case, case};
use crate::sys::{self, Addr};
use crate::talk::{SOON, Talk, WHILE, ready, take};
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EPOLLONESHOT};
use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, POLLIN, POLLOUT, SO_ERROR, SOL_SOCKET};
use std::net::Ipv4Addr;

pub(super) const CASES: &[Case] = &[
    case("udp/truncated", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"abcdef", 0);
        sys::send(a, b"next", 0);
        ready(b, POLLIN);
        t.saw("short", sys::recv(b, 3, 0));
        t.saw("next", take(b, 9));
    }),
    case("udp/MSG_TRUNC", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"abcdef", 0);
        ready(b, POLLIN);
        t.saw("peek", sys::recv(b, 2, MSG_TRUNC | MSG_PEEK).ret);
        t.saw("recv", sys::recv(b, 2, MSG_TRUNC).ret);
        t.saw("recv", sys::recv(b, 2, MSG_DONTWAIT));
    }),
    case("udp/MSG_PEEK", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"one", 0);
        sys::send(a, b"two", 0);
        ready(b, POLLIN);
        t.saw("peek", sys::recv(b, 9, MSG_PEEK));
        t.saw("peek", sys::recv(b, 9, MSG_PEEK));
        t.saw("recv", sys::recv(b, 9, 0));
        t.saw("peek", take(b, 9));
    }),
    case("udp/nothing-in-a-datagram", |t| {
        let (a, b) = t.udps_connected();
        t.saw("send", sys::send(a, b"", 0));
        t.polled(sys::poll(&[(b, POLLIN)], SOON));
        t.saw("recv", sys::recv(b, 9, 0));
        t.saw("recv", sys::recv(b, 9, MSG_DONTWAIT));
    }),
    case("udp/room-for-nothing", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"gone", 0);
        ready(b, POLLIN);
        t.saw("recv", sys::recv(b, 0, 0));
        t.saw("recv", sys::recv(b, 9, MSG_DONTWAIT));
    }),
    case("udp/largest", |t| {
        let (a, b) = t.udps_connected();
        t.saw("send", sys::send(a, &[3; 65_507], 0));
        t.saw("recv", take(b, 70_000));
    }),
    case("udp/connect-filters", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        let (c, _) = t.udp_bound();
        t.saw("connect", sys::connect(b, t.name(a)));
        sys::sendto(c, b"stranger", 0, at_b);
        sys::sendto(a, b"friend", 0, at_b);
        t.saw("recv", take(b, 9));
        t.saw("recv", sys::recv(b, 9, MSG_DONTWAIT));
    }),
    case("udp/connect-names", |t| {
        let (_b, at_b) = t.udp_bound();
        let fd = t.udp();
        t.saw("connect", sys::connect(fd, at_b));
        let (ret, peer) = sys::getpeername(fd);
        t.saw("getpeername", ret);
        t.say(peer.port() == at_b.port());
        let name = t.name(fd);
        t.say(format!("{} {}", name.ip() == at_b.ip(), name.port() != 0));
    }),
    case("udp/connect-again", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        let (c, at_c) = t.udp_bound();
        t.saw("connect", sys::connect(a, at_b));
        t.saw("connect", sys::connect(a, at_c));
        sys::send(a, b"second", 0);
        t.saw("recv", take(c, 9));
        t.saw("recv", sys::recv(b, 9, MSG_DONTWAIT));
    }),
    case("udp/disconnect", |t| {
        let (a, b) = t.udps_connected();
        t.saw("connect", sys::connect(a, Addr::family_only(0, 16)));
        t.saw("getpeername", sys::getpeername(a).0);
        t.saw("send", sys::send(a, b"x", 0));
        t.saw("sendto", sys::sendto(a, b"x", 0, t.name(b)));
    }),
    case("udp/connect-port-0", |t| {
        let fd = t.udp();
        t.saw("connect", sys::connect(fd, t.any()));
        t.saw("send", sys::send(fd, b"x", 0));
    }),
    case("udp/ECONNREFUSED", |t| {
        let dead = t.dead_udp();
        let fd = t.udp();
        t.saw("connect", sys::connect(fd, dead));
        t.saw("send", sys::send(fd, b"x", 0));
        t.polled(sys::poll(&[(fd, POLLIN)], SOON));
        t.polled(sys::poll(&[(fd, POLLIN | POLLOUT)], 0));
        t.saw("recv", sys::recv(fd, 9, MSG_DONTWAIT));
        t.saw("recv", sys::recv(fd, 9, MSG_DONTWAIT));
    }),
    case("udp/ECONNREFUSED-by-send", |t| {
        let fd = refused(t);
        t.saw("send", sys::send(fd, b"x", 0));
    }),
    case("udp/ECONNREFUSED-by-SO_ERROR", |t| {
        let fd = refused(t);
        t.saw("SO_ERROR", sys::get_int(fd, SOL_SOCKET, SO_ERROR));
        t.saw("SO_ERROR", sys::get_int(fd, SOL_SOCKET, SO_ERROR));
        t.polled(sys::poll(&[(fd, POLLIN)], 0));
    }),
    case("udp/no-refusal-when-not-connected", |t| {
        let dead = t.dead_udp();
        let (fd, _) = t.udp_bound();
        t.saw("sendto", sys::sendto(fd, b"x", 0, dead));
        t.polled(sys::poll(&[(fd, POLLIN)], WHILE));
        t.saw("sendto", sys::sendto(fd, b"x", 0, dead));
    }),
    case("udp/to-itself", |t| {
        let (fd, address) = t.udp_bound();
        t.saw("sendto", sys::sendto(fd, b"self", 0, address));
        ready(fd, POLLIN);
        let (got, from) = sys::recvfrom(fd, 9, 0);
        t.saw("recvfrom", got);
        t.say(from.port() == address.port());
    }),
    case("udp/reuseport-one-of-two-receives", |t| {
        let (a, b) = (t.udp(), t.udp());
        for fd in [a, b] {
            sys::set_int(fd, SOL_SOCKET, libc::SO_REUSEPORT, 1);
        }
        let any = t.any();
        let address = t.bound(a, any);
        t.saw("bind", sys::bind(b, address));
        let sender = t.udp();
        t.saw("sendto", sys::sendto(sender, b"one", 0, address));
        t.saw("poll", sys::poll(&[(a, POLLIN), (b, POLLIN)], SOON).0);
    }),
    case("udp/order", |t| {
        let (a, b) = t.udps_connected();
        for number in 0..50_u8 {
            sys::send(a, &[number], 0);
        }
        let mut came = Vec::new();
        while came.len() < 50 && ready(b, POLLIN) {
            came.extend_from_slice(&sys::recv(b, 9, 0).data);
        }
        t.say(came == (0..50).collect::<Vec<u8>>());
    }),
    case("udp/queue-overflows-silently", |t| {
        let (a, b) = t.udps_connected();
        sys::set_int(b, SOL_SOCKET, libc::SO_RCVBUF, 1);
        let mut ok = 0;
        for _ in 0..200 {
            ok += sys::send(a, &[1; 1000], MSG_DONTWAIT).count();
        }
        t.say(format!("sent {ok}"));
        t.saw("first", take(b, 2000).ret);
    }),
    case("udp/closed-in-between", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"lost", 0);
        ready(b, POLLIN);
        sys::close(b);
        t.saw("send", sys::send(a, b"x", 0));
        t.saw("recv", take(a, 9));
    }),
    case("udp/wildcard-receives-and-answers", |t| {
        let server = t.udp();
        let address = t.bound(server, Addr::v4(Ipv4Addr::UNSPECIFIED, 0));
        let client = t.udp();
        let to = address.at_v4(t.at.v4);
        t.saw("connect", sys::connect(client, to));
        sys::send(client, b"ask", 0);
        ready(server, POLLIN);
        let (got, from) = sys::recvfrom(server, 9, 0);
        t.saw("recvfrom", got);
        sys::sendto(server, b"answer", 0, from);
        t.saw("recv", take(client, 9));
    }),
    // Carried, one of the two comes over the kernel and one does not.
    case("udp/wildcard-hears-both-addresses", |t| {
        let server = t.udp();
        let everywhere = Addr::v4(Ipv4Addr::UNSPECIFIED, 0);
        let address = t.bound(server, everywhere);
        let (a, b) = (t.udp(), t.udp());
        let tell = |text: &[u8]| {
            sys::sendto(a, text, 0, address.at_v4(Ipv4Addr::LOCALHOST));
            sys::sendto(b, text, 0, address.at_v4(t.at.v4));
        };
        tell(b"two");
        t.polled(sys::poll(&[(server, POLLIN)], SOON));
        t.saw("recv", take(server, 9));
        t.saw("recv", take(server, 9));
        t.polled(sys::poll(&[(server, POLLIN)], 0));
        let epoll = t.must("epoll", sys::epoll_create1(0));
        let once = EPOLLIN | EPOLLONESHOT;
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, server, once, 7);
        tell(b"once");
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
        t.saw("recv", take(server, 9));
        sys::epoll_ctl(epoll, EPOLL_CTL_MOD, server, once, 7);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.saw("recv", take(server, 9));
        t.saw("recv", sys::recv(server, 9, MSG_DONTWAIT));
    }),
    case("udp/bound-stays-after-disconnect", |t| {
        let ((a, at_a), (_b, at_b)) = t.udps();
        sys::connect(a, at_b);
        sys::connect(a, Addr::family_only(0, 16));
        t.say(t.name(a).port() == at_a.port());
    }),
    case("udp/unbound-loses-its-port-on-disconnect", |t| {
        let (_b, at_b) = t.udp_bound();
        let fd = t.udp();
        sys::connect(fd, at_b);
        sys::connect(fd, Addr::family_only(0, 16));
        t.say(t.name(fd).port() == 0);
    }),
];

/// A connected socket that was told that nobody is there.
fn refused(t: &Talk) -> i32 {
    let dead = t.dead_udp();
    let fd = t.udp();
    sys::connect(fd, dead);
    sys::send(fd, b"x", 0);
    ready(fd, POLLIN);
    fd
}
