//! Socket options of streams and listeners: kept in the slot, where every process that has the
//! socket sees them.

use crate::{real, wishes};
use gannet_local::options::{CONGESTION, Opt, buffers};
use gannet_local::slot::{OwnSlot, PeerSlot, flags};
use libc::c_int;
use rustix::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// Options with the value of an `int`, as the kernel names them.
pub(crate) const PLAIN: &[(c_int, c_int, Opt)] = &[
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, Opt::NoDelay),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, Opt::KeepAlive),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, Opt::KeepIdle),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, Opt::KeepInterval),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, Opt::KeepCount),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, Opt::UserTimeout),
    (libc::SOL_SOCKET, libc::SO_SNDBUF, Opt::SendBuffer),
    (libc::SOL_SOCKET, libc::SO_RCVBUF, Opt::ReceiveBuffer),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, Opt::ReuseAddr),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, Opt::ReusePort),
    (libc::IPPROTO_IP, libc::IP_TOS, Opt::Tos),
    (libc::IPPROTO_IP, libc::IP_TTL, Opt::Ttl),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG, Opt::MaxSegment),
    (libc::IPPROTO_TCP, libc::TCP_CORK, Opt::Cork),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK, Opt::QuickAck),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, Opt::DeferAccept),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, Opt::SynCount),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2, Opt::Linger2),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, Opt::WindowClamp),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, Opt::FastOpen),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, Opt::Broadcast),
    (libc::SOL_SOCKET, libc::SO_DONTROUTE, Opt::DontRoute),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, Opt::OobInline),
    (libc::SOL_SOCKET, libc::SO_PRIORITY, Opt::Priority),
    (libc::SOL_SOCKET, libc::SO_MARK, Opt::Mark),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, Opt::LowWater),
];

/// The same of streams alone: their words mean something else for datagrams.
const OF_STREAMS: &[(c_int, c_int, Opt)] = &[
    (
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        Opt::NOT_SENT_LOW_WATER,
    ),
    (libc::IPPROTO_TCP, libc::TCP_INQ, Opt::INQ),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY, Opt::ZERO_COPY),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, Opt::TIMESTAMPING),
];

/// The option of this level and name, if its value is an `int` kept in the slot.
pub(crate) fn find((level, name): (c_int, c_int)) -> Option<Opt> {
    PLAIN
        .iter()
        .chain(OF_STREAMS)
        .find(|known| known.0 == level && known.1 == name)
        .map(|known| known.2)
        .or(match (level, name) {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => Some(Opt::Tos),
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => Some(Opt::Ttl),
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Some(Opt::V6Only),
            _ => None,
        })
}

/// Values the kernel gives where none was set.
const DEFAULTS: &[(c_int, c_int, c_int)] = &[
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 7200),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 75),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 9),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG, 65_483),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, 6),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2, 60),
    (libc::IPPROTO_IP, libc::IP_TTL, 64),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 1),
    (libc::IPPROTO_IP, libc::IP_MTU, 65_535),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 64),
];

/// Options that can be set and change nothing here: there is no packet they could concern.
const WITHOUT_EFFECT: &[(c_int, c_int)] = &[
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS),
    (libc::IPPROTO_TCP, libc::TCP_TIMESTAMP),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IP, libc::IP_PKTINFO),
    (libc::IPPROTO_IP, libc::IP_RECVTOS),
    (libc::IPPROTO_IP, libc::IP_RECVTTL),
    (libc::IPPROTO_IP, libc::IP_FREEBIND),
    (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
];

/// What `getsockopt` gives for an option with the value of an `int`.
///
/// # Errors
/// `ENOPROTOOPT` for options TCP does not have.
pub(crate) fn value(slot: &OwnSlot<'_>, which: (c_int, c_int), six: bool) -> Result<c_int, c_int> {
    if which.0 == libc::IPPROTO_IPV6 && !six {
        return Err(libc::EOPNOTSUPP);
    }
    let set = find(which).and_then(|option| slot.get(option));
    if let Some(value) = set {
        return Ok(value as c_int);
    }
    let default = DEFAULTS
        .iter()
        .find(|known| (known.0, known.1) == which)
        .map(|known| known.2);
    let known = find(which).is_some() || WITHOUT_EFFECT.contains(&which);
    default.or(known.then_some(0)).ok_or(libc::ENOPROTOOPT)
}

/// The option that makes an IPv6 socket one of IPv4 (RFC 2553 of old; `ipv6(7)`).
pub(crate) const IPV6_ADDRFORM: c_int = 1;

/// `setsockopt` of [`IPV6_ADDRFORM`]: a connected socket between IPv4 addresses has those of IPv4
/// from now on, also where a program without IPv6 inherits it.
///
/// # Errors
/// As the kernel's.
pub(crate) fn become_ipv4(slot: &OwnSlot<'_>, connected: bool, family: c_int) -> Result<(), c_int> {
    let known = slot.flags();
    if known & flags::SIX == 0 {
        return Err(libc::ENOPROTOOPT);
    }
    if family != libc::AF_INET {
        return Err(libc::EINVAL);
    }
    if !connected {
        return Err(libc::ENOTCONN);
    }
    if known & flags::DUAL == 0 || !slot.remote().is_ipv4() {
        return Err(libc::EADDRNOTAVAIL);
    }
    slot.clear_flags(flags::SIX | flags::DUAL);
    Ok(())
}

/// Values that are accepted, where not all are.
const RANGES: &[(Opt, c_int, c_int)] = &[
    (Opt::KeepIdle, 1, 32_767),
    (Opt::KeepInterval, 1, 32_767),
    (Opt::KeepCount, 1, 127),
    (Opt::UserTimeout, 0, c_int::MAX),
    (Opt::SynCount, 1, 127),
    (Opt::Tos, -1, 255),
    (Opt::INQ, 0, 1),
    (Opt::ZERO_COPY, 0, 1),
];

/// Whether an option asks for times of sending, which nothing here takes: a program would wait for
/// them for ever. It is refused, as by a kernel that does not know it; the program then measures in
/// other ways.
pub(crate) fn asks_for_times_of_sending(which: (c_int, c_int), number: c_int) -> bool {
    /// With times of 64 bits on every machine (asm-generic/socket.h).
    const SO_TIMESTAMPING_NEW: c_int = 65;
    let names = [libc::SO_TIMESTAMPING, SO_TIMESTAMPING_NEW];
    let asks = which.0 == libc::SOL_SOCKET && names.contains(&which.1);
    asks && number as u32 & TIMES_OF_SENDING != 0
}

const TIMES_OF_SENDING: u32 = libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_ACK;

/// `SO_TIMESTAMP`, `SO_TIMESTAMPNS`: which of them is on, if any, is one word.
const TIMES: [(c_int, u32); 2] = [(libc::SO_TIMESTAMP, 1), (libc::SO_TIMESTAMPNS, 2)];

/// `getsockopt` of [`TIMES`]; `None`: it is another option.
pub(crate) fn time_value(slot: &OwnSlot<'_>, which: (c_int, c_int)) -> Option<c_int> {
    let (_, kind) = TIMES
        .into_iter()
        .find(|known| which == (libc::SOL_SOCKET, known.0))?;
    Some(c_int::from(slot.get(Opt::Timestamp) == Some(kind)))
}

fn store_time(slot: &OwnSlot<'_>, which: (c_int, c_int), number: c_int) -> bool {
    let known = TIMES
        .into_iter()
        .find(|known| which == (libc::SOL_SOCKET, known.0));
    if let Some((_, kind)) = known {
        slot.set(Opt::Timestamp, if number != 0 { kind } else { 0 });
    }
    known.is_some()
}

/// Options that are on or off.
const SWITCHES: &[Opt] = &[
    Opt::NoDelay,
    Opt::KeepAlive,
    Opt::ReuseAddr,
    Opt::ReusePort,
    Opt::Cork,
    Opt::Broadcast,
    Opt::DontRoute,
    Opt::OobInline,
    Opt::V6Only,
];

/// `setsockopt` of an option with the value of an `int`.
///
/// # Errors
/// `ENOPROTOOPT` for options TCP does not have, `EINVAL` for values out of range.
pub(crate) fn store(slot: &OwnSlot<'_>, which: (c_int, c_int), number: c_int) -> Result<(), c_int> {
    if which == (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT) || store_time(slot, which, number) {
        // The one may be set before a connection is begun only.
        return match which.0 {
            libc::IPPROTO_TCP => Err(libc::EINVAL),
            _ => Ok(()),
        };
    }
    let Some(option) = find(which) else {
        return match which {
            (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP)
            | (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP) => {
                Err(libc::EPROTO)
            }
            (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL) => Err(libc::EINVAL),
            _ if WITHOUT_EFFECT.contains(&which) => Ok(()),
            _ => Err(libc::ENOPROTOOPT),
        };
    };
    let range = RANGES.iter().find(|range| range.0 == option);
    if range.is_some_and(|range| !(range.1..=range.2).contains(&number)) {
        return Err(libc::EINVAL);
    }
    if option == Opt::Ttl && number != -1 && !(1..=255).contains(&number) {
        return Err(libc::EINVAL);
    }
    let value = match option {
        _ if SWITCHES.contains(&option) => c_int::from(number != 0),
        // As the kernel has it: room for its own bookkeeping too.
        Opt::SendBuffer => number.clamp(2304, 1 << 29) * 2,
        Opt::ReceiveBuffer => number.clamp(1152, 1 << 29) * 2,
        Opt::LowWater if number < 0 => c_int::MAX,
        Opt::LowWater => number.max(1),
        _ => number,
    };
    if option == Opt::Cork && value != 0 && slot.get(Opt::Corked).is_none() {
        slot.set(Opt::Corked, 1);
    }
    let buffer = match option {
        Opt::SendBuffer => buffers::SEND,
        Opt::ReceiveBuffer => buffers::RECEIVE,
        _ => 0,
    };
    if buffer != 0 {
        let before = slot.get(Opt::BuffersSet).unwrap_or(0);
        slot.set(Opt::BuffersSet, before | buffer);
    }
    slot.set(option, value as u32);
    Ok(())
}

/// `TCP_NODELAY` under a cork sets free what waits there, and leaves the cork on (tcp(7)).
pub(crate) fn note_push(slot: &OwnSlot<'_>, which: (c_int, c_int)) {
    let pushes = which == (libc::IPPROTO_TCP, libc::TCP_NODELAY) && slot.is_on(Opt::NoDelay);
    if pushes && slot.is_on(Opt::Cork) {
        let before = slot.get(Opt::Corked).unwrap_or(0);
        slot.set(Opt::Corked, before.wrapping_add(1).max(1));
    }
}

fn get<T: Copy>(fd: c_int, (level, name): (c_int, c_int), zero: T) -> Option<T> {
    let mut value = zero;
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: places of our own, as long as said.
    let got = unsafe { real::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    (got == 0).then_some(value)
}

/// What the kernel gives as `TCP_MAXSEG` of a socket that is not connected: RFC 9293's default.
const SMALLEST_SEGMENT: c_int = 536;

/// Which buffers were set by the program (Linux 5.14, `asm-generic/socket.h`).
const SO_BUF_LOCK: c_int = 72;

/// Whether the kernel's own default is left as it is: then the settings of Gannet decide.
fn is_default(which: (c_int, c_int), value: Option<c_int>) -> bool {
    let known = DEFAULTS.iter().find(|known| (known.0, known.1) == which);
    value == Some(known.map_or(0, |known| known.2))
}

/// The congestion control of a socket of the kernel's.
pub(crate) fn congestion_of(fd: c_int) -> Option<wishes::Name> {
    get(fd, (libc::IPPROTO_TCP, libc::TCP_CONGESTION), [0; 16])
}

/// Names of IPv6 sockets for options that have another one, too.
const OF_SIX: &[(c_int, c_int, Opt)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, Opt::Tos),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, Opt::Ttl),
];

/// What a program set on the kernel's socket before it became one of ours.
pub(crate) fn copy_from_kernel(fd: c_int, slot: &OwnSlot<'_>) {
    for &(level, name, option) in PLAIN.iter().chain(OF_SIX) {
        let value = get::<c_int>(fd, (level, name), 0);
        // Before a connection the kernel says the smallest there is, unless one was set.
        let unset = match option {
            Opt::MaxSegment => value == Some(SMALLEST_SEGMENT),
            _ => is_default((level, name), value),
        };
        match value {
            Some(value) if !unset => slot.set(option, value as u32),
            // (set before, and now as if it never was; the other family's name may stand for it)
            Some(_) if level != libc::IPPROTO_IPV6 && slot.get(option).is_some() => {
                slot.set(option, u32::MAX)
            }
            _ => {}
        }
    }
    if let Some(set) = get::<c_int>(fd, (libc::SOL_SOCKET, SO_BUF_LOCK), 0) {
        slot.set(Opt::BuffersSet, set as u32);
    }
    let none = libc::linger {
        l_onoff: 0,
        l_linger: 0,
    };
    if let Some(linger) = get(fd, (libc::SOL_SOCKET, libc::SO_LINGER), none) {
        slot.set(Opt::LingerOn, linger.l_onoff as u32);
        slot.set(Opt::LingerSeconds, linger.l_linger as u32);
    }
    let Some(name) = congestion_of(fd) else {
        return; // the rest is TCP's
    };
    for &(level, name, option) in OF_STREAMS {
        let value = get::<c_int>(fd, (level, name), 0);
        if let Some(value) = value.filter(|v| *v != 0 || slot.get(option).is_some()) {
            slot.set(option, value as u32);
        }
    }
    for (time, kind) in TIMES {
        if get::<c_int>(fd, (libc::SOL_SOCKET, time), 0).is_some_and(|value| value != 0) {
            slot.set(Opt::Timestamp, kind);
        }
    }
    // One that is not ours has no place among the names.
    let name = Some(name).filter(|name| wishes::is_wish(fd, name));
    let name = name.unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    if let Some(known) = CONGESTION.iter().position(|known| known.as_bytes() == name) {
        slot.set(Opt::Congestion, known as u32);
    }
}

/// What was set on a stream, set on a socket of the kernel's. What it may not set there it has not
/// set here either.
pub(crate) fn copy_to_kernel(slot: PeerSlot<'_>, fd: c_int) {
    for &(level, name, option) in PLAIN.iter().chain(OF_STREAMS) {
        let Some(value) = slot.get(option) else {
            continue;
        };
        let value = match option {
            // The kernel adds room for its own bookkeeping.
            Opt::SendBuffer | Opt::ReceiveBuffer => value / 2,
            _ => value,
        };
        set(fd, (level, name), &value);
    }
    for (time, kind) in TIMES {
        if slot.get(Opt::Timestamp) == Some(kind) {
            set(fd, (libc::SOL_SOCKET, time), &1);
        }
    }
    let linger = [Opt::LingerOn, Opt::LingerSeconds].map(|n| slot.get(n).unwrap_or(0));
    set(fd, (libc::SOL_SOCKET, libc::SO_LINGER), &linger);
}

fn set<T: Copy>(fd: c_int, (level, name): (c_int, c_int), value: &T) {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: a place of our own, as long as said.
    unsafe { real::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), len) };
}

const NO_TIME: libc::timeval = libc::timeval {
    tv_sec: 0,
    tv_usec: 0,
};

/// Time-outs work in the kernel's sleep: the new descriptor has those of the old.
pub(crate) fn copy_times_to(fd: c_int, new: &OwnedFd) {
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let Some(time) = get(fd, (libc::SOL_SOCKET, name), NO_TIME) else {
            continue;
        };
        let len = size_of::<libc::timeval>() as libc::socklen_t;
        // SAFETY: a place of our own.
        unsafe {
            real::setsockopt(
                new.as_raw_fd(),
                libc::SOL_SOCKET,
                name,
                (&raw const time).cast(),
                len,
            )
        };
    }
}

/// How long receiving may wait; `None` for ever.
pub(crate) fn receive_timeout(fd: c_int) -> Option<Duration> {
    timeout(fd, libc::SO_RCVTIMEO)
}

/// How long sending may wait; `None` for ever.
pub(crate) fn send_timeout(fd: c_int) -> Option<Duration> {
    timeout(fd, libc::SO_SNDTIMEO)
}

fn timeout(fd: c_int, name: c_int) -> Option<Duration> {
    let time = get(fd, (libc::SOL_SOCKET, name), NO_TIME)?;
    let time = Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (!time.is_zero()).then_some(time)
}
