//! A system call arrives as SIGSYS, because its site was not changed yet or cannot be: from code
//! that was made at run time, or written in a way that leaves no room for a jump.

use super::dispatch::{self, Kind};
use super::gate;
use super::{signals, sites, thread};
use crate::object;
use gannet_local::sandbox;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::arch::naked_asm;
use std::sync::atomic::Ordering::Relaxed;

/// `si_code` of a call that syscall user dispatch stopped.
const SYS_USER_DISPATCH: c_int = 2;
/// What a leaf function may use below its stack pointer.
const RED_ZONE: usize = 128;

/// Registers of the interrupted thread.
struct Registers<'a>(&'a mut [i64; 23]);

impl Registers<'_> {
    fn get(&self, n: c_int) -> usize {
        self.0.get(n as usize).map_or(0, |word| *word as usize)
    }

    fn set(&mut self, n: c_int, value: usize) {
        if let Some(word) = self.0.get_mut(n as usize) {
            *word = value as i64;
        }
    }
}

/// The handler, on the library's thread-local storage.
pub(super) extern "C" fn on_sigsys(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's.
    let is_call = unsafe { (*info).si_code } == SYS_USER_DISPATCH;
    if !is_call {
        return signals::foreign(signal, info, context);
    }
    // SAFETY: the kernel's; the registers are restored from there.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    arrived(&mut Registers(&mut context.uc_mcontext.gregs));
}

fn arrived(registers: &mut Registers<'_>) {
    let back = registers.get(libc::REG_RIP);
    let n = registers.get(libc::REG_RAX);
    if n == libc::SYS_rt_sigreturn as usize {
        // A handler that was installed before the border stood.
        return registers.set(libc::REG_RIP, gate::signal_return());
    }
    let thread = thread::current();
    let is_inside = thread.inside.load(Relaxed) != 0;
    if !is_inside
        && !sandbox::is_on()
        && let Some(site) = sites::change(back - 2)
    {
        return registers.set(libc::REG_RIP, site);
    }
    let kind = dispatch::kind(n);
    let is_for_us = match kind {
        Kind::Foreign => false,
        Kind::First => object::is_ours(registers.get(libc::REG_RDI) as c_int),
        Kind::Any | Kind::Clone | Kind::Exit => true,
    };
    if is_inside || !is_for_us {
        return leave(registers, back);
    }
    let entry = match kind {
        Kind::Exit => return registers.set(libc::REG_RIP, gate::enter_exit as *const () as usize),
        Kind::Clone => gate::enter_clone_marked as *const () as usize,
        _ => gate::enter_marked as *const () as usize,
    };
    thread.set_record([back, gate::native_unpatched as *const () as usize]);
    thread.inside.store(1, Relaxed);
    registers.set(libc::REG_RCX, thread.record_address());
    registers.set(libc::REG_RIP, entry);
}

/// The kernel makes the call once the handler has returned, and the program goes on behind it.
fn leave(registers: &mut Registers<'_>, back: usize) {
    let stack = registers.get(libc::REG_RSP) - RED_ZONE - size_of::<usize>();
    // SAFETY: the program's stack, below what it uses.
    unsafe { (stack as *mut usize).write_unaligned(back) };
    registers.set(libc::REG_RSP, stack);
    registers.set(libc::REG_RIP, leaving as *const () as usize);
}

#[unsafe(naked)]
unsafe extern "C" fn leaving() {
    naked_asm!(
        "syscall",
        "pop rcx",
        "lea rsp, [rsp + {red_zone}]",
        "jmp rcx",
        red_zone = const RED_ZONE,
    )
}
