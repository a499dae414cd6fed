//! `poll` over descriptors of ours and the kernel's; `select` is made of it.

mod sleep;

use crate::datagrams;
use crate::epoll::{is_direct, ready_events};
use crate::errno::{self, Outcome};
use crate::exclusive;
use crate::lead::Lead;
use crate::object::{self, Found, Kind};
use crate::place;
use crate::real;
use crate::state::State;
use crate::wait;
use gannet_local::Spin;
use libc::{c_int, c_short, pollfd};
use sleep::Sleep;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// When a wait is over; `None` never.
pub(crate) fn deadline_of(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

pub(crate) fn left(deadline: Option<Instant>) -> Option<libc::timespec> {
    let left = deadline?.saturating_duration_since(Instant::now());
    Some(libc::timespec {
        tv_sec: left.as_secs() as libc::time_t,
        tv_nsec: left.subsec_nanos().into(),
    })
}

/// What the kernel is asked for one entry of ours, and where its answer goes.
struct Asked {
    /// Which entry of the caller's.
    entry: usize,
    ours: Option<Found>,
}

/// Whether one of the descriptors is ours.
pub(crate) fn concerns_us(fds: &[pollfd]) -> bool {
    fds.iter()
        .any(|entry| entry.fd >= 0 && object::find(entry.fd).is_some_and(|o| matters(&o)))
}

fn matters(object: &Found) -> bool {
    match object.kind() {
        Kind::Epoll => object
            .set()
            .is_some_and(|set| !crate::epoll::is_the_kernels(&set)),
        Kind::Bound | Kind::Netlink => false,
        _ => true,
    }
}

/// `ppoll`.
pub(crate) fn poll(
    state: &State,
    fds: &mut [pollfd],
    deadline: Option<Instant>,
    mask: *const libc::sigset_t,
) -> Outcome<c_int> {
    static SPIN: OnceLock<Spin> = OnceLock::new();
    let spin = SPIN.get_or_init(|| Spin::new(object::spin_time()));
    let ours: Vec<Option<Found>> = fds
        .iter()
        .map(|entry| object::find(entry.fd).filter(matters))
        .collect();
    let is_stream = |object: &Option<Found>| matches!(object, Some(o) if o.kind() == Kind::Stream);
    let others = !ours.iter().all(is_stream);
    let has_looked = crate::border::has_looked();
    let direct = ours.iter().flatten().any(|object| is_direct(state, object));
    loop {
        let ready = look(state, fds, &ours);
        if ready > 0 && !others && !is_kernels_turn() {
            return Ok(ready);
        }
        if ready > 0 || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return ask_kernel(state, fds, (&ours, &[]), (Some(Duration::ZERO), mask));
        }
        if direct && !has_looked && spin.until(|| look(state, fds, &ours) > 0) {
            continue;
        }
        let sleep = Sleep::begin(state, fds, &ours);
        let news = look(state, fds, &ours) > 0;
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = match news {
            true => Some(Duration::ZERO),
            false => sleep.length(left),
        };
        let outcome = ask_kernel(state, fds, (&ours, sleep.leads()), (timeout, mask));
        drop(sleep);
        match outcome {
            Ok(0) if deadline.is_none_or(|deadline| deadline > Instant::now()) => {}
            other => return other,
        }
    }
}

/// Nothing but streams of ours was asked for, and some are ready: the kernel is asked now and then
/// whether the others' ends still live.
fn is_kernels_turn() -> bool {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    CALLS.fetch_add(1, Relaxed).is_multiple_of(64)
}

/// What is ready without asking the kernel, which is asked about all descriptors at once.
fn ready_of_ours(state: &State, object: &Found, entry: &pollfd) -> u32 {
    if object.kind() == Kind::Stream && object.theirs().is_none() {
        wait::look_for_answer(state, object, entry.fd);
    }
    match object.kind() {
        Kind::Datagrams => datagrams::ready_at_ours(state, object),
        _ => ready_events(state, object, entry.fd, entry.events as u32),
    }
}

/// Writes what is ready of ours; gives how many are.
fn look(state: &State, fds: &mut [pollfd], ours: &[Option<Found>]) -> c_int {
    let mut found = 0;
    for (entry, object) in fds.iter_mut().zip(ours) {
        let Some(object) = object else { continue };
        // The bits of poll and epoll have the same values.
        entry.revents = match object.kind() {
            Kind::Hidden => libc::POLLNVAL,
            _ => {
                let ready = ready_of_ours(state, object, entry) as c_short;
                ready & (entry.events | libc::POLLHUP | libc::POLLERR)
            }
        };
        found += c_int::from(entry.revents != 0);
    }
    found
}

/// Asks the kernel for its own, and for wake-ups of ours; gives how many entries are ready.
fn ask_kernel(
    state: &State,
    fds: &mut [pollfd],
    (ours, leads): (&[Option<Found>], &[Lead<'_>]),
    (timeout, mask): (Option<Duration>, *const libc::sigset_t),
) -> Outcome<c_int> {
    let mut asked = Vec::with_capacity(fds.len() + 2);
    let mut whose = Vec::with_capacity(fds.len() + 2);
    for (n, (entry, object)) in fds.iter().zip(ours).enumerate() {
        questions(state, (n, entry, object.as_ref()), &mut asked, &mut whose);
    }
    let time = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let n = asked.len() as libc::nfds_t;
    // SAFETY: places of our own; the mask is the caller's.
    errno::of(unsafe { real::ppoll(asked.as_mut_ptr(), n, time, mask) })?;
    for entry in fds.iter_mut() {
        entry.revents = 0;
    }
    for (answer, asked) in asked.iter().zip(&whose) {
        let Some(entry) = fds.get_mut(asked.entry) else {
            continue;
        };
        match &asked.ours {
            None => entry.revents |= answer.revents,
            Some(object) if object.kind() == Kind::Listener => {
                entry.revents |= answer.revents & (libc::POLLIN | libc::POLLRDNORM) & entry.events;
            }
            Some(object) if answer.revents != 0 && object.kind() != Kind::Epoll => {
                sleep::take_wakes(state, object, answer.fd, leads);
            }
            Some(_) => {}
        }
    }
    for (entry, object) in fds.iter_mut().zip(ours) {
        let Some(object) = object else { continue };
        if object.descriptor(entry.fd) != Some(entry.fd) || object.kind() == Kind::Hidden {
            // Closed while this one slept, or never the program's.
            entry.revents = libc::POLLNVAL;
        } else if object.kind() != Kind::Listener {
            let ready = ready_of_ours(state, object, entry) as c_short;
            entry.revents |= ready & (entry.events | libc::POLLHUP | libc::POLLERR);
        }
    }
    Ok(fds.iter().filter(|entry| entry.revents != 0).count() as c_int)
}

fn questions(
    state: &State,
    (n, entry, object): (usize, &pollfd, Option<&Found>),
    asked: &mut Vec<pollfd>,
    whose: &mut Vec<Asked>,
) {
    let mut ask = |fd: c_int, events: c_short, ours: Option<&Found>| {
        asked.push(pollfd {
            fd,
            events,
            revents: 0,
        });
        whose.push(Asked {
            entry: n,
            ours: ours.cloned(),
        });
    };
    let Some(object) = object else {
        return ask(entry.fd, entry.events, None);
    };
    match object.kind() {
        Kind::Listener => {
            if !is_hung_up(entry.fd) {
                ask(entry.fd, entry.events, Some(object));
            }
            for hidden in object.hidden() {
                ask(hidden, entry.events, Some(object));
            }
        }
        Kind::Datagrams => {
            let hidden = datagrams::watched(state, object);
            if datagrams::is_at_kernel(state, object) {
                let room = if hidden.is_some() { libc::POLLOUT } else { 0 };
                ask(entry.fd, entry.events & !room, None);
            }
            if let Some(hidden) = hidden {
                ask(hidden, libc::POLLIN, Some(object));
            }
        }
        _ => {
            let events = match wait::is_deaf(state, object) {
                true => 0,
                false => libc::POLLIN | libc::POLLRDHUP,
            };
            let fd = object.descriptor(entry.fd).unwrap_or(entry.fd);
            ask(fd, events, Some(object));
        }
    }
}

/// Waits until one of a listener's sides has a connection.
pub(crate) fn wait_for_listener(
    state: &State,
    object: &Found,
    fd: c_int,
    deadline: Option<Instant>,
) -> Outcome<()> {
    let entry = |fd: c_int| pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = vec![entry(fd)];
    fds.extend(object.hidden().map(entry));
    // A listener that was shut down, or only listens at our side, hangs up at the kernel's.
    if let Some(first) = fds.first_mut()
        && is_hung_up(fd)
    {
        first.fd = -1;
    }
    let is_shared = || {
        state
            .arena()
            .has_other_holder(state.holder(), object.slot())
    };
    if is_shared()
        && let Some(slept) = exclusive::sleep(&fds, deadline)
    {
        return slept;
    }
    let time = left(deadline);
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let n = fds.len() as libc::nfds_t;
    // SAFETY: places of our own.
    match errno::of(unsafe { real::ppoll(fds.as_mut_ptr(), n, time, std::ptr::null()) })? {
        0 => Err(libc::EAGAIN),
        _ => Ok(()),
    }
}

/// Whether the kernel's side of a listener of ours has nothing to tell but that it is none.
pub(crate) fn is_hung_up(fd: c_int) -> bool {
    let mut entry = pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    // SAFETY: a place of our own.
    unsafe { real::poll(&raw mut entry, 1, 0) == 1 && entry.revents & libc::POLLHUP != 0 }
}

/// How much of its sets a `select` looks at: the kernel looks no further than its table of
/// descriptors is long, and that length should not come from descriptors the program never made.
pub(crate) fn within(n: c_int) -> c_int {
    let usual = libc::FD_SETSIZE as c_int;
    if n <= usual || crate::state::get().is_none() {
        return n;
    }
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = open.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<c_int>().ok()
    });
    let is_hidden = |fd: &c_int| object::find(*fd).is_some_and(|o| o.kind() == Kind::Hidden);
    let most = numbers.filter(|fd| !is_hidden(fd)).max().unwrap_or(0);
    n.min(usual.max(most.saturating_add(1)))
}

/// `select`: `sets` are read, write and except, each of `n` bits, or null.
///
/// # Safety
/// Each set that is not null can be read and written for `n` bits.
pub(crate) unsafe fn select(
    state: &State,
    n: c_int,
    sets: [*mut libc::fd_set; 3],
    deadline: Option<Instant>,
    mask: *const libc::sigset_t,
) -> Outcome<c_int> {
    const WANTED: [c_short; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    const MEANS: [c_short; 3] = [
        libc::POLLIN | libc::POLLHUP | libc::POLLERR,
        libc::POLLOUT | libc::POLLERR,
        libc::POLLPRI,
    ];
    // SAFETY: as the caller says.
    let has =
        |set: usize, fd: c_int| unsafe { bit(sets, set, fd).is_some_and(|b| *b.0 & b.1 != 0) };
    let mut fds = Vec::new();
    for fd in 0..n {
        let wanted = (0..3).filter(|&set| has(set, fd));
        let events = wanted.fold(0, |all, set| all | WANTED.get(set).unwrap_or(&0));
        if events != 0 {
            fds.push(pollfd {
                fd,
                events,
                revents: 0,
            });
        }
    }
    poll(state, &mut fds, deadline, mask)?;
    if fds.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return Err(libc::EBADF);
    }
    let mut found = 0;
    for entry in &fds {
        for (set, means) in MEANS.iter().enumerate() {
            // SAFETY: as the caller says.
            let Some((word, bit)) = (unsafe { bit(sets, set, entry.fd) }) else {
                continue;
            };
            // SAFETY: a word of the caller's set.
            unsafe {
                if *word & bit != 0 && entry.revents & means != 0 {
                    found += 1;
                } else {
                    *word &= !bit;
                }
            }
        }
    }
    Ok(found)
}

/// The word and the bit of `fd` in a set.
///
/// # Safety
/// The set can be written there.
unsafe fn bit(sets: [*mut libc::fd_set; 3], set: usize, fd: c_int) -> Option<(*mut u64, u64)> {
    let first = sets.get(set)?.cast::<u64>();
    if first.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    Some((
        unsafe { first.add(fd as usize / 64) },
        1 << (fd as usize % 64),
    ))
}

/// Whether a `select` concerns us.
///
/// # Safety
/// As [`select`].
pub(crate) unsafe fn select_concerns_us(n: c_int, sets: [*mut libc::fd_set; 3]) -> bool {
    let words = (n.max(0) as usize).div_ceil(64);
    let is_there =
        |set: &*mut libc::fd_set| set.is_null() || place::can_write(set.cast::<u64>(), words);
    if !sets.iter().all(is_there) {
        // The kernel says that.
        return false;
    }
    (0..n).filter(|fd| object::is_ours(*fd)).any(|fd| {
        // SAFETY: as the caller says.
        (0..3).any(|set| unsafe { bit(sets, set, fd).is_some_and(|b| *b.0 & b.1 != 0) })
    })
}
