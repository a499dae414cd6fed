//! What must hold of every connection between two calls; asserted by tests and by the fuzz target.

use super::connection::{Connection, Open, State};
use super::engine::Tcp;
use super::orphans::Kept;
use super::recv::{AckOwed, Recv};
use super::send::{Fin, Send, SendTimer};
use super::transitions::Phase;

impl Tcp {
    /// Asserts what must always hold.
    ///
    /// # Panics
    /// When it does not.
    pub fn invariants(&mut self) {
        let mut kept = [0, 0];
        for entry in self.table.entries() {
            entry.conn.invariants();
            assert!(
                entry.armed <= entry.conn.deadline(&self.config),
                "a timer is forgotten"
            );
            assert!(
                !entry.conn.is_over(),
                "a connection that is over is forgotten"
            );
            match entry.kept {
                Kept::No => {}
                Kept::Orphan => kept[0] += 1,
                Kept::TimeWait => kept[1] += 1,
            }
        }
        self.orphans.invariants(kept[0], kept[1]);
        self.table.invariants();
        self.requests.invariants();
        for (id, listener) in self.table.listeners.iter() {
            let requests = self.requests.which(|r| r.listener == id);
            assert_eq!(listener.opening, requests.len(), "counted right");
        }
    }
}

#[cfg(test)]
impl Tcp {
    /// Pretends that `bytes` arrived in order and were read, so that tests get to numbers that are
    /// far away.
    pub(crate) fn skip_received(&mut self, id: super::socket::TcpId, bytes: u32) {
        let recv = &mut self.open_mut(id).expect("open").recv;
        recv.nxt += bytes;
        recv.edge += bytes;
        recv.last_ack_sent = recv.nxt;
    }
}

impl Connection {
    /// Asserts what must always hold.
    fn invariants(&self) {
        if let State::Open(open) = &self.state {
            open.invariants();
        }
    }
}

impl Open {
    fn invariants(&self) {
        self.send.invariants();
        self.recv.invariants();
        if self.straight {
            assert_eq!(self.phase, Phase::Established, "straight only when open");
            assert!(self.recv.assembler.is_empty() && self.recv.fin.is_none());
            assert!(self.template.is_some() && self.send.is_plain());
        }
        let live = self.phase != Phase::Closed;
        if live && self.send.outstanding() && !self.blocked {
            assert_ne!(
                self.send.timer,
                SendTimer::Off,
                "nobody waits for an answer"
            );
        }
        if self.phase == Phase::TimeWait || self.phase == Phase::FinWait2 {
            assert!(!self.send.outstanding(), "everything is acknowledged");
        }
    }
}

impl Send {
    /// Asserts what must always hold.
    fn invariants(&self) {
        let end = self.queue.end() + u32::from(self.fin != Fin::Open);
        assert!(self.una.before_eq(self.nxt), "una <= nxt: {self:?}");
        assert!(self.nxt.before_eq(self.max), "nxt <= max: {self:?}");
        assert!(self.max.before_eq(end), "max <= end: {self:?}");
        assert!(
            self.fin != Fin::Sent || self.max == end,
            "a sent FIN ends it"
        );
        self.queue.invariants();
        let queued = self.queue.end() - self.una.min(self.queue.end());
        assert_eq!(queued, self.queue.len(), "the queue starts at una");
        self.sent.invariants(self.una, self.max);
        if let Some(point) = self.recovery {
            assert!(self.una.before(point) && point.before_eq(self.max));
        }
        assert!(self.mss >= 36 && self.congestion.cwnd() >= 1);
    }
}

impl Recv {
    /// Asserts what must always hold.
    fn invariants(&self) {
        // a FIN may be taken with the window closed: one number beyond the edge
        assert!(
            self.edge.since(self.nxt) >= -1,
            "{:?} < {:?}",
            self.edge,
            self.nxt
        );
        let mut at = self.nxt;
        for (left, right) in self.assembler.ranges() {
            assert!(
                at.before(left) && left.before(right),
                "a hole before each range"
            );
            at = right;
        }
        assert!(
            at == self.nxt || at.before_eq(self.edge),
            "nothing beyond the edge"
        );
        if let Some(fin) = self.fin {
            assert_eq!(
                self.finished,
                fin.before(self.nxt),
                "finished: behind the FIN"
            );
        }
        assert!(!self.finished || self.fin.is_some());
        assert!(self.assembler.cost() <= self.buffer.saturating_mul(2));
        let later = self.owed == AckOwed::Later;
        assert_eq!(later, self.ack_at != gannet_base::Instant::FAR_FUTURE);
    }
}
