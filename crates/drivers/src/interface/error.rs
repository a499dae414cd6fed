//! Errors that say what was tried, why it failed, and what to try.

use std::io;

/// `cause` with its story in three lines: `operation` on `interface`, the reason, and a `try:`
/// line. The [`io::ErrorKind`] stays, except that a missing interface, for which std has no kind of
/// its own, is [`io::ErrorKind::NotFound`].
pub fn explain(operation: &str, interface: &str, cause: io::Error) -> io::Error {
    let (why, attempt) = match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => (
            "this process lacks a privilege (CAP_NET_RAW for packet sockets, CAP_NET_ADMIN for \
             devices and settings)",
            "run as root, or in a user and network namespace of its own (`unshare -Urn`)",
        ),
        Some(libc::ENODEV | libc::ENXIO) => (
            "there is no such interface in this network namespace",
            "list the interfaces with `ip link` and check the name",
        ),
        Some(libc::EBUSY) => (
            "another program is attached to the device",
            "choose another name, or end that program",
        ),
        Some(libc::ENOENT) => (
            "the kernel has no TUN/TAP driver, or no device node for it",
            "`modprobe tun`; in a container, pass /dev/net/tun in",
        ),
        Some(libc::EINVAL) => (
            "the kernel refuses the value, or the interface is of another kind",
            "check the interface's kind and limits with `ip -d link show`",
        ),
        _ => return with_cause(operation, interface, &cause, "see the cause above"),
    };
    let text = format!("cannot {operation} {interface}\nwhy: {why} ({cause})\ntry: {attempt}");
    let kind = match cause.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => io::ErrorKind::NotFound,
        _ => cause.kind(),
    };
    io::Error::new(kind, text)
}

fn with_cause(operation: &str, interface: &str, cause: &io::Error, attempt: &str) -> io::Error {
    let text = format!("cannot {operation} {interface}\nwhy: {cause}\ntry: {attempt}");
    io::Error::new(cause.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_lines_and_the_kind() {
        for (errno, kind) in [
            (libc::EPERM, io::ErrorKind::PermissionDenied),
            (libc::ENODEV, io::ErrorKind::NotFound),
            (libc::EBUSY, io::ErrorKind::ResourceBusy),
            (libc::ENOMEM, io::ErrorKind::OutOfMemory),
        ] {
            let cause = io::Error::from_raw_os_error(errno);
            let told = explain("open a packet socket on", "eth7", cause);
            let text = told.to_string();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(told.kind(), kind);
            assert_eq!(lines.len(), 3, "{text}");
            assert!(lines[0].contains("packet socket on eth7"), "{text}");
            assert!(lines[1].starts_with("why: ") && lines[2].starts_with("try: "));
        }
    }
}
