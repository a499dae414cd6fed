//! A segment that arrived, parsed, its payload still in the frame.

use gannet_link::Frame;
use gannet_wire::tcp::Options;
use gannet_wire::tcp::{self, Flags};

use super::seq::SeqNum;

/// SEG.* of RFC 9293 section 3.3.1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// SEG.SEQ
    pub(super) seq: SeqNum,
    /// SEG.ACK, meaningful with ACK.
    pub(super) ack: SeqNum,
    /// Control bits.
    pub(super) flags: Flags,
    /// SEG.WND as on the wire.
    pub(super) window: u16,
    /// SEG.UP, meaningful with URG.
    pub(super) urgent: u16,
    /// Payload bytes.
    pub(super) len: u32,
    /// TSval and TSecr.
    pub(super) timestamps: Option<(u32, u32)>,
    /// A router marked the packet (RFC 3168).
    pub(super) ce: bool,
    /// Nothing but time stamps (or nothing at all) in the options, and no mark.
    pub(super) plain: bool,
    /// All options when not `plain`, as far as there are any.
    pub(super) options: Options,
    /// Payload bytes per TCP segment when the link merged several; else 0.
    pub(super) merged: u16,
}

/// Ports and header length, which are needed before anything else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preview {
    /// The sender's port.
    pub(super) source_port: u16,
    /// Our port.
    pub(super) destination_port: u16,
    header: tcp::Header,
    header_len: usize,
}

impl Preview {
    /// Reads the fixed header from `head`, the contiguous first bytes of the frame.
    pub(super) fn parse(head: &[u8]) -> Result<Self, tcp::ParseError> {
        let (header, header_len) = tcp::Header::parse(head)?;
        Ok(Preview {
            source_port: header.src_port,
            destination_port: header.dst_port,
            header,
            header_len,
        })
    }

    /// Takes the header off `frame`, whose first bytes are `head`. `ce`: a router marked it.
    pub(super) fn into_segment(self, head: &[u8], ce: bool, frame: &mut Frame) -> Segment {
        let header = self.header;
        let raw = tcp::options(head, self.header_len);
        let fast = tcp::parse_timestamps_only(raw);
        let bare = raw.is_empty() || fast.is_some();
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
        //# A given TCP implementation can support any currently defined options, but the
        //# following options MUST be supported (MUST-4 --note Maximum Segment Size Option support
        //# is also part of MUST-14 in Section 3.7.1):
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
        //# A TCP implementation MUST be able to receive a TCP Option in any segment (MUST-5).
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
        //# A TCP implementation MUST (MUST-6) ignore without error any TCP Option it does not
        //# implement, assuming that the option has a length field.
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.2
        //# There is no guarantee that senders will use this option, so receivers MUST be prepared
        //# to process options even if they do not begin on a word boundary (MUST-64).
        let options = if bare {
            Options::NONE
        } else {
            Options::parse(raw)
        };
        let merged = if frame.is_gso_udp() {
            0
        } else {
            frame.gso_size()
        };
        frame.strip(self.header_len);
        Segment {
            seq: SeqNum(header.seq),
            ack: SeqNum(header.ack),
            flags: header.flags,
            window: header.window,
            urgent: header.urgent,
            len: frame.len() as u32,
            timestamps: fast.or(options.timestamps),
            ce,
            plain: bare && !ce,
            options,
            merged,
        }
    }
}

impl Segment {
    /// SEG.LEN: payload plus one for SYN and one for FIN.
    #[inline]
    pub(super) fn seq_len(&self) -> u32 {
        self.len + u32::from(self.syn()) + u32::from(self.fin())
    }

    /// SYN is set.
    #[inline]
    pub(super) fn syn(&self) -> bool {
        self.flags.contains(Flags::SYN)
    }

    /// FIN is set.
    #[inline]
    pub(super) fn fin(&self) -> bool {
        self.flags.contains(Flags::FIN)
    }

    /// RST is set.
    #[inline]
    pub(super) fn rst(&self) -> bool {
        self.flags.contains(Flags::RST)
    }

    /// ACK is set.
    #[inline]
    pub(super) fn has_ack(&self) -> bool {
        self.flags.contains(Flags::ACK)
    }

    /// Cuts `front` bytes and a SYN off the start, everything from `keep` payload bytes on (and
    /// then the FIN too) off the end.
    pub(super) fn trim(&mut self, frame: &mut Frame, front: u32, keep: u32) {
        if front > 0 {
            frame.strip(front as usize);
            self.seq += front;
            self.len -= front;
        }
        if keep < self.len {
            frame.truncate(keep as usize);
            self.len = keep;
            self.flags.remove(Flags::FIN);
        }
    }
}
