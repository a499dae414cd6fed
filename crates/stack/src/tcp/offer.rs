//! What SYNs offer: what the peer's said, and what this host wants to hear and say.

use gannet_wire::tcp::Flags;

use super::handshake::MIN_MSS;
use super::segment::Segment;
use crate::config::TcpConfig;

/// RFC 9293 MUST-15: what a peer accepts that does not say.
const DEFAULT_MSS: u16 = 536;
/// The same over IPv6.
const DEFAULT_MSS_SIX: u16 = 1220;

/// What the peer's SYN offered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offer {
    pub(super) mss: Option<u16>,
    pub(super) scale: Option<u8>,
    pub(super) sack: bool,
    /// Its time stamp, to be echoed.
    pub(super) timestamp: Option<u32>,
    /// ECN: asked for in a SYN, agreed to in a SYN-ACK.
    pub(super) ecn: bool,
    /// In a SYN to a listener that takes data in SYNs: it is worth a Fast Open cookie.
    pub(super) fast_open: bool,
}

impl Offer {
    //= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
    //# A Window Scale option in a segment without a SYN bit MUST be ignored.
    pub(super) fn of(syn: &Segment) -> Self {
        let options = &syn.options;
        Offer {
            mss: options.mss,
            scale: options.window_scale,
            sack: options.sack_permitted,
            timestamp: syn.timestamps.map(|(value, _)| value),
            ecn: match syn.has_ack() {
                false => syn.flags.contains(Flags::ECE | Flags::CWR),
                // both bits: a host that repeats what it does not understand
                true => syn.flags.contains(Flags::ECE) && !syn.flags.contains(Flags::CWR),
            },
            fast_open: false,
        }
    }

    /// Without what this host does not do.
    pub(super) fn only(mut self, wanted: Wanted) -> Self {
        self.scale = self.scale.filter(|_| wanted.scale);
        self.sack &= wanted.sack;
        self.timestamp = self.timestamp.filter(|_| wanted.timestamps);
        self
    }

    /// What the peer accepts, as far as it is believed.
    pub(super) fn mss(&self, six: bool) -> u16 {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
        //# If an MSS Option is not received at connection setup, TCP implementations MUST assume a
        //# default send MSS of 536 (576 - 40) for IPv4 or 1220 (1280 - 60) for IPv6 (MUST-15).
        let default = if six { DEFAULT_MSS_SIX } else { DEFAULT_MSS };
        self.mss.unwrap_or(default).max(MIN_MSS)
    }
}

/// The options that this host offers, and agrees to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) scale: bool,
    pub(super) sack: bool,
    pub(super) timestamps: bool,
}

impl Wanted {
    pub(super) fn of(config: &TcpConfig) -> Self {
        Wanted {
            scale: config.window_scaling,
            sack: config.sack,
            timestamps: config.timestamps,
        }
    }
}

/// Whether a SYN has an option: what we want, or, in an `answer`, what was `asked` for. What is not
/// wanted has not been heard (see [`Offer::only`]).
pub(super) fn says(answer: bool, wanted: bool, asked: bool) -> bool {
    if answer { asked } else { wanted }
}
