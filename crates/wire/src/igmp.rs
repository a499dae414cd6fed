//! IGMP: who wants which IPv4 groups (RFC 2236, RFC 3376; version 1 of RFC 1112 is read).
//!
//! Which addresses and hop count a message needs is the stack's to check and to set.

use crate::checksum;
use crate::group_record::{Records, ReportWriter, Sources, from_code_8};
use core::net::Ipv4Addr;
use core::time::Duration;

/// 224.0.0.1: general queries go here.
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// 224.0.0.2: version 2 leaves go here.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// 224.0.0.22: version 3 reports go here.
pub const ALL_V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);

/// Bytes of a message that names one group: everything but version 3.
pub const MESSAGE_LEN: usize = 8;

/// A message. What it holds of lists lies in the bytes that were parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Type 0x11: a router asks.
    Query(Query<'a>),
    /// Type 0x12: version 1.
    ReportV1 {
        /// The group that somebody is in.
        group: Ipv4Addr,
    },
    /// Type 0x16: version 2.
    ReportV2 {
        /// The group that somebody is in.
        group: Ipv4Addr,
    },
    /// Type 0x17: version 2.
    Leave {
        /// The group that somebody left.
        group: Ipv4Addr,
    },
    /// Type 0x22: version 3.
    ReportV3(Records<'a, Ipv4Addr>),
    /// Any other type.
    Other {
        /// The type field.
        kind: u8,
    },
}

/// The version of a query (RFC 3376 section 7.1: told by length and maximum response code).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// 8 bytes, maximum response code 0.
    V1,
    /// 8 bytes.
    V2,
    /// 12 bytes or more.
    V3,
}

/// A query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query<'a> {
    /// Its version.
    pub version: Version,
    /// The maximum response code as it came; [`Query::max_response`] says what it means.
    pub max_response_code: u8,
    /// The group asked for; 0.0.0.0: all.
    pub group: Ipv4Addr,
    /// S: routers are not to update their timers.
    pub suppress: bool,
    /// QRV: the querier's robustness variable, 0 when it is none or above 7.
    pub robustness: u8,
    /// QQIC: the code of the querier's query interval in seconds.
    pub interval_code: u8,
    /// The sources asked for; none: all.
    pub sources: Sources<'a, Ipv4Addr>,
}

/// Why bytes are not an IGMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 8 bytes, or a query of 9 to 11.
    Truncated,
    /// The checksum over the whole IP payload is wrong.
    BadChecksum,
    /// A list is longer than the message.
    BadList,
}

const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;

impl<'a> Message<'a> {
    /// Reads a message; `bytes` is the IP payload without padding, all of which the checksum
    /// covers.
    ///
    /// # Errors
    /// See [`ParseError`].
    //= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.2
    //# When receiving packets, the checksum MUST be verified before processing a message.
    //= https://www.rfc-editor.org/rfc/rfc2236#section-2.3
    //# When transmitting packets, the checksum MUST be computed and inserted into this field.
    //= https://www.rfc-editor.org/rfc/rfc2236#section-2.3
    //# When receiving packets, the checksum MUST be verified before processing a packet.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let b = bytes
            .first_chunk::<MESSAGE_LEN>()
            .ok_or(ParseError::Truncated)?;
        if checksum::sum(bytes).finish() != 0 {
            return Err(ParseError::BadChecksum);
        }
        let group = Ipv4Addr::new(b[4], b[5], b[6], b[7]);
        match b[0] {
            QUERY => Query::parse(bytes, group, b[1]).map(Self::Query),
            REPORT_V1 => Ok(Self::ReportV1 { group }),
            REPORT_V2 => Ok(Self::ReportV2 { group }),
            LEAVE => Ok(Self::Leave { group }),
            REPORT_V3 => Records::parse(bytes)
                .map(Self::ReportV3)
                .ok_or(ParseError::BadList),
            kind => Ok(Self::Other { kind }),
        }
    }
}

impl<'a> Query<'a> {
    //= https://www.rfc-editor.org/rfc/rfc3376#section-7.1
    //# Query messages that do not match any of the above conditions (e.g., a Query of length 10
    //# octets) MUST be silently ignored.
    fn parse(bytes: &'a [u8], group: Ipv4Addr, code: u8) -> Result<Self, ParseError> {
        let version = match (bytes.len(), code) {
            (MESSAGE_LEN, 0) => Version::V1,
            (MESSAGE_LEN, _) => Version::V2,
            _ => Version::V3,
        };
        let (head, sources): (&[u8; 4], &[u8]) = match version {
            Version::V1 | Version::V2 => (&[0; 4], &[]),
            Version::V3 => bytes
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

    /// How long answers may be delayed. Version 1 means 10 seconds.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-7.2.1
    //# This MUST be interpreted as a value of 100 (10 seconds).
    //= https://www.rfc-editor.org/rfc/rfc2236#section-4
    //# This MUST be interpreted as a value of 100 (10 seconds).
    pub fn max_response(&self) -> Duration {
        let tenths = match self.version {
            Version::V1 => 100,
            Version::V2 => u32::from(self.max_response_code),
            Version::V3 => from_code_8(self.max_response_code),
        };
        Duration::from_millis(u64::from(tenths) * 100)
    }

    /// The querier's query interval; `None` when it does not tell.
    pub fn interval(&self) -> Option<Duration> {
        (self.interval_code > 0).then(|| {
            let seconds = from_code_8(self.interval_code);
            Duration::from_secs(u64::from(seconds))
        })
    }
}

/// A message of versions 1 and 2 that hosts send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Old {
    /// Version 1 membership report.
    ReportV1,
    /// Version 2 membership report.
    ReportV2,
    /// Version 2 leave.
    Leave,
}

/// Writes a message of version 1 or 2 about `group`; `None` (nothing written) when `out` is shorter
/// than 8 bytes.
#[must_use]
pub fn emit_old(kind: Old, group: Ipv4Addr, out: &mut [u8]) -> Option<usize> {
    let kind = match kind {
        Old::ReportV1 => REPORT_V1,
        Old::ReportV2 => REPORT_V2,
        Old::Leave => LEAVE,
    };
    let b = out.first_chunk_mut::<MESSAGE_LEN>()?;
    *b = [kind, 0, 0, 0, 0, 0, 0, 0];
    b[4..].copy_from_slice(&group.octets());
    seal(b);
    Some(MESSAGE_LEN)
}

/// Ends a version 3 report and returns its length.
#[must_use]
pub fn finish_report(report: ReportWriter<'_, Ipv4Addr>) -> usize {
    let bytes = report.finish(REPORT_V3);
    seal(bytes);
    bytes.len()
}

/// Writes a query of version 3, or of version 2 when `sources` is `None`; `None` when `out` is too
/// small or the sources are too many. Hosts never send one: for tests and tools.
#[must_use]
pub fn emit_query(
    max_response_code: u8,
    group: Ipv4Addr,
    sources: Option<&[Ipv4Addr]>,
    out: &mut [u8],
) -> Option<usize> {
    let len = MESSAGE_LEN + sources.map_or(0, |sources| 4 + 4 * sources.len());
    let out = out.get_mut(..len)?;
    out.fill(0);
    let (head, rest) = out.split_first_chunk_mut::<MESSAGE_LEN>()?;
    (head[0], head[1]) = (QUERY, max_response_code);
    head[4..].copy_from_slice(&group.octets());
    if let Some(sources) = sources {
        // S clear, robustness 2, interval 125 s: the defaults of RFC 3376 section 8.
        let [a, b] = u16::try_from(sources.len()).ok()?.to_be_bytes();
        let (head, rest) = rest.split_first_chunk_mut::<4>()?;
        *head = [2, 125, a, b];
        for (to, source) in rest.chunks_exact_mut(4).zip(sources) {
            to.copy_from_slice(&source.octets());
        }
    }
    seal(out);
    Some(len)
}

/// Writes the checksum of a whole message.
fn seal(message: &mut [u8]) {
    let put = |message: &mut [u8], value: u16| {
        if let Some(field) = message.get_mut(2..4) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    };
    put(message, 0);
    let checksum = checksum::sum(message).finish();
    put(message, checksum);
}
