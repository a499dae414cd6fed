//! Threads: what one does to a socket at which another waits.

use super::case::{Case, case};
use super::send::fill;
use crate::sys::{self, Ret};
use crate::talk::{SOON, Talk, pause, ready};
use libc::{MSG_NOSIGNAL, POLLIN, SHUT_RD, SHUT_RDWR, SHUT_WR};
use std::thread;

pub(super) const CASES: &[Case] = &[
    case("thread/shutdown-wakes-recv", |t| {
        let (client, _server) = t.pair();
        woken(
            t,
            move || sys::recv(client, 9, 0).ret,
            move || sys::shutdown(client, SHUT_RD),
        );
    }),
    case("thread/shutdown-both-wakes-recv", |t| {
        let (client, _server) = t.pair();
        woken(
            t,
            move || sys::recv(client, 9, 0).ret,
            move || sys::shutdown(client, SHUT_RDWR),
        );
    }),
    case("thread/shutdown-wakes-accept", |t| {
        let (listener, _) = t.listener();
        woken(
            t,
            move || sys::accept(listener),
            move || sys::shutdown(listener, SHUT_RDWR),
        );
    }),
    case("thread/shutdown-wakes-a-full-send", |t| {
        let (client, _server) = t.pair();
        fill(client);
        woken(
            t,
            move || sys::send(client, b"x", MSG_NOSIGNAL),
            move || sys::shutdown(client, SHUT_WR),
        );
    }),
    case("thread/shutdown-wakes-poll", |t| {
        let (client, _server) = t.pair();
        woken(
            t,
            move || sys::poll(&[(client, POLLIN)], SOON).0,
            move || sys::shutdown(client, SHUT_RD),
        );
    }),
    case("thread/shutdown-wakes-udp-recv", |t| {
        let (a, _b) = t.udps_connected();
        woken(
            t,
            move || sys::recv(a, 9, 0).ret,
            move || sys::shutdown(a, SHUT_RD),
        );
    }),
    case("thread/close-does-not-wake-recv", |t| {
        // The call keeps the socket: data still comes, though the descriptor is closed.
        let (client, server) = t.pair();
        let reader = thread::spawn(move || sys::recv(client, 9, 0));
        pause(30);
        t.saw("close", sys::close(client));
        pause(30);
        t.say(format!("still waiting {}", !reader.is_finished()));
        t.saw("send", sys::send(server, b"late", MSG_NOSIGNAL));
        t.saw(
            "recv",
            reader
                .join()
                .map_or_else(|_| "?".to_owned(), |got| got.to_string()),
        );
    }),
    case("thread/close-does-not-end-poll", |t| {
        let (client, server) = t.pair();
        let waiter = thread::spawn(move || sys::poll(&[(client, POLLIN)], SOON).0);
        pause(30);
        t.saw("close", sys::close(client));
        pause(30);
        t.saw("send", sys::send(server, b"late", MSG_NOSIGNAL));
        t.saw("poll", waiter.join().unwrap_or(Ret::Value(-9)));
    }),
    case("thread/send-and-recv-at-once", |t| {
        let (client, server) = t.pair();
        let text = vec![9_u8; 400_000];
        let both = [client, server].map(|fd| {
            let text = text.clone();
            let writer = thread::spawn(move || super::recv::send_all(fd, &text));
            let reader = thread::spawn(move || sys::recv(fd, 400_000, libc::MSG_WAITALL));
            (writer, reader)
        });
        for (writer, reader) in both {
            let sent = writer.join().unwrap_or(false);
            let same = reader.join().is_ok_and(|got| got.data == text);
            t.say(format!("sent {sent} same {same}"));
        }
    }),
    case("thread/two-readers-share-the-bytes", |t| {
        let (client, server) = t.pair();
        let readers = [(), ()].map(|()| {
            thread::spawn(move || {
                let mut count = 0;
                loop {
                    let got = sys::recv(server, 1000, 0).data.len();
                    if got == 0 {
                        return count;
                    }
                    count += got;
                }
            })
        });
        super::recv::send_all(client, &[1; 100_000]);
        sys::shutdown(client, SHUT_WR);
        let total: usize = readers
            .map(|reader| reader.join().unwrap_or(0))
            .iter()
            .sum();
        t.say(total);
    }),
    case("thread/two-writers-lose-nothing", |t| {
        let (client, server) = t.pair();
        let writers = [3_u8, 5].map(|byte| {
            thread::spawn(move || (0..500).all(|_| super::recv::send_all(client, &[byte; 100])))
        });
        let got = sys::recv(server, 100_000, libc::MSG_WAITALL);
        let threes = got.data.iter().filter(|&&byte| byte == 3).count();
        t.say(format!("{} {threes}", got.data.len()));
        t.say(
            writers
                .map(|writer| writer.join().unwrap_or(false))
                .iter()
                .all(|&ok| ok),
        );
    }),
    case("thread/two-wait-in-accept", |t| {
        let (listener, address) = t.listener();
        let waiting = [(), ()].map(|()| thread::spawn(move || sys::accept(listener)));
        pause(20);
        let _clients = [t.connected(address), t.connected(address)];
        for thread in waiting {
            t.say(thread.join().map_or_else(|_| "?".to_owned(), Ret::made));
        }
    }),
    case("thread/recv-waits-for-the-other-thread", |t| {
        let (client, server) = t.pair();
        let writer = thread::spawn(move || {
            pause(30);
            sys::send(client, b"thread", 0)
        });
        t.saw("recv", sys::recv(server, 9, 0));
        t.saw("send", writer.join().unwrap_or(Ret::Value(-9)));
    }),
    case("thread/connect-in-one-accept-in-another", |t| {
        let (listener, address) = t.listener();
        let server = thread::spawn(move || {
            let fd = sys::accept(listener).fd();
            let got = sys::recv(fd, 3, libc::MSG_WAITALL);
            sys::send(fd, &got.data, 0);
            sys::close(fd)
        });
        let client = t.connected(address);
        sys::send(client, b"rtt", 0);
        t.saw("recv", sys::recv(client, 3, libc::MSG_WAITALL));
        t.saw("recv", sys::recv(client, 3, 0));
        t.saw("close", server.join().unwrap_or(Ret::Value(-9)));
    }),
    case("thread/close-while-the-peer-waits", |t| {
        let (client, server) = t.pair();
        woken(
            t,
            move || sys::recv(server, 9, 0).ret,
            move || sys::close(client),
        );
    }),
    case("thread/dup2-while-the-peer-waits", |t| {
        let (client, server) = t.pair();
        let [from, _] = sys::pipe();
        woken(
            t,
            move || sys::recv(server, 9, 0).ret,
            move || {
                sys::dup2(from, client);
                Ret::Value(0)
            },
        );
    }),
    case("thread/errno-is-each-threads-own", |t| {
        let (client, _server) = t.pair();
        let other = thread::spawn(|| sys::recv(-1, 1, 0));
        t.saw("mine", sys::recv(client, 1, libc::MSG_DONTWAIT));
        t.saw(
            "other",
            other
                .join()
                .map_or_else(|_| "?".to_owned(), |got| got.to_string()),
        );
        t.say(ready(client, libc::POLLOUT));
    }),
];

/// One thread waits in a call; what another does lets it go on.
fn woken(
    t: &Talk,
    wait: impl FnOnce() -> Ret + Send + 'static,
    act: impl FnOnce() -> Ret + Send + 'static,
) {
    let other = thread::spawn(wait);
    pause(30);
    t.saw("act", act());
    t.saw("waiting", other.join().unwrap_or(Ret::Value(-9)));
}
