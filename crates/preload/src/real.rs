//! The C library's own functions, found behind this library's.

use crate::border::waiting_call;
use libc::{c_char, c_int, c_uint, c_void, nfds_t, off_t, pid_t, size_t, ssize_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the C library, looked up at the start, or before that when first needed.
#[repr(C)]
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address; a program that imports the name has it.
    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            self.look_up()
        } else {
            found
        }
    }

    /// Looks it up; null where no library of the program has it.
    fn search(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let found = self.search();
        if found.is_null() {
            // Every name here is in every glibc this runs with: without it nothing can go on.
            std::process::abort();
        }
        found
    }
}

// No program is to find them.
std::arch::global_asm!(
    ".hidden __start_gannet_names",
    ".hidden __stop_gannet_names"
);

#[expect(improper_ctypes, reason = "this library's own, from one build")]
unsafe extern "C" {
    // The linker's names for both ends of the section.
    #[link_name = "__start_gannet_names"]
    static FIRST: Next;
    #[link_name = "__stop_gannet_names"]
    static END: Next;
}

/// Looks all names up, before any thread runs: ld.so takes a lock for it, which another thread may
/// hold for ever in the child of a fork that is none of the C library's.
pub(crate) fn find_all() {
    let (mut at, end) = (&raw const FIRST, &raw const END);
    while at < end {
        // SAFETY: the section holds nothing but these, one behind the other.
        unsafe {
            (*at).search();
            at = at.add(1);
        }
    }
}

/// Declares functions that call the C library's of the same name.
macro_rules! next {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[inline]
            pub(crate) unsafe fn $name($($arg: $type),*) -> $result {
                // SAFETY: nothing else is in this section.
                #[unsafe(link_section = "gannet_names")]
                static NEXT: Next = Next::new(
                    // SAFETY: a literal with one zero byte, at its end.
                    unsafe {
                        CStr::from_bytes_with_nul_unchecked(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )
                    },
                );
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
                // SAFETY: the C library's function of this name has this signature.
                let function: Function = unsafe { std::mem::transmute(NEXT.get()) };
                // SAFETY: as the caller of this function says.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

/// Declares functions that make the system call of a name, with errno as the C library sets it: for
/// what this library itself wants of the kernel. The C library's would be a cancellation point, and
/// would come back here by the border.
macro_rules! direct {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty
        = $number:ident($($word:expr),*);)*) => {
        direct! {
            by crate::border::system_call;
            $($name($($arg: $type),*) -> $result = $number($($word),*);)*
        }
    };
    (by $way:path; $($name:ident($($arg:ident: $type:ty),*) -> $result:ty
        = $number:ident($($word:expr),*);)*) => {
        $(
            #[inline]
            pub(crate) unsafe fn $name($($arg: $type),*) -> $result {
                let mut words = [libc::$number as usize, 0, 0, 0, 0, 0, 0];
                for (place, word) in words.iter_mut().skip(1).zip([$($word as usize),*]) {
                    *place = word;
                }
                // SAFETY: as the caller of this function says.
                let outcome = unsafe { $way(&words) };
                of_kernel(outcome) as $result
            }
        )*
    };
}

/// The C library's own: for calls of the program's that are passed on as they came.
pub(crate) mod of_libc {
    use super::*;
    next! {
        read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t;
        write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
        readv(fd: c_int, iov: *const libc::iovec, n: c_int) -> ssize_t;
        writev(fd: c_int, iov: *const libc::iovec, n: c_int) -> ssize_t;
        preadv2(fd: c_int, iov: *const libc::iovec, n: c_int, offset: off_t,
            flags: c_int) -> ssize_t;
        pwritev2(fd: c_int, iov: *const libc::iovec, n: c_int, offset: off_t,
            flags: c_int) -> ssize_t;
        recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
        send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t;
        recvfrom(fd: c_int, to: *mut c_void, len: size_t, flags: c_int,
            address: *mut libc::sockaddr, address_len: *mut libc::socklen_t) -> ssize_t;
        sendto(fd: c_int, from: *const c_void, len: size_t, flags: c_int,
            address: *const libc::sockaddr, address_len: libc::socklen_t) -> ssize_t;
        recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t;
        sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t;
        recvmmsg(fd: c_int, messages: *mut libc::mmsghdr, n: c_uint, flags: c_int,
            timeout: *mut libc::timespec) -> c_int;
        sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, n: c_uint, flags: c_int) -> c_int;
        sendfile(out: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t;
        splice(from: c_int, from_at: *mut libc::loff_t, to: c_int, to_at: *mut libc::loff_t,
            len: size_t, flags: c_uint) -> ssize_t;
        connect(fd: c_int, address: *const libc::sockaddr, len: libc::socklen_t) -> c_int;
        accept4(fd: c_int, address: *mut libc::sockaddr, len: *mut libc::socklen_t,
            flags: c_int) -> c_int;
        close(fd: c_int) -> c_int;
        fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
        poll(fds: *mut libc::pollfd, n: nfds_t, timeout: c_int) -> c_int;
        ppoll(fds: *mut libc::pollfd, n: nfds_t, timeout: *const libc::timespec,
            mask: *const libc::sigset_t) -> c_int;
        epoll_ctl(set: c_int, what: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int;
        epoll_pwait(set: c_int, events: *mut libc::epoll_event, most: c_int, timeout: c_int,
            mask: *const libc::sigset_t) -> c_int;
        epoll_pwait2(set: c_int, events: *mut libc::epoll_event, most: c_int,
            timeout: *const libc::timespec, mask: *const libc::sigset_t) -> c_int;
        select(n: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set,
            except: *mut libc::fd_set, timeout: *mut libc::timeval) -> c_int;
        pselect(n: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set,
            except: *mut libc::fd_set, timeout: *const libc::timespec,
            mask: *const libc::sigset_t) -> c_int;
    }
}

next! {
    fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE;
    fileno(file: *mut libc::FILE) -> c_int;
    vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    syscall(n: libc::c_long, a: usize, b: usize, c: usize, d: usize, e: usize,
        f: usize) -> libc::c_long;
    getifaddrs(list: *mut *mut libc::ifaddrs) -> c_int;
    freeifaddrs(list: *mut libc::ifaddrs) -> ();
    prctl(what: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int;
    mlockall(how: c_int) -> c_int;
    munlockall() -> c_int;
    fork() -> pid_t;
    execve(path: *const c_char, argv: *const *const c_char,
        envp: *const *const c_char) -> c_int;
    execvpe(path: *const c_char, argv: *const *const c_char,
        envp: *const *const c_char) -> c_int;
    fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int;
    posix_spawn(pid: *mut pid_t, path: *const c_char,
        actions: *const libc::posix_spawn_file_actions_t,
        attributes: *const libc::posix_spawnattr_t, argv: *const *const c_char,
        envp: *const *const c_char) -> c_int;
    posix_spawnp(pid: *mut pid_t, path: *const c_char,
        actions: *const libc::posix_spawn_file_actions_t,
        attributes: *const libc::posix_spawnattr_t, argv: *const *const c_char,
        envp: *const *const c_char) -> c_int;
}

/// Ends this thread if it was cancelled. Calls by name that do not get to the C library's function
/// are points of cancellation, too.
#[inline]
pub(crate) fn test_cancel() {
    // SAFETY: nothing else is in this section.
    #[unsafe(link_section = "gannet_names")]
    static NEXT: Next = Next::new(c"pthread_testcancel");
    let found = NEXT.found.load(Ordering::Relaxed);
    if !found.is_null() {
        // SAFETY: the C library's function of this name has this signature.
        let test: extern "C-unwind" fn() = unsafe { std::mem::transmute(found) };
        test();
    }
}

/// Bytes of a signal mask, as the kernel counts them.
const MASK_LEN: usize = 8;

/// An outcome of the kernel's as the C library gives it.
fn of_kernel(outcome: isize) -> isize {
    match outcome {
        -4095..0 => {
            crate::errno::set(-(outcome as c_int));
            -1
        }
        outcome => outcome,
    }
}

direct! {
    by crate::border::sleeping_call;
    recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t
        = SYS_recvfrom(fd, to, len, flags);
    sleeping_recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t
        = SYS_recvmsg(fd, message, flags);
}

/// `recvmsg`, which does not sleep if the flags say so.
pub(crate) unsafe fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t {
    direct! {
        at_once(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t
            = SYS_recvmsg(fd, message, flags);
    }
    match flags & libc::MSG_DONTWAIT {
        // SAFETY: as the caller says.
        0 => unsafe { sleeping_recvmsg(fd, message, flags) },
        // SAFETY: as the caller says.
        _ => unsafe { at_once(fd, message, flags) },
    }
}

direct! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int
        = SYS_socket(domain, kind, protocol);
    bind(fd: c_int, address: *const libc::sockaddr, len: libc::socklen_t) -> c_int
        = SYS_bind(fd, address, len);
    listen(fd: c_int, backlog: c_int) -> c_int = SYS_listen(fd, backlog);
    getsockname(fd: c_int, address: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int
        = SYS_getsockname(fd, address, len);
    getpeername(fd: c_int, address: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int
        = SYS_getpeername(fd, address, len);
    shutdown(fd: c_int, how: c_int) -> c_int = SYS_shutdown(fd, how);
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void,
        len: *mut libc::socklen_t) -> c_int = SYS_getsockopt(fd, level, name, value, len);
    connect(fd: c_int, address: *const libc::sockaddr, len: libc::socklen_t) -> c_int
        = SYS_connect(fd, address, len);
    accept4(fd: c_int, address: *mut libc::sockaddr, len: *mut libc::socklen_t,
        flags: c_int) -> c_int = SYS_accept4(fd, address, len, flags);
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void,
        len: libc::socklen_t) -> c_int = SYS_setsockopt(fd, level, name, value, len);
    close(fd: c_int) -> c_int = SYS_close(fd);
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int
        = SYS_close_range(first, last, flags);
    dup(fd: c_int) -> c_int = SYS_dup(fd);
    dup2(fd: c_int, to: c_int) -> c_int = SYS_dup2(fd, to);
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int = SYS_dup3(fd, to, flags);
    fcntl(fd: c_int, command: c_int, argument: usize) -> c_int
        = SYS_fcntl(fd, command, argument);
    ioctl(fd: c_int, request: libc::c_ulong, argument: usize) -> c_int
        = SYS_ioctl(fd, request, argument);
    epoll_create1(flags: c_int) -> c_int = SYS_epoll_create1(flags);
    epoll_ctl(set: c_int, what: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int
        = SYS_epoll_ctl(set, what, fd, event);
}

/// `poll`, which may sleep unless the time is 0.
pub(crate) unsafe fn poll(fds: *mut libc::pollfd, n: nfds_t, timeout: c_int) -> c_int {
    let number = libc::SYS_poll as usize;
    let words = [number, fds.addr(), n as usize, timeout as usize, 0, 0, 0];
    // SAFETY: as the caller says.
    of_kernel(unsafe { waiting_call(&words, timeout != 0, 0) }) as c_int
}

/// `poll` for an answer that does not take long: no signal ends it.
pub(crate) unsafe fn poll_for_answer(fds: *mut libc::pollfd, n: nfds_t, timeout: c_int) -> c_int {
    direct! {
        call(fds: *mut libc::pollfd, n: nfds_t, timeout: c_int) -> c_int
            = SYS_poll(fds, n, timeout);
    }
    // SAFETY: as the caller says.
    unsafe { call(fds, n, timeout) }
}

/// `epoll_pwait`, which may sleep unless the time is 0.
pub(crate) unsafe fn epoll_pwait(
    set: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const libc::sigset_t,
) -> c_int {
    let [number, set] = [libc::SYS_epoll_pwait as usize, set as usize];
    let (events, most) = (events.addr(), most as usize);
    let words = [
        number,
        set,
        events,
        most,
        timeout as usize,
        mask.addr(),
        MASK_LEN,
    ];
    // SAFETY: as the caller says.
    of_kernel(unsafe { waiting_call(&words, timeout != 0, 5) }) as c_int
}

/// The kernel writes what is left of the time, which the C library's `ppoll` keeps from callers.
pub(crate) unsafe fn ppoll(
    fds: *mut libc::pollfd,
    n: nfds_t,
    timeout: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: as the caller says.
    let mut time = unsafe { timeout.as_ref() }.copied();
    let place = time
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: as the caller says.
    let sleeps = unsafe { place.as_ref() }.is_none_or(|time| time.tv_sec != 0 || time.tv_nsec != 0);
    let number = libc::SYS_ppoll as usize;
    let words = [
        number,
        fds.addr(),
        n as usize,
        place.addr(),
        mask.addr(),
        MASK_LEN,
        0,
    ];
    // SAFETY: as the caller says.
    of_kernel(unsafe { waiting_call(&words, sleeps, 4) }) as c_int
}

/// The C library's function of a name, as the last thing that the one which has taken its place
/// does, with the same arguments. Where the call came by the border the kernel makes it once the
/// library is left; what is given back here counts for nothing then.
macro_rules! tail {
    ($name:ident($first:expr $(, $further:expr)*)) => {
        // One of ours is left to the border, where it may sleep.
        crate::real::tail!(
            if !crate::object::is_ours($first as libc::c_int), $name($first $(, $further)*)
        )
    };
    (if $is_looked_at:expr, $name:ident($first:expr)) => {
        crate::real::tail!($is_looked_at; $name($first; 0; ))
    };
    (if $is_looked_at:expr, $name:ident($first:expr, $second:expr $(, $further:expr)*)) => {
        crate::real::tail!($is_looked_at; $name($first; $second as usize; $second $(, $further)*))
    };
    ($is_looked_at:expr; $name:ident($first:expr; $word:expr; $($further:expr),*)) => {
        match crate::border::leave_to_kernel([$first as usize, $word], $is_looked_at) {
            true => -1,
            // SAFETY: the caller's arguments, as they came.
            false => unsafe {
                let outcome = crate::real::of_libc::$name($first $(, $further)*);
                crate::border::passed();
                outcome
            },
        }
    };
}
pub(crate) use tail;

/// A function that the C library does at once for descriptors that are none of ours: most are not,
/// and this is all that their calls cost. For the others there is `$ours`, with the same arguments.
macro_rules! unless_foreign {
    ($ours:ident, $name:ident($first:expr $(, $further:expr)*)) => {
        // SAFETY: the caller's arguments, as they came.
        unsafe {
            match crate::border::is_foreign($first) {
                true => crate::real::of_libc::$name($first $(, $further)*),
                false => $ours($first $(, $further)*),
            }
        }
    };
}
pub(crate) use unless_foreign;
