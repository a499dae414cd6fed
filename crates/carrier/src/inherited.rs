//! Descriptors that a process was started with: pipes and files of whoever started it. A process
//! that keeps them open keeps their other ends from seeing an end.

#![allow(unsafe_code)]

use std::fs;
use std::os::fd::RawFd;

/// The descriptors above 2 that are open now and that `exec` hands on.
#[derive(Debug)]
pub struct Inherited(Vec<RawFd>);

impl Inherited {
    /// To be called before this process opens any of its own. What it opens later is not among
    /// them; nothing is where `/proc` is missing.
    pub fn list() -> Inherited {
        let Ok(entries) = fs::read_dir("/proc/self/fd") else {
            return Inherited(Vec::new());
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
        // The descriptor that the directory was read with is closed by now, or goes with `exec`.
        let all: Vec<RawFd> = numbers.filter(|fd| *fd > 2).collect();
        Inherited(all.into_iter().filter(|fd| is_handed_on(*fd)).collect())
    }

    /// Closes them. Whoever was to get them has been started.
    pub fn close(self) {
        for fd in self.0 {
            // SAFETY: nothing in this process owns it: it was open before anything was opened
            // here, and has been handed on to programs only by `exec`.
            unsafe { libc::close(fd) };
        }
    }
}

fn is_handed_on(fd: RawFd) -> bool {
    // SAFETY: asks about a number, whatever is behind it.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Closes every descriptor above 2: the first thing that a process of ours does which needs none.
pub(crate) fn close_all() {
    let all = (3u32, u32::MAX, 0u32);
    // SAFETY: nothing was opened yet, so that nothing owns any of them.
    let done = unsafe { libc::syscall(libc::SYS_close_range, all.0, all.1, all.2) };
    if done != 0 {
        // Linux before 5.9.
        Inherited::list().close();
    }
}
