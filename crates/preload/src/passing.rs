//! Descriptors that travel between processes in messages, or are inherited over `exec`.
//!
//! The kernel hands the descriptor over; what it stands for is found by the inode of its socket
//! among the slots of the arena. While it is under way the arena's entry for descriptors in transit
//! holds it, so that a sender who closes his at once does not end the stream.
//!
//! Listeners and datagrams have hidden descriptors too, which no message of the program's could
//! take along: the sender leaves them with the carrier, where each receiver fetches them.

use crate::border;
use crate::errno::{self, Outcome};
use crate::fresh;
use crate::object::{self, Found, Kind};
use crate::place;
use crate::real::{self, tail};
use crate::state::{self, State};
use crate::{listen, open};
use gannet_local::service::{self, Answer, Question};
use gannet_local::slot::{self, SlotName, flags};
use gannet_local::{TRANSIT, name};
use libc::{c_int, ssize_t};
use rustix::fd::{BorrowedFd, IntoRawFd};
use rustix::net::SocketAddrUnix;
use std::net::SocketAddr;

/// # Safety
/// As the C library's.
pub(crate) unsafe fn sendmsg(fd: c_int, message: *const libc::msghdr, call: c_int) -> ssize_t {
    // SAFETY: any bytes are a message.
    if let (Some(state), Ok(message)) = (state::get(), unsafe { place::read(message) })
        && message.msg_controllen > 0
    {
        let _busy = border::enter();
        // SAFETY: a message of the caller's.
        for passed in unsafe { descriptors(&message) } {
            fresh::forget(passed);
            if let Some(object) = object::find(passed) {
                hand_over(state, &object);
            }
        }
    }
    tail!(sendmsg(fd, message, call))
}

/// A descriptor of `object` is about to leave in a message.
fn hand_over(state: &State, object: &Found) {
    match object.kind() {
        Kind::Stream => state.arena().hold(TRANSIT, object.slot()),
        kind if has_hidden(kind) => {
            state.arena().hold(TRANSIT, object.slot());
            leave_hidden(state, object);
        }
        _ => {}
    }
}

fn has_hidden(kind: Kind) -> bool {
    matches!(kind, Kind::Listener | Kind::Bound | Kind::Datagrams)
}

/// The carrier keeps the hidden descriptors of `object` from now on. Without it only the kernel's
/// side travels.
fn leave_hidden(state: &State, object: &Found) {
    let slot = state.arena().own(object.slot());
    if slot.flags() & flags::KEPT != 0 {
        return;
    }
    let network = state.peers().network();
    for hidden in object.hidden() {
        // SAFETY: hidden descriptors are open while the object has them.
        let hidden = unsafe { BorrowedFd::borrow_raw(hidden) };
        if service::keep(network, state.host(), object.slot(), hidden).is_err() {
            return;
        }
    }
    slot.set_flags(flags::KEPT);
}

/// Gets the hidden descriptors of `object` that the carrier keeps, if this process has none.
fn fetch_hidden(state: &State, object: &Found) {
    let kept = state.arena().own(object.slot()).flags() & flags::KEPT != 0;
    if !kept || !has_hidden(object.kind()) || object.hidden().next().is_some() {
        return;
    }
    let network = state.peers().network();
    for place in 0..object::HIDDEN as u32 {
        let question = Question::Kept(object.slot(), place);
        match service::ask(network, state.host(), &question) {
            Ok(Answer {
                file: Some(hidden), ..
            }) => open::hide(object, open::high_up(hidden).into_raw_fd()),
            _ => break,
        }
    }
}

/// # Safety
/// As the C library's.
pub(crate) unsafe fn recvmsg(fd: c_int, message: *mut libc::msghdr, call: c_int) -> ssize_t {
    // SAFETY: any bytes are a message.
    let told = unsafe { place::read(message) };
    let may_bring = told.is_ok_and(|message| message.msg_controllen > 0);
    if !may_bring {
        return tail!(recvmsg(fd, message, call));
    }
    // SAFETY: as the caller says.
    match border::answer(|| Some(unsafe { receive(fd, message, call) })) {
        Some(outcome) => errno::give_len(outcome),
        // It sleeps at the border, and what comes is looked at there.
        None => tail!(if false, recvmsg(fd, message, call)),
    }
}

/// `recvmsg` of the kernel, and what the message brings.
///
/// # Safety
/// As the C library's.
unsafe fn receive(fd: c_int, message: *mut libc::msghdr, call: c_int) -> Outcome<usize> {
    // SAFETY: passed on.
    let got = unsafe { real::recvmsg(fd, message, call) };
    let got = usize::try_from(got).map_err(|_| errno::get())?;
    if let Some(state) = state::get()
        // SAFETY: as the caller says.
        && let Some(message) = unsafe { message.as_ref() }
        && message.msg_controllen > 0
    {
        // SAFETY: filled in by the kernel.
        for passed in unsafe { descriptors(message) } {
            match adopt(state, passed) {
                Some(object) => {
                    fetch_hidden(state, &object);
                    state.arena().let_go(TRANSIT, object.slot());
                }
                None => listen::adopt(state, passed),
            }
        }
    }
    Ok(got)
}

/// The descriptors in a message's control data.
///
/// # Safety
/// The message is one for the kernel, or from it.
unsafe fn descriptors(message: &libc::msghdr) -> Vec<c_int> {
    let mut all = Vec::new();
    if !place::can_read(message.msg_control.cast::<u8>(), message.msg_controllen) {
        return all;
    }
    // SAFETY: the C library's walk over control data, which stays within its length.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = part.as_ref() {
            let rights =
                header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS;
            let bytes = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            if rights {
                let first = libc::CMSG_DATA(part).cast::<c_int>();
                let n = (bytes / size_of::<c_int>()).min(253);
                all.extend((0..n).map(|i| first.add(i).read_unaligned()));
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
    all
}

/// Finds out what a descriptor that came from elsewhere stands for.
fn adopt(state: &State, fd: c_int) -> Option<Found> {
    if !object::fits(fd) {
        return None;
    }
    // SAFETY: came just now, or was there when this process began.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(borrowed).ok()?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Socket {
        return None;
    }
    let n = state.arena().find_inode(stat.st_ino)?;
    let object = match known(n) {
        Some(object) => object,
        None => new_object(state, n)?,
    };
    state.arena().hold(state.holder(), n);
    if let Some(stale) = object::put(fd, &object) {
        crate::calls::fds::finish(state, &stale, fd);
    }
    Some(object)
}

/// The object of slot `n`, if this process has one.
fn known(n: u32) -> Option<Found> {
    object::all()
        .map(|(_, object)| object)
        .find(|object| object.slot() == n && object.kind() != Kind::Epoll)
}

fn new_object(state: &State, n: u32) -> Option<Found> {
    let slot = state.arena().own(n);
    let kind = match slot.kind()? {
        slot::Kind::Stream => Kind::Stream,
        slot::Kind::Listener if slot.state() == slot::State::Listen => Kind::Listener,
        slot::Kind::Listener => Kind::Bound,
        slot::Kind::Datagrams => Kind::Datagrams,
    };
    let object = object::new(kind, n);
    if kind != Kind::Listener && kind != Kind::Bound {
        // Before it gives up the calls for it (seccomp). If there is no room, its calls say so.
        let _ = state.arena().map_ring(n);
    }
    if slot.flags() & flags::RESOLVED != 0
        && let Ok(theirs) = state.peers().get(slot.peer_name().host)
    {
        let _ = theirs.map_ring(slot.peer_name().slot);
        object.set_theirs(theirs);
    }
    Some(object)
}

/// After `exec`: the descriptors that stayed open, and the hidden ones that belong to them.
pub(crate) fn adopt_inherited(state: &State) {
    let Ok(directory) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers = directory.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<c_int>().ok()
    });
    let mut left = Vec::new();
    for fd in numbers.collect::<Vec<_>>() {
        match adopt(state, fd) {
            Some(_) => {}
            None => left.push(fd),
        }
    }
    for fd in left {
        let Some(name) = unix_name(fd) else {
            listen::adopt(state, fd);
            continue;
        };
        if name::is_listener(state.peers().network(), &name) {
            hide(state, fd, &name);
        } else if let Some((of, _)) = name::read_connector(&name)
            && of.host == state.host()
        {
            hide_records(state, fd, of);
        }
    }
    // Those that were not open over `exec`.
    fetch_all_hidden(state);
}

fn fetch_all_hidden(state: &State) {
    let all: Vec<Found> = object::all().map(|(_, object)| object).collect();
    for object in all.iter().filter(|object| has_hidden(object.kind())) {
        fetch_hidden(state, object);
    }
}

fn unix_name(fd: c_int) -> Option<SocketAddrUnix> {
    // SAFETY: open when this process began; if not, the kernel says so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let name = rustix::net::getsockname(borrowed).ok()?;
    SocketAddrUnix::try_from(name).ok()
}

/// A stream of records that came over `exec` belongs to the socket in its slot.
fn hide_records(state: &State, fd: c_int, of: SlotName) {
    let same = |object: &Found| {
        object.kind() == Kind::Datagrams && state.arena().own(object.slot()).name() == of
    };
    let found = object::all().map(|(_, object)| object).find(same);
    match found {
        Some(object) => open::hide(&object, fd),
        None => {
            // Nobody's any more.
            // SAFETY: no pointers.
            unsafe { real::close(fd) };
        }
    }
}

/// A listener of ours that came over `exec` belongs to the socket with its port.
fn hide(state: &State, fd: c_int, name: &SocketAddrUnix) {
    let port = name::listener_port(name);
    let same = |object: &Found| {
        let local: SocketAddr = state.arena().own(object.slot()).local();
        matches!(object.kind(), Kind::Listener | Kind::Bound) && Some(local.port()) == port
    };
    let found = object::all().map(|(_, object)| object).find(same);
    match found {
        Some(object) => {
            open::hide(&object, fd);
        }
        None => {
            // Nobody's any more.
            // SAFETY: no pointers.
            unsafe { real::close(fd) };
        }
    }
}
