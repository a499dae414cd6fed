//! The formula of RFC 5482 section 3.1.

use core::time::Duration;

use gannet_wire::tcp::{Options, UserTimeout};

use super::UserTimeouts;
use crate::config::UserTimeoutConfig;

const LIMITS: UserTimeoutConfig = UserTimeoutConfig {
    least: Duration::from_secs(100),
    most: Duration::from_secs(1000),
};

fn seconds(n: u64) -> Option<Duration> {
    Some(Duration::from_secs(n))
}

fn said(n: u64) -> Options {
    let mut options = Options::NONE;
    options.set_user_timeout(UserTimeout::new(Duration::from_secs(n)).expect("not 0"));
    options
}

/// (set by the application, advertised, told by the peer, adopted)
#[test]
fn the_larger_of_both_within_the_limits() {
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3.1
    //= type=test
    //# Under the RECOMMENDED scheme, and when CHANGEABLE is true, each end SHOULD compute the
    //# local USER TIMEOUT for a connection according to this formula:
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3.1
    //= type=test
    //# If the CHANGEABLE flag is false, USER_TIMEOUT MUST NOT be changed, regardless of the
    //# received UTO option.
    for (set, advertised, told, adopted) in [
        (None, None, None, None),
        (None, None, Some(300), None), // not enabled
        (None, Some(300), None, None),
        (None, Some(300), Some(200), Some(300)),
        (None, Some(200), Some(300), Some(300)),
        (None, Some(5), Some(7), Some(100)),
        (None, Some(5), Some(32_767 * 60), Some(1000)),
        (Some(20), Some(300), Some(400), Some(20)),
        (Some(20), None, Some(400), Some(20)),
    ] {
        let mut t = UserTimeouts::default();
        t.set(set.and_then(seconds));
        t.advertise(advertised.and_then(seconds));
        if let Some(told) = told {
            t.take(&said(told));
        }
        let got = t.adopted(&LIMITS, Duration::from_secs(1));
        assert_eq!(
            got,
            adopted.and_then(seconds),
            "{set:?} {advertised:?} {told:?}"
        );
    }
}

/// RFC 5482 section 3.1: never less than a retransmission takes, whatever the limits.
#[test]
fn longer_than_the_retransmission_timeout() {
    let mut t = UserTimeouts::default();
    t.advertise(seconds(1));
    t.take(&said(1));
    let limits = UserTimeoutConfig {
        least: Duration::ZERO,
        most: Duration::from_secs(10),
    };
    let got = t.adopted(&limits, Duration::from_secs(60));
    assert!(got > seconds(60), "{got:?}");
}

#[test]
fn a_later_option_counts_and_none_changes_nothing() {
    let mut t = UserTimeouts::default();
    t.advertise(seconds(1));
    t.take(&said(200));
    t.take(&said(150));
    t.take(&Options::NONE);
    assert_eq!(t.adopted(&LIMITS, Duration::ZERO), seconds(150));
    assert_eq!(t.least_keep_alive(&LIMITS), Duration::from_secs(151));
    t.set(seconds(0));
    let soon = t.adopted(&LIMITS, Duration::ZERO);
    assert_eq!(soon, Some(Duration::from_millis(1)));
}
