//! The event loop: one turn of it. Whoever waits turns it (see `waiting.rs`); each line is a call
//! to read next.

use crate::shard::{Shard, Socket};
use gannet_base::Instant;
use gannet_stack::tcp::TcpReady;
use std::time::Duration;

/// How often the kernel is asked while nobody sleeps: a dead peer is noticed within this time.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long calls that never have to wait may go on before they give the loop a turn.
const TURN_EVERY: Duration = Duration::from_micros(100);

/// Turns at the end of a call that sent something to this host.
const TURNS_TO_ITSELF: usize = 4;

impl Shard {
    /// Takes in what arrived, does what is due, sends what that leads to, and tells who waited for
    /// it. Says whether anything happened.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant) -> bool {
        self.turns = self.turns.wrapping_add(1);
        self.turned = now;
        if now >= self.look_due {
            self.look_at_kernel(now);
        }
        let moved = self.stack.poll(now);
        // A timer, or bytes taken back earlier, can make a socket ready without anything moving
        // now.
        moved | self.tell_ready()
    }

    /// A turn, unless the last one was a moment ago.
    #[inline]
    pub(crate) fn turn_if_due(&mut self, now: Instant) {
        if now - self.turned >= TURN_EVERY {
            self.turn(now);
        }
    }

    /// A turn that asks the kernel in any case.
    pub(crate) fn turn_with_look(&mut self, now: Instant) {
        self.look_due = now;
        self.turn(now);
    }

    /// The call that is about to end has sent something to this very host, whose other threads may
    /// all be asleep: nothing would wake them but this. Answers and answers to answers, up to a
    /// limit; whoever leads the event loop does the rest.
    #[cold]
    pub(crate) fn listen_to_itself(&mut self, now: Instant) {
        for _ in 0..TURNS_TO_ITSELF {
            self.turn(now);
            self.stack.flush();
            if !self.talks_to_itself() {
                break;
            }
        }
    }

    /// New channels, dead peers, doorbells rung. Rings are forgotten here, so the links must be
    /// looked at right after.
    #[cold]
    fn look_at_kernel(&mut self, now: Instant) {
        self.look_due = now + LOOK_EVERY;
        let mut signals = std::mem::take(&mut self.signals);
        self.watch.wait(&mut signals, Some(Duration::ZERO));
        self.heed(&signals, now);
        self.signals = signals;
    }

    /// Wakes those whose sockets have changed. Says whether there are such sockets.
    #[inline]
    pub(crate) fn tell_ready(&mut self) -> bool {
        let mut any = false;
        while let Some(ready) = self.stack.tcp_take_ready() {
            any = true;
            self.tell(match ready {
                TcpReady::Connection(id) => Socket::Connection(id),
                TcpReady::Listener(id) => Socket::Listener(id),
            });
        }
        while let Some(id) = self.stack.udp_take_ready() {
            any = true;
            self.tell(Socket::Datagrams(id));
        }
        if self.stack.dhcp_take_changed() {
            any = true;
            self.tell(Socket::Leases);
        }
        any
    }

    fn tell(&mut self, socket: Socket) {
        self.waiting.tell(socket, &self.watch);
        for poller in self.pollers.candidate(socket) {
            self.waiting.tell(Socket::Poller(poller), &self.watch);
        }
    }
}
