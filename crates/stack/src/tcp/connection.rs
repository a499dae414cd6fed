//! One connection: its addresses, its state.

use core::net::SocketAddr;

use alloc::boxed::Box;

use gannet_base::Instant;
use gannet_link::Driver;
use gannet_wire::tcp::UserTimeout;

use super::black_hole::BlackHole;
use super::counters::TcpCounters;
use super::dormant::Dormant;
use super::error::TcpError;
use super::fast_open::FastOpened;
use super::handshake::Opening;
use super::header::Template;
use super::recv::{AckOwed, Recv};
use super::send::Send;
use super::seq::SeqNum;
use super::settings::Settings;
use super::socket::{ListenerId, TcpState};
use super::transitions::Phase;
use crate::config::TcpConfig;
use crate::hash::HashKey;
use crate::ip::{Ip, Path};

/// What every step needs beside the connection.
pub(super) struct Cx<'a, D> {
    pub(super) ip: &'a mut Ip<D>,
    pub(super) now: Instant,
    pub(super) config: &'a TcpConfig,
    pub(super) key: &'a HashKey,
    pub(super) counters: &'a mut TcpCounters,
}

/// A connection in any state.
#[derive(Debug)]
pub(super) struct Connection {
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
    //# At all other times, a previous segment has either been sent or received on this
    //# connection, and TCP implementations MUST use the same local address that was used in those
    //# previous segments (MUST-45).
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) path: Path,
    pub(super) state: State,
    pub(super) settings: Settings,
    /// Why it failed, until the application was told.
    pub(super) error: Option<TcpError>,
    /// The failure was reported: from now on reads see the end and writes a closed pipe.
    pub(super) told: bool,
    /// Something happened that no call tells, and the application is to look: urgent data was
    /// announced, or much was sent again in vain.
    pub(super) news: bool,
    /// The application holds it, or will when it accepts it.
    pub(super) attached: bool,
    /// The listener that made it, until it is accepted.
    pub(super) listener: Option<ListenerId>,
    pub(super) segments_sent: u64,
    pub(super) segments_received: u64,
}

/// The state with what only this state has.
#[derive(Debug)]
pub(super) enum State {
    SynSent(Opening),
    SynReceived(Opening),
    /// Every synchronised state: see [`Phase`].
    Open(Box<Open>),
    /// ESTABLISHED and at rest: see `dormant.rs`.
    Dormant(Dormant),
    /// TIME-WAIT after the application let go.
    TimeWait(TimeWait),
    Closed,
}

/// A synchronised connection: two halves that share no field, and what concerns both.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) phase: Phase,
    pub(super) send: Send,
    pub(super) recv: Recv,
    /// Headers of ordinary segments, while the path's link header is known.
    pub(super) template: Option<Template>,
    /// Neither half nor the phase calls for anything but data in order.
    pub(super) straight: bool,
    /// Time stamps were negotiated.
    pub(super) timestamps: bool,
    /// Added to the time stamp clock.
    pub(super) timestamp_offset: u32,
    /// Not before this time does another challenge ACK leave (RFC 5961).
    pub(super) challenge_at: Instant,
    /// When a segment last arrived, and how many keep-alive probes are unanswered since.
    pub(super) heard_at: Instant,
    pub(super) keep_alive_probes: u8,
    /// FIN-WAIT-2 of an orphan, or TIME-WAIT: when it ends. ESTABLISHED: when it is looked at
    /// whether it may rest.
    pub(super) linger_until: Instant,
    /// What the peer said it accepts, before the path's MTU is considered.
    pub(super) peer_mss: u32,
    /// Large segments vanish on the path.
    pub(super) black_hole: BlackHole,
    /// It is open although our SYN is not acknowledged (RFC 7413).
    pub(super) fast: Option<Box<FastOpened>>,
    /// What the peer is to be told with the next segment (RFC 5482). Until then there is no
    /// template: no ordinary segment leaves.
    pub(super) owed_timeout: Option<UserTimeout>,
    /// The neighbour did not answer, or the link had no room: try again when told.
    pub(super) blocked: bool,
}

/// TIME-WAIT: no halves any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeWait {
    pub(super) snd_nxt: SeqNum,
    pub(super) rcv_nxt: SeqNum,
    /// As on the wire.
    pub(super) window: u16,
    pub(super) timestamps: Option<(u32, u32)>,
    pub(super) until: Instant,
}

impl Open {
    /// TSval of a segment that leaves now: milliseconds, shifted per connection.
    #[inline]
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        let wrap = if planted!(StampBackwards) {
            1023
        } else {
            u32::MAX
        };
        (now.as_millis() as u32 & wrap).wrapping_add(self.timestamp_offset)
    }

    /// Looks at every special condition again; called after whatever may have changed one.
    pub(super) fn refresh(&mut self) {
        let Open {
            phase,
            send,
            recv,
            template,
            straight,
            timestamps: _,
            timestamp_offset: _,
            challenge_at: _,
            heard_at: _,
            keep_alive_probes: _,
            linger_until: _,
            peer_mss: _,
            black_hole: _,
            fast,
            owed_timeout: _,
            blocked: _,
        } = self;
        *straight = *phase == Phase::Established
            && send.is_plain()
            && recv.assembler.is_empty()
            && recv.fin.is_none()
            && recv.up.is_none()
            && recv.share == u32::MAX
            && !recv.ecn.echoes()
            // (without SACK nobody ever takes what the half remembers to report)
            && !(send.sack && recv.sack.has_dsack())
            && fast.is_none()
            && template.is_some();
    }

    /// When the next of its timers expires.
    fn deadline(&self, settings: &Settings, config: &TcpConfig) -> Instant {
        let mut at = self.send.deadline().min(self.linger_until);
        at = at.min(self.black_hole.raise_at);
        if self.recv.owed == AckOwed::Later {
            at = at.min(self.recv.ack_at);
        }
        at.min(self.keep_alive_at(settings, config))
            .min(self.send.pace_at())
    }

    /// A segment arrived that passed the checks of sequence and acknowledgement number: the peer
    /// is there. A segment that fails them may be a forgery, and puts no probe off.
    #[inline]
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard_at = now;
        self.keep_alive_probes = 0;
    }

    /// When the next keep-alive probe is due.
    pub(super) fn keep_alive_at(&self, settings: &Settings, config: &TcpConfig) -> Instant {
        if self.phase == Phase::TimeWait || self.phase == Phase::Closed {
            return Instant::FAR_FUTURE;
        }
        keep_alive_at(self.heard_at, self.keep_alive_probes, settings, config)
    }
}

/// When the next keep-alive probe of an open connection is due.
fn keep_alive_at(
    heard_at: Instant,
    probes: u8,
    settings: &Settings,
    config: &TcpConfig,
) -> Instant {
    settings.keep_alive.map_or(Instant::FAR_FUTURE, |idle| {
        let least = settings.user_timeout.least_keep_alive(&config.user_timeout);
        let idle = idle.max(least);
        let probed = settings
            .keep_alive_interval(config)
            .saturating_mul(probes.into());
        heard_at + idle + probed
    })
}

impl Connection {
    /// RFC 9293's name of the state.
    pub(super) fn state_name(&self) -> TcpState {
        match &self.state {
            State::SynSent(_) => TcpState::SynSent,
            State::SynReceived(_) => TcpState::SynReceived,
            State::Open(open) if open.fast.is_some() && open.phase == Phase::Established => {
                TcpState::SynReceived
            }
            State::Open(open) => open.phase.state(),
            State::Dormant(_) => TcpState::Established,
            State::TimeWait(_) => TcpState::TimeWait,
            State::Closed => TcpState::Closed,
        }
    }

    /// Whether a look at what might be sent would find nothing: an ordinary connection that has
    /// sent what it was given, and owes no acknowledgement that cannot wait.
    #[inline]
    pub(super) fn has_nothing_to_send(&self) -> bool {
        let State::Open(open) = &self.state else {
            return false;
        };
        let Open { send, recv, .. } = &**open;
        open.straight
            && send.nxt == send.queue.end()
            && recv.owed != AckOwed::Now
            // (that looks for those who run out of data)
            && !send.sent.rate().is_measured()
    }

    /// When the next of its timers expires.
    pub(super) fn deadline(&self, config: &TcpConfig) -> Instant {
        match &self.state {
            State::SynSent(o) | State::SynReceived(o) => o.resend_at,
            State::Open(open) => open.deadline(&self.settings, config),
            State::Dormant(d) => {
                keep_alive_at(d.heard_at, d.keep_alive_probes, &self.settings, config)
            }
            State::TimeWait(wait) => wait.until,
            State::Closed => Instant::FAR_FUTURE,
        }
    }

    /// Whether something could not leave because the neighbour's address is not known.
    pub(super) fn waits_for_neighbour(&self) -> bool {
        // (a SYN is tried again soon by its timer)
        matches!(&self.state, State::Open(open) if open.blocked)
    }

    /// Whether it can be forgotten: over, and nobody holds it.
    pub(super) fn is_over(&self) -> bool {
        !self.attached && self.is_closed()
    }

    /// Whether nothing more can be sent or received.
    pub(super) fn is_closed(&self) -> bool {
        match &self.state {
            State::Closed => true,
            State::Open(open) => open.phase == Phase::Closed,
            _ => false,
        }
    }

    /// Reading gives something at once.
    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        match &self.state {
            State::Open(open) => {
                open.recv.is_readable() || open.recv.deaf || open.phase == Phase::Closed
            }
            State::SynSent(_) | State::SynReceived(_) | State::Dormant(_) => false,
            State::TimeWait(_) | State::Closed => true,
        }
    }

    /// Writing takes bytes, or fails at once.
    #[inline]
    pub(super) fn is_writable(&self) -> bool {
        match &self.state {
            State::Open(open) => {
                if open.send.fin == super::send::Fin::Open {
                    let room = open.send.room() > open.send.buffer_now() / 3;
                    return room && self.settings.wants_more(&open.send)
                        || open.phase == Phase::Closed;
                }
                // who lingers waits for the last acknowledgement
                let lingers = self.settings.linger.is_some_and(|time| !time.is_zero());
                !(lingers && open.phase.sends())
            }
            State::SynSent(_) | State::SynReceived(_) => false,
            // (nothing is queued)
            State::Dormant(_) | State::TimeWait(_) | State::Closed => true,
        }
    }

    /// Ends it: what was queued to be sent is let go, what arrived can still be read by whoever
    /// holds it.
    pub(super) fn fail<D: Driver>(&mut self, ip: &mut Ip<D>, error: Option<TcpError>) {
        if self.error.is_none() && !self.told {
            self.error = error;
        }
        self.wake(Instant::FAR_FUTURE);
        let endpoint = ip.endpoint(self.path.link);
        match &mut self.state {
            State::Open(open) => {
                open.phase = Phase::Closed;
                open.straight = false;
                open.fast = None;
                open.recv.ack_never();
                open.linger_until = Instant::FAR_FUTURE;
                if let Some(endpoint) = endpoint {
                    open.send.stop(&mut endpoint.pool);
                    if !self.attached {
                        open.recv.clear(endpoint);
                    }
                }
            }
            other => {
                if let (State::SynSent(o) | State::SynReceived(o), Some(endpoint)) =
                    (&mut *other, endpoint)
                {
                    o.let_go(&mut endpoint.pool);
                }
                *other = State::Closed;
            }
        }
    }

    /// Lets go of all memory; called before the connection is forgotten.
    pub(super) fn free<D: Driver>(&mut self, ip: &mut Ip<D>) {
        if let Some(endpoint) = ip.endpoint(self.path.link) {
            match &mut self.state {
                State::Open(open) => {
                    open.send.queue.clear(&mut endpoint.pool);
                    open.recv.clear(endpoint);
                }
                State::SynSent(opening) | State::SynReceived(opening) => {
                    opening.let_go(&mut endpoint.pool);
                }
                State::Dormant(_) | State::TimeWait(_) | State::Closed => {}
            }
        }
        self.state = State::Closed;
    }
}
