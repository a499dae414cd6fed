//! Threads and children.

use super::gate::Words;
use super::thread::{self, Child, Thread};
use super::{actions, arm, deferred, forking, tls};
use crate::calls;
use crate::place;
use std::sync::atomic::Ordering::Relaxed;

/// What a call makes; `None` for one that the kernel will refuse.
fn what(words: &Words) -> Option<Child> {
    let [n, a, ..] = *words;
    let flags = match n as libc::c_long {
        libc::SYS_fork => 0,
        libc::SYS_vfork => libc::CLONE_VM as u64 | libc::CLONE_VFORK as u64,
        libc::SYS_clone => a as u64,
        // Flags come first in its structure.
        // SAFETY: any bytes are flags.
        _ => unsafe { place::read(a as *const u64) }.ok()?,
    };
    let has = |flag: libc::c_int| flags & flag as u64 != 0;
    Some(match (has(libc::CLONE_VM), has(libc::CLONE_VFORK)) {
        (true, true) => Child::Vfork,
        (true, false) => Child::Thread,
        (false, _) => Child::Fork,
    })
}

/// Before a clone, in the parent: the child's block, or `-errno`.
pub(super) extern "C" fn prepare(words: &Words) -> isize {
    let Some(kind) = what(words) else {
        return -(libc::EFAULT as isize);
    };
    let Ok(block) = thread::take() else {
        return -(libc::ENOMEM as isize);
    };
    if tls::prepare(kind, block).is_err() {
        block.release();
        return -(libc::ENOMEM as isize);
    }
    // No handler runs in a child before it has its own block.
    actions::begin_quiet();
    begin_block(block);
    block.child.store(kind as u32, Relaxed);
    thread::current().child_made.store(kind as u32, Relaxed);
    // A call of the C library's `fork` runs its handlers, ours among them.
    let is_prepared = kind == Child::Fork && calls::is_fork_prepared();
    block.prepared.store(u32::from(is_prepared), Relaxed);
    match kind {
        Child::Fork => {
            if !is_prepared {
                calls::before_fork();
            }
            // What is done in the child ends what was begun in the parent.
            block
                .busy
                .store(thread::current().busy.load(Relaxed), Relaxed);
        }
        Child::Vfork => forking::begin(),
        Child::Thread => {}
    }
    block.address() as isize
}

/// What the child's block begins with: the library works for it until it gets to its own code.
fn begin_block(block: &Thread) {
    let own = thread::current();
    // Signals that wait are the parent's, and the mask is what they found.
    let mask = deferred::mask_of_program(own);
    block.clone_mask.store(mask, Relaxed);
    block.inside.store(1, Relaxed);
}

/// After a clone, in the parent.
pub(super) extern "C" fn done(outcome: isize, block: &'static Thread) {
    finish(outcome, block);
    actions::end_quiet();
}

fn finish(outcome: isize, block: &'static Thread) {
    let failed = outcome < 0;
    // A thread that was made may have ended by now, and its block may be another's.
    let kind = kind_of_last();
    match kind {
        Child::Thread if !failed => return,
        Child::Thread => {}
        Child::Fork if block.prepared.load(Relaxed) == 0 => calls::after_fork_in_parent(outcome),
        Child::Fork => {}
        Child::Vfork => forking::end(outcome),
    }
    block.release();
}

/// What this thread's clone makes: kept in its own block over the call.
fn kind_of_last() -> Child {
    match thread::current().child_made.load(Relaxed) {
        0 => Child::Thread,
        1 => Child::Fork,
        _ => Child::Vfork,
    }
}

/// In the child, on its own stack.
pub(super) extern "C" fn child(own: &'static Thread) {
    match own.child.load(Relaxed) {
        n if n == Child::Thread as u32 => {
            tls::begin(own);
            arm();
        }
        n if n == Child::Fork as u32 => {
            tls::begin(own);
            tls::inherit(own);
            thread::only(own);
            actions::after_fork();
            arm();
            if own.prepared.load(Relaxed) == 0 {
                calls::after_fork_in_child();
            }
        }
        // Its calls go the way of those that are changed already, or straight to the kernel: the
        // border falls with a clone, and would stand in the parent's memory.
        _ => {}
    }
    actions::end_quiet();
}

/// The kernel that let the border be raised once does so again, unless a filter came meanwhile.
fn arm() {
    let _ = arm::arm_thread();
}
