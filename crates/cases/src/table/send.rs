//! send(2), sendto(2), sendmsg(2), sendmmsg(2).

use super::case::{Case, case};
use crate::sys::{self, Addr};
use crate::talk::{nonblocking, ready, take};
use libc::{EAGAIN, MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, POLLOUT, SHUT_WR};
use std::net::Ipv4Addr;

pub(super) const CASES: &[Case] = &[
    case("send/tcp", |t| {
        let (client, server) = t.pair();
        t.saw("send", sys::send(client, b"hello", 0));
        t.saw("recv", take(server, 9));
        t.saw("back", sys::send(server, b"hi", 0));
        t.saw("recv", take(client, 9));
    }),
    case("send/nothing", |t| {
        let (client, server) = t.pair();
        t.saw("send", sys::send(client, b"", 0));
        t.saw("recv", sys::recv(server, 9, MSG_DONTWAIT));
    }),
    case("send/ENOTCONN", |t| {
        let fd = t.tcp();
        t.saw("fresh", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.saw("nothing", sys::send(fd, b"", MSG_NOSIGNAL));
        let (listener, _) = t.listener();
        t.saw("listener", sys::send(listener, b"x", MSG_NOSIGNAL));
    }),
    case("send/EPIPE-after-shutdown", |t| {
        let (client, _server) = t.pair();
        t.saw("shutdown", sys::shutdown(client, SHUT_WR));
        t.saw("send", sys::send(client, b"x", MSG_NOSIGNAL));
        t.saw("nothing", sys::send(client, b"", MSG_NOSIGNAL));
    }),
    case("send/EAGAIN-when-full", |t| {
        let (client, _server) = t.pair();
        nonblocking(client);
        t.say(fill(client));
        t.polled(sys::poll(&[(client, POLLOUT)], 0));
        t.saw("send", sys::send(client, b"x", 0));
    }),
    case("send/MSG_DONTWAIT-when-full", |t| {
        let (client, _server) = t.pair();
        t.say(fill(client));
        t.saw("send", sys::send(client, b"x", MSG_DONTWAIT));
    }),
    case("send/room-again-after-reading", |t| {
        let (client, server) = t.pair();
        nonblocking(client);
        t.say(fill(client));
        while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
        t.say(ready(client, POLLOUT));
        t.saw("send", sys::send(client, b"x", 0));
    }),
    case("send/unknown-flag-is-ignored", |t| {
        let (client, server) = t.pair();
        t.saw("send", sys::send(client, b"abc", 0x0080_0000));
        t.saw("recv", take(server, 9));
    }),
    case("send/MSG_MORE", |t| {
        let (client, server) = t.pair();
        t.saw("send", sys::send(client, b"one ", MSG_MORE));
        t.saw("send", sys::send(client, b"two", 0));
        crate::talk::queued(server, 7);
        t.saw("recv", take(server, 9));
    }),
    case("send/MSG_EOR-MSG_CONFIRM", |t| {
        let (client, server) = t.pair();
        t.saw(
            "send",
            sys::send(client, b"a", libc::MSG_EOR | libc::MSG_CONFIRM),
        );
        t.saw("recv", take(server, 9));
    }),
    case("send/EFAULT", |t| {
        let (client, _server) = t.pair();
        t.saw("tcp", sys::send_bad(client));
        let (a, _b) = t.udps_connected();
        t.saw("udp", sys::send_bad(a));
    }),
    case("send/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::send(-1, b"x", 0));
        let [_, fd] = sys::pipe();
        t.saw("ENOTSOCK", sys::send(fd, b"x", 0));
    }),
    case("send/EDESTADDRREQ", |t| {
        let fd = t.udp();
        t.saw("ipv4", sys::send(fd, b"x", 0));
        let fd = t.udp6();
        t.saw("ipv6", sys::send(fd, b"x", 0));
    }),
    case("send/EMSGSIZE", |t| {
        let (a, _b) = t.udps_connected();
        t.saw("65508", sys::send(a, &[0; 65_508], 0));
        t.saw("65507", sys::send(a, &[0; 65_507], 0));
    }),
    case("send/MSG_OOB-on-udp", |t| {
        let (a, _b) = t.udps_connected();
        t.saw("send", sys::send(a, b"x", libc::MSG_OOB));
    }),
    case("sendto/tcp-connected", |t| {
        let (client, server) = t.pair();
        let peer = t.name(server);
        t.saw("peer", sys::sendto(client, b"abc", 0, peer));
        t.saw("other", sys::sendto(client, b"def", 0, peer.with_port(1)));
        crate::talk::queued(server, 6);
        t.saw("recv", take(server, 9));
    }),
    case("sendto/tcp-fresh", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        t.saw("sendto", sys::sendto(fd, b"abc", MSG_NOSIGNAL, address));
    }),
    case("sendto/udp", |t| {
        let ((a, at_a), (b, at_b)) = t.udps();
        t.saw("sendto", sys::sendto(a, b"hello", 0, at_b));
        ready(b, libc::POLLIN);
        let (got, from) = sys::recvfrom(b, 9, 0);
        t.saw("recvfrom", got);
        t.say(from.port() == at_a.port() && from.ip() == at_a.ip());
    }),
    case("sendto/udp-takes-a-port", |t| {
        let (_b, at_b) = t.udp_bound();
        let fd = t.udp();
        t.saw("sendto", sys::sendto(fd, b"x", 0, at_b));
        let name = t.name(fd);
        t.say(format!("{:?} {}", name.ip(), name.port() != 0));
    }),
    case("sendto/nobody", |t| {
        let fd = t.udp();
        t.saw("fresh", sys::sendto_nobody(fd, b"x", 0));
        let (a, b) = t.udps_connected();
        t.saw("connected", sys::sendto_nobody(a, b"yes", 0));
        t.saw("recv", take(b, 9));
    }),
    case("sendto/udp-address-wrong", |t| {
        let ((a, _), (_b, at_b)) = t.udps();
        t.saw("port 0", sys::sendto(a, b"x", 0, at_b.with_port(0)));
        t.saw("length 15", sys::sendto(a, b"x", 0, at_b.cut(15)));
        t.saw("ipv6", sys::sendto(a, b"x", 0, t.any6().with_port(9)));
        t.saw(
            "unix",
            sys::sendto(a, b"x", 0, Addr::family_only(libc::AF_UNIX, 16)),
        );
        t.saw("length 129", sys::sendto(a, b"x", 0, at_b.cut(129)));
    }),
    case("sendto/udp-family-unspecified", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        let mut bytes = Addr::family_only(0, 16).with_port(at_b.port());
        bytes = bytes.with_v4_octets(t.at.v4);
        t.saw("sendto", sys::sendto(a, b"unspec", 0, bytes));
        t.saw("recv", take(b, 9));
    }),
    case("sendto/udp-broadcast-EACCES", |t| {
        let fd = t.udp();
        t.saw(
            "sendto",
            sys::sendto(fd, b"x", 0, Addr::v4(Ipv4Addr::BROADCAST, 9)),
        );
    }),
    case("sendto/EFAULT", |t| {
        let fd = t.udp();
        t.saw("udp", sys::sendto_bad(fd));
    }),
    case("sendto/udp-connected-elsewhere", |t| {
        let (a, _b) = t.udps_connected();
        let (c, at_c) = t.udp_bound();
        t.saw("sendto", sys::sendto(a, b"aside", 0, at_c));
        t.saw("recv", take(c, 9));
    }),
    case("sendmsg/pieces", |t| {
        let (client, server) = t.pair();
        let pieces: [&[u8]; 3] = [b"one ", b"", b"two"];
        t.saw("sendmsg", sys::sendmsg(client, &pieces, None, &[], 0));
        t.saw("recv", take(server, 9));
    }),
    case("sendmsg/no-pieces", |t| {
        let (client, server) = t.pair();
        t.saw("tcp", sys::sendmsg(client, &[], None, &[], 0));
        t.saw("recv", sys::recv(server, 9, MSG_DONTWAIT));
        let (a, b) = t.udps_connected();
        t.saw("udp", sys::sendmsg(a, &[], None, &[], 0));
        t.saw("recv", take(b, 9));
    }),
    case("sendmsg/too-many-pieces", |t| {
        let (client, _server) = t.pair();
        let one: &[u8] = b"x";
        t.saw("1025", sys::sendmsg(client, &[one; 1025], None, &[], 0));
        t.saw("1024", sys::sendmsg(client, &[one; 1024], None, &[], 0));
    }),
    case("sendmsg/udp-to", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        t.saw(
            "sendmsg",
            sys::sendmsg(a, &[b"to", b"you"], Some(at_b), &[], 0),
        );
        t.saw("recv", take(b, 9));
        t.saw("nobody", sys::sendmsg(a, &[b"x"], None, &[], 0));
    }),
    case("sendmsg/descriptors-over-tcp", |t| {
        let (client, server) = t.pair();
        t.saw("sendmsg", sys::sendmsg(client, &[b"fd"], None, &[0], 0));
        t.saw("recv", sys::recv(server, 9, MSG_DONTWAIT));
    }),
    case("sendmsg/EFAULT", |t| {
        let (client, _server) = t.pair();
        t.saw("sendmsg", sys::sendmsg_bad(client));
    }),
    case("sendmsg/EPIPE", |t| {
        let (client, _server) = t.pair();
        sys::shutdown(client, SHUT_WR);
        t.saw(
            "sendmsg",
            sys::sendmsg(client, &[b"x"], None, &[], MSG_NOSIGNAL),
        );
    }),
    case("sendmmsg/udp", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        let (ret, lengths) = sys::sendmmsg(a, &[b"a", b"bc", b"def"], Some(at_b), 0);
        t.saw("sendmmsg", format!("{ret} {lengths:?}"));
        for _ in 0..3 {
            t.saw("recv", take(b, 9));
        }
    }),
    case("sendmmsg/tcp", |t| {
        let (client, server) = t.pair();
        let (ret, lengths) = sys::sendmmsg(client, &[b"a", b"bc"], None, 0);
        t.saw("sendmmsg", format!("{ret} {lengths:?}"));
        crate::talk::queued(server, 3);
        t.saw("recv", take(server, 9));
    }),
    case("sendmmsg/second-too-long", |t| {
        let (a, b) = t.udps_connected();
        let (ret, lengths) = sys::sendmmsg(a, &[b"a", &[0; 65_508], b"c"], None, 0);
        t.saw("sendmmsg", format!("{ret} {lengths:?}"));
        t.saw("recv", take(b, 9));
    }),
    case("sendmmsg/errors", |t| {
        let fd = t.udp();
        t.saw("nobody", sys::sendmmsg(fd, &[b"a"], None, 0).0);
        t.saw("none", sys::sendmmsg(fd, &[], None, 0).0);
        t.saw("EBADF", sys::sendmmsg(-1, &[b"a"], None, 0).0);
        let [_, pipe] = sys::pipe();
        t.saw("ENOTSOCK", sys::sendmmsg(pipe, &[b"a"], None, 0).0);
    }),
];

/// Sends until the way is full; that there was some room, and how it ended.
pub(super) fn fill(fd: i32) -> String {
    let (mut sent, block) = (0, vec![7_u8; 1 << 16]);
    loop {
        let ret = sys::send(fd, &block, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += ret.count();
        if ret.count() == 0 || sent > 64 << 20 {
            let end = if ret.is_errno(EAGAIN) {
                "full".to_owned()
            } else {
                ret.to_string()
            };
            return format!("more than 2048 {} {end}", sent > 2048);
        }
    }
}
