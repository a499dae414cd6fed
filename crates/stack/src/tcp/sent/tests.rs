//! The records against a model that knows every octet by itself.
extern crate std;

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::{Instant, Rng};

use super::super::rack::Latest;
use super::*;

const S: fn(u32) -> SeqNum = SeqNum;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn news(ms: u64, fack: SeqNum) -> Delivery {
    Delivery::new(at(ms), Duration::from_millis(1), None, fack)
}

/// One octet.
#[derive(Clone, Copy, Default)]
struct Octet {
    sent: Instant,
    sacked: bool,
    lost: bool,
    resent: bool,
}

/// All octets that were ever sent, from `una` on those that count.
struct Twin {
    octets: Vec<Octet>,
    una: usize,
}

impl Twin {
    fn max(&self) -> usize {
        self.octets.len()
    }

    fn count(&self, what: impl Fn(&Octet) -> bool) -> u32 {
        self.octets[self.una..].iter().filter(|o| what(o)).count() as u32
    }

    fn send(&mut self, start: usize, end: usize, now: Instant) {
        for n in start..end {
            if n == self.octets.len() {
                self.octets.push(Octet::default());
                self.octets[n].sent = now;
            } else if !self.octets[n].sacked {
                let octet = &mut self.octets[n];
                (octet.sent, octet.lost, octet.resent) = (now, false, true);
            }
        }
    }

    /// RACK_detect_loss, octet by octet.
    fn detect(&mut self, w: &Waiting, base: SeqNum) -> (u32, Option<Duration>) {
        let rack_end = (w.rack.end - base) as usize;
        let (mut lost, mut wait) = (0, None::<Duration>);
        for n in self.una..self.max() {
            let o = &mut self.octets[n];
            let earlier = match o.sent.cmp(&w.rack.at) {
                core::cmp::Ordering::Less => true,
                core::cmp::Ordering::Equal => n < rack_end && (!o.resent || w.rack.resent),
                core::cmp::Ordering::Greater => false,
            };
            if o.sacked || o.lost || !earlier {
                continue;
            }
            match w.time.saturating_sub(w.now - o.sent) {
                Duration::ZERO => {
                    o.lost = true;
                    lost += 1;
                }
                rest => wait = Some(wait.map_or(rest, |w| w.min(rest))),
            }
        }
        (lost, wait)
    }

    fn next_lost(&self) -> Option<usize> {
        (self.una..self.max()).find(|&n| self.octets[n].lost)
    }
}

struct Both {
    sent: Sent,
    twin: Twin,
    base: SeqNum,
    ms: u64,
    fack: SeqNum,
    rack: Option<Latest>,
    /// How often what was asked for was forgotten, and how often everything.
    forgot: [u32; 2],
}

impl Both {
    fn new(base: u32) -> Self {
        Both {
            sent: Sent::new(S(base)),
            twin: Twin {
                octets: Vec::new(),
                una: 0,
            },
            base: S(base),
            ms: 1,
            fack: S(base),
            rack: None,
            forgot: [0; 2],
        }
    }

    fn seq(&self, n: usize) -> SeqNum {
        self.base + n as u32
    }

    fn push(&mut self, len: usize) {
        let max = self.twin.max();
        let (start, end) = (self.seq(max), self.seq(max + len));
        self.sent.push(start, end, at(self.ms), 0);
        self.twin.send(max, max + len, at(self.ms));
    }

    fn resend(&mut self, start: usize, end: usize) {
        let (from, to) = (self.seq(start), self.seq(end));
        self.sent.on_retransmit(from, to, at(self.ms), 0);
        self.twin.send(start, end, at(self.ms));
    }

    fn delivered(&mut self, delivery: &Delivery, expected: u32) {
        assert_eq!(delivery.bytes(), expected);
        self.fack = delivery.fack();
        if let Some(new) = delivery.rack() {
            let newer = self
                .rack
                .is_none_or(|old| sent_after((new.at, new.end), (old.at, old.end)));
            if newer {
                self.rack = Some(new);
            }
        }
    }

    fn acknowledge(&mut self, to: usize) {
        let una = self.twin.una;
        let new = self.twin.octets[una..to].iter().filter(|o| !o.sacked);
        let new = new.count() as u32;
        self.twin.una = to;
        let mut delivery = news(self.ms, self.fack);
        self.sent.acknowledge(self.seq(to), &mut delivery);
        self.delivered(&delivery, new);
        if to < self.twin.max() && self.twin.octets[to].sacked {
            assert!(self.sent.reneged());
            self.forget();
        }
        assert!(!self.sent.reneged());
    }

    fn forget(&mut self) {
        let una = self.twin.una;
        if self.ms.is_multiple_of(2) {
            self.sent.progress = 0; // as after many records
        }
        let all = self.sent.forget_sacked(self.seq(una));
        self.forgot[usize::from(all)] += 1;
        // what told the time may be outstanding again: no tie to break
        self.rack = None;
        let mut first = true;
        for o in &mut self.twin.octets[una..] {
            first &= o.sacked;
            if o.sacked && (first || all) {
                (o.sacked, o.resent, o.lost) = (false, true, first);
            }
        }
        // times of runs are those of their first octet: the model takes them over
        for r in &self.sent.records {
            let from = (r.start - self.base) as usize;
            for o in &mut self.twin.octets[from..from + r.len() as usize] {
                o.sent = r.sent_at;
            }
        }
    }

    fn sack(&mut self, start: usize, end: usize) {
        let new = self.twin.octets[start..end].iter().filter(|o| !o.sacked);
        let new = new.count() as u32;
        for o in &mut self.twin.octets[start..end] {
            (o.sacked, o.lost) = (true, false);
        }
        let mut delivery = news(self.ms, self.fack);
        let block = (self.seq(start), self.seq(end));
        self.sent.expect_blocks(1);
        self.sent.sack(block, &mut delivery);
        self.delivered(&delivery, new);
    }

    fn detect(&mut self, time: u64) {
        let Some(rack) = self.rack else { return };
        let w = Waiting {
            rack,
            time: Duration::from_millis(time),
            now: at(self.ms),
        };
        let found = self.sent.detect(&w);
        let (lost, wait) = self.twin.detect(&w, self.base);
        assert_eq!(
            (found.lost, found.wait),
            (lost, wait),
            "{w:?} {:?}",
            self.sent
        );
    }

    fn check(&mut self) {
        let t = &self.twin;
        let (una, max) = (self.seq(t.una), self.seq(t.max()));
        self.sent.invariants(una, max);
        assert_eq!(self.sent.sacked(), t.count(|o| o.sacked));
        assert_eq!(self.sent.lost(), t.count(|o| o.lost));
        let next = self.sent.next_lost().map(|(seq, _)| seq);
        assert_eq!(next, t.next_lost().map(|n| self.seq(n)));
    }
}

/// A random life of records, compared after every step.
//= https://www.rfc-editor.org/rfc/rfc6675#section-4
//= type=test
//# This routine traverses the sequence space from HighACK to HighData and MUST set the "pipe"
//# variable to an estimate of the number of octets that are currently in transit between the TCP
//# sender and the TCP receiver.
#[test]
fn twin_octet_by_octet() {
    let mut forgot = [0; 2];
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut b = Both::new(rng.next_u32());
        std::println!("seed {seed}");
        for _ in 0..200 {
            let (una, max) = (b.twin.una, b.twin.max());
            let flight = (max - una) as u64;
            b.ms += 1 + rng.below(2);
            match rng.below(12) {
                0..=2 if flight < 150 => {
                    b.push(1 + rng.below(30) as usize);
                    b.push(1 + rng.below(10) as usize);
                }
                3 => b.acknowledge(una + rng.below(flight + 1) as usize / 2),
                4 => b.acknowledge(max.min(una + rng.below(4) as usize)),
                5..=7 if flight > 1 => {
                    let start = una + 1 + rng.below(flight - 1) as usize;
                    let len = 1 + rng.below((max - start) as u64) as usize;
                    b.sack(start, start + len.min(1 + rng.below(20) as usize));
                }
                8 => b.detect(rng.below(6)),
                9 | 10 => {
                    if let Some((start, len)) = b.sent.next_lost() {
                        let start = (start - b.base) as usize;
                        b.resend(start, start + 1 + rng.below(u64::from(len)) as usize);
                    } else if flight > 0 {
                        // a probe, or what goes back after a time-out
                        let start = una + rng.below(flight) as usize;
                        b.resend(start, max.min(start + 10));
                    }
                }
                11 if rng.chance(200_000) => {
                    b.sent.forgive();
                    b.twin.octets.iter_mut().for_each(|o| o.lost = false);
                }
                _ => {}
            }
            b.check();
        }
        forgot = [0, 1].map(|n| forgot[n] + b.forgot[n]);
    }
    assert!(forgot.iter().all(|&n| n > 10), "both ways: {forgot:?}");
}

/// RFC 6675 section 3, HighData and the scoreboard: blocks in any order melt into runs.
#[test]
fn runs_melt() {
    type Row = (&'static [(usize, usize)], u32, u32);
    let rows: &[Row] = &[
        (&[(200, 210)], 10, 1),
        (&[(200, 210), (200, 210)], 10, 1),
        (&[(200, 210), (210, 220)], 20, 1),
        (&[(210, 220), (200, 210)], 20, 1),
        (&[(200, 210), (220, 230), (205, 225)], 30, 1),
        (&[(200, 210), (220, 230), (240, 250), (150, 300)], 150, 1),
        (&[(300, 310), (200, 210), (250, 260)], 30, 3),
    ];
    for (blocks, octets, runs) in rows {
        let mut b = Both::new(u32::MAX - 220);
        b.push(1000);
        for &(start, end) in *blocks {
            b.sack(start, end);
            b.check();
        }
        assert_eq!(
            (b.sent.sacked(), b.sent.runs()),
            (*octets, *runs),
            "{blocks:?}"
        );
    }
}

/// What leaves at one instant is one record; an idle connection holds next to nothing.
#[test]
fn records_are_few() {
    let mut b = Both::new(7);
    for _ in 0..50 {
        b.push(1000);
    }
    assert_eq!(b.sent.records.len(), 1);
    for _ in 0..5000 {
        b.ms += 1;
        b.push(1);
    }
    assert_eq!(b.sent.records.len(), MAX_RECORDS, "no more than that");
    b.check();
    b.acknowledge(b.twin.max());
    assert!(b.sent.records.capacity() <= KEPT);
}

/// A thousand holes: cutting goes on up to the limit, and what is beyond is ignored and counted.
#[test]
fn holes_are_bounded() {
    let mut b = Both::new(7);
    b.push(50_000);
    let mut delivery = news(2, b.fack);
    for n in 0..10_000u32 {
        let start = b.base + 1 + 5 * n;
        b.sent.sack((start, start + 1), &mut delivery);
    }
    assert!(b.sent.ignored() > 0);
    assert!(b.sent.records.len() <= 2 * MAX_RECORDS);
    b.sent.invariants(b.base, b.base + 50_000);
    assert_eq!(b.sent.sacked() + b.sent.ignored(), 10_000);
}

/// An attacker reports every fourth octet of a short flight, at random: there are not many records,
/// and few of them move for one acknowledgement.
#[test]
fn mark_t6_random_blocks_cut_little() {
    let mut rng = Rng::new(5);
    let mut b = Both::new(7);
    b.push(100_000);
    for _ in 0..5000 {
        let mut delivery = news(2, b.fack);
        b.sent.expect_blocks(69);
        for _ in 0..4 {
            let start = b.base + 1 + rng.below(99_000) as u32;
            b.sent.sack((start, start + 1), &mut delivery);
        }
        assert!(b.sent.records.len() <= 512 + 4 * 69);
        assert!(usize::from(b.sent.moved) <= usize::from(MOVES) + b.sent.records.len());
    }
    b.sent.invariants(b.base, b.base + 100_000);
    assert!(b.sent.ignored() > 0);
    // what needs no cut is believed all the same
    let mut delivery = news(2, b.fack);
    let first = b.sent.records[0];
    let end = b.base + 100_000;
    b.sent.sack((first.end, end), &mut delivery);
    assert_eq!((b.sent.runs(), b.sent.sacked()), (1, end - first.end));
}

/// A thousand holes that an honest peer reports, one with each acknowledgement: all are believed.
#[test]
fn a_thousand_true_holes() {
    const SEGMENT: u32 = 1448;
    let mut b = Both::new(7);
    b.push(2002 * SEGMENT as usize);
    for n in 0..1000 {
        let mut delivery = news(2, b.fack);
        b.sent.expect_blocks(2002);
        for k in 0..4.min(n + 1) {
            let start = b.base + (2 * (n - k) + 1) * SEGMENT;
            b.sent.sack((start, start + SEGMENT), &mut delivery);
        }
    }
    assert_eq!((b.sent.ignored(), b.sent.runs()), (0, 1000));
}

/// A peer that takes back what it reported with every other acknowledgement makes us look at
/// everything rarely; what it asks for is lost every time.
#[test]
fn mark_t6_reneging_again_and_again() {
    let mut b = Both::new(7);
    b.push(20_000);
    let mut delivery = news(2, b.fack);
    for n in 0..1000 {
        let start = b.base + 5000 + 4 * n;
        b.sent.expect_blocks(1000);
        b.sent.sack((start, start + 1), &mut delivery);
    }
    assert_eq!(b.sent.runs(), 1000);
    let mut all = 0;
    for n in 0..500 {
        let una = b.base + 2 * n;
        b.sent.acknowledge(una, &mut delivery);
        b.sent.expect_blocks(1000);
        b.sent.sack((una + 1, una + 4), &mut delivery);
        b.sent.acknowledge(una + 2, &mut delivery);
        assert!(b.sent.reneged());
        all += u32::from(b.sent.forget_sacked(una + 2));
        b.sent.invariants(una + 2, b.base + 20_000);
        assert_eq!(b.sent.next_lost().map(|l| l.0), Some(una + 2));
        b.sent.on_retransmit(una + 2, una + 4, at(3), 100);
    }
    assert!(
        all <= 1000 / (2000 / FORGOTTEN_FOR_EACH as u32) + 1,
        "{all}"
    );
}

/// RFC 8985 section 6.2 step 2: what must not be believed.
//= https://www.rfc-editor.org/rfc/rfc8985#section-4
//= type=test
//# For each data segment sent, the sender MUST store its most recent transmission time with a
//# timestamp whose granularity is finer than 1/4 of the minimum RTT of the connection.
#[test]
fn rfc_8985_step_2_spurious_retransmissions_are_ignored() {
    // milliseconds: sent again, acknowledged, echo; and whether RACK believes it
    let rows = [
        (50, 70, None, true),
        (50, 59, None, false),     // sooner than any round trip
        (50, 70, Some(49), false), // the answer to the original
        (50, 70, Some(50), true),
    ];
    for (resent, acked, echo, believed) in rows {
        let mut sent = Sent::new(S(0));
        sent.push(S(0), S(10), at(10), 10);
        sent.on_retransmit(S(0), S(10), at(resent), 10);
        let least = Duration::from_millis(10);
        let mut delivery = Delivery::new(at(acked), least, echo, S(0));
        sent.acknowledge(S(10), &mut delivery);
        assert_eq!(
            delivery.rack().is_some(),
            believed,
            "{resent} {acked} {echo:?}"
        );
        assert_eq!(delivery.rtt(), None, "Karn");
        assert_eq!(delivery.latest_rtt(), None, "Karn");
    }
}

/// RFC 8985 section 6.2 step 3.
#[test]
fn rfc_8985_step_3_reordering() {
    let mut sent = Sent::new(S(0));
    for n in 0..5 {
        sent.push(S(n * 10), S(n * 10 + 10), at(u64::from(n)), 10);
    }
    let mut delivery = news(50, S(0));
    sent.sack((S(20), S(30)), &mut delivery);
    assert!(!delivery.reordered() && delivery.fack() == S(30));
    // one that was sent again says nothing
    sent.on_retransmit(S(0), S(10), at(51), 10);
    let mut delivery = news(90, S(30));
    sent.acknowledge(S(10), &mut delivery);
    assert!(!delivery.reordered());
    let mut delivery = news(90, S(30));
    sent.acknowledge(S(20), &mut delivery);
    assert!(
        delivery.reordered(),
        "the second overtook nobody, the third overtook it"
    );
}

/// Draft BBR section 4.1: 10 packets of 100 octets, one each millisecond, acknowledged as they
/// came 20 ms later: 100 octets a millisecond, whatever the round trip.
#[test]
fn delivery_rate() {
    let mut sent = Sent::new(S(0));
    let mut samples = vec![];
    for ms in 0..60u32 {
        if ms >= 20 {
            let mut delivery = news(u64::from(ms), S(0));
            sent.acknowledge(S((ms - 19) * 100), &mut delivery);
            samples.extend(sent.rate_sample(&delivery));
        }
        sent.push(S(ms * 100), S(ms * 100 + 100), at(u64::from(ms)), 2000);
    }
    let steady = &samples[25..];
    assert!(steady.len() >= 10);
    for s in steady {
        assert_eq!(s.bytes_per_second(), 100_000, "{s:?}");
        assert_eq!(s.delivered, 2000, "a flight");
        assert!(!s.app_limited);
    }
    // the application pauses: what leaves next is marked, until it is delivered
    sent.starve(100);
    sent.push(S(6000), S(6100), at(60), 100);
    let mut delivery = news(80, S(0));
    sent.acknowledge(S(6100), &mut delivery);
    assert!(sent.rate_sample(&delivery).expect("one").app_limited);
}

/// Draft BBR section 4.1.2.3: what answers sooner than any round trip answers the original.
#[test]
fn an_early_answer_is_no_sample() {
    for (answered, sampled) in [(55, false), (75, true)] {
        let mut sent = Sent::new(S(0));
        sent.push(S(0), S(100), at(1), 100);
        sent.on_retransmit(S(0), S(100), at(50), 100);
        let least = Duration::from_millis(20);
        let mut delivery = Delivery::new(at(answered), least, None, S(0));
        sent.acknowledge(S(100), &mut delivery);
        let sample = sent.rate_sample(&delivery);
        assert_eq!(sample.is_some(), sampled, "{answered}");
        // nothing else was on its way: the time before says nothing
        if let Some(sample) = sample {
            assert_eq!(sample.interval, Duration::from_millis(25));
        }
    }
}

/// Draft BBR section 5.5.10.2: ranges, and what was lost since the segment left.
#[test]
fn what_is_lost_is_told_in_ranges() {
    let mut sent = Sent::new(S(0));
    for n in 0..10u32 {
        sent.push(
            S(n * 100),
            S(n * 100 + 100),
            at(u64::from(n)),
            n * 100 + 100,
        );
    }
    let mut delivery = news(30, S(0));
    for n in [2, 5, 9] {
        sent.sack((S(n * 100), S(n * 100 + 100)), &mut delivery);
    }
    let waiting = Waiting {
        rack: Latest {
            at: at(9),
            end: S(1000),
            rtt: Duration::from_millis(21),
            resent: false,
        },
        time: Duration::ZERO,
        now: at(30),
    };
    let found = sent.detect(&waiting);
    assert_eq!((found.lost, found.what.ranges), (700, 3));
    let last = (found.what.len, found.what.tx_in_flight, found.what.since);
    assert_eq!(last, (100, 900, 700));
}
