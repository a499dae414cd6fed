//! Multicast listeners of both families, and DHCP.

use crate::dhcpv4::{self, DhcpOption, MessageType};
use crate::group_record::{GroupAddress, RecordKind, Records, Sources};
use crate::{igmp, mld};
use core::fmt::{self, Formatter};

pub(super) fn write_igmp(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("IGMP ")?;
    match igmp::Message::parse(bytes) {
        Ok(igmp::Message::Query(query)) => {
            write!(f, "{:?} query {}", query.version, query.group)?;
            write_sources(f, query.sources.clone())?;
            write!(f, " within {:?}", query.max_response())
        }
        Ok(igmp::Message::ReportV1 { group }) => write!(f, "V1 report {group}"),
        Ok(igmp::Message::ReportV2 { group }) => write!(f, "V2 report {group}"),
        Ok(igmp::Message::Leave { group }) => write!(f, "V2 leave {group}"),
        Ok(igmp::Message::ReportV3(records)) => {
            f.write_str("V3 report")?;
            write_records(f, records)
        }
        Ok(igmp::Message::Other { kind }) => write!(f, "type {kind} length {}", bytes.len()),
        Err(error) => write!(f, "[{error:?}, {} bytes]", bytes.len()),
    }
}

pub(super) fn write_mld(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("MLD ")?;
    match mld::Message::parse(bytes) {
        Ok(mld::Message::Query(query)) => {
            write!(f, "{:?} query {}", query.version, query.group)?;
            write_sources(f, query.sources.clone())?;
            write!(f, " within {:?}", query.max_response())
        }
        Ok(mld::Message::ReportV1 { group }) => write!(f, "V1 report {group}"),
        Ok(mld::Message::Done { group }) => write!(f, "V1 done {group}"),
        Ok(mld::Message::ReportV2(records)) => {
            f.write_str("V2 report")?;
            write_records(f, records)
        }
        Err(error) => write!(f, "[{error:?}, {} bytes]", bytes.len()),
    }
}

fn write_records<A: GroupAddress>(f: &mut Formatter<'_>, records: Records<'_, A>) -> fmt::Result {
    for record in records {
        let kind = match record.kind {
            RecordKind::MODE_IS_INCLUDE => "is_in",
            RecordKind::MODE_IS_EXCLUDE => "is_ex",
            RecordKind::CHANGE_TO_INCLUDE => "to_in",
            RecordKind::CHANGE_TO_EXCLUDE => "to_ex",
            RecordKind::ALLOW_NEW_SOURCES => "allow",
            RecordKind::BLOCK_OLD_SOURCES => "block",
            _ => "unknown",
        };
        write!(f, ", {kind} {}", record.group)?;
        write_sources(f, record.sources)?;
    }
    Ok(())
}

fn write_sources<A: GroupAddress>(f: &mut Formatter<'_>, sources: Sources<'_, A>) -> fmt::Result {
    for (count, source) in sources.enumerate() {
        let lead = if count == 0 { " sources " } else { "," };
        write!(f, "{lead}{source}")?;
    }
    Ok(())
}

/// Behind the ports of a datagram from or to those of DHCP.
pub(super) fn write_dhcp(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let (header, options) = match dhcpv4::Header::parse(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return write!(f, " DHCP [{error:?}]"),
    };
    let kind = match options.message_type() {
        Some(MessageType::DISCOVER) => "discover",
        Some(MessageType::OFFER) => "offer",
        Some(MessageType::REQUEST) => "request",
        Some(MessageType::DECLINE) => "decline",
        Some(MessageType::ACK) => "ack",
        Some(MessageType::NAK) => "nak",
        Some(MessageType::RELEASE) => "release",
        Some(MessageType::INFORM) => "inform",
        _ => "message",
    };
    write!(f, " DHCP {kind} xid {:08x}", header.xid)?;
    if !header.ciaddr.is_unspecified() {
        write!(f, " of {}", header.ciaddr)?;
    }
    if !header.yiaddr.is_unspecified() {
        write!(f, " gives {}", header.yiaddr)?;
    }
    for option in options {
        match option {
            DhcpOption::RequestedAddress(address) => write!(f, " wants {address}")?,
            DhcpOption::ServerId(server) => write!(f, " server {server}")?,
            DhcpOption::LeaseTime(seconds) => write!(f, " lease {seconds} s")?,
            _ => {}
        }
    }
    Ok(())
}
