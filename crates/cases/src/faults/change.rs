//! Fork, exec, dup2, descriptors that run out.

use super::transfer::{MIDDLE, Reader, sender, text};
use crate::stage;
use crate::sys;
use crate::table::{Case, case, send_all, use_up};
use crate::talk::{pause, ready, take};
use libc::POLLIN;

pub(super) const CASES: &[Case] = &[
    case("faults/fork-in-the-middle-child-goes-on", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            sys::close(ours);
            let text = text();
            let (first, second) = text.split_at(MIDDLE);
            if !send_all(theirs, first) {
                return 1;
            }
            // The parent ends while its child sends.
            sys::fork(|| {
                pause(30);
                i32::from(!send_all(theirs, second))
            });
            0
        });
        sys::close(theirs);
        let mut reader = Reader::default();
        t.say(reader.until(ours, MIDDLE));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.say(reader.drain(ours));
        t.say(reader.verdict());
    }),
    case("faults/fork-in-the-middle-parent-goes-on", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            sys::close(ours);
            let text = text();
            for part in text.chunks(MIDDLE) {
                let child = sys::fork(|| 0);
                if !send_all(theirs, part) {
                    return 1;
                }
                sys::waitpid(child, 0);
            }
            0
        });
        sys::close(theirs);
        let mut reader = Reader::default();
        t.say(reader.drain(ours));
        t.say(reader.verdict());
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("faults/fork-in-the-middle-of-receiving", |t| {
        let (fd, pid) = sender(t);
        let mut reader = Reader::default();
        t.say(reader.until(fd, MIDDLE));
        let child = sys::fork(|| {
            t.say(reader.drain(fd));
            t.say(reader.verdict());
            0
        });
        t.say(format!("{:?}", sys::waitpid(child, 0)));
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
        t.saw("recv", sys::recv(fd, 9, 0));
    }),
    case("faults/exec-in-the-middle", |t| {
        let (ours, theirs) = t.pair();
        let pid = sys::fork(|| {
            sys::close(ours);
            let text = text();
            send_all(theirs, text.get(..text.len() / 2).unwrap_or_default());
            stage::enter("pour", &[theirs])
        });
        sys::close(theirs);
        let mut reader = Reader::default();
        t.say(reader.drain(ours));
        t.say(reader.verdict());
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("faults/exec-in-the-middle-with-close-on-exec", |t| {
        let (ours, theirs) = t.pair();
        sys::fcntl(theirs, libc::F_SETFD, libc::FD_CLOEXEC);
        let pid = sys::fork(|| {
            send_all(theirs, text().get(..MIDDLE).unwrap_or_default());
            stage::enter("sleep", &[])
        });
        sys::close(theirs);
        let mut reader = Reader::default();
        t.say(reader.drain(ours));
        t.say(reader.verdict());
        sys::kill(pid, libc::SIGKILL);
    }),
    case("faults/dup2-over-the-connection-in-the-middle", |t| {
        let ((a, b), (c, d)) = (t.pair(), t.pair());
        let pid = sys::fork(|| {
            sys::close(b);
            sys::close(d);
            let text = text();
            send_all(a, text.get(..MIDDLE).unwrap_or_default());
            sys::dup2(c, a);
            sys::close(c);
            i32::from(!send_all(a, &text))
        });
        sys::close(a);
        sys::close(c);
        for fd in [b, d] {
            let mut reader = Reader::default();
            t.say(reader.drain(fd));
            t.say(reader.verdict());
        }
        t.say(format!("{:?}", sys::waitpid(pid, 0)));
    }),
    case("faults/children-come-and-go", |t| {
        let (client, server) = t.pair();
        for round in 0..20_u8 {
            let pid = sys::fork(|| {
                let got = sys::recv(server, 1, 0);
                i32::from(got.data != [round])
            });
            sys::send(client, &[round], 0);
            if sys::waitpid(pid, 0) != sys::End::Exit(0) {
                t.say(format!("round {round}"));
            }
        }
        sys::send(client, b"end", 0);
        t.saw("recv", take(server, 9));
    }),
    case("faults/descriptors-run-out-and-come-back", |t| {
        let (listener, address) = t.listener();
        let (client, server) = t.pair_at(listener, address);
        let waiting = t.connected(address);
        ready(listener, POLLIN);
        sys::limit_descriptors(40);
        t.say(use_up() > 0);
        t.saw("accept", sys::accept(listener));
        t.saw("socket", sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0));
        sys::send(client, b"meanwhile", 0);
        t.saw("recv", take(server, 9));
        for fd in waiting + 1..40 {
            sys::close(fd);
        }
        let late = t.made("accept", sys::accept(listener));
        sys::send(waiting, b"late", 0);
        t.saw("recv", take(late, 9));
        let (a, b) = t.pair_at(listener, address);
        sys::send(a, b"new", 0);
        t.saw("recv", take(b, 9));
    }),
    case("faults/many-connections-come-and-go", |t| {
        let (listener, address) = t.listener();
        sys::limit_descriptors(64);
        let mut right = 0;
        for round in 0..300_u32 {
            let (client, server) = t.pair_at(listener, address);
            sys::send(client, &round.to_ne_bytes(), 0);
            right += u32::from(take(server, 9).data == round.to_ne_bytes());
            sys::close(client);
            sys::close(server);
        }
        t.say(right);
    }),
];
