//! What is known of one end of a connection from what it sent and was handed.

use std::collections::BTreeMap;

use gannet_base::Instant;

use super::numbers::{Ranges, Stamps};
use super::silence::Silence;
use crate::pattern::Pattern;

/// What a SYN said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its sequence number.
    pub seq: u32,
    /// MSS option.
    pub mss: Option<u16>,
    /// Window scale option.
    pub scale: Option<u8>,
    /// SACK-permitted option.
    pub sack: bool,
    /// Time stamps option.
    pub timestamps: bool,
    /// It asked for, or agreed to, ECN.
    pub ecn: bool,
    /// It acknowledged a SYN.
    pub ack: bool,
    /// Window and data.
    pub window: u16,
    /// Bytes of data on it.
    pub data: u32,
}

/// One end of a connection.
///
/// Numbers are counted from the initial sequence number of their direction: 0 is the SYN, the first
/// byte is 1.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Our SYN.
    pub ours: Option<Hello>,
    /// The peer's SYN, once it is clear which one counts.
    pub theirs: Option<Hello>,
    /// SYNs that came before that.
    pub candidates: Vec<Hello>,

    /// Behind the last number we sent.
    pub snd_max: u64,
    /// Acknowledged, as far as we were told.
    pub snd_una: u64,
    /// The highest number that the peer reported by SACK.
    pub reported: u64,
    /// What the peer reported by SACK.
    pub has: Ranges,
    /// Behind our FIN.
    pub fin_sent: Option<u64>,
    /// The right edge of what the peer allows, the furthest we were told.
    pub allowed: u64,
    /// The right edge that we were told last; the furthest may be more by less than the window's
    /// unit.
    pub edge: Option<u64>,
    /// The bytes that we send.
    pub pattern: Option<Pattern>,
    /// When each range that is not acknowledged was last sent, and how often: by start. They do not
    /// overlap.
    pub flights: BTreeMap<u64, Flight>,
    /// The last time-out, and bytes sent at it and since.
    pub alone: Option<(Instant, u64)>,
    /// When we were last told anything.
    pub told_at: Instant,
    /// When we were last told anything that moved `snd_una`.
    pub moved_at: Instant,

    /// What we were handed.
    pub handed: Ranges,
    /// Behind the peer's FIN, if it was handed to us.
    pub fin_handed: Option<u64>,
    /// The highest acknowledgement we sent.
    pub acked: u64,
    /// The furthest right edge that we offered.
    pub offered: u64,
    /// Time stamps that we were handed.
    pub stamps: Stamps,
    /// The newest of them.
    pub newest: Option<u32>,
    /// The latest time stamp that we sent.
    pub stamped: Option<u32>,
    /// When an acknowledgement of new data is due at the latest.
    pub ack_due: Option<Instant>,

    /// Which connection of the ledger it is, and which end.
    pub place: Option<(usize, usize)>,
    /// The window that we offered last is closed.
    pub closed: bool,
    /// What the rules of silence remember.
    pub silence: Silence,
    /// We reset it.
    pub reset: bool,
    /// We sent a reset, about whatever: perhaps nobody is here any more who owes anything. (The one
    /// of an abort finds no room in a full ring; the next segment is answered by another.)
    pub refused: bool,
    /// The peer sent a reset: whether it counts is not ours to say.
    pub peer_reset: bool,
    /// Segments handed to us that are no resets, and resets that we sent.
    pub reset_balance: (u64, u64),
}

/// A range under way.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// Behind its last number.
    pub end: u64,
    /// When it was first sent.
    pub first: Instant,
    /// When it was last sent.
    pub at: Instant,
    /// How often.
    pub times: u32,
}

impl Side {
    /// The window scale that counts for what the peer says.
    pub fn their_scale(&self) -> u32 {
        match (self.ours, self.theirs) {
            (Some(ours), Some(theirs)) if ours.scale.is_some() => {
                u32::from(theirs.scale.unwrap_or(0))
            }
            _ => 0,
        }
    }

    /// The window scale that counts for what we say.
    pub fn our_scale(&self) -> u32 {
        match (self.ours, self.theirs) {
            (Some(ours), Some(theirs)) if theirs.scale.is_some() => {
                u32::from(ours.scale.unwrap_or(0))
            }
            _ => 0,
        }
    }

    /// What both SYNs say.
    pub fn agreed(&self, what: impl Fn(&Hello) -> bool) -> bool {
        self.ours.as_ref().is_some_and(&what) && self.theirs.as_ref().is_some_and(&what)
    }

    /// Behind the last number that we were handed without a gap.
    pub fn handed_in_order(&self) -> u64 {
        self.handed.end_of(0)
    }

    /// Whether an acknowledgement is overdue.
    pub fn owes_ack(&mut self, now: Instant) -> bool {
        let overdue = self.ack_due.is_some_and(|due| now > due) && !self.reset && !self.refused;
        if overdue {
            self.ack_due = None;
        }
        overdue
    }

    /// Begins anew with another SYN of ours.
    pub fn begin(&mut self, hello: Hello) {
        let candidates = core::mem::take(&mut self.candidates);
        let stamps = core::mem::take(&mut self.stamps);
        *self = Side {
            ours: Some(hello),
            candidates,
            stamps,
            ..Side::default()
        };
        self.snd_max = 1;
    }

    /// It is clear which SYN of the peer counts.
    pub fn settle(&mut self, hello: Hello) {
        // (which of several SYNs with one number was answered nobody can tell)
        let mut same = self
            .candidates
            .iter()
            .filter(|other| other.seq == hello.seq);
        let ecn = hello.ecn || same.any(|other| other.ecn);
        self.theirs = Some(Hello { ecn, ..hello });
        self.handed = Ranges::default();
        self.handed.add(0, 1 + u64::from(hello.data));
        let base = if hello.ack { self.snd_una.max(1) } else { 1 };
        self.allowed = self.allowed.max(base + u64::from(hello.window));
        self.acked = 0;
        self.offered = 0;
    }
}
