//! New processes: `fork`, `exec`, `posix_spawn`.
//!
//! A child has everything its parent has, so it is entered among the program's processes, holding
//! what the parent holds, before it exists. What a process becomes by `exec` finds its carrier by
//! an environment variable, which is put back if the program has cleaned its environment.

use crate::object::{self, Kind};
use crate::state::{self, State};
use crate::{datagrams, epoll, real};
use gannet_local::Made;
use gannet_local::service::{self, Question};
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
    let Some(state) = state::get() else { return };
    let entry = enter_child(state, |_| true);
    let locks: Vec<Box<dyn Sized_>> = vec![
        // First: who gives a socket its side with us needs the others.
        Box::new(datagrams::quiesce()),
        Box::new(state.peers().quiesce()),
        Box::new(state.lingering().quiesce()),
        Box::new(object::quiesce()),
        Box::new(epoll::quiesce()),
    ];
    FORK.with(|fork| *fork.borrow_mut() = Some(Forking { entry, locks }));
}

/// Enters a child that does not exist yet.
pub(crate) fn enter_child(state: &State, wanted: impl Fn(u32) -> bool) -> Option<Made> {
    let arena = state.arena();
    let made = arena.enter_unborn()?;
    for n in arena.held_by(state.holder()).filter(|n| wanted(*n)) {
        arena.hold(made.entry, n);
    }
    Some(made)
}

extern "C" fn in_parent() {
    let forking = FORK.with(|fork| fork.borrow_mut().take());
    MADE.with(|made| made.set(forking.and_then(|forking| forking.entry)));
}

extern "C" fn in_child() {
    gannet_local::lock::after_fork();
    let forking = FORK.with(|fork| fork.borrow_mut().take());
    let Some(state) = state::get() else { return };
    if let Some(made) = forking.as_ref().and_then(|forking| forking.entry) {
        state.arena().become_process(made.entry, std::process::id());
        state.set_holder(made.entry);
        tell_carrier(state);
    }
    drop(forking);
    object::after_fork();
}

/// The carrier looks at the table of processes; nobody waits for it.
pub(crate) fn tell_carrier(state: &State) {
    let _ = service::tell(state.peers().network(), state.host(), Question::Look);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> pid_t {
    MADE.with(|made| made.set(None));
    // SAFETY: passed on.
    let child = unsafe { real::fork() };
    let made = MADE.with(Cell::take);
    if let (Some(state), Some(made)) = (state::get(), made) {
        // In the parent: the child may have been faster, and may be gone already.
        match u32::try_from(child) {
            Ok(pid) if pid > 0 => state.arena().name_born(made, pid),
            Ok(_) => {}
            Err(_) => state.arena().leave(made.entry),
        }
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
            // An entry that was made for this process is not its child's.
            if !state::is_entry(CStr::from_ptr(*at)) {
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

/// Hidden descriptors of listeners that stay open over `exec` have to stay open too.
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
        for hidden in object.hidden() {
            let mark = match keep && stays {
                true => 0,
                false => libc::FD_CLOEXEC as usize,
            };
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
    let Some(state) = state::get() else {
        return call(envp);
    };
    // SAFETY: as the caller says.
    let environment = unsafe { completed(state, envp, None) };
    keep_hidden(true);
    let failed = call(environment.pointers.as_ptr());
    let error = crate::errno::get();
    keep_hidden(false);
    crate::errno::set(error);
    failed
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
    // SAFETY: passed on.
    unsafe { exec(envp, |envp| real::execve(path, argv, envp)) }
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
    let Some(state) = state::get() else {
        // SAFETY: passed on.
        return unsafe { call(pid, path, actions, attributes, argv, envp) };
    };
    let entry = enter_child(state, |_| true);
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
