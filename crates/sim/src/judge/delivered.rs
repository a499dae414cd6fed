//! What an end of a connection learns from what it is handed.

use core::time::Duration;

use gannet_base::Instant;
use gannet_wire::tcp::Flags;

use super::numbers::unwrap;
use super::side::{Hello, Side};
use crate::packet::Segment;

/// SYNs that are remembered.
const CANDIDATES_MAX: usize = 8;
/// RFC 9293 (MUST-40): an acknowledgement is delayed by less than half a second.
const ACK_WITHIN: Duration = Duration::from_millis(500);

impl Hello {
    /// What a SYN says.
    pub fn of(segment: &Segment<'_>) -> Hello {
        let ack = segment.has(Flags::ACK);
        Hello {
            seq: segment.header.seq,
            mss: segment.options.mss,
            scale: segment.options.window_scale,
            sack: segment.options.sack_permitted,
            timestamps: segment.options.timestamps.is_some(),
            ecn: segment.has(Flags::ECE),
            ack,
            window: segment.header.window,
            data: segment.data.len() as u32,
        }
    }
}

impl Side {
    /// A segment is handed to this end.
    pub fn delivered(&mut self, now: Instant, segment: &Segment<'_>) {
        if segment.has(Flags::RST) {
            self.ack_due = None;
            self.peer_reset = true;
            self.reset_arrives(now, segment);
            return;
        }
        self.reset_balance.0 += 1;
        self.hears_news(segment);
        let old = self.stamp_is_old(segment);
        if segment.has(Flags::SYN) {
            self.hello(Hello::of(segment), segment.header.ack);
        }
        let (Some(ours), Some(theirs)) = (self.ours, self.theirs) else {
            return;
        };
        self.told_at = now;
        if segment.has(Flags::ACK) {
            self.acknowledgement(now, segment, ours.seq);
        }
        let near = self.handed_in_order();
        let Some(from) = unwrap(segment.header.seq, theirs.seq, near) else {
            return;
        };
        let to = from + u64::from(segment.len());
        if segment.is_empty() || to > near + (1 << 30) {
            self.maybe_in_time_wait(now);
            return;
        }
        let before = self.handed_in_order();
        self.handed.add(from, to);
        // RFC 9293 section 3.10.7.4: whoever sends his FIN again is answered, in TIME-WAIT too
        let fin_again = segment.has(Flags::FIN) && self.fin_handed == Some(to);
        if segment.has(Flags::FIN) {
            self.fin_handed = Some(to);
        }
        self.maybe_in_time_wait(now);
        // (what the window may have had no room for need not be acknowledged, nor what is older
        // than what came before: RFC 7323, PAWS)
        let news = self.handed_in_order() > before && to <= self.offered;
        if (news || fin_again) && !old && !self.peer_reset {
            self.ack_due.get_or_insert(now + ACK_WITHIN);
        }
    }

    /// Remembers the time stamp; whether a newer one was here before.
    fn stamp_is_old(&mut self, segment: &Segment<'_>) -> bool {
        let Some((value, _)) = segment.options.timestamps else {
            return false;
        };
        self.stamps.insert(value);
        let newest = *self.newest.get_or_insert(value);
        let old = (value.wrapping_sub(newest) as i32) < 0;
        if !old {
            self.newest = Some(value);
        }
        old
    }

    fn hello(&mut self, hello: Hello, ack: u32) {
        let answers = hello.ack
            && self
                .ours
                .is_some_and(|ours| ack == ours.seq.wrapping_add(1));
        if answers && self.theirs.is_none() {
            self.settle(hello);
        }
        if !self.candidates.contains(&hello) {
            if self.candidates.len() >= CANDIDATES_MAX {
                self.candidates.remove(0);
            }
            self.candidates.push(hello);
        }
    }

    fn acknowledgement(&mut self, now: Instant, segment: &Segment<'_>, iss: u32) {
        let Some(ack) = unwrap(segment.header.ack, iss, self.snd_una) else {
            return;
        };
        if ack > self.snd_max {
            return;
        }
        for &(left, right) in segment.options.sack.as_slice() {
            let right = unwrap(right, iss, self.snd_una).filter(|r| *r <= self.snd_max);
            self.reported = self.reported.max(right.unwrap_or(0));
            if let (Some(left), Some(right)) = (unwrap(left, iss, self.snd_una), right) {
                self.has.add(left, right);
            }
        }
        let shift = match segment.has(Flags::SYN) {
            true => 0,
            false => self.their_scale(),
        };
        let edge = ack + (u64::from(segment.header.window) << shift);
        self.allowed = self.allowed.max(edge);
        if ack >= self.snd_una {
            self.edge = Some(edge);
        }
        if ack > self.snd_una {
            self.snd_una = ack;
            self.moved_at = now;
            self.forget_flights();
        }
    }

    fn forget_flights(&mut self) {
        let una = self.snd_una;
        while let Some((&start, &flight)) = self.flights.first_key_value() {
            if start >= una {
                break;
            }
            self.flights.pop_first();
            if flight.end > una {
                self.flights.insert(una, flight);
            }
        }
    }
}
