//! Why a socket was left to the kernel: what `gannet run -v` says at exit (`Reason` in
//! `local/src/log.rs`).

use std::borrow::Cow;

use super::entry::{Entry, Kind};

pub(super) fn entries() -> Vec<Entry> {
    let entry = |&(code, [meaning, causes, hint]): &(&'static str, [&'static str; 3])| Entry {
        code: Cow::Borrowed(code),
        kind: Kind::Socket,
        number: None,
        meaning: Cow::Borrowed(meaning),
        causes,
        hint,
    };
    SOCKETS.iter().map(entry).collect()
}

/// All codes.
#[cfg(test)]
pub(crate) fn codes() -> Vec<&'static str> {
    SOCKETS.iter().map(|(code, _)| *code).collect()
}

/// What a code means, in one line.
pub(crate) fn meaning(code: &str) -> Option<&'static str> {
    let found = SOCKETS.iter().find(|(known, _)| *known == code);
    found.map(|(_, [meaning, ..])| *meaning)
}

/// Meaning, usual causes, what to try.
#[rustfmt::skip]
const SOCKETS: &[(&str, [&str; 3])] = &[
    ("address-not-ours", [
        "the address is in none of Gannet's networks",
        "name servers, the Internet, another --net: these are the kernel's, as they ought to be",
        "--addr with a prefix that covers it, on a link that leads there"]),
    ("no-listener", [
        "a loopback address on which no program of this network listens",
        "the server runs without gannet run or in another --net; the kernel may still have it",
        "gannet run --net NAME for both, with the same NAME"]),
    ("listener-taken", [
        "another program of this network listens there already; this one only at the kernel",
        "two servers on one port, in two network namespaces or with SO_REUSEPORT on one side only",
        "another port, or another --net for one of them"]),
    ("kernel-peer", [
        "the other end of an accepted connection is a socket of the kernel's",
        "a client without gannet run or in another --net, by loopback or an interface",
        "gannet run --net NAME for both, with the same NAME"]),
    ("loopback-datagrams", [
        "datagrams on loopback addresses are the kernel's",
        "statistics, logs and name servers on 127.0.0.1",
        "an address of Gannet's (--addr) for what is to be carried"]),
    ("descriptor-too-high", [
        "the number of the descriptor is higher than the library watches: 1,048,575",
        "ulimit -n above a million, and as many descriptors; numbers chosen by dup2()",
        "ulimit -n 1048576"]),
    ("unix-socket", [
        "a Unix socket never leaves the machine: the kernel's are as near as any",
        "X11, D-Bus, databases on /run",
        "nothing; a TCP address for what is to be carried"]),
    ("other-family", [
        "a socket of a family that is no network of IP",
        "netlink, Bluetooth, vsock, AF_PACKET",
        "nothing: these are the kernel's"]),
    ("raw-socket", [
        "raw IP sockets need the kernel",
        "ping, traceroute, routing programs",
        "nothing: these are the kernel's"]),
    ("other-protocol", [
        "a protocol that Gannet does not speak",
        "SCTP, MPTCP, DCCP",
        "TCP or UDP"]),
    ("names-only", [
        "only calls by the C library's names are taken over, none that are made otherwise",
        "GANNET_INTERCEPT=symbols, a processor without XSAVEC, threads before main",
        "unset GANNET_INTERCEPT; what reads and writes with stdio on a socket is not carried"]),
    ("streams-exhausted", [
        "the program has as many streams as it may",
        "more connections than the setting `streams`",
        "--profile many, or --set streams=262144"]),
    ("no-carrier", [
        "the carrier, which owns the stack, has ended before the program: connections through it \
         are reset, new ones fail at once with ENETUNREACH; those between programs go on",
        "it was killed, ran out of memory, or has a fault; gannet run says which when it happens",
        "start the program anew; gannet ss, which names such programs; dmesg, the system's log"]),
    ("out-of-memory", [
        "no memory for one more stream",
        "a limit of the control group; shared memory is full",
        "df /dev/shm; --set stream.buffer=64K"]),
];
