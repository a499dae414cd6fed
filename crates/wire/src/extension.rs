//! IPv6 extension headers (RFC 8200 section 4), walked from the fixed header to the payload.
//!
//! ```text
//! hop-by-hop, destination options   |next header|length in 8 bytes, the first not counted|options|
//! routing                           |next header|length|type|segments left|...|
//! fragment                          |next header|0|offset 13, 0 2, M 1|identification 32|
//! ```
//!
//! Every turn of the walk takes at least 8 bytes, there are at most [`MAX_HEADERS`] turns, and at
//! most [`MAX_OPTIONS`] options beside padding are looked at in a header: a chain costs little
//! whatever it says. Authentication and encryption headers are no extension headers here but
//! payloads of a protocol that we do not know.

use crate::{IpProtocol, ipv6};

/// Extension headers in one packet at most; more is an error.
pub const MAX_HEADERS: usize = 8;

/// Options other than padding in one header at most, as in Linux; more is an error.
pub const MAX_OPTIONS: usize = 8;

/// Bytes in a fragment header.
pub const FRAGMENT_LEN: usize = 8;

/// What lies between the fixed header and the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// What the payload is. After a fragment header that is not atomic: what the reassembled
    /// fragmentable part begins with, which may be another extension header.
    pub protocol: IpProtocol,
    /// Where the payload begins, in bytes from the start of the packet.
    pub payload_at: usize,
    /// Where the next-header field stands that names `protocol`, in bytes from the start of the
    /// packet: the pointer of a parameter problem about an unknown protocol.
    pub named_at: usize,
    /// The fragment header. Unless it is atomic, the walk ended behind it.
    pub fragment: Option<Fragment>,
    /// The value of a router alert option (RFC 2711) among the hop-by-hop options.
    pub router_alert: Option<u16>,
}

/// A fragment header (RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// What the fragmentable part begins with.
    pub next_header: IpProtocol,
    /// Where this fragment's payload belongs, in units of 8 bytes (13 bits).
    pub offset: u16,
    /// M: this is not the last fragment.
    pub more: bool,
    /// Identification, for reassembly.
    pub ident: u32,
}

/// What an unknown option asks for (RFC 8200 section 4.2: the highest two bits of its type).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// 00: skip the option.
    Skip,
    /// 01: discard the packet.
    Discard,
    /// 10: discard, and send a parameter problem whatever the destination.
    DiscardAndTell,
    /// 11: discard, and send a parameter problem unless the destination is multicast.
    DiscardAndTellUnlessMulticast,
}

/// Why a chain cannot be followed to its end. Pointers count from the start of the packet and are
/// those of the parameter problem that RFC 8200 asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChainError {
    /// A header reaches beyond the packet.
    Truncated,
    /// A hop-by-hop header elsewhere than first: parameter problem, code 1.
    HopByHopNotFirst {
        /// The next-header field that names it.
        pointer: usize,
    },
    /// A routing header, of whatever type, with segments left: parameter problem, code 0. Type 0 is
    /// among them (RFC 5095).
    RoutingUnrecognised {
        /// The routing type field.
        pointer: usize,
    },
    /// An unknown option that asks for more than being skipped: code 2 where it is to be told.
    UnknownOption {
        /// What it asks for; not [`Action::Skip`].
        action: Action,
        /// The option type.
        pointer: usize,
    },
    /// An option reaches beyond its header.
    BadOption,
    /// More than [`MAX_OPTIONS`] in one header.
    TooManyOptions,
    /// More than [`MAX_HEADERS`], or a second fragment header.
    TooManyHeaders,
}

impl Chain {
    /// Walks the chain of the packet that begins with the IPv6 header in `packet`, whose lengths
    /// were checked. The slice must hold all extension headers, but no more.
    ///
    /// # Errors
    /// See [`ChainError`].
    pub fn parse(packet: &[u8]) -> Result<Self, ChainError> {
        const NEXT_HEADER_AT: usize = 6;
        let mut chain = Self {
            protocol: packet.get(NEXT_HEADER_AT).map_or(
                Err(ChainError::Truncated), //
                |next| Ok(IpProtocol(*next)),
            )?,
            payload_at: ipv6::HEADER_LEN,
            named_at: NEXT_HEADER_AT,
            fragment: None,
            router_alert: None,
        };
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4
        //# Therefore, extension headers must be processed strictly in the order they appear in the
        //# packet; a receiver must not, for example, scan through a packet looking for a particular
        //# kind of extension header and process that header prior to processing all preceding ones.
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.1
        //# IPv6 nodes must accept and attempt to process extension headers in any order and
        //# occurring any number of times in the same packet, except for the Hop-by-Hop Options
        //# header, which is restricted to appear immediately after an IPv6 header only.
        for _ in 0..=MAX_HEADERS {
            match chain.protocol {
                IpProtocol::HOP_BY_HOP => chain.hop_by_hop(packet)?,
                IpProtocol::DESTINATION_OPTIONS => {
                    let options = chain.header(packet)?;
                    walk_options(options, chain.payload_at, &mut None)?;
                    chain.pass(options);
                }
                IpProtocol::ROUTING => chain.routing(packet)?,
                IpProtocol::FRAGMENT => {
                    if !chain.fragment(packet)?.is_atomic() {
                        return Ok(chain);
                    }
                }
                _ => return Ok(chain),
            }
        }
        Err(ChainError::TooManyHeaders)
    }

    fn hop_by_hop(&mut self, packet: &[u8]) -> Result<(), ChainError> {
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4
        //# The Hop-by-Hop Options header, when present, must immediately follow the IPv6 header.
        if self.payload_at != ipv6::HEADER_LEN {
            let pointer = self.named_at;
            return Err(ChainError::HopByHopNotFirst { pointer });
        }
        let header = self.header(packet)?;
        walk_options(header, self.payload_at, &mut self.router_alert)?;
        self.pass(header);
        Ok(())
    }

    fn routing(&mut self, packet: &[u8]) -> Result<(), ChainError> {
        let header = self.header(packet)?;
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.4
        //# If, while processing a received packet, a node encounters a Routing header with an
        //# unrecognized Routing Type value, the required behavior of the node depends on the value
        //# of the Segments Left field, as follows:
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.4
        //# If Segments Left is zero, the node must ignore the Routing header and proceed to process
        //# the next header in the packet, whose type is identified by the Next Header field in the
        //# Routing header.
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.4
        //# If Segments Left is non-zero, the node must discard the packet and send an ICMP
        //# Parameter Problem, Code 0, message to the packet's Source Address, pointing to the
        //# unrecognized Routing Type.
        //= https://www.rfc-editor.org/rfc/rfc5095#section-3
        //# An IPv6 node that receives a packet with a destination address assigned to it and that
        //# contains an RH0 extension header MUST NOT execute the algorithm specified in the latter
        //# part of Section 4.4 of [RFC2460] for RH0.
        //= https://www.rfc-editor.org/rfc/rfc5095#section-3
        //# Instead, such packets MUST be processed according to the behaviour specified in Section
        //# 4.4 of [RFC2460] for a datagram that includes an unrecognised Routing Type value,
        //# namely:
        if header.get(3).is_none_or(|segments_left| *segments_left > 0) {
            let pointer = self.payload_at + 2;
            return Err(ChainError::RoutingUnrecognised { pointer });
        }
        self.pass(header);
        Ok(())
    }

    fn fragment(&mut self, packet: &[u8]) -> Result<Fragment, ChainError> {
        if self.fragment.is_some() {
            return Err(ChainError::TooManyHeaders);
        }
        let rest = packet.get(self.payload_at..).unwrap_or_default();
        let fragment = Fragment::parse(rest).ok_or(ChainError::Truncated)?;
        self.fragment = Some(fragment);
        self.pass(rest.get(..FRAGMENT_LEN).unwrap_or_default());
        Ok(fragment)
    }

    /// The bytes of the header at `payload_at`, as long as it says; at least 8.
    fn header<'a>(&self, packet: &'a [u8]) -> Result<&'a [u8], ChainError> {
        let rest = packet.get(self.payload_at..).ok_or(ChainError::Truncated)?;
        let len = rest.get(1).ok_or(ChainError::Truncated)?;
        rest.get(..8 + 8 * usize::from(*len))
            .ok_or(ChainError::Truncated)
    }

    /// Goes on behind `header`.
    fn pass(&mut self, header: &[u8]) {
        self.protocol = header
            .first()
            .map_or(IpProtocol::NO_NEXT_HEADER, |next| IpProtocol(*next));
        self.named_at = self.payload_at;
        self.payload_at += header.len();
    }
}

impl Fragment {
    /// Reads a fragment header; reserved bits are ignored. `None` below 8 bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let b = bytes.first_chunk::<FRAGMENT_LEN>()?;
        let word = u16::from_be_bytes([b[2], b[3]]);
        Some(Self {
            next_header: IpProtocol(b[0]),
            offset: word >> 3,
            more: word & 1 != 0,
            ident: u32::from_be_bytes([b[4], b[5], b[6], b[7]]),
        })
    }

    /// Writes the header; `None` (nothing written) when `out` is shorter than 8 bytes. `offset` is
    /// cut to 13 bits.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let b = out.first_chunk_mut::<FRAGMENT_LEN>()?;
        let word = self.offset << 3 | u16::from(self.more);
        b[0] = self.next_header.0;
        b[1] = 0;
        b[2..4].copy_from_slice(&word.to_be_bytes());
        b[4..8].copy_from_slice(&self.ident.to_be_bytes());
        Some(FRAGMENT_LEN)
    }

    /// Whether the "fragment" is the whole datagram (RFC 6946), to be handled without reassembly.
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// An option of a hop-by-hop or destination options header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opt<'a> {
    /// The option type, its action bits and change bit included.
    pub kind: u8,
    /// The option's data.
    pub data: &'a [u8],
    /// Where its type stands, in bytes from the start of the header.
    pub at: usize,
}

impl Opt<'_> {
    /// Pad1: one byte without length.
    pub const PAD1: u8 = 0;
    /// PadN.
    pub const PADN: u8 = 1;
    /// Router alert (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;

    /// What to do when the type is unknown.
    pub const fn action(&self) -> Action {
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.2
        //# The Option Type identifiers are internally encoded such that their highest-order 2 bits
        //# specify the action that must be taken if the processing IPv6 node does not recognize the
        //# Option Type:
        match self.kind >> 6 {
            0 => Action::Skip,
            1 => Action::Discard,
            2 => Action::DiscardAndTell,
            _ => Action::DiscardAndTellUnlessMulticast,
        }
    }
}

/// The options of a hop-by-hop or destination options header, padding left out. After an error
/// there is nothing more.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    header: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// The options of `header`, which begins with its next-header field and ends where its length
    /// says.
    pub const fn new(header: &'a [u8]) -> Self {
        Self { header, at: 2 }
    }
}

impl<'a> Iterator for Options<'a> {
    /// An option, or [`ChainError::BadOption`].
    type Item = Result<Opt<'a>, ChainError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Each turn takes at least one byte.
        loop {
            let at = self.at;
            let (kind, rest) = self.header.get(at..)?.split_first()?;
            //= https://www.rfc-editor.org/rfc/rfc8200#section-4.2
            //# These padding options must be recognized by all IPv6 implementations:
            if *kind == Opt::PAD1 {
                self.at += 1;
                continue;
            }
            let option = rest
                .split_first()
                .and_then(|(len, rest)| rest.get(..usize::from(*len)));
            let Some(data) = option else {
                self.at = self.header.len();
                return Some(Err(ChainError::BadOption));
            };
            self.at += 2 + data.len();
            if *kind != Opt::PADN {
                let kind = *kind;
                return Some(Ok(Opt { kind, data, at }));
            }
        }
    }
}

/// Looks at every option of `header`, which lies at `start` of the packet.
fn walk_options(
    header: &[u8],
    start: usize,
    router_alert: &mut Option<u16>,
) -> Result<(), ChainError> {
    //= https://www.rfc-editor.org/rfc/rfc8200#section-4.2
    //# The sequence of options within a header must be processed strictly in the order they appear
    //# in the header; a receiver must not, for example, scan through the header looking for a
    //# particular kind of option and process that option prior to processing all preceding ones.
    for (count, option) in Options::new(header).enumerate() {
        let option = option?;
        if count >= MAX_OPTIONS {
            return Err(ChainError::TooManyOptions);
        }
        match (option.kind, option.data) {
            (Opt::ROUTER_ALERT, [a, b]) => *router_alert = Some(u16::from_be_bytes([*a, *b])),
            _ if option.action() == Action::Skip => {}
            _ => {
                return Err(ChainError::UnknownOption {
                    action: option.action(),
                    pointer: start + option.at,
                });
            }
        }
    }
    Ok(())
}

/// Bytes of the hop-by-hop header that [`emit_router_alert`] writes.
pub const ROUTER_ALERT_LEN: usize = 8;

/// A hop-by-hop header with a router alert of value 0 (MLD, RFC 2711 section 2.1) and padding.
/// `None` (nothing written) when `out` is shorter than 8 bytes.
#[must_use]
pub fn emit_router_alert(next_header: IpProtocol, out: &mut [u8]) -> Option<usize> {
    let b = out.first_chunk_mut::<ROUTER_ALERT_LEN>()?;
    *b = [next_header.0, 0, Opt::ROUTER_ALERT, 2, 0, 0, Opt::PADN, 0];
    Some(ROUTER_ALERT_LEN)
}
