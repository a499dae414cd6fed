//! DHCP for IPv4 (RFC 2131) and its options (RFC 2132), both for Ethernet only.
//!
//! ```text
//! |op 1|htype 1|hlen 1|hops 1|xid 4|secs 2|flags 2|ciaddr 4|yiaddr 4|siaddr 4|giaddr 4|
//! |chaddr 16|sname 64|file 128|63 82 53 63|options ...|
//! ```
//!
//! Options may continue in `file` and `sname` (option 52, "overload"). All areas are walked once
//! when a message is parsed, so that a length beyond its area is an error of the whole message and
//! the iterator cannot fail. An option that comes several times is told several times (RFC 3396
//! would join them; no option that a client needs is so long).

use crate::MacAddr;
use core::net::Ipv4Addr;

/// The port that servers listen at.
pub const SERVER_PORT: u16 = 67;
/// The port that clients listen at.
pub const CLIENT_PORT: u16 = 68;

/// Bytes before the options: the fixed header and the magic cookie.
pub const HEADER_LEN: usize = 240;

/// The shortest message that is sent: BOOTP relays and servers want 300 bytes (RFC 1542 section
/// 2.1).
pub const MIN_LEN: usize = 300;

/// What every host must be able to receive (RFC 2131 section 2): 576 bytes of IP, so 548 of DHCP.
pub const MAX_LEN: usize = 548;

/// The fixed header. `sname` and `file` are not kept: options in them are among the options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// op: a message to a server (BOOTREQUEST), else to a client (BOOTREPLY).
    pub to_server: bool,
    /// Transaction id.
    pub xid: u32,
    /// Seconds since the client began.
    pub secs: u16,
    /// B: replies have to be broadcast.
    pub broadcast: bool,
    /// The client's address, while it may use it.
    pub ciaddr: Ipv4Addr,
    /// "Your" address: what the server gives.
    pub yiaddr: Ipv4Addr,
    /// The next server to use in bootstrap.
    pub siaddr: Ipv4Addr,
    /// The relay agent.
    pub giaddr: Ipv4Addr,
    /// The client's Ethernet address.
    pub chaddr: MacAddr,
}

/// Why bytes are not a DHCP message that we can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 240 bytes.
    Truncated,
    /// op is neither 1 nor 2.
    BadOperation,
    /// Not Ethernet addresses.
    BadHardwareType,
    /// No magic cookie: BOOTP, or nothing at all.
    BadCookie,
    /// An option reaches beyond its area.
    BadOption,
}

/// The kind of a message (option 53).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageType(pub u8);

impl MessageType {
    /// A client looks for servers.
    pub const DISCOVER: Self = Self(1);
    /// A server offers an address.
    pub const OFFER: Self = Self(2);
    /// A client asks for an address, or for more time.
    pub const REQUEST: Self = Self(3);
    /// A client found the address in use.
    pub const DECLINE: Self = Self(4);
    /// The server grants it.
    pub const ACK: Self = Self(5);
    /// The server refuses.
    pub const NAK: Self = Self(6);
    /// The client gives the address back.
    pub const RELEASE: Self = Self(7);
    /// A client with an address asks for the rest.
    pub const INFORM: Self = Self(8);
}

/// An option. Lists of addresses are given as their bytes; see [`addresses`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DhcpOption<'a> {
    /// 1.
    SubnetMask(Ipv4Addr),
    /// 3: routers, the preferred first.
    Routers(&'a [u8]),
    /// 6: name servers, the preferred first.
    DnsServers(&'a [u8]),
    /// 12: the client's name.
    HostName(&'a [u8]),
    /// 26: the interface's MTU in bytes, at least 68 as the RFC has it.
    Mtu(u16),
    /// 50: the address that the client wants.
    RequestedAddress(Ipv4Addr),
    /// 51: lease time in seconds; all ones: for ever.
    LeaseTime(u32),
    /// 53.
    MessageType(MessageType),
    /// 54: which server.
    ServerId(Ipv4Addr),
    /// 55: the options that the client wants.
    ParameterRequest(&'a [u8]),
    /// 56: what went wrong, in words.
    Message(&'a [u8]),
    /// 57: the longest message that the client takes.
    MaxMessageSize(u16),
    /// 58: T1 in seconds.
    RenewalTime(u32),
    /// 59: T2 in seconds.
    RebindingTime(u32),
    /// 61: who the client is.
    ClientId(&'a [u8]),
    /// Any other, or one of these with a length that it cannot have.
    Unknown {
        /// Its code.
        code: u8,
        /// Its data.
        data: &'a [u8],
    },
}

/// Codes for [`DhcpOption::ParameterRequest`].
pub mod code {
    /// Subnet mask.
    pub const SUBNET_MASK: u8 = 1;
    /// Routers.
    pub const ROUTERS: u8 = 3;
    /// Name servers.
    pub const DNS_SERVERS: u8 = 6;
    /// Interface MTU.
    pub const MTU: u8 = 26;
    /// Lease time.
    pub const LEASE_TIME: u8 = 51;
    /// T1.
    pub const RENEWAL_TIME: u8 = 58;
    /// T2.
    pub const REBINDING_TIME: u8 = 59;
}

const COOKIE: [u8; 4] = [99, 130, 83, 99];
const HARDWARE_ETHERNET: u8 = 1;
const SNAME: core::ops::Range<usize> = 44..108;
const FILE: core::ops::Range<usize> = 108..236;
const PAD: u8 = 0;
const OVERLOAD: u8 = 52;
const END: u8 = 255;

impl Header {
    /// Reads a message, which is the whole UDP payload, and its options.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, Options<'_>), ParseError> {
        let b = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(ParseError::Truncated)?;
        let to_server = match b[0] {
            1 => true,
            2 => false,
            _ => return Err(ParseError::BadOperation),
        };
        if (b[1], b[2]) != (HARDWARE_ETHERNET, 6) {
            return Err(ParseError::BadHardwareType);
        }
        if b[236..] != COOKIE {
            return Err(ParseError::BadCookie);
        }
        let address = |at: usize| {
            let octets = b.get(at..).and_then(|rest| rest.first_chunk::<4>());
            octets.map_or(Ipv4Addr::UNSPECIFIED, |octets| Ipv4Addr::from(*octets))
        };
        let header = Self {
            to_server,
            xid: u32::from_be_bytes([b[4], b[5], b[6], b[7]]),
            secs: u16::from_be_bytes([b[8], b[9]]),
            broadcast: b[10] & 0x80 != 0,
            ciaddr: address(12),
            yiaddr: address(16),
            siaddr: address(20),
            giaddr: address(24),
            chaddr: MacAddr([b[28], b[29], b[30], b[31], b[32], b[33]]),
        };
        let options = Options::parse(bytes).ok_or(ParseError::BadOption)?;
        Ok((header, options))
    }

    /// Writes a message with these options, padded to [`MIN_LEN`], and returns its length; `None`
    /// when `out` is too small, which may then hold a part of it.
    #[must_use]
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
    //# If the 'option overload' option is present in the 'options' field, the options in the
    //# 'options' field MUST be terminated by an 'end' option, and MAY contain one or more 'pad'
    //# options to fill the options field.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
    //# Any individual option in the 'options', 'sname' and 'file' fields MUST be entirely contained
    //# in that field.
    pub fn emit(&self, options: &[DhcpOption<'_>], out: &mut [u8]) -> Option<usize> {
        let (b, mut rest) = out.split_first_chunk_mut::<HEADER_LEN>()?;
        b.fill(0);
        b[0] = if self.to_server { 1 } else { 2 };
        (b[1], b[2]) = (HARDWARE_ETHERNET, 6);
        b[4..8].copy_from_slice(&self.xid.to_be_bytes());
        b[8..10].copy_from_slice(&self.secs.to_be_bytes());
        b[10] = u8::from(self.broadcast) << 7;
        b[12..16].copy_from_slice(&self.ciaddr.octets());
        b[16..20].copy_from_slice(&self.yiaddr.octets());
        b[20..24].copy_from_slice(&self.siaddr.octets());
        b[24..28].copy_from_slice(&self.giaddr.octets());
        b[28..34].copy_from_slice(&self.chaddr.0);
        b[236..].copy_from_slice(&COOKIE);
        let mut len = HEADER_LEN;
        for option in options {
            let written = option.emit(rest)?;
            len += written;
            rest = rest.get_mut(written..)?;
        }
        *rest.first_mut()? = END;
        len += 1;
        out.get_mut(len..MIN_LEN.max(len))?.fill(PAD);
        Some(len.max(MIN_LEN))
    }
}

/// The options of a message, found to lie within it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options<'a> {
    /// What is left to read, area by area.
    areas: [&'a [u8]; 3],
}

impl<'a> Options<'a> {
    /// Finds the areas and checks all lengths; `bytes` is the whole message.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
    //# The options in the 'options' field MUST be interpreted first, so that any 'option overload'
    //# options may be interpreted.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
    //# The 'file' field MUST be interpreted next (if the 'option overload' option indicates that
    //# the 'file' field contains DHCP options), followed by the 'sname' field.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let own = bytes.get(HEADER_LEN..)?;
        let overload = overload(own)?;
        let area = |wanted: bool, range| {
            let found: Option<&'a [u8]> = bytes.get(range).filter(|_| wanted);
            found.unwrap_or_default()
        };
        let file = area(overload & 1 != 0, FILE);
        let sname = area(overload & 2 != 0, SNAME);
        for more in [file, sname] {
            overload_ignored(more)?;
        }
        Some(Self {
            areas: [own, file, sname],
        })
    }

    /// The message type; `None` without one.
    pub fn message_type(&self) -> Option<MessageType> {
        self.clone().find_map(|option| match option {
            DhcpOption::MessageType(kind) => Some(kind),
            _ => None,
        })
    }

    /// The server's identifier; `None` without one.
    pub fn server_id(&self) -> Option<Ipv4Addr> {
        self.clone().find_map(|option| match option {
            DhcpOption::ServerId(server) => Some(server),
            _ => None,
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = DhcpOption<'a>;

    fn next(&mut self) -> Option<DhcpOption<'a>> {
        for area in &mut self.areas {
            match split_option(area) {
                Some(Some((code, data, rest))) => {
                    *area = rest;
                    return Some(DhcpOption::read(code, data));
                }
                Some(None) | None => *area = &[],
            }
        }
        None
    }
}

/// One option, and what follows it; `Some(None)`: the end; `None`: it reaches beyond the area.
#[expect(
    clippy::type_complexity,
    reason = "code, data, rest: a name would say no more"
)]
fn split_option(mut area: &[u8]) -> Option<Option<(u8, &[u8], &[u8])>> {
    // Each turn takes a byte.
    loop {
        match area {
            [] | [END, ..] => return Some(None),
            [PAD, rest @ ..] => area = rest,
            [code, len, rest @ ..] => {
                let (data, rest) = rest.split_at_checked(usize::from(*len))?;
                return Some(Some((*code, data, rest)));
            }
            [_] => return None,
        }
    }
}

/// Walks an area to its end; the value of its overload option, 0 without; `None` when an option
/// reaches beyond the area.
fn overload(mut area: &[u8]) -> Option<u8> {
    let mut found = 0;
    while let Some((code, data, rest)) = split_option(area)? {
        if let (OVERLOAD, [value @ 1..=3]) = (code, data) {
            found = *value;
        }
        area = rest;
    }
    Some(found)
}

/// As [`overload`], in an area that overload itself opened: it cannot open another.
fn overload_ignored(area: &[u8]) -> Option<()> {
    overload(area).map(|_| ())
}

impl<'a> DhcpOption<'a> {
    fn read(code: u8, data: &'a [u8]) -> Self {
        let unknown = Self::Unknown { code, data };
        let is_list = !data.is_empty() && data.len().is_multiple_of(4);
        match (code, data) {
            (3, list) if is_list => Self::Routers(list),
            (6, list) if is_list => Self::DnsServers(list),
            (12, name) if !name.is_empty() => Self::HostName(name),
            (55, codes) if !codes.is_empty() => Self::ParameterRequest(codes),
            (56, text) if !text.is_empty() => Self::Message(text),
            (61, id) if id.len() >= 2 => Self::ClientId(id),
            (53, [kind]) => Self::MessageType(MessageType(*kind)),
            (26 | 57, [a, b]) => {
                let value = u16::from_be_bytes([*a, *b]);
                if code == 26 {
                    Self::Mtu(value)
                } else {
                    Self::MaxMessageSize(value)
                }
            }
            (_, [a, b, c, d]) => {
                let address = Ipv4Addr::new(*a, *b, *c, *d);
                match code {
                    1 => Self::SubnetMask(address),
                    50 => Self::RequestedAddress(address),
                    54 => Self::ServerId(address),
                    51 => Self::LeaseTime(address.to_bits()),
                    58 => Self::RenewalTime(address.to_bits()),
                    59 => Self::RebindingTime(address.to_bits()),
                    _ => unknown,
                }
            }
            _ => unknown,
        }
    }

    /// Writes the option and returns its length; `None` when `out` is too small or the data are
    /// longer than 255 bytes.
    fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let mut word = |code: u8, value: u32| put(code, &value.to_be_bytes(), out);
        match *self {
            Self::SubnetMask(mask) => word(1, mask.to_bits()),
            Self::RequestedAddress(address) => word(50, address.to_bits()),
            Self::LeaseTime(seconds) => word(51, seconds),
            Self::ServerId(server) => word(54, server.to_bits()),
            Self::RenewalTime(seconds) => word(58, seconds),
            Self::RebindingTime(seconds) => word(59, seconds),
            Self::Routers(list) => put(3, list, out),
            Self::DnsServers(list) => put(6, list, out),
            Self::HostName(name) => put(12, name, out),
            Self::Mtu(mtu) => put(26, &mtu.to_be_bytes(), out),
            Self::MessageType(kind) => put(53, &[kind.0], out),
            Self::ParameterRequest(codes) => put(55, codes, out),
            Self::Message(text) => put(56, text, out),
            Self::MaxMessageSize(size) => put(57, &size.to_be_bytes(), out),
            Self::ClientId(id) => put(61, id, out),
            Self::Unknown { code, data } => put(code, data, out),
        }
    }
}

fn put(code: u8, data: &[u8], out: &mut [u8]) -> Option<usize> {
    let len = u8::try_from(data.len()).ok()?;
    let (head, rest) = out.split_first_chunk_mut::<2>()?;
    rest.get_mut(..data.len())?.copy_from_slice(data);
    *head = [code, len];
    Some(2 + data.len())
}

/// The addresses of a list option.
pub fn addresses(list: &[u8]) -> impl Iterator<Item = Ipv4Addr> + '_ {
    let (list, _) = list.as_chunks::<4>();
    list.iter().map(|octets| Ipv4Addr::from(*octets))
}
