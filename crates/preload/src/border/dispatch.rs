//! Which system calls concern the library, and what becomes of them.

use super::deliver::{RESTART, RESTART_ALWAYS};
use super::gate::{self, Words};
use super::{actions, arm, forking, hosted, signals, sites, thread};
use crate::calls::{self, direct};
use crate::errno;
use crate::object::{self, Object};
use gannet_local::sandbox;
use libc::{c_int, c_long};
use rustix::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU8};

/// Numbers from here on concern nothing.
pub(super) const NUMBERS: usize = 512;

/// How a call may concern the library. The entry code compares the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Never.
    Foreign = 0,
    /// If its first argument is a descriptor of ours.
    First = 1,
    /// Perhaps: `take` finds out.
    Any = 2,
    /// Makes a thread or a process.
    Clone = 3,
    /// Ends a thread.
    Exit = 4,
}

/// For the entry code: where the table of descriptors lies.
pub(super) static DESCRIPTORS: &[AtomicPtr<Object>; object::TABLE] = &object::DESCRIPTORS;

/// The kind of each number.
pub(super) static KINDS: [AtomicU8; NUMBERS] = kinds();

/// Calls of these numbers concern the library from now on, at sites that are looked at from now on.
pub(super) fn add(numbers: &[c_long]) {
    for kind in numbers.iter().filter_map(|n| KINDS.get(*n as usize)) {
        kind.store(Kind::Any as u8, Relaxed);
    }
}

const FIRST: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_ioctl,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_recvmmsg,
    libc::SYS_fcntl,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
];

const ANY: &[c_long] = &[
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
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_setsockopt,
    libc::SYS_close_range,
    libc::SYS_epoll_create,
    libc::SYS_epoll_create1,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_prctl,
    libc::SYS_seccomp,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigsuspend,
    libc::SYS_io_uring_setup,
    libc::SYS_mmap,
];

const CLONE: &[c_long] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_fork,
    libc::SYS_vfork,
];

const fn kinds() -> [AtomicU8; NUMBERS] {
    let mut table = [const { AtomicU8::new(Kind::Foreign as u8) }; NUMBERS];
    set(&mut table, FIRST, Kind::First);
    set(&mut table, ANY, Kind::Any);
    set(&mut table, CLONE, Kind::Clone);
    set(&mut table, &[libc::SYS_exit], Kind::Exit);
    table
}

const fn set(table: &mut [AtomicU8; NUMBERS], numbers: &[c_long], kind: Kind) {
    let mut n = 0;
    while n < numbers.len() {
        table[numbers[n] as usize] = AtomicU8::new(kind as u8);
        n += 1;
    }
}

/// The kind of call `n`.
pub(super) fn kind(n: usize) -> Kind {
    match KINDS.get(n).map_or(0, |kind| kind.load(Relaxed)) {
        1 => Kind::First,
        2 => Kind::Any,
        3 => Kind::Clone,
        4 => Kind::Exit,
        _ => Kind::Foreign,
    }
}

/// A call that may concern the library, from the entry code: its outcome as the kernel gives it.
/// When the kernel is to make it, the thread is marked so, and this is the call's number.
///
/// # Safety
/// As the call's. On the library's stack, the thread marked as inside.
pub(super) unsafe extern "C" fn take(words: &Words) -> isize {
    // A child that has its parent's memory: what is ours is its parent's.
    if let Some(forking) = forking::child() {
        // SAFETY: as the caller says.
        if let Some(outcome) = unsafe { hosted::call(words) } {
            return outcome;
        }
        // SAFETY: as the caller says.
        let outcome = unsafe { forking.call(words) };
        let interrupted = outcome == -(RESTART as isize);
        let outcome = if interrupted {
            -(RESTART_ALWAYS as isize)
        } else {
            outcome
        };
        // (Only where one waits is a call not made.)
        return settle(words[0], outcome).unwrap_or(-(libc::EINTR as isize));
    }
    let [n, a, b, ..] = *words;
    if thread::current().is_passing([a, b]) {
        return native(n);
    }
    let before = errno::get();
    let outcome = loop {
        thread::current().set_call([a, b]);
        // SAFETY: as the caller says.
        let outcome = unsafe { answer(words) };
        if let Some(outcome) = settle(n, outcome) {
            break outcome;
        }
    };
    errno::set(before);
    outcome
}

/// What becomes of a call that a signal interrupted: it goes on when the handler has run, or ends,
/// as [`deliver`] finds out. `None`: no signal waits, so at once.
fn settle(n: usize, outcome: isize) -> Option<isize> {
    let restart = -outcome as c_int;
    if !matches!(restart, RESTART | RESTART_ALWAYS) {
        return Some(outcome);
    }
    let thread = thread::current();
    if thread.kept.load(Relaxed) == 0 {
        return None;
    }
    if thread.busy.load(Relaxed) != 0 {
        // The library's own question on the way of a call by name.
        return Some(-(libc::EINTR as isize));
    }
    thread.restart.store(restart as u32, Relaxed);
    Some(n as isize)
}

/// # Safety
/// As the call's.
unsafe fn answer(words: &Words) -> isize {
    let [n, a, b, c, d, e, f] = *words;
    // SAFETY: as the caller says.
    unsafe {
        match n as c_long {
            // Rings of the kernel's take descriptors by number: programs do without.
            libc::SYS_io_uring_setup => return -(libc::ENOSYS as isize),
            libc::SYS_rt_sigaction => return actions::action(words),
            libc::SYS_rt_sigprocmask => return signals::mask(words),
            libc::SYS_rt_sigsuspend if signals::blocks_ours(a) => return signals::wait(words, 1),
            libc::SYS_rt_sigsuspend => return native(n),
            libc::SYS_execveat => return calls::execveat(words).unwrap_or_else(|| native(n)),
            libc::SYS_mmap => return map(words),
            libc::SYS_brk
            | libc::SYS_readlink
            | libc::SYS_readlinkat
            | libc::SYS_open
            | libc::SYS_openat => return hosted::call(words).unwrap_or_else(|| native(n)),
            libc::SYS_seccomp | libc::SYS_prctl => return filtered(words),
            _ => {}
        }
    }
    // SAFETY: as the caller says.
    let done = unsafe { direct::by_number(n as c_long, (a, b, c, d, e, f)) };
    let thread = thread::current();
    match done {
        _ if thread.native.load(Relaxed) != 0 => n as isize,
        Some(-1) => -(errno::get() as isize),
        Some(done) => done as isize,
        None => native(n),
    }
}

/// The kernel makes call `n` when the library is left.
pub(super) fn native(n: usize) -> isize {
    thread::current().native.store(1, Relaxed);
    n as isize
}

/// `mmap`: a file's code is changed before anything in it runs.
///
/// # Safety
/// As the call's.
unsafe fn map(words: &Words) -> isize {
    let [n, _, len, access, flags, fd, offset] = *words;
    let is_code = access & libc::PROT_EXEC as usize != 0 && access & libc::PROT_WRITE as usize == 0;
    if !is_code
        || fd as c_int == -1
        || flags & libc::MAP_ANONYMOUS as usize != 0
        || sandbox::is_on()
    {
        return native(n);
    }
    // SAFETY: as the caller says.
    let outcome = unsafe { gate::kernel(words) };
    if let Ok(at) = usize::try_from(outcome)
        && let Some(len) = len_in_file(fd as c_int, offset, len)
        && sites::change_new(&(at..at + len))
    {
        arm::set_traps();
    }
    outcome
}

/// How much of a mapping the file has: behind its end there is nothing to look at.
fn len_in_file(fd: c_int, offset: usize, len: usize) -> Option<usize> {
    // SAFETY: the descriptor was just mapped; the look does not outlive this call.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let size = usize::try_from(rustix::fs::fstat(file).ok()?.st_size).ok()?;
    size.checked_sub(offset).map(|rest| rest.min(len))
}

/// `prctl` and `seccomp`: from a filter on, this process asks for less.
///
/// # Safety
/// As the call's.
unsafe fn filtered(words: &Words) -> isize {
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    let [n, what, ..] = *words;
    let filters = match n as c_long {
        libc::SYS_prctl => what == libc::PR_SET_SECCOMP as usize,
        _ => what <= SECCOMP_SET_MODE_FILTER,
    };
    if !filters {
        return native(n);
    }
    // SAFETY: as the caller says.
    let outcome = unsafe { gate::kernel(words) };
    if outcome == 0 {
        sandbox::enter();
    }
    outcome
}

/// A function of `calls/` is about to pass its arguments on, unchanged, and to give back what the
/// kernel says. True when it came here by the border: then the kernel makes the call once the
/// library is left, so that a handler which runs meanwhile finds no library inside. Else the C
/// library's function comes by the border with the same two first arguments, and was looked at.
#[inline]
pub(crate) fn leave_to_kernel(arguments: [usize; 2], is_looked_at: bool) -> bool {
    if !super::is_raised() {
        return false;
    }
    let thread = thread::current();
    let is_inside = thread.inside.load(Relaxed) != 0;
    if !is_inside {
        if is_looked_at {
            thread.set_passing(arguments);
        }
        return false;
    }
    // The standard library closes descriptors by that name, too.
    let is_it = thread.is_call(arguments);
    if is_it {
        thread.native.store(1, Relaxed);
    }
    is_it
}

/// Whether the library answers a system call by number: the function that the C library exports for
/// it was not called. Its own questions come so, too, as those for users and groups.
pub(crate) fn is_answering() -> bool {
    super::is_raised() && thread::current().inside.load(Relaxed) != 0
}

/// The C library's function has returned: it may not have come by the border at all.
#[inline]
pub(crate) fn passed() {
    if super::is_raised() {
        thread::current().set_passing([usize::MAX; 2]);
    }
}
