//! What IGMPv3 (RFC 3376) and MLDv2 (RFC 3810) have in common: reports made of group records, lists
//! of source addresses, and times in a floating-point code. The two differ only in the length of an
//! address.
//!
//! ```text
//! report   |type|0|checksum|0 0|number of records|records ...|
//! record   |type|length of auxiliary data / 4|number of sources|group|sources ...|auxiliary|
//! ```

use core::marker::PhantomData;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of a report before its first record.
pub const REPORT_HEADER_LEN: usize = 8;

/// An address as group records hold it: IPv4 or IPv6.
pub trait GroupAddress: Copy + Eq + Ord + core::fmt::Debug + core::fmt::Display {
    /// Its bytes.
    const LEN: usize;

    /// Reads it from the first [`GroupAddress::LEN`] bytes; `None` when there are fewer.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// Writes it to the first [`GroupAddress::LEN`] bytes; `None` when there are fewer.
    #[must_use]
    fn write(self, out: &mut [u8]) -> Option<()>;
}

impl GroupAddress for Ipv4Addr {
    const LEN: usize = 4;

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk::<4>().map(|b| Self::from(*b))
    }

    fn write(self, out: &mut [u8]) -> Option<()> {
        *out.first_chunk_mut()? = self.octets();
        Some(())
    }
}

impl GroupAddress for Ipv6Addr {
    const LEN: usize = 16;

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk::<16>().map(|b| Self::from(*b))
    }

    fn write(self, out: &mut [u8]) -> Option<()> {
        *out.first_chunk_mut()? = self.octets();
        Some(())
    }
}

/// The type of a group record (RFC 3376 section 4.2.12, RFC 3810 section 5.2.12).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordKind(pub u8);

impl RecordKind {
    /// The filter is INCLUDE: only these sources are wanted.
    pub const MODE_IS_INCLUDE: Self = Self(1);
    /// The filter is EXCLUDE: all sources but these are wanted.
    pub const MODE_IS_EXCLUDE: Self = Self(2);
    /// The filter has become INCLUDE.
    pub const CHANGE_TO_INCLUDE: Self = Self(3);
    /// The filter has become EXCLUDE.
    pub const CHANGE_TO_EXCLUDE: Self = Self(4);
    /// These sources are wanted in addition.
    pub const ALLOW_NEW_SOURCES: Self = Self(5);
    /// These sources are wanted no longer.
    pub const BLOCK_OLD_SOURCES: Self = Self(6);

    /// Whether the type is one of the six: others are ignored.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.12
    //# Unrecognized Record Type values MUST be silently ignored.
    pub const fn is_known(self) -> bool {
        matches!(self.0, 1..=6)
    }
}

/// A list of addresses as it lies in a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sources<'a, A> {
    bytes: &'a [u8],
    address: PhantomData<A>,
}

impl<'a, A: GroupAddress> Sources<'a, A> {
    /// `count` addresses at the start of `bytes`, and what follows them; `None` when there are
    /// fewer.
    pub(crate) fn split(bytes: &'a [u8], count: u16) -> Option<(Self, &'a [u8])> {
        let (list, rest) = bytes.split_at_checked(usize::from(count) * A::LEN)?;
        let list = Self {
            bytes: list,
            address: PhantomData,
        };
        Some((list, rest))
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.bytes.len() / A::LEN
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl<A: GroupAddress> Iterator for Sources<'_, A> {
    type Item = A;

    fn next(&mut self) -> Option<A> {
        let address = A::read(self.bytes)?;
        self.bytes = self.bytes.get(A::LEN..).unwrap_or_default();
        Some(address)
    }
}

/// One record of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record<'a, A> {
    /// What it says.
    pub kind: RecordKind,
    /// About which group.
    pub group: A,
    /// And which sources.
    pub sources: Sources<'a, A>,
}

/// The records of a report, all found to lie within it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Records<'a, A> {
    bytes: &'a [u8],
    left: u16,
    address: PhantomData<A>,
}

impl<'a, A: GroupAddress> Records<'a, A> {
    /// The records of a whole report; `None` when one reaches beyond its end.
    pub(crate) fn parse(report: &'a [u8]) -> Option<Self> {
        let (head, bytes) = report.split_first_chunk::<REPORT_HEADER_LEN>()?;
        let left = u16::from_be_bytes([head[6], head[7]]);
        let mut rest = bytes;
        // Each turn takes at least 8 bytes.
        for _ in 0..left {
            (_, rest) = split_record::<A>(rest)?;
        }
        let address = PhantomData;
        Some(Self {
            bytes,
            left,
            address,
        })
    }
}

impl<'a, A: GroupAddress> Iterator for Records<'a, A> {
    type Item = Record<'a, A>;

    fn next(&mut self) -> Option<Record<'a, A>> {
        self.left = self.left.checked_sub(1)?;
        let (record, rest) = split_record(self.bytes)?;
        self.bytes = rest;
        Some(record)
    }
}

fn split_record<A: GroupAddress>(bytes: &[u8]) -> Option<(Record<'_, A>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    let group = A::read(rest)?;
    let count = u16::from_be_bytes([head[2], head[3]]);
    let (sources, rest) = Sources::split(rest.get(A::LEN..)?, count)?;
    let rest = rest.get(4 * usize::from(head[1])..)?;
    let kind = RecordKind(head[0]);
    let record = Record {
        kind,
        group,
        sources,
    };
    Some((record, rest))
}

/// Writes a report record by record. Type and checksum are the protocol's to fill in.
#[derive(Debug)]
pub struct ReportWriter<'a, A> {
    out: &'a mut [u8],
    len: usize,
    records: u16,
    address: PhantomData<A>,
}

impl<'a, A: GroupAddress> ReportWriter<'a, A> {
    /// A report without records; `None` when `out` is shorter than 8 bytes.
    pub fn new(out: &'a mut [u8]) -> Option<Self> {
        *out.first_chunk_mut()? = [0; REPORT_HEADER_LEN];
        Some(Self {
            out,
            len: REPORT_HEADER_LEN,
            records: 0,
            address: PhantomData,
        })
    }

    /// How many sources fit into a record that is pushed now; `None` when not even a record
    /// without sources does.
    pub fn room(&self) -> Option<usize> {
        let rest = self.out.len().checked_sub(self.len + 4 + A::LEN)?;
        Some((rest / A::LEN).min(usize::from(u16::MAX)))
    }

    /// Appends a record; `false` (nothing written) when it does not fit.
    //= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.10
    //# Therefore, implementations of MLDv2 MUST NOT include any auxiliary data (i.e., MUST set the
    //# Aux Data Len field to zero) in any transmitted Multicast Address Record, and MUST ignore any
    //# such data present in any received Multicast Address Record.
    //= https://www.rfc-editor.org/rfc/rfc3810#section-5.2.11
    //# When sending a Report, an MLDv2 implementation MUST NOT include additional octets beyond the
    //# last Multicast Address Record.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.10
    //# Therefore, implementations of IGMPv3 MUST NOT include any auxiliary data (i.e., MUST set the
    //# Aux Data Len field to zero) in any transmitted Group Record, and MUST ignore any auxiliary
    //# data present in any received Group Record.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.11
    //# When sending a Report, an IGMPv3 implementation MUST NOT include additional octets beyond
    //# the last Group Record.
    pub fn push(&mut self, kind: RecordKind, group: A, sources: &[A]) -> bool {
        if self.records == u16::MAX || self.room().is_none_or(|room| room < sources.len()) {
            return false;
        }
        let [a, b] = (sources.len() as u16).to_be_bytes();
        let rest = self.out.get_mut(self.len..).unwrap_or_default();
        let Some((head, mut rest)) = rest.split_first_chunk_mut() else {
            return false;
        };
        *head = [kind.0, 0, a, b];
        let mut len = head.len();
        for address in core::iter::once(&group).chain(sources) {
            if address.write(rest).is_none() {
                return false;
            }
            rest = rest.get_mut(A::LEN..).unwrap_or_default();
            len += A::LEN;
        }
        self.len += len;
        self.records += 1;
        true
    }

    /// Records so far.
    pub const fn records(&self) -> u16 {
        self.records
    }

    /// The report's bytes, with the number of records.
    pub(crate) fn finish(self, kind: u8) -> &'a mut [u8] {
        let report = self.out.get_mut(..self.len).unwrap_or_default();
        if let Some(head) = report.first_chunk_mut::<REPORT_HEADER_LEN>() {
            head[0] = kind;
            head[6..].copy_from_slice(&self.records.to_be_bytes());
        }
        report
    }
}

/// What an 8-bit code of IGMPv3 or MLDv2 stands for (RFC 3376 sections 4.1.1 and 4.1.7): below 128
/// itself, else a mantissa of 4 bits and an exponent of 3.
pub const fn from_code_8(code: u8) -> u32 {
    match code {
        0..=127 => code as u32,
        _ => (code as u32 & 0xf | 0x10) << ((code >> 4 & 7) + 3),
    }
}

/// What a 16-bit code of MLDv2 stands for (RFC 3810 section 5.1.3): below 32,768 itself, else a
/// mantissa of 12 bits and an exponent of 3.
pub const fn from_code_16(code: u16) -> u32 {
    match code {
        0..=0x7fff => code as u32,
        _ => (code as u32 & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
    }
}
