//! poll(2), ppoll(2), select(2), pselect(2).

use super::case::{Case, case};
use super::recv::with_text;
use super::send::fill;
use crate::sys::{self, Ret, Sets};
use crate::talk::{SOON, Talk, WHILE, pause, ready};
use libc::{MSG_DONTWAIT, POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, SHUT_WR, SIGALRM};

/// Everything that can be asked for.
const ALL: i16 = 0x3fff;

pub(super) const CASES: &[Case] = &[
    case("poll/connected", |t| {
        let (client, server) = t.pair();
        t.polled(sys::poll(&[(client, ALL), (server, ALL)], 0));
    }),
    case("poll/data", |t| {
        let server = with_text(t, b"abc");
        t.polled(sys::poll(&[(server, ALL)], 0));
        t.polled(sys::poll(&[(server, POLLOUT)], 0));
        t.polled(sys::poll(&[(server, 0)], 0));
        sys::recv(server, 9, 0);
        t.polled(sys::poll(&[(server, POLLIN)], 0));
    }),
    case("poll/peer-half-closed", |t| {
        let (client, server) = t.pair();
        sys::shutdown(client, SHUT_WR);
        ready(server, POLLRDHUP);
        t.polled(sys::poll(&[(server, ALL)], 0));
        t.polled(sys::poll(&[(client, ALL)], 0));
    }),
    case("poll/peer-closed", |t| {
        let (client, server) = t.pair();
        sys::close(client);
        ready(server, POLLIN);
        t.polled(sys::poll(&[(server, ALL)], 0));
    }),
    case("poll/reset", |t| {
        let (client, server) = t.pair();
        sys::set_linger(client, true, 0);
        sys::close(client);
        ready(server, POLLERR);
        t.polled(sys::poll(&[(server, ALL)], 0));
        t.saw("recv", sys::recv(server, 9, 0));
        t.polled(sys::poll(&[(server, ALL)], 0));
    }),
    case("poll/only-errors-asked", |t| {
        let (client, server) = t.pair();
        t.polled(sys::poll(&[(server, 0)], WHILE));
        sys::set_linger(client, true, 0);
        sys::close(client);
        t.polled(sys::poll(&[(server, 0)], SOON));
    }),
    case("poll/full", |t| {
        let (client, server) = t.pair();
        fill(client);
        t.polled(sys::poll(&[(client, ALL)], WHILE));
        while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
        t.polled(sys::poll(&[(client, POLLOUT)], SOON));
    }),
    case("poll/woken-by-data", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            pause(20);
            sys::send(client, b"wake", 0).fd()
        });
        t.polled(sys::poll(&[(server, POLLIN)], SOON));
        t.saw("recv", sys::recv(server, 9, 0));
        sys::waitpid(pid, 0);
    }),
    case("poll/woken-by-room", |t| {
        let (client, server) = t.pair();
        fill(client);
        let pid = sys::fork(|| {
            pause(20);
            while !sys::recv(server, 1 << 20, MSG_DONTWAIT).data.is_empty() {}
            0
        });
        t.polled(sys::poll(&[(client, POLLOUT)], SOON));
        sys::waitpid(pid, 0);
    }),
    case("poll/POLLNVAL", |t| {
        let fd = t.tcp();
        sys::close(fd);
        t.polled(sys::poll(&[(fd, POLLIN)], 0));
        t.polled(sys::poll(&[(-1, POLLIN), (9999, POLLIN)], 0));
    }),
    case("poll/nothing-to-wait-for", |t| {
        t.polled(sys::poll(&[], 10));
        t.polled(sys::poll(&[(-1, POLLIN)], 10));
    }),
    case("poll/the-same-twice", |t| {
        let server = with_text(t, b"abc");
        t.polled(sys::poll(&[(server, POLLIN), (server, POLLOUT)], 0));
    }),
    case("poll/sockets-and-pipes", |t| {
        let server = with_text(t, b"abc");
        let [from, to] = sys::pipe();
        let (udp, _) = t.udp_bound();
        let all = [
            (server, POLLIN),
            (from, POLLIN),
            (to, POLLOUT),
            (udp, POLLOUT),
        ];
        t.polled(sys::poll(&all, 0));
        sys::write(to, b"x");
        t.polled(sys::poll(&all, 0));
    }),
    case("poll/many", |t| {
        let (listener, address) = t.listener_with(64);
        let pairs: Vec<(i32, i32)> = (0..40).map(|_| t.pair_at(listener, address)).collect();
        let all: Vec<(i32, i16)> = pairs.iter().map(|pair| (pair.1, POLLIN)).collect();
        t.saw("none", sys::poll(&all, 0).0);
        for pair in pairs.iter().step_by(4) {
            sys::send(pair.0, b"x", 0);
            ready(pair.1, POLLIN);
        }
        t.saw("some", sys::poll(&all, 0).0);
    }),
    case("poll/EFAULT", |t| t.saw("poll", sys::poll_bad())),
    case("poll/urgent", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"!", libc::MSG_OOB);
        t.polled(sys::poll(&[(server, POLLPRI)], SOON));
        t.polled(sys::poll(&[(server, ALL)], 0));
    }),
    case("poll/refused", |t| {
        let dead = t.dead();
        let fd = t.tcp_nonblocking();
        sys::connect(fd, dead);
        ready(fd, POLLHUP);
        t.polled(sys::poll(&[(fd, ALL)], 0));
        sys::get_int(fd, libc::SOL_SOCKET, libc::SO_ERROR);
        t.polled(sys::poll(&[(fd, ALL)], 0));
    }),
    case("poll/SO_RCVLOWAT", |t| {
        let (client, server) = t.pair();
        t.saw(
            "set",
            sys::set_int(server, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 5),
        );
        sys::send(client, b"abc", 0);
        crate::talk::queued(server, 3);
        t.polled(sys::poll(&[(server, POLLIN)], 0));
        sys::send(client, b"de", 0);
        t.polled(sys::poll(&[(server, POLLIN)], SOON));
    }),
    case("ppoll/timeouts", |t| {
        let (_client, server) = t.pair();
        t.polled(sys::ppoll(&[(server, POLLIN)], Some(0), None));
        t.polled(sys::ppoll(&[(server, POLLIN)], Some(10), None));
        t.polled(sys::ppoll(&[(server, POLLIN)], Some(-1000), None));
        t.polled(sys::ppoll(&[(server, POLLOUT)], None, None));
    }),
    case("ppoll/EINTR-through-the-mask", |t| {
        let (_client, server) = t.pair();
        sys::handle(SIGALRM, 0);
        sys::block_signals(&[SIGALRM]);
        sys::alarm_in(10);
        t.polled(sys::ppoll(
            &[(server, POLLIN)],
            Some(SOON.into()),
            Some(&[]),
        ));
        t.say(sys::signals_handled());
    }),
    case("ppoll/mask-keeps-the-signal-away", |t| {
        let (_client, server) = t.pair();
        sys::handle(SIGALRM, 0);
        sys::alarm_in(10);
        t.polled(sys::ppoll(&[(server, POLLIN)], Some(50), Some(&[SIGALRM])));
        t.say(sys::signals_handled());
    }),
    case("poll/EINTR-even-with-SA_RESTART", |t| {
        let (_client, server) = t.pair();
        sys::handle(SIGALRM, libc::SA_RESTART);
        sys::alarm_in(10);
        t.polled(sys::poll(&[(server, POLLIN)], SOON));
    }),
    case("select/read-and-write", |t| {
        let server = with_text(t, b"abc");
        let (quiet, _other) = t.pair();
        selected(t, &sys::select(&Sets::read(&[server, quiet]), Some(0)));
        selected(t, &sys::select(&Sets::write(&[server, quiet]), Some(0)));
        selected(t, &sys::select(&Sets::except(&[server, quiet]), Some(0)));
    }),
    case("select/timeout", |t| {
        let (_client, server) = t.pair();
        selected(t, &sys::select(&Sets::read(&[server]), Some(10)));
    }),
    case("select/end-is-readable", |t| {
        let (client, server) = t.pair();
        sys::close(client);
        selected(t, &sys::select(&Sets::read(&[server]), Some(SOON.into())));
    }),
    case("select/urgent-is-exceptional", |t| {
        let (client, server) = t.pair();
        sys::send(client, b"!", libc::MSG_OOB);
        selected(t, &sys::select(&Sets::except(&[server]), Some(SOON.into())));
    }),
    case("select/listener", |t| {
        let (listener, address) = t.listener();
        selected(t, &sys::select(&Sets::read(&[listener]), Some(0)));
        t.connected(address);
        selected(t, &sys::select(&Sets::read(&[listener]), Some(SOON.into())));
    }),
    case("select/refused", |t| {
        let dead = t.dead();
        let fd = t.tcp_nonblocking();
        sys::connect(fd, dead);
        ready(fd, POLLHUP);
        let sets = Sets {
            read: vec![fd],
            write: vec![fd],
            except: vec![fd],
        };
        selected(t, &sys::select(&sets, Some(0)));
    }),
    case("select/woken-by-data", |t| {
        let (client, server) = t.pair();
        let pid = sys::fork(|| {
            pause(20);
            sys::send(client, b"wake", 0).fd()
        });
        selected(t, &sys::select(&Sets::read(&[server]), None));
        sys::waitpid(pid, 0);
    }),
    case("select/EBADF", |t| {
        let fd = t.tcp();
        sys::close(fd);
        t.saw("select", sys::select(&Sets::read(&[fd]), Some(0)).0);
    }),
    case("select/EINVAL", |t| {
        let (fd, _) = t.udp_bound();
        t.saw("count", sys::select_of(-1, &Sets::read(&[fd]), Some(0)).0);
        t.saw("time", sys::select(&Sets::read(&[fd]), Some(-1000)).0);
    }),
    case("select/EFAULT", |t| {
        let fd = t.tcp();
        t.saw("select", sys::select_bad(fd));
    }),
    case("pselect/data", |t| {
        let server = with_text(t, b"abc");
        selected(t, &sys::pselect(&Sets::read(&[server]), 0, None));
    }),
    case("pselect/EINTR-through-the-mask", |t| {
        let (_client, server) = t.pair();
        sys::handle(SIGALRM, libc::SA_RESTART);
        sys::block_signals(&[SIGALRM]);
        sys::alarm_in(10);
        let sets = Sets::read(&[server]);
        t.saw("pselect", sys::pselect(&sets, SOON.into(), Some(&[])).0);
        t.say(sys::signals_handled());
    }),
    case("poll/udp", |t| {
        let (a, b) = t.udps_connected();
        t.polled(sys::poll(&[(a, ALL), (b, ALL)], 0));
        sys::send(a, b"", 0);
        t.polled(sys::poll(&[(b, POLLIN)], SOON));
        t.saw("recv", sys::recv(b, 9, 0));
        t.polled(sys::poll(&[(b, POLLIN)], 0));
    }),
];

/// Adds what `select` gave: how many of each set are left.
fn selected(t: &Talk, (ret, sets): &(Ret, Sets)) {
    let left = if matches!(ret, Ret::Errno(_)) {
        String::new()
    } else {
        format!(
            " {} {} {}",
            sets.read.len(),
            sets.write.len(),
            sets.except.len()
        )
    };
    t.say(format!("select {ret}{left}"));
}
