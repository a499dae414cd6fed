//! Controlled delay (RFC 8289): when a standing queue should be told to shrink.

use core::time::Duration;

use gannet_base::Instant;

use super::model::Codel;

/// A queue of fewer bytes is never too long: one full frame.
const ONE_FRAME: u64 = 1514;

/// RFC 8289's control law. It is asked for every frame that leaves the queue.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// When the waiting time will have been above the target for a whole interval.
    first_above: Option<Instant>,
    dropping: bool,
    /// When the next frame is to be struck.
    next: Instant,
    count: u32,
    last_count: u32,
}

impl Control {
    /// Whether a frame that leaves at `now` after waiting for `waited`, with `backlog` bytes
    /// behind it, is to be marked or dropped.
    pub fn strikes(&mut self, codel: Codel, now: Instant, waited: Duration, backlog: u64) -> bool {
        if waited < codel.target || backlog <= ONE_FRAME {
            (self.first_above, self.dropping) = (None, false);
            return false;
        }
        let above = *self.first_above.get_or_insert(now + codel.interval);
        if now < above {
            return false;
        }
        if self.dropping {
            if now < self.next {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.next += spacing(codel, self.count);
            return true;
        }
        self.dropping = true;
        // A recent episode of dropping had found the rate: go on from there.
        let recent = now - self.next < codel.interval.saturating_mul(16);
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.last_count = self.count;
        self.next = now + spacing(codel, self.count);
        true
    }
}

/// `interval / sqrt(count)`.
fn spacing(codel: Codel, count: u32) -> Duration {
    codel.interval.div_f64(f64::from(count.max(1)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_queue_is_struck_ever_more_often_and_a_short_one_never() {
        let codel = Codel::default();
        let strikes = |waited: u64| {
            let mut control = Control::default();
            let waited = Duration::from_millis(waited);
            let struck = (0..1000_u64)
                .filter(|&ms| control.strikes(codel, Instant::from_millis(ms), waited, 100_000));
            struck.collect::<Vec<u64>>()
        };
        assert!(strikes(4).is_empty());
        let struck = strikes(6);
        assert_eq!(struck.first(), Some(&100));
        let gaps: Vec<u64> = struck.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(gaps.first(), Some(&100));
        assert!(gaps.len() > 10 && gaps.last() < Some(&30), "{gaps:?}");
    }
}
