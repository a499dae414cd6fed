//! Observations as text: the same text for the same observation, on any machine.

use std::io::Write as _;

/// `ECONNREFUSED` for `ECONNREFUSED`; a number for errors no socket call gives.
pub(crate) fn errno_name(errno: i32) -> String {
    let name = ERRNOS.iter().find(|(number, _)| *number == errno);
    name.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}

macro_rules! names {
    ($($name:ident),* $(,)?) => { &[$((libc::$name, stringify!($name))),*] };
}

const ERRNOS: &[(i32, &str)] = names![
    EPERM,
    ENOENT,
    EINTR,
    EIO,
    ENXIO,
    EBADF,
    ECHILD,
    EAGAIN,
    ENOMEM,
    EACCES,
    EFAULT,
    EBUSY,
    EEXIST,
    ENODEV,
    ENOTDIR,
    EISDIR,
    EINVAL,
    ENFILE,
    EMFILE,
    ENOTTY,
    EFBIG,
    ENOSPC,
    ESPIPE,
    EPIPE,
    EDOM,
    ERANGE,
    ENAMETOOLONG,
    ENOSYS,
    ELOOP,
    ENODATA,
    ETIME,
    EPROTO,
    EOVERFLOW,
    ENOTSOCK,
    EDESTADDRREQ,
    EMSGSIZE,
    EPROTOTYPE,
    ENOPROTOOPT,
    EPROTONOSUPPORT,
    ESOCKTNOSUPPORT,
    EOPNOTSUPP,
    EPFNOSUPPORT,
    EAFNOSUPPORT,
    EADDRINUSE,
    EADDRNOTAVAIL,
    ENETDOWN,
    ENETUNREACH,
    ENETRESET,
    ECONNABORTED,
    ECONNRESET,
    ENOBUFS,
    EISCONN,
    ENOTCONN,
    ESHUTDOWN,
    ETOOMANYREFS,
    ETIMEDOUT,
    ECONNREFUSED,
    EHOSTDOWN,
    EHOSTUNREACH,
    EALREADY,
    EINPROGRESS,
];

/// Short data in quotes, long data as its length and a hash of it.
pub(crate) fn text_of(data: &[u8]) -> String {
    if data.len() <= 24 {
        return format!("\"{}\"", data.escape_ascii());
    }
    // FNV-1a (draft-eastlake-fnv): any change of a byte changes the observation.
    let hash = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("bytes {hash:016x}")
}

const POLL: [(i16, &str); 11] = [
    (libc::POLLIN, "IN"),
    (libc::POLLPRI, "PRI"),
    (libc::POLLOUT, "OUT"),
    (libc::POLLERR, "ERR"),
    (libc::POLLHUP, "HUP"),
    (libc::POLLNVAL, "NVAL"),
    (libc::POLLRDHUP, "RDHUP"),
    (libc::POLLRDNORM, "RDNORM"),
    (libc::POLLRDBAND, "RDBAND"),
    (libc::POLLWRNORM, "WRNORM"),
    (libc::POLLWRBAND, "WRBAND"),
];

/// `revents` of `poll`: `IN|HUP`, `-` for none.
pub(crate) fn poll_bits(revents: i16) -> String {
    bits(
        i64::from(revents),
        POLL.map(|(bit, name)| (i64::from(bit), name)),
    )
}

/// Events of `epoll`: `IN|HUP`, `-` for none.
pub(crate) fn epoll_bits(events: u32) -> String {
    let known = POLL.map(|(bit, name)| (i64::from(bit), name));
    bits(i64::from(events), known)
}

/// `msg_flags` of `recvmsg`.
pub(crate) fn message_flags(flags: i32) -> String {
    let known = [
        (libc::MSG_OOB, "OOB"),
        (libc::MSG_TRUNC, "TRUNC"),
        (libc::MSG_CTRUNC, "CTRUNC"),
        (libc::MSG_EOR, "EOR"),
        (libc::MSG_ERRQUEUE, "ERRQUEUE"),
        (libc::MSG_CMSG_CLOEXEC, "CMSG_CLOEXEC"),
    ];
    bits(
        i64::from(flags),
        known.map(|(bit, name)| (i64::from(bit), name)),
    )
}

fn bits<const N: usize>(value: i64, known: [(i64, &str); N]) -> String {
    let mut names: Vec<String> = known
        .iter()
        .filter(|(bit, _)| value & bit != 0)
        .map(|(_, name)| (*name).to_owned())
        .collect();
    let rest = known.iter().fold(value, |rest, (bit, _)| rest & !bit);
    if rest != 0 {
        names.push(format!("{rest:#x}"));
    }
    if names.is_empty() {
        names.push("-".to_owned());
    }
    names.join("|")
}

/// Prints a case and what it observed; nothing but the name when there is no observation.
pub(crate) fn line(name: &str, observed: &str) {
    let separator = if observed.is_empty() { "" } else { "\t" };
    // Who closes our output wants no more of it.
    let _ = writeln!(std::io::stdout(), "{name}{separator}{observed}");
}

/// Prints something as JSON.
pub(crate) fn document(value: &impl serde::Serialize) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_named_and_unknown_ones_are_numbers() {
        let rows = [
            (0, "-"),
            (libc::POLLIN | libc::POLLRDHUP, "IN|RDHUP"),
            (libc::POLLIN | 0x800, "IN|0x800"),
        ];
        for (value, text) in rows {
            assert_eq!(poll_bits(value), text);
        }
    }

    #[test]
    fn one_changed_byte_of_long_data_is_seen() {
        let data = vec![7_u8; 100];
        let mut other = data.clone();
        other[50] = 8;
        assert_ne!(text_of(&data), text_of(&other));
        assert_eq!(text_of(b"a\n"), "\"a\\n\"");
        assert_eq!(errno_name(libc::ECONNREFUSED), "ECONNREFUSED");
    }
}
