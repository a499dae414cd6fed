//! What lies on the stack of a new program, as the kernel has put it there for the loader (execve,
//! System V ABI): the number of arguments, the arguments, the environment, and the auxiliary
//! vector. The first two are the program's own; the last one is changed in place.

use libc::c_char;
use std::ffi::CStr;

/// The kernel's block of words at the end of the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// Where the number of arguments is: the stack pointer of a program that begins.
    first: *mut usize,
}

impl Block {
    /// The block whose arguments begin at `argv`.
    ///
    /// # Safety
    /// `argv` is what `main` was called with by the C library, which hands on the kernel's.
    pub(super) unsafe fn of(argv: *mut *mut c_char) -> Block {
        // SAFETY: the number stands before the arguments.
        let first = unsafe { argv.cast::<usize>().sub(1) };
        Block { first }
    }

    pub(super) fn stack(self) -> usize {
        self.first.addr()
    }

    pub(super) fn argv(self) -> *const *const c_char {
        // SAFETY: one word further.
        unsafe { self.first.add(1) }.cast()
    }

    pub(super) fn envp(self) -> *const *const c_char {
        // SAFETY: behind as many arguments as there are, and the null one.
        unsafe { self.first.add(*self.first + 2) }.cast()
    }

    /// The value of a variable of the environment, `start` its name and `=`.
    pub(super) fn variable(self, start: &str) -> Option<&'static CStr> {
        let mut at = self.envp();
        // SAFETY: strings up to a null pointer, for as long as the process lives.
        unsafe {
            while !(*at).is_null() {
                if CStr::from_ptr(*at).to_bytes().starts_with(start.as_bytes()) {
                    return Some(CStr::from_ptr((*at).add(start.len())));
                }
                at = at.add(1);
            }
        }
        None
    }

    /// Gives entries of the auxiliary vector other values.
    ///
    /// # Safety
    /// The values are right for the program that is to begin.
    pub(super) unsafe fn set(self, values: &[(libc::c_ulong, usize)]) {
        let mut at = self.envp().cast_mut().cast::<usize>();
        // SAFETY: the vector stands behind the environment's null pointer, pairs up to AT_NULL.
        unsafe {
            while *at != 0 {
                at = at.add(1);
            }
            at = at.add(1);
            while *at != libc::AT_NULL as usize {
                if let Some((_, value)) = values.iter().find(|(kind, _)| *kind as usize == *at) {
                    at.add(1).write(*value);
                }
                at = at.add(2);
            }
        }
    }
}
