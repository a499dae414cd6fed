//! Bytes from one descriptor to another: `sendfile`, `splice`.

use super::io::stream;
use crate::border::{answer, by_name};
use crate::datagrams;
use crate::errno::give_len;
use crate::object::{self, Kind};
use crate::place;
use crate::real::tail;
use libc::{c_int, c_uint, off_t, size_t, ssize_t};

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendfile(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    len: size_t,
) -> ssize_t {
    let ours = by_name(out, || {
        let (state, object) = stream(out)?;
        match object.kind() {
            Kind::Stream if from < 0 => Some(Err(libc::EBADF)),
            Kind::Stream if object::is_ours(from) => Some(Err(libc::EINVAL)),
            Kind::Stream if !offset.is_null() && !place::can_write(offset, 1) => {
                Some(Err(libc::EFAULT))
            }
            Kind::Stream => {
                // SAFETY: the caller's place, or null.
                let sent =
                    unsafe { crate::files::send_file(state, &object, (out, from), offset, len) };
                Some(sent)
            }
            Kind::Datagrams if datagrams::peer(state, &object).is_some() => {
                let (fds, what) = ((out, from), (offset, len));
                // SAFETY: the caller's place, or null.
                Some(unsafe { datagrams::send_file(state, &object, fds, what) })
            }
            _ => None,
        }
    });
    if let Some(outcome) = ours {
        return give_len(outcome);
    }
    tail!(sendfile(out, from, offset, len))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendfile64(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    len: size_t,
) -> ssize_t {
    // SAFETY: the same function, offsets have 64 bits.
    unsafe { sendfile(out, from, offset, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut libc::loff_t,
    to: c_int,
    to_at: *mut libc::loff_t,
    len: size_t,
    call: c_uint,
) -> ssize_t {
    let is_ours = |fd| stream(fd).is_some_and(|(_, object)| object.kind() == Kind::Stream);
    if object::is_ours(from) || object::is_ours(to) {
        let ours = answer(|| {
            if !is_ours(from) && !is_ours(to) {
                return None;
            }
            // SAFETY: the caller's places, or null.
            Some(unsafe { crate::files::splice((from, from_at), (to, to_at), len, call) })
        });
        if let Some(outcome) = ours {
            return give_len(outcome);
        }
    }
    let is_looked_at = !object::is_ours(from) && !object::is_ours(to);
    tail!(if is_looked_at, splice(from, from_at, to, to_at, len, call))
}

// The same with offsets that have 64 bits by name, as all have.
