//! tcp(7), ip(7), socket(7): options of connections, and what they add to messages.

use super::case::{Case, case};
use super::send::fill;
use crate::sys;
use crate::talk::{Talk, nonblocking, pause, queued, ready, take, wait_for};
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, POLLOUT, SOL_SOCKET};

pub(super) const CASES: &[Case] = &[
    case("options/set-before-connect", |t| {
        before_connect(t, |fd| {
            sys::set_int(fd, IPPROTO_TCP, libc::TCP_NODELAY, 1);
        });
    }),
    case("options/set-before-connect-by-number", |t| {
        before_connect(t, |fd| {
            t.saw(
                "set",
                sys::inline_set_int(fd, IPPROTO_TCP, libc::TCP_NODELAY, 1),
            );
        });
    }),
    case("options/set-before-connect-by-a-duplicate", |t| {
        for duplicate in [
            |fd| sys::dup(fd).fd(),
            |fd| sys::dup2(fd, 99).fd(),
            |fd| sys::fcntl(fd, libc::F_DUPFD, 100).fd(),
            |fd| sys::inline_call(libc::SYS_dup, fd).fd(),
        ] {
            before_connect(t, |fd| {
                let other = duplicate(fd);
                sys::set_int(other, IPPROTO_TCP, libc::TCP_NODELAY, 1);
                sys::close(other);
            });
        }
    }),
    case("options/set-before-connect-in-a-child", |t| {
        for fork in [|work| sys::fork(work), |work| sys::inline_fork(work)] {
            before_connect(t, |fd| {
                let pid = fork(Box::new(move || {
                    sys::set_int(fd, IPPROTO_TCP, libc::TCP_NODELAY, 1);
                    0
                }));
                sys::waitpid(pid, 0);
            });
        }
    }),
    case("options/set-before-connect-after-a-message", |t| {
        before_connect(t, |fd| {
            let (_, [a, b]) = sys::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0);
            sys::sendmsg(a, &[b"x"], None, &[fd], 0);
            let other = sys::recvmsg(b, &[1], 0, 64).descriptors;
            for other in other {
                sys::set_int(other, IPPROTO_TCP, libc::TCP_NODELAY, 1);
            }
        });
    }),
    case("options/of-another-socket-with-its-number", |t| {
        before_connect(t, |fd| {
            sys::set_int(fd, IPPROTO_TCP, libc::TCP_NODELAY, 1);
            sys::close(fd);
            t.saw(
                "again",
                sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).fd() == fd,
            );
        });
        before_connect(t, |fd| {
            let other = t.tcp();
            sys::set_int(other, IPPROTO_TCP, libc::TCP_NODELAY, 1);
            sys::dup2(other, fd);
        });
    }),
    case("tcp/TCP_NOTSENT_LOWAT-connected", |t| {
        let (client, _server) = t.pair();
        let name = libc::TCP_NOTSENT_LOWAT;
        t.saw("at first", sys::get_int(client, IPPROTO_TCP, name));
        for value in [16_384, 0] {
            t.saw("set", sys::set_int(client, IPPROTO_TCP, name, value));
            t.saw("get", sys::get_int(client, IPPROTO_TCP, name));
        }
    }),
    case("tcp/TCP_NOTSENT_LOWAT-full-and-room-again", |t| {
        let (client, server) = t.pair();
        nonblocking(client);
        let name = libc::TCP_NOTSENT_LOWAT;
        t.saw("set", sys::set_int(client, IPPROTO_TCP, name, 16_384));
        // What left meanwhile makes room once more.
        wait_for(|| {
            fill(client);
            pause(2);
            sys::poll(&[(client, POLLOUT)], 0).0 == sys::Ret::Value(0)
        });
        t.polled(sys::poll(&[(client, POLLOUT)], 0));
        while !sys::recv(server, 1 << 20, libc::MSG_DONTWAIT)
            .data
            .is_empty()
        {}
        t.say(ready(client, POLLOUT));
        t.saw("send", sys::send(client, b"x", 0));
    }),
    case("tcp/TCP_FASTOPEN_CONNECT-connected", |t| {
        let (client, _server) = t.pair();
        for value in [0, 1] {
            let name = libc::TCP_FASTOPEN_CONNECT;
            t.saw("set", sys::set_int(client, IPPROTO_TCP, name, value));
        }
    }),
    case("tcp/TCP_FASTOPEN_CONNECT", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp();
        let name = libc::TCP_FASTOPEN_CONNECT;
        t.saw("set", sys::set_int(fd, IPPROTO_TCP, name, 1));
        t.saw("connect", sys::connect(fd, address));
        t.saw("send", sys::send(fd, b"hello", 0));
    }),
    case("tcp/MSG_FASTOPEN", |t| {
        let (listener, address) = t.listener();
        let fd = t.tcp();
        t.saw(
            "sendto",
            sys::sendto(fd, b"hello", libc::MSG_FASTOPEN, address),
        );
        let server = t.must("accept", sys::accept(listener));
        t.saw("recv", take(server, 9));
        t.saw("send", sys::send(server, b"back", 0));
        t.saw("recv", take(fd, 9));
        let again = sys::sendto(fd, b"more", libc::MSG_FASTOPEN, address);
        t.saw("connected", again);
    }),
    case("tcp/MSG_FASTOPEN-sendmsg", |t| {
        let (listener, address) = t.listener();
        let fd = t.tcp();
        let sent = sys::sendmsg(fd, &[b"hel", b"lo"], Some(address), &[], libc::MSG_FASTOPEN);
        t.saw("sendmsg", sent);
        let server = t.must("accept", sys::accept(listener));
        t.saw("recv", take(server, 9));
    }),
    case("tcp/MSG_FASTOPEN-nonblocking", |t| {
        let (_listener, address) = t.listener();
        let fd = t.tcp_nonblocking();
        t.saw(
            "sendto",
            sys::sendto(fd, b"hello", libc::MSG_FASTOPEN, address),
        );
        crate::talk::ready(fd, libc::POLLOUT);
        t.saw("send", sys::send(fd, b"hello", 0));
    }),
    case("tcp/MSG_FASTOPEN-nobody", |t| {
        let fd = t.tcp();
        let dead = t.dead();
        t.saw(
            "sendto",
            sys::sendto(fd, b"hello", libc::MSG_FASTOPEN, dead),
        );
    }),
    case("tcp/MSG_EOR", |t| {
        let (client, server) = t.pair();
        t.saw("send", sys::send(client, b"one", libc::MSG_EOR));
        t.saw("send", sys::send(client, b"two", 0));
        queued(server, 6);
        t.saw("recv", take(server, 9));
    }),
    case("tcp/TCP_INQ", |t| {
        let (client, server) = t.pair();
        let name = libc::TCP_INQ;
        t.saw("at first", sys::get_int(server, IPPROTO_TCP, name));
        for value in [2, -1, 1] {
            t.saw("set", sys::set_int(server, IPPROTO_TCP, name, value));
        }
        t.saw("get", sys::get_int(server, IPPROTO_TCP, name));
        sys::send(client, b"12345678", 0);
        queued(server, 8);
        for (len, room) in [(3, 8), (2, 0), (9, 8)] {
            with_control(t, server, (len, room, 0), true);
        }
    }),
    case("socket/SO_TIMESTAMP-of-a-connection", |t| {
        times(t, libc::SO_TIMESTAMP);
    }),
    case("socket/SO_TIMESTAMPNS-of-a-connection", |t| {
        times(t, libc::SO_TIMESTAMPNS);
    }),
    case("socket/SO_TIMESTAMPING-of-a-connection", |t| {
        let (client, server) = t.pair();
        let received =
            (libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE).cast_signed();
        let name = libc::SO_TIMESTAMPING;
        t.saw("set", sys::set_int(server, SOL_SOCKET, name, received));
        t.saw("get", sys::get_int(server, SOL_SOCKET, name));
        times_are_taken(client, server, name);
        t.saw("inq", sys::set_int(server, IPPROTO_TCP, libc::TCP_INQ, 1));
        sys::send(client, b"1234", 0);
        queued(server, 4);
        with_control(t, server, (2, 16, 0), false);
        t.saw("off", sys::set_int(server, SOL_SOCKET, name, 0));
        with_control(t, server, (2, 16, 0), false);
    }),
    case("socket/SO_TIMESTAMPING-of-sending", |t| {
        let sent =
            (libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE).cast_signed();
        let name = libc::SO_TIMESTAMPING;
        let (listener, address) = t.listener();
        let fd = t.tcp();
        t.saw("fresh", sys::set_int(fd, SOL_SOCKET, name, sent));
        t.saw("connect", sys::connect(fd, address));
        t.saw("get", sys::get_int(fd, SOL_SOCKET, name));
        t.saw("connected", sys::set_int(fd, SOL_SOCKET, name, sent));
        t.saw("listener", sys::set_int(listener, SOL_SOCKET, name, sent));
    }),
    case("ip/MCAST_JOIN_GROUP", |t| {
        let fd = t.udp();
        let (of_four, of_six) = (group_request(2, &[239, 1, 2, 3]), group_request(10, &MANY));
        let set = |fd, level, name, value: &[u8]| sys::setsockopt(fd, level, name, value);
        for name in [
            MCAST_JOIN_GROUP,
            MCAST_JOIN_GROUP,
            MCAST_LEAVE_GROUP,
            MCAST_LEAVE_GROUP,
        ] {
            t.saw("four", set(fd, IPPROTO_IP, name, &of_four));
        }
        let fd = t.udp6();
        for name in [
            MCAST_JOIN_GROUP,
            MCAST_JOIN_GROUP,
            MCAST_LEAVE_GROUP,
            MCAST_LEAVE_GROUP,
        ] {
            t.saw("six", set(fd, IPPROTO_IPV6, name, &of_six));
        }
        let one = group_request(2, &[127, 0, 0, 1]);
        for wrong in [&one[..], &of_six, &of_four[..100], &[]] {
            t.saw("wrong", set(fd, IPPROTO_IP, MCAST_JOIN_GROUP, wrong));
        }
    }),
    case("ip/groups-of-a-stream", |t| {
        let (client, _server) = t.pair();
        let old = [239, 1, 2, 3, 127, 0, 0, 1];
        for fd in [t.tcp(), client] {
            for name in [libc::IP_ADD_MEMBERSHIP, libc::IP_DROP_MEMBERSHIP] {
                t.saw("group", sys::setsockopt(fd, IPPROTO_IP, name, &old));
            }
            for name in [libc::IP_MULTICAST_TTL, libc::IP_MULTICAST_LOOP] {
                t.saw("set", sys::set_int(fd, IPPROTO_IP, name, 1));
            }
        }
    }),
    case("ip/MCAST_JOIN_GROUP-of-a-stream", |t| {
        let (client, _server) = t.pair();
        let group = group_request(2, &[239, 1, 2, 3]);
        for fd in [t.tcp(), client] {
            for name in [MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP] {
                t.saw("request", sys::setsockopt(fd, IPPROTO_IP, name, &group));
            }
        }
    }),
    case("socket/SO_ZEROCOPY", |t| {
        let (client, _server) = t.pair();
        for value in [1, 0, 2, -1] {
            t.saw(
                "set",
                sys::set_int(client, SOL_SOCKET, libc::SO_ZEROCOPY, value),
            );
            t.saw("get", sys::get_int(client, SOL_SOCKET, libc::SO_ZEROCOPY));
        }
    }),
    case("socket/MSG_ZEROCOPY", |t| {
        let (client, server) = t.pair();
        zero_copy(t, client, server);
    }),
    case("socket/MSG_ZEROCOPY-set-before-connect", |t| {
        let (listener, address) = t.listener();
        let client = t.tcp();
        t.saw(
            "set",
            sys::set_int(client, SOL_SOCKET, libc::SO_ZEROCOPY, 1),
        );
        t.saw("connect", sys::connect(client, address));
        let server = t.must("accept", sys::accept(listener));
        zero_copy(t, client, server);
    }),
    case("socket/MSG_ZEROCOPY-epoll", |t| {
        let (client, server) = t.pair();
        let epoll = t.must("epoll", sys::epoll_create1(0));
        let events = libc::EPOLLIN | libc::EPOLLET;
        let added = sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, client, events, 7);
        t.saw("add", added);
        t.saw(
            "set",
            sys::set_int(client, SOL_SOCKET, libc::SO_ZEROCOPY, 1),
        );
        for text in [b"hello", b"again"] {
            sys::send(client, text, libc::MSG_ZEROCOPY);
            t.saw("recv", take(server, 9));
            t.epolled(sys::epoll_wait(epoll, 4, 5000));
            t.epolled(sys::epoll_wait(epoll, 4, 0));
            with_control(t, client, (9, 16, libc::MSG_ERRQUEUE), true);
        }
    }),
    case("socket/MSG_ZEROCOPY-not-asked-for", |t| {
        let (client, server) = t.pair();
        t.saw("send", sys::send(client, b"hello", libc::MSG_ZEROCOPY));
        t.saw("recv", take(server, 9));
        with_control(t, client, (9, 16, libc::MSG_ERRQUEUE), true);
    }),
    case("ip/options-of-one-byte-connected", |t| {
        let (client, _server) = t.pair();
        for (name, value) in [(libc::IP_TOS, 0x10), (libc::IP_TTL, 9)] {
            for length in [1, 2, 3, 4] {
                let bytes = [value, 0, 0, 0];
                let set = sys::setsockopt(client, IPPROTO_IP, name, &bytes[..length]);
                t.saw("set", set);
                t.say(sys::getsockopt(client, IPPROTO_IP, name, length));
            }
        }
        t.saw(
            "empty",
            sys::setsockopt(client, IPPROTO_IP, libc::IP_TOS, &[]),
        );
        t.say(sys::getsockopt(client, IPPROTO_IP, libc::IP_TOS, 4));
        t.say(sys::getsockopt(client, IPPROTO_IP, libc::IP_TOS, 0));
        let short = sys::setsockopt(client, IPPROTO_TCP, libc::TCP_NODELAY, &[1]);
        t.saw("TCP", short);
    }),
];

/// `recvmsg` of `len` bytes with `room` words for control messages; with what they hold, if that is
/// always the same.
fn with_control(t: &Talk, fd: i32, (len, room, flags): (usize, usize, i32), told: bool) {
    let message = sys::recvmsg(fd, &[len], flags | libc::MSG_DONTWAIT, room);
    t.message(&message);
    for (kind, value) in message.control.iter().zip(&message.values) {
        match told {
            true => t.say(format!("{kind:?} {value:?}")),
            false => t.say(format!("{kind:?} {}", value.len())),
        }
    }
}

/// The kernel begins to take times a little after it was asked to.
fn times_are_taken(client: i32, server: i32, name: i32) {
    wait_for(|| {
        sys::send(client, b"x", 0);
        queued(server, 1);
        let message = sys::recvmsg(server, &[1], 0, 16);
        message.control.contains(&(SOL_SOCKET, name))
    });
}

/// What a connection has that `before` was done to.
fn before_connect(t: &Talk, before: impl FnOnce(i32)) {
    let (listener, address) = t.listener();
    let fd = t.tcp();
    before(fd);
    t.saw("connect", sys::connect(fd, address));
    for name in [libc::TCP_NODELAY, libc::TCP_CORK, libc::TCP_KEEPCNT] {
        t.saw("get", sys::get_int(fd, IPPROTO_TCP, name));
    }
    for name in [libc::SO_KEEPALIVE, libc::SO_RCVLOWAT, libc::SO_REUSEADDR] {
        t.saw("get", sys::get_int(fd, SOL_SOCKET, name));
    }
    t.saw("ttl", sys::get_int(fd, IPPROTO_IP, libc::IP_TTL));
    sys::close(fd);
    sys::close(listener);
}

/// What an option adds that asks for times.
fn times(t: &Talk, name: i32) {
    let (client, server) = t.pair();
    t.saw("set", sys::set_int(server, SOL_SOCKET, name, 7));
    for other in [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS] {
        t.saw("get", sys::get_int(server, SOL_SOCKET, other));
    }
    times_are_taken(client, server, name);
    sys::send(client, b"1234", 0);
    queued(server, 4);
    with_control(t, server, (2, 8, 0), false);
    t.saw("off", sys::set_int(server, SOL_SOCKET, name, 0));
    with_control(t, server, (2, 8, 0), false);
}

/// A send without a copy, and what is said of it.
fn zero_copy(t: &Talk, client: i32, server: i32) {
    t.saw(
        "set",
        sys::set_int(client, SOL_SOCKET, libc::SO_ZEROCOPY, 1),
    );
    for text in [b"hello", b"again"] {
        t.saw("send", sys::send(client, text, libc::MSG_ZEROCOPY));
        t.saw("recv", take(server, 9));
        let queued = || sys::poll(&[(client, 0)], 0).1 == [libc::POLLERR];
        wait_for(queued);
        t.saw("error", sys::get_int(client, SOL_SOCKET, libc::SO_ERROR));
        with_control(t, client, (9, 16, libc::MSG_ERRQUEUE), true);
        t.polled(sys::poll(&[(client, 0)], 0));
    }
    with_control(t, client, (9, 16, libc::MSG_ERRQUEUE), true);
}

/// RFC 3678 (`linux/in.h`).
const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_LEAVE_GROUP: i32 = 45;
/// A group of IPv6, behind the flow label.
const MANY: [u8; 20] = [
    0, 0, 0, 0, 0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34,
];

/// `struct group_req`: a group at the loopback interface, which is the first.
fn group_request(family: u16, address: &[u8]) -> [u8; 136] {
    let mut bytes = [0; 136];
    bytes[..4].copy_from_slice(&1u32.to_ne_bytes());
    bytes[8..10].copy_from_slice(&family.to_ne_bytes());
    bytes[12..12 + address.len()].copy_from_slice(address);
    bytes
}
