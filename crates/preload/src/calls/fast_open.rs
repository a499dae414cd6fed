//! `MSG_FASTOPEN`: a send that connects. The bytes follow the handshake, as they do at the kernel
//! while there is no cookie of the server (RFC 7413 section 4.1.3), and the call waits and fails as
//! it does then.

use super::socket;
use crate::errno::Outcome;
use crate::object::{self, Kind};
use crate::{address, state};
use libc::{c_int, sockaddr, socklen_t};

/// Connects `fd` before a send with these flags to an address of ours. `None`: there is nothing to
/// do before the send, or the kernel does it.
///
/// # Safety
/// The address can be read for its length, or is null.
pub(super) unsafe fn connect(
    fd: c_int,
    (to, len): (*const sockaddr, socklen_t),
    call: c_int,
) -> Option<Outcome<()>> {
    if call & libc::MSG_FASTOPEN == 0 {
        return None;
    }
    let state = state::get()?;
    if object::find(fd).is_some_and(|object| !matches!(object.kind(), Kind::Stream | Kind::Bound)) {
        return None;
    }
    // SAFETY: as the caller says.
    let to = unsafe { address::read(to, len) };
    match to {
        Ok(Some(to)) => socket::connect_ours(state, fd, to),
        _ => None,
    }
}
