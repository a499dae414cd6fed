//! What the program does when a case has executed it anew, with descriptors it was given.

use crate::sys::{self, Ret};
use crate::talk::take;
use std::process::ExitCode;

/// Becomes the program anew, in this role. Returns only when that failed.
pub(crate) fn enter(role: &str, fds: &[i32]) -> i32 {
    let mut words = vec!["--stage".to_owned(), role.to_owned()];
    words.extend(fds.iter().map(i32::to_string));
    sys::exec_self(&words);
    97
}

/// Plays a role.
pub(crate) fn play(words: &[String]) -> ExitCode {
    let fds: Vec<i32> = words
        .iter()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let first = fds.first().copied().unwrap_or(-1);
    let ok = match words.first().map_or("", String::as_str) {
        "echo" => echo(first),
        "serve" => serve(first),
        "receive-and-serve" => {
            let listener = receive(first);
            serve(listener) && serve(listener)
        }
        "receive-and-echo" => echo_datagram(receive(first)),
        "names" => names(&fds),
        "sleep" => {
            crate::talk::pause(4000);
            true
        }
        "pour" => pour(first),
        "spread" => spread(),
        _ => false,
    };
    ExitCode::from(u8::from(!ok))
}

/// Sends back what comes first.
pub(crate) fn echo(fd: i32) -> bool {
    let got = take(fd, 100);
    sys::send(fd, &got.data, 0).count() == got.data.len()
}

/// The descriptor that comes in a message.
fn receive(fd: i32) -> i32 {
    let message = sys::recvmsg(fd, &[1], 0, 8);
    message.descriptors.first().copied().unwrap_or(-1)
}

/// Sends one datagram back.
fn echo_datagram(fd: i32) -> bool {
    crate::talk::ready(fd, libc::POLLIN);
    let (got, from) = sys::recvfrom(fd, 100, 0);
    sys::sendto(fd, &got.data, 0, from).count() == got.data.len()
}

/// Accepts one connection and greets it.
fn serve(listener: i32) -> bool {
    let fd = sys::accept(listener).fd();
    sys::send(fd, b"served", 0) == Ret::Value(6)
}

/// Whether the two ends of a connection still have their names, and the first its option.
fn names(fds: &[i32]) -> bool {
    let [one, other] = fds else { return false };
    let (_, name) = sys::getsockname(*one);
    let (_, peer) = sys::getpeername(*other);
    let option = sys::get_int(*one, libc::IPPROTO_TCP, libc::TCP_NODELAY);
    name.port() != 0 && name.port() == peer.port() && option.int() == Some(1)
}

/// Says how connections are spread over the processes that accept them.
fn spread() -> bool {
    // Nobody else limits its time.
    sys::alarm_in(30_000);
    let listener = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).fd();
    sys::bind(listener, sys::Addr::v4(std::net::Ipv4Addr::LOCALHOST, 0));
    sys::listen(listener, 16);
    let (_, address) = sys::getsockname(listener);
    let exclusive = libc::EPOLLIN | libc::EPOLLEXCLUSIVE;
    let count = crate::table::spread(listener, address, exclusive, |_| ());
    let each: Vec<String> = count.iter().map(usize::to_string).collect();
    crate::show::line("spread", &each.join(" "));
    true
}

/// Sends the second half of the text of a fault scenario.
fn pour(fd: i32) -> bool {
    let text = crate::faults::text();
    let half = text.len() / 2;
    crate::table::send_all(fd, text.get(half..).unwrap_or_default())
}
