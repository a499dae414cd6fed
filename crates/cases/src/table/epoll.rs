//! epoll_create(2), epoll_ctl(2), epoll_wait(2).

use super::case::{Case, case};
use super::recv::with_text;
use super::send::fill;
use crate::sys::{self, Ret};
use crate::talk::{SOON, Talk, WHILE, pause, ready};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT,
    EPOLLOUT, EPOLLRDHUP, MSG_DONTWAIT, POLLIN,
};

pub(super) const CASES: &[Case] = &[
    case("epoll_create/flags", |t| {
        let plain = t.made("0", sys::epoll_create1(0));
        t.saw("F_GETFD", sys::fcntl(plain, libc::F_GETFD, 0));
        let closing = t.made("CLOEXEC", sys::epoll_create1(libc::EPOLL_CLOEXEC));
        t.saw("F_GETFD", sys::fcntl(closing, libc::F_GETFD, 0));
        t.made("unknown", sys::epoll_create1(1));
        t.made("size 1", sys::epoll_create(1));
        t.made("size 0", sys::epoll_create(0));
    }),
    case("epoll_ctl/EEXIST-ENOENT", |t| {
        let (epoll, fd) = (new(t), t.tcp());
        t.saw("del", ctl(epoll, EPOLL_CTL_DEL, fd, 0));
        t.saw("mod", ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN));
        t.saw("add", ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN));
        t.saw("add", ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN));
        t.saw("mod", ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLOUT));
        t.saw("del", sys::epoll_ctl_null(epoll, EPOLL_CTL_DEL, fd));
        t.saw("del", ctl(epoll, EPOLL_CTL_DEL, fd, 0));
    }),
    case("epoll_ctl/EBADF", |t| {
        let (epoll, fd) = (new(t), t.tcp());
        t.saw("epoll", ctl(-1, EPOLL_CTL_ADD, fd, EPOLLIN));
        t.saw("socket", ctl(epoll, EPOLL_CTL_ADD, -1, EPOLLIN));
        sys::close(fd);
        t.saw("closed", ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN));
    }),
    case("epoll_ctl/EINVAL", |t| {
        let (epoll, fd) = (new(t), t.tcp());
        t.saw("not an epoll", ctl(fd, EPOLL_CTL_ADD, epoll, EPOLLIN));
        t.saw("itself", ctl(epoll, EPOLL_CTL_ADD, epoll, EPOLLIN));
        t.saw("operation", ctl(epoll, 99, fd, EPOLLIN));
    }),
    case("epoll_ctl/EFAULT", |t| {
        let (epoll, fd) = (new(t), t.tcp());
        t.saw("bad", sys::epoll_ctl_bad(epoll, fd));
        t.saw("null", sys::epoll_ctl_null(epoll, EPOLL_CTL_ADD, fd));
    }),
    case("epoll_ctl/EPERM-for-files", |t| {
        let (epoll, file) = (new(t), sys::memory_file(b"x"));
        t.saw("add", ctl(epoll, EPOLL_CTL_ADD, file, EPOLLIN));
    }),
    case("epoll_ctl/EPOLLEXCLUSIVE", |t| {
        let (epoll, (listener, address)) = (new(t), t.listener());
        t.saw(
            "add",
            ctl(epoll, EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLEXCLUSIVE),
        );
        t.saw("mod", ctl(epoll, EPOLL_CTL_MOD, listener, EPOLLIN));
        let fd = t.tcp();
        let both = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
        t.saw("one-shot", ctl(epoll, EPOLL_CTL_ADD, fd, both));
        t.saw(
            "mod to",
            ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLEXCLUSIVE),
        );
        t.connected(address);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("epoll_wait/EINVAL-EBADF-EFAULT", |t| {
        let (epoll, fd) = (new(t), t.tcp());
        t.saw("0", sys::epoll_wait(epoll, 0, 0).0);
        t.saw("-1", sys::epoll_wait(epoll, -1, 0).0);
        t.saw("socket", sys::epoll_wait(fd, 1, 0).0);
        t.saw("EBADF", sys::epoll_wait(-1, 1, 0).0);
        let server = with_text(t, b"x");
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        t.saw("EFAULT", sys::epoll_wait_bad(epoll));
    }),
    case("epoll_wait/nothing", |t| {
        let epoll = new(t);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        t.epolled(sys::epoll_wait(epoll, 8, 10));
    }),
    case("epoll_wait/many-at-once", |t| {
        let (epoll, server) = (new(t), with_text(t, b"abc"));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        for _ in 0..400 {
            let [from, to] = sys::pipe();
            sys::write(to, b"x");
            sys::close(to);
            ctl(epoll, EPOLL_CTL_ADD, from, EPOLLIN);
        }
        t.saw("wait", sys::epoll_wait(epoll, 500, 0).0);
        t.saw("most", sys::epoll_wait(epoll, 300, 0).0);
    }),
    case("epoll_ctl/what-the-program-has-not-opened", |t| {
        let before = sys::open_descriptors();
        let (epoll, (listener, address)) = (new(t), t.listener());
        let client = t.connected(address);
        ready(listener, POLLIN);
        let server = t.must("accept", sys::accept(listener));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        sys::epoll_wait(epoll, 8, 5);
        let known = [epoll, listener, client, server];
        let after = sys::open_descriptors().into_iter();
        let strange = after.filter(|fd| !before.contains(fd) && !known.contains(fd));
        for fd in strange {
            t.saw("add", ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN));
            t.saw(
                "poll",
                sys::poll(&[(fd, POLLIN)], 0)
                    .1
                    .first()
                    .copied()
                    .unwrap_or(0),
            );
            t.saw("recv", sys::recv(fd, 1, libc::MSG_DONTWAIT));
            t.saw("read", sys::read(fd, 1));
        }
        t.say("nothing else is open");
    }),
    case("epoll_wait/level", |t| {
        let (epoll, server) = (new(t), with_text(t, b"abc"));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        sys::recv(server, 2, 0);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        sys::recv(server, 2, 0);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
    }),
    case("epoll_wait/edge", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        sys::send(client, b"abc", 0);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
        sys::send(client, b"def", 0);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        sys::recv(server, 9, 0);
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
    }),
    case("epoll_wait/edge-partial-read", |t| {
        let (epoll, server) = (new(t), with_text(t, b"abcdef"));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        sys::recv(server, 2, 0);
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
    }),
    case("epoll_wait/edge-both-directions-at-once", |t| {
        let (epoll, (_client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLOUT | EPOLLET);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        t.epolled(sys::epoll_wait(epoll, 8, 0));
    }),
    case("epoll_wait/out-and-in-again", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        for events in [EPOLLIN, EPOLLIN | EPOLLET] {
            ctl(epoll, EPOLL_CTL_ADD, server, events);
            sys::send(client, b"a", 0);
            t.epolled(sys::epoll_wait(epoll, 8, SOON));
            t.saw("del", ctl(epoll, EPOLL_CTL_DEL, server, 0));
            t.epolled(sys::epoll_wait(epoll, 8, 0));
            sys::send(client, b"b", 0);
            t.epolled(sys::epoll_wait(epoll, 8, WHILE));
            t.saw("add", ctl(epoll, EPOLL_CTL_ADD, server, events));
            t.epolled(sys::epoll_wait(epoll, 8, SOON));
            sys::recv(server, 9, 0);
            t.epolled(sys::epoll_wait(epoll, 8, 0));
            t.saw("del", ctl(epoll, EPOLL_CTL_DEL, server, 0));
        }
        sys::close(client);
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLRDHUP);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case(
        "epoll_wait/another-under-the-number-of-one-taken-out",
        |t| {
            let (epoll, (client, server)) = (new(t), t.pair());
            ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
            ctl(epoll, EPOLL_CTL_DEL, server, 0);
            let kept = sys::dup(server).fd();
            sys::close(server);
            let (other, next) = t.pair();
            sys::dup2(next, server);
            t.saw("add", ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN));
            sys::send(client, b"x", 0);
            t.epolled(sys::epoll_wait(epoll, 8, WHILE));
            sys::send(other, b"y", 0);
            t.epolled(sys::epoll_wait(epoll, 8, SOON));
            t.saw("add", ctl(epoll, EPOLL_CTL_ADD, kept, EPOLLIN));
        },
    ),
    case("epoll_wait/edge-room", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        fill(client);
        ctl(epoll, EPOLL_CTL_ADD, client, EPOLLOUT | EPOLLET);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("epoll_wait/edge-re-armed-by-mod", |t| {
        let (epoll, server) = (new(t), with_text(t, b"abc"));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        ctl(epoll, EPOLL_CTL_MOD, server, EPOLLIN | EPOLLET);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
    }),
    case("epoll_wait/one-shot", |t| {
        let (epoll, server) = (new(t), with_text(t, b"abc"));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLONESHOT);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
        ctl(epoll, EPOLL_CTL_MOD, server, EPOLLIN | EPOLLONESHOT);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
    }),
    case("epoll_wait/EPOLLRDHUP", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLRDHUP);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        sys::shutdown(client, libc::SHUT_WR);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        ctl(
            epoll,
            EPOLL_CTL_MOD,
            server,
            EPOLLIN | EPOLLOUT | EPOLLRDHUP,
        );
        t.epolled(sys::epoll_wait(epoll, 8, 0));
    }),
    case("epoll_wait/EPOLLHUP-both-closed", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, 0);
        sys::shutdown(server, libc::SHUT_WR);
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
        sys::close(client);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("epoll_wait/EPOLLERR-reset", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLRDHUP);
        sys::set_linger(client, true, 0);
        sys::close(client);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("epoll_wait/fresh-socket", |t| {
        let (epoll, fd) = (new(t), t.tcp());
        ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
    }),
    case("epoll_wait/added-before-connect", |t| {
        let (epoll, (_listener, address)) = (new(t), t.listener());
        let fd = t.tcp_nonblocking();
        ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET);
        sys::epoll_wait(epoll, 8, 0);
        t.saw("connect", sys::connect(fd, address));
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("epoll_wait/added-before-listen", |t| {
        let (epoll, fd) = (new(t), t.tcp());
        let any = t.any();
        let address = t.bound(fd, any);
        ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
        t.saw("listen", sys::listen(fd, 4));
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        t.connected(address);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.made("accept", sys::accept(fd));
        t.epolled(sys::epoll_wait(epoll, 8, 0));
    }),
    case("epoll_wait/refused", |t| {
        let (epoll, dead) = (new(t), t.dead());
        let fd = t.tcp_nonblocking();
        sys::connect(fd, dead);
        ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
        ready(fd, libc::POLLHUP);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("epoll_wait/closed-descriptors-leave", |t| {
        let (epoll, server) = (new(t), with_text(t, b"abc"));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        sys::close(server);
        t.epolled(sys::epoll_wait(epoll, 8, 10));
    }),
    case("epoll_wait/closed-but-duplicated-stays", |t| {
        let (epoll, server) = (new(t), with_text(t, b"abc"));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        let other = sys::dup(server).fd();
        sys::close(server);
        t.epolled(sys::epoll_wait(epoll, 8, 10));
        sys::close(other);
        t.epolled(sys::epoll_wait(epoll, 8, 10));
    }),
    case("epoll_wait/number-used-again", |t| {
        let (epoll, server) = (new(t), with_text(t, b"abc"));
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        let _in_the_hole_of_the_listener = t.tcp();
        sys::close(server);
        let again = t.tcp();
        t.say(again == server);
        t.saw("add", ctl(epoll, EPOLL_CTL_ADD, again, EPOLLOUT));
    }),
    case("epoll_wait/several", |t| {
        let epoll = new(t);
        for data in 1..=3 {
            let server = with_text(t, b"x");
            sys::epoll_ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN, data);
        }
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        t.saw("at most two", sys::epoll_wait(epoll, 2, 0).0);
    }),
    case("epoll_wait/sockets-and-pipes", |t| {
        let (epoll, server, [from, to]) = (new(t), with_text(t, b"x"), sys::pipe());
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN, 1);
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, from, EPOLLIN, 2);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        sys::write(to, b"x");
        t.epolled(sys::epoll_wait(epoll, 8, 0));
    }),
    case("epoll_wait/nobody-starves", |t| {
        // A socket that is always ready, and others that are for the first time after long.
        let (epoll, server) = (new(t), with_text(t, b"x"));
        let ([from, to], (listener, address)) = (sys::pipe(), t.listener());
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN, 1);
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, from, EPOLLIN, 2);
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, listener, EPOLLIN, 3);
        let busy = (0..500).filter(|_| sys::epoll_wait(epoll, 8, -1).0 == Ret::Value(1));
        t.saw("busy", busy.count());
        sys::write(to, b"x");
        t.connected(address);
        ready(listener, POLLIN);
        let heard = |number: u64| {
            (0..16).any(|_| {
                let (_, events) = sys::epoll_wait(epoll, 8, -1);
                events.iter().any(|event| event.0 == number)
            })
        };
        t.say(format!("pipe {} listener {}", heard(2), heard(3)));
        // And one that is often ready is told each time.
        let both = (0..50).filter(|_| sys::epoll_wait(epoll, 8, -1).0 == Ret::Value(3));
        t.saw("all", both.count());
    }),
    case("epoll_wait/urgent", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | libc::EPOLLPRI);
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        sys::send(client, b"!", libc::MSG_OOB);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.saw("oob", sys::recv(server, 1, libc::MSG_OOB));
        t.epolled(sys::epoll_wait(epoll, 8, 0));
        sys::send(client, b"x", 0);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.saw("recv", sys::recv(server, 9, 0));
    }),
    case("epoll_wait/SO_RCVLOWAT", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        sys::set_int(server, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 5);
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        sys::send(client, b"abc", 0);
        crate::talk::queued(server, 3);
        t.epolled(sys::epoll_wait(epoll, 8, 20));
        sys::send(client, b"de", 0);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("epoll_wait/nested", |t| {
        let (outer, inner, (client, server)) = (new(t), new(t), t.pair());
        ctl(inner, EPOLL_CTL_ADD, server, EPOLLIN);
        t.saw("add", ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
        t.saw("loop", ctl(inner, EPOLL_CTL_ADD, outer, EPOLLIN));
        t.epolled(sys::epoll_wait(outer, 8, 0));
        sys::send(client, b"x", 0);
        t.epolled(sys::epoll_wait(outer, 8, SOON));
        t.epolled(sys::epoll_wait(inner, 8, SOON));
    }),
    case("epoll_wait/epoll-in-poll", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        t.polled(sys::poll(&[(epoll, POLLIN)], 0));
        sys::send(client, b"x", 0);
        t.polled(sys::poll(&[(epoll, POLLIN)], SOON));
    }),
    case("epoll_wait/woken-by-data", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET);
        let pid = sys::fork(|| {
            pause(20);
            sys::send(client, b"wake", 0).fd()
        });
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        sys::waitpid(pid, 0);
    }),
    case("epoll_wait/added-while-waiting", |t| {
        let (epoll, server) = (new(t), with_text(t, b"x"));
        let other = std::thread::spawn(move || {
            pause(20);
            ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN)
        });
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.saw("add", other.join().unwrap_or(Ret::Value(0)));
    }),
    case("epoll_wait/EINTR-even-with-SA_RESTART", |t| {
        let (epoll, (_client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        sys::handle(libc::SIGALRM, libc::SA_RESTART);
        sys::alarm_in(10);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("epoll_pwait/mask", |t| {
        let epoll = new(t);
        sys::handle(libc::SIGALRM, 0);
        sys::alarm_in(10);
        t.epolled(sys::epoll_pwait(epoll, 50, &[libc::SIGALRM]));
        t.say(sys::signals_handled());
    }),
    case("epoll_wait/udp", |t| {
        let (epoll, (a, b)) = (new(t), t.udps_connected());
        ctl(epoll, EPOLL_CTL_ADD, b, EPOLLIN | EPOLLET);
        sys::send(a, b"1", 0);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        sys::send(a, b"2", 0);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.epolled(sys::epoll_wait(epoll, 8, WHILE));
    }),
    case("epoll_wait/after-fork", |t| {
        let (epoll, (client, server)) = (new(t), t.pair());
        ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN);
        sys::send(client, b"x", 0);
        let pid = sys::fork(|| i32::from(sys::epoll_wait(epoll, 8, SOON).0 != Ret::Value(1)));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
];

pub(super) fn new(t: &Talk) -> i32 {
    t.must("epoll_create1", sys::epoll_create1(0))
}

/// `epoll_ctl` with 7 as data.
pub(super) fn ctl(epoll: i32, operation: i32, fd: i32, events: i32) -> Ret {
    sys::epoll_ctl(epoll, operation, fd, events, 7)
}
