//! Memory of a program that may not be there: what a system call answers `EFAULT` for.
//!
//! The few instructions that touch it are here and nowhere else. A handler of SIGSEGV and SIGBUS
//! asks [`way_out`] where a thread goes on that faulted among them; without such a handler the
//! process ends, as in any function of a library.
//!
//! ```text
//! copy:  up to 16 bytes by two overlapping words, up to 64 by two or four vectors, then 64 at a
//!        time, and long ones by `rep movsb`, which the kernel's own copies use as well
//! touch: one byte of each page; for writing an `or` with nothing, which no other thread can see
//! ```

#![allow(unsafe_code)]

use rustix::io::Errno;
use std::arch::global_asm;

/// From here on one instruction is faster than a loop.
const LONG: usize = 768;
const PAGE: usize = 4096;

global_asm!(
    ".pushsection .text.gannet_guarded, \"ax\", @progbits",
    ".globl gannet_guarded_copy, gannet_touch_to_read, gannet_touch_to_write",
    ".globl gannet_guarded_end, gannet_guarded_fault",
    ".hidden gannet_guarded_copy, gannet_touch_to_read, gannet_touch_to_write",
    ".hidden gannet_guarded_end, gannet_guarded_fault",
    ".p2align 6",
    // rdi: to, rsi: from, rdx: how many bytes. 0, or 1 after a fault.
    "gannet_guarded_copy:",
    "cmp rdx, 16",
    "jae 16f",
    "cmp edx, 8",
    "jae 8f",
    "cmp edx, 4",
    "jae 4f",
    "test edx, edx",
    "jz 9f",
    // One to three bytes: the first, the middle, the last.
    "mov r9d, edx",
    "shr r9d, 1",
    "movzx eax, byte ptr [rsi]",
    "movzx ecx, byte ptr [rsi + r9]",
    "movzx r8d, byte ptr [rsi + rdx - 1]",
    "mov [rdi], al",
    "mov [rdi + r9], cl",
    "mov [rdi + rdx - 1], r8b",
    "9:",
    "xor eax, eax",
    "ret",
    "4:",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "8:",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "16:",
    "cmp rdx, {long}",
    "jae 3f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "cmp edx, 32",
    "jbe 2f",
    "movups xmm2, [rsi + 16]",
    "movups xmm3, [rsi + rdx - 32]",
    "cmp edx, 64",
    "jbe 5f",
    "movups xmm4, [rsi + rdx - 48]",
    "movups xmm5, [rsi + rdx - 64]",
    // The last 64 bytes are in registers, the others follow in blocks.
    "lea r8, [rdi + rdx - 64]",
    "6:",
    "movups xmm6, [rsi]",
    "movups xmm7, [rsi + 16]",
    "movups xmm8, [rsi + 32]",
    "movups xmm9, [rsi + 48]",
    "movups [rdi], xmm6",
    "movups [rdi + 16], xmm7",
    "movups [rdi + 32], xmm8",
    "movups [rdi + 48], xmm9",
    "add rsi, 64",
    "add rdi, 64",
    "cmp rdi, r8",
    "jb 6b",
    "movups [r8], xmm5",
    "movups [r8 + 16], xmm4",
    "movups [r8 + 32], xmm3",
    "movups [r8 + 48], xmm1",
    "xor eax, eax",
    "ret",
    "5:",
    "movups [rdi + 16], xmm2",
    "movups [rdi + rdx - 32], xmm3",
    "2:",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    "3:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // rdi: the first byte, rsi: the last.
    "gannet_touch_to_read:",
    "7:",
    "movzx eax, byte ptr [rdi]",
    "or rdi, {in_page}",
    "inc rdi",
    "cmp rdi, rsi",
    "jbe 7b",
    "xor eax, eax",
    "ret",
    "gannet_touch_to_write:",
    "7:",
    "lock or byte ptr [rdi], 0",
    "or rdi, {in_page}",
    "inc rdi",
    "cmp rdi, rsi",
    "jbe 7b",
    "xor eax, eax",
    "ret",
    "gannet_guarded_end:",
    // Nothing was pushed, and only registers were used that a caller does not count on.
    "gannet_guarded_fault:",
    "cld",
    "mov eax, 1",
    "ret",
    ".popsection",
    long = const LONG,
    in_page = const PAGE - 1,
);

unsafe extern "C" {
    fn gannet_guarded_copy(to: *mut u8, from: *const u8, len: usize) -> u32;
    fn gannet_touch_to_read(first: usize, last: usize) -> u32;
    fn gannet_touch_to_write(first: usize, last: usize) -> u32;
    fn gannet_guarded_end();
    fn gannet_guarded_fault();
}

/// Where a thread goes on that faulted at `at`; `None` where the fault is another's.
pub fn way_out(at: usize) -> Option<usize> {
    let first = gannet_guarded_copy as *const () as usize;
    let end = gannet_guarded_end as *const () as usize;
    (first..end)
        .contains(&at)
        .then_some(gannet_guarded_fault as *const () as usize)
}

/// Copies `len` bytes; the two places do not overlap, or it does not matter what is there then.
///
/// # Errors
/// `FAULT` when there is no memory, or not for that; a part may have been copied.
///
/// # Safety
/// What can be written of `to` is no other's, and changes in no way that matters meanwhile.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> Result<(), Errno> {
    // SAFETY: as the caller says; a fault is come back from, or ends the process.
    answer(unsafe { gannet_guarded_copy(to, from, len) })
}

/// Whether there is memory to be read.
///
/// # Errors
/// `FAULT` when there is none.
#[inline]
pub fn check_to_read(first: *const u8, len: usize) -> Result<(), Errno> {
    match last_of(first, len)? {
        // SAFETY: only reads, and a fault is come back from.
        Some(last) => answer(unsafe { gannet_touch_to_read(first.addr(), last) }),
        None => Ok(()),
    }
}

/// Whether there is memory to be written.
///
/// # Errors
/// `FAULT` when there is none.
#[inline]
pub fn check_to_write(first: *mut u8, len: usize) -> Result<(), Errno> {
    match last_of(first, len)? {
        // SAFETY: writes what is there, in one step; a fault is come back from.
        Some(last) => answer(unsafe { gannet_touch_to_write(first.addr(), last) }),
        None => Ok(()),
    }
}

/// The last byte, if there is one.
fn last_of(first: *const u8, len: usize) -> Result<Option<usize>, Errno> {
    let Some(more) = len.checked_sub(1) else {
        return Ok(None);
    };
    // (The last page of all is none, so that the loop over pages ends.)
    let last = first.addr().checked_add(more);
    let last = last.filter(|last| *last < usize::MAX - PAGE && first.addr() >= PAGE);
    last.map(Some).ok_or(Errno::FAULT)
}

fn answer(failed: u32) -> Result<(), Errno> {
    match failed {
        0 => Ok(()),
        _ => Err(Errno::FAULT),
    }
}

#[cfg(test)]
mod tests;
