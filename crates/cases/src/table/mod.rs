//! The cases, a file for each group of manual pages.
//!
//! * `case.rs`: what a case is
//! * `socket.rs`: socket, socketpair
//! * `bind.rs`: bind, listen, getsockname
//! * `accept.rs`: accept, accept4, getpeername
//! * `connect.rs`: connect
//! * `send.rs`: send, sendto, sendmsg, sendmmsg
//! * `recv.rs`: recv, recvfrom, recvmsg, recvmmsg
//! * `file.rs`: read, write and their families, close, close_range, shutdown
//! * `descriptor.rs`: dup, fcntl, ioctl
//! * `poll.rs`: poll, ppoll, select, pselect
//! * `epoll.rs`: epoll
//! * `option.rs`: options of all sockets
//! * `option_tcp.rs`: options of TCP, IP and UDP
//! * `option_stream.rs`: options of connections, and what they add to messages
//! * `sendfile.rs`: sendfile, splice
//! * `stdio.rs`: fdopen, dprintf, syscall
//! * `ending.rs`: resets, broken pipes, time-outs, interrupted calls
//! * `udp.rs`: datagrams
//! * `ipv6.rs`: IPv6 and IPv4-mapped addresses
//! * `thread.rs`: several threads at one socket
//! * `waiting.rs`: several that wait at one socket at once
//! * `churn.rs`: the same again and again
//! * `process.rs`: several processes at one socket
//! * `forking.rs`: children made while other threads use epoll sets, children that are killed
//! * `inline.rs`: calls without a name of the C library's
//! * `signal.rs`: handlers that interrupt calls, threads that are cancelled
//! * `nowhere.rs`: addresses without memory, and faults of the program's own
//! * `two.rs`: what happens to the other of two programs

mod accept;
mod bind;
mod case;
mod churn;
mod connect;
mod descriptor;
mod ending;
mod epoll;
mod file;
mod forking;
mod inline;
mod ipv6;
mod nowhere;
mod option;
mod option_stream;
mod option_tcp;
mod poll;
mod process;
mod recv;
mod send;
mod sendfile;
mod sharing;
mod signal;
mod socket;
mod stdio;
mod thread;
mod two;
mod udp;
mod waiting;

pub(crate) use case::{Case, all, case};
pub(crate) use process::use_up;
pub(crate) use recv::send_all;
pub(crate) use sharing::spread;

const PAGES: &[&[Case]] = &[
    socket::CASES,
    bind::CASES,
    accept::CASES,
    connect::CASES,
    send::CASES,
    recv::CASES,
    file::CASES,
    descriptor::CASES,
    poll::CASES,
    epoll::CASES,
    option::CASES,
    option_tcp::CASES,
    option_stream::CASES,
    sendfile::CASES,
    stdio::CASES,
    inline::CASES,
    ending::CASES,
    udp::CASES,
    ipv6::CASES,
    thread::CASES,
    waiting::CASES,
    process::CASES,
    churn::CASES,
    sharing::CASES,
    forking::CASES,
    signal::CASES,
    nowhere::CASES,
];
