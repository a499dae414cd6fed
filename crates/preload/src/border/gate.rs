//! System calls of the library's own, and the way in and out: everything here is written by hand.
//!
//! ```text
//! site (patched): jmp stub -> mov $nr,%eax; lea record,%rcx; jmp entry
//! entry: does the call concern the library?
//!   no:  jmp *record.native: the stub's own `syscall`, and back to the site
//!   yes: registers and vectors saved, the library's stack, `take` (dispatch.rs)
//!        -> back to the site with the result in rax, or to the kernel after all
//! ```
//! Of the registers only rax, rcx and r11 may differ after a system call. rcx leads to the record
//! of the site: where the program goes on, and where the call is made by the kernel.

use super::dispatch::{self, KINDS, NUMBERS};
use super::thread::at;
use super::{arm, clone, deliver};
use crate::object;
use std::arch::{asm, naked_asm};
use std::sync::atomic::AtomicU32;

/// The parts of the vector state to be saved: what the processor has of x87, SSE, AVX, AVX-512.
pub(super) static VECTOR_PARTS: AtomicU32 = AtomicU32::new(0);

/// Number and arguments, in the order in which the entry pushes them.
pub(crate) type Words = [usize; 7];

/// The system call itself: `-errno`, or the value.
///
/// # Safety
/// As the call's.
#[inline]
pub(crate) unsafe fn kernel(words: &Words) -> isize {
    let [n, a, b, c, d, e, f] = *words;
    let outcome;
    // SAFETY: as the caller says; the kernel changes no other registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") n as isize => outcome,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    outcome
}

/// The library's thread-local storage, where the program has another C library or none. Takes rax.
macro_rules! to_library {
    () => {
        concat!(
            "cmp qword ptr gs:[{library_tls}], 0\n",
            "je 9f\n",
            "rdfsbase rax\n",
            "mov gs:[{program_tls}], rax\n",
            "mov rax, gs:[{library_tls}]\n",
            "wrfsbase rax\n",
            "9:\n",
        )
    };
}

/// The program's thread-local storage again. Takes rax.
macro_rules! to_program {
    () => {
        concat!(
            "cmp qword ptr gs:[{library_tls}], 0\n",
            "je 9f\n",
            "mov rax, gs:[{program_tls}]\n",
            "wrfsbase rax\n",
            "9:\n",
        )
    };
}

/// A call that may sleep, unless a signal waits by then: no moment lies between the look and the
/// sleep, since [`super::deferred`] ends the sleep of a thread that it finds between the two.
///
/// # Safety
/// As the call's. Only while the border stands.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn kernel_unless_kept(words: &Words) -> isize {
    naked_asm!(
        "mov rax, [rdi]",
        "mov rsi, [rdi + 16]",
        "mov rdx, [rdi + 24]",
        "mov r10, [rdi + 32]",
        "mov r8, [rdi + 40]",
        "mov r9, [rdi + 48]",
        "mov rdi, [rdi + 8]",
        ".globl gannet_sleep_from",
        ".hidden gannet_sleep_from",
        "gannet_sleep_from:",
        "cmp dword ptr gs:[{kept}], 0",
        "jne 2f",
        ".globl gannet_sleep_call",
        ".hidden gannet_sleep_call",
        "gannet_sleep_call:",
        "syscall",
        "ret",
        "2:",
        ".globl gannet_sleep_out",
        ".hidden gannet_sleep_out",
        "gannet_sleep_out:",
        "mov rax, -{restart}",
        "ret",
        kept = const at::KEPT,
        restart = const deliver::RESTART,
    )
}

unsafe extern "C" {
    static gannet_sleep_from: u8;
    static gannet_sleep_call: u8;
    static gannet_sleep_out: u8;
}

/// Where a thread goes on that was interrupted at `at`, if that is on its way into a sleep, or in
/// one that the kernel would begin anew.
pub(super) fn instead_of_sleep(at: usize) -> Option<usize> {
    let [from, call, out] = [
        &raw const gannet_sleep_from,
        &raw const gannet_sleep_call,
        &raw const gannet_sleep_out,
    ]
    .map(|place| place.addr());
    (from..=call).contains(&at).then_some(out)
}

/// Pushes what a system call keeps onto the library's stack, and saves the vectors.
macro_rules! save {
    () => {
        concat!(
            "mov gs:[{user}], rsp\n",
            "mov rsp, gs:[{stack}]\n",
            "push rcx\npush r9\npush r8\npush r10\npush rdx\npush rsi\npush rdi\npush rax\n",
            "mov rdi, gs:[{this}]\n",
            "mov eax, dword ptr [rip + {parts}]\n",
            "xor edx, edx\n",
            "xsavec64 [rdi + {vectors}]\n",
            to_library!(),
        )
    };
}

/// The other way round; rax is what lies in its place on the stack.
macro_rules! restore {
    () => {
        concat!(
            to_program!(),
            "mov rdi, gs:[{this}]\n",
            "mov eax, dword ptr [rip + {parts}]\n",
            "xor edx, edx\n",
            "xrstor64 [rdi + {vectors}]\n",
            "pop rax\npop rdi\npop rsi\npop rdx\npop r10\npop r8\npop r9\npop rcx\n",
            "mov rsp, gs:[{user}]\n",
        )
    };
}

/// A call whose first argument is a descriptor.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter_first() {
    naked_asm!(
        "mov r11d, edi",
        "cmp r11d, {table}",
        "jae 2f",
        "shl r11, 3",
        "add r11, qword ptr [rip + {descriptors}]",
        "cmp qword ptr [r11], 0",
        "je 2f",
        "jmp {any}",
        "2:",
        "jmp qword ptr [rcx + 8]",
        table = const object::TABLE,
        descriptors = sym dispatch::DESCRIPTORS,
        any = sym enter_any,
    )
}

/// A call that may concern the library in another way.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter_any() {
    naked_asm!(
        "cmp dword ptr gs:[{inside}], 0",
        "jne 2f",
        "mov dword ptr gs:[{inside}], 1",
        "jmp {trapped}",
        "2:",
        "jmp qword ptr [rcx + 8]",
        inside = const at::INSIDE,
        trapped = sym enter_marked,
    )
}

/// As [`enter_any`], with the thread marked as inside already.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter_marked() {
    naked_asm!(
        save!(),
        "mov rdi, rsp",
        "call {take}",
        "mov qword ptr [rsp], rax",
        restore!(),
        "cmp dword ptr gs:[{native}], 0",
        "jne 3f",
        "mov dword ptr gs:[{inside}], 0",
        "jmp {leave}",
        "3:",
        "mov dword ptr gs:[{native}], 0",
        "mov dword ptr gs:[{inside}], 0",
        "cmp dword ptr gs:[{kept}], 0",
        "jne {deliver_native}",
        "jmp qword ptr [rcx + 8]",
        inside = const at::INSIDE,
        native = const at::NATIVE,
        user = const at::USER_STACK,
        stack = const at::STACK,
        this = const at::THIS,
        vectors = const at::VECTORS,
        library_tls = const at::LIBRARY_TLS,
        program_tls = const at::PROGRAM_TLS,
        parts = sym VECTOR_PARTS,
        take = sym dispatch::take,
        kept = const at::KEPT,
        leave = sym deliver::leave,
        deliver_native = sym deliver::before_native,
    )
}

/// A call whose number only the register knows.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter_variable() {
    naked_asm!(
        "cmp rax, {numbers}",
        "jae 2f",
        "lea r11, [rip + {kinds}]",
        "movzx r11d, byte ptr [r11 + rax]",
        "cmp r11d, 1",
        "jb 2f",
        "je {first}",
        "cmp r11d, 3",
        "jb {any}",
        "je {clone}",
        "jmp {exit}",
        "2:",
        "jmp qword ptr [rcx + 8]",
        numbers = const NUMBERS,
        kinds = sym KINDS,
        first = sym enter_first,
        any = sym enter_any,
        clone = sym enter_clone,
        exit = sym enter_exit,
    )
}

/// `clone`, `clone3`, `fork`, `vfork`. The child's block travels in r9, which none of them reads.
/// During the call the registers are the program's; the frame stays on the library's stack.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter_clone() {
    naked_asm!(
        "cmp dword ptr gs:[{inside}], 0",
        "jne 2f",
        "mov dword ptr gs:[{inside}], 1",
        "jmp {marked}",
        "2:",
        "jmp qword ptr [rcx + 8]",
        inside = const at::INSIDE,
        marked = sym enter_clone_marked,
    )
}

/// As [`enter_clone`], with the thread marked as inside already.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter_clone_marked() {
    naked_asm!(
        save!(),
        "mov rdi, rsp",
        "call {prepare}",
        "test rax, rax",
        "js 5f",
        "mov r11, rax",
        "mov gs:[{frame}], rsp",
        // What the child begins with: the registers as they are at the site.
        "mov rdi, gs:[{this}]",
        "mov eax, dword ptr [rip + {parts}]",
        "xor edx, edx",
        "xrstor64 [rdi + {vectors}]",
        to_program!(),
        "mov rax, [rsp]",
        "mov rdi, [rsp + 8]",
        "mov rsi, [rsp + 16]",
        "mov rdx, [rsp + 24]",
        "mov r10, [rsp + 32]",
        "mov r8, [rsp + 40]",
        "mov r9, [rsp + 48]",
        "mov rcx, [rsp + 56]",
        "mov [r11 + {registers} + 40], r9",
        "mov rcx, [rcx]",
        "mov [r11 + {back}], rcx",
        "mov r9, r11",
        "mov rsp, gs:[{user}]",
        "syscall",
        "test rax, rax",
        "jz {begin}",
        "mov rsp, gs:[{frame}]",
        "mov [rsp], rax",
        to_library!(),
        "mov rdi, [rsp]",
        "mov rsi, r9",
        "call {done}",
        "mov rax, [rsp]",
        "5:",
        "mov [rsp], rax",
        restore!(),
        "mov dword ptr gs:[{inside}], 0",
        "jmp {leave}",
        leave = sym deliver::leave,
        inside = const at::INSIDE,
        user = const at::USER_STACK,
        stack = const at::STACK,
        frame = const at::FRAME,
        this = const at::THIS,
        vectors = const at::VECTORS,
        registers = const at::REGISTERS,
        back = const at::BACK,
        library_tls = const at::LIBRARY_TLS,
        program_tls = const at::PROGRAM_TLS,
        parts = sym VECTOR_PARTS,
        prepare = sym clone::prepare,
        done = sym clone::done,
        begin = sym begin_child,
    )
}

/// What a child does first, with its block in r9 and all else as at the site.
#[unsafe(naked)]
unsafe extern "C" fn begin_child() {
    naked_asm!(
        "mov [r9 + {registers}], rdi",
        "mov [r9 + {registers} + 8], rsi",
        "mov [r9 + {registers} + 16], rdx",
        "mov [r9 + {registers} + 24], r10",
        "mov [r9 + {registers} + 32], r8",
        "mov [r9 + {registers} + 48], rsp",
        "mov rsi, r9",
        "mov edi, {set_gs}",
        "mov eax, {arch_prctl}",
        "syscall",
        "mov rsp, [r9 + {stack}]",
        "mov eax, dword ptr [rip + {parts}]",
        "xor edx, edx",
        "xsavec64 [r9 + {vectors}]",
        to_library!(),
        "mov rdi, r9",
        "call {child}",
        "mov r9, gs:[{this}]",
        "mov eax, dword ptr [rip + {parts}]",
        "xor edx, edx",
        "xrstor64 [r9 + {vectors}]",
        to_program!(),
        "mov rdi, [r9 + {registers}]",
        "mov rsi, [r9 + {registers} + 8]",
        "mov rdx, [r9 + {registers} + 16]",
        "mov r10, [r9 + {registers} + 24]",
        "mov r8, [r9 + {registers} + 32]",
        "mov rsp, [r9 + {registers} + 48]",
        "mov r9, [r9 + {registers} + 40]",
        "xor eax, eax",
        "mov rcx, gs:[{this}]",
        "lea rcx, [rcx + {back}]",
        "mov dword ptr gs:[{inside}], 0",
        "jmp {leave}",
        leave = sym deliver::leave,
        inside = const at::INSIDE,
        stack = const at::STACK,
        this = const at::THIS,
        vectors = const at::VECTORS,
        registers = const at::REGISTERS,
        back = const at::BACK,
        library_tls = const at::LIBRARY_TLS,
        program_tls = const at::PROGRAM_TLS,
        parts = sym VECTOR_PARTS,
        set_gs = const arm::ARCH_SET_GS,
        arch_prctl = const libc::SYS_arch_prctl,
        child = sym clone::child,
    )
}

/// All signals, for the mask of a thread that ends.
static EVERY_SIGNAL: u64 = u64::MAX;

/// A thread ends. No handler may run once its block is another's.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter_exit() {
    naked_asm!(
        "mov r12, rdi",
        "mov eax, {sigprocmask}",
        "mov edi, 2",
        "lea rsi, [rip + {every}]",
        "xor edx, edx",
        "mov r10d, 8",
        "syscall",
        "mov rdi, r12",
        "mov eax, {exit}",
        "mov dword ptr gs:[{free}], 1",
        "syscall",
        "ud2",
        sigprocmask = const libc::SYS_rt_sigprocmask,
        every = sym EVERY_SIGNAL,
        exit = const libc::SYS_exit,
        free = const at::FREE,
    )
}

/// The kernel's part of a call from a site that stays as it is: there is no stub whose `syscall`
/// knows where to go on, so that this lies on the program's stack, below what leaf functions use.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn native_unpatched() {
    naked_asm!(
        "lea rsp, [rsp - 128]",
        "push qword ptr [rcx]",
        "syscall",
        "pop rcx",
        "lea rsp, [rsp + 128]",
        "jmp rcx",
    )
}

/// Where handlers return to. Unwinders know the end of a handler by these nine bytes, and look at
/// the byte before them first, which must not belong to another function.
#[unsafe(naked)]
unsafe extern "C" fn end_of_handler() {
    naked_asm!(
        "nop",
        ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05",
        "ud2"
    )
}

/// The address that handlers return to.
pub(super) fn signal_return() -> usize {
    end_of_handler as *const () as usize + 1
}
