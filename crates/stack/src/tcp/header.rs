//! Headers of segments that leave: the general way, and the template of a connection at work.
//!
//! The template is the general way's result for an empty segment, kept with the sums of all that
//! never changes. Writing a segment is then: copy the template, put in lengths, numbers and time
//! stamps, add them to the kept sums. (DEC OSF/1's header template; it is thrown away together with
//! the cached link header, on a retransmission time-out.)

use gannet_link::slot::flags as slot_flags;
use gannet_link::{Checksum, Driver, Slot};
use gannet_wire::checksum::{self, Sum};
use gannet_wire::ipv4::{self, IpProtocol};
use gannet_wire::ipv6;
use gannet_wire::tcp::{self, Flags};
use gannet_wire::tcp::{Options, TIMESTAMPS_ONLY_LEN};

use super::seq::SeqNum;
use crate::address;
use crate::ip::{Ip, LINK_HEADER_MAX, Path};

/// Everything in a TCP header that we choose per segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) seq: SeqNum,
    pub(super) ack: SeqNum,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: Options,
}

impl Outgoing {
    fn header(&self) -> tcp::Header {
        tcp::Header {
            src_port: self.source_port,
            dst_port: self.destination_port,
            seq: self.seq.0,
            ack: self.ack.0,
            reserved: 0,
            flags: self.flags,
            window: self.window,
            checksum: 0,
            urgent: self.urgent,
        }
    }
}

/// Writes all headers into the empty `slot` for `payload_len` bytes of payload; where the TCP
/// header starts. `None` when they do not fit or the path has no link header.
pub(super) fn write<D: Driver>(
    ip: &mut Ip<D>,
    path: &Path,
    out: &Outgoing,
    payload_len: usize,
    slot: &mut Slot,
) -> Option<usize> {
    let tcp_len = tcp::HEADER_LEN + out.options.encoded_len();
    let (bytes, at) = ip.write_header(path, slot, IpProtocol::TCP, tcp_len, payload_len)?;
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
    //# All TCP Options except End of Option List Option (EOL) and No-Operation (NOP) MUST have
    //# length fields, including all future options (MUST-68).
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
    //# The content of the header beyond the End of Option List Option MUST be header padding of
    //# zeros (MUST-69).
    out.header().emit(&out.options, bytes)?;
    Some(at)
}

/// Puts the checksum, or what stands for it, into a segment whose headers are written. `payload`:
/// sum of the payload, needed only for [`Checksum::Software`].
pub(super) fn finish(
    slot: &mut Slot,
    at: usize,
    tcp_len: usize,
    pseudo: Sum,
    kind: Checksum,
    payload: Sum,
) {
    let Some(head) = slot.inline_mut(at + tcp_len) else {
        return;
    };
    let Some(header) = head.get_mut(at..) else {
        return;
    };
    let field = match kind {
        Checksum::None => 0,
        Checksum::Partial => pseudo.fold(),
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
        //# The sender MUST generate it (MUST-2) and the receiver MUST check it (MUST-3).
        Checksum::Software => {
            let sum = checksum::sum(header)
                .combine(pseudo, false)
                .combine(payload, false);
            sum.finish()
        }
    };
    let _ = tcp::set_checksum(header, field);
    match kind {
        Checksum::None => slot.set_flags(slot_flags::CSUM_VALID),
        Checksum::Partial => {
            slot.set_flags(slot_flags::CSUM_PARTIAL);
            slot.set_checksum_place(at as u16, tcp::CHECKSUM_OFFSET as u16);
        }
        Checksum::Software => {}
    }
}

/// The sum over the pseudo-header of a segment of `tcp_len` bytes, header and payload.
pub(super) fn pseudo(path: &Path, tcp_len: usize) -> Sum {
    address::pseudo(
        path.source,
        path.destination,
        IpProtocol::TCP,
        tcp_len as u32,
    )
}

/// Longest header a template can hold: Ethernet with a tag, IPv6, TCP with time stamps.
const TEMPLATE_MAX: usize =
    LINK_HEADER_MAX + ipv6::HEADER_LEN + tcp::HEADER_LEN + TIMESTAMPS_ONLY_LEN;

/// The headers of an ordinary segment of one connection.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: [u8; TEMPLATE_MAX],
    len: usize,
    /// Offset of the TCP header.
    at: usize,
    /// Sum of the IPv4 header without its length and checksum.
    ip_sum: Sum,
    /// Bytes of the IP header: 20, or 40 of IPv6, which has no sum.
    ip_len: usize,
    /// Sum of the pseudo-header without its length.
    pseudo: Sum,
    timestamps: bool,
    checksum: Checksum,
    /// The ECN field of segments with payload, and of those without.
    marks: (u8, u8),
}

impl Template {
    /// The template of a connection; `None` when the path has no link header yet.
    pub(super) fn new<D: Driver>(
        ip: &mut Ip<D>,
        path: &Path,
        ports: (u16, u16),
        timestamps: bool,
    ) -> Option<Self> {
        let options = if timestamps {
            Options::timestamps(0, 0)
        } else {
            Options::NONE
        };
        let out = Outgoing {
            source_port: ports.0,
            destination_port: ports.1,
            seq: SeqNum(0),
            ack: SeqNum(0),
            flags: Flags::empty(),
            window: 0,
            urgent: 0,
            options,
        };
        let mut slot = Slot::new();
        let at = write(ip, path, &out, 0, &mut slot)?;
        let checksum = ip.endpoint(path.link)?.capabilities().checksum;
        let mut bytes = [0; TEMPLATE_MAX];
        let len = slot.inline().len();
        bytes.get_mut(..len)?.copy_from_slice(slot.inline());
        let ip_header = bytes.get_mut(at.checked_sub(path.ip_header_len())?..at)?;
        if path.ip_header_len() == ipv4::HEADER_LEN {
            ip_header.get_mut(2..4)?.fill(0);
            ip_header.get_mut(10..12)?.fill(0);
        }
        let ip_sum = checksum::sum(ip_header);
        let pseudo = pseudo(path, 0);
        Some(Template {
            bytes,
            len,
            at,
            ip_len: path.ip_header_len(),
            ip_sum,
            pseudo,
            timestamps,
            checksum,
            marks: (0, 0),
        })
    }

    /// The same with this in the ECN field of segments with payload, and of those without.
    pub(super) fn marked(mut self, payload: u8, bare: u8) -> Self {
        self.marks = (payload, bare);
        self
    }

    /// Bytes of all headers.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes the headers of an ordinary segment (no flags but ACK and PSH, no options but time
    /// stamps) into the empty `slot`. `payload` as for [`finish`].
    #[inline]
    pub(super) fn write(
        &self,
        slot: &mut Slot,
        out: &Outgoing,
        payload_len: usize,
        payload: impl FnOnce() -> Sum,
    ) -> Option<()> {
        let head = slot.inline_mut(self.len)?;
        head.copy_from_slice(self.bytes.get(..self.len)?);
        let (lower, header) = head.split_at_mut_checked(self.at)?;
        let tcp_len = self.len - self.at + payload_len;
        let ip_header = lower.get_mut(self.at.checked_sub(self.ip_len)?..)?;
        let mark = if payload_len > 0 {
            self.marks.0
        } else {
            self.marks.1
        };
        if self.ip_len == ipv4::HEADER_LEN {
            *ip_header.get_mut(1)? |= mark;
            let total = u16::try_from(ipv4::HEADER_LEN + tcp_len).ok()?;
            let mut ip_sum = self.ip_sum;
            ip_sum.add_u16(total);
            ip_sum.add_u16(u16::from(mark));
            ip_header
                .get_mut(2..4)?
                .copy_from_slice(&total.to_be_bytes());
            ip_header
                .get_mut(10..12)?
                .copy_from_slice(&ip_sum.finish().to_be_bytes());
        } else {
            // the lower half of the traffic class is the upper half of this byte
            *ip_header.get_mut(1)? |= mark << 4;
            let len = u16::try_from(tcp_len).ok()?;
            ip_header.get_mut(4..6)?.copy_from_slice(&len.to_be_bytes());
        }
        header
            .get_mut(4..8)?
            .copy_from_slice(&out.seq.0.to_be_bytes());
        header
            .get_mut(8..12)?
            .copy_from_slice(&out.ack.0.to_be_bytes());
        *header.get_mut(13)? = out.flags.bits();
        header
            .get_mut(14..16)?
            .copy_from_slice(&out.window.to_be_bytes());
        if let (true, Some((value, echo))) = (self.timestamps, out.options.timestamps) {
            header
                .get_mut(24..28)?
                .copy_from_slice(&value.to_be_bytes());
            header.get_mut(28..32)?.copy_from_slice(&echo.to_be_bytes());
        }
        let (at, header_len) = (self.at, self.len - self.at);
        let mut pseudo = self.pseudo;
        pseudo.add_u16(tcp_len as u16);
        let payload = if self.checksum == Checksum::Software {
            payload()
        } else {
            Sum::new()
        };
        finish(slot, at, header_len, pseudo, self.checksum, payload);
        Some(())
    }
}
