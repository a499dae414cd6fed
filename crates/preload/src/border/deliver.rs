//! The way out of the library, and the handlers of signals that waited for it.
//!
//! A handler's frame is made as the kernel makes it, on the stack that the program wants for it: so
//! handlers may change the context or leave by `siglongjmp`, and unwinders find their way. The
//! handler is entered by `rt_sigreturn`, which sets its mask, its registers and its stack at once.

use super::actions::Action;
use super::deferred::{self, Context, VECTORS_ABOUT, VectorsAbout};
use super::gate::{self, VECTOR_PARTS};
use super::sites;
use super::thread::{self, Thread, at};
use libc::c_int;
use std::arch::naked_asm;
use std::sync::atomic::Ordering::Relaxed;

/// The call is made again if the handler was installed with `SA_RESTART`; otherwise it ends with
/// `EINTR`. (The kernel uses the same numbers inside.)
pub(crate) const RESTART: c_int = 512;
/// The call is made again: a signal came before it did anything.
pub(crate) const RESTART_ALWAYS: c_int = 513;

/// What a leaf function may use below its stack pointer.
const RED_ZONE: u64 = 128;
/// Flags of the processor where a handler begins: interrupts, as always.
const FLAGS: u64 = 0x202;
/// `_fpx_sw_bytes`, and the number behind the saved vectors.
const MAGIC: u32 = 0x4650_5853;
const MAGIC_END: u32 = 0x4650_5845;
/// Bytes of saved vectors that are believed. (AMX makes them 11 KiB.)
const VECTORS_MOST: u32 = 64 << 10;
const SS_DISABLE: u64 = 2;
const SS_AUTODISARM: u64 = 1 << 31;
/// The header behind the 512 bytes of x87 and SSE.
const XSAVE_HEADER: u64 = 512;

/// The last instructions: all registers are the program's, rcx leads to where it goes on.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave() {
    naked_asm!(
        "mov dword ptr gs:[{inside}], 0",
        ".globl gannet_leave_from",
        ".hidden gannet_leave_from",
        "gannet_leave_from:",
        "cmp dword ptr gs:[{kept}], 0",
        "jne 2f",
        ".globl gannet_leave_to",
        ".hidden gannet_leave_to",
        "gannet_leave_to:",
        "jmp qword ptr [rcx]",
        "2:",
        // A call that the library itself makes for a call by name.
        "cmp dword ptr gs:[{busy}], 0",
        "jne 3f",
        "mov gs:[{user}], rsp",
        "mov r11, [rcx]",
        "jmp {begin}",
        "3:",
        "jmp qword ptr [rcx]",
        inside = const at::INSIDE,
        kept = const at::KEPT,
        busy = const at::BUSY,
        user = const at::USER_STACK,
        begin = sym begin_handler,
    )
}

/// As [`leave`] where signals wait, and the kernel makes the call afterwards.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn before_native() {
    naked_asm!(
        "cmp dword ptr gs:[{busy}], 0",
        "jne 3f",
        "mov gs:[{user}], rsp",
        "mov r11, [rcx + 8]",
        "jmp {begin}",
        "3:",
        "jmp qword ptr [rcx + 8]",
        busy = const at::BUSY,
        user = const at::USER_STACK,
        begin = sym begin_handler,
    )
}

/// Runs the handlers of signals that waited for a call by name, as if they came while this returns.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn here() {
    naked_asm!(
        "mov r11, [rsp]",
        "lea rcx, [rsp + 8]",
        "mov gs:[{user}], rcx",
        "jmp {begin}",
        user = const at::USER_STACK,
        begin = sym begin_handler,
    )
}

/// The program goes on at r11, with its stack pointer among the thread's words and all other
/// registers as they are: after the handlers.
#[unsafe(naked)]
unsafe extern "C" fn begin_handler() {
    naked_asm!(
        "mov rsp, gs:[{stack}]",
        "push r11",
        "push qword ptr gs:[{user}]",
        "push rcx\npush rax\npush rdx\npush rbx\npush rbp\npush rsi\npush rdi",
        "push r15\npush r14\npush r13\npush r12\npush r11\npush r10\npush r9\npush r8",
        "mov rdi, gs:[{this}]",
        "mov eax, dword ptr [rip + {parts}]",
        "xor edx, edx",
        "xsavec64 [rdi + {vectors}]",
        "mov rdi, rsp",
        "sub rsp, 8",
        "call {make_frames}",
        "mov rsi, rax",
        "mov rdi, gs:[{this}]",
        "mov eax, dword ptr [rip + {parts}]",
        "xor edx, edx",
        "xrstor64 [rdi + {vectors}]",
        "test rsi, rsi",
        "jz 2f",
        "mov eax, dword ptr [rsi + {about} + 8]",
        "mov edx, dword ptr [rsi + {about} + 12]",
        "xsave64 [rsi]",
        "2:",
        "lea rsp, [rdi + {entry}]",
        "mov eax, {sigreturn}",
        "syscall",
        "ud2",
        stack = const at::STACK,
        user = const at::USER_STACK,
        this = const at::THIS,
        vectors = const at::VECTORS,
        entry = const at::ENTRY,
        about = const VECTORS_ABOUT,
        parts = sym VECTOR_PARTS,
        make_frames = sym make_frames,
        sigreturn = const libc::SYS_rt_sigreturn,
    )
}

unsafe extern "C" {
    static gannet_leave_from: u8;
    static gannet_leave_to: u8;
}

/// Whether a thread that was interrupted there has left but for a jump.
pub(super) fn is_leaving(at: usize) -> bool {
    let [from, to] = [&raw const gannet_leave_from, &raw const gannet_leave_to];
    (from.addr()..=to.addr()).contains(&at)
}

/// Where the parts of a frame lie.
struct Place {
    vectors: u64,
    frame: u64,
}

/// Bytes between the address that a handler returns to and the siginfo.
const CONTEXT: u64 = 8;
const INFO: u64 = CONTEXT + size_of::<Context>() as u64;
const FRAME: u64 = INFO + 128;

/// Whether `sp` lies on the alternate stack.
fn is_on(stack: &[u64; 3], sp: u64) -> bool {
    let [from, _, len] = *stack;
    sp > from && sp - from <= len
}

/// A place for a frame, with room for the vectors, above which the program's stack is in use.
fn place(sp: u64, action: &Action, stack: &[u64; 3], vectors_len: u64) -> (Place, bool) {
    let [from, flags, len] = *stack;
    let enabled = len > 0 && flags & SS_DISABLE == 0;
    let switches = action.has(libc::SA_ONSTACK) && enabled && !is_on(stack, sp);
    let top = match switches {
        true => from + len,
        false => sp - RED_ZONE,
    };
    let vectors = (top - vectors_len) & !63;
    let frame = ((vectors - FRAME) & !15) - 8;
    (Place { vectors, frame }, switches)
}

/// Makes the frames of all signals that wait, and what the first handler begins with. `registers`
/// are the program's, in the order of a context. Where its vectors are to be saved; or 0.
extern "C" fn make_frames(registers: &mut [u64; 17]) -> usize {
    let thread = thread::current();
    let count = thread.kept.swap(0, Relaxed) as usize;
    // SAFETY: this thread's own; all signals are blocked as long as some are kept.
    let (signals, base, about) = unsafe {
        let deferred = &thread.deferred;
        let signals = &*deferred.signals.get();
        (signals, *deferred.context.get(), *deferred.about.get())
    };
    let signals = signals.get(..count).unwrap_or(&[]);
    let restarts = signals
        .last()
        .is_some_and(|last| last.action.has(libc::SA_RESTART));
    go_on(thread, registers, restarts);
    let has_vectors = base.vectors != 0 && about.magic == MAGIC && about.len <= VECTORS_MOST;
    let mut now = base;
    now.link = 0;
    now.vectors = 0;
    for (place, value) in now.registers.iter_mut().zip(registers.iter()) {
        *place = *value;
    }
    now.registers[libc::REG_EFL as usize] = FLAGS;
    deferred::put_right(&mut now.registers);
    let mut saved = 0;
    // The kernel made the frame of the last one first.
    for (n, kept) in signals.iter().enumerate().rev() {
        let is_first = n + 1 == count;
        let len = if is_first && has_vectors {
            u64::from(about.len)
        } else {
            0
        };
        let sp = now.registers[libc::REG_RSP as usize];
        let (place, switches) = place(sp, &kept.action, &now.stack, len);
        if len > 0 {
            now.vectors = place.vectors;
            saved = place.vectors as usize;
            // SAFETY: within the place.
            unsafe { begin_vectors(saved, &about) };
        }
        now.mask = kept.mask;
        // SAFETY: the program's stack below what it uses, or the one that it gave for handlers.
        unsafe {
            (place.frame as *mut usize).write(gate::signal_return());
            ((place.frame + CONTEXT) as *mut Context).write(now);
            ((place.frame + INFO) as *mut [u64; 16]).write(kept.info);
        }
        enter(&mut now, kept.signal, kept.action.handler, place.frame);
        if switches && now.stack[1] & SS_AUTODISARM != 0 {
            now.stack = [0, SS_DISABLE, 0];
        }
        let under = if count == 1 { kept.under } else { kept.mask };
        now.mask = under | kept.action.blocks(kept.signal);
    }
    // SAFETY: this thread's own.
    unsafe { thread.deferred.entry.get().write(now) };
    saved
}

/// The registers with which a handler begins.
fn enter(now: &mut Context, signal: c_int, handler: usize, frame: u64) {
    let registers = &mut now.registers;
    registers[libc::REG_RIP as usize] = handler as u64;
    registers[libc::REG_RSP as usize] = frame;
    registers[libc::REG_RDI as usize] = signal as u64;
    registers[libc::REG_RSI as usize] = frame + INFO;
    registers[libc::REG_RDX as usize] = frame + CONTEXT;
    registers[libc::REG_RAX as usize] = 0;
    now.vectors = 0;
}

/// What `xsave` leaves alone: the header, and what the kernel knows the place by.
///
/// # Safety
/// `about.len` bytes can be written there.
unsafe fn begin_vectors(at: usize, about: &VectorsAbout) {
    // SAFETY: as the caller says; a legacy part and a header are in every such place.
    unsafe {
        ((at + XSAVE_HEADER as usize) as *mut [u64; 8]).write([0; 8]);
        ((at + VECTORS_ABOUT) as *mut VectorsAbout).write(*about);
        ((at + about.state_len as usize) as *mut u32).write_unaligned(MAGIC_END);
    }
}

/// After the handlers: behind the call, or the call once more.
fn go_on(thread: &Thread, registers: &mut [u64; 17], handler_restarts: bool) {
    let [rax, rcx, rip] = [libc::REG_RAX, libc::REG_RCX, libc::REG_RIP].map(|n| n as usize);
    let again = match thread.restart.swap(0, Relaxed) as c_int {
        0 => return,
        RESTART => handler_restarts,
        _ => true,
    };
    if !again {
        registers[rax] = -i64::from(libc::EINTR) as u64;
        return;
    }
    let record = registers[rcx] as usize;
    // SAFETY: of a call from the border rcx leads to the record of its site.
    let [back, native] = unsafe { *(record as *const [u64; 2]) };
    // The number of the call is in rax already.
    registers[rip] = match native == gate::native_unpatched as *const () as u64 {
        // The instruction that trapped.
        true => back - 2,
        false => match sites::site_of(record) {
            Some(site) => site as u64,
            None => gate::enter_any as *const () as u64,
        },
    };
}
