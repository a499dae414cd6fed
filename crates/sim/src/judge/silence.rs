//! What an end owes when nobody speaks, and when it is told to be silent: time-outs further and
//! further apart, nothing after a reset, answers in TIME-WAIT, small packets where routers said so.

use core::time::Duration;

use gannet_base::Instant;
use gannet_wire::tcp::Flags;

use super::numbers::unwrap;
use super::side::Side;
use super::watch::Court;
use crate::packet::Segment;

/// Timers may be this much early: the wheel's grain.
const GRAIN: Duration = Duration::from_millis(2);
/// Time-outs this far apart need not be further apart.
const RARE: Duration = Duration::from_secs(50);
/// For so long at least a router's word about its next link counts (RFC 1191 section 6.3).
const ROUTERS_WORD: Duration = Duration::from_secs(300);

/// What a rule says that is broken.
type Rule = Result<(), String>;

/// What is remembered for these rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    /// When the oldest bytes were last sent again without a word from the peer, and how long after
    /// the time before.
    again: Option<(Instant, Duration)>,
    /// A reset came that was to be obeyed.
    obeys: Option<Instant>,
    /// TIME-WAIT has begun.
    time_wait: Option<Instant>,
    /// The peer's FIN came before we sent ours.
    closes_second: bool,
    /// What a router said fits, and when.
    narrow: Option<(u32, Instant)>,
    /// The bare acknowledgement that was sent last, since when, and how often, while nothing but
    /// bare acknowledgements came.
    same: Option<(Words, Instant, u32)>,
    /// What came and was worth an answer.
    news: u32,
}

/// Sequence number, acknowledgement and window.
type Words = (u32, u32, u16);

/// Answers to nothing, in so long a time, that are too many: a challenge ACK (RFC 5961) leaves
/// twice a second at most.
const STORM: (u32, Duration) = (20, Duration::from_secs(5));
/// Segments that may be answered one by one later.
const NEWS_MAX: u32 = 2000;

impl Side {
    /// RFC 6298 (5.5): as long as nobody answers, each time-out is twice as long as the one before.
    pub(super) fn backs_off(&mut self, court: &Court<'_>, from: u64, to: u64) -> Rule {
        if from != self.snd_una || from >= self.snd_max {
            return Ok(());
        }
        let now = court.now;
        let before = self.silence.again.filter(|(at, _)| self.told_at < *at);
        let probe = to > self.allowed;
        let Some((at, gap)) = before.filter(|_| court.steady && !probe) else {
            self.silence.again = Some((now, Duration::ZERO));
            return Ok(());
        };
        let waited = now - at;
        if waited.is_zero() {
            return Ok(());
        }
        self.silence.again = Some((now, waited));
        match waited + GRAIN >= gap.mul_f64(1.8) || waited >= RARE {
            true => Ok(()),
            false => Err(format!(
                "{from} again after {waited:?}, {gap:?} the time before"
            )),
        }
    }

    /// Whoever hears acknowledgements only has nothing to say: two ends that answered them would
    /// do so for ever.
    pub(super) fn storms(&mut self, now: Instant, segment: &Segment<'_>) -> Rule {
        let Segment { header, .. } = segment;
        let words = (header.seq, header.ack, header.window);
        let bare = segment.is_empty() && segment.options.sack.as_slice().is_empty();
        let before = self
            .silence
            .same
            .filter(|(same, ..)| *same == words && bare);
        let (since, times) = before.map_or((now, 0), |(_, since, times)| (since, times + 1));
        self.silence.same = Some((words, since, times)).filter(|_| bare);
        if let Some(left) = self.silence.news.checked_sub(1).filter(|_| bare) {
            (self.silence.news, self.silence.same) = (left, None);
        } else if now - since > STORM.1 {
            self.silence.same = None;
        }
        match times > STORM.0 {
            true => Err(format!("the same acknowledgement for the {times}th time")),
            false => Ok(()),
        }
    }

    /// Something came that is worth an answer.
    pub(super) fn hears_news(&mut self, segment: &Segment<'_>) {
        if !segment.is_empty() {
            self.silence.same = None;
            self.silence.news = (self.silence.news + 1).min(NEWS_MAX);
        }
    }

    /// A reset is handed to this end. Exactly at RCV.NXT it ends the connection (RFC 9293 section
    /// 3.10.7.4); in TIME-WAIT it need not (RFC 1337).
    pub(super) fn reset_arrives(&mut self, now: Instant, segment: &Segment<'_>) {
        let Some(theirs) = self.theirs.filter(|_| self.fin_handed.is_none()) else {
            return;
        };
        let next = self.handed_in_order();
        let exact = unwrap(segment.header.seq, theirs.seq, next) == Some(next);
        if exact && self.acked == next && self.snd_una > 0 {
            self.silence.obeys.get_or_insert(now);
        }
    }

    /// Nothing but resets after a reset that it had to obey; no reset in TIME-WAIT (RFC 9293
    /// section 3.6.1: it lingers for 2 MSL); no packet larger than a router said.
    pub(super) fn keeps_silent(&self, court: &Court<'_>, segment: &Segment<'_>) -> Rule {
        let Silence {
            obeys,
            time_wait,
            narrow,
            ..
        } = self.silence;
        if segment.has(Flags::SYN) || !court.punctual_but_for_icmp || !court.roomy {
            return Ok(());
        }
        if segment.has(Flags::RST) {
            let early = time_wait.is_some_and(|since| court.now < since + court.time_wait);
            return match early {
                true => Err("a reset in TIME-WAIT".to_owned()),
                false => Ok(()),
            };
        }
        if obeys.is_some_and(|at| at < court.now) {
            return Err("a segment after a reset that it had to obey".to_owned());
        }
        if let Some((mtu, at)) = narrow
            && segment.packet_len > mtu as usize
            && at < court.now
            && court.now < at + ROUTERS_WORD
        {
            let len = segment.packet_len;
            return Err(format!("{len} bytes where a router said that {mtu} fit"));
        }
        Ok(())
    }

    /// Something was said or heard: TIME-WAIT may have begun.
    pub(super) fn maybe_in_time_wait(&mut self, now: Instant) {
        let Some(sent) = self.fin_sent else {
            self.silence.closes_second = self.fin_handed.is_some();
            return;
        };
        let Some(handed) = self.fin_handed.filter(|_| !self.silence.closes_second) else {
            return;
        };
        if self.snd_una >= sent && self.acked >= handed {
            self.silence.time_wait.get_or_insert(now);
        }
    }

    /// A router says that `mtu` bytes fit, of a packet that began with `seq`. What is not under way
    /// anybody could have said.
    pub(super) fn is_told_mtu(&mut self, now: Instant, seq: u32, mtu: u32) {
        let from = self
            .ours
            .and_then(|ours| unwrap(seq, ours.seq, self.snd_una));
        let ours = from.is_some_and(|from| (self.snd_una..self.snd_max).contains(&from));
        let least = self.silence.narrow.is_none_or(|(before, _)| mtu < before);
        if ours && least {
            self.silence.narrow = Some((mtu, now));
        }
    }
}
