//! Errors of calls: the kernel's numbers, as the stack gives them in the same places.

use std::borrow::Cow;

use super::entry::{Entry, Kind};

/// Name, number; meaning, usual causes, what to try.
type Row = (&'static str, i32, [&'static str; 3]);

pub(super) fn entries() -> Vec<Entry> {
    let rows = ADDRESSES
        .iter()
        .chain(CONNECTIONS)
        .chain(CALLS)
        .chain(LIMITS);
    rows.map(|&(code, number, [meaning, causes, hint])| Entry {
        code: Cow::Borrowed(code),
        kind: Kind::Errno,
        number: Some(number),
        meaning: Cow::Borrowed(meaning),
        causes,
        hint,
    })
    .collect()
}

/// Where to.
#[rustfmt::skip]
const ADDRESSES: &[Row] = &[
    ("EADDRINUSE", libc::EADDRINUSE, [
        "another socket, or another process of the network, has this address and port",
        "the program runs already; a connection of it is in TIME-WAIT; two hosts chose one address",
        "gannet ss shows who has it; SO_REUSEADDR before bind; another --addr"]),
    ("EADDRNOTAVAIL", libc::EADDRNOTAVAIL, [
        "the local address is none of ours, or no port is free for this destination",
        "bind to an address of another machine; tens of thousands of connections to one port",
        "bind to 0.0.0.0; more addresses, or connections that live longer"]),
    ("EAFNOSUPPORT", libc::EAFNOSUPPORT, [
        "the address is of another family than the socket",
        "an IPv4 address for an IPv6 socket with IPV6_V6ONLY, or the reverse",
        "a socket of the address's family"]),
    ("EDESTADDRREQ", libc::EDESTADDRREQ, [
        "a datagram without a destination on a socket that is not connected",
        "send() or write() in the place of sendto()",
        "connect() first, or sendto()"]),
    ("EHOSTUNREACH", libc::EHOSTUNREACH, [
        "the network is there and the host is not: no process or neighbour answers",
        "the peer has not started, is in another --net, or is down; a router said so by ICMP",
        "gannet ss on the other side; the same --net; the address"]),
    ("ENETUNREACH", libc::ENETUNREACH, [
        "no link and no route leads there",
        "an address outside our prefixes, without a gateway; a router said so by ICMP",
        "--addr with a prefix that covers the destination (10.0.0.1/16)"]),
    ("ENETDOWN", libc::ENETDOWN, [
        "the interface was switched off",
        "ip link set IF down, a cable, a namespace that went away",
        "ip link set IF up"]),
    ("ENODEV", libc::ENODEV, [
        "there is no such interface",
        "another name, another network namespace",
        "ip link"]),
];

/// What happened to a connection.
#[rustfmt::skip]
const CONNECTIONS: &[Row] = &[
    ("ECONNREFUSED", libc::ECONNREFUSED, [
        "the host is there and nobody listens on that port",
        "the server has not started, listens elsewhere, or only on the kernel's side",
        "gannet ss -l; gannet run -v on the server, which says what was carried"]),
    ("ECONNRESET", libc::ECONNRESET, [
        "the connection was broken off: reset by the peer, or the peer's process has died",
        "a killed or crashed peer; close() with unread data; SO_LINGER of 0; an interface removed",
        "the peer's messages and exit status"]),
    ("ECONNABORTED", libc::ECONNABORTED, [
        "this side broke the connection off",
        "the peer gave up before accept(); too many connections that nobody holds",
        "accept() again"]),
    ("EPIPE", libc::EPIPE, [
        "writing after the end: this side has shut down, or the peer is gone (with SIGPIPE)",
        "a peer that hung up in the middle of an answer",
        "ignore SIGPIPE, or MSG_NOSIGNAL, and treat it as the end of the connection"]),
    ("ETIMEDOUT", libc::ETIMEDOUT, [
        "the peer did not answer for too long: SYNs, data or keep-alive probes",
        "a host that is down, a firewall that drops, a path that lost everything",
        "ping; gannet config show tcp.syn_retries tcp.data_retries"]),
    ("ENOTCONN", libc::ENOTCONN, [
        "the socket is not connected, or no longer",
        "sending before connect(), getpeername() after the peer's reset",
        "connect(), or look at SO_ERROR for why it ended"]),
    ("EISCONN", libc::EISCONN, [
        "the socket is connected already",
        "connect() twice; sendto() with a destination on a connected stream",
        "another socket"]),
    ("EINPROGRESS", libc::EINPROGRESS, [
        "a non-blocking connect() has begun",
        "always, where connect() does not wait",
        "wait until it can be written to, then read SO_ERROR"]),
    ("EALREADY", libc::EALREADY, [
        "a non-blocking connect() is still under way",
        "connect() again before it ended",
        "wait until it can be written to"]),
];

/// How something was called.
#[rustfmt::skip]
const CALLS: &[Row] = &[
    ("EAGAIN", libc::EAGAIN, [
        "not now: nothing to read, no room to write, or a time-out of the socket is over",
        "always, on non-blocking sockets; SO_RCVTIMEO and SO_SNDTIMEO",
        "wait with poll or epoll; with edge-triggered epoll read until this comes"]),
    ("EINTR", libc::EINTR, [
        "a signal handler ran while the call waited",
        "timers, children that end; SO_RCVTIMEO forbids SA_RESTART",
        "call again"]),
    ("EBADF", libc::EBADF, [
        "no such descriptor",
        "closed in another thread; close() twice",
        "whoever closed it: strace -f -e close"]),
    ("EFAULT", libc::EFAULT, [
        "an address outside the process's memory",
        "a wrong pointer or length",
        "a debugger; valgrind"]),
    ("EINVAL", libc::EINVAL, [
        "a value that the call does not take",
        "lengths of addresses, listen() on a connected socket, options out of range, a name that \
         cannot be one",
        "the call's manual page; the message has the value"]),
    ("EMSGSIZE", libc::EMSGSIZE, [
        "the datagram is longer than one can be, or than the path takes unfragmented",
        "more than 65,507 bytes; IP_MTU_DISCOVER forbids fragments",
        "smaller datagrams"]),
    ("ENOPROTOOPT", libc::ENOPROTOOPT, [
        "no such option on this kind of socket",
        "an option of TCP on UDP; one that only the kernel has",
        "gannet run -v, which names the option"]),
    ("ENOTSOCK", libc::ENOTSOCK, [
        "the descriptor is no socket",
        "a number that was a socket and became a file",
        "strace -f"]),
    ("EOPNOTSUPP", libc::EOPNOTSUPP, [
        "this kind of socket cannot do that",
        "listen() on UDP, MSG_OOB on UDP",
        "the call's manual page"]),
    ("EPROTONOSUPPORT", libc::EPROTONOSUPPORT, [
        "no such protocol for this kind of socket",
        "IPPROTO_UDP with SOCK_STREAM",
        "protocol 0"]),
];

/// What ran out, or is not allowed.
#[rustfmt::skip]
const LIMITS: &[Row] = &[
    ("EACCES", libc::EACCES, [
        "not allowed",
        "broadcast without SO_BROADCAST; a network directory of another user; a port below 1024 \
         on the kernel's side",
        "SO_BROADCAST; the same user on both sides"]),
    ("EPERM", libc::EPERM, [
        "the process lacks a privilege",
        "packet links need CAP_NET_RAW, tap links CAP_NET_ADMIN; SO_MARK",
        "sudo setcap cap_net_raw,cap_net_admin+ep on the gannet command, or sudo"]),
    ("EMFILE", libc::EMFILE, [
        "the process has as many descriptors as it may",
        "every socket is a descriptor here, too",
        "ulimit -n 65536"]),
    ("ENFILE", libc::ENFILE, [
        "the machine has as many open files as it may",
        "many processes with many sockets",
        "sysctl fs.file-max"]),
    ("ENOBUFS", libc::ENOBUFS, [
        "no room: the link's queue, or the number of connections or streams",
        "datagrams faster than the link; --set streams too small",
        "gannet config show streams; slower senders"]),
    ("ENOMEM", libc::ENOMEM, [
        "no memory",
        "a limit of the control group or RLIMIT_MEMLOCK; shared memory is full",
        "df /dev/shm; ulimit -l; --set stream.buffer=64K"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_belong_together() {
        for entry in entries() {
            let error = std::io::Error::from_raw_os_error(entry.number.unwrap());
            assert!(entry.code.starts_with('E'), "{}: {error}", entry.code);
        }
        let all = entries();
        let numbers: std::collections::BTreeSet<_> = all.iter().map(|e| e.number).collect();
        assert_eq!(numbers.len(), all.len(), "each number once");
    }
}
