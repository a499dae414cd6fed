//! The same again and again: what is used has to be given back.

use super::case::{Case, case};
use crate::sys::{self, Addr, Ret};
use crate::talk::{Talk, pause, take};
use libc::{MSG_NOSIGNAL, SHUT_WR};

/// Connections of a case: many times more than a program may have streams at once in the test that
/// runs these cases with few.
const CONNECTIONS: usize = 2000;
/// Daemons that are started.
const DAEMONS: usize = 12;
/// Listeners that are given to a program that a child becomes.
const HANDED: u64 = 60;

pub(super) const CASES: &[Case] = &[
    case("churn/client-closes-first", |t| {
        churn(t, true, |fd| {
            sys::send(fd, b"x", MSG_NOSIGNAL);
            let got = sys::recv(fd, 1, 0).data == b"y";
            sys::close(fd);
            got
        });
    }),
    case("churn/server-closes-first", |t| {
        churn(t, false, |fd| {
            sys::send(fd, b"x", MSG_NOSIGNAL);
            let got = sys::recv(fd, 9, 0).data == b"y";
            let end = sys::recv(fd, 9, 0).data.is_empty();
            sys::close(fd);
            got && end
        });
    }),
    case("churn/half-closed-first", |t| {
        churn(t, false, |fd| {
            sys::send(fd, b"x", MSG_NOSIGNAL);
            sys::shutdown(fd, SHUT_WR);
            let got = sys::recv(fd, 9, 0).data == b"y";
            sys::close(fd);
            got
        });
    }),
    case("churn/broken-off", |t| {
        churn(t, false, |fd| {
            sys::set_linger(fd, true, 0);
            sys::send(fd, b"x", MSG_NOSIGNAL);
            let got = sys::recv(fd, 1, 0).data == b"y";
            sys::close(fd);
            got
        });
    }),
    case("churn/refused", |t| {
        let dead = t.dead();
        let refused = (0..CONNECTIONS).filter(|_| {
            let fd = t.tcp();
            let ret = sys::connect(fd, dead);
            sys::close(fd);
            ret.is_errno(libc::ECONNREFUSED)
        });
        t.say(refused.count());
    }),
    case("churn/listeners", |t| {
        let made = (0..CONNECTIONS / 4).filter(|_| {
            let (fd, _) = t.listener();
            sys::close(fd) == Ret::Value(0)
        });
        t.say(made.count());
    }),
    case("churn/daemons-that-inherit-a-connection", |t| {
        // Their parent, who made them, is gone at once: so a daemon starts.
        let (listener, address) = t.listener();
        let heard = (0..DAEMONS).filter(|_| {
            let (client, server) = t.pair_at(listener, address);
            // One end is given to a child.
            crate::far::here(client);
            crate::far::here(server);
            daemon(|| {
                pause(10);
                sys::send(client, b"daemon", MSG_NOSIGNAL);
            });
            sys::close(client);
            let text = take(server, 99).data == b"daemon";
            let end = take(server, 99).ret == Ret::Value(0);
            sys::close(server);
            text && end
        });
        t.say(heard.count());
    }),
    case("churn/listeners-handed-over", |t| {
        // Closed at some time while the child becomes another program.
        let heard = (0..HANDED).filter(|n| {
            let (listener, address) = t.listener();
            // It is given to a child.
            crate::far::here(listener);
            let pid = sys::fork(|| crate::stage::enter("serve", &[listener]));
            std::thread::sleep(std::time::Duration::from_micros(n * 50));
            sys::close(listener);
            let fd = connected(address);
            let heard = !take(fd, 9).data.is_empty();
            sys::close(fd);
            if !heard {
                sys::kill(pid, libc::SIGKILL);
            }
            sys::waitpid(pid, 0);
            heard
        });
        t.say(heard.count());
    }),
    case("churn/daemons-that-connect", |t| {
        let (listener, address) = t.listener();
        let heard = (0..DAEMONS).filter(|_| {
            daemon(|| {
                let fd = connected(address);
                sys::send(fd, b"daemon", MSG_NOSIGNAL);
            });
            let server = sys::accept(listener).fd();
            let text = take(server, 99).data == b"daemon";
            let end = take(server, 99).ret == Ret::Value(0);
            sys::close(server);
            text && end
        });
        t.say(heard.count());
    }),
];

fn connected(to: Addr) -> i32 {
    let fd = sys::socket(to.family(), libc::SOCK_STREAM, 0).fd();
    match sys::connect(fd, to) {
        Ret::Value(0) => fd,
        _ => -1,
    }
}

/// A process whose parent has exited.
fn daemon(work: impl FnOnce()) {
    let parent = sys::fork(|| {
        sys::fork(|| {
            work();
            0
        });
        0
    });
    sys::waitpid(parent, 0);
}

/// One process connects, does `with` what it connected and says how often that went well; the other
/// answers each byte with one and closes, `patient` after the end.
fn churn(t: &Talk, patient: bool, with: fn(i32) -> bool) {
    let (listener, address) = t.listener();
    let [from, to] = sys::pipe();
    let pid = sys::fork(|| {
        let good = (0..CONNECTIONS).filter(|_| with(connected(address)));
        let good = good.count();
        sys::write(to, format!("{good}").as_bytes());
        0
    });
    let served = (0..CONNECTIONS).filter(|_| {
        let fd = sys::accept(listener).fd();
        let got = sys::recv(fd, 1, 0).data == b"x";
        sys::send(fd, b"y", MSG_NOSIGNAL);
        let end = !patient || sys::recv(fd, 1, 0).data.is_empty();
        sys::close(fd);
        got && end
    });
    t.saw("served", served.count());
    t.saw("went well", sys::read(from, 9));
    sys::waitpid(pid, 0);
}
