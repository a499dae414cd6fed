//! recv(2), recvfrom(2), recvmsg(2), recvmmsg(2).

use super::case::{Case, case};
use crate::sys;
use crate::talk::{Talk, nonblocking, pause, queued, ready, take};
use libc::{MSG_DONTWAIT, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, POLLIN, SHUT_RD, SHUT_WR};

pub(super) const CASES: &[Case] = &[
    case("recv/in-parts", |t| {
        let server = with_text(t, b"abcdef");
        t.saw("recv", sys::recv(server, 2, 0));
        t.saw("recv", sys::recv(server, 3, 0));
        t.saw("recv", sys::recv(server, 3, 0));
    }),
    case("recv/EAGAIN", |t| {
        let (client, server) = t.pair();
        t.saw("flag", sys::recv(client, 9, MSG_DONTWAIT));
        nonblocking(server);
        t.saw("socket", sys::recv(server, 9, 0));
        let (udp, _) = t.udp_bound();
        t.saw("udp", sys::recv(udp, 9, MSG_DONTWAIT));
    }),
    case("recv/room-for-nothing", |t| {
        let (client, server) = t.pair();
        t.saw("empty", sys::recv(server, 0, MSG_DONTWAIT));
        sys::send(client, b"abc", 0);
        ready(server, POLLIN);
        t.saw("some", sys::recv(server, 0, 0));
        t.saw("rest", sys::recv(server, 9, 0));
    }),
    case("recv/room-for-nothing-by-read", |t| {
        let (client, server) = t.pair();
        t.saw("read", sys::read(server, 0));
        t.saw("readv", sys::readv(server, &[0, 0]));
        sys::send(client, b"abc", 0);
        ready(server, POLLIN);
        t.saw("read", sys::read(server, 0));
        t.saw("rest", sys::read(server, 9));
        sys::shutdown(client, SHUT_WR);
        ready(server, libc::POLLRDHUP);
        t.saw("end", sys::recv(server, 0, 0));
    }),
    case("recv/SO_RCVLOWAT", |t| {
        let (client, server) = t.pair();
        sys::set_int(server, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 5);
        sys::send(client, b"abc", 0);
        queued(server, 3);
        t.saw("not waiting", sys::recv(server, 9, MSG_DONTWAIT));
        let pid = sys::fork(|| {
            for part in [&b"de"[..], b"f", b"gh"] {
                pause(20);
                sys::send(client, part, 0);
            }
            0
        });
        t.saw("waiting", sys::recv(server, 9, 0));
        sys::waitpid(pid, 0);
        sys::send(client, b"ij", 0);
        t.saw("no more room", sys::recv(server, 2, 0));
        sys::send(client, b"k", 0);
        sys::shutdown(client, SHUT_WR);
        t.saw("at the end", sys::recv(server, 9, 0));
    }),
    case("recv/ENOTCONN", |t| {
        let fd = t.tcp();
        t.saw("fresh", sys::recv(fd, 9, 0));
        let (listener, _) = t.listener();
        t.saw("listener", sys::recv(listener, 9, 0));
    }),
    case("recv/end", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"last", 0);
        sys::close(client);
        queued(server, 4);
        t.saw("recv", take(server, 9));
        t.saw("recv", take(server, 9));
        t.saw("recv", take(server, 9));
    }),
    case("recv/MSG_PEEK", |t| {
        let server = with_text(t, b"abcdef");
        t.saw("peek", sys::recv(server, 3, MSG_PEEK));
        t.saw("peek", sys::recv(server, 9, MSG_PEEK));
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("peek", sys::recv(server, 9, MSG_PEEK | MSG_DONTWAIT));
    }),
    case("recv/MSG_TRUNC-discards", |t| {
        let server = with_text(t, b"abcdef");
        t.saw("trunc", sys::recv(server, 4, MSG_TRUNC).ret);
        t.saw("recv", sys::recv(server, 9, 0));
    }),
    case("recv/MSG_WAITALL", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            for part in [&b"one "[..], b"two ", b"three"] {
                sys::send(client, part, 0);
                pause(10);
            }
            0
        });
        t.saw("recv", sys::recv(server, 13, MSG_WAITALL));
        sys::waitpid(pid, 0);
    }),
    case("recv/MSG_WAITALL-cut-by-the-end", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"short", 0);
        sys::shutdown(client, SHUT_WR);
        t.saw("recv", sys::recv(server, 100, MSG_WAITALL));
        t.saw("recv", sys::recv(server, 100, MSG_WAITALL));
    }),
    case("recv/MSG_WAITALL-and-MSG_DONTWAIT", |t| {
        let server = with_text(t, b"some");
        t.saw("recv", sys::recv(server, 100, MSG_WAITALL | MSG_DONTWAIT));
    }),
    case("recv/MSG_WAITALL-and-MSG_PEEK", |t| {
        let server = with_text(t, b"some");
        t.saw("recv", sys::recv(server, 4, MSG_WAITALL | MSG_PEEK));
        t.saw("recv", sys::recv(server, 4, MSG_WAITALL));
    }),
    case("recv/MSG_OOB", |t| {
        let (client, server) = t.pair();
        t.saw("send", sys::send(client, b"!", MSG_OOB));
        t.polled(sys::poll(&[(server, libc::POLLPRI)], crate::talk::SOON));
        t.saw("oob", sys::recv(server, 1, MSG_OOB));
        t.saw("again", sys::recv(server, 1, MSG_OOB));
    }),
    case("recv/MSG_OOB-nothing", |t| {
        let (_client, server) = t.pair();
        t.saw("recv", sys::recv(server, 1, MSG_OOB));
    }),
    case("recv/MSG_OOB-among-text", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"ab", 0);
        t.saw("send", sys::send(client, b"cd", MSG_OOB));
        sys::send(client, b"ef", 0);
        ready(server, libc::POLLPRI);
        queued(server, 3);
        t.saw("before", sys::recv(server, 9, 0));
        t.saw("mark", sys::at_mark(server));
        t.saw("oob", sys::recv(server, 1, MSG_OOB));
        t.saw("after", take(server, 9));
    }),
    case("recv/MSG_OOB-passed-or-kept", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"ab!", MSG_OOB);
        ready(server, libc::POLLPRI);
        sys::send(client, b"cd", 0);
        queued(server, 2);
        t.saw("queued", sys::ioctl(server, libc::FIONREAD, 0).1);
        t.saw("kept", sys::recv(server, 1, MSG_OOB | MSG_PEEK));
        t.saw("peek", sys::recv(server, 9, MSG_PEEK));
        t.saw("all", sys::recv(server, 2, MSG_WAITALL));
        t.polled(sys::poll(&[(server, libc::POLLPRI | POLLIN)], 0));
        t.saw("past", sys::recv(server, 9, 0));
        t.saw("passed", sys::recv(server, 1, MSG_OOB));
        t.polled(sys::poll(&[(server, libc::POLLPRI | POLLIN)], 0));
        // One that stands alone is nothing to read; the end behind it is.
        sys::send(client, b"?", MSG_OOB);
        ready(server, libc::POLLPRI);
        t.polled(sys::poll(&[(server, libc::POLLPRI | POLLIN)], 0));
        t.saw("alone", sys::recv(server, 9, MSG_DONTWAIT));
        sys::shutdown(client, SHUT_WR);
        ready(server, libc::POLLRDHUP);
        t.saw("end", sys::recv(server, 9, 0));
    }),
    case("recv/MSG_OOB-twice", |t| {
        let (client, server) = t.pair();
        for byte in [b"1", b"2"] {
            sys::send(client, b"text", 0);
            sys::send(client, byte, MSG_OOB);
            ready(server, libc::POLLPRI);
            queued(server, 4);
            t.saw("before", sys::recv(server, 9, 0));
            t.saw("urgent", sys::recv(server, 9, MSG_OOB));
        }
        sys::send(client, b"rest", 0);
        queued(server, 4);
        t.saw("rest", sys::recv(server, 9, 0));
    }),
    case("recv/SO_OOBINLINE", |t| {
        let (client, server) = t.pair();
        sys::set_int(server, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1);
        sys::send(client, b"ab!", MSG_OOB);
        queued(server, 2);
        ready(server, libc::POLLPRI);
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("recv", take(server, 9));
        t.saw("oob", sys::recv(server, 1, MSG_OOB));
    }),
    case("recv/MSG_ERRQUEUE-empty", |t| {
        let (client, _server) = t.pair();
        t.saw("tcp", sys::recv(client, 9, libc::MSG_ERRQUEUE));
        let (udp, _) = t.udp_bound();
        t.saw("udp", sys::recv(udp, 9, libc::MSG_ERRQUEUE));
    }),
    case("recv/EFAULT", |t| {
        let server = with_text(t, b"abc");
        t.saw("bad", sys::recv_bad(server));
        t.saw("good", sys::recv(server, 9, MSG_DONTWAIT));
    }),
    case("recv/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::recv(-1, 1, 0));
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::recv(fd, 1, 0));
    }),
    case("recv/after-shutdown", |t| {
        let server = with_text(t, b"kept");
        t.saw("shutdown", sys::shutdown(server, SHUT_RD));
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("recv", sys::recv(server, 9, 0));
    }),
    case("recv/fortified", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"abcdefgh", 0);
        queued(server, 8);
        t.saw("__recv_chk", sys::recv_checked(server, 2, 0));
        t.saw("__read_chk", sys::read_checked(server, 2));
        let (got, _) = sys::recvfrom_checked(server, 2, 0);
        t.saw("__recvfrom_chk", got);
        let (ret, revents) = sys::poll_checked(server, POLLIN, 0);
        t.saw(
            "__poll_chk",
            format!("{ret} {}", crate::show::poll_bits(revents)),
        );
    }),
    case("recv/large", |t| {
        let (client, server) = t.pair();
        let text: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let sender = text.clone();
        let pid = sys::fork(move || i32::from(!send_all(client, &sender)));
        sys::close(client);
        let mut came = Vec::new();
        loop {
            let got = sys::recv(server, 100_000, 0);
            if got.data.is_empty() {
                t.saw("end", got);
                break;
            }
            came.extend_from_slice(&got.data);
        }
        t.say(format!("{} {}", came.len(), came == text));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("recvfrom/tcp-has-no-address", |t| {
        let server = with_text(t, b"abc");
        let (got, from) = sys::recvfrom(server, 9, 0);
        t.saw(
            "recvfrom",
            format!("{got} len {} family {}", from.len, from.family()),
        );
    }),
    case("recvfrom/udp-room-short", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        sys::sendto(a, b"abc", 0, at_b);
        ready(b, POLLIN);
        let (got, from) = sys::recvfrom_in(b, 9, 0, 2);
        t.saw(
            "recvfrom",
            format!("{got} len {} family {}", from.len, from.family()),
        );
    }),
    case("recvfrom/udp-room-negative", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        sys::sendto(a, b"abc", 0, at_b);
        ready(b, POLLIN);
        t.saw("recvfrom", sys::recvfrom_in(b, 9, 0, u32::MAX).0);
    }),
    case("recvmsg/pieces", |t| {
        let server = with_text(t, b"abcdef");
        let message = sys::recvmsg(server, &[2, 0, 9], 0, 0);
        t.message(&message);
        t.say(format!("name {}", message.from.len));
    }),
    case("recvmsg/udp-truncated", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"abcdef", 0);
        ready(b, POLLIN);
        t.message(&sys::recvmsg(b, &[2, 2], 0, 0));
        t.saw("recv", sys::recv(b, 9, MSG_DONTWAIT));
    }),
    case("recvmsg/udp-truncated-true-length", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"abcdef", 0);
        ready(b, POLLIN);
        t.message(&sys::recvmsg(b, &[4], MSG_PEEK | MSG_TRUNC, 0));
        t.message(&sys::recvmsg(b, &[9], 0, 0));
    }),
    case("recvmsg/tcp-end", |t| {
        let (client, server) = t.pair();
        sys::close(client);
        ready(server, POLLIN);
        t.message(&sys::recvmsg(server, &[9], 0, 8));
    }),
    case("recvmsg/udp-from", |t| {
        let ((a, at_a), (b, at_b)) = t.udps();
        sys::sendto(a, b"abc", 0, at_b);
        ready(b, POLLIN);
        let message = sys::recvmsg(b, &[9], 0, 0);
        t.message(&message);
        let from = message.from;
        t.say(format!("{} {}", from.port() == at_a.port(), from.len));
    }),
    case("recvmsg/IP_PKTINFO", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        t.saw(
            "set",
            sys::set_int(b, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        );
        sys::sendto(a, b"abc", 0, at_b);
        ready(b, POLLIN);
        let message = sys::recvmsg(b, &[9], 0, 16);
        t.message(&message);
        t.say(format!("{:?}", message.control));
    }),
    case("recvmsg/IP_RECVTTL-IP_RECVTOS", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        t.saw(
            "ttl",
            sys::set_int(b, libc::IPPROTO_IP, libc::IP_RECVTTL, 1),
        );
        t.saw(
            "tos",
            sys::set_int(b, libc::IPPROTO_IP, libc::IP_RECVTOS, 1),
        );
        sys::sendto(a, b"abc", 0, at_b);
        ready(b, POLLIN);
        let message = sys::recvmsg(b, &[9], 0, 16);
        t.message(&message);
        t.say(format!("{:?}", message.control));
    }),
    case("recvmsg/control-truncated", |t| {
        let ((a, _), (b, at_b)) = t.udps();
        sys::set_int(b, libc::IPPROTO_IP, libc::IP_PKTINFO, 1);
        sys::sendto(a, b"abc", 0, at_b);
        ready(b, POLLIN);
        t.message(&sys::recvmsg(b, &[9], 0, 1));
    }),
    case("recvmsg/EFAULT", |t| {
        let server = with_text(t, b"abc");
        t.saw("recvmsg", sys::recvmsg_bad(server));
    }),
    case("recvmsg/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::recvmsg(-1, &[1], 0, 0).got);
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::recvmsg(fd, &[1], 0, 0).got);
    }),
    case("recvmmsg/udp", |t| {
        let (a, b) = t.udps_connected();
        for text in [&b"a"[..], b"bc", b"def"] {
            sys::send(a, text, 0);
        }
        ready(b, POLLIN);
        t.saw("two", many(sys::recvmmsg(b, 2, 9, 0, None)));
        ready(b, POLLIN);
        t.saw("rest", many(sys::recvmmsg(b, 5, 9, MSG_DONTWAIT, None)));
        t.saw("none", many(sys::recvmmsg(b, 5, 9, MSG_DONTWAIT, None)));
    }),
    case("recvmmsg/MSG_WAITFORONE", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"only", 0);
        t.saw(
            "recvmmsg",
            many(sys::recvmmsg(b, 5, 9, libc::MSG_WAITFORONE, None)),
        );
    }),
    case("recvmmsg/timeout", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"x", 0);
        sys::send(a, b"y", 0);
        t.saw("recvmmsg", many(sys::recvmmsg(b, 2, 9, 0, Some(1000))));
        t.saw("negative", many(sys::recvmmsg(b, 2, 9, 0, Some(-1000))));
    }),
    case("recvmmsg/tcp", |t| {
        let server = with_text(t, b"abcdef");
        t.saw(
            "recvmmsg",
            many(sys::recvmmsg(server, 4, 3, MSG_DONTWAIT, None)),
        );
    }),
];

fn many((ret, came): (sys::Ret, Vec<Vec<u8>>)) -> String {
    let texts: Vec<String> = came.iter().map(|text| crate::show::text_of(text)).collect();
    format!("{ret} {}", texts.join(" "))
}

/// The accepted end of a connection, at which this text waits; the other end stays open.
pub(super) fn with_text(t: &Talk, text: &[u8]) -> i32 {
    let (client, server) = t.pair();
    sys::send(client, text, 0);
    queued(server, i32::try_from(text.len()).unwrap_or(0));
    server
}

/// Sends all of it; whether that worked.
pub(crate) fn send_all(fd: i32, text: &[u8]) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let count = sys::send(fd, rest, libc::MSG_NOSIGNAL).count();
        if count == 0 {
            return false;
        }
        rest = rest.get(count..).unwrap_or_default();
    }
    true
}
