//! The user time-out, and what both ends tell each other of it (RFC 5482): how long sent data may
//! stay without an answer. Off unless the application asks for it; a suggestion to the peer, who
//! need not follow.
//!
//! | RFC 5482 | here |
//! |---|---|
//! | USER_TIMEOUT | [`UserTimeouts::adopted`] |
//! | ADV_UTO, ENABLED | `advertised`; none: not enabled |
//! | CHANGEABLE | while the application has `set` none itself |
//! | REMOTE_UTO | `remote` |
//! | L_LIMIT, U_LIMIT | [`UserTimeoutConfig`] |

use core::num::NonZero;
use core::time::Duration;

use gannet_wire::tcp::{Options, UserTimeout};

use crate::config::UserTimeoutConfig;

/// What the application and the peer want.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UserTimeouts {
    /// What the application set, in milliseconds.
    set: Option<NonZero<u32>>,
    advertised: Option<UserTimeout>,
    remote: Option<UserTimeout>,
}

impl UserTimeouts {
    /// The application sets its own; the peer's then changes nothing.
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3
    //# If an application explicitly sets the USER_TIMEOUT, CHANGEABLE MUST become false in order to
    //# prevent UTO options (from the other end) from overriding local application requests.
    pub(super) fn set(&mut self, most: Option<Duration>) {
        let millis = |d: Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX);
        self.set = most.and_then(|most| NonZero::new(millis(most).max(1)));
    }

    /// The peer is to be told, and may tell us; none: neither.
    pub(super) fn advertise(&mut self, time: Option<Duration>) {
        self.advertised = time.and_then(UserTimeout::new);
    }

    /// What the peer is to be told.
    pub(super) fn advertised(&self) -> Option<UserTimeout> {
        self.advertised
    }

    /// What the peer said last.
    pub(super) fn remote(&self) -> Option<Duration> {
        self.remote.map(UserTimeout::duration)
    }

    /// A segment that belongs to the connection said so.
    pub(super) fn take(&mut self, options: &Options) {
        //= https://www.rfc-editor.org/rfc/rfc5482#section-3
        //# Flag that controls whether the UTO option is enabled for a connection. This flag applies
        //# to both sending and receiving.
        if self.advertised.is_some() {
            self.remote = options.user_timeout().or(self.remote);
        }
    }

    /// How long data may wait for an answer; none: as long as the retransmissions take. `rto`: the
    /// retransmission time-out now.
    pub(super) fn adopted(&self, limits: &UserTimeoutConfig, rto: Duration) -> Option<Duration> {
        if let Some(set) = self.set_by_application() {
            return Some(set);
        }
        //= https://www.rfc-editor.org/rfc/rfc5482#section-3.1
        //# Under the RECOMMENDED scheme, and when CHANGEABLE is true, each end SHOULD compute the
        //# local USER TIMEOUT for a connection according to this formula:
        let ours = self.advertised?.duration();
        let theirs = self.remote?.duration();
        //= https://www.rfc-editor.org/rfc/rfc5482#section-3.1
        //# Therefore, the lower limit (L_LIMIT) MUST be larger than the current retransmission
        //# timeout (RTO) for the connection.
        let least = limits.least.max(rto + Duration::from_secs(1));
        let most = limits.most.max(least);
        Some(ours.max(theirs).max(least).min(most))
    }

    /// The time that the application has set.
    pub(super) fn set_by_application(&self) -> Option<Duration> {
        self.set
            .map(|set| Duration::from_millis(u64::from(set.get())))
    }

    /// The least idle time before a keep-alive.
    //= https://www.rfc-editor.org/rfc/rfc5482#section-4.2
    //# Therefore, if a connection that enables keep-alives is also using the TCP User Timeout
    //# Option, then the keep-alive timer MUST be set to a value larger than that of the adopted
    //# USER TIMEOUT.
    pub(super) fn least_keep_alive(&self, limits: &UserTimeoutConfig) -> Duration {
        match self.advertised {
            Some(_) => self
                .adopted(limits, Duration::ZERO)
                .map_or(Duration::ZERO, |t| t + Duration::from_secs(1)),
            None => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;
