//! Where Go's system calls arrive. Nothing of a goroutine's stack may be used, so all of it is
//! written by hand: registers, one word for each thread, and then a stack of the library's.
//!
//! The word (`gannet_go_stack`) is 0 as long as the thread has no stack, 1 while it is in use, else
//! where the stack begins. Its first stack a thread makes on one that all have in common, behind a
//! lock: it holds for the microseconds that an `mmap` takes.
//!
//! Registers, as Go's internal convention for calls has them (`abi-internal.md` of Go's
//! repository): all may be changed but r14 (the goroutine), rsp and rbp; xmm15 is zero.

use super::{call, fork as forking};
use crate::object;
use std::arch::{global_asm, naked_asm};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// Where `Syscall6` goes on.
pub(super) static BEHIND: AtomicUsize = AtomicUsize::new(0);
/// Where `rawVforkSyscall` goes on.
pub(super) static BEHIND_FORK: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a thread's stack. Only what is used of it is memory.
const STACK: usize = 512 << 10;
/// Bytes at its end that are none, so that too much ends the program and not others' memory.
const GUARD: usize = 4096;
/// Bytes of the stack on which a thread's own is made.
const FIRST: usize = 64 << 10;

#[repr(C, align(16))]
struct First(UnsafeCell<[u8; FIRST]>);
// SAFETY: used behind `LOCK`.
unsafe impl Sync for First {}
static FIRST_STACK: First = First(UnsafeCell::new([0; FIRST]));
static LOCK: AtomicU32 = AtomicU32::new(0);

global_asm!(
    ".pushsection .tbss.gannet_go_stack, \"awT\", @nobits",
    ".globl gannet_go_stack",
    ".hidden gannet_go_stack",
    ".type gannet_go_stack, @object",
    ".size gannet_go_stack, 8",
    ".p2align 3",
    "gannet_go_stack: .zero 8",
    ".popsection",
);

/// In place of `Syscall6`'s beginning.
///
/// Foreign calls cost two loads and a jump. Labels: 2 the kernel's, 3 ours, 4 there is a stack.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn call() {
    naked_asm!(
        "mov r10, rsi",
        "mov rdx, rdi",
        "mov rsi, rcx",
        "mov rdi, rbx",
        "cmp rax, {numbers}",
        "jae 2f",
        "lea r11, [rip + {concerns}]",
        "movzx ecx, byte ptr [r11 + rax]",
        "cmp ecx, 1",
        "jb 2f",
        "ja 3f",
        "cmp edi, {table}",
        "jae 2f",
        "mov ecx, edi",
        "lea r11, [rip + {descriptors}]",
        "cmp qword ptr [r11 + rcx * 8], 0",
        "jne 3f",
        "2:",
        "syscall",
        "jmp qword ptr [rip + {behind}]",
        "3:",
        "mov r11, qword ptr [rip + gannet_go_stack@GOTTPOFF]",
        "mov rcx, qword ptr fs:[r11]",
        "cmp rcx, 1",
        "je 2b",
        "ja 4f",
        "lea r13, [rip + 4f]",
        "jmp {make}",
        "4:",
        "test rcx, rcx",
        "jz 2b",
        "mov qword ptr fs:[r11], 1",
        "mov rbx, rsp",
        "mov rsp, rcx",
        "push rcx",
        "push r9",
        "push r8",
        "push r10",
        "push rdx",
        "push rsi",
        "push rdi",
        "push rax",
        "mov rdi, rsp",
        "call {take}",
        "mov rdx, qword ptr [rsp + 24]",
        "mov rcx, qword ptr [rsp + 56]",
        "mov rsp, rbx",
        "mov r11, qword ptr [rip + gannet_go_stack@GOTTPOFF]",
        "mov qword ptr fs:[r11], rcx",
        "xorps xmm15, xmm15",
        "jmp qword ptr [rip + {behind}]",
        numbers = const call::NUMBERS,
        concerns = sym call::CONCERNS,
        table = const object::TABLE,
        descriptors = sym object::DESCRIPTORS,
        behind = sym BEHIND,
        make = sym make,
        take = sym call::take,
    )
}

/// In place of the end of what `rawVforkSyscall` does before its system call. The child has all
/// memory in common with its parent, which waits, and so the thread's stack: nothing of the
/// parent's is on it meanwhile. The word is the parent's again when the child has gone on from the
/// middle of a call.
///
/// Labels: 2 without us, 4 there is a stack, 5 the child.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn fork() {
    naked_asm!(
        "xor r9d, r9d",
        "mov rax, qword ptr [rsp + 8]",
        "pop r12",
        "mov r11, qword ptr [rip + gannet_go_stack@GOTTPOFF]",
        "mov rcx, qword ptr fs:[r11]",
        "cmp rcx, 1",
        "je 2f",
        "ja 4f",
        "lea r13, [rip + 4f]",
        "jmp {make}",
        "2:",
        "syscall",
        "jmp qword ptr [rip + {behind}]",
        "4:",
        "test rcx, rcx",
        "jz 2b",
        "mov qword ptr fs:[r11], 1",
        "mov r13, rcx",
        "mov rbx, rsp",
        "mov rsp, rcx",
        "push rax",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {begin}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rax",
        "xor r10d, r10d",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "mov rsp, rbx",
        "mov r11, qword ptr [rip + gannet_go_stack@GOTTPOFF]",
        "mov qword ptr fs:[r11], r13",
        "syscall",
        "test rax, rax",
        "jz 5f",
        "mov r11, qword ptr [rip + gannet_go_stack@GOTTPOFF]",
        "mov qword ptr fs:[r11], 1",
        "mov rsp, r13",
        "push rax",
        "push rax",
        "mov rdi, rax",
        "call {end}",
        "pop rax",
        "pop rax",
        "mov rsp, rbx",
        "mov r11, qword ptr [rip + gannet_go_stack@GOTTPOFF]",
        "mov qword ptr fs:[r11], r13",
        "5:",
        "xorps xmm15, xmm15",
        "jmp qword ptr [rip + {behind}]",
        behind = sym BEHIND_FORK,
        make = sym make,
        begin = sym forking::begin,
        end = sym forking::end,
    )
}

/// Makes a stack for this thread and goes on at r13: rcx is where it begins, or 0; r11 where the
/// word is. Keeps all else.
#[unsafe(naked)]
unsafe extern "C" fn make() {
    naked_asm!(
        "mov qword ptr fs:[r11], 1",
        "2:",
        "mov ecx, 1",
        "xchg dword ptr [rip + {lock}], ecx",
        "test ecx, ecx",
        "jz 3f",
        "pause",
        "jmp 2b",
        "3:",
        "mov rcx, rsp",
        "lea rsp, [rip + {first} + {first_len}]",
        "push rcx",
        "push rax",
        "push rdi",
        "push rsi",
        "push rdx",
        "push r10",
        "push r8",
        "push r9",
        "call {map}",
        "mov rcx, rax",
        "pop r9",
        "pop r8",
        "pop r10",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rax",
        "pop rsp",
        "mov dword ptr [rip + {lock}], 0",
        "xorps xmm15, xmm15",
        "mov r11, qword ptr [rip + gannet_go_stack@GOTTPOFF]",
        "mov qword ptr fs:[r11], rcx",
        "jmp r13",
        lock = sym LOCK,
        first = sym FIRST_STACK,
        first_len = const FIRST,
        map = sym map,
    )
}

/// The thread has no stack any more.
#[unsafe(naked)]
unsafe extern "C" fn forget() {
    naked_asm!(
        "mov r11, qword ptr [rip + gannet_go_stack@GOTTPOFF]",
        "mov qword ptr fs:[r11], 0",
        "ret",
    )
}

/// A thread's stack, given back when it ends.
struct Stack(Cell<usize>);

impl Drop for Stack {
    fn drop(&mut self) {
        let at = self.0.replace(0);
        if at != 0 {
            // SAFETY: a thread that ends is not on it.
            unsafe {
                forget();
                let _ = rustix::mm::munmap(at as *mut _, STACK);
            }
        }
    }
}

thread_local! {
    static OWN: Stack = const { Stack(Cell::new(0)) };
}

/// A new stack for this thread: where it begins, which is its end; 0 if there is no memory.
extern "C" fn map() -> usize {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let how = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    // SAFETY: new memory.
    let mapped = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), STACK, access, how) };
    let Ok(at) = mapped else {
        return 0;
    };
    // SAFETY: within what was just made.
    let _ = unsafe { rustix::mm::mprotect(at, GUARD, MprotectFlags::empty()) };
    // A thread that is ending already keeps it for ever.
    let _ = OWN.try_with(|own| own.0.set(at as usize));
    at as usize + STACK
}
