//! Neighbour discovery for IPv6 (RFC 4861): five ICMPv6 messages and their options.
//!
//! [`Message::parse`] makes the checks that need only the message (RFC 4861 sections 6.1, 7.1 and
//! 8.1): code 0, length, no option of length 0 or beyond the message, no multicast target. The
//! caller verifies the checksum first and makes the checks that need the packet: hop limit 255, no
//! fragment header (RFC 6980), and what the source and destination addresses have to be.

use crate::MacAddr;
use crate::icmpv6;
use crate::ipv6::address_at;
use core::net::Ipv6Addr;

/// The hop limit of every neighbour discovery packet, sent and received: proof that no router has
/// forwarded it.
pub const HOP_LIMIT: u8 = 255;

/// The longest message without options, in bytes (a redirect).
pub const MAX_FIXED_LEN: usize = 40;

/// ff02::1, all nodes of the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// ff02::2, all routers of the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The solicited-node multicast address of `address` (RFC 4291 section 2.7.1): ff02::1:ff00:0
/// with the last 24 bits of the address.
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a & 0xff, b)
}

/// A message without its options and checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Type 133.
    RouterSolicitation,
    /// Type 134.
    RouterAdvertisement {
        /// The hop limit that hosts should use; 0: unspecified.
        hop_limit: u8,
        /// M: addresses are to be had by DHCPv6.
        managed: bool,
        /// O: other configuration is to be had by DHCPv6.
        other: bool,
        /// Seconds for which this is a default router; 0: it is none.
        router_lifetime: u16,
        /// Milliseconds for which a neighbour counts as reachable; 0: unspecified.
        reachable_time: u32,
        /// Milliseconds between solicitations; 0: unspecified.
        retrans_timer: u32,
    },
    /// Type 135.
    NeighbourSolicitation {
        /// Whose link address is asked for.
        target: Ipv6Addr,
    },
    /// Type 136.
    NeighbourAdvertisement {
        /// R: the sender is a router.
        router: bool,
        /// S: the answer to a solicitation.
        solicited: bool,
        /// O: a cached link address is to be overridden.
        overriding: bool,
        /// Whose link address this is.
        target: Ipv6Addr,
    },
    /// Type 137.
    Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// For packets to this destination.
        destination: Ipv6Addr,
    },
}

/// Why bytes are not a neighbour discovery message that we can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Another ICMPv6 message.
    OtherType,
    /// The code is not 0.
    BadCode,
    /// Shorter than the message's fixed part.
    Truncated,
    /// An option has length 0 or reaches beyond the message.
    BadOption,
    /// The target, or a redirect's destination, is a multicast address.
    MulticastTarget,
}

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

impl Message {
    /// Whether an ICMPv6 type is one of these messages.
    pub const fn is_type(kind: u8) -> bool {
        matches!(kind, ROUTER_SOLICITATION..=REDIRECT)
    }

    /// Reads an ICMPv6 message from its type on, and its options. The checksum is not verified.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, Options<'_>), ParseError> {
        let head = bytes.first_chunk::<8>().ok_or(ParseError::Truncated)?;
        let fixed_len = fixed_len(head[0]).ok_or(ParseError::OtherType)?;
        if head[1] != 0 {
            return Err(ParseError::BadCode);
        }
        let (fixed, options) = bytes
            .split_at_checked(fixed_len)
            .ok_or(ParseError::Truncated)?;
        let message = Self::read(head, fixed);
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
        //# It MUST NOT be a multicast address.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
        //# The Target Address MUST NOT be a multicast address.
        if message.names_multicast() {
            return Err(ParseError::MulticastTarget);
        }
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6
        //# Nodes MUST silently discard an ND packet that contains an option with length zero.
        let options = Options::parse(options).ok_or(ParseError::BadOption)?;
        Ok((message, options))
    }

    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.1.2
    //# The contents of the Reserved field, and of any unrecognized options, MUST be ignored.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
    //# The contents of the Reserved field, and of any unrecognized options, MUST be ignored.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.2
    //# The contents of the Reserved field, and of any unrecognized options, MUST be ignored.
    fn read(head: &[u8; 8], fixed: &[u8]) -> Self {
        let flag = |bit: u8| head[4] & bit != 0;
        match head[0] {
            ROUTER_ADVERTISEMENT => Self::RouterAdvertisement {
                hop_limit: head[4],
                managed: head[5] & 0x80 != 0,
                other: head[5] & 0x40 != 0,
                router_lifetime: u16::from_be_bytes([head[6], head[7]]),
                reachable_time: word_at(fixed, 8),
                retrans_timer: word_at(fixed, 12),
            },
            NEIGHBOUR_SOLICITATION => Self::NeighbourSolicitation {
                target: address_at(fixed, 8),
            },
            NEIGHBOUR_ADVERTISEMENT => Self::NeighbourAdvertisement {
                router: flag(0x80),
                solicited: flag(0x40),
                overriding: flag(0x20),
                target: address_at(fixed, 8),
            },
            REDIRECT => Self::Redirect {
                target: address_at(fixed, 8),
                destination: address_at(fixed, 24),
            },
            _ => Self::RouterSolicitation,
        }
    }

    /// Writes message and options with the checksum for these addresses, and returns the length;
    /// `None` when `out` is too small, which may then hold a part of it.
    #[must_use]
    pub fn emit(
        &self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        options: &[NdOption<'_>],
        out: &mut [u8],
    ) -> Option<usize> {
        let mut len = self.write_fixed(out)?;
        for option in options {
            len += option.emit(out.get_mut(len..)?)?;
        }
        icmpv6::set_checksum(src, dst, out.get_mut(..len)?)?;
        Some(len)
    }

    fn write_fixed(&self, out: &mut [u8]) -> Option<usize> {
        let kind = self.kind();
        let fixed = out.get_mut(..fixed_len(kind)?)?;
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.1
        //# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.2
        //# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
        //# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
        //# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.5
        //# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
        fixed.fill(0);
        let (head, rest) = fixed.split_first_chunk_mut::<8>()?;
        head[0] = kind;
        match self {
            Self::RouterSolicitation => {}
            Self::RouterAdvertisement {
                hop_limit,
                managed,
                other,
                router_lifetime,
                reachable_time,
                retrans_timer,
            } => {
                let [a, b] = router_lifetime.to_be_bytes();
                let flags = u8::from(*managed) << 7 | u8::from(*other) << 6;
                head[4..8].copy_from_slice(&[*hop_limit, flags, a, b]);
                let words = rest.first_chunk_mut::<8>()?;
                words[..4].copy_from_slice(&reachable_time.to_be_bytes());
                words[4..].copy_from_slice(&retrans_timer.to_be_bytes());
            }
            Self::NeighbourSolicitation { target } => {
                *rest.first_chunk_mut()? = target.octets();
            }
            Self::NeighbourAdvertisement {
                router,
                solicited,
                overriding,
                target,
            } => {
                head[4] =
                    u8::from(*router) << 7 | u8::from(*solicited) << 6 | u8::from(*overriding) << 5;
                *rest.first_chunk_mut()? = target.octets();
            }
            Self::Redirect {
                target,
                destination,
            } => {
                let (to, rest) = rest.split_first_chunk_mut()?;
                *to = target.octets();
                *rest.first_chunk_mut()? = destination.octets();
            }
        }
        Some(fixed.len())
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::RouterSolicitation => ROUTER_SOLICITATION,
            Self::RouterAdvertisement { .. } => ROUTER_ADVERTISEMENT,
            Self::NeighbourSolicitation { .. } => NEIGHBOUR_SOLICITATION,
            Self::NeighbourAdvertisement { .. } => NEIGHBOUR_ADVERTISEMENT,
            Self::Redirect { .. } => REDIRECT,
        }
    }

    const fn names_multicast(&self) -> bool {
        match self {
            Self::RouterSolicitation | Self::RouterAdvertisement { .. } => false,
            Self::NeighbourSolicitation { target }
            | Self::NeighbourAdvertisement { target, .. } => target.is_multicast(),
            Self::Redirect {
                target,
                destination,
            } => target.is_multicast() || destination.is_multicast(),
        }
    }
}

/// Bytes before the options.
const fn fixed_len(kind: u8) -> Option<usize> {
    match kind {
        ROUTER_SOLICITATION => Some(8),
        ROUTER_ADVERTISEMENT => Some(16),
        NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT => Some(24),
        REDIRECT => Some(40),
        _ => None,
    }
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |word| u32::from_be_bytes(*word))
}

/// An option of a neighbour discovery message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NdOption<'a> {
    /// Type 1: the sender's Ethernet address.
    SourceLinkAddress(MacAddr),
    /// Type 2: the target's Ethernet address.
    TargetLinkAddress(MacAddr),
    /// Type 3: a prefix for on-link determination and address configuration.
    Prefix(Prefix),
    /// Type 4: the packet that a redirect is about, cut to a multiple of 8 bytes.
    RedirectedHeader(&'a [u8]),
    /// Type 5: the link's MTU in bytes, as it came.
    Mtu(u32),
    /// Any other type, or one of these with a length or value that it cannot have. Not written.
    Unknown {
        /// The type field.
        kind: u8,
        /// What follows type and length.
        data: &'a [u8],
    },
}

/// Prefix information (RFC 4861 section 4.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// The prefix; bits beyond `len` are as they came.
    pub prefix: Ipv6Addr,
    /// Its valid leading bits, at most 128.
    pub len: u8,
    /// L: the prefix can be used for on-link determination.
    pub on_link: bool,
    /// A: the prefix can be used for address configuration (RFC 4862).
    pub autonomous: bool,
    /// Seconds for which the prefix is valid; all ones: for ever.
    pub valid_lifetime: u32,
    /// Seconds for which addresses made of it are preferred; all ones: for ever.
    pub preferred_lifetime: u32,
}

const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED_HEADER: u8 = 4;
const MTU: u8 = 5;

impl<'a> NdOption<'a> {
    /// Reads an option's type and what follows its length.
    fn read(kind: u8, data: &'a [u8]) -> Self {
        match (kind, data) {
            (SOURCE_LINK_ADDRESS, [a, b, c, d, e, f]) => {
                Self::SourceLinkAddress(MacAddr([*a, *b, *c, *d, *e, *f]))
            }
            (TARGET_LINK_ADDRESS, [a, b, c, d, e, f]) => {
                Self::TargetLinkAddress(MacAddr([*a, *b, *c, *d, *e, *f]))
            }
            (PREFIX, [len @ 0..=128, flags, ..]) if data.len() == 30 => Self::Prefix(Prefix {
                prefix: address_at(data, 14),
                len: *len,
                on_link: flags & 0x80 != 0,
                autonomous: flags & 0x40 != 0,
                valid_lifetime: word_at(data, 2),
                preferred_lifetime: word_at(data, 6),
            }),
            (REDIRECTED_HEADER, [_, _, _, _, _, _, packet @ ..]) => Self::RedirectedHeader(packet),
            (MTU, [_, _, _, _, _, _]) => Self::Mtu(word_at(data, 2)),
            //= https://www.rfc-editor.org/rfc/rfc4861#section-4.1
            //# Receivers MUST silently ignore any options they do not recognize and continue
            //# processing the message.
            //= https://www.rfc-editor.org/rfc/rfc4861#section-4.2
            //# Receivers MUST silently ignore any options they do not recognize and continue
            //# processing the message.
            //= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
            //# Receivers MUST silently ignore any options they do not recognize and continue
            //# processing the message.
            //= https://www.rfc-editor.org/rfc/rfc4861#section-4.4
            //# Receivers MUST silently ignore any options they do not recognize and continue
            //# processing the message.
            _ => Self::Unknown { kind, data },
        }
    }

    /// Writes the option and returns its length, a multiple of 8: 0 for `Unknown`; `None` (nothing
    /// written) when `out` is too small.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        match self {
            Self::SourceLinkAddress(mac) => emit_link_address(SOURCE_LINK_ADDRESS, *mac, out),
            Self::TargetLinkAddress(mac) => emit_link_address(TARGET_LINK_ADDRESS, *mac, out),
            Self::Prefix(prefix) => prefix.emit(out),
            Self::RedirectedHeader(packet) => {
                let packet = packet.get(..packet.len().min(MAX_QUOTE) & !7)?;
                let option = out.get_mut(..8 + packet.len())?;
                let (head, rest) = option.split_first_chunk_mut::<8>()?;
                *head = [
                    REDIRECTED_HEADER,
                    1 + (packet.len() / 8) as u8,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ];
                rest.copy_from_slice(packet);
                Some(8 + packet.len())
            }
            Self::Mtu(mtu) => {
                let b = out.first_chunk_mut::<8>()?;
                //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.4
                //# It MUST be initialized to zero by the sender and MUST be ignored by the
                //# receiver.
                b[..4].copy_from_slice(&[MTU, 1, 0, 0]);
                b[4..].copy_from_slice(&mtu.to_be_bytes());
                Some(8)
            }
            Self::Unknown { .. } => Some(0),
        }
    }
}

/// What an option of 255 times 8 bytes holds beside its head.
const MAX_QUOTE: usize = 254 * 8;

impl Prefix {
    fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let b = out.first_chunk_mut::<32>()?;
        let flags = u8::from(self.on_link) << 7 | u8::from(self.autonomous) << 6;
        b[..4].copy_from_slice(&[PREFIX, 4, self.len, flags]);
        b[4..8].copy_from_slice(&self.valid_lifetime.to_be_bytes());
        b[8..12].copy_from_slice(&self.preferred_lifetime.to_be_bytes());
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.2
        //# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
        //= https://www.rfc-editor.org/rfc/rfc4861#section-4.6.2
        //# It MUST be initialized to zero by the sender and MUST be ignored by the receiver.
        b[12..16].fill(0);
        b[16..32].copy_from_slice(&self.prefix.octets());
        Some(32)
    }
}

fn emit_link_address(kind: u8, mac: MacAddr, out: &mut [u8]) -> Option<usize> {
    let b = out.first_chunk_mut::<8>()?;
    b[..2].copy_from_slice(&[kind, 1]);
    b[2..].copy_from_slice(&mac.0);
    Some(8)
}

/// The options of a message, whose lengths were all found to be possible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options<'a> {
    bytes: &'a [u8],
}

impl<'a> Options<'a> {
    /// Checks the lengths of all options; `None` when one is 0 or reaches beyond the end, in which
    /// case RFC 4861 has the whole message discarded.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        // Each turn takes at least 8 bytes.
        while !rest.is_empty() {
            (_, rest) = split_option(rest)?;
        }
        Some(Self { bytes })
    }

    /// The sender's Ethernet address, when it is told: the first source link address.
    pub fn source_link_address(&self) -> Option<MacAddr> {
        self.clone().find_map(|option| match option {
            NdOption::SourceLinkAddress(mac) => Some(mac),
            _ => None,
        })
    }

    /// The target's Ethernet address, when it is told: the first target link address.
    pub fn target_link_address(&self) -> Option<MacAddr> {
        self.clone().find_map(|option| match option {
            NdOption::TargetLinkAddress(mac) => Some(mac),
            _ => None,
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = NdOption<'a>;

    //= https://www.rfc-editor.org/rfc/rfc4861#section-9
    //# In order to ensure that future extensions properly coexist with current implementations, all
    //# nodes MUST silently ignore any options they do not recognize in received ND packets and
    //# continue processing the packet.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-9
    //# A node MUST NOT ignore valid options just because the ND message contains unrecognized ones.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-9
    //# Receivers MUST silently ignore any options they do not recognize and continue processing the
    //# message.
    fn next(&mut self) -> Option<NdOption<'a>> {
        let (option, rest) = split_option(self.bytes)?;
        self.bytes = rest;
        match option {
            [kind, _, data @ ..] => Some(NdOption::read(*kind, data)),
            _ => None,
        }
    }
}

fn split_option(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = 8 * usize::from(*bytes.get(1)?);
    bytes.split_at_checked(len).filter(|_| len > 0)
}
