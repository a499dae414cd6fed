//! Signals: handlers that leave a call or make calls; threads that are cancelled.

use super::case::{Case, case};
use crate::sys::{self, Ret, Within};
use crate::talk::{SOON, Talk, pause, ready};
use libc::{EPOLL_CTL_ADD, EPOLLIN, MSG_DONTWAIT, POLLIN, SA_NODEFER, SA_ONSTACK, SA_RESETHAND};
use libc::{SA_RESTART, SIGALRM};

pub(super) const CASES: &[Case] = &[
    case("signal/leave-read-for-good", |t| {
        let (client, server) = t.pair();
        sys::left_by_handler(server, 20_000);
        sys::send(client, b"abc", 0);
        t.saw("read", sys::read(server, 9));
        sys::send(server, b"de", 0);
        t.saw("other way", sys::recv(client, 9, 0));
    }),
    case("signal/leave-reads-many-times", |t| {
        let (client, server) = t.pair();
        for n in 0..300 {
            // So that it also comes while something is read.
            (0..n % 7).for_each(|_| _ = sys::send(client, b"x", 0));
            sys::left_by_handler(server, 100 + n * 7);
        }
        while sys::recv(server, 99, MSG_DONTWAIT).ret.fd() > 0 {}
        sys::send(client, b"abc", 0);
        t.saw("read", sys::read(server, 9));
    }),
    case("signal/read-in-handler-of-read", |t| {
        let (client, server) = t.pair();
        sys::handle_by(0, move || {
            let got = sys::recv(server, 9, MSG_DONTWAIT);
            sys::send(server, format!("handler {got}").as_bytes(), 0);
        });
        sys::alarm_in(20);
        t.saw("read", sys::read(server, 9));
        t.saw("from handler", sys::recv(client, 99, 0));
    }),
    case("signal/close-in-handler-of-read", |t| {
        let (_client, server) = t.pair();
        sys::handle_by(0, move || _ = sys::close(server));
        sys::alarm_in(20);
        t.saw("read", sys::read(server, 9));
        t.saw("again", sys::read(server, 9));
    }),
    case("signal/epoll_ctl-in-handler-of-epoll_wait", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"x", 0);
        let epoll = t.made("epoll", sys::epoll_create1(0));
        sys::handle_by(SA_RESTART, move || {
            sys::epoll_ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN, 7);
        });
        sys::alarm_in(20);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
    case("signal/poll-is-not-restarted", |t| {
        let (_client, server) = t.pair();
        sys::handle(SIGALRM, SA_RESTART);
        sys::alarm_in(20);
        t.polled(sys::poll(&[(server, POLLIN)], SOON));
        t.saw("handled", sys::signals_handled());
    }),
    case("signal/connection-under-a-storm", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            sys::close(client);
            loop {
                let got = sys::recv(server, 64, 0);
                if got.data.is_empty() {
                    return 0;
                }
                sys::send(server, &got.data, 0);
            }
        });
        sys::close(server);
        sys::handle(SIGALRM, SA_RESTART);
        sys::alarm_every(100);
        let whole = (0..20_000u32).all(|n| {
            let bytes = n.to_ne_bytes();
            let sent = sys::send(client, &bytes, 0);
            sent == Ret::Value(4) && sys::recv(client, 4, libc::MSG_WAITALL).data == bytes
        });
        sys::alarm_every(0);
        t.saw("whole", whole);
        t.saw("handled many", sys::signals_handled() > 50);
        sys::close(client);
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("signal/connections-are-made-under-a-storm", |t| {
        let (listener, address) = t.listener();
        sys::handle(SIGALRM, SA_RESTART);
        sys::alarm_every(200);
        let whole = (0..300).all(|_| {
            let client = t.tcp();
            let connected = sys::connect(client, address);
            let (server, _) = (sys::accept(listener).fd(), sys::close(client));
            sys::close(server);
            connected == Ret::Value(0) && server >= 0
        });
        sys::alarm_every(0);
        t.saw("whole", whole);
    }),
    case("signal/forks-under-a-storm", |t| {
        let (client, server) = t.pair();
        sys::handle(SIGALRM, SA_RESTART);
        sys::alarm_every(200);
        let whole = (0..100).all(|_| {
            let pid = sys::fork(|| i32::from(sys::send(client, b"f", 0) != Ret::Value(1)));
            sys::waitpid(pid, 0) == sys::End::Exit(0) && sys::recv(server, 1, 0).data == b"f"
        });
        sys::alarm_every(0);
        t.saw("whole", whole);
    }),
    case("signal/values-come-in-order", |t| {
        let (client, server) = t.pair();
        let parent = std::process::id() as i32;
        sys::note_values(64);
        let pid = sys::fork(|| {
            pause(20);
            (0..40).for_each(|n| _ = sys::send_value(parent, n));
            pause(20);
            i32::from(sys::send(client, b"x", 0) != Ret::Value(1))
        });
        while sys::read(server, 1).ret == Ret::Errno(libc::EINTR) {}
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.say(format!("{:?}", sys::values()));
    }),
    case("signal/alternate-stack-and-masks", |t| {
        let (_client, server) = t.pair();
        sys::block_signals(&[libc::SIGUSR1]);
        for flags in [0, SA_ONSTACK, SA_ONSTACK | SA_NODEFER, SA_RESETHAND] {
            sys::handle_and_look(flags);
            t.say(sys::action_of_alarm());
            sys::alarm_in(20);
            t.saw("read", sys::read(server, 9).ret);
            t.say(sys::looked());
            t.say(sys::action_of_alarm());
        }
    }),
    case("signal/cancel-in-read", |t| cancelled(t, Within::Read)),
    case("signal/cancel-in-recv", |t| cancelled(t, Within::Recv)),
    case("signal/cancel-in-recvmsg", |t| {
        cancelled(t, Within::Recvmsg)
    }),
    case("signal/cancel-in-poll", |t| cancelled(t, Within::Poll)),
    case("signal/cancel-in-select", |t| cancelled(t, Within::Select)),
    case("signal/cancel-in-a-full-write", |t| {
        let (client, _server) = t.pair();
        t.saw("cancelled", sys::cancelled_within(Within::Write, client));
    }),
    case("signal/cancel-in-accept", |t| {
        let (listener, address) = t.listener();
        t.saw("cancelled", sys::cancelled_within(Within::Accept, listener));
        let client = t.tcp();
        t.saw("connect", sys::connect(client, address));
        t.saw("accept", sys::accept(listener).made());
    }),
    case("signal/cancel-in-epoll_wait", |t| {
        let (client, server) = t.pair();
        let epoll = t.made("epoll", sys::epoll_create1(0));
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, server, EPOLLIN, 7);
        t.saw("cancelled", sys::cancelled_within(Within::EpollWait, epoll));
        sys::send(client, b"x", 0);
        t.epolled(sys::epoll_wait(epoll, 8, SOON));
    }),
];

/// The socket is as good as before.
fn cancelled(t: &Talk, within: Within) {
    let (client, server) = t.pair();
    t.saw("cancelled", sys::cancelled_within(within, server));
    sys::send(client, b"abc", 0);
    ready(server, POLLIN);
    t.saw("recv", sys::recv(server, 9, 0));
}
