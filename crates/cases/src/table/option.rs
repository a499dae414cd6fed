//! getsockopt(2), setsockopt(2), socket(7): what all sockets have.

use super::case::{Case, case};
use crate::sys;
use crate::talk::{Talk, ready};
use libc::{
    IPPROTO_TCP, POLLERR, SO_BROADCAST, SO_DOMAIN, SO_DONTROUTE, SO_ERROR, SO_KEEPALIVE, SO_LINGER,
    SO_OOBINLINE, SO_PRIORITY, SO_PROTOCOL, SO_RCVBUF, SO_RCVLOWAT, SO_RCVTIMEO, SO_REUSEADDR,
    SO_REUSEPORT, SO_SNDBUF, SO_SNDTIMEO, SO_TYPE, SOL_SOCKET, TCP_NODELAY,
};

pub(super) const CASES: &[Case] = &[
    case("getsockopt/SO_TYPE-SO_DOMAIN-SO_PROTOCOL", |t| {
        for fd in [t.tcp(), t.tcp6(), t.udp(), t.udp6()] {
            for name in [SO_TYPE, SO_DOMAIN, SO_PROTOCOL] {
                t.say(sys::get_int(fd, SOL_SOCKET, name));
            }
        }
    }),
    case("getsockopt/SO_ACCEPTCONN", |t| {
        let (client, server) = t.pair();
        let (listener, _) = t.listener();
        for fd in [t.tcp(), listener, client, server] {
            t.say(sys::get_int(fd, SOL_SOCKET, libc::SO_ACCEPTCONN));
        }
    }),
    case("getsockopt/SO_ERROR-none", |t| {
        let (client, _server) = t.pair();
        t.saw("connected", sys::get_int(client, SOL_SOCKET, SO_ERROR));
        let fd = t.tcp();
        t.saw("fresh", sys::get_int(fd, SOL_SOCKET, SO_ERROR));
    }),
    case("getsockopt/SO_ERROR-reset-once", |t| {
        let (client, server) = t.pair();
        sys::set_linger(client, true, 0);
        sys::close(client);
        ready(server, POLLERR);
        t.saw("first", sys::get_int(server, SOL_SOCKET, SO_ERROR));
        t.saw("second", sys::get_int(server, SOL_SOCKET, SO_ERROR));
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("send", sys::send(server, b"x", libc::MSG_NOSIGNAL));
    }),
    case("getsockopt/lengths", |t| {
        let fd = t.tcp();
        for len in [0, 1, 2, 3, 4, 8] {
            t.say(sys::getsockopt(fd, SOL_SOCKET, SO_TYPE, len));
        }
    }),
    case("getsockopt/tcp-lengths", |t| {
        let fd = t.tcp();
        for len in [0, 1, 2, 4, 8] {
            t.say(sys::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, len));
        }
    }),
    case("getsockopt/ENOPROTOOPT", |t| {
        let fd = t.tcp();
        t.saw("socket", sys::get_int(fd, SOL_SOCKET, 9999));
        t.saw("tcp", sys::get_int(fd, IPPROTO_TCP, 9999));
        t.saw("ip", sys::get_int(fd, libc::IPPROTO_IP, 9999));
        t.saw("level", sys::get_int(fd, 9999, 1));
        let fd = t.udp();
        t.saw("udp", sys::get_int(fd, IPPROTO_TCP, TCP_NODELAY));
    }),
    case("getsockopt/EFAULT", |t| {
        let fd = t.tcp();
        t.saw("value", sys::getsockopt_bad(fd, SOL_SOCKET, SO_TYPE));
        t.saw("length", sys::getsockopt_bad_len(fd, SOL_SOCKET, SO_TYPE));
        t.saw("tcp", sys::getsockopt_bad(fd, IPPROTO_TCP, TCP_NODELAY));
    }),
    case("getsockopt/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::get_int(-1, SOL_SOCKET, SO_TYPE));
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::get_int(fd, SOL_SOCKET, SO_TYPE));
        t.saw("setsockopt", sys::set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1));
    }),
    case("setsockopt/read-only", |t| {
        let fd = t.tcp();
        for name in [
            SO_TYPE,
            SO_ERROR,
            libc::SO_ACCEPTCONN,
            SO_DOMAIN,
            SO_PROTOCOL,
        ] {
            t.say(sys::set_int(fd, SOL_SOCKET, name, 1));
        }
    }),
    case("setsockopt/ENOPROTOOPT", |t| {
        let fd = t.tcp();
        t.saw("socket", sys::set_int(fd, SOL_SOCKET, 9999, 1));
        t.saw("tcp", sys::set_int(fd, IPPROTO_TCP, 9999, 1));
        t.saw("ip", sys::set_int(fd, libc::IPPROTO_IP, 9999, 1));
        t.saw("level", sys::set_int(fd, 9999, 1, 1));
    }),
    case("setsockopt/lengths", |t| {
        let fd = t.tcp();
        for len in [0, 1, 3, 4, 5, 100] {
            t.say(sys::setsockopt(
                fd,
                SOL_SOCKET,
                SO_KEEPALIVE,
                &[1; 100][..len],
            ));
        }
        for len in [0, 3, 4, 5] {
            t.say(sys::setsockopt(
                fd,
                IPPROTO_TCP,
                TCP_NODELAY,
                &[1; 5][..len],
            ));
        }
    }),
    case("setsockopt/EFAULT", |t| {
        let fd = t.tcp();
        t.saw("socket", sys::setsockopt_bad(fd, SOL_SOCKET, SO_KEEPALIVE));
        t.saw("tcp", sys::setsockopt_bad(fd, IPPROTO_TCP, TCP_NODELAY));
    }),
    case("setsockopt/EBADF", |t| {
        t.say(sys::set_int(-1, SOL_SOCKET, SO_KEEPALIVE, 1));
    }),
    case("option/SO_KEEPALIVE", |t| flag(t, SO_KEEPALIVE)),
    case("option/SO_REUSEADDR", |t| flag(t, SO_REUSEADDR)),
    case("option/SO_REUSEPORT", |t| flag(t, SO_REUSEPORT)),
    case("option/SO_OOBINLINE", |t| flag(t, SO_OOBINLINE)),
    case("option/SO_BROADCAST", |t| flag(t, SO_BROADCAST)),
    case("option/SO_DONTROUTE", |t| flag(t, SO_DONTROUTE)),
    case("option/SO_TIMESTAMP", |t| flag(t, libc::SO_TIMESTAMP)),
    case("option/SO_PRIORITY", |t| each(t, SO_PRIORITY, &[0, 6, 3])),
    case("option/SO_MARK", |t| {
        let fd = t.tcp();
        t.saw("get", sys::get_int(fd, SOL_SOCKET, libc::SO_MARK));
    }),
    case("option/SO_RCVLOWAT", |t| {
        each(t, SO_RCVLOWAT, &[0, 1, 100, -1])
    }),
    case("option/SO_SNDLOWAT", |t| each(t, libc::SO_SNDLOWAT, &[5])),
    case("option/SO_SNDBUF-is-doubled", |t| {
        each(t, SO_SNDBUF, &[20_000, 100_000, 0, 1])
    }),
    case("option/SO_RCVBUF-is-doubled", |t| {
        each(t, SO_RCVBUF, &[20_000, 100_000, 0, 1])
    }),
    case("option/SO_BUSY_POLL", |t| {
        let fd = t.tcp();
        t.saw("get", sys::get_int(fd, SOL_SOCKET, libc::SO_BUSY_POLL));
    }),
    case("option/SO_INCOMING_CPU", |t| {
        let fd = t.tcp();
        t.saw("get", sys::get_int(fd, SOL_SOCKET, libc::SO_INCOMING_CPU));
    }),
    case("option/SO_LINGER", |t| {
        let fd = t.tcp();
        t.say(sys::getsockopt(fd, SOL_SOCKET, SO_LINGER, 8));
        t.saw("on 7", sys::set_linger(fd, true, 7));
        t.say(sys::getsockopt(fd, SOL_SOCKET, SO_LINGER, 8));
        t.saw("off 9", sys::set_linger(fd, false, 9));
        t.say(sys::getsockopt(fd, SOL_SOCKET, SO_LINGER, 8));
        t.saw("short", sys::set_int(fd, SOL_SOCKET, SO_LINGER, 1));
        t.say(sys::getsockopt(fd, SOL_SOCKET, SO_LINGER, 4));
    }),
    case("option/SO_RCVTIMEO", |t| timeout(t, SO_RCVTIMEO)),
    case("option/SO_SNDTIMEO", |t| timeout(t, SO_SNDTIMEO)),
    case("option/SO_PEERNAME", |t| {
        let (client, server) = t.pair();
        let peer = sys::getsockopt(client, SOL_SOCKET, libc::SO_PEERNAME, 16);
        t.saw("connected", peer.ret);
        let port = t.name(server).port().to_be_bytes();
        t.say(peer.bytes.get(2..4) == Some(&port[..]));
        let fd = t.tcp();
        let peer = sys::getsockopt(fd, SOL_SOCKET, libc::SO_PEERNAME, 16);
        t.saw("fresh", peer.ret);
    }),
    case("option/SO_COOKIE", |t| {
        let (a, b) = (t.tcp(), t.tcp());
        let cookies = [a, b, a].map(|fd| sys::getsockopt(fd, SOL_SOCKET, libc::SO_COOKIE, 8));
        t.saw("getsockopt", cookies[0].ret);
        t.say(cookies[0].bytes == cookies[2].bytes);
        t.say(cookies[0].bytes != cookies[1].bytes);
    }),
    case("option/SO_BINDTODEVICE-none", |t| {
        let fd = t.tcp();
        t.say(sys::getsockopt(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, 16));
        t.saw(
            "unknown",
            sys::setsockopt(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, b"nosuch0\0"),
        );
    }),
    case("option/inherited-by-accept", |t| {
        let (listener, address) = t.listener();
        let options = [
            (SOL_SOCKET, SO_KEEPALIVE, 1),
            (SOL_SOCKET, SO_OOBINLINE, 1),
            (SOL_SOCKET, SO_RCVBUF, 30_000),
            (IPPROTO_TCP, TCP_NODELAY, 1),
            (IPPROTO_TCP, libc::TCP_KEEPIDLE, 77),
        ];
        for (level, name, value) in options {
            sys::set_int(listener, level, name, value);
        }
        let (_client, server) = t.pair_at(listener, address);
        for (level, name, _) in options {
            t.say(sys::get_int(server, level, name));
        }
    }),
    case("option/kept-over-connect", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        sys::set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        sys::set_int(fd, SOL_SOCKET, SO_SNDBUF, 30_000);
        sys::set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        sys::connect(fd, address);
        t.say(sys::get_int(fd, SOL_SOCKET, SO_KEEPALIVE));
        t.say(sys::get_int(fd, SOL_SOCKET, SO_SNDBUF));
        t.say(sys::get_int(fd, IPPROTO_TCP, TCP_NODELAY));
    }),
];

/// What a flag is at first and becomes, on a stream and on a datagram socket.
fn flag(t: &Talk, name: i32) {
    for fd in [t.tcp(), t.udp()] {
        t.saw("at first", sys::get_int(fd, SOL_SOCKET, name));
        for value in [1, 0, 5] {
            t.saw(
                &format!("set {value}"),
                sys::set_int(fd, SOL_SOCKET, name, value),
            );
            t.saw("get", sys::get_int(fd, SOL_SOCKET, name));
        }
    }
}

/// What a number is at first and becomes.
fn each(t: &Talk, name: i32, values: &[i32]) {
    let fd = t.tcp();
    t.saw("at first", sys::get_int(fd, SOL_SOCKET, name));
    for &value in values {
        t.saw(
            &format!("set {value}"),
            sys::set_int(fd, SOL_SOCKET, name, value),
        );
        t.saw("get", sys::get_int(fd, SOL_SOCKET, name));
    }
}

fn timeout(t: &Talk, name: i32) {
    let fd = t.tcp();
    t.say(sys::getsockopt(fd, SOL_SOCKET, name, 16));
    t.saw("1.5 s", sys::set_timeout(fd, name, 1500));
    t.say(sys::getsockopt(fd, SOL_SOCKET, name, 16));
    t.saw("-1 s", sys::set_timeout(fd, name, -1000));
    t.say(sys::getsockopt(fd, SOL_SOCKET, name, 16));
    t.saw("short", sys::setsockopt(fd, SOL_SOCKET, name, &[0; 8]));
    let domain: Vec<u8> = [1_i64, 2_000_000]
        .iter()
        .flat_map(|n| n.to_ne_bytes())
        .collect();
    t.saw("EDOM", sys::setsockopt(fd, SOL_SOCKET, name, &domain));
}
