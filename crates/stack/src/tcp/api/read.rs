//! Reading.

use gannet_base::Instant;
use gannet_link::{Driver, Endpoint};

use crate::ip::Ip;
use crate::tcp::connection::{Connection, State};
use crate::tcp::engine::Tcp;
use crate::tcp::error::{RecvError, TcpError};
use crate::tcp::recv::AckOwed;
use crate::tcp::recv_queue::RecvQueue;
use crate::tcp::socket::{ReceivedBlock, TcpId};
use crate::tcp::transitions::Phase;

impl Tcp {
    /// Copies received bytes into `out` and removes them; how many, 0 for the end of the stream.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: TcpId,
        out: &mut [u8],
    ) -> Result<usize, RecvError> {
        let most = out.len();
        self.take(ip, (now, id, most), |queue, endpoint| {
            queue.read(endpoint, out)
        })
    }

    /// Removes up to `most` bytes by `take`, which says how many it took.
    #[inline]
    fn take<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        (now, id, most): (Instant, TcpId, usize),
        take: impl FnOnce(&mut RecvQueue, &mut Endpoint<D>) -> usize,
    ) -> Result<usize, RecvError> {
        let entry = self
            .table
            .get_mut(id)
            .ok_or(RecvError::Failed(TcpError::Aborted))?;
        let link = entry.conn.path.link;
        if let State::Open(open) = &mut entry.conn.state
            && open.recv.queue.len() > 0
            && let Some(endpoint) = ip.endpoint(link)
        {
            let n = take(&mut open.recv.queue, endpoint);
            self.after_read(ip, now, id, n as u32);
            return Ok(n);
        }
        match most {
            0 => Ok(0),
            _ => nothing_to_read(&mut entry.conn),
        }
    }

    /// The application took `n` bytes: the window may open.
    fn after_read<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: TcpId, n: u32) {
        let Some(open) = self.open_mut(id) else {
            return;
        };
        if open.recv.on_read(n, now) {
            open.recv.ack_now();
        }
        if open.recv.owed == AckOwed::Now && !open.blocked {
            self.push_out(ip, now, id);
        } else if let Some(entry) = self.table.get_mut(id) {
            entry.was.0 = entry.conn.is_readable();
        }
    }

    /// As [`Tcp::recv`] of `most` bytes, but copies none of them.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn discard<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: TcpId,
        most: usize,
    ) -> Result<usize, RecvError> {
        self.take(ip, (now, id, most), |queue, endpoint| {
            queue.discard(endpoint, most)
        })
    }

    /// As [`Tcp::recv`], but leaves the bytes where they are, and begins behind the first `skip`.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn peek_at<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        id: TcpId,
        skip: usize,
        out: &mut [u8],
    ) -> Result<usize, RecvError> {
        let entry = self
            .table
            .get_mut(id)
            .ok_or(RecvError::Failed(TcpError::Aborted))?;
        let link = entry.conn.path.link;
        if let State::Open(open) = &entry.conn.state
            && open.recv.queue.len() > 0
            && let Some(endpoint) = ip.endpoint(link)
        {
            return Ok(open.recv.queue.peek(endpoint, skip, out));
        }
        nothing_to_read(&mut entry.conn)
    }

    /// Takes the next received bytes without copying them: at most one block's worth. `None` at the
    /// end of the stream. The holder gives it back with [`Tcp::release_block`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv_block<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        id: TcpId,
    ) -> Result<Option<ReceivedBlock>, RecvError> {
        let entry = self
            .table
            .get_mut(id)
            .ok_or(RecvError::Failed(TcpError::Aborted))?;
        let link = entry.conn.path.link;
        if let State::Open(open) = &mut entry.conn.state
            && let Some(endpoint) = ip.endpoint(link)
            && let Some(range) = open.recv.queue.pop()
        {
            let Some(view) = endpoint.view(range) else {
                endpoint.release(range);
                return Err(RecvError::WouldBlock);
            };
            self.after_read(ip, now, id, range.len);
            return Ok(Some(ReceivedBlock { view, link, range }));
        }
        nothing_to_read(&mut entry.conn).map(|_| None)
    }

    /// Gives received bytes back. Also right after the connection, or its link, is gone.
    pub fn release_block<D: Driver>(&mut self, ip: &mut Ip<D>, block: ReceivedBlock) {
        if let Some(endpoint) = ip.endpoint(block.link) {
            endpoint.release(block.range);
        }
    }
}

/// What reading gives when nothing is queued: the end, an error, or "wait".
fn nothing_to_read(conn: &mut Connection) -> Result<usize, RecvError> {
    if let State::Open(open) = &conn.state
        && (open.recv.finished || open.recv.deaf)
    {
        return Ok(0);
    }
    if let Some(error) = conn.error.take() {
        conn.told = true;
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.6
        //# If the local TCP connection is closed by the remote side due to a FIN or RST received
        //# from the remote side, then the local application MUST be informed whether it closed
        //# normally or was aborted (MUST-12).
        return Err(RecvError::Failed(error));
    }
    match &conn.state {
        State::SynSent(_) | State::SynReceived(_) => Err(RecvError::NotConnected),
        State::Open(open) if open.phase != Phase::Closed => Err(RecvError::WouldBlock),
        State::Dormant(_) => Err(RecvError::WouldBlock),
        _ => Ok(0),
    }
}
