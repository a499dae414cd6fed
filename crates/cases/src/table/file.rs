//! read(2), write(2), readv(2), pread(2), lseek(2), close(2), close_range(2).

use super::case::{Case, case};
use super::recv::with_text;
use crate::sys;
use crate::talk::{SOON, nonblocking, queued, ready, take};
use libc::{POLLIN, POLLRDHUP, SHUT_WR};

pub(super) const CASES: &[Case] = &[
    case("read/tcp", |t| {
        let server = with_text(t, b"abcdef");
        t.saw("read", sys::read(server, 4));
        t.saw("read", sys::read(server, 4));
    }),
    case("read/nothing", |t| {
        let server = with_text(t, b"abc");
        t.saw("read", sys::read(server, 0));
        let (fresh, udp) = (t.tcp(), t.udp());
        t.saw("fresh", sys::read(fresh, 0));
        t.saw("udp", sys::read(udp, 0));
    }),
    case("read/EAGAIN", |t| {
        let (client, _server) = t.pair();
        nonblocking(client);
        t.saw("read", sys::read(client, 9));
    }),
    case("read/ENOTCONN", |t| {
        let fd = t.tcp();
        t.saw("read", sys::read(fd, 9));
        t.saw("readv", sys::readv(fd, &[1, 2]));
    }),
    case("read/EFAULT", |t| {
        let server = with_text(t, b"abc");
        t.saw("read", sys::read_bad(server));
        t.saw("readv", sys::readv_bad(server));
        t.saw("good", sys::read(server, 9));
    }),
    case("read/udp", |t| {
        let (a, b) = t.udps_connected();
        sys::write(a, b"abcdef");
        sys::write(a, b"gh");
        ready(b, POLLIN);
        t.saw("short", sys::read(b, 3));
        t.saw("next", sys::read(b, 9));
    }),
    case("read/listener", |t| {
        let (fd, _) = t.listener();
        sys::ignore_signal(libc::SIGPIPE);
        t.saw("read", sys::read(fd, 9));
        t.saw("write", sys::write(fd, b"x"));
    }),
    case("readv/pieces", |t| {
        let server = with_text(t, b"abcdef");
        t.saw("readv", sys::readv(server, &[1, 0, 3]));
        t.saw("readv", sys::readv(server, &[9, 9]));
    }),
    case("readv/none", |t| {
        let server = with_text(t, b"abc");
        t.saw("readv", sys::readv(server, &[]));
    }),
    case("readv/udp-one-datagram", |t| {
        let (a, b) = t.udps_connected();
        sys::send(a, b"abc", 0);
        sys::send(a, b"def", 0);
        ready(b, POLLIN);
        t.saw("readv", sys::readv(b, &[2, 9]));
    }),
    case("write/tcp", |t| {
        let (client, server) = t.pair();
        t.saw("write", sys::write(client, b"abc"));
        t.saw("nothing", sys::write(client, b""));
        t.saw("read", take(server, 9));
    }),
    case("write/EFAULT", |t| {
        let (client, _server) = t.pair();
        t.saw("write", sys::write_bad(client));
    }),
    case("write/EDESTADDRREQ", |t| {
        let fd = t.udp();
        t.saw("write", sys::write(fd, b"x"));
    }),
    case("writev/pieces", |t| {
        let (client, server) = t.pair();
        t.saw("writev", sys::writev(client, &[b"one ", b"", b"two"]));
        t.saw("recv", take(server, 9));
    }),
    case("writev/one-datagram", |t| {
        let (a, b) = t.udps_connected();
        t.saw("writev", sys::writev(a, &[b"one ", b"two"]));
        t.saw("recv", take(b, 9));
    }),
    case("writev/EINVAL", |t| {
        let (client, _server) = t.pair();
        t.saw("-1", sys::writev_count(client, -1));
        t.saw("1025", sys::writev_count(client, 1025));
        t.saw("none", sys::writev(client, &[]));
    }),
    case("writev/too-long", |t| {
        let (client, _server) = t.pair();
        t.saw("writev", sys::writev_too_long(client));
    }),
    case("writev/half-bad", |t| {
        let (client, server) = t.pair();
        t.saw("writev", sys::writev_half_bad(client));
        t.saw("recv", sys::recv(server, 9, libc::MSG_DONTWAIT));
    }),
    case("pread/ESPIPE", |t| {
        let server = with_text(t, b"abc");
        t.saw("pread", sys::pread(server, 3, 0));
        t.saw("preadv", sys::preadv(server, &[3], 0));
        t.saw("pwrite", sys::pwrite(server, b"x", 0));
        t.saw("pwritev", sys::pwritev(server, &[b"x"], 0));
        t.saw("read", sys::read(server, 9));
    }),
    case("preadv2/offset-minus-1", |t| {
        let server = with_text(t, b"abc");
        t.saw("preadv2", sys::preadv2(server, &[1, 1], -1, 0));
        t.saw("nowait", sys::preadv2(server, &[9], -1, libc::RWF_NOWAIT));
        t.saw("nowait", sys::preadv2(server, &[9], -1, libc::RWF_NOWAIT));
        t.saw("offset 0", sys::preadv2(server, &[9], 0, 0));
    }),
    case("lseek/ESPIPE", |t| {
        let (client, _server) = t.pair();
        t.saw("lseek", sys::lseek(client, 0, libc::SEEK_CUR));
    }),
    case("close/EBADF", |t| {
        let fd = t.tcp();
        t.saw("close", sys::close(fd));
        t.saw("again", sys::close(fd));
        t.saw("-1", sys::close(-1));
        t.saw("read", sys::read(fd, 1));
        t.saw("getsockname", sys::getsockname(fd).0);
    }),
    case("close/the-peer-sees-the-end", |t| {
        let (client, server) = t.pair();
        t.saw("close", sys::close(client));
        t.polled(sys::poll(&[(server, POLLIN | POLLRDHUP)], SOON));
        t.saw("recv", sys::recv(server, 9, 0));
    }),
    case("close/data-first", |t| {
        let (client, server) = t.pair();
        for _ in 0..100 {
            sys::send(client, &[5; 1000], 0);
        }
        sys::close(client);
        let mut total = 0;
        loop {
            let count = take(server, 4096).data.len();
            total += count;
            if count == 0 {
                break;
            }
        }
        t.say(total);
    }),
    case("close/number-is-free-again", |t| {
        let (client, _server) = t.pair();
        let _in_the_hole_of_the_listener = t.tcp();
        sys::close(client);
        let fd = sys::pipe()[0];
        t.say(fd == client);
        t.saw("send", sys::send(fd, b"x", 0));
    }),
    case("close_range/some", |t| {
        let (client, server) = t.pair();
        let (low, high) = (client.min(server) as u32, client.max(server) as u32);
        t.saw("close_range", sys::close_range(low, high, 0));
        t.saw("client", sys::send(client, b"x", 0));
        t.saw("server", sys::send(server, b"x", 0));
    }),
    case("close_range/the-peer-sees-the-end", |t| {
        let (client, server) = t.pair();
        let one = client as u32;
        t.saw("close_range", sys::close_range(one, one, 0));
        t.saw("recv", take(server, 9));
    }),
    case("close_range/close-on-exec", |t| {
        let (client, _server) = t.pair();
        let one = client as u32;
        t.saw("close_range", sys::close_range(one, one, 4));
        t.saw("F_GETFD", sys::fcntl(client, libc::F_GETFD, 0));
        t.saw("send", sys::send(client, b"x", 0));
    }),
    case("close_range/EINVAL", |t| {
        t.saw("order", sys::close_range(9, 8, 0));
        t.saw("flag", sys::close_range(900, 901, 1 << 20));
    }),
    case("shutdown/write", |t| {
        let (client, server) = t.pair();
        t.saw("shutdown", sys::shutdown(client, SHUT_WR));
        t.polled(sys::poll(&[(server, 0x3fff)], SOON));
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("back", sys::send(server, b"half", 0));
        t.saw("recv", take(client, 9));
        t.saw("again", sys::shutdown(client, SHUT_WR));
    }),
    case("shutdown/read", |t| {
        let (client, server) = t.pair();
        t.saw("shutdown", sys::shutdown(server, libc::SHUT_RD));
        t.saw("recv", sys::recv(server, 9, 0));
        t.polled(sys::poll(&[(server, 0x3fff)], 0));
        t.saw("send", sys::send(client, b"abc", 0));
        queued(server, 3);
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("server sends", sys::send(server, b"x", 0));
        t.saw("recv", take(client, 9));
    }),
    case("shutdown/both", |t| {
        let (client, server) = t.pair();
        t.saw("shutdown", sys::shutdown(client, libc::SHUT_RDWR));
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("send", sys::send(client, b"x", libc::MSG_NOSIGNAL));
        t.polled(sys::poll(&[(client, 0x3fff & !POLLRDHUP)], 0));
        t.saw("peer", take(server, 9));
    }),
    case("shutdown/both-ends-write", |t| {
        let (client, server) = t.pair();
        sys::shutdown(client, SHUT_WR);
        ready(server, POLLRDHUP);
        sys::shutdown(server, SHUT_WR);
        ready(client, libc::POLLHUP);
        t.polled(sys::poll(&[(client, 0x3fff)], 0));
        t.polled(sys::poll(&[(server, 0x3fff)], 0));
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("getpeername", sys::getpeername(client).0);
        t.saw("shutdown", sys::shutdown(client, SHUT_WR));
    }),
    case("shutdown/ENOTCONN", |t| {
        let fd = t.tcp();
        t.saw("fresh", sys::shutdown(fd, SHUT_WR));
        let fd = t.udp();
        t.saw("udp", sys::shutdown(fd, SHUT_WR));
    }),
    case("shutdown/udp-connected", |t| {
        let (a, b) = t.udps_connected();
        t.saw("write", sys::shutdown(a, SHUT_WR));
        t.saw("send", sys::send(a, b"x", libc::MSG_NOSIGNAL));
        t.saw("read", sys::shutdown(b, libc::SHUT_RD));
        t.saw("recv", sys::recv(b, 9, 0));
        t.polled(sys::poll(&[(b, POLLIN | POLLRDHUP)], 0));
    }),
    case("shutdown/EINVAL", |t| {
        let (client, _server) = t.pair();
        t.saw("3", sys::shutdown(client, 3));
        t.saw("-1", sys::shutdown(client, -1));
    }),
    case("shutdown/EBADF-ENOTSOCK", |t| {
        t.saw("EBADF", sys::shutdown(-1, SHUT_WR));
        let [fd, _] = sys::pipe();
        t.saw("ENOTSOCK", sys::shutdown(fd, SHUT_WR));
    }),
];
