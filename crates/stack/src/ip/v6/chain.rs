//! Extension headers (RFC 8200 section 4), and what is said about bad ones.

use gannet_base::Instant;
use gannet_link::{Driver, Frame};
use gannet_wire::IpProtocol;
use gannet_wire::extension::{Action, Chain, ChainError};
use gannet_wire::icmpv6::Problem;
use gannet_wire::ipv6::{self, Header};

use super::super::layer::Ip;
use super::super::output::Packet;
use super::{HEAD_MAX, Headers};
use crate::counters::DropReason;

/// Most bytes of headers that are walked: what fits into the smallest MTU. Longer chains have no
/// end as far as we are concerned (RFC 8504 section 5.3 lets hosts limit them).
pub(super) const WALK_MAX: usize = ipv6::MIN_MTU as usize;
/// Most bytes of a packet that an error quotes.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//# (c) Every ICMPv6 error message (type < 128) MUST include as much of the IPv6 offending
//# (invoking) packet (the packet that caused the error) as possible without making the error
//# message packet exceed the minimum IPv6 MTU [IPv6].
pub(crate) const QUOTE_MAX: usize = ipv6::MIN_MTU as usize - ipv6::HEADER_LEN - 8;

/// A parameter problem that the sender of a packet is to be told.
pub(crate) struct Complaint {
    /// The packet.
    pub(crate) packet: Packet,
    /// What is wrong.
    pub(crate) code: Problem,
    /// Where.
    pub(crate) pointer: u32,
    /// Even when it went to a group (RFC 4443 section 2.4 (e.3)).
    pub(crate) to_group_too: bool,
    pub(crate) quote: [u8; QUOTE_MAX],
    pub(crate) quote_len: usize,
}

impl<D: Driver> Ip<D> {
    /// What is behind the headers, and whether it came in one piece; `frame`, which begins with the
    /// IPv6 header, is stripped to it. `Ok(None)`: it is a fragment, and others are missing.
    #[inline]
    pub(super) fn six_payload(
        &mut self,
        now: Instant,
        packet: &Packet,
        header: &Header,
        frame: &mut Frame,
    ) -> Result<Option<(IpProtocol, bool)>, DropReason> {
        match header.next_header {
            IpProtocol::TCP => {
                frame.strip(ipv6::HEADER_LEN);
                return Ok(Some((IpProtocol::TCP, true)));
            }
            IpProtocol::UDP | IpProtocol::ICMPV6 => {
                self.remember_headers(packet, frame, (ipv6::HEADER_LEN, 6));
                frame.strip(ipv6::HEADER_LEN);
                return Ok(Some((header.next_header, true)));
            }
            _ => {}
        }
        let mut buffer = [0; WALK_MAX];
        let endpoint = self.endpoint(packet.link).ok_or(DropReason::NoMemory)?;
        let read = endpoint.peek(frame, &mut buffer);
        let bytes = buffer.get(..read).unwrap_or(&[]);
        let chain = match Chain::parse(bytes) {
            Ok(chain) => chain,
            Err(error) => {
                //= https://www.rfc-editor.org/rfc/rfc4443#section-3.4
                //# If an IPv6 node processing a packet finds a problem with a field in the IPv6
                //# header or extension headers such that it cannot complete processing the packet,
                //# it MUST discard the packet and SHOULD originate an ICMPv6 Parameter Problem
                //# message to the packet's source, indicating the type and location of the problem.
                self.complain_about(packet, error, bytes);
                return Err(reason(error));
            }
        };
        match chain.fragment {
            Some(fragment) if !fragment.is_atomic() => {
                self.six_fragment_arrives(now, packet, (&chain, &fragment), (bytes, frame))
            }
            fragment => {
                let place = (chain.payload_at, chain.named_at);
                self.remember_headers(packet, frame, place);
                self.six.headers.router_alert = chain.router_alert == Some(0);
                frame.strip(chain.payload_at);
                Ok(Some((chain.protocol, fragment.is_none())))
            }
        }
    }

    /// Keeps the headers, `len` bytes of what `frame` begins with, for errors about the payload.
    pub(super) fn remember_headers(
        &mut self,
        packet: &Packet,
        frame: &Frame,
        (len, named_at): (usize, usize),
    ) {
        let mut headers = Headers {
            bytes: [0; HEAD_MAX],
            len: 0,
            named_at: named_at as u32,
            router_alert: false,
        };
        if let (Some(to), Some(endpoint)) =
            (headers.bytes.get_mut(..len), self.endpoint(packet.link))
        {
            headers.len = endpoint.peek(frame, to);
        }
        self.six.headers = headers;
    }

    /// Notes what the sender is to be told, if anything.
    fn complain_about(&mut self, packet: &Packet, error: ChainError, bytes: &[u8]) {
        let (code, pointer, to_group_too) = match error {
            //= https://www.rfc-editor.org/rfc/rfc8200#section-4
            //# If, as a result of processing a header, the destination node is
            //# required to proceed to the next header but the Next Header value in
            //# the current header is unrecognized by the node, it should discard the
            //# packet and send an ICMP Parameter Problem message to the source of
            //# the packet, with an ICMP Code value of 1
            ChainError::HopByHopNotFirst { pointer } => (Problem::NEXT_HEADER, pointer, false),
            //= https://www.rfc-editor.org/rfc/rfc5095#section-3
            //# If Segments Left is non-zero, the node must discard the packet and send an ICMP
            //# Parameter Problem, Code 0, message to the packet's Source Address, pointing to the
            //# unrecognized Routing Type.
            ChainError::RoutingUnrecognised { pointer } => (Problem::HEADER_FIELD, pointer, false),
            ChainError::UnknownOption { action, pointer } => match action {
                Action::Skip | Action::Discard => return,
                Action::DiscardAndTell => (Problem::OPTION, pointer, true),
                Action::DiscardAndTellUnlessMulticast => (Problem::OPTION, pointer, false),
            },
            ChainError::Truncated
            | ChainError::BadOption
            | ChainError::TooManyOptions
            | ChainError::TooManyHeaders => return,
        };
        self.complain(packet, (code, pointer as u32), to_group_too, bytes);
    }

    /// Notes that the sender of `packet`, which begins with `bytes`, is to be told of a problem.
    pub(super) fn complain(
        &mut self,
        packet: &Packet,
        (code, pointer): (Problem, u32),
        to_group_too: bool,
        bytes: &[u8],
    ) {
        let mut quote = [0; QUOTE_MAX];
        let quote_len = bytes.len().min(QUOTE_MAX);
        if let (Some(to), Some(from)) = (quote.get_mut(..quote_len), bytes.get(..quote_len)) {
            to.copy_from_slice(from);
        }
        self.six.complaint = Some(Complaint {
            packet: *packet,
            code,
            pointer,
            to_group_too,
            quote,
            quote_len,
        });
    }

    /// What is to be said about the packet that was thrown away last.
    pub(crate) fn take_complaint(&mut self) -> Option<Complaint> {
        self.six.complaint.take()
    }

    /// The headers of the packet that came in last, unless it was TCP.
    pub(crate) fn six_headers(&self) -> &Headers {
        &self.six.headers
    }
}

fn reason(error: ChainError) -> DropReason {
    match error {
        ChainError::Truncated => DropReason::IpTruncated,
        ChainError::HopByHopNotFirst { .. } | ChainError::TooManyHeaders => DropReason::IpChain,
        ChainError::RoutingUnrecognised { .. } => DropReason::IpSourceRoute,
        ChainError::UnknownOption { .. } | ChainError::BadOption | ChainError::TooManyOptions => {
            DropReason::IpOptions
        }
    }
}
