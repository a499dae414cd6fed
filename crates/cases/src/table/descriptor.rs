//! dup(2), fcntl(2), ioctl(2).

use super::case::{Case, case};
use super::recv::with_text;
use crate::sys;
use crate::talk::{SOON, ready, take};
use libc::{
    F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_GETOWN, F_SETFD, F_SETFL, F_SETOWN, FD_CLOEXEC,
    FIONBIO, FIONREAD, O_CLOEXEC, O_NONBLOCK, O_RDWR, POLLIN, TIOCOUTQ,
};

const SIOCATMARK: u64 = 0x8905;

pub(super) const CASES: &[Case] = &[
    case("dup/shares-the-connection", |t| {
        let (client, server) = t.pair();
        let other = t.made("dup", sys::dup(client));
        sys::close(client);
        t.polled(sys::poll(&[(server, POLLIN)], 10));
        t.saw("send", sys::send(other, b"dup", 0));
        t.saw("recv", take(server, 9));
        sys::close(other);
        t.saw("recv", take(server, 9));
    }),
    case("dup/shares-non-blocking", |t| {
        let (client, _server) = t.pair();
        let other = sys::dup(client).fd();
        crate::talk::nonblocking(client);
        t.say(sys::fcntl(other, F_GETFL, 0).fd() & O_NONBLOCK != 0);
        t.saw("recv", sys::recv(other, 9, 0));
    }),
    case("dup/does-not-share-close-on-exec", |t| {
        let fd = t.tcp();
        sys::fcntl(fd, F_SETFD, FD_CLOEXEC);
        let other = sys::dup(fd).fd();
        t.saw("F_GETFD", sys::fcntl(other, F_GETFD, 0));
    }),
    case("dup/listener", |t| {
        let (listener, address) = t.listener();
        let other = t.made("dup", sys::dup(listener));
        sys::close(listener);
        let fd = t.tcp();
        t.saw("connect", sys::connect(fd, address));
        ready(other, POLLIN);
        t.made("accept", sys::accept(other));
    }),
    case("dup/fresh-then-connect-one", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        let other = sys::dup(fd).fd();
        t.saw("connect", sys::connect(fd, address));
        t.saw("getpeername", sys::getpeername(other).0);
        t.saw("send", sys::send(other, b"x", libc::MSG_NOSIGNAL));
    }),
    case("dup/fresh-then-listen-on-one", |t| {
        let fd = t.tcp();
        let other = sys::dup(fd).fd();
        let any = t.any();
        let address = t.bound(fd, any);
        t.saw("listen", sys::listen(fd, 4));
        t.say(t.name(other).port() == address.port());
        let client = t.tcp();
        t.saw("connect", sys::connect(client, address));
        ready(other, POLLIN);
        t.made("accept", sys::accept(other));
    }),
    case("dup/shares-options", |t| {
        let fd = t.tcp();
        let other = sys::dup(fd).fd();
        sys::set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        t.saw(
            "nodelay",
            sys::get_int(other, libc::IPPROTO_TCP, libc::TCP_NODELAY),
        );
    }),
    case("dup/EBADF", |t| t.saw("dup", sys::dup(-1))),
    case("dup2/over-a-connected-socket", |t| {
        let ((a, b), (c, d)) = (t.pair(), t.pair());
        t.say(sys::dup2(c, a) == sys::Ret::Value(i64::from(a)));
        t.saw("first peer", take(b, 9));
        t.saw("send", sys::send(a, b"second", 0));
        t.saw("second peer", take(d, 9));
    }),
    case("dup2/onto-itself", |t| {
        let (client, server) = t.pair();
        t.say(sys::dup2(client, client) == sys::Ret::Value(i64::from(client)));
        sys::send(client, b"same", 0);
        t.saw("recv", take(server, 9));
    }),
    case("dup2/EBADF", |t| {
        let fd = t.tcp();
        t.saw("from", sys::dup2(-1, fd));
        t.saw("to", sys::dup2(fd, -1));
        t.saw("kept", sys::getsockname(fd).0);
    }),
    case("dup2/pipe-over-a-socket", |t| {
        let (client, server) = t.pair();
        let [from, to] = sys::pipe();
        sys::dup2(to, client);
        t.saw("peer", take(server, 9));
        t.saw("write", sys::write(client, b"pipe"));
        t.saw("read", sys::read(from, 9));
        t.saw("send", sys::send(client, b"x", 0));
    }),
    case("dup2/socket-over-a-pipe", |t| {
        let (client, server) = t.pair();
        let [from, _] = sys::pipe();
        sys::dup2(client, from);
        t.saw("write", sys::write(from, b"socket"));
        t.saw("recv", take(server, 9));
        t.saw("getpeername", sys::getpeername(from).0);
    }),
    case("dup3/flags", |t| {
        let (a, b) = (t.tcp(), t.tcp());
        t.say(sys::dup3(a, b, O_CLOEXEC) == sys::Ret::Value(i64::from(b)));
        t.saw("F_GETFD", sys::fcntl(b, F_GETFD, 0));
        t.saw("same", sys::dup3(a, a, 0));
        t.saw("flag", sys::dup3(a, b, 1));
    }),
    case("fcntl/F_DUPFD", |t| {
        let (client, server) = t.pair();
        let other = sys::fcntl(client, F_DUPFD, 100).fd();
        t.say(other);
        t.saw("send", sys::send(other, b"100", 0));
        t.saw("recv", take(server, 9));
        t.saw("F_GETFD", sys::fcntl(other, F_GETFD, 0));
        let third = sys::fcntl(client, F_DUPFD_CLOEXEC, 100).fd();
        t.say(third);
        t.saw("F_GETFD", sys::fcntl(third, F_GETFD, 0));
        t.saw("too high", sys::fcntl(client, F_DUPFD, i32::MAX));
    }),
    case("fcntl/F_GETFL", |t| {
        let (client, _server) = t.pair();
        let (udp, (listener, _)) = (t.udp(), t.listener());
        for fd in [client, udp, listener] {
            let flags = sys::fcntl(fd, F_GETFL, 0).fd();
            t.say(format!("{flags:#o} rdwr {}", flags & O_RDWR != 0));
        }
    }),
    case("fcntl/F_SETFL", |t| {
        let (client, _server) = t.pair();
        t.saw("set", sys::fcntl(client, F_SETFL, O_NONBLOCK));
        t.saw("recv", sys::recv(client, 9, 0));
        t.say(format!("{:#o}", sys::fcntl(client, F_GETFL, 0).fd()));
        t.saw("clear", sys::fcntl(client, F_SETFL, 0));
        t.say(format!("{:#o}", sys::fcntl(client, F_GETFL, 0).fd()));
    }),
    case("fcntl/F_SETFD", |t| {
        let (client, _server) = t.pair();
        t.saw("get", sys::fcntl(client, F_GETFD, 0));
        t.saw("set", sys::fcntl(client, F_SETFD, FD_CLOEXEC));
        t.saw("get", sys::fcntl(client, F_GETFD, 0));
    }),
    case("fcntl/F_SETOWN", |t| {
        let (client, _server) = t.pair();
        t.saw("get", sys::fcntl(client, F_GETOWN, 0));
        t.saw("set", sys::fcntl(client, F_SETOWN, sys::own_pid()));
        t.say(sys::fcntl(client, F_GETOWN, 0).fd() == sys::own_pid());
    }),
    case("fcntl/EBADF-EINVAL", |t| {
        t.saw("EBADF", sys::fcntl(-1, F_GETFL, 0));
        let fd = t.tcp();
        t.saw("EINVAL", sys::fcntl(fd, 9999, 0));
    }),
    case("ioctl/FIONREAD", |t| {
        let server = with_text(t, b"abcdef");
        t.say(format!("{:?}", sys::ioctl(server, FIONREAD, -1)));
        sys::recv(server, 2, 0);
        t.say(format!("{:?}", sys::ioctl(server, FIONREAD, -1)));
        sys::recv(server, 9, 0);
        t.say(format!("{:?}", sys::ioctl(server, FIONREAD, -1)));
    }),
    case("ioctl/FIONREAD-udp-is-the-first-datagram", |t| {
        let (a, b) = t.udps_connected();
        t.say(format!("{:?}", sys::ioctl(b, FIONREAD, -1)));
        sys::send(a, b"abc", 0);
        sys::send(a, b"defgh", 0);
        ready(b, POLLIN);
        t.say(format!("{:?}", sys::ioctl(b, FIONREAD, -1)));
        sys::recv(b, 1, 0);
        ready(b, POLLIN);
        t.say(format!("{:?}", sys::ioctl(b, FIONREAD, -1)));
    }),
    case("ioctl/FIONREAD-not-connected", |t| {
        let (listener, _) = t.listener();
        t.say(format!("{:?}", sys::ioctl(listener, FIONREAD, -1)));
        let fd = t.tcp();
        t.say(format!("{:?}", sys::ioctl(fd, FIONREAD, -1)));
    }),
    case("ioctl/FIONREAD-after-the-end", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"abc", 0);
        sys::close(client);
        ready(server, libc::POLLRDHUP);
        t.say(format!("{:?}", sys::ioctl(server, FIONREAD, -1)));
    }),
    case("ioctl/FIONBIO", |t| {
        let (client, _server) = t.pair();
        t.saw("set", sys::ioctl(client, FIONBIO, 1).0);
        t.saw("recv", sys::recv(client, 9, 0));
        t.say(sys::fcntl(client, F_GETFL, 0).fd() & O_NONBLOCK != 0);
        t.saw("clear", sys::ioctl(client, FIONBIO, 0).0);
        t.say(sys::fcntl(client, F_GETFL, 0).fd() & O_NONBLOCK != 0);
    }),
    case("ioctl/SIOCOUTQ", |t| {
        let (client, server) = t.pair();
        t.say(format!("{:?}", sys::ioctl(client, TIOCOUTQ, -1)));
        sys::send(client, b"abc", 0);
        take(server, 9);
        crate::talk::wait_for(|| sys::ioctl(client, TIOCOUTQ, -1).1 == 0);
        t.say(format!("{:?}", sys::ioctl(client, TIOCOUTQ, -1)));
        let (listener, _) = t.listener();
        t.say(format!("{:?}", sys::ioctl(listener, TIOCOUTQ, -1)));
    }),
    case("ioctl/SIOCOUTQ-udp", |t| {
        let fd = t.udp();
        t.say(format!("{:?}", sys::ioctl(fd, TIOCOUTQ, -1)));
    }),
    case("ioctl/SIOCATMARK", |t| {
        let (client, server) = t.pair();
        t.say(format!("{:?}", sys::ioctl(server, SIOCATMARK, -1)));
        sys::send(client, b"!", libc::MSG_OOB);
        t.polled(sys::poll(&[(server, libc::POLLPRI)], SOON));
        t.say(format!("{:?}", sys::ioctl(server, SIOCATMARK, -1)));
    }),
    case("ioctl/EFAULT", |t| {
        let server = with_text(t, b"abc");
        t.saw("FIONREAD", sys::ioctl_bad(server, FIONREAD));
        t.saw("FIONBIO", sys::ioctl_bad(server, FIONBIO));
    }),
    case("ioctl/ENOTTY", |t| {
        let fd = t.tcp();
        t.saw("TCGETS", sys::ioctl(fd, libc::TCGETS, 0).0);
        t.saw("unknown", sys::ioctl(fd, 0x1234, 0).0);
        t.saw("EBADF", sys::ioctl(-1, FIONREAD, 0).0);
    }),
];
