//! fdopen(3), dprintf(3), syscall(2).

use super::case::{Case, case};
use super::recv::with_text;
use crate::sys;
use crate::talk::{ready, take};
use libc::POLLIN;

pub(super) const CASES: &[Case] = &[
    case("fdopen/lines", |t| {
        let server = with_text(t, b"one\ntwo\nrest");
        let file = sys::fdopen(server, c"r");
        t.saw("first", file.line().trim_end());
        t.saw("second", file.line().trim_end());
        t.saw("same", file.fileno().fd() == server);
    }),
    case("fdopen/both-ways", |t| {
        let (client, server) = t.pair();
        let file = sys::fdopen(client, c"r+");
        t.saw("put", file.put(c"hello\n"));
        t.saw("take", take(server, 99));
        sys::write(server, b"answer\n");
        ready(client, POLLIN);
        t.saw("line", file.line().trim_end());
        t.saw("close", file.close());
        ready(server, POLLIN);
        t.saw("end", sys::recv(server, 9, 0));
        t.saw("closed", sys::read(client, 1));
    }),
    case("fdopen/end", |t| {
        let (client, server) = t.pair();
        sys::write(client, b"last");
        sys::close(client);
        let file = sys::fdopen(server, c"r");
        t.saw("line", file.line());
        t.saw("line", file.line());
    }),
    case("dprintf/tcp", |t| {
        let (client, server) = t.pair();
        t.saw("dprintf", sys::print_many(client));
        t.saw("take", take(server, 99));
    }),
    case("dprintf/not-connected", |t| {
        sys::ignore_signal(libc::SIGPIPE);
        let fd = t.tcp();
        t.saw("dprintf", sys::print_many(fd));
    }),
    case("syscall/read-write-close", |t| {
        let (client, server) = t.pair();
        t.saw("write", sys::write_by_number(client, b"abcdef"));
        ready(server, POLLIN);
        t.saw("read", sys::read_by_number(server, 3));
        t.saw("rest", sys::recv(server, 9, 0));
        t.saw("close", sys::by_number(libc::SYS_close, client));
        t.saw("again", sys::by_number(libc::SYS_close, client));
        ready(server, POLLIN);
        t.saw("end", sys::read_by_number(server, 9));
    }),
    case("syscall/dup", |t| {
        let (client, server) = t.pair();
        let other = t.made("dup", sys::by_number(libc::SYS_dup, client));
        sys::close(client);
        t.saw("write", sys::write(other, b"abc"));
        t.saw("take", take(server, 9));
    }),
];
