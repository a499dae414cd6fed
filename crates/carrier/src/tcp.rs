//! A stream joined to a TCP connection: bytes both ways, each end of a direction, and what breaks
//! off on one side breaks off on the other.
//!
//! ```text
//! connection --read--> ring in the gateway's arena --> program
//! connection <--write-- scratch <--copy-- ring in the program's arena
//! ```
//! What arrives is copied once, into the ring. What leaves is copied out of the program's memory
//! first, where it could change under the stack's hands.
//!
//! Back-pressure: a full ring is not read for, and TCP's window closes; a full send buffer leaves
//! the bytes in the program's ring, which fills.

use crate::flow::{Around, End, Next};
use crate::{figures, tcp_options};
use gannet::{Host, Interest, Poller, TcpStream, os_code};
use gannet_local::slot::{OwnSlot, PeerSlot, flags, receiver, sent};
use gannet_local::{Hindrance, Opt, Stream, meet};
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Most bytes one way in one look, so that others have their turn.
const BUDGET: usize = 256 << 10;
/// A reading call that gives so much may leave something behind.
const MUCH: usize = 16 << 10;
/// How long bytes wait under a cork: tcp(7).
pub(crate) const CORKED_MAX: Duration = Duration::from_millis(200);
/// How often a busy connection's figures are told.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// Ports that programs have without having asked for them.
const EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tcp {
    tcp: TcpStream,
    /// As the poller knows it.
    token: u64,
    interest: Option<Interest>,
    /// Not open yet: the program waits to hear of it.
    connecting: bool,
    /// It has failed; what had arrived comes first.
    failed: bool,
    /// The poller says that there is something to read. A reading call that finds nothing is no
    /// cheap way to find that out: it looks at the links.
    readable: bool,
    /// The peer's direction is over.
    read_all: bool,
    /// The ring has no room for what the peer sent.
    ring_full: bool,
    /// The program's direction is over.
    written_all: bool,
    /// The send buffer has no room for what the program sent.
    blocked: bool,
    /// Since when bytes wait for the program to take its cork off (`TCP_CORK`).
    corked: Option<Instant>,
    /// Bytes that may leave although the cork is on.
    pushed: u64,
    /// Bytes that make a full segment.
    full: u64,
    /// [`PeerSlot::options_turn`] as far as it was heeded.
    options: u32,
    known: tcp_options::Known,
    told: Option<Instant>,
}

impl Tcp {
    fn new(tcp: TcpStream, slot: u32, connecting: bool) -> Tcp {
        Tcp {
            tcp,
            token: u64::from(slot),
            interest: None,
            connecting,
            failed: false,
            readable: false,
            read_all: false,
            ring_full: false,
            written_all: false,
            blocked: connecting,
            corked: None,
            pushed: 0,
            full: 536,
            options: 0,
            known: tcp_options::Known::default(),
            told: None,
        }
    }

    /// Of a connection that was accepted for the program.
    pub(crate) fn accepted(tcp: TcpStream, slot: u32) -> Tcp {
        // None of these can fail: see their descriptions.
        let _ = tcp.set_nonblocking(true);
        Tcp::new(tcp, slot, false)
    }

    /// Begins the connection that the program asks for.
    pub(crate) fn begin(
        host: &Host,
        slot: u32,
        (from, to): (SocketAddr, SocketAddr),
        peer: Option<PeerSlot<'_>>,
    ) -> Result<Tcp, i32> {
        let connect = |from| tcp_options::connect(host, peer).from(from).begin(to);
        let begun = match connect(from) {
            // A port that nobody asked for can be another one.
            Err(error)
                if error.kind() == ErrorKind::AddrNotAvailable
                    && EPHEMERAL.contains(&from.port()) =>
            {
                connect(SocketAddr::new(from.ip(), 0))
            }
            other => other,
        };
        match begun {
            Ok(tcp) => Ok(Tcp::new(tcp, slot, true)),
            Err(error) => Err(code(&error)),
        }
    }

    /// The poller says that it has failed.
    pub(crate) fn has_failed(&mut self, poller: &Poller) {
        self.failed = true;
        self.readable = true;
        self.want(poller, None);
    }

    /// The poller says that there is something to read.
    pub(crate) fn is_readable(&mut self) {
        self.readable = true;
    }

    /// Moves what can be moved.
    pub(crate) fn look(&mut self, end: &End, around: &mut Around<'_>) -> Next {
        if self.connecting && !self.is_open(end, around) {
            return match self.connecting {
                true if !end.is_left(around) => {
                    self.want(around.poller, Some(Interest::WRITABLE));
                    Next::Wait
                }
                _ => Next::Refused,
            };
        }
        self.heed_options(end, around);
        let moved = self.inward(end, around).and_then(|more| {
            let out = self.outward(end, around)?;
            self.ended_well(end, around)?;
            Ok(more | out)
        });
        self.tell_figures(end, around);
        match moved {
            Err(errno) => self.break_off(end, around, errno),
            Ok(_) if self.is_over(end, around) => {
                end.stream(around).close(false);
                Next::Over
            }
            Ok(more) => {
                self.settle(around.poller);
                match self.corked {
                    _ if more => Next::Again,
                    Some(_) => Next::Uncork,
                    None => Next::Wait,
                }
            }
        }
    }

    /// Whether the connection has come about by now; then the program is told. If it has failed,
    /// `connecting` is false afterwards too.
    fn is_open(&mut self, end: &End, around: &Around<'_>) -> bool {
        let own = around.own.own(end.slot);
        let error = match self.tcp.take_error() {
            Ok(Some(error)) => Some(code(&error)),
            _ if self.failed => Some(libc::ECONNABORTED),
            _ => None,
        };
        if let Some(errno) = error {
            self.connecting = false;
            let _ = meet::say_no(&end.fd, Errno::from_raw_os_error(errno));
            return false;
        }
        if self.tcp.is_connecting() {
            return false;
        }
        self.connecting = false;
        if let Ok(local) = self.tcp.local_addr() {
            own.set_remote(meet::plain(local));
        }
        // A program that is gone meanwhile is noticed by its hang-up.
        let _ = meet::say_yes(&end.fd, own.name());
        true
    }

    /// From the connection to the program. True when there is more.
    fn inward(&mut self, end: &End, around: &mut Around<'_>) -> Result<bool, i32> {
        let stream = end.stream(around);
        let mut left = BUDGET;
        while self.readable && !self.read_all {
            if left == 0 {
                return Ok(true);
            }
            let (mut tcp, mut asked) = (&self.tcp, 0);
            let read = |place: &mut [u8]| {
                asked = place.len();
                tcp.read(place)
            };
            match stream.fill_with(left, read) {
                Ok(Ok(0)) => {
                    self.read_all = true;
                    stream.finish();
                }
                Ok(Ok(n)) => {
                    left = left.saturating_sub(n);
                    *around.given += n;
                    self.ring_full = false;
                    // Less than there was room for is all there is, for now.
                    self.readable = self.failed || n >= asked.min(MUCH);
                }
                Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                    self.ring_full = false;
                    self.readable = false;
                }
                Ok(Err(error)) => return Err(code(&error)),
                Err(Hindrance::Wait) => {
                    self.ring_full = true;
                    break;
                }
                Err(Hindrance::End) => return self.unwanted(end, around),
                Err(Hindrance::Reset | Hindrance::File(_)) => return Err(libc::ECONNRESET),
            }
        }
        Ok(false)
    }

    /// The program reads no more. While it still writes, what comes is thrown away.
    fn unwanted(&mut self, end: &End, around: &Around<'_>) -> Result<bool, i32> {
        self.ring_full = false;
        if end.is_left(around) {
            self.read_all = true;
            return Ok(false);
        }
        let shut = end
            .peer(around)
            .is_some_and(|peer| peer.receiver() & receiver::SHUT != 0);
        if !shut {
            return Err(libc::ECONNRESET);
        }
        match self.tcp.discard(BUDGET) {
            Ok(0) => self.read_all = true,
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(error) => return Err(code(&error)),
        }
        Ok(false)
    }

    /// From the program to the connection. True when there is more.
    fn outward(&mut self, end: &End, around: &mut Around<'_>) -> Result<bool, i32> {
        let stream = end.stream(around);
        let mut left = BUDGET;
        while !self.written_all {
            if left == 0 {
                return Ok(true);
            }
            let Some(most) = self.may_leave(end, around, &stream) else {
                self.blocked = false;
                break;
            };
            let n = match stream.receive_slice(around.scratch, true) {
                Ok(n) => n.min(most),
                Err(Hindrance::Wait) => {
                    self.blocked = false;
                    break;
                }
                Err(Hindrance::End) => {
                    self.end_writing();
                    break;
                }
                Err(Hindrance::Reset | Hindrance::File(_)) => return Err(libc::ECONNRESET),
            };
            let bytes = around.scratch.get(..n).unwrap_or_default();
            let taken = match (&self.tcp).write(bytes) {
                Ok(taken) => taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(code(&error)),
            };
            // Bytes that were just looked at can be skipped.
            let _ = stream.skip(taken);
            self.pushed = self.pushed.saturating_sub(taken as u64);
            left = left.saturating_sub(taken);
            self.blocked = taken < n;
            if self.blocked {
                break;
            }
        }
        Ok(false)
    }

    /// How many bytes may leave now: whole segments only while the program has its cork in, until
    /// it ends its direction or is gone, and not for longer than Linux holds them. `None`: nothing.
    fn may_leave(&mut self, end: &End, around: &Around<'_>, stream: &Stream<'_>) -> Option<usize> {
        let waiting = stream.waiting();
        let corked = waiting > 0
            && end.peer(around).is_some_and(|peer| {
                let held = peer.is_on(Opt::Cork) || peer.flags() & flags::MORE != 0;
                held && peer.sent() & (sent::FIN | sent::RESET) == 0
            })
            && !end.is_left(around);
        if !corked {
            self.corked = None;
            return Some(usize::MAX);
        }
        let since = *self.corked.get_or_insert(around.now);
        if around.now.duration_since(since) >= CORKED_MAX {
            return Some(usize::MAX);
        }
        let free = free_of_cork(waiting, self.pushed, self.full);
        (free > 0).then_some(free as usize)
    }

    fn end_writing(&mut self) {
        self.written_all = true;
        self.blocked = false;
        // Fails when the connection has ended, which reading tells.
        let _ = self.tcp.shutdown(Shutdown::Write);
    }

    /// Behind the peer's end nothing is read any more that would tell of a reset.
    fn ended_well(&self, end: &End, around: &Around<'_>) -> Result<(), i32> {
        if !self.failed || !self.read_all || self.is_over(end, around) {
            return Ok(());
        }
        let error = self.tcp.take_error().ok().flatten();
        Err(error.map_or(libc::ECONNRESET, |error| code(&error)))
    }

    /// Both directions are over; or the program's is, and nobody is there for the other one.
    fn is_over(&self, end: &End, around: &Around<'_>) -> bool {
        self.written_all && (self.read_all || end.is_left(around))
    }

    fn break_off(&mut self, end: &End, around: &Around<'_>, errno: i32) -> Next {
        around.own.own(end.slot).set_reason(errno);
        end.stream(around).close(true);
        // Closing resets; without effect when the connection is gone already.
        let _ = self.tcp.set_linger(Some(Duration::ZERO));
        Next::Over
    }

    fn settle(&mut self, poller: &Poller) {
        let reads = !self.read_all && !self.ring_full;
        let interest = match (reads, self.blocked) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            // Behind the peer's end a reset is all that can still come.
            (false, false) => self.read_all.then_some(Interest::NONE),
        };
        self.want(poller, interest);
    }

    fn want(&mut self, poller: &Poller, interest: Option<Interest>) {
        let interest = interest.filter(|_| !self.failed);
        if interest == self.interest {
            return;
        }
        // These fail only for sockets of other hosts, and as `interest` rules out.
        let _ = match (self.interest, interest) {
            (None, Some(new)) => poller.add(&self.tcp, self.token, new),
            (Some(_), Some(new)) => poller.modify(&self.tcp, self.token, new),
            (_, None) => poller.delete(&self.tcp),
        };
        self.interest = interest;
    }

    /// Options that the program has set since.
    fn heed_options(&mut self, end: &End, around: &Around<'_>) {
        let Some(peer) = end.peer(around) else {
            return;
        };
        let turn = peer.options_turn();
        if turn == self.options {
            return;
        }
        self.options = turn;
        // Servers put the cork in and take it off for each response, which `may_leave` heeds.
        let known = tcp_options::known(peer);
        let before = std::mem::replace(&mut self.known, known);
        if before == known {
            return;
        }
        if tcp_options::pushes(&before, &known) {
            self.pushed = end.stream(around).waiting();
        }
        // A value out of range is the program's business: the option stays as it was.
        let _ = tcp_options::set(&self.tcp, peer);
    }

    fn tell_figures(&mut self, end: &End, around: &Around<'_>) {
        let fresh = self
            .told
            .is_some_and(|told| around.now.duration_since(told) < TELL_EVERY);
        if !fresh {
            self.told = Some(around.now);
            let full = self.tell_figures_now(around.own.own(end.slot));
            self.full = full.unwrap_or(self.full);
        }
    }

    /// Says in the own slot what is known of the connection. Gives the bytes of a full segment.
    pub(crate) fn tell_figures_now(&self, own: OwnSlot<'_>) -> Option<u64> {
        let info = self.tcp.info().ok()?;
        let since = self.tcp.since_received();
        own.set_figures(&figures::of(&info, since, self.tcp.busy_times()));
        Some(info.send_mss.max(1).into())
    }
}

/// How many of the bytes under a cork leave: those pushed, and of the others whole segments.
fn free_of_cork(waiting: u64, pushed: u64, full: u64) -> u64 {
    pushed.min(waiting).max(waiting - waiting % full)
}

fn code(error: &io::Error) -> i32 {
    os_code(error).unwrap_or(libc::ECONNABORTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_from_under_a_cork() {
        for (waiting, pushed, free) in [
            (99, 0, 0),
            (100, 0, 100),
            (350, 0, 300),
            (99, 99, 99),
            (150, 50, 100),
            (350, 340, 340),
            (20, 90, 20),
        ] {
            assert_eq!(
                free_of_cork(waiting, pushed, 100),
                free,
                "{waiting} {pushed}"
            );
        }
    }
}
