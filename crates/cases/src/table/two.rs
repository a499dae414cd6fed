//! What happens to the other of two programs: only with `--peer`.

use super::case::{Case, case};
use crate::far::{self, Ask};
use crate::sys::{self, Ret};
use crate::talk::{SOON, WHILE, pause, queued, ready, take, wait_for};
use libc::{POLLIN, POLLOUT, POLLRDHUP, SIGCONT, SIGKILL, SIGSTOP};

pub(super) const CASES: &[Case] = &[
    case("two/killed", |t| {
        let (ours, _theirs) = t.ours_and_theirs();
        kill();
        t.saw("recv", take(ours, 9));
        t.polled(sys::poll(&[(ours, 0x3fff)], 0));
        t.say(sys::getpeername(ours).0);
    }),
    case("two/killed-after-sending", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        sys::send(theirs, b"last words", 0);
        kill();
        t.saw("recv", take(ours, 5));
        t.saw("recv", take(ours, 9));
        t.saw("recv", take(ours, 9));
    }),
    case("two/killed-with-unread-data", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        sys::send(ours, b"unread", 0);
        queued(theirs, 6);
        kill();
        ready(ours, POLLIN);
        t.polled(sys::poll(&[(ours, 0x3fff)], 0));
        t.saw("recv", sys::recv(ours, 9, 0));
        t.saw("recv", sys::recv(ours, 9, 0));
    }),
    case("two/killed-with-unread-data-after-sending", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        sys::send(theirs, b"kept?", 0);
        queued(ours, 5);
        sys::send(ours, b"unread", 0);
        queued(theirs, 6);
        kill();
        sys::poll(&[(ours, libc::POLLERR)], SOON);
        t.saw("recv", sys::recv(ours, 9, 0));
    }),
    case("two/killed-with-a-full-connection", |t| {
        let (ours, _theirs) = t.ours_and_theirs();
        fill(ours);
        kill();
        sys::poll(&[(ours, libc::POLLERR)], SOON);
        t.saw("send", sys::send(ours, b"x", libc::MSG_NOSIGNAL));
        t.saw("send", sys::send(ours, b"x", libc::MSG_NOSIGNAL));
    }),
    case("two/killed-then-send", |t| {
        let (ours, _theirs) = t.ours_and_theirs();
        kill();
        ready(ours, POLLIN);
        t.saw("send", sys::send(ours, b"x", libc::MSG_NOSIGNAL));
        sys::poll(&[(ours, libc::POLLERR)], WHILE);
        t.saw("send", sys::send(ours, b"x", libc::MSG_NOSIGNAL));
    }),
    case("two/killed-while-we-wait-in-recv", |t| {
        let (ours, _theirs) = t.ours_and_theirs();
        kill_soon();
        t.saw("recv", sys::recv(ours, 9, 0));
    }),
    case("two/killed-while-we-wait-in-send", |t| {
        let (ours, _theirs) = t.ours_and_theirs();
        fill(ours);
        kill_soon();
        // Some of it may have found room before.
        let much = vec![0; 1 << 24];
        t.say(sys::send(ours, &much, libc::MSG_NOSIGNAL).count() < much.len());
    }),
    case("two/killed-while-we-wait-in-poll", |t| {
        let (ours, _theirs) = t.ours_and_theirs();
        kill_soon();
        t.polled(sys::poll(&[(ours, POLLIN | POLLRDHUP)], SOON));
    }),
    case("two/killed-while-we-wait-in-epoll", |t| {
        let (ours, _theirs) = t.ours_and_theirs();
        let epoll = sys::epoll_create1(0).fd();
        let events = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, ours, events, 7);
        kill_soon();
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
    }),
    case("two/killed-before-anybody-accepts", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        sys::send(client, b"sent", 0);
        kill();
        match far::number(listener) {
            Some(_) => {
                ready(client, POLLIN);
                t.saw("recv", sys::recv(client, 9, 0));
            }
            None => {
                let server = t.made("accept", sys::accept(listener));
                t.saw("recv", take(server, 9));
                t.saw("recv", take(server, 9));
            }
        }
    }),
    case("two/killed-then-connect", |t| {
        let (listener, address) = t.listener();
        if far::number(listener).is_none() {
            return t.say(far::ONE_PROCESS);
        }
        kill();
        let fd = t.tcp();
        wait_for(|| sys::connect(fd, address).is_errno(libc::ECONNREFUSED));
        t.saw("connect", sys::connect(fd, address));
    }),
    case("two/refused-and-connected-again", |t| {
        let (closed, nowhere) = t.listener();
        if far::number(closed).is_none() {
            return t.say(far::ONE_PROCESS);
        }
        sys::close(closed);
        let (_listener, address) = t.listener();
        let fd = t.tcp_nonblocking();
        t.saw("connect", sys::connect(fd, nowhere));
        t.polled(sys::poll(&[(fd, POLLOUT)], SOON));
        t.saw("again", sys::connect(fd, nowhere));
        t.saw("elsewhere", sys::connect(fd, address));
        t.polled(sys::poll(&[(fd, POLLOUT)], SOON));
        t.saw(
            "SO_ERROR",
            sys::get_int(fd, libc::SOL_SOCKET, libc::SO_ERROR),
        );
        t.saw("send", sys::send(fd, b"x", 0));
    }),
    case("two/exits", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        sys::send(theirs, b"bye", 0);
        far::ask(&Ask::Exit);
        t.saw("recv", take(ours, 9));
        t.saw("recv", take(ours, 9));
        t.polled(sys::poll(&[(ours, 0x3fff)], 0));
    }),
    case("two/exits-with-SO_LINGER-0", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        sys::set_linger(theirs, true, 0);
        far::ask(&Ask::Exit);
        t.saw("recv", take(ours, 9));
    }),
    case("two/stopped-and-continued", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        let pid = far::pid();
        sys::kill(pid, SIGSTOP);
        t.saw("send", sys::send(ours, b"patience", 0));
        t.polled(sys::poll(&[(ours, POLLIN)], WHILE));
        sys::kill(pid, SIGCONT);
        t.saw("recv", take(theirs, 9));
        sys::send(theirs, b"thanks", 0);
        t.saw("recv", take(ours, 9));
    }),
    case("two/killed-its-child-keeps-the-connection", |t| {
        let (ours, _theirs) = t.ours_and_theirs();
        let child = far::ask(&Ask::Fork).ret().fd();
        kill();
        t.polled(sys::poll(&[(ours, POLLIN | POLLOUT)], WHILE));
        t.saw("send", sys::send(ours, b"x", libc::MSG_NOSIGNAL));
        sys::kill(child, SIGKILL);
        ready(ours, POLLIN);
        t.saw("recv", sys::recv(ours, 9, 0));
    }),
    case("two/becomes-another-program", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        sys::send(ours, b"to whom", 0);
        let fd = far::number(theirs).unwrap_or(-1);
        far::ask(&Ask::Become("echo".to_owned(), fd));
        t.saw("recv", take(ours, 9));
        t.saw("recv", take(ours, 9));
    }),
    case("two/handed-over", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        let fd = far::number(theirs).unwrap_or(-1);
        far::ask(&Ask::HandOver(fd));
        t.saw("send", sys::send(ours, b"whoever", 0));
        t.saw("recv", take(ours, 9));
        t.saw("recv", take(ours, 9));
    }),
    case("two/we-hand-ours-over", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        let (_, [here, there]) = sys::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        let child = sys::fork(|| {
            sys::close(ours);
            let message = sys::recvmsg(there, &[1], 0, 8);
            let passed = message.descriptors.first().copied().unwrap_or(-1);
            i32::from(!crate::stage::echo(passed))
        });
        sys::sendmsg(here, &[b"x"], None, &[ours], 0);
        sys::close(ours);
        t.saw("send", sys::send(theirs, b"round", 0));
        t.saw("recv", take(theirs, 9));
        t.say(format!("{:?}", sys::waitpid(child, 0)));
        t.saw("recv", take(theirs, 9));
    }),
    case("two/our-child-reads-we-close", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        let child = sys::fork(|| {
            let all = sys::recv(ours, 6, libc::MSG_WAITALL);
            i32::from(all.data != b"abcdef")
        });
        sys::close(ours);
        sys::send(theirs, b"abc", 0);
        sys::send(theirs, b"def", 0);
        t.say(format!("{:?}", sys::waitpid(child, 0)));
        t.saw("recv", take(theirs, 9));
    }),
    case("two/much-to-and-fro", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        let text: Vec<u8> = (0..40_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut same = true;
        for piece in text.chunks(20_000) {
            same &= sys::send(ours, piece, 0) == Ret::Value(20_000);
            let there = sys::recv(theirs, 20_000, libc::MSG_WAITALL);
            sys::send(theirs, &there.data, 0);
            same &= sys::recv(ours, 20_000, libc::MSG_WAITALL).data == piece;
        }
        t.say(same);
    }),
    case("two/a-reader-that-comes-late", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        let sent = fill(ours);
        t.polled(sys::poll(&[(ours, POLLOUT)], 0));
        sys::shutdown(ours, libc::SHUT_WR);
        let mut came = 0;
        loop {
            let got = take(theirs, 1 << 18);
            came += got.data.len();
            if got.data.is_empty() {
                break;
            }
        }
        t.say(came == sent);
        t.polled(sys::poll(&[(ours, POLLOUT)], SOON));
    }),
    case("two/listener-full-of-us-closes", |t| {
        let (listener, address) = t.listener();
        let clients: Vec<i32> = (0..4).map(|_| t.connected(address)).collect();
        sys::close(listener);
        for client in clients {
            ready(client, POLLIN);
            t.saw("recv", sys::recv(client, 9, 0));
        }
    }),
    case("two/names", |t| {
        let (ours, theirs) = t.ours_and_theirs();
        let (a, b) = (t.name(ours), sys::getpeername(theirs).1);
        t.say(a.ip() == b.ip() && a.port() == b.port());
        let (a, b) = (t.name(theirs), sys::getpeername(ours).1);
        t.say(a.ip() == b.ip() && a.port() == b.port());
        t.say(a.ip() == t.name(ours).ip());
    }),
];

/// Ends the other program's process, and waits a moment for it to be gone.
fn kill() {
    sys::kill(far::pid(), SIGKILL);
    pause(20);
}

/// Ends it a little later.
fn kill_soon() {
    let pid = far::pid();
    sys::fork(|| {
        pause(WHILE.unsigned_abs().into());
        sys::kill(pid, SIGKILL);
        0
    });
}

/// Sends until there is no room; how much.
fn fill(fd: i32) -> usize {
    let mut sent = 0;
    loop {
        match sys::send(fd, &[7; 65_536], libc::MSG_DONTWAIT) {
            Ret::Value(n) => sent += usize::try_from(n).unwrap_or(0),
            Ret::Errno(_) if ready_for_room(fd) => {}
            Ret::Errno(_) => return sent,
        }
    }
}

fn ready_for_room(fd: i32) -> bool {
    sys::poll(&[(fd, POLLOUT)], WHILE).0 == Ret::Value(1)
}
