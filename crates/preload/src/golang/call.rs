//! A system call of Go's that may concern us.

use super::fork;
use crate::calls::direct;
use crate::errno;
use libc::c_long;
use std::arch::asm;

/// Numbers from here on concern nobody.
pub(super) const NUMBERS: usize = 512;

/// Whether a call concerns us: 0 never, 1 if its first argument is a descriptor of ours, 2 perhaps
/// in another way.
pub(super) static CONCERNS: [u8; NUMBERS] = concerns();

const fn concerns() -> [u8; NUMBERS] {
    let first = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_close,
        libc::SYS_ioctl,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_dup,
        libc::SYS_sendfile,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_recvfrom,
        libc::SYS_shutdown,
        libc::SYS_getsockname,
        libc::SYS_getpeername,
        libc::SYS_getsockopt,
        libc::SYS_setsockopt,
        libc::SYS_recvmmsg,
        libc::SYS_fcntl,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
    ];
    let perhaps = [
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_splice,
        libc::SYS_socket,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_connect,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvmsg,
        libc::SYS_dup2,
        libc::SYS_dup3,
        libc::SYS_close_range,
        libc::SYS_epoll_create1,
        libc::SYS_execve,
        libc::SYS_prctl,
    ];
    let mut table = [0; NUMBERS];
    let mut n = 0;
    while n < first.len() {
        table[first[n] as usize] = 1;
        n += 1;
    }
    n = 0;
    while n < perhaps.len() {
        table[perhaps[n] as usize] = 2;
        n += 1;
    }
    table
}

/// The number and the arguments, where `entry.rs` has put them. The outcome as the kernel gives it.
///
/// # Safety
/// As the call's.
pub(super) unsafe extern "C" fn take(words: &[usize; 7]) -> isize {
    let [n, a, b, c, d, e, f] = *words;
    // A child that has its parent's memory: what is ours is its parent's.
    if let Some(forking) = fork::child() {
        // SAFETY: as the caller says.
        return unsafe { forking.call(words) };
    }
    let before = errno::get();
    // SAFETY: as the caller says.
    let done = unsafe { direct::by_number(n as c_long, (a, b, c, d, e, f)) };
    let outcome = match done {
        Some(-1) => -(errno::get() as isize),
        Some(done) => done as isize,
        // SAFETY: as the caller says.
        None => unsafe { kernel(words) },
    };
    errno::set(before);
    outcome
}

/// The system call itself.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn kernel(words: &[usize; 7]) -> isize {
    let [n, a, b, c, d, e, f] = *words;
    let outcome;
    // SAFETY: as the caller says; the kernel changes no other registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") n as isize => outcome,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    outcome
}
