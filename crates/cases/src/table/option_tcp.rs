//! tcp(7), ip(7), ipv6(7), udp(7): options.

use super::case::{Case, case};
use crate::sys;
use crate::talk::{Talk, ready, take};
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, POLLIN};

pub(super) const CASES: &[Case] = &[
    case("tcp/TCP_NODELAY", |t| tcp(t, libc::TCP_NODELAY, &[1, 0, 7])),
    case("tcp/TCP_CORK", |t| tcp(t, libc::TCP_CORK, &[1, 0])),
    case("tcp/TCP_CORK-uncork-sends", |t| {
        let (client, server) = t.pair();
        t.saw("cork", sys::set_int(client, IPPROTO_TCP, libc::TCP_CORK, 1));
        sys::send(client, b"one ", 0);
        sys::send(client, b"two", 0);
        t.saw(
            "uncork",
            sys::set_int(client, IPPROTO_TCP, libc::TCP_CORK, 0),
        );
        crate::talk::queued(server, 7);
        t.saw("recv", take(server, 9));
    }),
    case("tcp/TCP_KEEPIDLE", |t| {
        tcp(t, libc::TCP_KEEPIDLE, &[1, 60, 0, 32_767, 32_768])
    }),
    case("tcp/TCP_KEEPINTVL", |t| {
        tcp(t, libc::TCP_KEEPINTVL, &[1, 10, 0, 32_768])
    }),
    case("tcp/TCP_KEEPCNT", |t| {
        tcp(t, libc::TCP_KEEPCNT, &[1, 127, 0, 128])
    }),
    case("tcp/TCP_SYNCNT", |t| {
        tcp(t, libc::TCP_SYNCNT, &[1, 3, 0, 128])
    }),
    case("tcp/TCP_LINGER2", |t| tcp(t, libc::TCP_LINGER2, &[10, -1])),
    case("tcp/TCP_DEFER_ACCEPT", |t| {
        tcp(t, libc::TCP_DEFER_ACCEPT, &[0])
    }),
    case("tcp/TCP_WINDOW_CLAMP", |t| {
        tcp(t, libc::TCP_WINDOW_CLAMP, &[0])
    }),
    case("tcp/TCP_QUICKACK", |t| {
        let (client, _server) = t.pair();
        t.saw(
            "off",
            sys::set_int(client, IPPROTO_TCP, libc::TCP_QUICKACK, 0),
        );
        t.saw(
            "on",
            sys::set_int(client, IPPROTO_TCP, libc::TCP_QUICKACK, 1),
        );
        t.saw("get", sys::get_int(client, IPPROTO_TCP, libc::TCP_QUICKACK));
    }),
    case("tcp/TCP_MAXSEG-fresh", |t| {
        tcp(t, libc::TCP_MAXSEG, &[1000, 87, 40_000])
    }),
    case("tcp/TCP_USER_TIMEOUT", |t| {
        tcp(t, libc::TCP_USER_TIMEOUT, &[5000, 0, -1])
    }),
    case("tcp/TCP_FASTOPEN", |t| {
        let fd = t.tcp();
        t.saw("get", sys::get_int(fd, IPPROTO_TCP, libc::TCP_FASTOPEN));
    }),
    case("tcp/TCP_NOTSENT_LOWAT", |t| {
        tcp(t, libc::TCP_NOTSENT_LOWAT, &[16_384])
    }),
    case("tcp/TCP_CONGESTION", |t| {
        let fd = t.tcp();
        let set = |name: &[u8]| sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, name);
        t.saw("unknown", set(b"nosuch"));
        t.saw("empty", set(b""));
        t.saw("reno", set(b"reno"));
        let value = sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, 16);
        t.saw(
            "get",
            format!("{} {} {}", value.ret, value.len, value.bytes.escape_ascii()),
        );
        t.saw("cubic", set(b"cubic"));
    }),
    case("tcp/TCP_INFO-lengths", |t| {
        let (client, _server) = t.pair();
        for len in [0, 1, 8, 104] {
            let info = sys::getsockopt(client, IPPROTO_TCP, libc::TCP_INFO, len);
            t.say(format!("{} {}", info.ret, info.len));
        }
    }),
    case("tcp/TCP_INFO-state", |t| {
        let fd = t.tcp();
        state(t, "fresh", fd);
        let (listener, address) = t.listener();
        state(t, "listener", listener);
        let (client, server) = t.pair_at(listener, address);
        state(t, "client", client);
        state(t, "server", server);
        sys::shutdown(client, libc::SHUT_WR);
        ready(server, libc::POLLRDHUP);
        state(t, "server", server);
        crate::talk::wait_for(|| state_of(client) == Some(5));
        state(t, "client", client);
        sys::shutdown(server, libc::SHUT_WR);
        ready(client, POLLIN);
        crate::talk::wait_for(|| state_of(client) == Some(7));
        state(t, "client", client);
    }),
    case("tcp/TCP_INFO-is-read-only", |t| {
        let fd = t.tcp();
        t.saw(
            "set",
            sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_INFO, &[0; 104]),
        );
    }),
    case("tcp/TCP_ULP", |t| {
        let fd = t.tcp();
        t.saw(
            "fresh tls",
            sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_ULP, b"tls"),
        );
        t.saw(
            "unknown",
            sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_ULP, b"nosuch"),
        );
    }),
    case("ip/IP_TTL", |t| ip(t, libc::IP_TTL, &[1, 255, -1, 0, 256])),
    case("ip/IP_TOS", |t| ip(t, libc::IP_TOS, &[0x10, 0xff, 0])),
    case("ip/IP_MTU_DISCOVER", |t| {
        ip(t, libc::IP_MTU_DISCOVER, &[0, 2, 99])
    }),
    case("ip/IP_MTU-not-connected", |t| {
        let fd = t.tcp();
        t.saw("get", sys::get_int(fd, IPPROTO_IP, libc::IP_MTU));
    }),
    case("ip/IP_FREEBIND", |t| {
        let fd = t.tcp();
        t.saw("set", sys::set_int(fd, IPPROTO_IP, libc::IP_FREEBIND, 1));
        t.saw("get", sys::get_int(fd, IPPROTO_IP, libc::IP_FREEBIND));
        let elsewhere = std::net::Ipv4Addr::new(192, 0, 2, 77);
        t.saw("bind", sys::bind(fd, sys::Addr::v4(elsewhere, 0)));
    }),
    case("ip/IP_RECVERR", |t| {
        let fd = t.udp();
        t.saw("set", sys::set_int(fd, IPPROTO_IP, libc::IP_RECVERR, 1));
        t.saw("get", sys::get_int(fd, IPPROTO_IP, libc::IP_RECVERR));
    }),
    case("ip/IP_PKTINFO", |t| {
        let fd = t.udp();
        t.saw("get", sys::get_int(fd, IPPROTO_IP, libc::IP_PKTINFO));
        t.saw("set", sys::set_int(fd, IPPROTO_IP, libc::IP_PKTINFO, 1));
        t.saw("get", sys::get_int(fd, IPPROTO_IP, libc::IP_PKTINFO));
    }),
    case("ip/IP_BIND_ADDRESS_NO_PORT", |t| {
        let fd = t.tcp();
        let name = libc::IP_BIND_ADDRESS_NO_PORT;
        t.saw("set", sys::set_int(fd, IPPROTO_IP, name, 1));
        t.saw("get", sys::get_int(fd, IPPROTO_IP, name));
        t.saw("bind", sys::bind(fd, t.any()));
        t.say(t.name(fd).port());
    }),
    case("ip/IP_MULTICAST_TTL-LOOP", |t| {
        let fd = t.udp();
        for name in [libc::IP_MULTICAST_TTL, libc::IP_MULTICAST_LOOP] {
            t.saw("get", sys::get_int(fd, IPPROTO_IP, name));
            t.saw("set", sys::set_int(fd, IPPROTO_IP, name, 0));
            t.saw("get", sys::get_int(fd, IPPROTO_IP, name));
        }
    }),
    case("ip/options-of-one-byte", |t| {
        let fd = t.tcp();
        t.saw("set", sys::setsockopt(fd, IPPROTO_IP, libc::IP_TTL, &[9]));
        t.say(sys::getsockopt(fd, IPPROTO_IP, libc::IP_TTL, 1));
        t.say(sys::getsockopt(fd, IPPROTO_IP, libc::IP_TTL, 4));
        t.say(sys::getsockopt(fd, IPPROTO_IP, libc::IP_TTL, 0));
    }),
    case("ipv6/IPV6_V6ONLY", |t| {
        let fd = t.tcp6();
        t.saw("get", sys::get_int(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY));
        t.saw("set", sys::set_int(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY, 1));
        t.saw("get", sys::get_int(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY));
        let any = t.any6();
        t.bound(fd, any);
        t.saw(
            "bound",
            sys::set_int(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY, 0),
        );
    }),
    case("ipv6/IPV6_UNICAST_HOPS-IPV6_TCLASS", |t| {
        let fd = t.tcp6();
        for name in [libc::IPV6_UNICAST_HOPS, libc::IPV6_TCLASS] {
            t.saw("get", sys::get_int(fd, IPPROTO_IPV6, name));
            for value in [9, 255, 256, -1, -2] {
                t.saw("set", sys::set_int(fd, IPPROTO_IPV6, name, value));
                t.saw("get", sys::get_int(fd, IPPROTO_IPV6, name));
            }
        }
    }),
    case("ipv6/options-on-an-ipv4-socket", |t| {
        let fd = t.tcp();
        t.saw("get", sys::get_int(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY));
        t.saw("set", sys::set_int(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY, 1));
    }),
    case("ipv6/ENOPROTOOPT", |t| {
        let fd = t.tcp6();
        t.saw("get", sys::get_int(fd, IPPROTO_IPV6, 9999));
        t.saw("set", sys::set_int(fd, IPPROTO_IPV6, 9999, 1));
        t.saw(
            "short",
            sys::setsockopt(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY, &[1]),
        );
    }),
    case("udp/UDP_CORK", |t| {
        let (a, b) = t.udps_connected();
        t.saw("cork", sys::set_int(a, libc::IPPROTO_UDP, 1, 1));
        t.saw("get", sys::get_int(a, libc::IPPROTO_UDP, 1));
        t.saw("send", sys::send(a, b"one ", 0));
        t.saw("send", sys::send(a, b"two", 0));
        t.saw("uncork", sys::set_int(a, libc::IPPROTO_UDP, 1, 0));
        t.saw("recv", take(b, 9));
    }),
    case("udp/MSG_MORE", |t| {
        let (a, b) = t.udps_connected();
        t.saw("send", sys::send(a, b"one ", libc::MSG_MORE));
        t.saw("send", sys::send(a, b"two", 0));
        t.saw("recv", take(b, 9));
    }),
    case("udp/options-of-tcp", |t| {
        let fd = t.udp();
        t.saw("set", sys::set_int(fd, IPPROTO_TCP, libc::TCP_NODELAY, 1));
        t.saw("unknown", sys::set_int(fd, libc::IPPROTO_UDP, 9999, 1));
    }),
];

/// What an option of TCP is at first and becomes.
fn tcp(t: &Talk, name: i32, values: &[i32]) {
    let fd = t.tcp();
    numbers(t, fd, IPPROTO_TCP, (name, values));
}

/// What an option of IPv4 is at first and becomes.
fn ip(t: &Talk, name: i32, values: &[i32]) {
    let fd = t.tcp();
    numbers(t, fd, IPPROTO_IP, (name, values));
}

fn numbers(t: &Talk, fd: i32, level: i32, (name, values): (i32, &[i32])) {
    t.saw("at first", sys::get_int(fd, level, name));
    for &value in values {
        t.saw(
            &format!("set {value}"),
            sys::set_int(fd, level, name, value),
        );
        t.saw("get", sys::get_int(fd, level, name));
    }
}

/// `tcpi_state`, the first byte of `struct tcp_info`.
fn state_of(fd: i32) -> Option<u8> {
    let info = sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_INFO, 104);
    info.bytes.first().copied()
}

fn state(t: &Talk, who: &str, fd: i32) {
    t.say(format!("{who} {:?}", state_of(fd)));
}
