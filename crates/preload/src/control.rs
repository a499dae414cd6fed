//! Control data of messages that are received.

use crate::place;
use gannet_local::options::Opt;
use gannet_local::slot::{Kind, OwnSlot};
use libc::{c_int, c_void};

/// Where parts of control data go, one behind the other.
pub(crate) struct Parts<'a> {
    message: &'a mut libc::msghdr,
    used: usize,
}

impl<'a> Parts<'a> {
    /// None yet.
    pub(crate) fn new(message: &'a mut libc::msghdr) -> Parts<'a> {
        Parts { message, used: 0 }
    }

    /// That is all: the message says how much.
    pub(crate) fn finish(self) {
        self.message.msg_controllen = self.used as _;
    }

    /// Adds a part, or says in the flags that it had no room.
    ///
    /// # Safety
    /// The message's control data can be written for as long as it says.
    pub(crate) unsafe fn add<T: Copy>(&mut self, (level, name): (c_int, c_int), value: T) {
        let bytes = size_of::<T>() as u32;
        // SAFETY: arithmetic only.
        let (len, space) = unsafe { (libc::CMSG_LEN(bytes), libc::CMSG_SPACE(bytes)) };
        let room = self.message.msg_controllen.saturating_sub(self.used);
        let first = self.message.msg_control.cast::<u8>();
        let is_there = |len| place::can_write(first.wrapping_add(self.used), len);
        if first.is_null() || room < len as usize || !is_there(len as usize) {
            self.message.msg_flags |= libc::MSG_CTRUNC;
            return;
        }
        let header = libc::cmsghdr {
            cmsg_len: len as _,
            cmsg_level: level,
            cmsg_type: name,
        };
        // SAFETY: there is room for header and value, checked above.
        unsafe {
            let at = self.message.msg_control.byte_add(self.used);
            at.cast::<libc::cmsghdr>().write_unaligned(header);
            let data: *mut c_void = at.byte_add(libc::CMSG_LEN(0) as usize);
            data.cast::<T>().write_unaligned(value);
        }
        self.used += (space as usize).min(room);
    }

    /// Adds the time that `SO_TIMESTAMP`, `SO_TIMESTAMPNS` or `SO_TIMESTAMPING` ask for: of the
    /// call, which is when a process of the program first sees what came.
    ///
    /// # Safety
    /// As [`Parts::add`].
    pub(crate) unsafe fn add_time(&mut self, slot: &OwnSlot<'_>) {
        let of_software = slot.kind() == Some(Kind::Stream)
            && slot.get(Opt::TIMESTAMPING).unwrap_or(0) & SOFTWARE == SOFTWARE;
        if !slot.is_on(Opt::Timestamp) && !of_software {
            return;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let micros = libc::timeval {
            tv_sec: now.tv_sec,
            tv_usec: now.tv_nsec / 1000,
        };
        let nanos = libc::timespec {
            tv_sec: now.tv_sec,
            tv_nsec: now.tv_nsec,
        };
        match slot.get(Opt::Timestamp) {
            // SAFETY: as the caller says.
            Some(1) => unsafe { self.add((libc::SOL_SOCKET, libc::SO_TIMESTAMP), micros) },
            // SAFETY: as the caller says.
            Some(2) => unsafe { self.add((libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), nanos) },
            _ => {}
        }
        if of_software {
            let none = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let three = [nanos, none, none];
            // SAFETY: as the caller says.
            unsafe { self.add((libc::SOL_SOCKET, libc::SO_TIMESTAMPING), three) };
        }
    }
}

/// `SOF_TIMESTAMPING_RX_SOFTWARE` and `SOF_TIMESTAMPING_SOFTWARE`: times of arrival, by software.
const SOFTWARE: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;

/// Writes what the program has asked to be told with the bytes of a stream.
///
/// # Safety
/// The message's control data can be written for as long as it says.
pub(crate) unsafe fn write_of_stream(
    slot: &OwnSlot<'_>,
    left: impl FnOnce() -> u64,
    message: &mut libc::msghdr,
) {
    let mut parts = Parts::new(message);
    // SAFETY: as the caller says.
    unsafe {
        parts.add_time(slot);
        if slot.is_on(Opt::INQ) {
            let left = c_int::try_from(left()).unwrap_or(c_int::MAX);
            parts.add((libc::SOL_TCP, libc::TCP_CM_INQ), left);
        }
    }
    parts.finish();
}
