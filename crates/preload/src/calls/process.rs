//! New processes: `fork`, `exec`, `posix_spawn`.
//!
//! A child has everything its parent has, so it is entered among the program's processes, holding
//! what the parent holds, before it exists. What a process becomes by `exec` finds its carrier by
//! an environment variable, which is put back if the program has cleaned its environment.
//!
//! A fork takes every lock of the process, so that the child finds what they guard whole. All code
//! of this library that takes several does so in this order:
//!
//! ```text
//! 1 sockets that get their side with us   datagrams::quiesce
//! 2 the list of epoll sets                epoll::lock_sets
//! 3 epoll sets, an outer one before the   epoll::quiesce, which waits for none of them
//!   sets in it                            while it has another
//! 4 each alone: peers, lingering streams, FILEs, unused objects
//! ```
//! (The locks in shared memory are no part of it: they name the thread that has them, which is not
//! the child.)

use super::stdio;
use crate::fresh;
use crate::object::{self, Kind};
use crate::state::{self, State};
use crate::{border, datagrams, epoll, exclusive, loader, real};
use gannet_local::service::{self, Question};
use gannet_local::{Made, UNKNOWN};
use libc::{c_char, c_int, pid_t};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};

thread_local! {
    /// The child's entry, and the locks held, during a fork.
    static FORK: RefCell<Option<Forking>> = const { RefCell::new(None) };
    /// The entry of the child that was made last.
    static MADE: Cell<Option<Made>> = const { Cell::new(None) };
}

struct Forking {
    entry: Option<Made>,
    #[expect(dead_code, reason = "held, not used")]
    locks: Vec<Box<dyn Sized_>>,
}

/// Anything that is held.
trait Sized_ {}
impl<T> Sized_ for T {}

/// Called once: what is to happen around every fork, also the C library's own.
pub(crate) fn prepare_forks() {
    // SAFETY: functions of our own.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    // Handlers wait until the locks are given back.
    let _ = border::begin_by_name();
    fresh::forget_all();
    let Some(state) = state::get() else { return };
    let entry = enter_child(state);
    // In the order that the module's text gives.
    let locks: Vec<Box<dyn Sized_>> = vec![
        Box::new(datagrams::quiesce()),
        Box::new(epoll::quiesce()),
        Box::new(state.peers().quiesce()),
        Box::new(state.lingering().quiesce()),
        Box::new(stdio::quiesce()),
        Box::new(object::quiesce()),
    ];
    FORK.with(|fork| *fork.borrow_mut() = Some(Forking { entry, locks }));
}

/// Enters a child that does not exist yet. `None` when the table is full: what the child will have
/// is held for processes that are not known, so that no other one ends it.
pub(crate) fn enter_child(state: &State) -> Option<Made> {
    let arena = state.arena();
    let made = arena.enter_unborn(state.holder());
    let entry = made.map_or(UNKNOWN, |made| made.entry);
    match state.holder() {
        // What other unknown processes have is not this one's to hand on.
        UNKNOWN => hold_all(state, entry),
        holder => arena.held_by(holder).for_each(|n| arena.hold(entry, n)),
    }
    if made.is_none() {
        tell_carrier(state);
    }
    made
}

/// Entry `holder` holds everything that this process has.
fn hold_all(state: &State, holder: usize) {
    for (_, object) in object::all() {
        let has_slot = !matches!(
            object.kind(),
            Kind::Epoll | Kind::Hidden | Kind::Netlink | Kind::Free
        );
        if has_slot {
            state.arena().hold(holder, object.slot());
        }
    }
}

/// This process is a new child: it takes the entry that its parent entered it under. Without one,
/// or if that was given back since (its parent was killed, and this process ran late), it enters
/// itself, or is one of those that are not known.
fn take_entry(state: &State, made: Option<Made>) {
    let (arena, pid) = (state.arena(), std::process::id());
    // First, so that the carrier knows a process that is killed in between.
    if let Some(made) = made {
        tell(state, Question::Enter(made.pack()));
    }
    if let Some(made) = made.filter(|made| arena.become_process(*made, pid)) {
        return state.set_holder(made.entry);
    }
    let entry = arena.enter(pid);
    let holder = entry.unwrap_or(UNKNOWN);
    hold_all(state, holder);
    state.set_holder(holder);
    match entry {
        Some(entry) => tell(state, Question::Enter(arena.look_at(entry).pack())),
        None => tell_carrier(state),
    }
}

extern "C" fn in_parent() {
    let forking = FORK.with(|fork| fork.borrow_mut().take());
    MADE.with(|made| made.set(forking.and_then(|forking| forking.entry)));
    border::leave();
}

extern "C" fn in_child() {
    begin_child();
    border::leave();
}

fn begin_child() {
    gannet_local::lock::after_fork();
    let forking = FORK.with(|fork| fork.borrow_mut().take());
    let Some(state) = state::get() else { return };
    state.arena().after_fork();
    let made = forking.as_ref().and_then(|forking| forking.entry);
    drop(forking);
    take_entry(state, made);
    object::after_fork();
    exclusive::after_fork();
}

/// Whether the C library's `fork` is under way in this thread: it runs the handlers itself.
pub(crate) fn is_fork_prepared() -> bool {
    FORK.with(|fork| fork.borrow().is_some())
}

/// What a fork needs that the C library does not know of.
pub(crate) fn before_fork() {
    before();
}

/// In the parent, with what the kernel gave: a number, or an error.
pub(crate) fn after_fork_in_parent(outcome: isize) {
    in_parent();
    let made = MADE.with(Cell::take);
    if let (Some(state), Some(made)) = (state::get(), made) {
        name_child(state, made, outcome);
    }
}

/// In the child.
pub(crate) fn after_fork_in_child() {
    in_child();
}

/// In the parent: the child may have been faster, and may be gone already.
fn name_child(state: &State, made: Made, outcome: isize) {
    match u32::try_from(outcome) {
        Ok(pid) if pid > 0 => state.arena().name_born(made, pid),
        Ok(_) => {}
        Err(_) => state.arena().leave(made.entry),
    }
}

/// The carrier looks at the table of processes; nobody waits for it.
pub(crate) fn tell_carrier(state: &State) {
    tell(state, Question::Look);
}

fn tell(state: &State, question: Question) {
    let _ = service::tell(state.peers().network(), state.host(), &question);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> pid_t {
    MADE.with(|made| made.set(None));
    // SAFETY: passed on.
    let child = unsafe { real::fork() };
    let made = MADE.with(Cell::take);
    if let (Some(state), Some(made)) = (state::get(), made) {
        name_child(state, made, child as isize);
    }
    child
}

/// A child that shares memory until `exec` could not be told from its parent: it gets its own.
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: passed on.
    unsafe { fork() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __fork() -> pid_t {
    // SAFETY: passed on.
    unsafe { fork() }
}

/// An environment with what a carried process needs, and the strings it is made of.
struct Environment {
    pointers: Vec<*const c_char>,
    #[expect(dead_code, reason = "the pointers point there")]
    strings: Vec<CString>,
}

/// # Safety
/// `envp` is null, or ends with a null pointer and holds strings.
unsafe fn completed(state: &State, envp: *const *const c_char, entry: Option<Made>) -> Environment {
    let mut pointers = Vec::new();
    let mut at = envp;
    // SAFETY: as the caller says.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            // An entry that was made for this process is not its child's, nor is its name.
            let text = CStr::from_ptr(*at);
            if !state::is_entry(text) && !loader::is_variable(text) {
                pointers.push(*at);
            }
            at = at.add(1);
        }
    }
    let mut strings = state.environment.clone();
    strings.extend(entry.and_then(state::entry_variable));
    for text in &strings {
        let name_len = text.as_bytes().iter().position(|b| *b == b'=').unwrap_or(0) + 1;
        let name = text.as_bytes().get(..name_len).unwrap_or(b"");
        // SAFETY: strings of the caller's.
        let has = |p: &*const c_char| unsafe { CStr::from_ptr(*p) }.to_bytes().starts_with(name);
        if !pointers.iter().any(has) {
            pointers.push(text.as_ptr());
        }
    }
    pointers.push(std::ptr::null());
    Environment { pointers, strings }
}

/// Hidden descriptors of sockets that stay open over `exec`, under any of their numbers, have to
/// stay open too.
fn keep_hidden(keep: bool) {
    for (fd, object) in object::all() {
        if !matches!(
            object.kind(),
            Kind::Listener | Kind::Bound | Kind::Datagrams
        ) {
            continue;
        }
        // SAFETY: no pointers.
        let stays = unsafe { real::fcntl(fd, libc::F_GETFD, 0) } & libc::FD_CLOEXEC == 0;
        if keep && !stays {
            // Another number of it may.
            continue;
        }
        let mark = if keep { 0 } else { libc::FD_CLOEXEC as usize };
        for hidden in object.hidden() {
            // SAFETY: no pointers.
            unsafe { real::fcntl(hidden, libc::F_SETFD, mark) };
        }
    }
}

/// Runs an `exec` with the environment completed. Returns only if it fails.
///
/// # Safety
/// As `execve`'s `envp`.
unsafe fn exec(
    envp: *const *const c_char,
    call: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { exec_with(envp, &[], call) }
}

/// As [`exec`], with more strings in the environment.
///
/// # Safety
/// As `execve`'s `envp`.
unsafe fn exec_with(
    envp: *const *const c_char,
    more: &[*const c_char],
    call: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    let Some(state) = state::get() else {
        return call(envp);
    };
    // SAFETY: as the caller says.
    let mut environment = unsafe { completed(state, envp, None) };
    environment.pointers.splice(..0, more.iter().copied());
    keep_hidden(true);
    let failed = call(environment.pointers.as_ptr());
    let error = crate::errno::get();
    keep_hidden(false);
    crate::errno::set(error);
    failed
}

/// Executes the loader. Returns only if that fails.
///
/// # Safety
/// As `execve`'s `envp`.
unsafe fn exec_instead(instead: &loader::TakeOver, envp: *const *const c_char) -> c_int {
    let (path, argv) = (instead.path(), instead.argv());
    // SAFETY: the loader's path and the arguments for it.
    let call = |envp| unsafe { real::execve(path, argv, envp) };
    // SAFETY: as the caller says.
    unsafe { exec_with(envp, instead.variables(), call) }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execve(
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // By name it comes here a second time, by the border.
    if border::is_answering()
        // SAFETY: the caller's arguments.
        && let Some(instead) = unsafe { loader::take_over(path, argv) }
    {
        // SAFETY: the caller's environment.
        return unsafe { exec_instead(&instead, envp) };
    }
    // SAFETY: passed on.
    unsafe { exec(envp, |envp| execve_here(path, argv, envp)) }
}

/// A new image has the mask of this thread, which is not the program's while signals wait: at the
/// border their handlers run first, and the call is made again.
///
/// # Safety
/// As `execve`.
unsafe fn execve_here(
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    if !border::is_answering() {
        // SAFETY: passed on.
        return unsafe { real::execve(path, argv, envp) };
    }
    let n = libc::SYS_execve as usize;
    let words = [n, path.addr(), argv.addr(), envp.addr(), 0, 0, 0];
    // SAFETY: passed on.
    let failed = -unsafe { border::kernel_unless_kept(&words) } as c_int;
    crate::errno::set(match failed {
        border::RESTART => border::RESTART_ALWAYS,
        other => other,
    });
    -1
}

/// `execveat` at the border: `-errno` where it was `execve` after all. `None`: the kernel's.
///
/// # Safety
/// As the call's.
pub(crate) unsafe fn execveat(words: &[usize; 7]) -> Option<isize> {
    let [_, at, path, argv, envp, flags, _] = *words;
    let (argv, envp) = (argv as *const _, envp as *const _);
    // SAFETY: as the caller says.
    let path = unsafe { loader::path_at(at as c_int, path as *const c_char, flags) }?;
    let path = path.as_ptr();
    // SAFETY: as the caller says.
    let instead = unsafe { loader::take_over(path, argv) }?;
    // SAFETY: as the caller says.
    unsafe { exec_instead(&instead, envp) };
    Some(-(crate::errno::get() as isize))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
    // SAFETY: passed on.
    unsafe { execve(path, argv, environ) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(path: *const c_char, argv: *const *const c_char) -> c_int {
    // SAFETY: passed on.
    unsafe { execvpe(path, argv, environ) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: passed on.
    unsafe { exec(envp, |envp| real::execvpe(path, argv, envp)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(
    fd: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: passed on.
    unsafe { exec(envp, |envp| real::fexecve(fd, argv, envp)) }
}

type Spawn = unsafe fn(
    *mut pid_t,
    *const c_char,
    *const libc::posix_spawn_file_actions_t,
    *const libc::posix_spawnattr_t,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

/// # Safety
/// As `posix_spawn`.
unsafe fn spawn(
    call: Spawn,
    (pid, path): (*mut pid_t, *const c_char),
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    (argv, envp): (*const *const c_char, *const *const c_char),
) -> c_int {
    // Where the border stands, the child is met there.
    let Some(state) = state::get().filter(|_| !crate::border::is_raised()) else {
        // SAFETY: passed on.
        return unsafe { call(pid, path, actions, attributes, argv, envp) };
    };
    let entry = enter_child(state);
    // SAFETY: as the caller says.
    let environment = unsafe { completed(state, envp, entry) };
    keep_hidden(true);
    let mut child: pid_t = 0;
    let place = if pid.is_null() { &raw mut child } else { pid };
    let envp = environment.pointers.as_ptr();
    // SAFETY: passed on.
    let outcome = unsafe { call(place, path, actions, attributes, argv, envp) };
    keep_hidden(false);
    if let Some(made) = entry {
        // SAFETY: the caller's place or ours.
        let number = unsafe { *place };
        match outcome {
            // Unless the child is attached already and has given back what was held for it.
            0 => state.arena().name_born(made, number as u32),
            _ => state.arena().leave(made.entry),
        }
        tell_carrier(state);
    }
    outcome
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: passed on.
    unsafe {
        spawn(
            real::posix_spawn,
            (pid, path),
            actions,
            attributes,
            (argv, envp),
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    // SAFETY: passed on.
    unsafe {
        spawn(
            real::posix_spawnp,
            (pid, path),
            actions,
            attributes,
            (argv, envp),
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(what: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // SAFETY: passed on.
    let done = unsafe { real::prctl(what, a, b, c, d) };
    if what == libc::PR_SET_SECCOMP && done == 0 {
        gannet_local::sandbox::enter();
    }
    done
}

/// Memory that this library maps later would be filled at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn mlockall(how: c_int) -> c_int {
    // SAFETY: passed on.
    let done = unsafe { real::mlockall(how) };
    if done == 0 && how & libc::MCL_FUTURE != 0 {
        gannet_local::lock_future(how & libc::MCL_ONFAULT == 0);
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munlockall() -> c_int {
    gannet_local::lock_future(false);
    // SAFETY: passed on.
    unsafe { real::munlockall() }
}
