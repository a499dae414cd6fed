//! ipv6(7): IPv6 and IPv4-mapped addresses.

use super::case::{Case, case};
use crate::sys::{self, Addr};
use crate::talk::{Talk, ready, take};
use libc::{AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY, POLLIN};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `linux/in6.h`.
const IPV6_ADDRFORM: i32 = 1;

pub(super) const CASES: &[Case] = &[
    case("ipv6/tcp", |t| {
        let (client, server) = t.pair6();
        t.saw("send", sys::send(client, b"six", 0));
        t.saw("recv", take(server, 9));
        let name = t.name(client);
        t.say(format!("{} {}", name.ip() == t.any6().ip(), name.len));
        sys::close(client);
        t.saw("recv", take(server, 9));
    }),
    case("ipv6/udp", |t| {
        let (a, b) = (t.udp6(), t.udp6());
        let any = t.any6();
        t.bound(a, any);
        let at_b = t.bound(b, any);
        t.saw("sendto", sys::sendto(a, b"six", 0, at_b));
        ready(b, POLLIN);
        let (got, from) = sys::recvfrom(b, 9, 0);
        t.saw("recvfrom", got);
        t.say(format!("{} {}", from.ip() == any.ip(), from.len));
    }),
    case("ipv6/ECONNREFUSED", |t| {
        let fd = t.tcp6();
        let any = t.any6();
        let dead = t.bound(fd, any);
        let client = t.tcp6();
        t.saw("connect", sys::connect(client, dead));
    }),
    case("ipv6/IPV6_ADDRFORM", |t| {
        let (listener, address) = t.listener();
        let fd = t.tcp6();
        let form = |family| sys::set_int(fd, IPPROTO_IPV6, IPV6_ADDRFORM, family);
        t.saw("not connected", form(libc::AF_INET));
        t.saw("connect", sys::connect(fd, mapped(t, address.port())));
        t.saw("six", form(AF_INET6));
        t.saw("get", sys::get_int(fd, IPPROTO_IPV6, IPV6_ADDRFORM));
        t.saw("four", form(libc::AF_INET));
        t.say(t.name(fd).family() == libc::AF_INET);
        t.say(sys::getpeername(fd).1.family() == libc::AF_INET);
        t.saw(
            "domain",
            sys::get_int(fd, libc::SOL_SOCKET, libc::SO_DOMAIN),
        );
        t.saw("again", form(libc::AF_INET));
        ready(listener, POLLIN);
        let server = t.made("accept", sys::accept(listener));
        t.saw("send", sys::send(fd, b"four", 0));
        t.saw("recv", take(server, 9));
    }),
    case("ipv6/IPV6_ADDRFORM-of-an-IPv6-connection", |t| {
        let (client, _server) = t.pair6();
        let form = sys::set_int(client, IPPROTO_IPV6, IPV6_ADDRFORM, libc::AF_INET);
        t.saw("four", form);
    }),
    case("ipv6/mapped-connect", |t| {
        let (listener, address) = t.listener();
        let fd = t.tcp6();
        t.saw("connect", sys::connect(fd, mapped(t, address.port())));
        ready(listener, POLLIN);
        let (ret, from) = sys::accept_from(listener, 128);
        let server = t.made("accept", ret);
        t.say(format!(
            "family {} {}",
            from.family() == libc::AF_INET,
            from.len
        ));
        t.say(is_mapped(t.name(fd)));
        t.say(is_mapped(sys::getpeername(fd).1));
        sys::send(fd, b"mapped", 0);
        t.saw("recv", take(server, 9));
    }),
    case("ipv6/mapped-connect-v6only", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp6();
        sys::set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        t.saw("connect", sys::connect(fd, mapped(t, address.port())));
    }),
    case("ipv6/wildcard-takes-ipv4", |t| {
        let (listener, port) = wildcard(t);
        let fd = t.tcp();
        t.saw("connect", sys::connect(fd, t.any().with_port(port)));
        ready(listener, POLLIN);
        let (ret, from) = sys::accept_from(listener, 128);
        let server = t.made("accept", ret);
        t.say(format!("{} {}", is_mapped(from), from.len));
        t.say(is_mapped(t.name(server)));
        sys::send(fd, b"four", 0);
        t.saw("recv", take(server, 9));
    }),
    case("ipv6/wildcard-takes-ipv6", |t| {
        let (listener, port) = wildcard(t);
        let fd = t.tcp6();
        t.saw("connect", sys::connect(fd, t.any6().with_port(port)));
        ready(listener, POLLIN);
        t.made("accept", sys::accept(listener));
    }),
    case("ipv6/v6only-wildcard-refuses-ipv4", |t| {
        let (four, six) = (t.tcp(), t.tcp6());
        let any = t.any();
        let port = t.bound(four, any).port();
        sys::set_int(six, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        t.saw(
            "bind",
            sys::bind(six, Addr::v6(Ipv6Addr::UNSPECIFIED, port)),
        );
        t.saw("listen", sys::listen(six, 1));
        t.saw("connect", sys::connect(t.tcp(), any.with_port(port)));
        t.saw("listen", sys::listen(four, 1));
        t.saw("connect", sys::connect(t.tcp(), any.with_port(port)));
    }),
    case("ipv6/wildcard-occupies-ipv4", |t| {
        let (_listener, port) = wildcard(t);
        t.saw("bind", sys::bind(t.tcp(), t.any().with_port(port)));
    }),
    case("ipv6/mapped-bind", |t| {
        let fd = t.tcp6();
        t.saw("bind", sys::bind(fd, mapped(t, 0)));
        t.say(is_mapped(t.name(fd)));
        t.saw("listen", sys::listen(fd, 1));
        let port = t.name(fd).port();
        let client = t.tcp();
        t.saw("connect", sys::connect(client, t.any().with_port(port)));
    }),
    case("ipv6/mapped-udp", |t| {
        let ((a, at_a), fd) = (t.udp_bound(), t.udp6());
        let to = mapped(t, at_a.port());
        t.saw("sendto", sys::sendto(fd, b"mapped", 0, to));
        ready(a, POLLIN);
        let (got, from) = sys::recvfrom(a, 9, 0);
        t.saw("recvfrom", got);
        t.saw("answer", sys::sendto(a, b"back", 0, from));
        ready(fd, POLLIN);
        let (got, from) = sys::recvfrom(fd, 9, 0);
        t.saw("recvfrom", got);
        t.say(is_mapped(from));
    }),
    case("ipv6/udp-wildcard-takes-ipv4", |t| {
        let fd = t.udp6();
        let address = t.bound(fd, Addr::v6(Ipv6Addr::UNSPECIFIED, 0));
        let (a, _) = t.udp_bound();
        let to = t.any().with_port(address.port());
        t.saw("sendto", sys::sendto(a, b"four", 0, to));
        ready(fd, POLLIN);
        let (got, from) = sys::recvfrom(fd, 9, 0);
        t.saw("recvfrom", got);
        t.say(format!("{} {}", is_mapped(from), from.len));
    }),
    case("ipv6/ipv4-address-connect-udp", |t| {
        let (_a, at_a) = t.udp_bound();
        let fd = t.udp6();
        t.saw("connect", sys::connect(fd, at_a));
    }),
    case("ipv6/EADDRINUSE", |t| {
        let (_listener, address) = t.listener6();
        let fd = t.tcp6();
        t.saw("bind", sys::bind(fd, address));
    }),
    case("ipv6/half-close", |t| {
        let (client, server) = t.pair6();
        sys::shutdown(client, libc::SHUT_WR);
        t.saw("recv", take(server, 9));
        t.saw("send", sys::send(server, b"still", 0));
        t.saw("recv", take(client, 9));
    }),
    case("ipv6/SO_DOMAIN-of-accepted", |t| {
        let (client, server) = t.pair6();
        for fd in [client, server] {
            let domain = sys::get_int(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
            t.say(domain.int() == Some(AF_INET6));
        }
    }),
    case("ipv6/scope-of-a-link-local-address", |t| {
        let fd = t.tcp6();
        let local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        t.saw("bind", sys::bind(fd, Addr::v6(local, 0)));
        t.saw("connect", sys::connect(fd, Addr::v6(local, 9)));
    }),
];

/// Our IPv4 address as an IPv6 address.
fn mapped(t: &Talk, port: u16) -> Addr {
    Addr::v6(t.at.v4.to_ipv6_mapped(), port)
}

/// Whether it is an IPv6 address that stands for an IPv4 address, and for which kind.
fn is_mapped(address: Addr) -> String {
    match address.ip() {
        Some(IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
            Some(Ipv4Addr::UNSPECIFIED) => "mapped wildcard".to_owned(),
            Some(_) => "mapped".to_owned(),
            None => "ipv6".to_owned(),
        },
        Some(IpAddr::V4(_)) => "ipv4".to_owned(),
        None => "none".to_owned(),
    }
}

/// An IPv6 listener on the wildcard address, and its port.
fn wildcard(t: &Talk) -> (i32, u16) {
    let fd = t.tcp6();
    let set = sys::set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    t.must("IPV6_V6ONLY", set);
    let address = t.bound(fd, Addr::v6(Ipv6Addr::UNSPECIFIED, 0));
    t.must("listen", sys::listen(fd, 4));
    (fd, address.port())
}
