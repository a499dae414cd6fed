//! The event loop: one turn of it. Whoever waits turns it (see `waiting.rs`); each line is a call to
//! read next.

use crate::shard::{Shard, Socket};
use gannet_base::Instant;
use gannet_stack::tcp::TcpReady;
use std::time::Duration;

/// How often the kernel is asked while nobody sleeps: a dead peer is noticed within this time.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long calls that never have to wait may go on before they give the loop a turn.
const TURN_EVERY: Duration = Duration::from_micros(100);

impl Shard {
    /// Takes in what arrived, does what is due, sends what that leads to, and tells who waited for it.
    /// Says whether anything happened.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant) -> bool {
        self.turns = self.turns.wrapping_add(1);
        self.turned = now;
        if now >= self.look_due {
            self.look_at_kernel(now);
        }
        let news = self.stack.poll(now);
        if news {
            self.tell_ready();
            self.stack.flush();
        }
        news
    }

    /// A turn, unless the last one was a moment ago.
    #[inline]
    pub(crate) fn turn_if_due(&mut self, now: Instant) {
        if now - self.turned >= TURN_EVERY {
            self.turn(now);
        }
    }

    /// New channels, dead peers, doorbells rung.
    #[cold]
    pub(crate) fn look_at_kernel(&mut self, now: Instant) {
        self.look_due = now + LOOK_EVERY;
        let mut signals = std::mem::take(&mut self.signals);
        self.watch.wait(&mut signals, Some(Duration::ZERO));
        self.heed(&signals, now);
        self.signals = signals;
    }

    /// Wakes those whose sockets have changed.
    pub(crate) fn tell_ready(&mut self) {
        while let Some(ready) = self.stack.tcp_take_ready() {
            self.tell(match ready {
                TcpReady::Connection(id) => Socket::Connection(id),
                TcpReady::Listener(id) => Socket::Listener(id),
            });
        }
        while let Some(id) = self.stack.udp_take_ready() {
            self.tell(Socket::Datagrams(id));
        }
    }

    fn tell(&mut self, socket: Socket) {
        self.waiting.tell(socket, &self.watch);
        for poller in self.pollers.candidate(socket) {
            self.waiting.tell(Socket::Poller(poller), &self.watch);
        }
    }
}
