//! System calls that are not made through a function of the C library's name: the program's own,
//! and those that the C library makes inside.

use super::case::{Case, case};
use super::recv::with_text;
use crate::sys::{self, Ret};
use crate::talk::{ready, take};
use libc::POLLIN;

pub(super) const CASES: &[Case] = &[
    case("inline/read-write-close", |t| {
        let (client, server) = t.pair();
        t.saw("write", sys::inline_write(client, b"abcdef"));
        ready(server, POLLIN);
        t.saw("read", sys::inline_read(server, 3));
        t.saw("rest", sys::recv(server, 9, 0));
        t.saw("close", sys::inline_call(libc::SYS_close, client));
        t.saw("again", sys::inline_call(libc::SYS_close, client));
        ready(server, POLLIN);
        t.saw("end", sys::inline_read(server, 9));
    }),
    case("inline/many-times-from-one-place", |t| {
        let (client, server) = t.pair();
        let whole = (0..1000).all(|n: u32| {
            let bytes = n.to_ne_bytes();
            sys::inline_write(client, &bytes);
            ready(server, POLLIN);
            sys::inline_read(server, 4).data == bytes
        });
        t.saw("whole", whole);
    }),
    case("inline/poll", |t| {
        let (client, server) = t.pair();
        t.saw("nothing", sys::inline_poll(server, POLLIN, 0).0);
        sys::send(client, b"x", 0);
        let (count, found) = sys::inline_poll(server, POLLIN, -1);
        t.saw("count", count);
        t.saw("in", found & POLLIN != 0);
    }),
    case("inline/dup-and-shutdown", |t| {
        let (client, server) = t.pair();
        let other = t.made("dup", sys::inline_call(libc::SYS_dup, client));
        sys::inline_call(libc::SYS_close, client);
        t.saw("write", sys::inline_write(other, b"abc"));
        t.saw("take", take(server, 9));
        let shut = sys::inline_two(libc::SYS_shutdown, other, libc::SHUT_WR);
        t.saw("shutdown", shut);
        ready(server, POLLIN);
        t.saw("end", sys::inline_read(server, 9));
    }),
    case("inline/fork", |t| {
        let (client, server) = t.pair();
        let pid = sys::inline_fork(|| {
            sys::close(client);
            let got = sys::recv(server, 9, 0);
            i32::from(sys::inline_write(server, &got.data) != Ret::Value(5))
        });
        sys::close(server);
        sys::send(client, b"child", 0);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("end", take(client, 9));
    }),
    case("inline/bad-descriptor", |t| {
        t.saw("read", sys::inline_read(-1, 1));
        t.saw("close", sys::inline_call(libc::SYS_close, 1 << 30));
    }),
    case("stdio/standard-streams-are-the-socket", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            sys::dup2(server, 0);
            sys::dup2(server, 1);
            sys::answer_on_standard_streams()
        });
        sys::close(server);
        sys::send(client, b"question\n", 0);
        t.saw("recv", take(client, 99));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("end", take(client, 9));
    }),
    case("inline/read-of-a-text", |t| {
        let server = with_text(t, b"0123456789");
        t.saw("first", sys::inline_read(server, 4));
        t.saw("second", sys::inline_read(server, 99));
    }),
];
