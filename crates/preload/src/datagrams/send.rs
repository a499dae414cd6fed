//! Datagrams to addresses of ours; what goes elsewhere is the kernel's to send.

use super::{control, is_connected, is_ours_alone, ready, side, sides, sleep, stream};
use crate::errno::{self, Outcome};
use crate::object::Found;
use crate::options;
use crate::poll::deadline_of;
use crate::state::{State, Whose};
use crate::transfer::{Pieces, not_connected};
use crate::{address, open};
use gannet_local::datagram::{HEADER, Header};
use gannet_local::meet;
use gannet_local::slot::flags;
use gannet_local::{Hindrance, Span};
use libc::{c_int, sockaddr, socklen_t};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};

/// Longest payloads, as IPv4's and IPv6's headers leave room for.
const LONGEST_FOUR: usize = 65_507;
const LONGEST_SIX: usize = 65_527;
/// Most datagrams of one call that is to be cut (`UDP_SEGMENT`), as the kernel has it.
const MOST_SEGMENTS: usize = 128;

/// Where a datagram goes.
enum Way {
    /// To an address of ours.
    Ours(SocketAddr),
    Kernels,
}

/// Whether a call on a kernel socket names an address of ours. Then it gets a side with us.
///
/// # Safety
/// `to` can be read for `len` bytes, or is null.
pub(crate) unsafe fn is_for_ours(
    state: &State,
    fd: c_int,
    (to, len): (*const sockaddr, socklen_t),
) -> Option<Outcome<Found>> {
    if to.is_null() || state.settings().addresses.is_empty() {
        return None;
    }
    // SAFETY: as the caller says.
    let to = meet::plain(unsafe { address::read(to, len) }.ok()??);
    if state.whose(to.ip()) != Whose::Ours {
        return None;
    }
    let plain = open::plain(fd).filter(|plain| !plain.stream && (plain.six || to.is_ipv4()))?;
    Some(side(state, fd, plain))
}

/// Whom a call names, if anybody. `None`: a name that is not ours to judge, so the kernel does.
///
/// # Safety
/// `to` can be read for `len` bytes, or is null.
unsafe fn destination(
    state: &State,
    object: &Found,
    (to, len): (*const sockaddr, socklen_t),
) -> Option<Option<SocketAddr>> {
    if to.is_null() {
        return Some(None);
    }
    if len as usize > size_of::<libc::sockaddr_storage>() {
        return None;
    }
    // SAFETY: as the caller says.
    let named = unsafe { address::read(to, len) }.ok()?;
    let six = state.arena().own(object.slot()).flags() & flags::SIX != 0;
    match named {
        Some(SocketAddr::V6(_)) if !six => None,
        Some(named) => Some(Some(named)),
        // SAFETY: as the caller says.
        None if unsafe { address::is_unspecified(to, len) } => match six {
            true => Some(None),
            // SAFETY: as the caller says.
            false => unsafe { address::read_as_four(to, len) }.map(Some),
        },
        None => None,
    }
}

/// As [`way_of`], if anything leads there now.
fn way(state: &State, object: &Found, to: Option<SocketAddr>) -> Outcome<Way> {
    let way = way_of(state, object, to)?;
    match way {
        Way::Ours(to) if state.is_cut_off_from(to.ip()) => Err(libc::ENETUNREACH),
        way => Ok(way),
    }
}

fn way_of(state: &State, object: &Found, to: Option<SocketAddr>) -> Outcome<Way> {
    let slot = state.arena().own(object.slot());
    let alone = is_ours_alone(&slot);
    let Some(to) = to.map(meet::plain) else {
        return match is_connected(&slot) {
            true => Ok(Way::Ours(slot.remote())),
            false if alone => Err(libc::EDESTADDRREQ),
            false => Ok(Way::Kernels),
        };
    };
    let ours = match state.whose(to.ip()) {
        Whose::Ours => slot.flags() & flags::SIX != 0 || to.is_ipv4(),
        Whose::Loopback | Whose::Kernel => alone && goes_to_many(to.ip()),
    };
    match ours {
        true if to.port() == 0 => Err(libc::EINVAL),
        true => Ok(Way::Ours(to)),
        false if alone && to.ip().is_loopback() => Err(libc::EINVAL),
        false if alone => Err(libc::ENETUNREACH),
        false => Ok(Way::Kernels),
    }
}

fn goes_to_many(ip: IpAddr) -> bool {
    ip.is_multicast() || matches!(ip, IpAddr::V4(ip) if ip.is_broadcast())
}

/// `send`, `write`. `None`: the kernel's to send.
pub(crate) fn send(
    state: &State,
    object: &Found,
    fd: c_int,
    pieces: &Pieces,
    call: c_int,
) -> Option<Outcome<usize>> {
    match way(state, object, None) {
        Ok(Way::Kernels) => None,
        Ok(Way::Ours(to)) => Some(send_ours(state, object, fd, (pieces, call), &plainly(to))),
        Err(error) => Some(Err(error)),
    }
}

/// `sendto`. `None`: the kernel's to send.
///
/// # Safety
/// `to` can be read for `len` bytes, or is null.
pub(crate) unsafe fn send_to(
    state: &State,
    object: &Found,
    fd: c_int,
    (pieces, call): (&Pieces, c_int),
    (to, len): (*const sockaddr, socklen_t),
) -> Option<Outcome<usize>> {
    // SAFETY: as the caller says.
    let to = unsafe { destination(state, object, (to, len)) }?;
    match way(state, object, to) {
        Ok(Way::Kernels) => None,
        Ok(Way::Ours(to)) => Some(send_ours(state, object, fd, (pieces, call), &plainly(to))),
        Err(error) => Some(Err(error)),
    }
}

/// `sendmsg`. `None`: the kernel's to send.
///
/// # Safety
/// As `sendmsg`.
pub(crate) unsafe fn send_message(
    state: &State,
    object: &Found,
    fd: c_int,
    message: &libc::msghdr,
    call: c_int,
) -> Option<Outcome<usize>> {
    let name = (message.msg_name.cast_const().cast(), message.msg_namelen);
    // SAFETY: as the caller says.
    let to = unsafe { destination(state, object, name) }?;
    let to = match way(state, object, to) {
        Ok(Way::Kernels) => return None,
        Ok(Way::Ours(to)) => to,
        Err(error) => return Some(Err(error)),
    };
    // SAFETY: as the caller says.
    let pieces = match unsafe { Pieces::many(message.msg_iov, message.msg_iovlen) } {
        Ok(pieces) => pieces,
        Err(error) => return Some(Err(error)),
    };
    // SAFETY: as the caller says.
    let how = unsafe { control::read(message, to) };
    Some(send_ours(state, object, fd, (&pieces, call), &how))
}

/// How a datagram is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) to: SocketAddr,
    pub(super) ttl: u8,
    pub(super) tos: u8,
    /// `UDP_SEGMENT`: cut into datagrams of this length; 0: as it is.
    pub(super) segment: usize,
}

pub(super) fn plainly(to: SocketAddr) -> How {
    How {
        to,
        ttl: 0,
        tos: 0,
        segment: 0,
    }
}

fn send_ours(
    state: &State,
    object: &Found,
    fd: c_int,
    (pieces, call): (&Pieces, c_int),
    how: &How,
) -> Outcome<usize> {
    if call & libc::MSG_OOB != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if pieces.has_null() {
        return Err(libc::EFAULT);
    }
    let slot = state.arena().own(object.slot());
    if slot.flags() & flags::SENDS_NO_MORE != 0 {
        return Err(not_connected(call));
    }
    if let Some(error) = ready::pending_error(state, object) {
        return Err(error);
    }
    let longest = match how.to {
        SocketAddr::V4(_) => LONGEST_FOUR,
        SocketAddr::V6(_) => LONGEST_SIX,
    };
    let ring = state.arena().geometry().ring as usize;
    let total = pieces.total();
    let segment = match how.segment {
        0 => super::settings::segment(state, object),
        segment => segment,
    };
    let each = if segment == 0 { total } else { segment };
    if total > longest || HEADER + each.min(total) > ring {
        return Err(libc::EMSGSIZE);
    }
    let blocks = call & libc::MSG_DONTWAIT == 0 && slot.flags() & flags::NONBLOCKING == 0;
    let header = |len| Header {
        ttl: how.ttl,
        tos: how.tos,
        ..Header::data(how.to, len)
    };
    if how.to.port() == 0 {
        // Connected to no port, as the kernel lets it be: nobody is there.
        return Ok(total);
    }
    if each >= total {
        record_of(state, object, &header(total), pieces.spans(), (blocks, fd))?;
        return Ok(total);
    }
    if total.div_ceil(each) > MOST_SEGMENTS {
        return Err(libc::EINVAL);
    }
    let mut done = 0;
    while done < total {
        let rest = pieces.after(done);
        let n = each.min(total - done);
        match record_of(state, object, &header(n), &first(&rest, n), (blocks, fd)) {
            Ok(()) => done += n,
            Err(error) if done == 0 => return Err(error),
            // What has no room now is lost, as in a full queue on the way.
            Err(_) => break,
        }
    }
    Ok(total)
}

/// `sendfile`: as much of the file as one datagram holds.
///
/// # Safety
/// `offset` is null, or can be read and written.
pub(crate) unsafe fn send_file(
    state: &State,
    object: &Found,
    (out, from): (c_int, c_int),
    (offset, len): (*mut libc::off_t, usize),
) -> Outcome<usize> {
    let mut bytes = vec![0u8; len.min(LONGEST_FOUR)];
    // SAFETY: a descriptor the program gave us.
    let file = unsafe { BorrowedFd::borrow_raw(from) };
    // SAFETY: as the caller says.
    let start = unsafe { offset.as_ref() }.copied();
    let got = match start {
        Some(start) => rustix::io::pread(file, &mut bytes, start as u64),
        None => rustix::io::read(file, &mut bytes),
    };
    let n = got.map_err(errno::raw)?;
    if n == 0 {
        return Ok(0);
    }
    let pieces = Pieces::one(bytes.as_mut_ptr(), n);
    let sent = send(state, object, out, &pieces, 0).unwrap_or(Err(libc::EDESTADDRREQ))?;
    if let Some(start) = start {
        // SAFETY: not null, as the caller says.
        unsafe { *offset = start + sent as libc::off_t };
    }
    Ok(sent)
}

/// The first `len` bytes of `spans`.
fn first(spans: &[Span], mut len: usize) -> Vec<Span> {
    let mut all = Vec::new();
    for span in spans {
        let n = span.len.min(len);
        len -= n;
        all.push(Span { len: n, ..*span });
        if len == 0 {
            break;
        }
    }
    all
}

/// Sends a record that is no datagram of the program's; waits for room.
pub(super) fn record(state: &State, object: &Found, header: &Header) -> Outcome<()> {
    record_of(state, object, header, &[], (true, -1))
}

fn record_of(
    state: &State,
    object: &Found,
    header: &Header,
    body: &[Span],
    (blocks, fd): (bool, c_int),
) -> Outcome<()> {
    let mut head = header.pack();
    let head = Span {
        first: head.as_mut_ptr(),
        len: HEADER,
    };
    let least = HEADER + header.len as usize;
    let mut spans = [head; 2];
    let many: Vec<Span>;
    let spans = match body {
        [] => &spans[..1],
        [one] => {
            spans[1] = *one;
            &spans[..]
        }
        _ => {
            many = std::iter::once(head).chain(body.iter().copied()).collect();
            &many[..]
        }
    };
    let deadline = deadline_of(match blocks && fd >= 0 {
        true => options::send_timeout(fd),
        false => None,
    });
    loop {
        if !sides(state, object).ours {
            return Err(libc::ENETDOWN);
        }
        let stream = stream(state, object).ok_or(libc::ENETDOWN)?;
        // SAFETY: a header of our own, and the places the program passed to be read.
        match unsafe { stream.send_at_least(spans, least) } {
            Ok(_) => return Ok(()),
            Err(Hindrance::Wait) if !blocks => return Err(libc::EAGAIN),
            Err(Hindrance::Wait) => sleep::for_room(state, object, deadline)?,
            Err(Hindrance::File(Errno::FAULT)) => return Err(libc::EFAULT),
            Err(_) => return Err(libc::ENETDOWN),
        }
    }
}
