//! What a descriptor of ours stands for, and which descriptors are ours.
//!
//! A table as long as the longest list of descriptors says for each of them, in one load, whether
//! it is ours. Objects are never given back to the allocator, only used again, so that a call which
//! found an object in the table a moment before another thread closed it still meets an object; it
//! takes a reference and looks into the table once more.

use crate::epoll::{Memberships, Set};
use crate::netlink::Dump;
use crate::state::State;
use gannet_local::{Arena, Spin, Stream};
use libc::c_int;
use rustix::fd::BorrowedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Descriptors above this stay with the kernel.
pub(crate) const TABLE: usize = 1 << 20;
/// What each descriptor stands for; null for the kernel's.
pub(crate) static DESCRIPTORS: [AtomicPtr<Object>; TABLE] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; TABLE];
static UNUSED: Mutex<Vec<&'static Object>> = Mutex::new(Vec::new());
/// Hidden descriptors of one object, at most.
pub(crate) const HIDDEN: usize = 6;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Not in use.
    Free = 0,
    /// A byte stream; its descriptor is the Unix socket.
    Stream = 1,
    /// A listener; its descriptor is a kernel socket that listens too or not, hidden ones are the
    /// Unix listeners.
    Listener = 2,
    /// A socket bound to one of our addresses, not yet a listener or a stream.
    Bound = 3,
    /// Datagrams: a kernel socket, and a hidden stream to the carrier.
    Datagrams = 4,
    /// An epoll set.
    Epoll = 5,
    /// A descriptor the program does not know.
    Hidden = 6,
    /// A netlink socket of the kernel's, which tells addresses; see [`crate::netlink`].
    Netlink = 7,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Object {
    kind: AtomicU32,
    /// Descriptors and calls under way.
    references: AtomicU32,
    /// Descriptors alone.
    descriptors: AtomicU32,
    slot: AtomicU32,
    theirs: AtomicPtr<Arena>,
    hidden: [AtomicI32; HIDDEN],
    /// A connect was called and has not said yes yet.
    pub(crate) connecting: AtomicBool,
    /// Calls that found nothing, since the kernel was asked last.
    pub(crate) fruitless: AtomicU32,
    /// See [`crate::lead`].
    pub(crate) leader: AtomicU32,
    pub(crate) followers: AtomicU32,
    pub(crate) turn: AtomicU32,
    /// Calls that sleep for it.
    asleep: AtomicU32,
    pub(crate) spin: Spin,
    set: AtomicPtr<Set>,
    /// Of a netlink socket: what it was asked.
    pub(crate) dump: Dump,
    /// The epoll sets it is in.
    pub(crate) in_sets: Memberships,
}

/// An object that cannot become another's while this is held.
#[derive(Debug)]
pub(crate) struct Found(&'static Object);

impl Found {
    /// Whether both are the same object.
    pub(crate) fn is(&self, other: &Found) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl std::ops::Deref for Found {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Clone for Found {
    fn clone(&self) -> Self {
        self.0.references.fetch_add(1, Relaxed);
        Found(self.0)
    }
}

/// Whether descriptor `fd` is ours at all: one load.
#[inline]
pub(crate) fn is_ours(fd: c_int) -> bool {
    match DESCRIPTORS.get(fd as usize) {
        Some(place) => !place.load(Relaxed).is_null(),
        None => false,
    }
}

/// The object of descriptor `fd`.
#[inline]
pub(crate) fn find(fd: c_int) -> Option<Found> {
    if !is_ours(fd) {
        return None;
    }
    find_slowly(fd)
}

fn find_slowly(fd: c_int) -> Option<Found> {
    let place = DESCRIPTORS.get(fd as usize)?;
    loop {
        let object = place.load(Acquire);
        // SAFETY: objects live for ever.
        let object: &'static Object = unsafe { object.as_ref()? };
        object.references.fetch_add(1, AcqRel);
        let found = Found(object);
        if std::ptr::eq(place.load(Acquire), object) {
            return Some(found);
        }
    }
}

/// Whether `fd` is one of those the program must not know.
pub(crate) fn is_hidden(fd: c_int) -> bool {
    find(fd).is_some_and(|object| object.kind() == Kind::Hidden)
}

/// Every descriptor of ours, with its object.
pub(crate) fn all() -> impl Iterator<Item = (c_int, Found)> {
    (0..highest()).filter_map(|fd| Some((fd, find(fd)?)))
}

static HIGHEST: AtomicI32 = AtomicI32::new(0);

fn highest() -> c_int {
    HIGHEST.load(Relaxed)
}

/// Around a fork: nobody else is inside while this is held.
pub(crate) fn quiesce() -> MutexGuard<'static, Vec<&'static Object>> {
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an object can stand for `fd`.
pub(crate) fn fits(fd: c_int) -> bool {
    (0..TABLE as c_int).contains(&fd)
}

/// Descriptor `fd` stands for `object` from now on. What it stood for before is given back, for
/// the caller to finish.
pub(crate) fn put(fd: c_int, object: &Found) -> Option<Found> {
    let place = DESCRIPTORS.get(fd as usize)?;
    HIGHEST.fetch_max(fd + 1, Relaxed);
    object.references.fetch_add(1, Relaxed);
    object.descriptors.fetch_add(1, Relaxed);
    let before = place.swap(std::ptr::from_ref::<Object>(object.0).cast_mut(), AcqRel);
    taken_out(before)
}

/// Descriptor `fd` is not ours any more. Its object, for the caller to finish.
pub(crate) fn take(fd: c_int) -> Option<Found> {
    let place = DESCRIPTORS.get(fd as usize)?;
    taken_out(place.swap(std::ptr::null_mut(), AcqRel))
}

fn taken_out(object: *mut Object) -> Option<Found> {
    // SAFETY: objects live for ever.
    let object: &'static Object = unsafe { object.as_ref()? };
    object.descriptors.fetch_sub(1, AcqRel);
    // The table's reference becomes the caller's.
    Some(Found(object))
}

/// A new object with one reference, no descriptor yet.
pub(crate) fn new(kind: Kind, slot: u32) -> Found {
    let reused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let object = reused.unwrap_or_else(|| Box::leak(Box::new(Object::fresh())));
    object.references.fetch_add(1, AcqRel);
    object.slot.store(slot, Relaxed);
    object.connecting.store(false, Relaxed);
    object.dump.end();
    object.kind.store(kind as u32, Release);
    Found(object)
}

impl Object {
    fn fresh() -> Object {
        Object {
            kind: AtomicU32::new(Kind::Free as u32),
            references: AtomicU32::new(0),
            descriptors: AtomicU32::new(0),
            slot: AtomicU32::new(0),
            theirs: AtomicPtr::new(std::ptr::null_mut()),
            hidden: [const { AtomicI32::new(-1) }; HIDDEN],
            connecting: AtomicBool::new(false),
            fruitless: AtomicU32::new(0),
            leader: AtomicU32::new(0),
            followers: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            spin: Spin::new(spin_time()),
            set: AtomicPtr::new(std::ptr::null_mut()),
            dump: Dump::new(),
            in_sets: Memberships::new(),
        }
    }

    /// What it is.
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        match self.kind.load(Acquire) {
            1 => Kind::Stream,
            2 => Kind::Listener,
            3 => Kind::Bound,
            4 => Kind::Datagrams,
            5 => Kind::Epoll,
            6 => Kind::Hidden,
            7 => Kind::Netlink,
            _ => Kind::Free,
        }
    }

    /// It becomes something else.
    pub(crate) fn become_kind(&self, kind: Kind) {
        self.kind.store(kind as u32, Release);
    }

    /// Its slot in the arena.
    #[inline]
    pub(crate) fn slot(&self) -> u32 {
        self.slot.load(Relaxed)
    }

    /// Descriptors of this process that stand for it.
    pub(crate) fn descriptors(&self) -> u32 {
        self.descriptors.load(Acquire)
    }

    /// The other end's arena, if it is known already.
    #[inline]
    pub(crate) fn theirs(&self) -> Option<&Arena> {
        // SAFETY: from `Arc::into_raw`, given back only when nothing refers to the object.
        unsafe { self.theirs.load(Acquire).as_ref() }
    }

    /// Another owner of the other end's arena.
    pub(crate) fn theirs_shared(&self) -> Option<Arc<Arena>> {
        // SAFETY: not given back while this object is referred to.
        unsafe { another_owner(&self.theirs) }
    }

    /// Notes the other end's arena, once.
    pub(crate) fn set_theirs(&self, arena: Arc<Arena>) {
        let new = Arc::into_raw(arena).cast_mut();
        let old = self
            .theirs
            .compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire);
        if old.is_err() {
            // SAFETY: just made by `Arc::into_raw`, and nobody else has it.
            drop(unsafe { Arc::from_raw(new) });
        }
    }

    /// The stream behind a descriptor of it.
    #[inline]
    pub(crate) fn stream<'a>(&'a self, state: &'a State, fd: c_int) -> Stream<'a> {
        // SAFETY: the call that uses it was given this descriptor by the program, as any other
        // call is; if the program closes it meanwhile, the kernel says so.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Stream::new(state.arena(), self.slot(), self.theirs(), fd)
    }

    /// Its hidden descriptors.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = c_int> + '_ {
        let all = self.hidden.iter().map(|fd| fd.load(Acquire));
        all.filter(|fd| *fd >= 0)
    }

    /// Adds a hidden descriptor. False when there is no place.
    pub(crate) fn hide(&self, fd: c_int) -> bool {
        self.hidden
            .iter()
            .any(|place| place.compare_exchange(-1, fd, AcqRel, Relaxed).is_ok())
    }

    /// A hidden descriptor has another number now.
    pub(crate) fn move_hidden(&self, from: c_int, to: c_int) {
        for place in &self.hidden {
            let _ = place.compare_exchange(from, to, AcqRel, Relaxed);
        }
    }

    /// The descriptor by which it is to be reached now: `fd`, or the one that was kept for the
    /// calls that slept when its last was closed.
    pub(crate) fn descriptor(&self, fd: c_int) -> Option<c_int> {
        let place = DESCRIPTORS.get(fd as usize)?;
        match std::ptr::eq(place.load(Acquire), self) || self.kind() != Kind::Stream {
            true => Some(fd),
            false => self.hidden().next(),
        }
    }

    /// Whether calls sleep for it. To be asked after its last descriptor was taken out.
    pub(crate) fn has_sleepers(&self) -> bool {
        fence(SeqCst);
        self.asleep.load(SeqCst) > 0
    }

    /// Takes all hidden descriptors out.
    pub(crate) fn unhide(&self) -> impl Iterator<Item = c_int> + '_ {
        let all = self.hidden.iter().map(|fd| fd.swap(-1, AcqRel));
        all.filter(|fd| *fd >= 0)
    }

    /// The epoll set.
    pub(crate) fn set(&self) -> Option<Arc<Set>> {
        // SAFETY: not given back while this object is referred to.
        unsafe { another_owner(&self.set) }
    }

    /// Notes the epoll set of a new object.
    pub(crate) fn set_set(&self, set: Arc<Set>) {
        let before = self.set.swap(Arc::into_raw(set).cast_mut(), AcqRel);
        debug_assert!(before.is_null(), "an object has one set");
    }

    fn release(&'static self) {
        if self.references.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        match self.kind.swap(Kind::Free as u32, AcqRel) {
            free if free == Kind::Free as u32 => return,
            stream if stream == Kind::Stream as u32 => crate::calls::fds::finish_late(self),
            _ => {}
        }
        // SAFETY: nothing refers to the object any more.
        unsafe {
            give_back(&self.theirs);
            give_back(&self.set);
        }
        self.in_sets.clear();
        UNUSED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self);
    }
}

/// One more owner of what `place` has.
///
/// # Safety
/// It is null or from `Arc::into_raw`, and not given back meanwhile.
unsafe fn another_owner<T>(place: &AtomicPtr<T>) -> Option<Arc<T>> {
    let there = place.load(Acquire);
    if there.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    unsafe {
        Arc::increment_strong_count(there);
        Some(Arc::from_raw(there))
    }
}

/// Empties `place`.
///
/// # Safety
/// What it has is null or from `Arc::into_raw`, and only other owners refer to it.
unsafe fn give_back<T>(place: &AtomicPtr<T>) {
    let there = place.swap(std::ptr::null_mut(), AcqRel);
    if !there.is_null() {
        // SAFETY: as the caller says, taken out just now.
        drop(unsafe { Arc::from_raw(there) });
    }
}

/// A call that sleeps for an object, until dropped.
#[derive(Debug)]
pub(crate) struct Asleep<'a>(&'a Object, c_int);

impl<'a> Asleep<'a> {
    /// Which is `fd`, as far as the call knows. `None` when that was closed meanwhile.
    pub(crate) fn on(object: &'a Object, fd: c_int) -> Option<Asleep<'a>> {
        object.asleep.fetch_add(1, SeqCst);
        let asleep = Asleep(object, fd);
        // Who closes it takes it out of the table, and then looks who sleeps.
        fence(SeqCst);
        object.descriptor(fd).map(|_| asleep)
    }

    /// The descriptor to sleep on.
    pub(crate) fn descriptor(&self) -> c_int {
        self.0.descriptor(self.1).unwrap_or(self.1)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.asleep.fetch_sub(1, SeqCst);
    }
}

/// In the child of a fork: the other threads, and what they slept for, are the parent's.
pub(crate) fn after_fork() {
    for (_, object) in all() {
        for word in [&object.leader, &object.followers, &object.asleep] {
            word.store(0, SeqCst);
        }
    }
}

static SPIN: OnceLock<Duration> = OnceLock::new();

/// How long calls look before they sleep.
pub(crate) fn spin_time() -> Duration {
    *SPIN.get_or_init(|| Duration::from_micros(50))
}

/// Sets it, before the first object is made.
pub(crate) fn set_spin_time(time: Duration) {
    let _ = SPIN.set(time);
}
