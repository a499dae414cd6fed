//! What the program wants of each signal. The kernel is given [`super::deferred::on_signal`] in the
//! place of every handler, so that no handler runs in the middle of the library; mask and flags are
//! the program's, so that outside of the library all is as the kernel does it.
//!
//! Handlers read the table at any moment, so a reader never waits: an entry has two actions and a
//! count of changes that says which one holds. Writers of one entry take turns; none of them
//! is interrupted by a handler, since a change is made inside of the library.

use super::gate::{self, Words};
use super::{deferred, thread};
use crate::place;
use libc::c_int;
use rustix::io::Errno;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicUsize, fence};

/// As the kernel has it, not the C library.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Action {
    pub(super) handler: usize,
    pub(super) flags: u64,
    pub(super) restorer: usize,
    pub(super) mask: u64,
}

pub(super) const SA_RESTORER: u64 = 0x0400_0000;
pub(super) const SIGSYS_BIT: u64 = 1 << (libc::SIGSYS - 1);
/// Bytes of a signal mask, as the kernel counts them.
pub(super) const MASK_LEN: usize = 8;
/// Signals that no mask holds back.
const NEVER_BLOCKED: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
/// The flags that the kernel keeps (`UAPI_SA_FLAGS`, and those of x86).
const KNOWN_FLAGS: u64 = 0xdc00_0807;
/// What an instruction is sent for that touches memory which is not there.
pub(super) const MEMORY_FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Signals are numbered from 1.
const SIGNALS: usize = 65;

impl Action {
    /// Whether there is a handler to be called.
    pub(super) fn is_handler(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    pub(super) fn has(&self, flag: c_int) -> bool {
        self.flags & flag as u32 as u64 != 0
    }

    /// What is blocked while its handler runs, besides what is blocked already.
    pub(super) fn blocks(&self, signal: c_int) -> u64 {
        let own = match self.has(libc::SA_NODEFER) {
            true => 0,
            false => 1 << (signal - 1),
        };
        (self.mask | own) & !SIGSYS_BIT
    }

    /// Whether the library has to hear of the signal: also of a fault that ends the program, which
    /// may be one that the library comes back from.
    fn is_for_us(&self, signal: c_int) -> bool {
        self.is_handler() || MEMORY_FAULTS.contains(&signal) && self.handler == libc::SIG_DFL
    }

    /// What the kernel is given in its place.
    fn for_kernel(&self, signal: c_int) -> Action {
        let mut changed = *self;
        changed.mask &= !SIGSYS_BIT;
        if self.is_for_us(signal) {
            changed.handler = deferred::on_signal as *const () as usize;
            changed.flags |= SA_RESTORER | libc::SA_SIGINFO as u64;
        }
        if MEMORY_FAULTS.contains(&signal) {
            // [`begin`] does that: a fault that was come back from does not count.
            changed.flags &= !u64::from(libc::SA_RESETHAND as u32);
        }
        if changed.flags & SA_RESTORER != 0 {
            changed.restorer = gate::signal_return();
        }
        changed
    }
}

struct Entry {
    /// How often it was changed: the lowest bit says which of the two holds.
    changes: AtomicU32,
    /// A thread changes it.
    busy: AtomicU32,
    actions: [[AtomicUsize; 4]; 2],
}

static TABLE: [Entry; SIGNALS] = [const {
    Entry {
        changes: AtomicU32::new(0),
        busy: AtomicU32::new(0),
        actions: [const { [const { AtomicUsize::new(0) }; 4] }; 2],
    }
}; SIGNALS];

impl Entry {
    fn words(&self, changes: u32) -> &[AtomicUsize; 4] {
        let [even, odd] = &self.actions;
        if changes.is_multiple_of(2) { even } else { odd }
    }

    fn load(&self) -> Action {
        loop {
            let changes = self.changes.load(Acquire);
            let words = self
                .words(changes)
                .each_ref()
                .map(|word| word.load(Relaxed));
            fence(Acquire);
            // A second change may have written over what was read.
            if self.changes.load(Relaxed) == changes {
                let [handler, flags, restorer, mask] = words;
                return Action {
                    handler,
                    flags: flags as u64,
                    restorer,
                    mask: mask as u64,
                };
            }
        }
    }

    /// Only with [`Entry::take_turn`].
    fn store(&self, action: &Action) {
        let changes = self.changes.load(Relaxed).wrapping_add(1);
        fence(SeqCst);
        let values = [
            action.handler,
            action.flags as usize,
            action.restorer,
            action.mask as usize,
        ];
        for (word, value) in self.words(changes).iter().zip(values) {
            word.store(value, Relaxed);
        }
        self.changes.store(changes, Release);
    }

    /// Waits for another thread that changes this entry: a few instructions and one system call.
    fn take_turn(&self) {
        while self.busy.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            rustix::thread::sched_yield();
        }
    }

    fn end_turn(&self) {
        self.busy.store(0, Release);
    }
}

fn entry(signal: usize) -> Option<&'static Entry> {
    TABLE.get(signal).filter(|_| signal > 0)
}

/// What the program wants of a signal.
pub(super) fn get(signal: c_int) -> Action {
    entry(signal as usize).map_or_else(Action::default, Entry::load)
}

/// What is to be done for a signal that was just delivered: with `SA_RESETHAND`, once.
pub(super) fn begin(signal: c_int) -> Action {
    let action = get(signal);
    if action.has(libc::SA_RESETHAND)
        && let Some(entry) = entry(signal as usize)
    {
        // The kernel's own is reset by the kernel. Another action that was set meanwhile stays.
        let [handler, ..] = entry.words(entry.changes.load(Acquire));
        let _ = handler.compare_exchange(action.handler, libc::SIG_DFL, Relaxed, Relaxed);
    }
    action
}

/// Keeps what the program wants of a signal; the kernel is not told.
pub(super) fn keep(signal: c_int, action: &Action) {
    if let Some(entry) = entry(signal as usize) {
        entry.take_turn();
        entry.store(action);
        entry.end_turn();
    }
}

/// In the child of a fork: other threads of its parent may have been changing entries.
pub(super) fn after_fork() {
    TABLE.iter().for_each(Entry::end_turn);
}

/// Puts the library's handler in the place of those that are there already.
pub(super) fn adopt() {
    for signal in (1..SIGNALS as c_int).filter(|signal| *signal != libc::SIGSYS) {
        let mut before = Action::default();
        let known = set(signal, std::ptr::null(), &raw mut before).is_ok();
        if known {
            keep(signal, &before);
        }
        if known && before.is_for_us(signal) {
            let changed = before.for_kernel(signal);
            let _ = set(signal, &raw const changed, std::ptr::null_mut());
        }
    }
}

pub(super) fn set(signal: c_int, new: *const Action, old: *mut Action) -> Result<(), Errno> {
    let n = libc::SYS_rt_sigaction as usize;
    let words = [n, signal as usize, new.addr(), old.addr(), MASK_LEN, 0, 0];
    // SAFETY: actions of our own.
    match unsafe { gate::kernel(&words) } {
        0 => Ok(()),
        error => Err(Errno::from_raw_os_error(-(error as i32))),
    }
}

/// Whether the kernel has something to say of the arguments itself.
fn is_odd(signal: usize, new: usize, old: usize, len: usize) -> bool {
    let nowhere = |at: usize, is_there: bool| at != 0 && !is_there;
    let fixed = [libc::SIGKILL as usize, libc::SIGSTOP as usize];
    len != MASK_LEN
        || nowhere(new, place::can_read(new as *const Action, 1))
        || nowhere(old, place::can_write(old as *mut Action, 1))
        || entry(signal).is_none()
        || fixed.contains(&signal)
}

/// `rt_sigaction`.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn action(words: &Words) -> isize {
    let [_, signal, new, old, len, ..] = *words;
    let Some(entry) = entry(signal).filter(|_| !is_odd(signal, new, old, len)) else {
        // SAFETY: the kernel says what is wrong.
        return unsafe { gate::kernel(words) };
    };
    let place = new as *const Action;
    // SAFETY: the caller's place.
    let wanted = (new != 0).then(|| unsafe { place.read_unaligned() });
    let before = match wanted {
        None => entry.load(),
        Some(wanted) => match change(entry, signal as c_int, wanted) {
            Ok(before) => before,
            Err(error) => return -(error.raw_os_error() as isize),
        },
    };
    if old != 0 {
        // SAFETY: the caller's place.
        unsafe { (old as *mut Action).write_unaligned(before) };
    }
    0
}

/// The program wants this of a signal, as it did before.
pub(super) fn put_back(signal: c_int, action: Action) {
    if let Some(entry) = entry(signal as usize) {
        let _ = change(entry, signal, action);
    }
}

fn change(entry: &Entry, signal: c_int, mut wanted: Action) -> Result<Action, Errno> {
    wanted.flags &= KNOWN_FLAGS;
    wanted.mask &= !NEVER_BLOCKED;
    entry.take_turn();
    let before = entry.load();
    if wanted.handler == deferred::on_signal as *const () as usize {
        // From a question that was put to the kernel past the border: what stands for it here.
        wanted = before;
    }
    // A handler is known here before the kernel may call for it, and as long as it may.
    if wanted.is_handler() {
        entry.store(&wanted);
    }
    let changed = wanted.for_kernel(signal);
    let done = match signal {
        libc::SIGSYS => Ok(()),
        _ => set(signal, &raw const changed, std::ptr::null_mut()),
    };
    entry.store(if done.is_ok() { &wanted } else { &before });
    entry.end_turn();
    done.map(|()| before)
}

/// `rt_sigaction` of a child in its parent's memory: its actions are its own, the table is its
/// parent's. A handler that it installs is called by the kernel; it is about to execute.
///
/// # Safety
/// As the call's.
pub(super) unsafe fn action_in_child(words: &Words) -> isize {
    let [n, signal, new, old, len, ..] = *words;
    if is_odd(signal, new, old, len) || signal == libc::SIGSYS as usize {
        // SAFETY: as the caller says.
        return unsafe { gate::kernel(words) };
    }
    let mut wanted = Action::default();
    let mut place = 0;
    if new != 0 {
        // SAFETY: the caller's place.
        wanted = unsafe { (new as *const Action).read_unaligned() };
        wanted.mask &= !SIGSYS_BIT;
        if wanted.flags & SA_RESTORER != 0 {
            wanted.restorer = gate::signal_return();
        }
        place = (&raw const wanted).addr();
    }
    // SAFETY: as the caller says.
    let outcome = unsafe { gate::kernel(&[n, signal, place, old, len, 0, 0]) };
    std::hint::black_box(&wanted);
    let own = deferred::on_signal as *const () as usize;
    // SAFETY: the kernel has written there.
    if outcome == 0 && old != 0 && unsafe { (*(old as *const Action)).handler } == own {
        // SAFETY: as above.
        unsafe { (old as *mut Action).write_unaligned(get(signal as c_int)) };
    }
    outcome
}

/// The mask that holds back every signal but those that the library or a fault needs.
pub(super) fn all_blocked() -> u64 {
    let faults = deferred::FAULTS
        .iter()
        .fold(0, |all, n| all | 1u64 << (n - 1));
    !(SIGSYS_BIT | faults)
}

/// Sets this thread's mask; gives what it was.
pub(super) fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let words = [
        libc::SYS_rt_sigprocmask as usize,
        libc::SIG_SETMASK as usize,
        (&raw const mask).addr(),
        (&raw mut before).addr(),
        MASK_LEN,
        0,
        0,
    ];
    // SAFETY: masks of our own, which live as long as the call.
    let _ = unsafe { gate::kernel(&words) };
    std::hint::black_box(&mask);
    std::hint::black_box(before)
}

/// Nothing is delivered to this thread until [`end_quiet`]. The program's mask is kept.
pub(super) fn begin_quiet() {
    let before = set_mask(all_blocked());
    thread::current().clone_mask.store(before, Relaxed);
}

/// The program's mask holds again; but where signals wait it is restored with their handlers.
pub(super) fn end_quiet() {
    let thread = thread::current();
    if thread.kept.load(Relaxed) == 0 {
        set_mask(thread.clone_mask.load(Relaxed));
    }
}
