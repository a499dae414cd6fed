//! tcp(7), socket(7), signal(7): resets, broken pipes, time-outs, interrupted calls.

use super::case::{Case, case};
use super::recv::with_text;
use super::send::fill;
use crate::sys;
use crate::talk::{SOON, Talk, nonblocking, pause, queued, ready, take};
use libc::{
    MSG_NOSIGNAL, POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP, SA_RESTART, SIGALRM, SIGPIPE,
    SO_RCVTIMEO, SO_SNDTIMEO,
};

pub(super) const CASES: &[Case] = &[
    case("reset/closed-with-unread-data", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"unread", 0);
        queued(server, 6);
        sys::close(server);
        t.polled(sys::poll(&[(client, POLLIN)], SOON));
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("recv", sys::recv(client, 9, 0));
    }),
    case("reset/unread-data-and-data-on-the-way", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"unread", 0);
        sys::send(server, b"answer", 0);
        queued(server, 6);
        queued(client, 6);
        sys::close(server);
        ready(client, POLLERR | POLLRDHUP);
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("recv", sys::recv(client, 9, 0));
    }),
    case("reset/unread-data-after-shutdown", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"unread", 0);
        queued(server, 6);
        t.saw("shutdown", sys::shutdown(server, libc::SHUT_RDWR));
        sys::close(server);
        ready(client, POLLERR);
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("recv", sys::recv(client, 9, 0));
    }),
    case("EPIPE/much-to-a-peer-that-has-closed", |t| {
        for blocks in [true, false] {
            let (client, server) = t.pair();
            if !blocks {
                nonblocking(client);
            }
            sys::close(server);
            ready(client, POLLIN);
            let much = vec![7; 10 << 20];
            let taken = sys::send(client, &much, MSG_NOSIGNAL).count();
            t.say(format!("some {} all {}", taken > 0, taken == much.len()));
            ready(client, POLLERR);
            t.saw("send", sys::send(client, &much, MSG_NOSIGNAL));
        }
    }),
    case("reset/SO_LINGER-0", |t| {
        let (client, server) = t.pair();
        t.saw("linger", sys::set_linger(client, true, 0));
        t.saw("close", sys::close(client));
        t.polled(sys::poll(&[(server, POLLIN)], SOON));
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("send", sys::send(server, b"x", MSG_NOSIGNAL));
        t.saw(
            "SO_ERROR",
            sys::get_int(server, libc::SOL_SOCKET, libc::SO_ERROR),
        );
    }),
    case("reset/in-CLOSE-WAIT", |t| {
        after_reset(t, reset_in_close_wait(t), "error")
    }),
    case("reset/in-CLOSE-WAIT-seen-by-recv", |t| {
        after_reset(t, reset_in_close_wait(t), "recv")
    }),
    case("reset/in-CLOSE-WAIT-seen-by-send", |t| {
        after_reset(t, reset_in_close_wait(t), "send")
    }),
    case("reset/in-LAST-ACK", |t| {
        after_reset(t, reset_in_last_ack(t), "error")
    }),
    case("reset/in-LAST-ACK-seen-by-recv", |t| {
        after_reset(t, reset_in_last_ack(t), "recv")
    }),
    case("reset/in-LAST-ACK-seen-by-send", |t| {
        after_reset(t, reset_in_last_ack(t), "send")
    }),
    case("reset/in-FIN-WAIT-2", |t| {
        let (client, server) = t.pair();
        sys::shutdown(server, libc::SHUT_WR);
        ready(client, POLLRDHUP);
        sys::set_linger(client, true, 0);
        sys::close(client);
        ready(server, POLLERR);
        after_reset(t, server, "error");
    }),
    case("reset/first-seen-by-send", |t| {
        let (client, server) = t.pair();
        sys::set_linger(client, true, 0);
        sys::close(client);
        ready(server, POLLERR);
        t.saw("send", sys::send(server, b"x", MSG_NOSIGNAL));
        t.saw("send", sys::send(server, b"x", MSG_NOSIGNAL));
        t.saw("recv", sys::recv(server, 9, 0));
    }),
    case("reset/unblocks-recv", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            pause(30);
            sys::set_linger(client, true, 0);
            0
        });
        sys::close(client);
        t.saw("recv", sys::recv(server, 9, 0));
        sys::waitpid(pid, 0);
    }),
    case("reset/unblocks-a-full-send", |t| {
        let (client, server) = t.pair();
        fill(client);
        let pid = sys::fork(|| {
            // The last that has this end goes, with all that was sent unread.
            pause(30);
            0
        });
        sys::close(server);
        let ret = sys::send(client, &[0; 65_536], MSG_NOSIGNAL);
        t.saw("send", ret);
        sys::waitpid(pid, 0);
    }),
    case("reset/send-to-a-closed-peer", |t| {
        let (client, server) = t.pair();
        sys::close(server);
        ready(client, POLLRDHUP);
        t.saw("first", sys::send(client, b"x", MSG_NOSIGNAL));
        ready(client, POLLERR | POLLHUP);
        t.saw("second", sys::send(client, b"x", MSG_NOSIGNAL));
        t.saw("recv", sys::recv(client, 9, 0));
    }),
    case("reset/send-to-a-closed-peer-by-SO_ERROR", |t| {
        let (client, server) = t.pair();
        sys::close(server);
        ready(client, POLLRDHUP);
        t.saw(
            "first",
            sys::sendmsg(client, &[b"x", b"y"], None, &[], MSG_NOSIGNAL),
        );
        ready(client, POLLERR | POLLHUP);
        t.polled(sys::poll(&[(client, POLLIN | POLLOUT)], SOON));
        for _ in 0..2 {
            let error = sys::get_int(client, libc::SOL_SOCKET, libc::SO_ERROR);
            t.saw("SO_ERROR", error);
        }
        t.polled(sys::poll(&[(client, POLLIN | POLLOUT)], SOON));
        t.saw("getpeername", sys::getpeername(client).0);
        t.saw("second", sys::send(client, b"x", MSG_NOSIGNAL));
    }),
    case("reset/send-to-a-dead-process", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| 0);
        sys::close(server);
        sys::waitpid(pid, 0);
        ready(client, POLLRDHUP);
        sys::handle(SIGPIPE, 0);
        t.saw("first", sys::send(client, b"x", 0));
        t.say(sys::signals_handled());
        ready(client, POLLERR | POLLHUP);
        t.saw("second", sys::send(client, b"x", 0));
        t.say(sys::signals_handled());
        t.saw("recv", sys::recv(client, 9, 0));
    }),
    case("reset/data-kept-before-the-end", |t| {
        let (client, server) = t.pair();
        sys::send(server, b"bye", 0);
        sys::close(server);
        queued(client, 3);
        ready(client, POLLRDHUP);
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("recv", sys::recv(client, 9, 0));
    }),
    case("linger/waits-for-nothing-when-all-is-read", |t| {
        let (client, server) = t.pair();
        sys::set_linger(client, true, 5);
        sys::send(client, b"abc", 0);
        t.saw("recv", take(server, 9));
        t.saw("close", sys::close(client));
        t.saw("recv", take(server, 9));
    }),
    case("SIGPIPE/kills", |t| {
        let (client, _server) = t.pair();
        sys::shutdown(client, libc::SHUT_WR);
        t.say("before");
        t.saw("send", sys::send(client, b"x", 0));
    }),
    case("SIGPIPE/write-kills", |t| {
        let (client, _server) = t.pair();
        sys::shutdown(client, libc::SHUT_WR);
        t.say("before");
        t.saw("write", sys::write(client, b"x"));
    }),
    case("SIGPIPE/handled", |t| {
        let (client, _server) = t.pair();
        sys::shutdown(client, libc::SHUT_WR);
        sys::handle(SIGPIPE, 0);
        t.saw("send", sys::send(client, b"x", 0));
        t.saw("write", sys::write(client, b"x"));
        t.saw("writev", sys::writev(client, &[b"x"]));
        t.saw("sendmsg", sys::sendmsg(client, &[b"x"], None, &[], 0));
        t.say(sys::signals_handled());
        t.saw("MSG_NOSIGNAL", sys::send(client, b"x", MSG_NOSIGNAL));
        t.say(sys::signals_handled());
    }),
    case("SIGPIPE/ignored", |t| {
        let (client, _server) = t.pair();
        sys::shutdown(client, libc::SHUT_WR);
        sys::ignore_signal(SIGPIPE);
        t.saw("send", sys::send(client, b"x", 0));
        t.saw("write", sys::write(client, b"x"));
    }),
    case("SIGPIPE/not-connected", |t| {
        let fd = t.tcp();
        sys::handle(SIGPIPE, 0);
        t.saw("send", sys::send(fd, b"x", 0));
        t.say(sys::signals_handled());
    }),
    case("SIGPIPE/not-for-a-reset", |t| {
        let (client, server) = t.pair();
        sys::handle(SIGPIPE, 0);
        sys::set_linger(client, true, 0);
        sys::close(client);
        ready(server, POLLERR);
        t.saw("send", sys::send(server, b"x", 0));
        t.say(sys::signals_handled());
        t.saw("send", sys::send(server, b"x", 0));
        t.say(sys::signals_handled());
    }),
    case("EINTR/recv", |t| {
        interrupted(t, |fd| sys::recv(fd, 9, 0).ret)
    }),
    case("EINTR/read", |t| interrupted(t, |fd| sys::read(fd, 9).ret)),
    case("EINTR/readv", |t| {
        interrupted(t, |fd| sys::readv(fd, &[9]).ret)
    }),
    case("EINTR/recvmsg", |t| {
        interrupted(t, |fd| sys::recvmsg(fd, &[9], 0, 0).got.ret)
    }),
    case("EINTR/accept", |t| {
        let (listener, _) = t.listener();
        sys::handle(SIGALRM, 0);
        sys::alarm_in(20);
        t.saw("accept", sys::accept(listener));
    }),
    case("EINTR/send-when-full", |t| {
        let (client, _server) = t.pair();
        fill(client);
        sys::handle(SIGALRM, 0);
        sys::alarm_in(20);
        t.saw("send", sys::send(client, b"x", 0));
    }),
    case("EINTR/udp-recv", |t| {
        let (fd, _) = t.udp_bound();
        sys::handle(SIGALRM, 0);
        sys::alarm_in(20);
        t.saw("recv", sys::recv(fd, 9, 0));
    }),
    case("EINTR/MSG_WAITALL-gives-what-came", |t| {
        let server = with_text(t, b"some");
        sys::handle(SIGALRM, 0);
        sys::alarm_in(20);
        t.saw("recv", sys::recv(server, 9, libc::MSG_WAITALL));
    }),
    case("SA_RESTART/recv", |t| {
        restarted(t, |fd| sys::recv(fd, 9, 0).ret)
    }),
    case("SA_RESTART/read", |t| {
        restarted(t, |fd| sys::read(fd, 9).ret)
    }),
    case("SA_RESTART/accept", |t| {
        let (listener, address) = t.listener();
        sys::handle(SIGALRM, SA_RESTART);
        let pid = sys::fork(|| {
            let fd = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).fd();
            pause(60);
            i32::from(sys::connect(fd, address).fd() < 0)
        });
        sys::alarm_in(20);
        t.made("accept", sys::accept(listener));
        t.say(sys::signals_handled());
        sys::waitpid(pid, 0);
    }),
    case("SO_RCVTIMEO/recv", |t| {
        let (client, _server) = t.pair();
        t.saw("set", sys::set_timeout(client, SO_RCVTIMEO, 20));
        t.saw("recv", sys::recv(client, 9, 0));
        t.saw("read", sys::read(client, 9));
    }),
    case("SO_RCVTIMEO/accept", |t| {
        let (listener, _) = t.listener();
        sys::set_timeout(listener, SO_RCVTIMEO, 20);
        t.saw("accept", sys::accept(listener));
    }),
    case("SO_RCVTIMEO/udp", |t| {
        let (fd, _) = t.udp_bound();
        sys::set_timeout(fd, SO_RCVTIMEO, 20);
        t.saw("recv", sys::recv(fd, 9, 0));
    }),
    case("SO_RCVTIMEO/MSG_WAITALL-gives-what-came", |t| {
        let server = with_text(t, b"some");
        sys::set_timeout(server, SO_RCVTIMEO, 20);
        t.saw("recv", sys::recv(server, 9, libc::MSG_WAITALL));
    }),
    case("SO_RCVTIMEO/EINTR-even-with-SA_RESTART", |t| {
        let (client, _server) = t.pair();
        sys::set_timeout(client, SO_RCVTIMEO, 3000);
        sys::handle(SIGALRM, SA_RESTART);
        sys::alarm_in(20);
        t.saw("recv", sys::recv(client, 9, 0));
    }),
    case("SO_SNDTIMEO/send", |t| {
        let (client, _server) = t.pair();
        fill(client);
        t.saw("set", sys::set_timeout(client, SO_SNDTIMEO, 20));
        t.saw("send", sys::send(client, b"x", 0));
    }),
    case("connect/EALREADY", |t| {
        // A listener whose queue is full leaves who comes next waiting.
        let (_listener, address) = t.listener_with(0);
        t.connected(address);
        let fd = t.tcp_nonblocking();
        t.saw("connect", sys::connect(fd, address));
        t.saw("again", sys::connect(fd, address));
        t.polled(sys::poll(&[(fd, POLLIN | POLLOUT)], 10));
        t.saw("send", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.saw("recv", sys::recv(fd, 9, 0));
        t.saw("getpeername", sys::getpeername(fd).0);
    }),
    case("connect/SO_SNDTIMEO", |t| {
        let (_listener, address) = t.listener_with(0);
        t.connected(address);
        let fd = t.tcp();
        sys::set_timeout(fd, SO_SNDTIMEO, 30);
        t.saw("connect", sys::connect(fd, address));
        t.saw("again", sys::connect(fd, address));
    }),
    case("connect/EINTR", |t| {
        let (_listener, address) = t.listener_with(0);
        t.connected(address);
        let fd = t.tcp();
        sys::handle(SIGALRM, 0);
        sys::alarm_in(20);
        t.saw("connect", sys::connect(fd, address));
    }),
];

/// A call that waits for data and is interrupted; nothing comes.
fn interrupted(t: &Talk, call: fn(i32) -> sys::Ret) {
    let (_client, server) = t.pair();
    sys::handle(SIGALRM, 0);
    sys::alarm_in(20);
    t.saw("call", call(server));
    t.say(sys::signals_handled());
}

/// A call that waits for data, is interrupted and goes on; then data comes.
fn restarted(t: &Talk, call: fn(i32) -> sys::Ret) {
    let (client, server) = t.pair();
    sys::handle(SIGALRM, SA_RESTART);
    let pid = sys::fork(|| {
        pause(60);
        sys::send(client, b"late", 0).fd()
    });
    sys::alarm_in(20);
    t.saw("call", call(server));
    t.say(sys::signals_handled());
    sys::waitpid(pid, 0);
}

/// An end whose peer has ended its direction, and resets then.
fn reset_in_close_wait(t: &Talk) -> i32 {
    let (client, server) = t.pair();
    sys::shutdown(client, libc::SHUT_WR);
    ready(server, POLLRDHUP);
    sys::set_linger(client, true, 0);
    sys::close(client);
    ready(server, POLLERR);
    server
}

/// An end that has ended its direction too, behind bytes for which its peer has no room.
fn reset_in_last_ack(t: &Talk) -> i32 {
    let (client, server) = t.pair();
    sys::shutdown(client, libc::SHUT_WR);
    ready(server, POLLRDHUP);
    fill(server);
    t.saw("shutdown", sys::shutdown(server, libc::SHUT_WR));
    sys::close(client);
    ready(server, POLLERR);
    server
}

/// What an end says whose peer has reset; `first`: the call that hears of it.
fn after_reset(t: &Talk, fd: i32, first: &str) {
    let error = || {
        let error = sys::get_int(fd, libc::SOL_SOCKET, libc::SO_ERROR);
        t.saw("SO_ERROR", error);
    };
    let recv = || t.saw("recv", sys::recv(fd, 9, 0));
    let send = || t.saw("send", sys::send(fd, b"x", MSG_NOSIGNAL));
    t.polled(sys::poll(&[(fd, POLLIN | POLLOUT | POLLRDHUP)], 0));
    match first {
        "recv" => recv(),
        "send" => send(),
        _ => error(),
    }
    t.polled(sys::poll(&[(fd, POLLIN | POLLOUT | POLLRDHUP)], 0));
    error();
    recv();
    send();
    error();
}
