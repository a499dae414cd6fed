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
    case("sendfile/from-what-is-no-file", |t| {
        let ((client, _server), [from, to]) = (t.pair(), sys::pipe());
        sys::write(to, b"abc");
        t.saw("pipe", sys::sendfile(client, from, None, 3).0);
        t.saw("offset", sys::sendfile(client, from, Some(0), 3).0);
        nonblocking(from);
        sys::read(from, 9);
        t.saw("empty", sys::sendfile(client, from, None, 3).0);
        let (_, [one, _other]) = sys::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        t.saw("socket", sys::sendfile(client, one, None, 3).0);
        t.saw("nothing", sys::sendfile(client, from, None, 0).0);
    }),
    case("splice/empty-pipe-without-waiting", |t| {
        let ((client, _server), [from, _to]) = (t.pair(), sys::pipe());
        t.saw("splice", sys::splice(from, client, 9, SPLICE_F_NONBLOCK));
    }),
    case("splice/full-pipe-without-waiting", |t| {
        let ((client, server), [from, to]) = (t.pair(), sys::pipe());
        sys::send(client, b"text", 0);
        queued(server, 4);
        sys::write(to, &[1; 65_536]);
        t.saw("splice", sys::splice(server, to, 9, SPLICE_F_NONBLOCK));
        sys::read(from, 65_536);
        t.saw("splice", sys::splice(server, to, 9, SPLICE_F_NONBLOCK));
        t.saw("read", sys::read(from, 9));
    }),
    case("splice/no-more-than-there-is-room", |t| {
        // What does not fit stays in the pipe.
        let ((client, _server), [from, to]) = (t.pair(), sys::pipe());
        nonblocking(client);
        super::send::fill(client);
        sys::write(to, b"text");
        t.saw("splice", sys::splice(from, client, 9, 0));
        t.saw("read", sys::read(from, 9));
    }),
    case("splice/a-relay-between-two-connections", |t| {
        let ((client, near), (far, server)) = (t.pair(), t.pair());
        for end in [client, near, far, server] {
            crate::far::here(end);
        }
        let text: Vec<u8> = (0..700_000_u32).map(|at| (at % 239) as u8).collect();
        let sender = sys::fork(|| {
            sys::close(near);
            let sent = text
                .chunks(7001)
                .all(|part| super::recv::send_all(client, part));
            i32::from(!sent)
        });
        let receiver = sys::fork(|| {
            sys::close(far);
            i32::from(sys::recv(server, text.len(), libc::MSG_WAITALL).data != text)
        });
        let [from, to] = sys::pipe();
        let (mut came, mut gone) = (0, 0);
        while gone < text.len() {
            let there = sys::splice(near, to, 1 << 20, 0).count();
            came += there;
            // The pipe is not empty when more comes, but at the end.
            let left = if came < text.len() && there > 0 {
                1000
            } else {
                0
            };
            while came > gone + left {
                let passed = sys::splice(from, far, came - gone - left, 0).count();
                gone += passed;
                if passed == 0 {
                    break;
                }
            }
            if there == 0 {
                break;
            }
        }
        t.say(gone);
        t.say(format!("{:?}", sys::waitpid(sender, 0)));
        t.say(format!("{:?}", sys::waitpid(receiver, 0)));
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
