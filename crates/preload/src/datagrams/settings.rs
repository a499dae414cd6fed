//! Options of sockets with datagrams of ours. The kernel's socket has them all; those that concern
//! our side stand in the slot too, where the carrier and calls of this library see them.

use super::{is_connected, send, sides, stream};
use crate::errno::{self, Outcome};
use crate::object::Found;
use crate::place;
use crate::state::{State, Whose};
use crate::{address, options, real};
use gannet_local::datagram::{Header, What};
use gannet_local::options::Opt;
use gannet_local::slot::OwnSlot;
use libc::{c_int, c_void, socklen_t};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Options beside those of [`options::find`], as the kernel names them.
const MORE: &[(c_int, c_int, Opt)] = &[
    (libc::IPPROTO_IP, libc::IP_PKTINFO, Opt::PktInfo),
    (libc::IPPROTO_IP, libc::IP_RECVTTL, Opt::RecvTtl),
    (libc::IPPROTO_IP, libc::IP_RECVTOS, Opt::RecvTos),
    (libc::IPPROTO_IP, libc::IP_RECVERR, Opt::RecvError),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, Opt::MulticastTtl),
    (
        libc::IPPROTO_IP,
        libc::IP_MULTICAST_LOOP,
        Opt::MulticastLoop,
    ),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, Opt::PktInfo),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, Opt::RecvTtl),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, Opt::RecvTos),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, Opt::RecvError),
    (
        libc::IPPROTO_IPV6,
        libc::IPV6_MULTICAST_HOPS,
        Opt::MulticastTtl,
    ),
    (
        libc::IPPROTO_IPV6,
        libc::IPV6_MULTICAST_LOOP,
        Opt::MulticastLoop,
    ),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, Opt::V6Only),
    // Cuts what is sent: kept in a word that TCP uses for much the same.
    (libc::SOL_UDP, libc::UDP_SEGMENT, Opt::MaxSegment),
];

/// What was set before a socket got its side with us.
pub(super) fn copy_from_kernel(fd: c_int, slot: &OwnSlot<'_>) {
    options::copy_from_kernel(fd, slot);
    for &(level, name, option) in MORE {
        if let Some(value) = get(fd, level, name).filter(|value| *value != 0) {
            slot.set(option, value as u32);
        }
    }
    for (name, kind) in [(libc::SO_TIMESTAMP, 1), (libc::SO_TIMESTAMPNS, 2)] {
        if get(fd, libc::SOL_SOCKET, name).is_some_and(|value| value != 0) {
            slot.set(Opt::Timestamp, kind);
        }
    }
}

fn get(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: places of our own.
    let got = unsafe { real::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    (got == 0).then_some(value)
}

/// The length into which what is sent is cut; 0 as it is.
pub(super) fn segment(state: &State, object: &Found) -> usize {
    let set = state.arena().own(object.slot()).get(Opt::MaxSegment);
    set.unwrap_or(0) as usize
}

/// `setsockopt`.
///
/// # Safety
/// `value` can be read for `len` bytes, or is null.
pub(crate) unsafe fn set(
    state: &State,
    object: &Found,
    fd: c_int,
    (level, name): (c_int, c_int),
    (value, len): (*const c_void, socklen_t),
) -> Outcome<c_int> {
    let slot = state.arena().own(object.slot());
    if (level, name) == (libc::IPPROTO_IPV6, options::IPV6_ADDRFORM)
        && is_connected(&slot)
        && len as usize >= size_of::<c_int>()
        // SAFETY: long enough; any bytes are a number.
        && let Ok(family) = unsafe { place::read(value.cast::<c_int>()) }
    {
        return options::become_ipv4(&slot, true, family).map(|()| 0);
    }
    // SAFETY: as the caller says.
    if let Some(group) = unsafe { group_of(state, (level, name), (value, len)) } {
        let done = ask_for_group(state, object, group);
        if group.ours_alone {
            return done.map(|()| 0);
        }
    }
    // SAFETY: passed on.
    let set = errno::of(unsafe { real::setsockopt(fd, level, name, value, len) })?;
    let known = options::find((level, name)).or_else(|| {
        let known = MORE
            .iter()
            .find(|known| (known.0, known.1) == (level, name));
        known.map(|known| known.2)
    });
    match (known, get(fd, level, name)) {
        (Some(option), Some(value)) => slot.set(option, value as u32),
        _ if level == libc::SOL_SOCKET => {
            slot.set(Opt::Timestamp, 0);
            copy_from_kernel(fd, &slot);
        }
        _ => return Ok(set),
    }
    if let Some(stream) = stream(state, object) {
        stream.wake();
    }
    Ok(set)
}

/// A group to join or leave.
#[derive(Clone, Copy)]
struct Group {
    what: What,
    address: IpAddr,
    /// Named by an address of ours; else at all interfaces, the kernel's too.
    ours_alone: bool,
}

/// # Safety
/// As [`set`].
unsafe fn group_of(
    state: &State,
    which: (c_int, c_int),
    (value, len): (*const c_void, socklen_t),
) -> Option<Group> {
    let len = len as usize;
    match which {
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP)
            if len >= size_of::<libc::ip_mreq>() =>
        {
            // SAFETY: long enough; any bytes are addresses.
            let asked = unsafe { place::read(value.cast::<libc::ip_mreq>()) }.ok()?;
            let ip = |address: libc::in_addr| Ipv4Addr::from(u32::from_be(address.s_addr));
            let at = ip(asked.imr_interface);
            let ours = state.whose(at.into()) == Whose::Ours;
            let what = match which.1 == libc::IP_ADD_MEMBERSHIP {
                true => What::Join,
                false => What::Leave,
            };
            (ours || at.is_unspecified()).then_some(Group {
                what,
                address: ip(asked.imr_multiaddr).into(),
                ours_alone: ours,
            })
        }
        (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP)
            if len >= size_of::<libc::ipv6_mreq>() =>
        {
            // SAFETY: as above.
            let asked = unsafe { place::read(value.cast::<libc::ipv6_mreq>()) }.ok()?;
            let what = match which.1 == libc::IPV6_ADD_MEMBERSHIP {
                true => What::Join,
                false => What::Leave,
            };
            (asked.ipv6mr_interface == 0).then_some(Group {
                what,
                address: Ipv6Addr::from(asked.ipv6mr_multiaddr.s6_addr).into(),
                ours_alone: false,
            })
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP)
            if len >= size_of::<GroupRequest>() =>
        {
            // SAFETY: as above.
            let asked = unsafe { place::read(value.cast::<GroupRequest>()) }.ok()?;
            let group = (&raw const asked.group).cast();
            let size = size_of::<libc::sockaddr_storage>() as socklen_t;
            // SAFETY: a place of our own, as long as said.
            let group = unsafe { address::read(group, size) }.ok()??;
            let what = match which.1 {
                MCAST_JOIN_GROUP => What::Join,
                _ => What::Leave,
            };
            let family = group.is_ipv4() == (which.0 == libc::IPPROTO_IP);
            (asked.interface == 0 && family).then_some(Group {
                what,
                address: group.ip(),
                ours_alone: false,
            })
        }
        _ => None,
    }
}

/// RFC 3678, for both families (`linux/in.h`).
const MCAST_JOIN_GROUP: c_int = 42;
const MCAST_LEAVE_GROUP: c_int = 45;

/// `struct group_req`.
#[derive(Clone, Copy)]
#[repr(C)]
struct GroupRequest {
    interface: u32,
    group: libc::sockaddr_storage,
}

fn ask_for_group(state: &State, object: &Found, group: Group) -> Outcome<()> {
    if !group.address.is_multicast() {
        return Err(libc::EINVAL);
    }
    if !sides(state, object).ours {
        return Err(libc::ENODEV);
    }
    let header = Header {
        what: group.what,
        ..Header::data(SocketAddr::new(group.address, 0), 0)
    };
    send::record(state, object, &header)
}
