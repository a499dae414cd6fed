//! Which congestion control a program wants: the one that it set, and not the one that the kernel
//! gives every new socket (`net.ipv4.tcp_congestion_control`), against which the settings of Gannet
//! would have no effect.
//!
//! The kernel does not tell the two apart. So a `setsockopt` of the program is remembered by
//! descriptor. A duplicate of the descriptor, or one that was inherited over `exec`, is not known
//! here: there, every name but the kernel's own default is taken for a wish.

use crate::{options, real};
use libc::c_int;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Descriptors that are remembered.
const DESCRIPTORS: usize = 65_536;
/// A bit for each descriptor on which the program has set `TCP_CONGESTION`.
static SET: [AtomicU64; DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; DESCRIPTORS / 64];

/// `TCP_CONGESTION`'s value: a name and zeros.
pub(crate) type Name = [u8; 16];

fn place(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((SET.get(fd / 64)?, 1 << (fd % 64)))
}

/// The program has set it on `fd`.
pub(crate) fn remember(fd: c_int) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Relaxed);
    }
}

/// `fd` is a new socket.
pub(crate) fn forget(fd: c_int) {
    if let Some((word, bit)) = place(fd)
        && word.load(Relaxed) & bit != 0
    {
        word.fetch_and(!bit, Relaxed);
    }
}

/// Whether `name`, which the kernel's socket `fd` has, is the program's wish.
pub(crate) fn is_wish(fd: c_int, name: &Name) -> bool {
    let set = place(fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0);
    set || kernels_default().is_none_or(|default| default != *name)
}

/// What the kernel gives a new socket. Asked once: a process seldom outlives its value, and a
/// socket made before a change has the old one.
fn kernels_default() -> Option<Name> {
    static KNOWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let [first, second] = KNOWN.each_ref().map(|word| word.load(Acquire));
    // (a name has a letter at least, so that 0 stands for "not asked yet")
    if first != 0 {
        return Some(joined(first, second));
    }
    // SAFETY: no pointers.
    let fd = unsafe { real::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    let name = options::congestion_of(fd);
    if fd >= 0 {
        // SAFETY: a descriptor of our own.
        unsafe { real::close(fd) };
    }
    let name = name?;
    let [first, second] = halves(&name);
    // the first half last: a thread that finds it has both
    KNOWN[1].store(second, Release);
    KNOWN[0].store(first, Release);
    Some(name)
}

fn halves(name: &Name) -> [u64; 2] {
    let number = u128::from_ne_bytes(*name);
    [number as u64, (number >> 64) as u64]
}

fn joined(first: u64, second: u64) -> Name {
    (u128::from(first) | u128::from(second) << 64).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_name_is_a_wish_and_the_kernels_default_is_none() {
        let default = kernels_default().expect("a kernel with TCP");
        assert_eq!(kernels_default(), Some(default), "asked, and remembered");
        let fd = 60_001;
        assert!(!is_wish(fd, &default));
        assert!(is_wish(fd, b"vegas\0\0\0\0\0\0\0\0\0\0\0"));
        remember(fd);
        assert!(is_wish(fd, &default), "set to what it was");
        assert!(!is_wish(fd + 1, &default));
        forget(fd);
        assert!(!is_wish(fd, &default), "another socket under the number");
        for beyond in [-1, DESCRIPTORS as c_int] {
            remember(beyond);
            assert!(!is_wish(beyond, &default));
        }
    }
}
