//! Dumps of addresses over netlink (rtnetlink(7), `RTM_GETADDR`), by which programs without the C
//! library's `getifaddrs` look for addresses: musl, Go, dnsmasq, `ip`. The kernel answers, and the
//! program's own addresses are put before the end of its answer.
//!
//! The datagram with the end stays in the kernel's queue until all of it was given, in pieces where
//! one would be longer than the kernel makes them: so the socket stays readable for `poll`, and
//! nothing is kept here but which piece is next.

mod message;

use crate::errno::Outcome;
use crate::interfaces::{self, Own};
use crate::object::{self, Kind, Object};
use crate::place;
use crate::state::State;
use crate::transfer::Pieces;
use gannet_local::{Span, guarded, sandbox};
use libc::c_int;
use message::{Datagrams, Request};
use rustix::fd::BorrowedFd;
use rustix::net::{RecvFlags, recv};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What a netlink socket was asked last, as far as it concerns the library.
#[derive(Debug)]
pub(crate) struct Dump {
    /// Nothing is open: 0. Else one more than the pieces given of the last datagram.
    next: AtomicU32,
    sequence: AtomicU32,
    family: AtomicU32,
    interface: AtomicU32,
}

impl Dump {
    pub(crate) const fn new() -> Dump {
        Dump {
            next: AtomicU32::new(0),
            sequence: AtomicU32::new(0),
            family: AtomicU32::new(0),
            interface: AtomicU32::new(0),
        }
    }

    /// The object stands for another socket from now on.
    pub(crate) fn end(&self) {
        self.next.store(0, Relaxed);
    }

    fn begin(&self, request: &Request) {
        self.sequence.store(request.sequence, Relaxed);
        self.family.store(request.family.into(), Relaxed);
        self.interface.store(request.interface, Relaxed);
        self.next.store(1, Release);
    }

    fn request(&self) -> Request {
        Request {
            sequence: self.sequence.load(Relaxed),
            family: self.family.load(Relaxed) as u8,
            interface: self.interface.load(Relaxed),
        }
    }
}

/// A new netlink socket: one that can ask for addresses is looked at, where there are any to add.
pub(crate) fn made(state: &State, fd: c_int, protocol: c_int) {
    let asks = protocol == libc::NETLINK_ROUTE;
    if asks && fd >= 0 && object::fits(fd) && interfaces::own(state).next().is_some() {
        object::put(fd, &object::new(Kind::Netlink, u32::MAX));
    }
}

/// The program is about to send this. The kernel gets it as it is.
///
/// # Safety
/// No other thread changes the pieces meanwhile.
pub(crate) unsafe fn sends(object: &Object, pieces: &Pieces) {
    let mut start = [0; message::REQUEST];
    let mut len = 0;
    for span in pieces.spans() {
        let n = span.len.min(start.len() - len);
        let Some(place) = start.get_mut(len..len + n).filter(|_| n > 0) else {
            break;
        };
        // SAFETY: a place of our own, of `n` bytes.
        if unsafe { guarded::copy(place.as_mut_ptr(), span.first, n) }.is_err() {
            break;
        }
        len += n;
    }
    if let Some(request) = start.get(..len).and_then(Request::read) {
        object.dump.begin(&request);
    }
}

/// As [`sends`].
///
/// # Safety
/// As `sendmsg`.
pub(crate) unsafe fn sends_message(object: &Object, message: *const libc::msghdr) {
    // SAFETY: any bytes are a message.
    unsafe {
        if let Ok(message) = place::read(message)
            && let Ok(pieces) = Pieces::many(message.msg_iov, message.msg_iovlen)
        {
            sends(object, &pieces);
        }
    }
}

/// As [`receive`], of a call that is given bytes alone.
pub(crate) fn receive_bytes(
    state: &State,
    object: &Object,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Option<Outcome<usize>> {
    // SAFETY: the program passed these places to be written.
    let given = unsafe { receive(state, object, fd, pieces, call) };
    given.map(|given| Ok(given.len))
}

/// As [`receive`], with what a message has beside its bytes.
///
/// # Safety
/// As `recvmsg`.
pub(crate) unsafe fn receive_message(
    state: &State,
    object: &Object,
    fd: c_int,
    message: *mut libc::msghdr,
    call: c_int,
) -> Option<Outcome<usize>> {
    // SAFETY: as the caller says.
    let message = unsafe { place::borrow(message) }.ok()?;
    // SAFETY: as the caller says.
    let pieces = unsafe { Pieces::many(message.msg_iov, message.msg_iovlen) }.ok()?;
    // SAFETY: as the caller says.
    let given = unsafe { receive(state, object, fd, &pieces, call) }?;
    message.msg_flags = given.flags;
    message.msg_controllen = 0;
    // SAFETY: as the caller says.
    unsafe { give_sender(message.msg_name.cast(), &raw mut message.msg_namelen) };
    Some(Ok(given.len))
}

/// What a receiving call is given.
struct Given {
    /// What the call returns.
    len: usize,
    /// `MSG_TRUNC`, if there was no room for all.
    flags: c_int,
}

/// Receives. `None`: what comes next does not concern the library, and is the kernel's to give.
///
/// # Safety
/// The pieces can be written.
unsafe fn receive(
    state: &State,
    object: &Object,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Option<Given> {
    /// More than the kernel puts into a datagram of a dump.
    const MOST: usize = 64 << 10;
    let given = object.dump.next.load(Acquire).checked_sub(1)?;
    // (a filter may forbid the calls that this takes, and the program would be killed)
    if call & libc::MSG_OOB != 0 || sandbox::is_on() {
        return None;
    }
    let is_there = |span: &Span| place::can_write(span.first, span.len);
    if !pieces.spans().iter().all(is_there) {
        return None;
    }
    // SAFETY: the program's descriptor, which it uses in this call.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut bytes = vec![0; MOST];
    let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    let (_, len) = recv(socket, bytes.as_mut_slice(), peek).ok()?;
    // A longer one than there is room for here is none of this kind.
    let kernels = bytes.get(..len)?;
    let request = object.dump.request();
    let own = missing(state, &request);
    let all = Datagrams::of(kernels, &request, &own)?;
    let (piece, is_last) = all.piece(given as usize)?;
    // SAFETY: as the caller says.
    let n = unsafe { write(piece, pieces) };
    if call & libc::MSG_PEEK == 0 {
        object.dump.next.store(given + 2, Release);
        if is_last {
            object.dump.end();
            let nothing = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let _ = recv(socket, &mut [0; 1][..], nothing);
        }
    }
    Some(Given {
        len: match call & libc::MSG_TRUNC {
            0 => n,
            _ => piece.len(),
        },
        flags: if n < piece.len() { libc::MSG_TRUNC } else { 0 },
    })
}

/// The program's addresses that were asked for and that the kernel does not have, with the number
/// of their interface and its name.
fn missing(state: &State, request: &Request) -> Vec<message::Entry> {
    let name = &state.settings().interface;
    let Some(index) = interfaces::index_of(name) else {
        return Vec::new();
    };
    let wanted = |own: &Own| {
        let family = match own.address.is_ipv4() {
            true => libc::AF_INET,
            false => libc::AF_INET6,
        };
        (request.interface == 0 || request.interface == index)
            && [libc::AF_UNSPEC, family].contains(&request.family.into())
            && !interfaces::is_kernels(own.address)
    };
    let entry = |own: Own| message::Entry {
        own,
        index,
        name: name.to_bytes().to_vec(),
        broadcasts: name.as_c_str() != c"lo",
    };
    interfaces::own(state).filter(wanted).map(entry).collect()
}

/// As many of the bytes as there is room for.
///
/// # Safety
/// The pieces can be written.
unsafe fn write(bytes: &[u8], pieces: &Pieces) -> usize {
    let mut done = 0;
    for span in pieces.spans() {
        let rest = bytes.get(done..).unwrap_or_default();
        let n = span.len.min(rest.len());
        // SAFETY: the program passed this place to be written.
        if unsafe { place::write_first(span.first, rest, n) }.is_err() {
            break;
        }
        done += n;
    }
    done
}

/// The kernel's address, as the sender of what was received; an address of `recvfrom`.
///
/// # Safety
/// The program named the places for it, or they are null.
pub(crate) unsafe fn give_sender(to: *mut libc::sockaddr, len: *mut libc::socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    let whole = size_of::<libc::sockaddr_nl>();
    // SAFETY: all zeros are an address.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    // SAFETY: as the caller says.
    unsafe {
        let Ok(room) = place::read(len) else { return };
        let _ = place::write_first(to.cast(), &address, room as usize);
        let _ = place::write(len, &(whole as libc::socklen_t));
    }
}
