//! Congestion windows as the stack tells them: whoever finds a loss makes room (RFC 5681 section
//! 3.2, RFC 9438 section 4.6).

use gannet_stack::CongestionControl;
use gannet_stack::tcp::TcpInfo;

/// What is left of the window at most, of a thousand: 0.7 with CUBIC, less with all others.
const LEFT: u64 = 850;

/// What was seen of one connection's window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// The largest that was seen: a recovery that proves needless may bring it back at any time.
    largest: u64,
    acknowledged: u64,
    recoveries: u64,
    needless: u64,
}

impl Window {
    /// Looks at the connection again; what it did wrong since it was looked at last.
    pub fn look(&mut self, info: &TcpInfo) -> Option<String> {
        // (RFC 5681 halves what is in flight, and that may be more than the window)
        let bytes = info.congestion_window.max(info.in_flight);
        let before = core::mem::replace(
            self,
            Window {
                largest: self.largest.max(bytes.into()),
                acknowledged: info.bytes_acknowledged,
                recoveries: info.fast_recoveries,
                needless: info.spurious_recoveries,
            },
        );
        // a model of the path takes no notice of single losses; marks take away as little as may be
        // (RFC 8257), and a loss may be followed by one before anybody looks
        let other = info.congestion_control;
        let model = matches!(other, CongestionControl::Bbr | CongestionControl::Dctcp);
        let undone = info.spurious_recoveries != before.needless;
        if before.largest == 0 || info.fast_recoveries == before.recoveries || model || undone {
            return None;
        }
        // it may have grown by as much as was acknowledged meanwhile
        let grown = info.bytes_acknowledged.saturating_sub(before.acknowledged);
        let most = (before.largest + grown) * LEFT / 1000;
        let threshold = u64::from(info.slow_start_threshold);
        let least = u64::from(info.send_mss) * 4;
        (threshold > most.max(least)).then(|| {
            let window = before.largest;
            format!("a window of {window} bytes at most, and {threshold} left after a loss")
        })
    }
}
