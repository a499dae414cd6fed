//! Fragments on their way to `reassembly.rs`, and the whole on its way back.

use gannet_base::Instant;
use gannet_link::{Driver, Frame};
use gannet_wire::IpProtocol;
use gannet_wire::extension::{Chain, Fragment};
use gannet_wire::icmpv6::Problem;
use gannet_wire::ipv6;

use super::super::layer::Ip;
use super::super::output::Packet;
use super::super::reassembly::{HEAD_MAX, Head, Key, Piece};
use super::Headers;
use super::chain::WALK_MAX;
use crate::counters::DropReason;

/// Bytes in the unit of fragment offsets.
const UNIT: u32 = 8;
/// Longest payload of a whole datagram.
const PAYLOAD_MAX: u32 = 65_535;
/// Offset of the payload length in the IPv6 header.
const PAYLOAD_LENGTH_AT: u32 = 4;

impl<D: Driver> Ip<D> {
    /// A fragment that is for us; `bytes` is the beginning of what `frame` holds. When it was the
    /// last one missing, the frame becomes the whole datagram's payload. `Ok(None)`: others are
    /// missing.
    pub(super) fn six_fragment_arrives(
        &mut self,
        now: Instant,
        packet: &Packet,
        (chain, fragment): (&Chain, &Fragment),
        (bytes, frame): (&[u8], &mut Frame),
    ) -> Result<Option<(IpProtocol, bool)>, DropReason> {
        let len = frame.len().saturating_sub(chain.payload_at) as u32;
        let offset = u32::from(fragment.offset) * UNIT;
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
        //# If the length of a fragment, as derived from the fragment
        //# packet's Payload Length field, is not a multiple of 8 octets
        //# and the M flag of that fragment is 1, then that fragment must
        //# be discarded and an ICMP Parameter Problem, Code 0, message
        //# should be sent to the source of the fragment, pointing to the
        //# Payload Length field of the fragment packet.
        if fragment.more && !len.is_multiple_of(UNIT) {
            let problem = (Problem::HEADER_FIELD, PAYLOAD_LENGTH_AT);
            self.complain(packet, problem, false, bytes);
            return Err(DropReason::FragmentLength);
        }
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
        //# If the length and offset of a fragment are such that the
        //# Payload Length of the packet reassembled from that fragment
        //# would exceed 65,535 octets, then that fragment must be
        //# discarded and an ICMP Parameter Problem, Code 0, message should
        //# be sent to the source of the fragment, pointing to the Fragment
        //# Offset field of the fragment packet.
        if offset + len > PAYLOAD_MAX {
            let at = chain.payload_at as u32 - 6;
            self.complain(packet, (Problem::HEADER_FIELD, at), false, bytes);
            return Err(DropReason::FragmentTooLong);
        }
        if offset == 0 {
            self.chain_is_complete(packet, chain, bytes)?;
        }
        let head = head(chain, packet.tos, bytes);
        frame.strip(chain.payload_at);
        let key = Key {
            link: packet.link,
            source: packet.source,
            destination: packet.destination,
            ident: fragment.ident,
            protocol: 0,
        };
        let piece = Piece {
            offset,
            len,
            more: fragment.more,
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
        self.six.headers = Headers {
            bytes: [0; super::HEAD_MAX],
            len: 0,
            named_at: 6,
            router_alert: false,
        };
        self.whole_payload(packet, IpProtocol(whole.head.protocol), frame)
    }

    /// RFC 7112: a first fragment holds all headers, the transport's too.
    fn chain_is_complete(
        &mut self,
        packet: &Packet,
        chain: &Chain,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let mut plain = [0; WALK_MAX];
        let behind = bytes.get(chain.payload_at..).unwrap_or(&[]);
        let complete = rest_of_chain(chain.protocol, behind, &mut plain).is_some_and(|rest| {
            let (protocol, at) = rest;
            let least = match protocol {
                IpProtocol::TCP => 20,
                IpProtocol::NO_NEXT_HEADER => 0,
                _ => 8,
            };
            behind.len() >= at + least
        });
        if complete {
            return Ok(());
        }
        self.complain(packet, (Problem::INCOMPLETE_CHAIN, 0), false, bytes);
        Err(DropReason::FragmentTiny)
    }

    /// The headers in what was put together, which may begin with some.
    fn whole_payload(
        &mut self,
        packet: &Packet,
        protocol: IpProtocol,
        frame: &mut Frame,
    ) -> Result<Option<(IpProtocol, bool)>, DropReason> {
        let mut bytes = [0; WALK_MAX];
        let endpoint = self.endpoint(packet.link).ok_or(DropReason::NoMemory)?;
        let read = endpoint.peek(frame, &mut bytes);
        let mut plain = [0; WALK_MAX];
        let behind = bytes.get(..read).unwrap_or(&[]);
        let rest = rest_of_chain(protocol, behind, &mut plain);
        let (protocol, at) = rest.ok_or(DropReason::IpChain)?;
        frame.strip(at);
        Ok(Some((protocol, false)))
    }
}

/// Walks the headers of a fragmentable part that begins with `protocol`: what follows them, and
/// where. Once more an IPv6 header stands before it, because that is what walks begin with.
fn rest_of_chain(
    protocol: IpProtocol,
    part: &[u8],
    plain: &mut [u8; WALK_MAX],
) -> Option<(IpProtocol, usize)> {
    let len = part.len().min(WALK_MAX - ipv6::HEADER_LEN);
    *plain.get_mut(6)? = protocol.0;
    let to = plain.get_mut(ipv6::HEADER_LEN..ipv6::HEADER_LEN + len)?;
    to.copy_from_slice(part.get(..len)?);
    let chain = Chain::parse(plain.get(..ipv6::HEADER_LEN + len)?).ok()?;
    let again = chain.fragment.is_some();
    (!again).then_some((chain.protocol, chain.payload_at - ipv6::HEADER_LEN))
}

/// What is kept of a fragment's headers; those with more than a fragment header are never quoted.
fn head(chain: &Chain, tos: u8, bytes: &[u8]) -> Head {
    let mut head = Head {
        bytes: [0; HEAD_MAX],
        len: 0,
        tos,
        protocol: chain.protocol.0,
    };
    let headers = bytes.get(..chain.payload_at).unwrap_or(&[]);
    if let Some(to) = head.bytes.get_mut(..headers.len()) {
        to.copy_from_slice(headers);
        head.len = headers.len();
    }
    head
}
