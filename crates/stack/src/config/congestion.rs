//! How a connection shares the network: its congestion control, its use of ECN, pacing.

use core::fmt;
use core::str::FromStr;

/// A congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CongestionControl {
    /// RFC 9438, with HyStart++ (RFC 9406): the window grows with time since the last loss, which
    /// fills long fat paths; as fair as Reno on short ones.
    #[default]
    Cubic,
    /// RFC 5681 and 6582: a segment more per round trip, half of it on loss.
    NewReno,
    /// RFC 8257, for data centres whose switches mark early: shrinks by as much as was marked. Asks
    /// for ECN by itself, unless that is off.
    Dctcp,
    /// draft-ietf-ccwg-bbr (BBRv3): sends at the rate that the path was seen to deliver, whatever
    /// is lost at random, and keeps queues short. Always paced. Experimental, as the draft is.
    Bbr,
}

impl CongestionControl {
    /// Every control.
    pub const ALL: [CongestionControl; 4] = [
        CongestionControl::Cubic,
        CongestionControl::NewReno,
        CongestionControl::Dctcp,
        CongestionControl::Bbr,
    ];

    /// Its name, as the kernel calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CongestionControl::Cubic => "cubic",
            CongestionControl::NewReno => "reno",
            CongestionControl::Dctcp => "dctcp",
            CongestionControl::Bbr => "bbr",
        }
    }

    /// Whether it decides by a rate and therefore always sends at one.
    #[must_use]
    pub const fn needs_pacing(self) -> bool {
        matches!(self, CongestionControl::Bbr)
    }

    /// Whether it works with marks (RFC 8257) and therefore asks for ECN by itself.
    #[must_use]
    pub const fn needs_ecn(self) -> bool {
        matches!(self, CongestionControl::Dctcp)
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No congestion control has that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCongestionControl;

impl fmt::Display for UnknownCongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no congestion control has that name; there are ")?;
        for (n, control) in CongestionControl::ALL.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            write!(f, "{comma}{control}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownCongestionControl {}

impl FromStr for CongestionControl {
    type Err = UnknownCongestionControl;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name == "newreno" {
            return Ok(CongestionControl::NewReno);
        }
        let mut all = CongestionControl::ALL.into_iter();
        all.find(|c| c.name() == name)
            .ok_or(UnknownCongestionControl)
    }
}

/// Whether connections use explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Never.
    Off,
    /// When the peer asks (the kernel's default too: `tcp_ecn=2`).
    #[default]
    Passive,
    /// Our SYNs ask as well. One that gets no answer is repeated without asking: there are boxes
    /// that swallow such SYNs.
    Active,
}

/// Whether a connection spreads what it sends over the round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// As fast as the windows allow: the least work, and what data centres and channels want.
    #[default]
    Off,
    /// At a rate: the window in half a round trip while it is found, 1.2 windows in each later, at
    /// most about a millisecond's worth at once. For paths with short queues.
    On,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_there_and_back() {
        for control in CongestionControl::ALL {
            assert_eq!(control.to_string().parse(), Ok(control));
        }
        assert_eq!("newreno".parse(), Ok(CongestionControl::NewReno));
        assert_eq!(
            "vegas".parse::<CongestionControl>(),
            Err(UnknownCongestionControl)
        );
        let all = UnknownCongestionControl.to_string();
        assert!(all.ends_with("there are cubic, reno, dctcp, bbr"), "{all}");
    }
}
