//! Sockets on which nothing was set since they were made: what their options are need not be asked
//! one by one, which is forty system calls for each connection.
//!
//! A socket made by `socket` is remembered under its number with its cookie (`SO_COOKIE`), by which
//! the kernel tells all sockets apart: another socket under the same number is not taken for it.
//! It is forgotten when something is set on it, and when something might be set where it is not
//! seen: under another number (`dup`), in a child, in a process that it was sent to. Sockets that
//! are made by number (`syscall`, Go) are never remembered, as what is set on them so is not seen.

use crate::open::Plain;
use crate::{border, options, real};
use gannet_local::options::Options;
use gannet_local::slot::OwnSlot;
use libc::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Descriptors that are remembered.
const DESCRIPTORS: usize = 65_536;

/// A socket: its cookie, 0 for none, and the time at which it was made.
struct Made {
    cookie: AtomicU64,
    time: AtomicU32,
}

static MADE: [Made; DESCRIPTORS] = [const {
    Made {
        cookie: AtomicU64::new(0),
        time: AtomicU32::new(0),
    }
}; DESCRIPTORS];

/// Counts what makes all of them unknown.
static TIME: AtomicU32 = AtomicU32::new(0);

/// The options that a new socket has: of IPv4 and IPv6. Asked once: a process seldom outlives what
/// `sysctl` says.
static NEW: [OnceLock<Options>; 2] = [const { OnceLock::new() }; 2];

fn made(fd: c_int) -> Option<&'static Made> {
    MADE.get(usize::try_from(fd).ok()?)
}

fn cookie(fd: c_int) -> u64 {
    let mut cookie = 0u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    let place = (&raw mut cookie).cast();
    // SAFETY: places of our own, as long as said.
    let got =
        unsafe { real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, place, &raw mut len) };
    if got == 0 { cookie } else { 0 }
}

/// `fd` is a new socket of the program's, made by name.
pub(crate) fn remember(fd: c_int, domain: c_int, kind: c_int) {
    let is_tcp =
        kind & 0xf == libc::SOCK_STREAM && [libc::AF_INET, libc::AF_INET6].contains(&domain);
    let Some(made) = made(fd).filter(|_| is_tcp && border::is_raised() && !border::is_answering())
    else {
        return;
    };
    made.time.store(TIME.load(Acquire), Relaxed);
    made.cookie.store(cookie(fd), Release);
}

/// Something is set on `fd`, or is going to be, under another number perhaps.
pub(crate) fn forget(fd: c_int) {
    if let Some(made) = made(fd)
        && made.cookie.load(Relaxed) != 0
    {
        made.cookie.store(0, Release);
    }
}

/// Other processes get sockets of this one.
pub(crate) fn forget_all() {
    TIME.fetch_add(1, Release);
}

fn is_fresh(fd: c_int) -> bool {
    let known = made(fd).filter(|made| made.time.load(Relaxed) == TIME.load(Acquire));
    let known = known.map_or(0, |made| made.cookie.load(Acquire));
    known != 0 && known == cookie(fd)
}

/// The stream in `slot`, which is new, has what the program set on the kernel's socket `fd`.
/// Whether it may have set anything.
pub(crate) fn copy_options(fd: c_int, plain: Plain, slot: &OwnSlot<'_>) -> bool {
    let [four, six] = &NEW;
    let known = if plain.six { six } else { four };
    if !is_fresh(fd) {
        options::copy_from_kernel(fd, slot);
        return true;
    }
    match known.get() {
        Some(known) => slot.set_options(known),
        None => {
            options::copy_from_kernel(fd, slot);
            let _ = known.set(slot.options());
        }
    }
    false
}
