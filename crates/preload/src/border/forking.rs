//! A child in its parent's memory, between its beginning and its new image.
//!
//! `vfork`, `posix_spawn` and Go's runtime make it with `CLONE_VM` and `CLONE_VFORK`: it has its
//! parent's memory, and even the waiting thread's own, but descriptors of its own. So all that it
//! does to descriptors the kernel does, and nothing is told to our tables, which stay its parent's.
//! What it needs as a carried process is an entry among the program's processes, holding what its
//! parent holds, and an environment by which the new image finds it.
//!
//! Listeners have descriptors that the program does not know, which have to get to the new image
//! when the listener does: so it is followed which descriptors the child moves where.

use super::actions;
use super::gate::{kernel, kernel_unless_kept};
use crate::calls;
use crate::loader::{self, TakeOver};
use crate::object;
use crate::place;
use crate::state::{self, State};
use gannet_local::Made;
use libc::{c_char, c_int};
use std::cell::Cell;
use std::ffi::{CStr, CString};

/// See the module.
pub(super) struct Forking {
    state: &'static State,
    /// The child's entry.
    entry: Option<Made>,
    /// What its environment needs.
    strings: Vec<CString>,
    /// The environment, and its length in bytes: made by the child, given back by its parent.
    environment: Cell<(usize, usize)>,
    /// The same of the arguments for the loader.
    arguments: Cell<(usize, usize)>,
    moves: Moves,
}

thread_local! {
    static FORKING: Cell<*mut Forking> = const { Cell::new(std::ptr::null_mut()) };
}

/// The fork that this thread is the child of.
pub(super) fn child<'a>() -> Option<&'a Forking> {
    // SAFETY: from `begin`, alive until `end`, which the parent calls when the child is gone.
    unsafe { FORKING.get().as_ref() }
}

/// Before a fork, in the parent.
pub(super) extern "C" fn begin() {
    let Some(state) = state::get() else { return };
    let entry = calls::enter_child(state);
    let mut strings = state.environment.clone();
    strings.extend(entry.and_then(state::entry_variable));
    let forking = Box::new(Forking {
        state,
        entry,
        strings,
        environment: Cell::new((0, 0)),
        arguments: Cell::new((0, 0)),
        moves: Moves::default(),
    });
    FORKING.set(Box::into_raw(forking));
}

/// After a fork, in the parent: its child has another image, or is gone.
pub(super) extern "C" fn end(child: isize) {
    let forking = FORKING.replace(std::ptr::null_mut());
    if forking.is_null() {
        return;
    }
    // SAFETY: made by `begin`; the child does not use it any more.
    let forking = unsafe { Box::from_raw(forking) };
    forking.unmap();
    let Some(made) = forking.entry else { return };
    match u32::try_from(child) {
        // Unless the child is attached already and has given back what was held for it.
        Ok(pid) if pid > 0 => forking.state.arena().name_born(made, pid),
        _ => forking.state.arena().leave(made.entry),
    }
    calls::tell_carrier(forking.state);
}

impl Forking {
    /// A system call of the child's.
    ///
    /// # Safety
    /// As the call's.
    pub(super) unsafe fn call(&self, words: &[usize; 7]) -> isize {
        let [n, a, b, c, ..] = *words;
        let (fd, to) = (a as c_int, b as c_int);
        let mut words = *words;
        match n as libc::c_long {
            libc::SYS_dup2 | libc::SYS_dup3 if fd != to => self.make_way(to),
            // SAFETY: as the caller says.
            libc::SYS_execve => unsafe { self.execute(&mut words) },
            _ => {}
        }
        if n as libc::c_long == libc::SYS_rt_sigaction {
            // SAFETY: as the caller says.
            return unsafe { actions::action_in_child(&words) };
        }
        // A new image has this mask, which is not the program's while signals wait.
        // SAFETY: as the caller says.
        let outcome = unsafe { kernel_unless_kept(&words) };
        if outcome < 0 {
            self.unmap();
            return outcome;
        }
        match n as libc::c_long {
            libc::SYS_dup2 | libc::SYS_dup3 if fd != to => {
                self.moves.note(to, self.moves.what_is(fd));
                let stays = n as libc::c_long == libc::SYS_dup2 || c as c_int == 0;
                self.kept(to, stays);
            }
            libc::SYS_fcntl if to == libc::F_SETFD => {
                self.kept(fd, c as c_int & libc::FD_CLOEXEC == 0);
            }
            _ => {}
        }
        outcome
    }

    /// Gives back what an `execve` of the child's needed in the memory of both.
    fn unmap(&self) {
        for place in [&self.environment, &self.arguments] {
            let (at, len) = place.replace((0, 0));
            if len > 0 {
                // SAFETY: mapped for a call that has failed, or by a child that is gone.
                let _ = unsafe { rustix::mm::munmap(at as *mut _, len) };
            }
        }
    }

    /// `execve`: with what the new image needs, and the loader in place of a static program.
    ///
    /// # Safety
    /// As the call's.
    unsafe fn execute(&self, words: &mut [usize; 7]) {
        let [_, path, argv, envp, ..] = *words;
        let (argv, envp) = (argv as *const _, envp as *const *const c_char);
        // SAFETY: as the caller says.
        let instead = unsafe { loader::take_over(path as *const c_char, argv) };
        let variables = instead.as_ref().map_or(&[][..], TakeOver::variables);
        // SAFETY: as the caller says.
        let Some(envp) = (unsafe { self.environment(envp, variables) }) else {
            return;
        };
        words[3] = envp;
        if let Some(instead) = instead {
            words[1] = instead.path().addr();
            words[2] = instead.argv().addr();
            self.arguments.set(instead.into_memory());
        }
    }

    /// Descriptor `to` is about to be taken: a hidden one that is there goes elsewhere.
    fn make_way(&self, to: c_int) {
        let was = self.moves.what_is(to);
        if !object::find(was).is_some_and(|object| object.kind() == object::Kind::Hidden) {
            return;
        }
        /// Above what a child is usually given.
        const ABOVE: usize = 256;
        let words = words(libc::SYS_fcntl, to, libc::F_DUPFD_CLOEXEC, ABOVE);
        // SAFETY: no pointers.
        let moved = unsafe { kernel(&words) };
        if moved >= 0 {
            self.moves.note(moved as c_int, was);
        }
    }

    /// Descriptor `fd` is to be the new image's: so are those that it does not know of.
    fn kept(&self, fd: c_int, stays: bool) {
        if !stays {
            return;
        }
        let Some(object) = object::find(self.moves.what_is(fd)) else {
            return;
        };
        for hidden in object.hidden().filter_map(|fd| self.moves.where_is(fd)) {
            // SAFETY: no pointers.
            unsafe { kernel(&words(libc::SYS_fcntl, hidden, libc::F_SETFD, 0)) };
        }
    }

    /// The environment with what is missing in it. Nothing is allocated: another thread of the
    /// parent may be inside the allocator, and a child with a copy of its memory would wait for
    /// ever.
    ///
    /// # Safety
    /// As `execve`'s `envp`.
    unsafe fn environment(
        &self,
        envp: *const *const c_char,
        variables: &[*const c_char],
    ) -> Option<usize> {
        use rustix::mm::{MapFlags, ProtFlags};
        // SAFETY: as the caller says.
        let count = unsafe { place::strings(envp) }?;
        let len = (count + self.strings.len() + variables.len() + 1) * size_of::<*const c_char>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: new memory.
        let at =
            unsafe { rustix::mm::mmap_anonymous(null, len, access, MapFlags::PRIVATE) }.ok()?;
        let (before, before_len) = self.environment.get();
        if before_len > 0 {
            // SAFETY: of a call that was not made, or has failed.
            let _ = unsafe { rustix::mm::munmap(before as *mut _, before_len) };
        }
        self.environment.set((at as usize, len));
        // SAFETY: as many as the two have; the caller's are strings.
        unsafe {
            let given = std::slice::from_raw_parts(envp, count);
            let given = given.iter().copied();
            let given = given.filter(|text| {
                let text = CStr::from_ptr(*text);
                !state::is_entry(text) && !loader::is_variable(text)
            });
            let missing = self.strings.iter().filter(|text| !has(envp, count, text));
            let all = given.chain(missing.map(|text| text.as_ptr()));
            let all = variables.iter().copied().chain(all);
            for (n, text) in all.enumerate() {
                at.cast::<*const c_char>().add(n).write(text);
            }
        }
        Some(at as usize)
    }
}

/// Whether an environment has a variable of this name. The entry's it never has: that is the
/// parent's own.
///
/// # Safety
/// `count` strings are there.
unsafe fn has(envp: *const *const c_char, count: usize, text: &CStr) -> bool {
    let bytes = text.to_bytes();
    let len = bytes.iter().position(|byte| *byte == b'=').unwrap_or(0) + 1;
    let name = bytes.get(..len).unwrap_or(bytes);
    // SAFETY: as the caller says.
    let given = unsafe { std::slice::from_raw_parts(envp, count) };
    // SAFETY: as the caller says.
    let same = |at: &*const c_char| unsafe { CStr::from_ptr(*at) }.to_bytes().starts_with(name);
    !state::is_entry(text) && given.iter().any(same)
}

/// A call with three arguments.
fn words(n: libc::c_long, fd: c_int, what: c_int, argument: usize) -> [usize; 7] {
    [n as usize, fd as usize, what as usize, argument, 0, 0, 0]
}

/// Which descriptor of the child is which of its parent's: pairs of both. What is not in it is the
/// same; what does not fit any more is forgotten, and then counts as the kernel's own.
struct Moves([Cell<(c_int, c_int)>; 64]);

/// No descriptor.
const NONE: (c_int, c_int) = (-1, -1);

impl Default for Moves {
    fn default() -> Self {
        Moves([const { Cell::new(NONE) }; 64])
    }
}

impl Moves {
    /// What the child's `fd` is to its parent.
    fn what_is(&self, fd: c_int) -> c_int {
        let moved = self.0.iter().map(Cell::get).find(|(now, _)| *now == fd);
        moved.map_or(fd, |(_, was)| was)
    }

    /// Where the parent's `fd` is with the child.
    fn where_is(&self, fd: c_int) -> Option<c_int> {
        if self.what_is(fd) == fd {
            return Some(fd);
        }
        let moved = self.0.iter().map(Cell::get).find(|(_, was)| *was == fd);
        moved.map(|(now, _)| now)
    }

    fn note(&self, now: c_int, was: c_int) {
        let known = self.0.iter().find(|place| place.get().0 == now);
        let place = known.or_else(|| self.0.iter().find(|place| place.get() == NONE));
        if let Some(place) = place {
            place.set((now, was));
        }
    }
}
