//! What an end holds back although nothing stands in the way: windows that stay closed when
//! everything was read, small segments that wait for acknowledgements without being asked to.

use core::time::Duration;

use gannet_base::Instant;

use super::side::Side;
use crate::app::Ledger;
use crate::packet::Segment;

/// What is due at once is due after this.
const AT_ONCE: Duration = Duration::from_millis(20);

impl Side {
    /// Something is about to be handed to this end: whether it should have spoken before by itself.
    pub(super) fn should_have_spoken(
        &mut self,
        now: Instant,
        (ledger, paced): (&Ledger, bool),
        segment: &Segment<'_>,
    ) -> Option<String> {
        let place = self
            .place
            .or_else(|| ledger.place_of((segment.to, segment.from)));
        self.place = place;
        let (index, end) = place?;
        let conn = ledger.conns.get(index)?;
        let over = *conn.over.get(end)?;
        if over.is_some() || self.theirs.is_none() || self.peer_reset || self.reset {
            return None;
        }
        // RFC 9293 section 3.8.6.2.2: the window opens when it can by as much as counts
        let read = conn.received.get(end)? + 1 == self.acked;
        let since = now.saturating_duration_since(self.told_at.max(*conn.read_at.get(end)?));
        if self.closed && read && self.fin_handed.is_none() && since > AT_ONCE {
            return Some(format!(
                "everything was read {since:?} ago, and the window is closed"
            ));
        }
        // RFC 9293 (MUST-17): Nagle's algorithm can be switched off
        let written = conn.sent.get(end)? + 1;
        let since = now.saturating_duration_since(self.told_at.max(*conn.wrote_at.get(end)?));
        let small = written.saturating_sub(self.snd_una) <= u64::from(self.theirs?.mss?.min(500));
        let quiet = self.reported <= self.snd_una && !self.flights.values().any(|f| f.times > 1);
        let held = written > self.snd_max && written <= self.allowed && self.snd_una > 0;
        let wanted = *conn.no_delay.get(end)? && !paced;
        if held && small && wanted && since > AT_ONCE && quiet {
            return Some(format!(
                "{} bytes were held back for {since:?}",
                written - self.snd_max
            ));
        }
        None
    }
}
