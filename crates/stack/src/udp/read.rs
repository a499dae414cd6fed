//! Datagrams are read.

use core::net::SocketAddr;

use gannet_link::Driver;

use super::api::Udp;
use super::queue::{Datagram, Entry};
use super::socket::{Socket, UdpError, UdpId};
use crate::ip::Ip;

impl Udp {
    /// Copies the next datagram into `out` and removes it: bytes copied, length of the datagram
    /// (what does not fit is lost), sender.
    ///
    /// # Errors
    /// [`UdpError::WouldBlock`], [`UdpError::Closed`], and once what went wrong earlier.
    #[inline]
    pub fn recv_from<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: UdpId,
        out: &mut [u8],
    ) -> Result<(usize, usize, SocketAddr), UdpError> {
        let (socket, entry) = self.next(id)?;
        let len = entry.next_len();
        let endpoint = ip.endpoint(entry.link).ok_or(UdpError::LinkGone)?;
        let fits = out.len().min(len as usize);
        let out = out.get_mut(..fits).unwrap_or(&mut []);
        let copied = socket.queue.take(endpoint, out, len);
        Ok((copied, len as usize, entry.from))
    }

    /// As [`Udp::recv_from`], but leaves the datagram where it is.
    ///
    /// # Errors
    /// As [`Udp::recv_from`].
    pub fn peek_from<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: UdpId,
        out: &mut [u8],
    ) -> Result<(usize, usize, SocketAddr), UdpError> {
        let (socket, entry) = self.next(id)?;
        let len = entry.next_len() as usize;
        let endpoint = ip.endpoint(entry.link).ok_or(UdpError::LinkGone)?;
        let fits = out.len().min(len);
        let out = out.get_mut(..fits).unwrap_or(&mut []);
        let copied = socket.queue.peek(endpoint, out);
        Ok((copied, len, entry.from))
    }

    /// Fills `buffer` back to back with as many datagrams as fit and as `out` has places for; how
    /// many, at least one. Only a first datagram longer than all of `buffer` is cut.
    ///
    /// # Errors
    /// As [`Udp::recv_from`].
    pub fn recv_batch<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: UdpId,
        buffer: &mut [u8],
        out: &mut [Datagram],
    ) -> Result<usize, UdpError> {
        let mut count = 0;
        let mut at = 0;
        let (socket, mut entry) = self.next(id)?;
        while let Some(places) = out.get_mut(count..).filter(|p| !p.is_empty()) {
            let room = buffer.get_mut(at..).unwrap_or(&mut []);
            let size = entry.next_len() as usize;
            let whole = whole_datagrams(&entry, room.len()).min(places.len());
            if whole == 0 && count > 0 {
                break;
            }
            let bytes = (whole.max(1) * size).min(entry.left as usize);
            let endpoint = ip.endpoint(entry.link).ok_or(UdpError::LinkGone)?;
            let fits = room.len().min(bytes);
            let copied = socket.queue.take(
                endpoint,
                room.get_mut(..fits).unwrap_or(&mut []),
                bytes as u32,
            );
            let mut offset = at;
            for place in places.iter_mut().take(whole.max(1)) {
                let len = size.min(at + copied - offset);
                *place = Datagram {
                    offset,
                    len,
                    from: entry.from,
                };
                offset += len;
            }
            at += copied;
            count += whole.max(1);
            match socket.queue.front() {
                Some(next) => entry = next,
                None => break,
            }
        }
        Ok(count)
    }

    /// Copies as many datagrams of one size from one sender as `out` holds, back to back, and
    /// removes them: bytes copied, size of each (only the last may be shorter), sender. When not
    /// even one fits, the first is cut and the size is what it had.
    ///
    /// # Errors
    /// As [`Udp::recv_from`].
    pub fn recv_segments<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: UdpId,
        out: &mut [u8],
    ) -> Result<(usize, usize, SocketAddr), UdpError> {
        let (socket, first) = self.next(id)?;
        let size = first.next_len();
        let mut entry = first;
        let mut copied = 0;
        loop {
            let room = out.get_mut(copied..).unwrap_or(&mut []);
            let whole = whole_datagrams(&entry, room.len());
            if whole == 0 && copied > 0 {
                break;
            }
            let bytes = (whole.max(1) as u32).saturating_mul(size).min(entry.left);
            let endpoint = ip.endpoint(entry.link).ok_or(UdpError::LinkGone)?;
            let fits = room.len().min(bytes as usize);
            let out = room.get_mut(..fits).unwrap_or(&mut []);
            copied += socket.queue.take(endpoint, out, bytes);
            let same = |e: &Entry| e.from == first.from && e.next_len() <= size && e.left > 0;
            let ended = bytes == 0 || bytes % size != 0;
            match socket.queue.front() {
                // A longer run of shorter ones would need another size.
                Some(e) if !ended && same(&e) && (e.size == size || e.left < size) => entry = e,
                _ => break,
            }
        }
        Ok((copied, size as usize, first.from))
    }

    /// The socket and its oldest entry.
    #[inline]
    fn next(&mut self, id: UdpId) -> Result<(&mut Socket, Entry), UdpError> {
        let socket = self.socket_mut(id).ok_or(UdpError::Closed)?;
        match socket.queue.front() {
            Some(entry) => Ok((socket, entry)),
            None => Err(socket.error.take().unwrap_or(UdpError::WouldBlock)),
        }
    }
}

/// How many datagrams of `entry` fit into `room` bytes; the last counts even when it is shorter.
#[inline]
fn whole_datagrams(entry: &Entry, room: usize) -> usize {
    let size = entry.next_len().max(1) as usize;
    let left = entry.left as usize;
    if left <= room {
        left.div_ceil(size).max(1)
    } else {
        room / size
    }
}
