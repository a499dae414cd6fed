//! The error queue of streams (`MSG_ERRQUEUE`): completions of sends with `MSG_ZEROCOPY`. Bytes are
//! copied into the ring before a send returns, so that each completes at once and says so, as the
//! kernel does where it had to copy (its documentation: networking/msg_zerocopy).

use crate::control::Parts;
use crate::errno::Outcome;
use gannet_local::options::Opt;
use gannet_local::slot::{OwnSlot, flags};
use libc::c_int;

/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED` (linux/errqueue.h).
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// A send has succeeded: whether that put a completion into the queue, of which epoll sets have to
/// hear.
pub(crate) fn sent(slot: &OwnSlot<'_>, call: c_int, bytes: usize) -> bool {
    let completes = call & libc::MSG_ZEROCOPY != 0 && bytes > 0 && slot.is_on(Opt::ZERO_COPY);
    if completes {
        slot.count_zero_copy();
    }
    completes
}

/// What is in the queue: an error of no errno, and no bytes.
///
/// # Errors
/// `EAGAIN`: it is empty.
pub(crate) fn take(slot: &OwnSlot<'_>) -> Outcome<libc::sock_extended_err> {
    let (first, last) = slot.take_zero_copy().ok_or(libc::EAGAIN)?;
    Ok(libc::sock_extended_err {
        ee_errno: 0,
        ee_origin: ORIGIN_ZEROCOPY,
        ee_type: 0,
        ee_code: CODE_COPIED,
        ee_pad: 0,
        ee_info: first,
        ee_data: last,
    })
}

/// An error and the address of its offender, which completions have none of.
#[repr(C)]
#[derive(Clone, Copy)]
struct With<T> {
    error: libc::sock_extended_err,
    offender: T,
}

/// Receives from the queue into the control data of `message`.
///
/// # Safety
/// The message's control data can be written for as long as it says.
pub(crate) unsafe fn receive(slot: &OwnSlot<'_>, message: &mut libc::msghdr) -> Outcome<usize> {
    let error = take(slot)?;
    message.msg_namelen = 0;
    message.msg_flags = libc::MSG_ERRQUEUE;
    let mut parts = Parts::new(message);
    // SAFETY: as the caller says.
    unsafe {
        match slot.flags() & flags::SIX {
            0 => {
                let offender = [0u32; 4];
                parts.add((libc::SOL_IP, libc::IP_RECVERR), With { error, offender });
            }
            _ => {
                let offender = [0u32; 7];
                let of_six = (libc::SOL_IPV6, libc::IPV6_RECVERR);
                parts.add(of_six, With { error, offender });
            }
        }
    }
    parts.finish();
    Ok(0)
}
