//! How long there was something to send, and what held it back: Linux's `tcpi_busy_time`,
//! `tcpi_rwnd_limited` and `tcpi_sndbuf_limited`.

use core::time::Duration;

use gannet_base::Instant;

use super::Send;

/// What holds sending back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing is to be sent, and all is acknowledged.
    #[default]
    Idle,
    /// The path.
    Path,
    /// The peer's window.
    Window,
    /// The send buffer: the application has more, for which there is no room.
    Buffer,
}

/// The time with something to send, and the parts of it in which the peer's window or the send
/// buffer held it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyTimes {
    /// From the first byte queued until the last is acknowledged.
    pub busy: Duration,
    /// Of that: the peer's window was full.
    pub window_limited: Duration,
    /// Of that: all that the send buffer holds was under way, and the application had more.
    pub buffer_limited: Duration,
}

/// The times of a sender. In microseconds: a connection has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    since: Instant,
    all: u64,
    window: u64,
    buffer: u64,
    held: Held,
    /// The last write was not taken whole.
    cut: bool,
}

/// What is kept of the time while a connection rests, in microseconds: it has four bytes for it.
const AT_REST: u64 = 64;

impl Busy {
    pub(super) fn change(&mut self, to: Held, now: Instant) {
        if to == self.held {
            return;
        }
        let past = now.saturating_duration_since(self.since).as_micros() as u64;
        self.add(past);
        (self.held, self.since) = (to, now);
    }

    fn add(&mut self, past: u64) {
        match self.held {
            Held::Idle => return,
            Held::Path => {}
            Held::Window => self.window += past,
            Held::Buffer => self.buffer += past,
        }
        self.all += past;
    }

    /// Of one that is idle: the time in all, in units of [`AT_REST`], three days at most. Rounded
    /// up: it is no less than its parts.
    pub(super) fn at_rest(&self) -> u32 {
        u32::try_from(self.all.div_ceil(AT_REST)).unwrap_or(u32::MAX)
    }

    /// Of one that is idle: microseconds by the window, and by the buffer.
    pub(super) fn held_back(&self) -> [u64; 2] {
        [self.window, self.buffer]
    }

    /// Idle, with what [`Busy::at_rest`] gave.
    pub(super) fn resting(all: u32) -> Busy {
        Busy {
            all: u64::from(all) * AT_REST,
            ..Busy::default()
        }
    }

    /// See [`Busy::held_back`].
    pub(super) fn set_held_back(&mut self, [window, buffer]: [u64; 2]) {
        (self.window, self.buffer) = (window, buffer);
    }

    /// The times until now.
    pub fn times(mut self, now: Instant) -> BusyTimes {
        self.change(Held::Idle, now);
        BusyTimes {
            busy: Duration::from_micros(self.all),
            window_limited: Duration::from_micros(self.window),
            buffer_limited: Duration::from_micros(self.buffer),
        }
    }
}

impl Send {
    /// An application has written; `cut`: more than there was room for.
    #[inline]
    pub(in crate::tcp) fn note_write(&mut self, cut: bool, now: Instant) {
        self.busy.cut = cut;
        if self.busy.held == Held::Buffer && self.unsent() > 0 {
            self.busy.change(Held::Path, now);
        }
    }

    /// Something is queued where nothing was.
    #[inline]
    pub(super) fn begin_busy(&mut self, now: Instant) {
        if self.busy.held == Held::Idle {
            self.busy.change(Held::Path, now);
        }
    }

    /// There is nothing to be sent now; `window`: because the peer's window is full.
    #[inline]
    pub(super) fn note_pause(&mut self, window: bool, now: Instant) {
        if self.busy.held == Held::Idle {
            return;
        }
        let full = self.unsent() == 0 && self.flight() < self.congestion.cwnd();
        let held = match window {
            true => Held::Window,
            false if self.busy.cut && full => Held::Buffer,
            false => Held::Path,
        };
        self.busy.change(held, now);
    }

    /// An acknowledgement was taken in.
    #[inline]
    pub(super) fn note_acked(&mut self, now: Instant) {
        if self.una == self.end() {
            self.busy.change(Held::Idle, now);
        } else if self.busy.held == Held::Window && self.window_room() > 0 {
            self.busy.change(Held::Path, now);
        }
    }
}
