//! What stays of an estimator while its connection rests.

use core::time::Duration;

use gannet_base::Instant;

use super::{RttEstimator, Smoothed, least::Least, nanos};

/// An estimator with its times in nanoseconds, `u64::MAX` for none.
#[derive(Debug)]
pub(in crate::tcp) struct RestingRtt {
    srtt: u64,
    rttvar: u64,
    base_rto: u64,
    latest: u64,
    least: (u64, u64),
    least_until: Instant,
    floor: u32,
    back_off: u8,
}

impl RttEstimator {
    /// What stays.
    pub(in crate::tcp) fn fold(self) -> RestingRtt {
        let RttEstimator {
            floor,
            smoothed,
            base_rto,
            back_off,
            least,
            latest,
        } = self;
        RestingRtt {
            srtt: smoothed.map_or(u64::MAX, |s| s.srtt),
            rttvar: smoothed.map_or(u64::MAX, |s| s.rttvar),
            base_rto: nanos(base_rto),
            latest: latest.map_or(u64::MAX, nanos),
            least: (nanos(least.before), nanos(least.now)),
            least_until: least.until,
            floor,
            back_off,
        }
    }
}

impl RestingRtt {
    pub(in crate::tcp) fn unfold(&self) -> RttEstimator {
        let time = |ns| match ns {
            u64::MAX => Duration::MAX,
            ns => Duration::from_nanos(ns),
        };
        let (srtt, rttvar) = (self.srtt, self.rttvar);
        RttEstimator {
            floor: self.floor,
            smoothed: (srtt != u64::MAX).then_some(Smoothed { srtt, rttvar }),
            base_rto: time(self.base_rto),
            back_off: self.back_off,
            least: Least {
                before: time(self.least.0),
                now: time(self.least.1),
                until: self.least_until,
            },
            latest: (self.latest != u64::MAX).then(|| time(self.latest)),
        }
    }
}
