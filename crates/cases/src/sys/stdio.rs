//! `FILE`s over sockets, and calls by their number.

use super::Ret;
use super::transfer::Got;
use crate::far;
use libc::{FILE, c_char, c_int, c_long, c_void};
use std::ffi::CStr;

unsafe extern "C" {
    fn dprintf(fd: c_int, format: *const c_char, ...) -> c_int;
}

/// A `FILE`, as a number that is no pointer to anybody else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stdio(usize);

impl Stdio {
    fn file(self) -> *mut FILE {
        self.0 as *mut FILE
    }

    pub(crate) fn fileno(self) -> Ret {
        call!(fileno(self.file()))
    }

    /// `fputs` and `fflush`.
    pub(crate) fn put(self, text: &CStr) -> Ret {
        call!(fputs(text.as_ptr(), self.file()));
        call!(fflush(self.file()))
    }

    /// `fgets`: a line.
    pub(crate) fn line(self) -> String {
        let mut buffer = [0_u8; 100];
        // SAFETY: a buffer of our own, as long as said.
        let got = unsafe { libc::fgets(buffer.as_mut_ptr().cast(), 100, self.file()) };
        let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
        match got.is_null() {
            true => "end".to_owned(),
            false => text.to_string_lossy().into_owned(),
        }
    }

    pub(crate) fn close(self) -> Ret {
        call!(fclose(self.file()))
    }
}

pub(crate) fn fdopen(fd: i32, mode: &CStr) -> Stdio {
    far::here(fd);
    // SAFETY: a string with its end.
    Stdio(unsafe { libc::fdopen(fd, mode.as_ptr()) } as usize)
}

/// `dprintf` of more arguments than there are registers.
pub(crate) fn print_many(fd: i32) -> Ret {
    far::here(fd);
    let format = c"%d %s %.2f %d %d %d %d %.1f\n".as_ptr();
    let word = c"two".as_ptr();
    // SAFETY: what the format says.
    let ret = unsafe { dprintf(fd, format, 1, word, 3.25, 4, 5, 6, 7, 8.5) };
    Ret::of(ret.into())
}

/// `syscall(n, fd)`.
pub(crate) fn by_number(n: c_long, fd: i32) -> Ret {
    far::here(fd);
    call!(syscall(n, fd))
}

/// `syscall(SYS_read, fd, ..)`.
pub(crate) fn read_by_number(fd: i32, len: usize) -> Got {
    far::here(fd);
    let mut buffer = vec![0_u8; len];
    let place = buffer.as_mut_ptr().cast::<c_void>();
    let ret = call!(syscall(libc::SYS_read, fd, place, len));
    Got::of(ret, buffer)
}

/// `syscall(SYS_write, fd, ..)`.
pub(crate) fn write_by_number(fd: i32, data: &[u8]) -> Ret {
    far::here(fd);
    let bytes = data.as_ptr().cast::<c_void>();
    call!(syscall(libc::SYS_write, fd, bytes, data.len()))
}
