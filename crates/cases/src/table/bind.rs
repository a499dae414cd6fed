//! bind(2), listen(2), getsockname(2).

use super::case::{Case, case};
use crate::sys::{self, Addr};
use crate::talk::Talk;
use libc::{AF_INET, AF_INET6, AF_UNIX, SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const CASES: &[Case] = &[
    case("bind/any-port", |t| {
        let fd = t.tcp();
        t.saw("bind", sys::bind(fd, t.any()));
        let name = t.name(fd);
        t.say(format!(
            "port {} ours {}",
            name.port() != 0,
            name.ip() == t.any().ip()
        ));
    }),
    case("bind/wildcard", |t| {
        let fd = t.tcp();
        t.saw("bind", sys::bind(fd, Addr::v4(Ipv4Addr::UNSPECIFIED, 0)));
        let name = t.name(fd);
        t.say(format!("{:?} port {}", name.ip(), name.port() != 0));
    }),
    case("bind/given-port", |t| {
        let free = t.dead_udp();
        let fd = t.udp();
        t.saw("bind", sys::bind(fd, free));
        t.say(t.name(fd).port() == free.port());
    }),
    case("bind/twice", |t| {
        let fd = t.tcp();
        t.saw("bind", sys::bind(fd, t.any()));
        t.saw("again", sys::bind(fd, t.any()));
    }),
    case("bind/udp-twice", |t| {
        let fd = t.udp();
        t.saw("bind", sys::bind(fd, t.any()));
        t.saw("again", sys::bind(fd, t.any()));
    }),
    case("bind/connected", |t| {
        let (client, server) = t.pair();
        t.saw("client", sys::bind(client, t.any()));
        t.saw("server", sys::bind(server, t.any()));
    }),
    case("bind/EADDRINUSE", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        t.saw("bind", sys::bind(fd, address));
    }),
    case("bind/EADDRINUSE-wildcard", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        t.saw("bind", sys::bind(fd, address.at_v4(Ipv4Addr::UNSPECIFIED)));
    }),
    case("bind/EADDRINUSE-udp", |t| {
        let (_first, address) = t.udp_bound();
        let fd = t.udp();
        t.saw("bind", sys::bind(fd, address));
    }),
    case("bind/tcp-and-udp-share-numbers", |t| {
        let (_listener, address) = t.listener();
        let fd = t.udp();
        t.saw("bind", sys::bind(fd, address));
    }),
    case("bind/reuseaddr-does-not-share-a-listener", |t| {
        let (listener, address) = t.listener();
        let fd = t.tcp();
        sys::set_int(listener, SOL_SOCKET, SO_REUSEADDR, 1);
        sys::set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        t.saw("bind", sys::bind(fd, address));
    }),
    case("bind/reuseaddr-while-connections-last", |t| {
        let (listener, address) = t.listener();
        sys::set_int(listener, SOL_SOCKET, SO_REUSEADDR, 1);
        let (_client, _server) = t.pair_at(listener, address);
        sys::close(listener);
        let fd = t.tcp();
        t.saw("without", sys::bind(fd, address));
        sys::set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        t.saw("with", sys::bind(fd, address));
        t.saw("listen", sys::listen(fd, 1));
    }),
    case("bind/reuseaddr-shares-udp", |t| {
        let (a, b) = (t.udp(), t.udp());
        sys::set_int(a, SOL_SOCKET, SO_REUSEADDR, 1);
        sys::set_int(b, SOL_SOCKET, SO_REUSEADDR, 1);
        let any = t.any();
        let address = t.bound(a, any);
        t.saw("bind", sys::bind(b, address));
    }),
    case("bind/reuseport", |t| {
        let (a, b, c) = (t.tcp(), t.tcp(), t.tcp());
        sys::set_int(a, SOL_SOCKET, SO_REUSEPORT, 1);
        sys::set_int(b, SOL_SOCKET, SO_REUSEPORT, 1);
        let any = t.any();
        let address = t.bound(a, any);
        t.saw("listen", sys::listen(a, 1));
        t.saw("bind", sys::bind(b, address));
        t.saw("listen", sys::listen(b, 1));
        t.saw("without", sys::bind(c, address));
    }),
    case("bind/reuseport-udp", |t| {
        let (a, b) = (t.udp(), t.udp());
        sys::set_int(a, SOL_SOCKET, SO_REUSEPORT, 1);
        sys::set_int(b, SOL_SOCKET, SO_REUSEPORT, 1);
        let any = t.any();
        let address = t.bound(a, any);
        t.saw("bind", sys::bind(b, address));
    }),
    case("bind/EADDRNOTAVAIL", |t| {
        let fd = t.tcp();
        t.saw(
            "tcp",
            sys::bind(fd, Addr::v4(Ipv4Addr::new(192, 0, 2, 77), 0)),
        );
        let fd = t.udp();
        t.saw(
            "udp",
            sys::bind(fd, Addr::v4(Ipv4Addr::new(192, 0, 2, 77), 0)),
        );
    }),
    case("bind/EADDRNOTAVAIL-ipv6", |t| {
        let fd = t.tcp6();
        let elsewhere = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77);
        t.saw("bind", sys::bind(fd, Addr::v6(elsewhere, 0)));
    }),
    case("bind/EAFNOSUPPORT", |t| {
        let fd = t.tcp();
        t.saw("ipv6", sys::bind(fd, t.any6()));
        t.saw("unix", sys::bind(fd, Addr::family_only(AF_UNIX, 16)));
    }),
    case("bind/family-unspecified", |t| {
        let fd = t.tcp();
        t.saw("zeros", sys::bind(fd, Addr::family_only(0, 16)));
        let fd = t.tcp6();
        t.saw("ipv6", sys::bind(fd, Addr::family_only(0, 28)));
    }),
    case("bind/ipv4-address-on-ipv6-socket", |t| {
        let fd = t.tcp6();
        t.saw("bind", sys::bind(fd, t.any()));
    }),
    case("bind/length-too-short", |t| {
        let (fd, fd6) = (t.tcp(), t.tcp6());
        t.saw("15", sys::bind(fd, t.any().cut(15)));
        t.saw("0", sys::bind(fd, t.any().cut(0)));
        t.saw("ipv6 23", sys::bind(fd6, t.any6().cut(23)));
        t.saw("ipv6 24", sys::bind(fd6, t.any6().cut(24)));
    }),
    case("bind/length-too-long", |t| {
        let fd = t.tcp();
        t.saw("129", sys::bind(fd, t.any().cut(129)));
        t.saw("128", sys::bind(fd, t.any().cut(128)));
    }),
    case("bind/EFAULT", |t| {
        let fd = t.tcp();
        t.saw("bind", sys::bind_bad(fd));
    }),
    case("bind/EBADF", |t| t.saw("bind", sys::bind(-1, t.any()))),
    case("bind/ENOTSOCK", |t| {
        let [fd, _] = sys::pipe();
        t.saw("bind", sys::bind(fd, t.any()));
    }),
    case("bind/after-close-the-port-is-free", |t| {
        let (fd, address) = t.listener();
        sys::close(fd);
        let fd = t.tcp();
        t.saw("bind", sys::bind(fd, address));
        t.saw("listen", sys::listen(fd, 1));
    }),
    case("listen/bound", |t| {
        let fd = t.tcp();
        let any = t.any();
        t.bound(fd, any);
        t.saw("listen", sys::listen(fd, 5));
        t.saw("again", sys::listen(fd, 7));
        t.saw(
            "SO_ACCEPTCONN",
            sys::get_int(fd, SOL_SOCKET, libc::SO_ACCEPTCONN),
        );
    }),
    case("listen/unbound-takes-a-port", |t| {
        let fd = t.tcp();
        t.saw("listen", sys::listen(fd, 1));
        let name = t.name(fd);
        t.say(format!("{:?} port {}", name.ip(), name.port() != 0));
    }),
    case("listen/backlog-0-and-negative", |t| {
        let fd = t.tcp();
        let any = t.any();
        let address = t.bound(fd, any);
        t.saw("0", sys::listen(fd, 0));
        t.connected(address);
        t.saw("-1", sys::listen(fd, -1));
    }),
    case("listen/EOPNOTSUPP", |t| {
        let fd = t.udp();
        t.saw("listen", sys::listen(fd, 1));
    }),
    case("listen/connected", |t| {
        let (client, server) = t.pair();
        t.saw("client", sys::listen(client, 1));
        t.saw("server", sys::listen(server, 1));
    }),
    case("listen/EADDRINUSE", |t| {
        // Two bound with SO_REUSEADDR: only one of them may listen.
        let (a, b) = (t.tcp(), t.tcp());
        sys::set_int(a, SOL_SOCKET, SO_REUSEADDR, 1);
        sys::set_int(b, SOL_SOCKET, SO_REUSEADDR, 1);
        let any = t.any();
        let address = t.bound(a, any);
        t.saw("bind", sys::bind(b, address));
        t.saw("listen", sys::listen(a, 1));
        t.saw("listen", sys::listen(b, 1));
    }),
    case("listen/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::listen(-1, 1));
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::listen(fd, 1));
    }),
    case("listen/poll", |t| {
        let (fd, address) = t.listener();
        t.polled(sys::poll(&[(fd, 0x3fff)], 0));
        t.connected(address);
        t.polled(sys::poll(&[(fd, 0x3fff)], crate::talk::SOON));
    }),
    case("listen/after-shutdown-again", |t| {
        let (fd, address) = t.listener();
        t.saw("shutdown", sys::shutdown(fd, libc::SHUT_RDWR));
        t.saw("accept", sys::accept(fd));
        t.saw("listen", sys::listen(fd, 1));
        let client = t.tcp();
        t.saw("connect", sys::connect(client, address));
    }),
    case("getsockname/fresh", |t| {
        let fd = t.tcp();
        fresh_name(t, fd);
        let fd = t.udp6();
        fresh_name(t, fd);
    }),
    case("getsockname/both-ends", |t| {
        let (client, server) = t.pair();
        let (a, b) = (t.name(client), t.name(server));
        t.say(format!(
            "{} {}",
            a.ip() == t.any().ip(),
            b.ip() == t.any().ip()
        ));
        t.say(format!("{} {}", a.len, b.len));
        t.say(format!("ports differ {}", a.port() != b.port()));
    }),
    case("getsockname/room-short", |t| {
        let fd = t.tcp();
        let any = t.any();
        t.bound(fd, any);
        let (ret, name) = sys::getsockname_in(fd, 4);
        t.saw("4", format!("{ret} len {} ip {:?}", name.len, name.ip()));
        let (ret, name) = sys::getsockname_in(fd, 0);
        t.saw(
            "0",
            format!("{ret} len {} family {}", name.len, name.family()),
        );
    }),
    case("getsockname/room-negative", |t| {
        let fd = t.tcp();
        t.saw("getsockname", sys::getsockname_in(fd, u32::MAX).0);
    }),
    case("getsockname/EFAULT", |t| {
        let fd = t.tcp();
        t.saw("address", sys::getsockname_bad(fd));
        t.saw("length", sys::getsockname_bad_len(fd));
    }),
    case("getsockname/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::getsockname(-1).0);
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::getsockname(fd).0);
    }),
];

fn fresh_name(t: &Talk, fd: i32) {
    let (ret, name) = sys::getsockname(fd);
    let family = match name.family() {
        AF_INET => "ipv4",
        AF_INET6 => "ipv6",
        _ => "other",
    };
    t.say(format!(
        "{ret} {family} {:?} port {} len {}",
        name.ip(),
        name.port(),
        name.len
    ));
}
