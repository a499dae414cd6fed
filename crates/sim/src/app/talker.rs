//! One end of a TCP connection: writes, reads, rests, ends, as its plan says; and compares every
//! byte it is given.

use std::net::SocketAddr;

use gannet_base::Instant;
use gannet_stack::tcp::{RecvError, SendError, Shutdown, TcpError, TcpId, TcpOption, TcpState};

use super::plan::{Ending, Side};
use super::{Cx, End};
use crate::judge::window::Window;
use crate::pattern::{PIECE, Pattern};

/// One end of a connection.
#[derive(Debug)]
pub struct Talker {
    /// Its place in the ledger.
    pub conn: usize,
    /// 0: the client's end, 1: the server's.
    pub end: usize,
    /// The socket.
    pub id: TcpId,
    /// When it goes on after a rest.
    pub rests_until: Instant,
    /// When it writes again.
    pub writes_at: Instant,
    /// There may be something to do.
    pub awake: bool,
    /// Its congestion window, for who judges it.
    pub window: Window,
    /// How it ended.
    pub over: Option<End>,
    side: Side,
    ours: Pattern,
    theirs: Pattern,
    sent: u64,
    received: u64,
    shut: bool,
    at_end: bool,
    stalled: bool,
    buffer: Vec<u8>,
}

impl Talker {
    /// An end of the connection `conn`; `addresses`: ours, theirs.
    pub fn new(
        cx: &mut Cx<'_>,
        (conn, end): (usize, usize),
        id: TcpId,
        addresses: (SocketAddr, SocketAddr),
        side: Side,
    ) -> Self {
        cx.stack
            .tcp_set_option(id, TcpOption::NoDelay(side.no_delay));
        Talker {
            conn,
            end,
            id,
            rests_until: Instant::ZERO,
            writes_at: Instant::ZERO,
            awake: true,
            window: Window::default(),
            over: None,
            ours: Pattern::of(addresses.0, addresses.1),
            theirs: Pattern::of(addresses.1, addresses.0),
            sent: 0,
            received: 0,
            shut: false,
            at_end: false,
            stalled: false,
            buffer: vec![0; side.read],
            side,
        }
    }

    /// Does what can be done now; whether anything was.
    pub fn step(&mut self, cx: &mut Cx<'_>) -> bool {
        let rests = cx.now < self.rests_until;
        let sleeps = self.side.waits_for_news && !self.awake;
        if self.over.is_some() || rests || sleeps {
            return false;
        }
        self.awake = false;
        if cx.stack.tcp_addresses(self.id).is_none() {
            self.fail(cx, "the socket is gone".to_owned());
            self.finish(cx, End::BrokeOff);
            return true;
        }
        let wrote = self.write(cx);
        let read = self.over.is_none() && self.read(cx);
        if self.over.is_none() {
            self.maybe_end(cx);
        }
        // whoever did something looks again before it sleeps
        self.awake |= wrote || read || self.writes_at > cx.now;
        wrote || read || self.over.is_some()
    }

    /// Breaks off because the host or process died.
    pub fn die(&mut self, ledger: &mut super::Ledger) {
        if self.over.is_none() {
            self.over = Some(End::Died);
            if let Some(conn) = ledger.conn(self.conn) {
                conn.over[self.end] = Some(End::Died);
                conn.disturbed = true;
            }
        }
    }

    /// Gives up by force.
    pub fn give_up(&mut self, cx: &mut Cx<'_>) {
        if self.over.is_none() {
            cx.stack.tcp_abort(cx.host_now, self.id);
            self.finish(cx, End::BrokeOff);
        }
    }

    /// What is left to do, for people.
    pub fn describe(&self) -> String {
        let Talker {
            conn,
            end,
            sent,
            received,
            shut,
            at_end,
            ..
        } = self;
        let who = ["client", "server"][*end];
        let total = self.side.total;
        format!(
            "{who} of connection {conn}: sent {sent} of {total}, shut {shut}, received {received}, \
             at the end {at_end}"
        )
    }

    /// How many bytes may have been sent by now.
    fn allowance(&self) -> u64 {
        let Some(turn) = self.side.turn else {
            return self.side.total;
        };
        let turns = self.received / turn.theirs.max(1) + u64::from(turn.first);
        turns.saturating_mul(turn.mine).min(self.side.total)
    }

    fn write(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        while self.sent < self.allowance() && self.writes_at <= cx.now {
            let left = self.allowance() - self.sent;
            let len = left.min(self.side.chunk.min(PIECE) as u64) as usize;
            let data = self.ours.piece(self.sent, len);
            match cx.stack.tcp_send(cx.host_now, self.id, data) {
                Ok(taken) => {
                    any = true;
                    self.sent += taken as u64;
                    self.writes_at = cx.now + self.side.beat;
                    if let Some(conn) = cx.ledger.conn(self.conn) {
                        conn.sent[self.end] = self.sent;
                        conn.wrote_at[self.end] = cx.now;
                    }
                }
                Err(SendError::WouldBlock | SendError::NotConnected) => return any,
                Err(SendError::Failed(error)) => {
                    self.failed(cx, error);
                    return true;
                }
                Err(error) => {
                    // the write of a shut-down or reset connection whose error was told
                    self.fail(cx, format!("a write gave {error:?}"));
                    self.finish(cx, End::BrokeOff);
                    return true;
                }
            }
        }
        if self.sent == self.side.total && !self.shut && self.side.ending == Ending::Graceful {
            any |= self.shut_down(cx);
        }
        any
    }

    fn shut_down(&mut self, cx: &mut Cx<'_>) -> bool {
        let opening = cx
            .stack
            .tcp_status(self.id)
            .is_none_or(|status| matches!(status.state, TcpState::SynSent | TcpState::SynReceived));
        if opening {
            return false;
        }
        // written first: whoever sees the end may look
        self.shut = true;
        if let Some(conn) = cx.ledger.conn(self.conn) {
            conn.shut[self.end] = true;
        }
        match cx.stack.tcp_shutdown(cx.host_now, self.id, Shutdown::Write) {
            Ok(()) => {}
            Err(SendError::Failed(error)) => self.failed(cx, error),
            Err(error) => {
                let status = cx.stack.tcp_status(self.id);
                match status.and_then(|status| status.error) {
                    Some(error) => self.failed(cx, error),
                    None => self.fail(cx, format!("shutting down gave {error:?}")),
                }
            }
        }
        true
    }

    fn read(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        while !self.at_end && self.over.is_none() && cx.now >= self.rests_until {
            if self.should_stall(cx) || self.breaks_off_now() {
                break;
            }
            match self.receive(cx) {
                Ok(0) => {
                    any = true;
                    self.at_end = true;
                    self.judge_end(cx);
                }
                Ok(len) => {
                    any = true;
                    self.judge_bytes(cx, len);
                    if !self.side.pause.is_zero() {
                        self.rests_until = cx.now + self.side.pause;
                        self.awake = true;
                    }
                }
                Err(RecvError::WouldBlock | RecvError::NotConnected) => break,
                Err(RecvError::Failed(error)) => {
                    self.failed(cx, error);
                    any = true;
                }
            }
        }
        any
    }

    fn should_stall(&mut self, cx: &Cx<'_>) -> bool {
        let Some((after, time)) = self.side.stall else {
            return false;
        };
        if self.stalled || self.received < after {
            return false;
        }
        self.stalled = true;
        self.rests_until = cx.now + time;
        self.awake = true;
        true
    }

    fn receive(&mut self, cx: &mut Cx<'_>) -> Result<usize, RecvError> {
        let most = self.side.read;
        if !self.side.in_place {
            let out = self.buffer.get_mut(..most).unwrap_or_default();
            return cx.stack.tcp_recv(cx.host_now, self.id, out);
        }
        let Some(block) = cx.stack.tcp_recv_block(cx.host_now, self.id)? else {
            return Ok(0);
        };
        let len = block.view.len();
        if len == 0 {
            self.fail(cx, "an empty block".to_owned());
        }
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let out = self.buffer.get_mut(..len).unwrap_or_default();
        let got = block.view.read_at(0, out);
        cx.stack.tcp_release_block(block);
        Ok(got)
    }

    /// Oracle: what is received is what was sent, as far as it goes.
    fn judge_bytes(&mut self, cx: &mut Cx<'_>, len: usize) {
        let got = self.buffer.get(..len).unwrap_or_default();
        let wrong = self.theirs.first_wrong(self.received, got);
        let from = self.received;
        self.received += len as u64;
        let Some(conn) = cx.ledger.conn(self.conn) else {
            return;
        };
        conn.received[self.end] = self.received;
        conn.read_at[self.end] = cx.now;
        let sent = conn.sent[1 - self.end];
        if let Some(at) = wrong.filter(|_| !cx.ledger.unseen) {
            let text = format!("byte {at} is wrong in {len} bytes received from {from} on");
            self.fail(cx, text);
        } else if self.received > sent {
            let text = format!("{} bytes received, only {sent} sent", self.received);
            self.fail(cx, text);
        }
    }

    /// Oracle: the end comes after the last byte and never before, and stays.
    fn judge_end(&mut self, cx: &mut Cx<'_>) {
        let received = self.received;
        let Some(conn) = cx.ledger.conn(self.conn) else {
            return;
        };
        let other = 1 - self.end;
        let (sent, shut, disturbed) = (conn.sent[other], conn.shut[other], conn.disturbed);
        let early = received < sent || !shut;
        if early && !disturbed {
            self.fail(
                cx,
                format!("the end after {received} of {sent} bytes, shut: {shut}"),
            );
        }
        let mut one = [0];
        let again = cx.stack.tcp_recv(cx.host_now, self.id, &mut one);
        if let Ok(1..) = again {
            self.fail(cx, "bytes after the end".to_owned());
        }
    }

    fn breaks_off_now(&self) -> bool {
        match self.side.ending {
            Ending::Graceful => false,
            Ending::CloseAfter(bytes) | Ending::AbortAfter(bytes) => self.received >= bytes,
        }
    }

    /// Whether it is time, and there is a connection to break off.
    fn is_to_break_off(&self, cx: &Cx<'_>) -> bool {
        (self.breaks_off_now() || self.at_end)
            && cx.stack.tcp_status(self.id).is_some_and(|status| {
                !matches!(status.state, TcpState::SynSent | TcpState::SynReceived)
            })
    }

    fn maybe_end(&mut self, cx: &mut Cx<'_>) {
        match self.side.ending {
            Ending::Graceful if self.shut && self.at_end => {
                cx.stack.tcp_close(cx.host_now, self.id);
                self.finish(cx, End::Done);
            }
            Ending::CloseAfter(_) if self.is_to_break_off(cx) => {
                self.disturb(cx);
                cx.stack.tcp_close(cx.host_now, self.id);
                self.finish(cx, End::BrokeOff);
            }
            Ending::AbortAfter(_) if self.is_to_break_off(cx) => {
                self.disturb(cx);
                cx.stack.tcp_abort(cx.host_now, self.id);
                self.finish(cx, End::BrokeOff);
            }
            _ => {}
        }
    }

    fn disturb(&self, cx: &mut Cx<'_>) {
        if let Some(conn) = cx.ledger.conn(self.conn) {
            conn.disturbed = true;
        }
    }

    /// The connection failed. Oracle: not without a reason.
    fn failed(&mut self, cx: &mut Cx<'_>, error: TcpError) {
        let disturbed = cx.ledger.conn(self.conn).is_none_or(|conn| conn.disturbed);
        let unreachable = error == TcpError::HostUnreachable || error == TcpError::TimedOut;
        let excused = disturbed || cx.ledger.unseen || (unreachable && cx.ledger.outages);
        if !excused {
            self.fail(
                cx,
                format!("the connection failed without a reason: {error:?}"),
            );
        }
        self.disturb(cx);
        cx.stack.tcp_close(cx.host_now, self.id);
        self.finish(cx, End::Failed(error));
    }

    fn finish(&mut self, cx: &mut Cx<'_>, end: End) {
        self.over = Some(end);
        if let Some(conn) = cx.ledger.conn(self.conn) {
            conn.over[self.end] = Some(end);
            conn.disturbed |= end != End::Done;
        }
    }

    fn fail(&self, cx: &mut Cx<'_>, text: String) {
        let who = ["client", "server"][self.end];
        let text = format!("{}: {who} of connection {}: {text}", cx.now, self.conn);
        cx.ledger.fail(text);
    }
}
