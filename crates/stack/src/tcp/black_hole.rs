//! Paths on which large segments vanish without a word (RFC 4821, RFC 8899 section 4.3): somewhere
//! a link is narrower, and the ICMP message that says so is not sent, or is filtered.
//!
//! When a segment has been sent again in vain several times, segments become so small that hardly
//! any path refuses them. A while later larger ones are searched for, by probes whose loss means no
//! congestion (`search.rs`). Where that cannot be, because the peer does not tell what it has
//! (SACK) or it is switched off, the old size is tried at once: that costs one time-out when it
//! fails, and the next trial comes later. Nothing is tried while the path is silent: the trial's
//! failure would look like the silence.
//!
//! ```text
//!                           search: 1460? 1340? ... 1380, every 10 min again
//!                           ^
//!   1460 --3 time-outs--> 1024 --10 s--> 1460 --1 time-out--> 1024 --40 s--> ... every 10 min
//!                           `--1 more--> 512 --10 s--> 1460 --1 time-out--> 512 --40 s--> ...
//! ```
//! Not here: what a router tells is found exactly by ICMP (`icmp.rs`).

mod search;

use core::time::Duration;

use gannet_base::Instant;

use super::connection::Open;
use super::handshake::effective_mss;
use super::seq::SeqNum;
use crate::config::MtuProbing;
use crate::ip::Path;
use search::Search;

/// Time-outs in a row for one segment that make a path suspect; Linux's `tcp_retries1`.
const SUSPECT: u32 = 3;
/// Segments that pass almost everywhere, in bytes of payload and options: IPv4 (Linux's
/// `tcp_base_mss`; then what every host must accept), IPv6 (its least MTU).
const BASES_V4: [u32; 2] = [1024, 512];
const BASES_V6: [u32; 1] = [1220];
/// How long until the first trial of larger segments, and by what that grows to what.
const WAIT_FIRST: Duration = Duration::from_secs(10);
const WAIT_FACTOR: u32 = 4;
/// RFC 8899 section 5.1.1: PMTU_RAISE_TIMER.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// What one connection knows of black holes on its path.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlackHole {
    /// Segments are at most this long, options included.
    cap: u32,
    /// When larger ones are tried again.
    pub(super) raise_at: Instant,
    /// How long the next trial has to wait.
    wait: Duration,
    /// A trial whose outcome is not known: SND.NXT when it began, and the cap before it.
    trial: Option<(SeqNum, u32)>,
    /// What is known of larger sizes.
    search: Search,
    /// Times that segments had to become smaller.
    pub(super) found: u32,
}

impl BlackHole {
    /// None found.
    pub(super) const NONE: BlackHole = BlackHole {
        cap: u32::MAX,
        raise_at: Instant::FAR_FUTURE,
        wait: WAIT_FIRST,
        trial: None,
        search: Search::NEW,
        found: 0,
    };

    /// Nothing more is known but how often.
    fn forget(&mut self) {
        *self = BlackHole {
            found: self.found,
            trial: self.trial,
            ..BlackHole::NONE
        };
    }

    /// Whether it is as in the beginning.
    pub(super) fn is_new(&self) -> bool {
        let same = (self.cap, self.trial, self.found) == (u32::MAX, None, 0);
        same && self.search == Search::NEW
            && self.raise_at == Instant::FAR_FUTURE
            && self.wait == WAIT_FIRST
    }

    /// The retransmission timer has expired once more; whether segments must become smaller, and
    /// then they have.
    pub(super) fn on_timeout(open: &mut Open, path: &Path, now: Instant) -> bool {
        let send = &open.send;
        let hole = &mut open.black_hole;
        // The peer reported as much behind it: large segments pass, this one had bad luck; unless
        // it has it again and again, and those were several small ones.
        if send.sent.sacked() >= send.mss && send.retries < 2 * SUSPECT {
            return false;
        }
        // Acknowledged since: what was tried has passed.
        let passed = |(begin, _): (SeqNum, u32)| send.una.since(begin) > send.mss as i32;
        if hole.trial.is_some_and(passed) {
            (hole.trial, hole.wait) = (None, WAIT_FIRST);
        }
        let enough = if hole.trial.is_some() { 1 } else { SUSPECT };
        if send.retries < enough {
            return false;
        }
        // What is sent again is as long as this: only shorter ones can fare better.
        let flight = u32::try_from(send.max.since(send.una)).unwrap_or(0);
        let (length, trial) = (flight.min(send.mss), hole.trial);
        let options = options(open, path);
        let before = trial.map(|(_, cap)| cap);
        let mut smaller = before.into_iter().chain(bases(path).iter().copied());
        let Some(base) = smaller.find(|base| *base < length + options) else {
            return false;
        };
        let hole = &mut open.black_hole;
        let wait = hole.wait;
        *hole = BlackHole {
            cap: base,
            raise_at: now + wait,
            wait: (wait * WAIT_FACTOR).min(WAIT_MAX),
            trial: None,
            search: Search::NEW,
            found: hole.found.saturating_add(1),
        };
        open.send.forget_size();
        open.send.set_mss(base - options);
        true
    }

    /// The time for larger segments has come.
    pub(super) fn raise(open: &mut Open, path: &Path, how: MtuProbing, now: Instant) {
        if open.send.retries > 0 {
            open.black_hole.raise_at = now + WAIT_FIRST;
            return;
        }
        if how != MtuProbing::Never && open.send.can_probe_size() {
            Self::search(open, path, now);
            return open.refresh();
        }
        let hole = &mut open.black_hole;
        hole.raise_at = Instant::FAR_FUTURE;
        hole.trial = Some((open.send.max, hole.cap));
        hole.cap = u32::MAX;
        let mss = Self::mss(open, path);
        open.send.set_mss(mss);
        open.refresh();
    }

    /// The size of full segments on `path`.
    pub(super) fn mss(open: &Open, path: &Path) -> u32 {
        let by_path = effective_mss(open.peer_mss, path, open.timestamps);
        let cap = open.black_hole.cap.saturating_sub(options(open, path));
        by_path.min(cap)
    }
}

fn bases(path: &Path) -> &'static [u32] {
    match path.destination.is_ipv4() {
        true => &BASES_V4,
        false => &BASES_V6,
    }
}

/// The size that passes almost everywhere.
fn base(path: &Path) -> u32 {
    bases(path).first().copied().unwrap_or(u32::MAX)
}

/// The largest that the peer and the path's first link take, options included.
fn largest(open: &Open, path: &Path) -> u32 {
    effective_mss(open.peer_mss, path, false)
}

/// Bytes of options in ordinary segments.
fn options(open: &Open, path: &Path) -> u32 {
    let without = effective_mss(open.peer_mss, path, false);
    without - effective_mss(open.peer_mss, path, open.timestamps)
}
