//! fork(2), execve(2), unix(7), getrlimit(2): sockets that more than one process has.

use super::case::{Case, case};
use crate::stage;
use crate::sys::{self, Addr, End, Ret};
use crate::talk::{SOON, Talk, pause, ready, take};
use libc::{AF_INET, AF_UNIX, EMFILE, FD_CLOEXEC, POLLIN, SOCK_STREAM};

pub(super) const CASES: &[Case] = &[
    case("fork/child-reads-parent-closes", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            sys::close(client);
            let got = sys::recv(server, 9, 0);
            sys::send(server, &got.data, 0);
            0
        });
        sys::close(server);
        sys::send(client, b"child", 0);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("end", take(client, 9));
    }),
    case("fork/child-exits-parent-goes-on", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| 3);
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.polled(sys::poll(&[(server, POLLIN)], 20));
        sys::send(client, b"on", 0);
        t.saw("recv", take(server, 9));
    }),
    case("fork/both-write", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| i32::from(sys::send(client, b"child", 0) != Ret::Value(5)));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        sys::send(client, b"parent", 0);
        crate::talk::queued(server, 11);
        t.saw("recv", sys::recv(server, 20, 0));
    }),
    case("fork/child-accepts", |t| {
        let (listener, address) = t.listener();
        let pid = sys::fork(|| {
            let fd = sys::accept(listener).fd();
            i32::from(sys::send(fd, b"worker", 0) != Ret::Value(6))
        });
        sys::close(listener);
        let client = t.connected(address);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("fork/workers-share-a-listener", |t| {
        let (listener, address) = t.listener();
        let worker = || {
            for _ in 0..3 {
                let fd = sys::accept(listener).fd();
                sys::send(fd, b"w", 0);
                sys::close(fd);
            }
            0
        };
        let workers = [sys::fork(worker), sys::fork(worker)];
        for _ in 0..6 {
            let client = t.connected(address);
            t.saw("recv", take(client, 9));
        }
        for pid in workers {
            t.say(format!("{:?}", sys::waitpid(pid, 0)));
        }
    }),
    case("fork/shutdown-is-shared", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| sys::shutdown(client, libc::SHUT_WR).fd());
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("send", sys::send(client, b"x", libc::MSG_NOSIGNAL));
        t.saw("recv", take(server, 9));
    }),
    case("fork/options-are-shared", |t| {
        let (client, _server) = t.pair();
        let set = || sys::set_int(client, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1).fd();
        let pid = sys::fork(set);
        sys::waitpid(pid, 0);
        t.saw(
            "get",
            sys::get_int(client, libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        );
    }),
    case("fork/non-blocking-is-shared", |t| {
        let (client, _server) = t.pair();
        let pid = sys::fork(|| {
            crate::talk::nonblocking(client);
            0
        });
        sys::waitpid(pid, 0);
        t.saw("recv", sys::recv(client, 9, 0));
    }),
    case("fork/child-connects-for-the-parent", |t| {
        let (listener, address) = t.listener();
        let fd = t.tcp();
        let pid = sys::fork(|| i32::from(sys::connect(fd, address) != Ret::Value(0)));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("getpeername", sys::getpeername(fd).0);
        ready(listener, POLLIN);
        let server = sys::accept(listener).fd();
        sys::send(fd, b"ours", libc::MSG_NOSIGNAL);
        t.saw("recv", take(server, 9));
    }),
    case("fork/parts-read-by-both", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"abcdef", 0);
        crate::talk::queued(server, 6);
        let pid = sys::fork(|| i32::from(sys::recv(server, 3, 0).data != b"abc"));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("recv", sys::recv(server, 9, 0));
    }),
    case("fork/grandchild", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            let inner = sys::fork(|| {
                pause(20);
                i32::from(sys::send(server, b"deep", 0) != Ret::Value(4))
            });
            sys::close(server);
            i32::from(sys::waitpid(inner, 0) != End::Exit(0))
        });
        sys::close(server);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("exec/inherited-connection", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| stage::enter("echo", &[server]));
        sys::close(server);
        sys::send(client, b"exec", 0);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("end", take(client, 9));
    }),
    case("exec/inherited-listener", |t| {
        let (listener, address) = t.listener();
        let pid = sys::fork(|| stage::enter("serve", &[listener]));
        sys::close(listener);
        let client = t.connected(address);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("exec/listener-under-another-number", |t| {
        // It stays open under the first number, and is closed under the last.
        let low = sys::dup(0).fd();
        let (listener, address) = t.listener();
        let pid = sys::fork(|| {
            sys::dup2(listener, low);
            sys::fcntl(listener, libc::F_SETFD, FD_CLOEXEC);
            stage::enter("serve", &[low])
        });
        pause(50);
        sys::close(listener);
        let client = t.connected(address);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("exec/close-on-exec-closes", |t| {
        let (client, server) = t.pair();
        sys::fcntl(server, libc::F_SETFD, FD_CLOEXEC);
        let pid = sys::fork(|| stage::enter("sleep", &[server]));
        sys::close(server);
        t.polled(sys::poll(&[(client, POLLIN)], SOON));
        t.saw("recv", sys::recv(client, 9, 0));
        sys::kill(pid, libc::SIGKILL);
        sys::waitpid(pid, 0);
    }),
    case("exec/names-and-options-are-kept", |t| {
        let (client, server) = t.pair();
        sys::set_int(server, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        let pid = sys::fork(|| stage::enter("names", &[server, client]));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("exec/data-waits-for-the-new-program", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"before", 0);
        crate::talk::queued(server, 6);
        let pid = sys::fork(|| stage::enter("echo", &[server]));
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("exec/standard-input-and-output", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            sys::dup2(server, 0);
            sys::dup2(server, 1);
            sys::close_range(3, 1000, 0);
            stage::enter("echo", &[0])
        });
        sys::close(server);
        sys::send(client, b"inetd", 0);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("end", take(client, 9));
    }),
    case("SCM_RIGHTS/to-oneself", |t| {
        let (client, server) = t.pair();
        let copy = passed(t, server);
        sys::close(server);
        sys::send(client, b"copy", 0);
        t.saw("recv", take(copy, 9));
        sys::close(copy);
        t.saw("end", take(client, 9));
    }),
    case("SCM_RIGHTS/to-another-process", |t| {
        let (_, [ours, theirs]) = sys::socketpair(AF_UNIX, SOCK_STREAM, 0);
        let pid = sys::fork(|| {
            sys::close(ours);
            let message = sys::recvmsg(theirs, &[1], 0, 8);
            let fd = message.descriptors.first().copied().unwrap_or(-1);
            let got = take(fd, 9);
            i32::from(sys::send(fd, &got.data, 0) != Ret::Value(6))
        });
        let (client, server) = t.pair();
        t.saw("sendmsg", sys::sendmsg(ours, &[b"x"], None, &[server], 0));
        sys::close(server);
        sys::send(client, b"passed", 0);
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("end", take(client, 9));
    }),
    case("SCM_RIGHTS/listener", |t| {
        let (listener, address) = t.listener();
        let copy = passed(t, listener);
        sys::close(listener);
        let _client = t.connected(address);
        ready(copy, POLLIN);
        t.made("accept", sys::accept(copy));
    }),
    case("SCM_RIGHTS/listener-to-another-program", |t| {
        // Which accepts what came to the first one before and what comes after.
        let (_, [ours, theirs]) = sys::socketpair(AF_UNIX, SOCK_STREAM, 0);
        let pid = sys::fork(|| {
            sys::close(ours);
            stage::enter("receive-and-serve", &[theirs])
        });
        pause(30);
        let (listener, address) = t.listener();
        crate::far::here(listener);
        let early = t.connected(address);
        t.saw("sendmsg", sys::sendmsg(ours, &[b"x"], None, &[listener], 0));
        sys::close(listener);
        let late = t.connected(address);
        t.saw("early", take(early, 9));
        t.saw("late", take(late, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        let refused = || {
            let fd = t.tcp();
            let refused = sys::connect(fd, address).is_errno(libc::ECONNREFUSED);
            sys::close(fd);
            refused
        };
        crate::talk::wait_for(refused);
        t.saw("refused", refused());
    }),
    case("SCM_RIGHTS/wildcard-datagrams-to-another-program", |t| {
        let (_, [ours, theirs]) = sys::socketpair(AF_UNIX, SOCK_STREAM, 0);
        let pid = sys::fork(|| {
            sys::close(ours);
            stage::enter("receive-and-echo", &[theirs])
        });
        let fd = t.udp();
        let at = t.bound(fd, Addr::v4(std::net::Ipv4Addr::UNSPECIFIED, 0));
        t.saw("sendmsg", sys::sendmsg(ours, &[b"x"], None, &[fd], 0));
        sys::close(fd);
        let client = t.udp();
        let to = Addr::v4(t.at.v4, at.port());
        t.saw("sendto", sys::sendto(client, b"datagram", 0, to));
        t.saw("recv", take(client, 9));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("SCM_RIGHTS/in-flight-keeps-the-connection", |t| {
        let (client, server) = t.pair();
        let (_, [ours, theirs]) = sys::socketpair(AF_UNIX, SOCK_STREAM, 0);
        sys::sendmsg(ours, &[b"x"], None, &[server], 0);
        sys::close(server);
        t.polled(sys::poll(&[(client, POLLIN)], 20));
        sys::close(theirs);
        t.polled(sys::poll(&[(client, POLLIN)], SOON));
    }),
    case("SCM_RIGHTS/udp", |t| {
        let (a, b) = t.udps_connected();
        let copy = passed(t, b);
        sys::close(b);
        sys::send(a, b"datagram", 0);
        t.saw("recv", take(copy, 9));
    }),
    case("EMFILE/socket", |t| {
        sys::limit_descriptors(40);
        t.say(use_up() > 0);
        t.saw("socket", sys::socket(AF_INET, SOCK_STREAM, 0));
        t.saw("dup", sys::dup(0));
        t.saw("epoll_create1", sys::epoll_create1(0));
    }),
    case("EMFILE/accept-keeps-the-connection", |t| {
        let (listener, address) = t.listener();
        let client = t.connected(address);
        ready(listener, POLLIN);
        sys::limit_descriptors(40);
        use_up();
        t.saw("accept", sys::accept(listener));
        sys::close(39);
        let fd = t.made("accept", sys::accept(listener));
        sys::send(client, b"kept", 0);
        t.saw("recv", take(fd, 9));
    }),
    case("EMFILE/connect", |t| {
        let (listener, address) = t.listener();
        let client = t.tcp();
        sys::limit_descriptors(40);
        use_up();
        t.saw("connect", sys::connect(client, address));
        t.saw("socket", sys::socket(AF_INET, SOCK_STREAM, 0));
        sys::close(39);
        ready(listener, POLLIN);
        let server = t.made("accept", sys::accept(listener));
        t.saw("send", sys::send(client, b"text", 0));
        t.saw("recv", take(server, 9));
    }),
    case("EMFILE/connections-go-on", |t| {
        let (client, server) = t.pair();
        sys::limit_descriptors(40);
        use_up();
        t.saw("send", sys::send(client, b"on", 0));
        t.saw("recv", take(server, 9));
        let fresh = sys::close(39);
        t.saw("close", fresh);
        t.made("socket", sys::socket(AF_INET, SOCK_STREAM, 0));
    }),
];

/// The descriptor that comes out of a Unix socket when this one goes in.
fn passed(t: &Talk, fd: i32) -> i32 {
    let (_, [a, b]) = sys::socketpair(AF_UNIX, SOCK_STREAM, 0);
    t.saw("sendmsg", sys::sendmsg(a, &[b"x"], None, &[fd], 0));
    let message = sys::recvmsg(b, &[1], 0, 8);
    t.message(&message);
    message.descriptors.first().copied().unwrap_or(-1)
}

/// Opens sockets until there is no descriptor left; how many.
pub(crate) fn use_up() -> usize {
    let mut count = 0;
    while !sys::socket(AF_INET, SOCK_STREAM, 0).is_errno(EMFILE) {
        count += 1;
    }
    count
}
