//! `execl`, `execlp`, `execle`: arguments one by one, as many as there are before a null one. Made
//! into an array, as the other functions of the family take it: the C library's own would start the
//! program without this library hearing of it.

use libc::{c_char, c_int};

/// Words of the call: five in registers behind the path, the others on the stack.
///
/// # Safety
/// A null word is among them; one behind it can be read.
unsafe fn gather(
    registers: *const *const c_char,
    stack: *const *const c_char,
) -> (Vec<*const c_char>, *const c_char) {
    // SAFETY: as the caller says.
    let word = |n: usize| unsafe {
        match n.checked_sub(5) {
            None => *registers.add(n),
            Some(n) => *stack.add(n),
        }
    };
    let mut all = Vec::new();
    loop {
        let next = word(all.len());
        all.push(next);
        if next.is_null() {
            let behind = word(all.len());
            return (all, behind);
        }
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

type Words = *const *const c_char;

unsafe extern "C" fn by_path(path: *const c_char, registers: Words, stack: Words) -> c_int {
    // SAFETY: as the program's call says; the name is this library's.
    unsafe { libc::execve(path, gather(registers, stack).0.as_ptr(), environ) }
}

unsafe extern "C" fn by_name(name: *const c_char, registers: Words, stack: Words) -> c_int {
    // SAFETY: as above.
    unsafe { libc::execvpe(name, gather(registers, stack).0.as_ptr(), environ) }
}

unsafe extern "C" fn with_environment(
    path: *const c_char,
    registers: Words,
    stack: Words,
) -> c_int {
    // SAFETY: as above; the environment is behind the null word.
    unsafe {
        let (arguments, behind) = gather(registers, stack);
        libc::execve(path, arguments.as_ptr(), behind.cast())
    }
}

/// ```text
/// rsp: 0 five words of arguments | 40 | 56 where to return to | 64 the other arguments
/// ```
#[cfg(target_arch = "x86_64")]
macro_rules! listed {
    ($name:ident, $takes:ident) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> c_int {
            std::arch::naked_asm!(
                "sub rsp, 56",
                "mov [rsp], rsi",
                "mov [rsp + 8], rdx",
                "mov [rsp + 16], rcx",
                "mov [rsp + 24], r8",
                "mov [rsp + 32], r9",
                "mov rsi, rsp",
                "lea rdx, [rsp + 64]",
                "call {takes}",
                "add rsp, 56",
                "ret",
                takes = sym $takes,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
listed!(execl, by_path);
#[cfg(target_arch = "x86_64")]
listed!(execlp, by_name);
#[cfg(target_arch = "x86_64")]
listed!(execle, with_environment);
