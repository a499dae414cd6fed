//! Multicast listener discovery: who wants which IPv6 groups (RFC 2710, RFC 3810). ICMPv6 messages,
//! so their checksum covers the pseudo header.
//!
//! Which addresses, hop limit (1) and options (router alert) a packet needs is the stack's to check
//! and to set.

use crate::group_record::{Records, ReportWriter, Sources, from_code_8, from_code_16};
use crate::icmpv6;
use crate::ipv6::address_at;
use core::net::Ipv6Addr;
use core::time::Duration;

/// ff02::16: version 2 reports go here.
pub const ALL_V2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Bytes of a message that names one group: everything but version 2.
pub const MESSAGE_LEN: usize = 24;

/// A message. What it holds of lists lies in the bytes that were parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Type 130: a router asks.
    Query(Query<'a>),
    /// Type 131: version 1.
    ReportV1 {
        /// The group that somebody listens to.
        group: Ipv6Addr,
    },
    /// Type 132: version 1.
    Done {
        /// The group that somebody no longer listens to.
        group: Ipv6Addr,
    },
    /// Type 143: version 2.
    ReportV2(Records<'a, Ipv6Addr>),
}

/// The version of a query (RFC 3810 section 8.1: told by length).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// 24 bytes.
    V1,
    /// 28 bytes or more.
    V2,
}

/// A query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query<'a> {
    /// Its version.
    pub version: Version,
    /// The maximum response code as it came; [`Query::max_response`] says what it means.
    pub max_response_code: u16,
    /// The group asked for; ::, all.
    pub group: Ipv6Addr,
    /// S: routers are not to update their timers.
    pub suppress: bool,
    /// QRV: the querier's robustness variable, 0 when it is none or above 7.
    pub robustness: u8,
    /// QQIC: the code of the querier's query interval in seconds.
    pub interval_code: u8,
    /// The sources asked for; none: all.
    pub sources: Sources<'a, Ipv6Addr>,
}

/// Why bytes are not an MLD message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Shorter than the message's fixed part, or a query of 25 to 27 bytes.
    Truncated,
    /// Another ICMPv6 message.
    OtherType,
    /// A list is longer than the message.
    BadList,
}

const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;

impl<'a> Message<'a> {
    /// Whether an ICMPv6 type is one of these messages.
    pub const fn is_type(kind: u8) -> bool {
        matches!(kind, QUERY | REPORT_V1 | DONE | REPORT_V2)
    }

    /// Reads an ICMPv6 message from its type on. The checksum is not verified.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let kind = *bytes.first().ok_or(ParseError::Truncated)?;
        if kind == REPORT_V2 {
            if bytes.len() < crate::group_record::REPORT_HEADER_LEN {
                return Err(ParseError::Truncated);
            }
            let records = Records::parse(bytes).ok_or(ParseError::BadList)?;
            return Ok(Self::ReportV2(records));
        }
        if !Self::is_type(kind) {
            return Err(ParseError::OtherType);
        }
        let b = bytes
            .first_chunk::<MESSAGE_LEN>()
            .ok_or(ParseError::Truncated)?;
        let group = address_at(b, 8);
        match kind {
            REPORT_V1 => Ok(Self::ReportV1 { group }),
            DONE => Ok(Self::Done { group }),
            _ => {
                let code = u16::from_be_bytes([b[4], b[5]]);
                Query::parse(bytes, group, code).map(Self::Query)
            }
        }
    }
}

impl<'a> Query<'a> {
    //= https://www.rfc-editor.org/rfc/rfc3810#section-8.1
    //# Query messages that do not match any of the above conditions (e.g., a Query of length 26
    //# octets) MUST be silently ignored.
    fn parse(bytes: &'a [u8], group: Ipv6Addr, code: u16) -> Result<Self, ParseError> {
        let version = match bytes.len() {
            MESSAGE_LEN => Version::V1,
            _ => Version::V2,
        };
        let (head, sources): (&[u8; 4], &[u8]) = match version {
            Version::V1 => (&[0; 4], &[]),
            Version::V2 => bytes
                .get(MESSAGE_LEN..)
                .and_then(|rest| rest.split_first_chunk())
                .ok_or(ParseError::Truncated)?,
        };
        let count = u16::from_be_bytes([head[2], head[3]]);
        let (sources, _) = Sources::split(sources, count).ok_or(ParseError::BadList)?;
        Ok(Self {
            version,
            max_response_code: code,
            group,
            suppress: head[0] & 8 != 0,
            robustness: head[0] & 7,
            interval_code: head[1],
            sources,
        })
    }

    /// How long answers may be delayed.
    pub fn max_response(&self) -> Duration {
        let milliseconds = match self.version {
            Version::V1 => u32::from(self.max_response_code),
            Version::V2 => from_code_16(self.max_response_code),
        };
        Duration::from_millis(u64::from(milliseconds))
    }

    /// The querier's query interval; `None` when it does not tell.
    pub fn interval(&self) -> Option<Duration> {
        (self.interval_code > 0).then(|| {
            let seconds = from_code_8(self.interval_code);
            Duration::from_secs(u64::from(seconds))
        })
    }
}

/// A message of version 1 that hosts send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Old {
    /// Multicast listener report.
    Report,
    /// Multicast listener done.
    Done,
}

/// Writes a message of version 1 about `group` with the checksum for these addresses; `None`
/// (nothing written) when `out` is shorter than 24 bytes.
#[must_use]
pub fn emit_old(
    kind: Old,
    group: Ipv6Addr,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    out: &mut [u8],
) -> Option<usize> {
    let b = out.first_chunk_mut::<MESSAGE_LEN>()?;
    b.fill(0);
    b[0] = match kind {
        Old::Report => REPORT_V1,
        Old::Done => DONE,
    };
    b[8..].copy_from_slice(&group.octets());
    icmpv6::set_checksum(src, dst, b)?;
    Some(MESSAGE_LEN)
}

/// Ends a version 2 report with the checksum for these addresses and returns its length.
#[must_use]
pub fn finish_report(
    report: ReportWriter<'_, Ipv6Addr>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
) -> usize {
    let bytes = report.finish(REPORT_V2);
    // There is room for a checksum in every report.
    let _ = icmpv6::set_checksum(src, dst, bytes);
    bytes.len()
}

/// Writes a query of version 2, or of version 1 when `sources` is `None`; `None` when `out` is too
/// small or the sources are too many. Hosts never send one: for tests and tools.
#[must_use]
pub fn emit_query(
    max_response_code: u16,
    group: Ipv6Addr,
    sources: Option<&[Ipv6Addr]>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    out: &mut [u8],
) -> Option<usize> {
    let len = MESSAGE_LEN + sources.map_or(0, |sources| 4 + 16 * sources.len());
    let out = out.get_mut(..len)?;
    out.fill(0);
    let (head, rest) = out.split_first_chunk_mut::<MESSAGE_LEN>()?;
    head[0] = QUERY;
    head[4..6].copy_from_slice(&max_response_code.to_be_bytes());
    head[8..].copy_from_slice(&group.octets());
    if let Some(sources) = sources {
        // S clear, robustness 2, interval 125 s: the defaults of RFC 3810 section 9.
        let [a, b] = u16::try_from(sources.len()).ok()?.to_be_bytes();
        let (head, rest) = rest.split_first_chunk_mut::<4>()?;
        *head = [2, 125, a, b];
        for (to, source) in rest.chunks_exact_mut(16).zip(sources) {
            to.copy_from_slice(&source.octets());
        }
    }
    icmpv6::set_checksum(src, dst, out)?;
    Some(len)
}
