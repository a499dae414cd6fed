//! Explicit congestion notification (RFC 3168): routers mark instead of dropping, the receiver
//! tells the sender, which slows down as if something had been lost.
//!
//! ```text
//!   SYN  ECE+CWR  ------------>      may we?
//!   SYN-ACK  ECE  <------------      we may: both set ECT(0) on new data from now on
//!   data ECT(0) --- CE ------->      a router marks it
//!   ACK      ECE  <------------      on every segment, until
//!   data     CWR  ------------>      the sender says that it has slowed down
//! ```
//! With DCTCP (RFC 8257) ECE tells of each segment whether it was marked, and CWR means nothing.
//! Each half of a connection has its own part; neither knows the other.

use super::seq::SeqNum;
/// The ECN field of the type of service (RFC 3168 section 5).
const ECN_MASK: u8 = 0b11;
/// ECN-capable transport.
//= https://www.rfc-editor.org/rfc/rfc3168#section-5
//# Protocols and senders that only require a single ECT codepoint SHOULD use ECT(0).
const ECT_0: u8 = 0b10;
/// Congestion experienced.
const CE: u8 = 0b11;

/// Whether a router marked the packet with this type of service (or traffic class).
#[inline]
pub(super) fn is_marked(tos: u8) -> bool {
    tos & ECN_MASK == CE
}

/// The sending half's part.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.2
//# A TCP endpoint SHOULD implement ECN as described in RFC 3168 (SHLD-8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EcnSender {
    /// Both sides agreed.
    on: bool,
    /// Every segment is marked ECT, not only new data (DCTCP).
    all: bool,
    /// The next new data says that the window was reduced.
    cwr: bool,
    /// `max` at the last reduction: marks of segments before it were answered by that one. The
    /// first segment behind it bears CWR: a peer that has not acknowledged more has not heard of
    /// the answer, and still repeats the echo.
    reduced: Option<SeqNum>,
}

impl EcnSender {
    /// After the handshake. `all`: mark everything (DCTCP).
    pub(super) fn new(on: bool, all: bool) -> Self {
        EcnSender {
            on,
            all,
            ..EcnSender::default()
        }
    }

    /// Both sides agreed to use ECN.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Another control took over: whether everything is marked.
    pub(super) fn mark_all(&mut self, all: bool) {
        self.all = all;
    }

    /// What new data has in the ECN field.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.1
    //# A host MUST NOT set ECT on data packets unless it has sent at least one ECN-setup SYN or
    //# ECN-setup SYN-ACK packet, and has received at least one ECN-setup SYN or ECN-setup SYN-ACK
    //# packet, and has sent no non-ECN-setup SYN or non-ECN-setup SYN-ACK packet.
    #[inline]
    pub(super) fn data_mark(&self) -> u8 {
        if self.on { ECT_0 } else { 0 }
    }

    /// What everything else has in it: acknowledgements, probes, retransmissions.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.4
    //# For the current generation of TCP congestion control algorithms, pure acknowledgement
    //# packets (e.g., packets that do not contain any accompanying data) MUST be sent with the
    //# not-ECT codepoint.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.5
    //# This document specifies ECN-capable TCP implementations MUST NOT set either ECT codepoint
    //# (ECT(0) or ECT(1)) in the IP header for retransmitted data packets, and that the TCP data
    //# receiver SHOULD ignore the ECN field on arriving data packets that are outside of the
    //# receiver's current window.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.6
    //# Therefore, the TCP data sender MUST NOT set either an ECT codepoint or the CWR bit on
    //# window probe packets.
    #[inline]
    pub(super) fn other_mark(&self) -> u8 {
        if self.on && self.all { ECT_0 } else { 0 }
    }

    //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
    //# TCP should not react to congestion indications more than once every window of data (or
    //# more loosely, more than once every round-trip time).
    /// What a segment of data has in it. `new`: it was never sent before.
    #[inline]
    pub(super) fn mark(&self, new: bool) -> u8 {
        if new {
            self.data_mark()
        } else {
            self.other_mark()
        }
    }

    /// An acknowledgement with ECE of everything before `una`; `max`: behind the last byte sent.
    /// Whether the window is to be reduced.
    pub(super) fn on_echo(&mut self, una: SeqNum, max: SeqNum) -> bool {
        if !self.on || self.reduced.is_some_and(|point| !una.after(point)) {
            return false;
        }
        self.on_reduction(max);
        true
    }

    /// The window was reduced, for whatever reason.
    pub(super) fn on_reduction(&mut self, max: SeqNum) {
        if self.on {
            self.cwr = true;
            self.reduced = Some(max);
        }
    }

    /// The point behind which marks count again was reached: forgotten, before numbers wrap.
    #[inline]
    pub(super) fn on_ack(&mut self, una: SeqNum) {
        if self.reduced.is_some_and(|point| una.after(point)) {
            self.reduced = None;
        }
    }

    /// CWR is due with the next new data.
    #[inline]
    pub(super) fn owes_cwr(&self) -> bool {
        self.cwr
    }

    /// CWR has left.
    pub(super) fn cwr_sent(&mut self) {
        self.cwr = false;
    }
}

/// The receiving half's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EcnReceiver {
    on: bool,
    /// RFC 8257: ECE follows the marks one by one.
    exact: bool,
    /// ECE is set in what leaves.
    echo: bool,
}

/// What an arriving segment changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    /// Nothing that hurries.
    Same,
    /// ECE begins, or the peer should hear at once.
    Hurry,
    /// As `Hurry`, and what is unacknowledged so far is to be acknowledged first, as it was.
    Split,
}

impl EcnReceiver {
    /// After the handshake.
    pub(super) fn new(on: bool, exact: bool) -> Self {
        EcnReceiver {
            on,
            exact,
            echo: false,
        }
    }

    /// Another control took over.
    pub(super) fn follow_exactly(&mut self, exact: bool) {
        self.exact = exact;
    }

    /// Whether ECE is set in what leaves.
    #[inline]
    pub(super) fn echoes(&self) -> bool {
        self.echo
    }

    /// What the segment would change; see [`EcnReceiver::take`]. `ce`: it was marked; `cwr`: the
    /// peer has slowed down; `text`: it has payload.
    //= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
    //# When sending an ACK, the ECE flag MUST be set if and only if DCTCP.CE is true.
    //= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
    //# When receiving packets, the CE codepoint MUST be processed as follows:
    pub(super) fn look(&self, ce: bool, text: bool) -> Echo {
        if !self.on || !text {
            return Echo::Same;
        }
        match (self.exact, ce, self.echo) {
            //= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
            //# If the CE codepoint is set and DCTCP.CE is false, set DCTCP.CE to true and send
            //# an immediate ACK.
            //= https://www.rfc-editor.org/rfc/rfc8257#section-3.2
            //# If the CE codepoint is not set and DCTCP.CE is true, set DCTCP.CE to false and
            //# send an immediate ACK.
            (true, true, false) | (true, false, true) => Echo::Split,
            (false, true, false) => Echo::Hurry,
            _ => Echo::Same,
        }
    }

    /// The segment was acceptable: changes what is echoed.
    pub(super) fn take(&mut self, ce: bool, cwr: bool, text: bool) {
        if !self.on || !text {
            return;
        }
        if self.exact {
            self.echo = ce;
            return;
        }
        //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.3
        //# After the receipt of the CWR packet, acknowledgments for subsequent non-CE data packets
        //# do not have the ECN-Echo flag set.
        if cwr {
            self.echo = false;
        }
        self.echo |= ce;
    }
}

#[cfg(test)]
mod tests;
