//! `fork`, `exec`, signals, limits.

use super::Ret;
use libc::{c_int, itimerval, rlimit};
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is still there.
    Not,
    /// With this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// Runs `work` in a child, which exits with what it returns; the child's number.
pub(crate) fn fork(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the cases fork while the process has one thread, or the child goes on to do calls
    // that are safe after a fork of a process with threads.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let work = std::panic::AssertUnwindSafe(work);
        exit(std::panic::catch_unwind(work).unwrap_or(99));
    }
    pid
}

/// Ends the process at once: no destructors, no other code of the program.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: `_exit` has no requirement.
    unsafe { libc::_exit(status) }
}

/// `waitpid`; with `WNOHANG` among the options the process may be there still.
pub(crate) fn waitpid(pid: i32, options: i32) -> End {
    let mut status = 0;
    loop {
        match call!(waitpid(pid, &mut status, options)) {
            Ret::Value(0) => return End::Not,
            Ret::Errno(libc::EINTR) => {}
            Ret::Errno(errno) => return End::Exit(-errno),
            Ret::Value(_) if libc::WIFSIGNALED(status) => {
                return End::Signal(libc::WTERMSIG(status));
            }
            Ret::Value(_) => return End::Exit(libc::WEXITSTATUS(status)),
        }
    }
}

/// Waits until a child is stopped by a signal.
pub(crate) fn wait_stopped(pid: i32) {
    let mut status = 0;
    call!(waitpid(pid, &mut status, libc::WUNTRACED));
}

/// Whether a process runs (`R`), sleeps (`S`), was stopped (`T`): none where it is not there.
pub(crate) fn state_of(pid: i32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name, in brackets, may be anything.
    text.rsplit(") ").next()?.chars().next()
}

/// This process's number.
pub(crate) fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

pub(crate) fn kill(pid: i32, signal: i32) -> Ret {
    call!(kill(pid, signal))
}

/// This process and what it starts become a group that can be ended as one.
pub(crate) fn lead_group() {
    call!(setpgid(0, 0));
}

/// The parent's part of `lead_group`: whoever comes first.
pub(crate) fn make_leader(pid: i32) {
    call!(setpgid(pid, pid));
}

/// Sends this process a signal once, after some milliseconds.
pub(crate) fn alarm_in(ms: i64) {
    let timer = itimerval {
        it_interval: super::wait::timeval_of(0),
        it_value: super::wait::timeval_of(ms),
    };
    call!(setitimer(libc::ITIMER_REAL, &timer, null_mut()));
}

static SIGNALS: AtomicI32 = AtomicI32::new(0);

extern "C" fn count_signal(_signal: c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// How many signals were handled since `handle`.
pub(crate) fn signals_handled() -> i32 {
    SIGNALS.load(Ordering::SeqCst)
}

/// Handles a signal by counting it, with these flags (`SA_RESTART`).
pub(crate) fn handle(signal: i32, flags: i32) {
    // SAFETY: `sigaction` is made of numbers and pointers, for all of which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int) = count_signal;
    action.sa_sigaction = handler as usize;
    action.sa_flags = flags;
    call!(sigaction(signal, &action, null_mut()));
}

/// Gives a signal back its default.
pub(crate) fn default_signal(signal: i32) {
    call!(signal(signal, libc::SIG_DFL));
}

/// Ignores a signal.
pub(crate) fn ignore_signal(signal: i32) {
    call!(signal(signal, libc::SIG_IGN));
}

/// Blocks signals in this thread.
pub(crate) fn block_signals(signals: &[i32]) {
    let set = super::wait::signal_set(signals);
    call!(sigprocmask(libc::SIG_BLOCK, &set, null_mut()));
}

/// Allows descriptors below `most`; the limit before.
pub(crate) fn limit_descriptors(most: u64) -> u64 {
    let mut limit = rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    call!(getrlimit(libc::RLIMIT_NOFILE, &mut limit));
    let before = limit.rlim_cur;
    limit.rlim_cur = most;
    call!(setrlimit(libc::RLIMIT_NOFILE, &limit));
    before
}

/// No core files of programs that are meant to crash.
pub(crate) fn no_core_files() {
    let limit = rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    call!(setrlimit(libc::RLIMIT_CORE, &limit));
}

/// Replaces the program by itself with other arguments. Returns only when that failed.
pub(crate) fn exec_self(arguments: &[String]) -> Ret {
    let strings: Vec<CString> = std::iter::once("gannet-cases")
        .chain(arguments.iter().map(String::as_str))
        .filter_map(|text| CString::new(text).ok())
        .collect();
    let mut pointers: Vec<_> = strings.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    call!(execv(c"/proc/self/exe".as_ptr(), pointers.as_ptr()))
}

/// Reads where there is no memory: the end of the process, by `SIGSEGV`.
pub(crate) fn crash() -> ! {
    // SAFETY: by contract the process does not survive this; no value is made from the read.
    unsafe { std::ptr::without_provenance::<u8>(8).read_volatile() };
    exit(98)
}
