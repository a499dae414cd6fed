//! System calls that the program makes itself, without the C library: as Go's runtime, Bun and
//! static libraries do.

use super::Ret;
use super::transfer::Got;
use crate::far;
use libc::c_long;
use std::arch::asm;

/// The instruction itself; the outcome as `errno` would have it.
fn inline(n: c_long, a: usize, b: usize, c: usize) -> Ret {
    inline_five(n, [a, b, c, 0, 0])
}

/// As [`inline`], with two further arguments.
fn inline_five(n: c_long, [a, b, c, d, e]: [usize; 5]) -> Ret {
    let outcome: isize;
    // SAFETY: the callers' arguments are places of their own, as long as they say; the kernel
    // changes no registers but these.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") n as isize => outcome,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    match outcome {
        -4095..0 => Ret::Errno(-outcome as i32),
        value => Ret::Value(value as i64),
    }
}

/// A call whose only argument is a descriptor.
pub(crate) fn inline_call(n: c_long, fd: i32) -> Ret {
    far::here(fd);
    inline(n, fd as usize, 0, 0)
}

/// `dup2`, `shutdown` and their like: two numbers.
pub(crate) fn inline_two(n: c_long, fd: i32, other: i32) -> Ret {
    far::here(fd);
    inline(n, fd as usize, other as usize, 0)
}

/// `read`.
pub(crate) fn inline_read(fd: i32, len: usize) -> Got {
    far::here(fd);
    let mut buffer = vec![0_u8; len];
    let ret = inline(libc::SYS_read, fd as usize, buffer.as_mut_ptr().addr(), len);
    Got::of(ret, buffer)
}

/// `write`.
pub(crate) fn inline_write(fd: i32, data: &[u8]) -> Ret {
    far::here(fd);
    inline(
        libc::SYS_write,
        fd as usize,
        data.as_ptr().addr(),
        data.len(),
    )
}

/// `setsockopt` of a number.
pub(crate) fn inline_set_int(fd: i32, level: i32, name: i32, value: i32) -> Ret {
    far::here(fd);
    let place = std::ptr::from_ref(std::hint::black_box(&value)).addr();
    let [fd, level, name] = [fd, level, name].map(|n| n as usize);
    inline_five(
        libc::SYS_setsockopt,
        [fd, level, name, place, size_of::<i32>()],
    )
}

/// `poll` of one descriptor, with a time-out in milliseconds: the count, and what was found.
pub(crate) fn inline_poll(fd: i32, events: i16, timeout: i32) -> (Ret, i16) {
    far::here(fd);
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let place = (&raw mut entry).addr();
    let ret = inline(libc::SYS_poll, place, 1, timeout as usize);
    (ret, entry.revents)
}

/// A copy of this process, made by the number of the call: no handler of the C library's runs.
pub(crate) fn inline_fork(work: impl FnOnce() -> i32) -> i32 {
    match inline(libc::SYS_fork, 0, 0, 0) {
        Ret::Value(0) => {
            inline(libc::SYS_exit_group, work() as usize, 0, 0);
            unreachable!("the process has ended")
        }
        other => other.fd(),
    }
}

/// Prints through the C library's own standard output, and reads a line of its standard input.
pub(crate) fn answer_on_standard_streams() -> i32 {
    let mut line = [0_u8; 64];
    // SAFETY: a buffer of our own; strings with their ends.
    unsafe {
        let n = libc::scanf(c"%63s".as_ptr(), line.as_mut_ptr());
        libc::printf(c"%d:%s\n".as_ptr(), n, line.as_ptr());
        libc::fflush(std::ptr::null_mut())
    }
}
