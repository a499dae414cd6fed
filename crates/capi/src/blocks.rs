//! Data that is not copied: blocks of the link's own memory.
#![allow(unsafe_code)]

use crate::error::{guarded, tell};
use crate::handle::{Kind, Table};
use crate::memory::put;
use crate::tcp::{STREAMS, gannet_tcp};
use gannet::{RecvBlock, SendBlock};
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory that the peer, or the device, will read directly: fill it, then send it.
pub enum gannet_send_block {}

/// Received bytes where the sender, or the device, left them.
pub enum gannet_recv_block {}

/// `None` while it is being sent.
type Filling = Mutex<Option<SendBlock>>;

static TO_SEND: Table<Filling, gannet_send_block> = Table::new(Kind::SendBlock);
static RECEIVED: Table<RecvBlock, gannet_recv_block> = Table::new(Kind::RecvBlock);

fn lock(block: &Filling) -> MutexGuard<'_, Option<SendBlock>> {
    block.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block of the connection's memory, to be filled and sent with gannet_tcp_send_block: nothing is
/// copied on the way, not even to another process. Waits while all are under way.
///
/// Returns the block; NULL as gannet_tcp_write fails.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_tcp_take_block(tcp: *const gannet_tcp) -> *mut gannet_send_block {
    guarded(std::ptr::null_mut(), || {
        let block = STREAMS.get(tcp)?.socket.take_block()?;
        TO_SEND.insert(Mutex::new(Some(block)))
    })
}

/// Where its bytes are to be written, and into `*size`, unless that is NULL, how many there are.
/// They are good until the block is sent or closed; bytes that were not written keep what an
/// earlier use by this process left there.
///
/// Returns the address; NULL with EBADF or EINVAL.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_send_block_data(
    block: *const gannet_send_block,
    size: *mut usize,
) -> *mut c_void {
    guarded(std::ptr::null_mut(), || {
        let block = TO_SEND.get(block)?;
        let mut place = lock(&block);
        let bytes: &mut [u8] = place.as_deref_mut().unwrap_or_default();
        if !size.is_null() {
            // SAFETY: the caller's promise.
            unsafe { put(size, bytes.len()) }?;
        }
        Ok(bytes.as_mut_ptr().cast())
    })
}

/// Sends the first `length` bytes of the block, which is gone afterwards. Waits for room as
/// gannet_tcp_write.
///
/// Returns 0; -1 with EAGAIN when there is no room, and then the block is still there, to be sent
/// later; with anything else the block is gone: EINVAL when `length` is 0 or larger than the block,
/// or the block is not of this connection's link, else as gannet_tcp_write.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_tcp_send_block(
    tcp: *const gannet_tcp,
    block: *mut gannet_send_block,
    length: usize,
) -> c_int {
    guarded(-1, || {
        let stream = STREAMS.get(tcp)?;
        let filling = TO_SEND.get(block)?;
        let mut place = lock(&filling);
        let filled = place.take();
        let filled = filled.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
        let Err((error, back)) = stream.socket.try_send_block(filled, length) else {
            return TO_SEND.remove(block).map(|_| 0);
        };
        if error.kind() == io::ErrorKind::WouldBlock && back.is_some() {
            *place = back;
            return Err(error);
        }
        tell(&error);
        TO_SEND.remove(block)?;
        Err(error)
    })
}

/// Gives a block back unsent.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_send_block_close(block: *mut gannet_send_block) -> c_int {
    guarded(-1, || TO_SEND.remove(block).map(|_| 0))
}

/// The next received bytes where they lie, as `*block`: at most one block's worth. The sender's
/// memory is held until gannet_recv_block_close, so do not keep it for long.
///
/// Returns 1; 0 at the end of the stream, without a block; -1 as gannet_tcp_read.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_tcp_recv_block(
    tcp: *const gannet_tcp,
    block: *mut *mut gannet_recv_block,
) -> c_int {
    guarded(-1, || {
        // SAFETY: the caller's promise. Looked at before any bytes are taken.
        unsafe { put(block, std::ptr::null_mut()) }?;
        let Some(received) = STREAMS.get(tcp)?.socket.recv_block()? else {
            return Ok(0);
        };
        let handle = RECEIVED.insert(received)?;
        // SAFETY: as above.
        unsafe { put(block, handle) }?;
        Ok(1)
    })
}

/// Where its bytes lie, and into `*size`, unless that is NULL, how many there are. Another process
/// may be able to change them while they are read: copy what must not change under your eyes, and
/// check the copy.
///
/// Returns the address; NULL with EBADF or EINVAL.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_recv_block_data(
    block: *const gannet_recv_block,
    size: *mut usize,
) -> *const c_void {
    guarded(std::ptr::null(), || {
        let block = RECEIVED.get(block)?;
        if !size.is_null() {
            // SAFETY: the caller's promise.
            unsafe { put(size, block.len()) }?;
        }
        Ok(block.as_ptr().cast())
    })
}

/// Lets the bytes go: their memory goes back to the sender.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_recv_block_close(block: *mut gannet_recv_block) -> c_int {
    guarded(-1, || RECEIVED.remove(block).map(|_| 0))
}
