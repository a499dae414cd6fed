//! `FILE`s over streams: `fdopen` and `dprintf`. The C library's own read and write without a name
//! that could be taken, so such a `FILE` is one of cookies, which come back to this library.

use crate::border;
use crate::object::{self, Kind};
use crate::{errno, real};
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `fopencookie` takes.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int>,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
}

/// The `FILE`s of ours, by address, with their descriptors.
static FILES: Mutex<Vec<(usize, c_int)>> = Mutex::new(Vec::new());

/// How many there have been: as long as there was none, nobody has to look.
static MADE: AtomicUsize = AtomicUsize::new(0);

fn files() -> MutexGuard<'static, Vec<(usize, c_int)>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Around a fork: no other thread is inside while this is held.
pub(super) fn quiesce() -> impl Drop {
    files()
}

fn is_stream(fd: c_int) -> bool {
    object::find(fd).is_some_and(|object| object.kind() == Kind::Stream)
}

unsafe extern "C" fn read(cookie: *mut c_void, to: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    unsafe { libc::read(cookie as usize as c_int, to.cast(), len) }
}

/// All of it: what is written less ends the `FILE` with an error.
unsafe extern "C" fn write(cookie: *mut c_void, from: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    let done = unsafe { write_all(cookie as usize as c_int, from, len) };
    // A cookie says 0 for an error, never less.
    done as ssize_t
}

/// # Safety
/// `from` can be read for `len` bytes.
unsafe fn write_all(fd: c_int, from: *const c_char, len: usize) -> usize {
    let mut done = 0;
    while done < len {
        // SAFETY: as the caller says.
        let n = unsafe { libc::write(fd, from.add(done).cast(), len - done) };
        match usize::try_from(n) {
            Ok(n) if n > 0 => done += n,
            _ => break,
        }
    }
    done
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    let fd = cookie as usize as c_int;
    {
        let _busy = border::enter();
        files().retain(|(_, of)| *of != fd);
    }
    // SAFETY: no pointers.
    unsafe { libc::close(fd) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if !is_stream(fd) {
        // SAFETY: passed on.
        return unsafe { real::fdopen(fd, mode) };
    }
    let functions = Functions {
        read,
        write,
        seek: None,
        close,
    };
    // SAFETY: the mode is the caller's; the cookie is a number.
    let file = unsafe { fopencookie(fd as usize as *mut c_void, mode, functions) };
    if !file.is_null() {
        let _busy = border::enter();
        let mut files = files();
        files.retain(|(at, _)| *at != file as usize);
        files.push((file as usize, fd));
        MADE.fetch_add(1, Relaxed);
    }
    file
}

/// The descriptor behind a `FILE` of ours.
fn number_of(file: *mut FILE) -> Option<c_int> {
    if MADE.load(Relaxed) == 0 {
        return None;
    }
    let _busy = border::enter();
    let files = files();
    let found = files.iter().find(|(at, _)| *at == file as usize);
    found.map(|(_, fd)| *fd)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fileno(file: *mut FILE) -> c_int {
    // SAFETY: passed on.
    number_of(file).unwrap_or_else(|| unsafe { real::fileno(file) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fileno_unlocked(file: *mut FILE) -> c_int {
    // SAFETY: passed on.
    unsafe { fileno(file) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
    if !is_stream(fd) {
        // SAFETY: passed on.
        return unsafe { real::vdprintf(fd, format, list) };
    }
    let mut text = std::ptr::null_mut();
    // SAFETY: a place of our own; the rest is the caller's.
    let len = unsafe { vasprintf(&raw mut text, format, list) };
    let Ok(wanted) = usize::try_from(len) else {
        return len;
    };
    // SAFETY: as long as said.
    let done = unsafe { write_all(fd, text, wanted) };
    let error = errno::get();
    // SAFETY: made by the C library just now.
    unsafe { libc::free(text.cast()) };
    if done < wanted {
        errno::set(error);
        return -1;
    }
    len
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __vdprintf_chk(
    fd: c_int,
    _flag: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: passed on.
    unsafe { vdprintf(fd, format, list) }
}

/// Makes a list of the arguments behind the first `$named` (of words), and calls `vdprintf`.
///
/// ```text
/// rsp: 0 six words of arguments | 48 eight of 16 bytes | 176 the list (24) | 200 .. 216
/// ```
#[cfg(target_arch = "x86_64")]
macro_rules! with_list {
    ($name:ident, $format:literal, $named:literal) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> c_int {
            std::arch::naked_asm!(
                "sub rsp, 216",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "movaps [rsp + 48], xmm0",
                "movaps [rsp + 64], xmm1",
                "movaps [rsp + 80], xmm2",
                "movaps [rsp + 96], xmm3",
                "movaps [rsp + 112], xmm4",
                "movaps [rsp + 128], xmm5",
                "movaps [rsp + 144], xmm6",
                "movaps [rsp + 160], xmm7",
                concat!("mov rsi, ", $format),
                concat!("mov dword ptr [rsp + 176], ", $named),
                "mov dword ptr [rsp + 180], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                "lea rdx, [rsp + 176]",
                "call {list}",
                "add rsp, 216",
                "ret",
                list = sym vdprintf,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
with_list!(dprintf, "rsi", 16);
#[cfg(target_arch = "x86_64")]
with_list!(__dprintf_chk, "rdx", 24);
