//! socket(2), socketpair(2).

use super::case::{Case, case};
use crate::sys;
use crate::talk::Talk;
use libc::{
    AF_INET, AF_INET6, AF_UNIX, FD_CLOEXEC, IPPROTO_TCP, IPPROTO_UDP, O_NONBLOCK, SOCK_CLOEXEC,
    SOCK_DGRAM, SOCK_NONBLOCK, SOCK_SEQPACKET, SOCK_STREAM,
};

pub(super) const CASES: &[Case] = &[
    case("socket/tcp", |t| made(t, AF_INET, SOCK_STREAM, 0)),
    case("socket/tcp-by-number", |t| {
        made(t, AF_INET, SOCK_STREAM, IPPROTO_TCP)
    }),
    case("socket/tcp-ipv6", |t| made(t, AF_INET6, SOCK_STREAM, 0)),
    case("socket/mptcp-is-carried-as-tcp", |t| {
        let fd = t.made(
            "socket",
            sys::socket(AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP),
        );
        let address = t.bound(fd, t.any());
        t.saw("listen", sys::listen(fd, 16));
        let client = t.made(
            "socket",
            sys::socket(AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP),
        );
        t.saw("connect", sys::connect(client, address));
        crate::talk::ready(fd, libc::POLLIN);
        let server = t.made("accept", sys::accept(fd));
        t.saw("send", sys::send(client, b"text", 0));
        t.saw("recv", crate::talk::take(server, 9));
        t.saw(
            "nodelay",
            sys::set_int(server, IPPROTO_TCP, libc::TCP_NODELAY, 1),
        );
    }),
    case("socket/udp", |t| made(t, AF_INET, SOCK_DGRAM, 0)),
    case("socket/udp-by-number", |t| {
        made(t, AF_INET, SOCK_DGRAM, IPPROTO_UDP)
    }),
    case("socket/udp-ipv6", |t| made(t, AF_INET6, SOCK_DGRAM, 0)),
    case("socket/non-blocking", |t| {
        made(t, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)
    }),
    case("socket/close-on-exec", |t| {
        made(t, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)
    }),
    case("socket/both-flags", |t| {
        made(t, AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }),
    case("socket/flag-unknown", |t| {
        made(t, AF_INET, SOCK_STREAM | 0x100, 0)
    }),
    case("socket/family-unknown", |t| made(t, 255, SOCK_STREAM, 0)),
    case("socket/family-unspecified", |t| made(t, 0, SOCK_STREAM, 0)),
    case("socket/family-negative", |t| made(t, -1, SOCK_STREAM, 0)),
    case("socket/kind-unknown", |t| made(t, AF_INET, 14, 0)),
    case("socket/kind-zero", |t| made(t, AF_INET, 0, 0)),
    case("socket/kind-not-of-family", |t| {
        made(t, AF_INET, SOCK_SEQPACKET, 0)
    }),
    case("socket/stream-of-udp", |t| {
        made(t, AF_INET, SOCK_STREAM, IPPROTO_UDP)
    }),
    case("socket/datagrams-of-tcp", |t| {
        made(t, AF_INET, SOCK_DGRAM, IPPROTO_TCP)
    }),
    case("socket/protocol-unknown", |t| {
        made(t, AF_INET, SOCK_STREAM, 200)
    }),
    case("socket/protocol-out-of-range", |t| {
        made(t, AF_INET, SOCK_STREAM, 100_000)
    }),
    case("socket/protocol-negative", |t| {
        made(t, AF_INET6, SOCK_STREAM, -1)
    }),
    case("socket/numbers-are-the-lowest-free", |t| {
        let [a, b, c] = [t.tcp(), t.tcp(), t.tcp()];
        t.say(format!("+{} +{}", b - a, c - b));
        sys::close(b);
        let again = t.udp();
        t.say(format!("again {}", again == b));
    }),
    case("socket/fresh-poll", |t| {
        let fd = t.tcp();
        t.polled(sys::poll(&[(fd, 0x3fff)], 0));
    }),
    case("socket/fresh-udp-poll", |t| {
        let fd = t.udp();
        t.polled(sys::poll(&[(fd, 0x3fff)], 0));
    }),
    case("socketpair/unix", |t| {
        let (ret, [a, b]) = sys::socketpair(AF_UNIX, SOCK_STREAM, 0);
        t.saw("socketpair", ret);
        t.saw("send", sys::send(a, b"unix", 0));
        t.saw("recv", sys::recv(b, 9, 0));
    }),
    case("socketpair/internet", |t| {
        t.saw("tcp", sys::socketpair(AF_INET, SOCK_STREAM, 0).0);
        t.saw("udp", sys::socketpair(AF_INET6, SOCK_DGRAM, 0).0);
    }),
    case("socketpair/EFAULT", |t| {
        t.saw("socketpair", sys::socketpair_bad())
    }),
];

/// `socket`, and the flags that the descriptor has then.
fn made(t: &Talk, domain: i32, kind: i32, protocol: i32) {
    let fd = t.made("socket", sys::socket(domain, kind, protocol));
    if fd >= 0 {
        let status = sys::fcntl(fd, libc::F_GETFL, 0).fd();
        let close_on_exec = sys::fcntl(fd, libc::F_GETFD, 0).fd() & FD_CLOEXEC != 0;
        t.say(format!("non-blocking {}", status & O_NONBLOCK != 0));
        t.say(format!("close-on-exec {close_on_exec}"));
        t.say(format!("socket {:?}", sys::is_socket(fd).1));
    }
}
