//! The rules for what an end of a connection sends. Each is one function; a broken one is said in
//! words.

use core::time::Duration;

use gannet_wire::tcp::Flags;

use super::numbers::unwrap;
use super::side::{Flight, Hello, Side};
use super::watch::Court;
use crate::packet::Segment;
use crate::pattern::Pattern;

/// RFC 9293 (MUST-15, 3.7.1): the MSS of who says none, over IPv4 and IPv6.
const DEFAULT_MSS: [u64; 2] = [536, 1220];
/// The stack's shortest retransmission time-out.
const RTO_MIN: Duration = Duration::from_millis(200);
/// RFC 6298 (2.1): before there is a sample.
const RTO_INITIAL: Duration = Duration::from_secs(1);
/// Timers may be this much early: the wheel's grain.
const GRAIN: Duration = Duration::from_millis(2);

type Rule = Result<(), String>;

macro_rules! require {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}

impl Side {
    /// A segment leaves this end.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn sent(&mut self, court: &mut Court<'_>, segment: &Segment<'_>) -> Rule {
        self.keeps_silent(court, segment)?;
        if segment.has(Flags::RST) {
            return self.sends_reset(court, segment);
        }
        require!(segment.header.reserved == 0, "reserved bits");
        if segment.has(Flags::SYN) {
            self.sends_syn(court, segment)?;
        } else {
            let options = &segment.options;
            let syn_only =
                options.mss.is_some() || options.window_scale.is_some() || options.sack_permitted;
            require!(!syn_only, "an option that belongs on a SYN");
        }
        if segment.has(Flags::ACK) {
            self.storms(court.now, segment)?;
            self.acknowledges(court, segment)?;
        }
        let (Some(ours), Some(_)) = (self.ours, self.theirs) else {
            return Ok(());
        };
        self.fits(segment)?;
        self.marks_for_congestion(court, segment)?;
        self.stamps_time(court, segment)?;
        if !segment.has(Flags::SYN) {
            require!(!self.reset, "a segment after its own reset");
            self.sends_numbers(court, segment, ours.seq)?;
        }
        Ok(())
    }

    /// Resets: never more than there were segments to answer, and one when the application aborts.
    fn sends_reset(&mut self, court: &mut Court<'_>, segment: &Segment<'_>) -> Rule {
        court.counts.resets += 1;
        require!(segment.data.is_empty(), "data with a reset");
        self.refused = true;
        self.reset_balance.1 += 1;
        let (heard, resets) = self.reset_balance;
        require!(resets <= heard + 1, "a reset that answers a reset");
        let end = self
            .ours
            .and_then(|ours| unwrap(segment.header.seq, ours.seq, self.snd_max));
        if self.snd_una > 0 && end == Some(self.snd_max) {
            self.reset = true;
        }
        Ok(())
    }

    fn sends_syn(&mut self, court: &mut Court<'_>, segment: &Segment<'_>) -> Rule {
        let hello = Hello::of(segment);
        let same = self.ours.is_some_and(|ours| ours.seq == hello.seq);
        match &mut self.ours {
            // a SYN that asked for ECN and got no answer is repeated without
            Some(ours) if same => ours.ecn |= hello.ecn,
            _ => self.begin(hello),
        }
        let flight = self.flights.insert(
            0,
            Flight {
                end: 1,
                first: court.now,
                at: court.now,
                times: 1,
            },
        );
        let first_words = !hello.ack && same;
        if let Some(before) = flight.filter(|_| first_words && court.punctual) {
            let waited = court.now - before.at;
            require!(
                waited + GRAIN >= RTO_INITIAL,
                "a SYN again after {waited:?}"
            );
        }
        require!(
            hello.scale.is_none_or(|s| s <= 14),
            "a window scale above 14"
        );
        let ack = segment.header.ack;
        if let Some(theirs) = self.candidate(ack).filter(|_| hello.ack) {
            let unasked = (hello.scale.is_some() && theirs.scale.is_none())
                || (hello.sack && !theirs.sack)
                || (hello.timestamps && !theirs.timestamps);
            require!(!unasked, "an option that the SYN did not offer");
        }
        Ok(())
    }

    /// The SYN of the peer that `ack` acknowledges.
    fn candidate(&self, ack: u32) -> Option<Hello> {
        let mut candidates = self.candidates.iter().rev();
        let fits = |hello: &&Hello| {
            let over = ack.wrapping_sub(hello.seq);
            over >= 1 && over <= 1 + hello.data
        };
        candidates.find(fits).copied()
    }

    /// Acknowledges only what it was handed, never takes back, never shrinks the window.
    fn acknowledges(&mut self, court: &mut Court<'_>, segment: &Segment<'_>) -> Rule {
        if self.theirs.is_none() {
            let Some(hello) = self.candidate(segment.header.ack) else {
                return Err("an acknowledgement of a SYN that never came".to_owned());
            };
            self.settle(hello);
        }
        let Some(theirs) = self.theirs else {
            return Ok(());
        };
        let handed = self.handed_in_order();
        let Some(ack) = unwrap(segment.header.ack, theirs.seq, self.acked.max(1)) else {
            return Err("an acknowledgement before the first number".to_owned());
        };
        require!(
            ack <= handed,
            "an acknowledgement of {} that it cannot have",
            ack - handed
        );
        require!(
            ack >= self.acked,
            "an acknowledgement that takes back {}",
            self.acked - ack
        );
        if ack >= 1 << 32 && self.acked < 1 << 32 || segment.header.ack < 1 << 20 && ack > 1 << 20 {
            court.counts.wraps += 1;
        }
        self.acked = ack;
        self.ack_due = None;
        let shift = match segment.has(Flags::SYN) {
            true => 0,
            false => self.our_scale(),
        };
        let edge = ack + (u64::from(segment.header.window) << shift);
        // (a window is a multiple of its unit: an edge may fall back by less than one; and who is
        // short of memory may close the window altogether)
        let unit = 1_u64 << shift;
        let closed = segment.header.window == 0;
        require!(
            edge + unit > self.offered || closed || self.fin_handed.is_some_and(|fin| ack >= fin),
            "a window that shrinks by {}",
            self.offered - edge
        );
        self.offered = self.offered.max(edge);
        self.closed = closed;
        court.counts.zero_windows += u64::from(closed);
        self.maybe_in_time_wait(court.now);
        self.reports(court, segment, theirs.seq)
    }

    /// SACK blocks name only what it was handed, and were agreed on.
    fn reports(&self, court: &mut Court<'_>, segment: &Segment<'_>, irs: u32) -> Rule {
        let blocks = segment.options.sack.as_slice();
        if blocks.is_empty() {
            return Ok(());
        }
        court.counts.sacks += 1;
        require!(
            self.agreed(|hello| hello.sack),
            "SACK that was not agreed on"
        );
        for (index, &(left, right)) in blocks.iter().enumerate() {
            let from = unwrap(left, irs, self.acked);
            let to = unwrap(right, irs, self.acked);
            let (Some(from), Some(to)) = (from, to) else {
                return Err("a SACK block before the first number".to_owned());
            };
            require!(from < to, "a SACK block {from}..{to}");
            require!(
                self.handed.holds(from, to),
                "a SACK block {from}..{to} that it cannot have"
            );
            let within = blocks.get(index + 1).is_some_and(|&(l, r)| {
                unwrap(l, irs, self.acked) <= Some(from) && Some(to) <= unwrap(r, irs, self.acked)
            });
            let duplicate = index == 0 && (to <= self.acked || within);
            court.counts.dsacks += u64::from(duplicate);
            require!(
                duplicate || from >= self.acked,
                "a SACK block {from}..{to} below the acknowledgement {}",
                self.acked
            );
        }
        Ok(())
    }

    /// The largest segment that the peer takes.
    fn their_mss(&self, segment: &Segment<'_>) -> u64 {
        let default = DEFAULT_MSS[usize::from(segment.from.is_ipv6())];
        let mss = self.theirs.and_then(|theirs| theirs.mss);
        mss.map_or(default, u64::from)
    }

    /// No larger than the peer takes.
    fn fits(&self, segment: &Segment<'_>) -> Rule {
        let mss = self.their_mss(segment);
        let len = (segment.data.len() + segment.options_len) as u64;
        require!(
            segment.data.is_empty() || len <= mss,
            "{len} bytes to a peer that takes {mss}"
        );
        Ok(())
    }

    /// ECN only where it was agreed on.
    fn marks_for_congestion(&self, court: &mut Court<'_>, segment: &Segment<'_>) -> Rule {
        if segment.ecn == 0 {
            return Ok(());
        }
        court.counts.ecn += 1;
        require!(
            self.agreed(|hello| hello.ecn),
            "an ECN-capable packet, not agreed on"
        );
        require!(segment.ecn != 3, "a packet that it marked itself");
        Ok(())
    }

    /// Time stamps on every segment or on none; an echo is of something handed over.
    fn stamps_time(&mut self, court: &mut Court<'_>, segment: &Segment<'_>) -> Rule {
        if segment.has(Flags::SYN) && !segment.has(Flags::ACK) {
            return Ok(());
        }
        let agreed = self.agreed(|hello| hello.timestamps);
        let Some((value, echo)) = segment.options.timestamps else {
            require!(!agreed, "no time stamp where they were agreed on");
            return Ok(());
        };
        require!(agreed, "a time stamp where none was agreed on");
        if let Some(before) = self.stamped.replace(value) {
            court.counts.wraps += u64::from(value < before);
            let back = value.wrapping_sub(before) as i32;
            require!(back >= 0 || !court.punctual, "a time stamp that goes back");
        }
        let known = self.stamps.is_empty() || self.stamps.contains(echo);
        require!(known, "an echo of a time stamp that never came: {echo}");
        Ok(())
    }

    /// Data and FIN: within the window, without gaps, the same bytes each time, not too soon.
    fn sends_numbers(&mut self, court: &mut Court<'_>, segment: &Segment<'_>, iss: u32) -> Rule {
        let Some(from) = unwrap(segment.header.seq, iss, self.snd_max) else {
            return Err("a sequence number before the first".to_owned());
        };
        let to = from + u64::from(segment.len());
        require!(
            from <= self.snd_max,
            "a gap of {} before its numbers",
            from - self.snd_max
        );
        if segment.is_empty() {
            return Ok(());
        }
        require!(from >= 1, "data before the first byte");
        self.sends_within_window(court, segment, to)?;
        if segment.has(Flags::FIN) {
            let fin = *self.fin_sent.get_or_insert(to);
            require!(fin == to, "a FIN at {to} after one at {fin}");
        }
        require!(
            self.fin_sent.is_none_or(|fin| to <= fin),
            "data after its FIN"
        );
        let pattern = self.pattern;
        let pattern = pattern.unwrap_or_else(|| Pattern::of(segment.from, segment.to));
        self.pattern = Some(pattern);
        if let Some(at) = pattern.first_wrong(from - 1, segment.data) {
            return Err(format!("byte {at} wrong"));
        }
        self.backs_off(court, from, to)?;
        self.paces(court, from, to)?;
        self.starts_slowly(court, segment, from)?;
        if (iss as u64 + self.snd_max) >> 32 < (iss as u64 + to) >> 32 {
            court.counts.wraps += 1;
        }
        self.snd_max = self.snd_max.max(to);
        Ok(())
    }

    /// Within the offered window, but for a probe of one; and not more than congestion control may
    /// ever allow: ten segments, two more while duplicates are acknowledged (RFC 3042), and two
    /// bytes for each acknowledged or reported: one by which the window grew, and one for what is
    /// reported, or lost below it, and counts no longer.
    fn sends_within_window(
        &mut self,
        court: &mut Court<'_>,
        segment: &Segment<'_>,
        to: u64,
    ) -> Rule {
        let over = to.saturating_sub(self.allowed);
        court.counts.probes += u64::from(over == 1);
        require!(over <= 1, "{over} beyond the offered window");
        let mss = self.their_mss(segment).min(9000);
        let first = (10 * mss).max(14_600);
        let told = self.snd_una.max(self.reported);
        let most = first + 2 * mss + told.saturating_mul(2);
        let flight = to - self.snd_una.min(to);
        require!(
            flight <= most,
            "{flight} in flight with {told} acknowledged or reported"
        );
        Ok(())
    }

    /// The same bytes go out again only when their loss can be known: not within a round trip, and
    /// without any word from the peer not within the shortest time-out. A time-out counts from
    /// when they were first sent, or from the last progress, whatever was sent again meanwhile.
    fn paces(&mut self, court: &mut Court<'_>, from: u64, to: u64) -> Rule {
        let mut fresh = Flight {
            end: to,
            first: court.now,
            at: court.now,
            times: 1,
        };
        if from < self.snd_max {
            court.counts.again += 1;
            // (what a time-out sends again may take along what was sent after it)
            let head = self.flights.range(..=from).next_back();
            let timer = head.map(|(_, head)| court.now - head.first.max(self.moved_at) + GRAIN);
            let by_timer = timer.is_some_and(|timer| timer >= RTO_MIN);
            let before = self.flights.range(..to).rev();
            let before = before.take_while(|(_, flight)| flight.end > from);
            for (_, flight) in before {
                fresh.times = fresh.times.max(flight.times + 1);
                fresh.first = fresh.first.min(flight.first);
                let waited = court.now - flight.at;
                let timer = court.now - flight.first.max(self.moved_at) + GRAIN;
                let probe = to > self.allowed;
                if !court.punctual || probe || timer >= RTO_MIN || by_timer {
                    continue;
                }
                require!(
                    waited + GRAIN >= court.round_trip.mul_f64(0.9),
                    "{from}..{to} again after {waited:?}, within a round trip"
                );
                require!(
                    self.told_at > flight.at || timer >= court.round_trip.mul_f64(1.8),
                    "{from}..{to} again after {waited:?} without a word"
                );
            }
        }
        // (a window probe does not count: what it carries is sent as soon as the window opens)
        if to <= self.edge.unwrap_or(self.allowed) {
            self.flies(from, fresh);
        }
        Ok(())
    }

    /// After a time-out one segment leaves, and nothing more before the peer says anything (RFC
    /// 5681, section 3.1). That it was a time-out, and no probe of the tail, is certain when the
    /// oldest bytes are sent for the third time without a word.
    fn starts_slowly(&mut self, court: &Court<'_>, segment: &Segment<'_>, from: u64) -> Rule {
        let mss = self.their_mss(segment);
        let flight = self.flights.get(&from);
        let again = flight.is_some_and(|flight| flight.times >= 3);
        let silent = court.now - self.told_at >= RTO_MIN * 2;
        // (what the peer has does not count: it may share the segment of what it has not)
        let len = self.has.missing(from, from + segment.data.len() as u64);
        if from == self.snd_una && again && silent && court.punctual {
            self.alone = Some((court.now, len));
        } else if let Some((since, sent)) = self.alone.filter(|(at, _)| *at > self.told_at) {
            self.alone = Some((since, sent + len));
            require!(
                sent + len <= mss || !court.punctual || len <= 1,
                "{} bytes after a time-out without a word",
                sent + len
            );
        }
        Ok(())
    }

    fn flies(&mut self, from: u64, fresh: Flight) {
        let to = fresh.end;
        // what it covers of earlier flights is theirs no more
        let old: Vec<(u64, Flight)> = self
            .flights
            .range(..to)
            .rev()
            .take_while(|(_, flight)| flight.end > from)
            .map(|(start, flight)| (*start, *flight))
            .collect();
        for (start, flight) in old {
            self.flights.remove(&start);
            if start < from {
                let end = from;
                self.flights.insert(start, Flight { end, ..flight });
            }
            if flight.end > to {
                self.flights.insert(to, flight);
            }
        }
        self.flights.insert(from, fresh);
    }
}
