//! An acknowledgement arrives: RFC 9293 section 3.10.7.4, fifth check, at the sender.

use core::time::Duration;

use gannet_base::Instant;
use gannet_link::Pool;

use super::{Fin, Send, SendTimer};
use crate::tcp::congestion::AckSample;
use crate::tcp::notice::{Acked, Notice};
use crate::tcp::sack::Blocks;
use crate::tcp::sent::Delivery;
use crate::tcp::seq::SeqNum;

/// One acknowledgement on its way through the steps.
pub(super) struct News<'a> {
    pub(super) n: &'a Notice,
    pub(super) now: Instant,
    /// It acknowledges something new.
    pub(super) advanced: bool,
    /// It is a duplicate by RFC 5681 section 2.
    pub(super) duplicate: bool,
    /// What it reports, sorted out.
    pub(super) blocks: Blocks,
    pub(super) delivery: Delivery,
    /// Octets found lost because of it.
    pub(super) lost: u32,
    /// When the segment left that it answers, in milliseconds.
    pub(super) echo_ms: Option<u64>,
}

impl Send {
    /// Takes in what the peer acknowledges, reports and offers.
    #[inline]
    pub(in crate::tcp) fn on_ack(&mut self, pool: &mut Pool, n: &Notice, now: Instant) -> Acked {
        let mut sample = AckSample::at(now);
        sample.flight_before = self.flight();
        sample.cwnd_limited = self.cwnd_limited;
        let plain = n.sack.is_empty() && !n.ece && n.ack.after(self.una);
        let acked = match plain && self.is_untroubled() {
            true => self.on_ack_in_order(pool, n, sample),
            false => self.on_any_ack(pool, n, sample),
        };
        self.fit_buffer();
        self.note_acked(now);
        acked
    }

    /// The straight line: nothing is lost, SACKed, probed or doubted, and `n` acknowledges more.
    #[inline]
    fn on_ack_in_order(&mut self, pool: &mut Pool, n: &Notice, mut sample: AckSample) -> Acked {
        let now = sample.now;
        self.retries = 0;
        self.dup_acks = 0;
        let all = n.ack - self.una;
        let acked = self.let_go(pool, n.ack, now);
        let sent = self.sent.acknowledge_in_order(n.ack, all, &mut sample);
        self.update_window(n);
        if let Some((first, last)) = sent {
            let latest = now.saturating_duration_since(last);
            self.rack.on_delivery_in_order(n.ack, last, latest);
            self.rtt.on_least(latest, now);
            sample.rtt = Some(latest);
            self.take_round_trip(now.saturating_duration_since(first));
        }
        self.rtt.reset_back_off();
        sample.acked = acked.bytes;
        sample.delivered = all;
        sample.total_delivered = self.sent.rate().delivered();
        sample.flight = self.flight();
        self.ecn.on_ack(self.una);
        self.tell_control(&mut sample);
        self.restart_timer(now);
        acked
    }

    /// One sample in each round trip is for the time-out.
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc6298#section-3
    //# A TCP implementation MUST take at least one RTT measurement per RTT (unless that is not
    //# possible per Karn's algorithm).
    fn take_round_trip(&mut self, rtt: Duration) {
        if self.una.after_eq(self.timed) {
            self.rtt.on_sample(rtt);
            self.timed = self.max;
            self.tail.on_round_trip();
        }
    }

    fn on_any_ack(&mut self, pool: &mut Pool, n: &Notice, mut sample: AckSample) -> Acked {
        let now = sample.now;
        let echo_ms = n.echo_age.map(|age| {
            let now = now.as_millis();
            now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
        });
        let least = self.rtt.min_rtt().unwrap_or_default();
        let mut news = News {
            n,
            now,
            advanced: n.ack.after(self.una),
            duplicate: self.is_duplicate(n),
            blocks: Blocks::default(),
            delivery: Delivery::new(now, least, echo_ms, self.rack.fack()),
            lost: 0,
            echo_ms,
        };
        self.note_life(&news);
        let acked = self.advance(pool, &mut news);
        self.take_blocks(&mut news);
        self.update_window(n);
        self.measure(&news, &mut sample);
        self.react(&mut news, &mut sample);
        self.tell_congestion(&news, &acked, &mut sample);
        self.time(&news);
        acked
    }

    /// A "duplicate acknowledgment" as RFC 5681 section 2 defines it: (a) to (e).
    fn is_duplicate(&self, n: &Notice) -> bool {
        // the answer to a window probe looks the same and means no loss
        let probing = matches!(self.timer, SendTimer::Persist(_));
        n.ack == self.una && self.outstanding() && !probing && !n.has_text && n.window.0 == self.wnd
    }

    /// The peer lives, whatever it says.
    #[inline]
    fn note_life(&mut self, news: &News) {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
        //# As long as the receiving TCP peer continues to send acknowledgments in
        //# response to the probe segments, the sending TCP peer MUST allow the
        //# connection to stay open (MUST-37).
        if news.advanced || self.wnd == 0 || news.n.window.0 == 0 {
            self.retries = 0;
        }
    }

    /// What `ack` covers anew is let go of.
    #[inline]
    fn advance(&mut self, pool: &mut Pool, news: &mut News) -> Acked {
        if !news.advanced {
            return Acked::default();
        }
        let ack = news.n.ack;
        self.sent.acknowledge(ack, &mut news.delivery);
        let acked = self.let_go(pool, ack, news.now);
        if self.sent.reneged() {
            self.sent.forget_sacked(ack);
            self.reneged += 1;
        }
        acked
    }

    /// Everything below `ack` is acknowledged.
    #[inline]
    fn let_go(&mut self, pool: &mut Pool, ack: SeqNum, now: Instant) -> Acked {
        let end = self.queue.end();
        let early = ack == end && planted!(FinAckedByData);
        let fin = self.fin == Fin::Sent && (ack.after(end) || early);
        let bytes = (ack - self.una) - u32::from(fin);
        //= https://www.rfc-editor.org/rfc/rfc6675#section-4
        //# Note: SACK information is advisory and therefore SACKed data MUST NOT be removed from
        //# the TCP's retransmission buffer until the data is cumulatively acknowledged [RFC2018].
        //= https://www.rfc-editor.org/rfc/rfc2018#section-8
        //# Since the data receiver may later discard data reported in a SACK option, the sender
        //# MUST NOT discard data before it is acknowledged by the Acknowledgment Number field in
        //# the TCP header.
        self.queue.acknowledge(pool, ack);
        self.una = ack;
        if self.nxt.before(self.una) {
            self.nxt = self.una;
        }
        if self.up.is_some_and(|up| up.before_eq(self.una)) {
            self.up = None;
        }
        self.acknowledged += u64::from(bytes);
        self.last_progress = now;
        self.soft_error = None;
        self.resend_head = false;
        Acked { bytes, fin }
    }

    fn take_blocks(&mut self, news: &mut News) {
        if !self.sack || news.n.sack.is_empty() {
            return;
        }
        news.blocks = Blocks::sort(&news.n.sack, news.n.ack, (self.una, self.max));
        //= https://www.rfc-editor.org/rfc/rfc6675#section-5
        //# Upon the receipt of any ACK containing SACK information, the scoreboard MUST be updated
        //# via the Update () routine.
        let segments = (self.max - self.una) / self.mss.max(1);
        self.sent.expect_blocks(segments);
        for &block in news.blocks.held() {
            self.sent.sack(block, &mut news.delivery);
        }
    }

    /// Round trips: for the time-out, for the path's shortest, for RACK.
    #[inline]
    //= https://www.rfc-editor.org/rfc/rfc8961#section-4
    //# (d) An RTO mechanism MUST NOT use ambiguous FT samples.
    //= https://www.rfc-editor.org/rfc/rfc8961#section-4
    //# Therefore, in this situation, an implementation MUST NOT use either version of the FT sample
    //# and hence not update the RTO (as discussed in [KP87] and [RFC6298]).
    fn measure(&mut self, news: &News, sample: &mut AckSample) {
        let now = news.now;
        self.rack.on_delivery(&news.delivery);
        if let Some(rtt) = news.delivery.latest_rtt() {
            self.rtt.on_least(rtt, now);
            sample.rtt = Some(rtt);
        }
        if !news.advanced {
            return;
        }
        match news.delivery.rtt() {
            Some(rtt) => self.take_round_trip(rtt),
            None => {
                if let Some(age) = news.n.echo_age.filter(|_| self.rtt.back_off_count() > 0) {
                    self.rtt.on_sample(self.age_of_answer(news.n, age, now));
                    self.tail.on_round_trip();
                }
            }
        }
        self.rtt.reset_back_off();
    }

    /// The round trip that an answer after time-outs shows. `age`: of the time stamp it echoes.
    ///
    /// Only a time stamp tells which copy was answered. But when it is answers that were lost, the
    /// one that comes through echoes the first copy, however many time-outs ago: taken for a round
    /// trip, that would drive the time-out up to its limit. Such an answer reports the copy it
    /// answers as a duplicate (RFC 2883): then it answers the last one. Without that report the
    /// age is believed, within reason.
    fn age_of_answer(&self, n: &Notice, age: Duration, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.last_sent);
        let first = n.sack.as_slice().first();
        let duplicate = first.is_some_and(|&(_, right)| SeqNum(right).before_eq(n.ack));
        let most = if duplicate {
            since
        } else {
            since.max(self.rtt.base_rto().saturating_mul(2))
        };
        age.min(most)
    }

    /// RFC 9293 section 3.10.7.4: window updates in order.
    #[inline]
    fn update_window(&mut self, n: &Notice) {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# If SND.UNA =< SEG.ACK =< SND.NXT, the send window should be
        //# updated.  If (SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and
        //# SND.WL2 =< SEG.ACK)), set SND.WND <- SEG.WND, set SND.WL1 <-
        //# SEG.SEQ, and set SND.WL2 <- SEG.ACK.
        // (and, as Linux has it, when the acknowledgement is the newest: SND.WND counts from it)
        let newer = self.wl1.before(n.seq)
            || (self.wl1 == n.seq && self.wl2.before_eq(n.ack))
            || self.wl2.before(n.ack);
        if newer && n.ack.after_eq(self.una) {
            self.wnd = n.window.0 << u32::from(planted!(WindowScaledTwice));
            self.max_wnd = self.max_wnd.max(n.window.0);
            self.wl1 = n.seq;
            self.wl2 = n.ack;
            if self.wnd > 0 {
                self.probes = 0;
            }
        }
    }

    #[inline]
    fn tell_congestion(&mut self, news: &News, acked: &Acked, sample: &mut AckSample) {
        sample.acked = acked.bytes;
        sample.delivered = news.delivery.bytes();
        sample.lost = news.lost;
        sample.rate = self.sent.rate_sample(&news.delivery);
        sample.total_delivered = self.sent.rate().delivered();
        sample.flight = self.flight();
        self.ecn.on_ack(self.una);
        if news.n.ece {
            sample.ece = true;
            self.note_mark(sample.flight);
        }
        self.tell_control(sample);
    }

    /// The peer has seen a router's mark: slows down once in a window of data. A recovery, or a
    /// time-out, has done so already.
    fn note_mark(&mut self, flight: u32) {
        let open = self.recovery.is_none() && self.loss.is_none();
        if open && self.ecn.on_echo(self.una, self.max) {
            self.congestion.on_ecn(flight);
        }
    }

    /// A segment in order that tells this half nothing but how far the peer has got: the window it
    /// repeats is its latest. (Left alone, SND.WL1 would one day be 2^31 behind.)
    #[inline]
    pub(in crate::tcp) fn no_news(&mut self, seq: SeqNum, ack: SeqNum) {
        self.wl1 = seq;
        self.wl2 = ack;
    }
}
