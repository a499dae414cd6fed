//! IPv4 fragments on their way from `input.rs` to `reassembly.rs`, and the whole on its way back.

use core::net::IpAddr;

use gannet_base::Instant;
use gannet_link::{Driver, Frame};
use gannet_wire::ipv4::{self, Header, IpProtocol};

use super::layer::{Ip, QUOTE_LEN};
use super::output::Packet;
use super::reassembly::{HEAD_MAX, Head, Key, Piece};
use crate::counters::DropReason;
use crate::link::LinkId;

/// Bytes in the unit of fragment offsets.
const UNIT: u32 = 8;

impl<D: Driver> Ip<D> {
    /// A fragment that is for us arrived; when it was the last one missing, the frame becomes the
    /// whole datagram's payload. `Ok(None)`: others are missing.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.2
    //# The IP layer MUST implement reassembly of IP datagrams.
    pub(super) fn fragment_arrives(
        &mut self,
        now: Instant,
        (link, header, header_len): (LinkId, &Header, usize),
        frame: &mut Frame,
    ) -> Result<Option<(Packet, IpProtocol)>, DropReason> {
        let total = usize::from(header.total_len);
        self.statistics
            .count_in(header.protocol, u64::from(header.total_len));
        frame.truncate(total);
        let head = self.head(link, header, header_len, frame);
        frame.strip(header_len);
        let key = Key {
            link,
            source: IpAddr::V4(header.src),
            destination: IpAddr::V4(header.dst),
            ident: u32::from(header.ident),
            protocol: header.protocol.0,
        };
        let piece = Piece {
            offset: (u32::from(header.fragment_offset) + u32::from(planted!(FragmentsShifted)))
                * UNIT,
            len: total.saturating_sub(header_len) as u32,
            more: header.more_fragments,
            head,
        };
        let Ip {
            reassembly,
            links,
            drops,
            ..
        } = self;
        let whole = reassembly.arrives(now, &key, &piece, (links, drops), frame)?;
        let Some(whole) = whole else {
            return Ok(None);
        };
        self.quote_whole(&whole.head);
        let packet = Packet {
            link,
            source: IpAddr::V4(header.src),
            destination: IpAddr::V4(header.dst),
            tos: whole.head.tos,
        };
        Ok(Some((packet, header.protocol)))
    }

    /// What is kept of a fragment's header. One with options is never quoted: see
    /// [`crate::icmp`].
    fn head(&mut self, link: LinkId, header: &Header, header_len: usize, frame: &Frame) -> Head {
        let mut bytes = [0; HEAD_MAX];
        let read = self
            .endpoint(link)
            .zip(bytes.get_mut(..ipv4::HEADER_LEN))
            .map_or(0, |(endpoint, out)| endpoint.peek(frame, out));
        let quotable = header_len == ipv4::HEADER_LEN;
        Head {
            bytes,
            len: if quotable { read } else { 0 },
            tos: header.tos,
            protocol: header.protocol.0,
        }
    }

    /// What ICMP errors about a datagram quote that came in pieces.
    fn quote_whole(&mut self, head: &Head) {
        let mut quote = [0; QUOTE_LEN];
        if let Some((to, from)) = quote.get_mut(..head.len).zip(head.bytes.get(..head.len)) {
            to.copy_from_slice(from);
        }
        self.quote = quote;
    }
}
