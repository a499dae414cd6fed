//! A static program in a process that the kernel began with another file, the loader: calls whose
//! answer would be the loader's.
//!
//! * `brk`: the end of the process's data is the loader's, whose C library moves it. The program
//!   gets an area of its own, which grows as pages are asked for.
//! * `/proc/self/exe` (and by number): the program's file. Only where it is named as a whole, in
//!   `readlink`, `open` and their like: what other processes see there is the loader.

use super::gate::{self, Words};
use super::{actions, arm, dispatch, sites, tls};
use crate::place;
use libc::{c_char, c_int, c_void};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::rand::GetRandomFlags;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const PAGE: usize = 4096;
/// So many pages more, at most, the data begins.
const RANDOM: u32 = (1 << 28) - 1;
/// Where the data of a static program begins, a random number of pages further: programs lie at
/// the bottom of the address space, the loader from its 85th, libraries up to its 128th tebibyte.
const BRK: usize = 0x2000_0000_0000;
/// How many tries a `brk` has where threads call it at once.
const TRIES: usize = 64;

/// The end of the program's data, and where it began.
static END: AtomicUsize = AtomicUsize::new(0);
static BEGIN: AtomicUsize = AtomicUsize::new(0);
/// The program's file.
static PROGRAM: OnceLock<CString> = OnceLock::new();

/// A static program that is mapped and about to begin.
pub(crate) struct Hosted {
    /// The full path of its file.
    pub(crate) program: CString,
    /// Its code, not to be written.
    pub(crate) code: Vec<Range<usize>>,
}

/// Makes this process, which has one thread, one of a static program: from the return on, system
/// calls of the code of `hosted` come by the border. Why not, if not.
pub(crate) fn host(hosted: Hosted) -> Result<(), &'static str> {
    if !arm::is_raised() {
        return Err(
            "system calls are not taken over in this process (GANNET_INTERCEPT=symbols, or \
            a processor without XSAVEC)",
        );
    }
    if !tls::is_possible() {
        return Err("the kernel does not let programs change the FS register (before Linux 5.9)");
    }
    let mut random = [0; 4];
    let _ = rustix::rand::getrandom(&mut random[..], GetRandomFlags::NONBLOCK);
    let begin = BRK + PAGE * (u32::from_ne_bytes(random) & RANDOM) as usize;
    BEGIN.store(begin, Relaxed);
    END.store(begin, Release);
    let _ = PROGRAM.set(hosted.program);
    dispatch::add(CALLS);
    // While there has been no other thread: then all of it can be changed.
    for code in &hosted.code {
        sites::change_new(code);
    }
    let before = actions::get(SETXID);
    tls::begin_hosting()?;
    actions::put_back(SETXID, before);
    give_back();
    arm::set_traps();
    Ok(())
}

/// Calls that have another answer for a static program.
const CALLS: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_open,
    libc::SYS_openat,
];

/// One of these calls. `None`: for the kernel, as all calls of other programs.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn call(words: &Words) -> Option<isize> {
    let [n, ..] = *words;
    match n as libc::c_long {
        libc::SYS_brk if BEGIN.load(Relaxed) != 0 => Some(brk(words)),
        // SAFETY: as the caller says.
        n if n != libc::SYS_brk && CALLS.contains(&n) => unsafe { named(words) },
        _ => None,
    }
}

/// The signal for which the C library installs a handler with its first thread.
const SETXID: c_int = 33;

/// Gives back what the C library has registered with the kernel for this thread and process: the
/// program finds them as `execve` leaves them.
fn give_back() {
    const UNREGISTER: usize = 1;
    const SIGNATURE: usize = 0x5305_3053;
    // SAFETY: null pointers mean none.
    unsafe {
        let _ = gate::kernel(&[libc::SYS_set_robust_list as usize, 0, 24, 0, 0, 0, 0]);
        let _ = gate::kernel(&[libc::SYS_set_tid_address as usize, 0, 0, 0, 0, 0, 0]);
    }
    let find = |name: &CStr| {
        // SAFETY: a name that ends with a zero byte.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let (offset, size) = (find(c"__rseq_offset"), find(c"__rseq_size"));
    if offset.is_null() || size.is_null() {
        // Before glibc 2.35 nothing is registered.
        return;
    }
    // SAFETY: constants of the C library of these types.
    let (offset, size) = unsafe { (offset.cast::<isize>().read(), size.cast::<u32>().read()) };
    let area = tls::current().wrapping_add_signed(offset);
    // The kernel compares the length with that of the registration, which the C library keeps to
    // itself: 32, or what is of use of a larger area.
    for len in [32, size as usize, size.next_multiple_of(32) as usize] {
        let words = [
            libc::SYS_rseq as usize,
            area,
            len,
            UNREGISTER,
            SIGNATURE,
            0,
            0,
        ];
        // SAFETY: the C library's own area, which the kernel writes to no more.
        if size > 0 && unsafe { gate::kernel(&words) } == 0 {
            break;
        }
    }
}

/// `brk`: the new end, or the one there is where it cannot be moved.
fn brk(words: &Words) -> isize {
    let [_, wanted, ..] = *words;
    let begin = BEGIN.load(Relaxed);
    for _ in 0..TRIES {
        let end = END.load(Acquire);
        if wanted < begin {
            return end as isize;
        }
        let Some((now, then)) = pages(end).zip(pages(wanted)) else {
            return end as isize;
        };
        if then > now && !grow(now, then) {
            // Another thread was faster, or there is no memory.
            if END.load(Acquire) == end {
                return end as isize;
            }
            continue;
        }
        if END.compare_exchange(end, wanted, AcqRel, Acquire).is_err() {
            if then > now {
                // SAFETY: the pages just mapped, which no answer has given to the program.
                let _ = unsafe { rustix::mm::munmap(now as *mut c_void, then - now) };
            }
            continue;
        }
        if then < now {
            // SAFETY: pages that the program has given back.
            let _ = unsafe { rustix::mm::munmap(then as *mut c_void, now - then) };
        }
        return wanted as isize;
    }
    END.load(Acquire) as isize
}

fn pages(at: usize) -> Option<usize> {
    at.checked_next_multiple_of(PAGE)
}

fn grow(from: usize, to: usize) -> bool {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let how = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: new memory where there is none.
    unsafe { rustix::mm::mmap_anonymous(from as *mut c_void, to - from, access, how) }.is_ok()
}

/// `readlink`, `open` and their like: what they answer if it is the program's file that is named.
///
/// # Safety
/// As the call's.
unsafe fn named(words: &Words) -> Option<isize> {
    let [n, a, b, c, d, ..] = *words;
    let is_at = matches!(n as libc::c_long, libc::SYS_readlinkat | libc::SYS_openat);
    let (path, rest) = if is_at { (b, [c, d]) } else { (a, [b, c]) };
    // SAFETY: as the caller says.
    let program = unsafe { program_if_named(path as *const c_char) }?;
    if matches!(n as libc::c_long, libc::SYS_open | libc::SYS_openat) {
        let open = libc::SYS_openat as usize;
        let cwd = libc::AT_FDCWD as usize;
        let [flags, mode] = rest;
        let words = [open, cwd, program.as_ptr().addr(), flags, mode, 0, 0];
        // SAFETY: a path of our own.
        return Some(unsafe { gate::kernel(&words) });
    }
    let [to, len] = rest;
    let bytes = program.to_bytes();
    Some(match len as c_int {
        ..1 => -(libc::EINVAL as isize),
        len => {
            let len = bytes.len().min(len as usize);
            // SAFETY: the program named the place for it.
            match unsafe { place::write_first(to as *mut u8, bytes, len) } {
                Ok(()) => len as isize,
                Err(error) => -(error as isize),
            }
        }
    })
}

/// The program's file, if `path` names it as this process's.
///
/// # Safety
/// `path` is a string, or leads to where nothing is.
pub(crate) unsafe fn program_if_named(path: *const c_char) -> Option<&'static CStr> {
    let program = PROGRAM.get()?;
    // SAFETY: as the caller says.
    let path = unsafe { place::string(path) }?.to_bytes();
    let name = path.strip_prefix(b"/proc/")?.strip_suffix(b"/exe")?;
    let is_own = match name {
        b"self" | b"thread-self" => true,
        number => str::from_utf8(number).ok()?.parse() == Ok(std::process::id()),
    };
    is_own.then_some(program.as_c_str())
}
