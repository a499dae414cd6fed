//! sendfile(2), splice(2).

use super::case::{Case, case};
use super::recv::with_text;
use crate::sys;
use crate::talk::{nonblocking, queued, take};
use libc::{SHUT_WR, SPLICE_F_NONBLOCK};

pub(super) const CASES: &[Case] = &[
    case("sendfile/all", |t| {
        let ((client, server), file) = (t.pair(), sys::memory_file(b"abcdef"));
        t.saw("sendfile", sys::sendfile(client, file, None, 100).0);
        t.saw("recv", take(server, 9));
        t.saw("again", sys::sendfile(client, file, None, 100).0);
        t.saw("place", sys::lseek(file, 0, libc::SEEK_CUR));
    }),
    case("sendfile/offset", |t| {
        let ((client, server), file) = (t.pair(), sys::memory_file(b"abcdef"));
        t.say(format!("{:?}", sys::sendfile(client, file, Some(2), 3)));
        t.saw("recv", take(server, 9));
        t.saw("place", sys::lseek(file, 0, libc::SEEK_CUR));
        t.say(format!("{:?}", sys::sendfile(client, file, Some(100), 3)));
        t.say(format!("{:?}", sys::sendfile(client, file, Some(-1), 3)));
    }),
    case("sendfile/64", |t| {
        let ((client, server), file) = (t.pair(), sys::memory_file(b"abc"));
        t.saw("sendfile64", sys::sendfile64(client, file, 2));
        t.saw("recv", take(server, 9));
    }),
    case("sendfile/large", |t| {
        let text: Vec<u8> = (0..500_000_u32).map(|at| (at % 241) as u8).collect();
        let ((client, server), file) = (t.pair(), sys::memory_file(&text));
        let pid = sys::fork(|| {
            let mut left = 500_000;
            while left > 0 {
                let count = sys::sendfile(client, file, None, left).0.count();
                if count == 0 {
                    return 1;
                }
                left -= count;
            }
            0
        });
        sys::close(client);
        let mut came = Vec::new();
        loop {
            let got = sys::recv(server, 65_536, 0);
            if got.data.is_empty() {
                break;
            }
            came.extend_from_slice(&got.data);
        }
        t.say(format!("{} {}", came.len(), came == text));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("sendfile/EAGAIN", |t| {
        let ((client, _server), file) = (t.pair(), sys::memory_file(b"abc"));
        nonblocking(client);
        super::send::fill(client);
        t.saw("sendfile", sys::sendfile(client, file, None, 3).0);
        t.saw("place", sys::lseek(file, 0, libc::SEEK_CUR));
    }),
    case("sendfile/errors", |t| {
        let ((client, server), file) = (t.pair(), sys::memory_file(b"abc"));
        t.saw("from a socket", sys::sendfile(client, server, None, 3).0);
        t.saw("EBADF", sys::sendfile(client, -1, None, 3).0);
        t.saw("to nothing", sys::sendfile(-1, file, None, 3).0);
        t.saw("EFAULT", sys::sendfile_bad(client, file));
        let fd = t.tcp();
        sys::ignore_signal(libc::SIGPIPE);
        t.saw("not connected", sys::sendfile(fd, file, None, 3).0);
        sys::shutdown(client, SHUT_WR);
        t.saw("after shutdown", sys::sendfile(client, file, None, 3).0);
    }),
    case("sendfile/nothing", |t| {
        let ((client, _server), file) = (t.pair(), sys::memory_file(b"abc"));
        t.saw("sendfile", sys::sendfile(client, file, None, 0).0);
    }),
    case("sendfile/udp", |t| {
        let ((a, b), file) = (t.udps_connected(), sys::memory_file(b"abc"));
        t.saw("sendfile", sys::sendfile(a, file, None, 3).0);
        t.saw("recv", take(b, 9));
    }),
    case("splice/socket-to-pipe", |t| {
        let (server, [from, to]) = (with_text(t, b"abcdef"), sys::pipe());
        t.saw("splice", sys::splice(server, to, 4, 0));
        t.saw("read", sys::read(from, 9));
        t.saw("splice", sys::splice(server, to, 9, 0));
        t.saw("read", sys::read(from, 9));
    }),
    case("splice/pipe-to-socket", |t| {
        let ((client, server), [from, to]) = (t.pair(), sys::pipe());
        sys::write(to, b"abcdef");
        t.saw("splice", sys::splice(from, client, 100, 0));
        t.saw("recv", take(server, 9));
    }),
    case("splice/from-one-connection-to-another", |t| {
        let (server, [from, to]) = (with_text(t, b"through"), sys::pipe());
        let (out, end) = t.pair();
        t.saw("in", sys::splice(server, to, 100, 0));
        t.saw("out", sys::splice(from, out, 100, 0));
        queued(end, 7);
        t.saw("recv", take(end, 9));
    }),
    case("splice/EAGAIN", |t| {
        let ((client, _server), [_, to]) = (t.pair(), sys::pipe());
        nonblocking(client);
        t.saw("splice", sys::splice(client, to, 4, SPLICE_F_NONBLOCK));
    }),
    case("splice/end", |t| {
        let ((client, server), [_, to]) = (t.pair(), sys::pipe());
        sys::close(client);
        t.saw("splice", sys::splice(server, to, 4, 0));
    }),
    case("splice/errors", |t| {
        let ((client, server), [_, to]) = (t.pair(), sys::pipe());
        t.saw("no pipe", sys::splice(client, server, 4, 0));
        t.saw("offset", sys::splice_at(client, 0, to, 4));
        t.saw("EBADF", sys::splice(-1, to, 4, 0));
        t.saw("nothing", sys::splice(client, to, 0, 0));
        let fd = t.tcp();
        t.saw("not connected", sys::splice(fd, to, 4, 0));
    }),
];
