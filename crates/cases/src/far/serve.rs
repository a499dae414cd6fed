//! The helper: a process for each case, which makes the calls it is asked for.

use super::{Answer, Ask};
use crate::sys::{self, Addr, Ret};
use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::ExitCode;

/// After this long a process of the helper's ends whatever it waits for: its case is over.
const LIMIT_MS: i64 = 15_000;

/// Serves under an abstract name until standard input ends.
pub(crate) fn serve(name: &str) -> ExitCode {
    let listener = SocketAddr::from_abstract_name(name).and_then(|at| UnixListener::bind_addr(&at));
    let Ok(listener) = listener else {
        eprintln!("gannet-cases: `{name}` is taken, or is no name");
        return ExitCode::from(2);
    };
    sys::ignore_signal(libc::SIGCHLD);
    std::thread::spawn(|| {
        while !sys::read(0, 1).data.is_empty() {}
        sys::exit(0)
    });
    for case in listener.incoming().flatten() {
        sys::fork(|| {
            sys::no_core_files();
            sys::default_signal(libc::SIGCHLD);
            sys::ignore_signal(libc::SIGPIPE);
            sys::alarm_in(LIMIT_MS);
            attend(&case);
            0
        });
    }
    ExitCode::SUCCESS
}

fn attend(case: &UnixStream) {
    let mut answers = case;
    for line in BufReader::new(case).lines().map_while(Result::ok) {
        let Ok(ask) = serde_json::from_str::<Ask>(&line) else {
            return;
        };
        let Ok(mut text) = serde_json::to_vec(&answer(ask)) else {
            return;
        };
        text.push(b'\n');
        if answers.write_all(&text).is_err() {
            return;
        }
    }
}

fn answer(ask: Ask) -> Answer {
    match ask {
        Ask::Pid => Answer::new(Ret::Value(sys::own_pid().into())),
        Ask::Fork => Answer::new(Ret::Value(sys::fork(nap).into())),
        Ask::Become(role, fd) => {
            crate::stage::enter(&role, &[fd]);
            sys::exit(97)
        }
        Ask::Exit => sys::exit(0),
        Ask::HandOver(fd) => Answer::new(Ret::Value(hand_over(fd).into())),
        Ask::Send(fd, data, flags) => Answer::new(sys::send(fd, &data, flags)),
        Ask::Sendmsg(fd, data, flags) => {
            Answer::new(sys::sendmsg(fd, &pieces(&data), None, &[], flags))
        }
        Ask::Write(fd, data) => Answer::new(sys::write(fd, &data)),
        Ask::Writev(fd, data) => Answer::new(sys::writev(fd, &pieces(&data))),
        Ask::Recv(fd, len, flags) => got(sys::recv(fd, len, flags)),
        Ask::Read(fd, len) => got(sys::read(fd, len)),
        Ask::Readv(fd, lens) => got(sys::readv(fd, &lens)),
        Ask::Poll(fds, ms) => {
            let (ret, revents) = sys::poll(&fds, ms);
            let answer = Answer::new(ret);
            revents.into_iter().fold(answer, Answer::number)
        }
        other => control(other),
    }
}

fn control(ask: Ask) -> Answer {
    let named = |(ret, name): (Ret, Addr)| Answer::new(ret).with(name.whole()).number(name.len);
    match ask {
        Ask::Socket(domain, kind, protocol) => Answer::new(sys::socket(domain, kind, protocol)),
        Ask::Bind(fd, to) => Answer::new(sys::bind(fd, Addr::of(&to))),
        Ask::Listen(fd, backlog) => Answer::new(sys::listen(fd, backlog)),
        Ask::Accept(fd, room) => named(sys::accept_from(fd, room)),
        Ask::Accept4(fd, flags) => Answer::new(sys::accept4(fd, flags)),
        Ask::Connect(fd, to) => Answer::new(sys::connect(fd, Addr::of(&to))),
        Ask::Getsockname(fd, room) => named(sys::getsockname_in(fd, room)),
        Ask::Getpeername(fd, room) => named(sys::getpeername_in(fd, room)),
        Ask::Shutdown(fd, how) => Answer::new(sys::shutdown(fd, how)),
        Ask::Close(fd) => Answer::new(sys::close(fd)),
        Ask::Dup(fd) => Answer::new(sys::dup(fd)),
        Ask::Fcntl(fd, command, argument) => Answer::new(sys::fcntl(fd, command, argument)),
        Ask::Ioctl(fd, request, argument) => {
            let (ret, number) = sys::ioctl(fd, request, argument);
            Answer::new(ret).number(number)
        }
        Ask::Setsockopt(fd, level, name, value) => {
            Answer::new(sys::setsockopt(fd, level, name, &value))
        }
        Ask::Getsockopt(fd, level, name, len) => {
            let value = sys::getsockopt(fd, level, name, len);
            let answer = Answer::new(value.ret).number(value.len);
            answer.with(value.bytes)
        }
        _ => Answer::new(Ret::Errno(libc::ENOSYS)),
    }
}

fn pieces(data: &[Vec<u8>]) -> Vec<&[u8]> {
    data.iter().map(Vec::as_slice).collect()
}

fn got(got: sys::Got) -> Answer {
    Answer::new(got.ret).with(got.data)
}

/// Does nothing until it is killed, or the case is over.
fn nap() -> i32 {
    crate::talk::pause(LIMIT_MS.unsigned_abs());
    0
}

/// Passes a descriptor to a child, which echoes what comes first; the child's process.
fn hand_over(fd: i32) -> i32 {
    let (_, [ours, theirs]) = sys::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0);
    let child = sys::fork(|| {
        sys::close(ours);
        sys::close(fd);
        let message = sys::recvmsg(theirs, &[1], 0, 8);
        let passed = message.descriptors.first().copied().unwrap_or(-1);
        crate::stage::echo(passed);
        0
    });
    sys::close(theirs);
    sys::sendmsg(ours, &[b"x"], None, &[fd], 0);
    sys::close(ours);
    sys::close(fd);
    child
}
