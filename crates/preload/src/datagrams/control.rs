//! Control data of messages: what a datagram came with, and how one is to be sent.

use super::send::{How, plainly};
use crate::control::Parts;
use crate::place;
use crate::state::State;
use gannet_local::datagram::Header;
use gannet_local::options::Opt;
use gannet_local::slot::{OwnSlot, flags};
use libc::c_int;
use std::net::{IpAddr, SocketAddr};

/// Writes what the program has asked to be told of each datagram.
///
/// # Safety
/// The message's control data can be written for as long as it says.
pub(super) unsafe fn write(
    state: &State,
    slot: &OwnSlot<'_>,
    header: &Header,
    message: &mut libc::msghdr,
) {
    if message.msg_control.is_null() {
        message.msg_controllen = 0;
        return;
    }
    let mut parts = Parts::new(message);
    // SAFETY: as the caller says.
    unsafe {
        parts.add_time(slot);
        match header.address {
            SocketAddr::V4(_) if slot.flags() & flags::SIX == 0 => {
                write_four(state, slot, header, &mut parts);
            }
            _ => write_six(state, slot, header, &mut parts),
        }
    }
    parts.finish();
}

/// The address a datagram came to.
fn destination(state: &State, slot: &OwnSlot<'_>, header: &Header) -> Option<IpAddr> {
    match slot.local().ip() {
        ip if ip.is_unspecified() => state.source_for(header.address.ip()),
        ip => Some(ip),
    }
}

/// The hop limit it came with; carriers that do not know say nothing.
fn hops(header: &Header) -> c_int {
    match header.ttl {
        0 => 64,
        ttl => ttl.into(),
    }
}

/// # Safety
/// As [`write`].
unsafe fn write_four(state: &State, slot: &OwnSlot<'_>, header: &Header, parts: &mut Parts<'_>) {
    if slot.is_on(Opt::PktInfo)
        && let Some(IpAddr::V4(to)) = destination(state, slot, header)
    {
        let address = libc::in_addr {
            s_addr: u32::from(to).to_be(),
        };
        let info = libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: address,
            ipi_addr: address,
        };
        // SAFETY: as the caller says.
        unsafe { parts.add((libc::IPPROTO_IP, libc::IP_PKTINFO), info) };
    }
    if slot.is_on(Opt::RecvTtl) {
        // SAFETY: as the caller says.
        unsafe { parts.add((libc::IPPROTO_IP, libc::IP_TTL), hops(header)) };
    }
    if slot.is_on(Opt::RecvTos) {
        // SAFETY: as the caller says.
        unsafe { parts.add((libc::IPPROTO_IP, libc::IP_TOS), header.tos) };
    }
}

/// # Safety
/// As [`write`].
unsafe fn write_six(state: &State, slot: &OwnSlot<'_>, header: &Header, parts: &mut Parts<'_>) {
    if slot.is_on(Opt::PktInfo)
        && let Some(to) = destination(state, slot, header)
    {
        let octets = match to {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        let info = libc::in6_pktinfo {
            ipi6_addr: libc::in6_addr { s6_addr: octets },
            ipi6_ifindex: 0,
        };
        // SAFETY: as the caller says.
        unsafe { parts.add((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), info) };
    }
    if slot.is_on(Opt::RecvTtl) {
        // SAFETY: as the caller says.
        unsafe { parts.add((libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT), hops(header)) };
    }
    if slot.is_on(Opt::RecvTos) {
        let class = c_int::from(header.tos);
        // SAFETY: as the caller says.
        unsafe { parts.add((libc::IPPROTO_IPV6, libc::IPV6_TCLASS), class) };
    }
}

/// Reads how a message is to be sent.
///
/// # Safety
/// As `sendmsg`'s message.
pub(super) unsafe fn read(message: &libc::msghdr, to: SocketAddr) -> How {
    let mut how = plainly(to);
    if !place::can_read(message.msg_control.cast::<u8>(), message.msg_controllen) {
        return how;
    }
    // SAFETY: the C library's walk over control data, which stays within its length.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = part.as_ref() {
            let len = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = libc::CMSG_DATA(part);
            let int = (len >= size_of::<c_int>()).then(|| data.cast::<c_int>().read_unaligned());
            match (header.cmsg_level, header.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    how.ttl = int.and_then(|n| u8::try_from(n).ok()).unwrap_or(0);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) if len == 1 => how.tos = data.read(),
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    how.tos = int.map_or(0, |n| n as u8);
                }
                (libc::SOL_UDP, libc::UDP_SEGMENT) if len >= 2 => {
                    how.segment = data.cast::<u16>().read_unaligned().into();
                }
                _ => {}
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
    how
}
