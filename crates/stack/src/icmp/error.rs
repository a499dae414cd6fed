//! ICMP errors that we send: nobody listens here; the fragments did not all come.
//!
//! No parameter problem is ever sent: what could be wrong with a header that is answered at all are
//! its options, and those would have to be quoted (CVE-2019-12256).

use core::net::IpAddr;

use gannet_base::Instant;
use gannet_link::{Driver, Frame, Slot};
use gannet_wire::checksum::Sum;
use gannet_wire::icmpv4::{self, Message, Unreachable};
use gannet_wire::{IpProtocol, checksum, icmpv6, ipv4};

use super::input::Icmp;
use crate::counters::DropReason;
use crate::ip::{Expired, Ip, Packet, Resolution};

/// Bytes of a packet that an error quotes at most.
//= https://www.rfc-editor.org/rfc/rfc1812#section-4.3.2.3
//# Therefore, the ICMP datagram SHOULD contain as much of the original datagram as possible without
//# the length of the ICMP datagram exceeding 576 bytes.
const QUOTE_MAX: usize = 576 - ipv4::HEADER_LEN - icmpv4::HEADER_LEN;
/// Code of a time exceeded message: while fragments were awaited.
const REASSEMBLY: u8 = 1;

/// The first bytes of the packet that an error is about.
struct Quote {
    bytes: [u8; QUOTE_MAX],
    len: usize,
}

//= https://www.rfc-editor.org/rfc/rfc6633#section-3
//# A host MUST NOT send ICMP Source Quench messages.
impl Icmp {
    /// Tells the sender of the packet that arrived last that nobody takes its protocol or port.
    /// `frame` is the packet's payload, and stays the caller's to release.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.5
    //# A host MUST be able to generate Destination Unreachable messages with the following codes:
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.8
    //# Wherever practical, hosts MUST return ICMP error datagrams on detection of an error, except
    //# in those cases where returning an ICMP error message is specifically prohibited.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.4
    //# The transport layer MUST be able to send certain ICMP messages: Port Unreachable or any of
    //# the query-type messages.
    pub(crate) fn unreachable<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        code: Unreachable,
        frame: &Frame,
    ) {
        if packet.source.is_ipv6() {
            return self.six_nobody(ip, now, packet, code, frame);
        }
        let Some(quote) = Quote::of_packet(ip, packet, frame) else {
            return;
        };
        let message = Message::DestinationUnreachable {
            code,
            next_hop_mtu: 0,
        };
        self.send(ip, now, packet, &message, &quote);
    }

    /// Tells the sender of a datagram that not all of its fragments came in time.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.2
    //# If this timeout expires, the partially-reassembled datagram MUST be discarded and an ICMP
    //# Time Exceeded message sent to the source host (if fragment zero has been received).
    pub(crate) fn fragments_missing<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        expired: &Expired,
    ) {
        let packet = Packet {
            link: expired.link,
            source: expired.source,
            destination: expired.destination,
            tos: 0,
        };
        if expired.source.is_ipv6() {
            let message = icmpv6::Message::TimeExceeded { code: REASSEMBLY };
            let quote = expired.quote();
            return self.send_six(ip, now, &packet, &message, (quote, false));
        }
        let quote = Quote::new(expired.quote(), |_| 0);
        let message = Message::TimeExceeded { code: REASSEMBLY };
        self.send(ip, now, &packet, &message, &quote);
    }

    fn send<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        about: &Packet,
        message: &Message,
        quote: &Quote,
    ) {
        if !may_answer(ip, about, quote.as_slice()) {
            return;
        }
        // What goes to ourselves floods nobody: unlimited, as Linux has it of its loopback.
        let limited = !ip.is_loopback(about.link);
        if limited && !self.limiter.allow(now, about.source) {
            ip.count_drop(DropReason::IcmpLimited);
            return;
        }
        if !send(ip, now, about, message, quote.as_slice()) {
            ip.count_drop(DropReason::LinkFull);
        }
    }
}

impl Quote {
    /// Of the packet that arrived last, of whose payload `frame` is left.
    fn of_packet<D: Driver>(ip: &mut Ip<D>, packet: &Packet, frame: &Frame) -> Option<Quote> {
        let head = ip.quote;
        let head = head.get(..ipv4::HEADER_LEN)?;
        let endpoint = ip.endpoint(packet.link)?;
        Some(Quote::new(head, |rest| endpoint.peek(frame, rest)))
    }

    /// `head` and what `fill` puts behind it.
    fn new(head: &[u8], fill: impl FnOnce(&mut [u8]) -> usize) -> Quote {
        let mut bytes = [0; QUOTE_MAX];
        let head = head.get(..QUOTE_MAX).unwrap_or(head);
        let mut len = 0;
        if let Some((to, rest)) = bytes.split_at_mut_checked(head.len()) {
            to.copy_from_slice(head);
            len = head.len() + fill(rest);
        }
        Quote { bytes, len }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
//# An ICMP error message MUST NOT be sent as the result of receiving:
/// Not about a broadcast (about ICMP errors we are never asked, about fragments only when the
/// first has come). And not about a packet with options: they would have to be quoted, and have
/// been the way into other stacks (CVE-2019-12256).
fn may_answer<D: Driver>(ip: &Ip<D>, packet: &Packet, quote: &[u8]) -> bool {
    let without_options = quote.first() == Some(&0x45);
    without_options && !is_icmp_error(quote) && ip.is_local(packet.destination)
}

/// Whether the quoted packet is an ICMP error itself; unknown types may be.
fn is_icmp_error(quote: &[u8]) -> bool {
    let protocol = quote.get(9).copied();
    let kind = quote.get(ipv4::HEADER_LEN).copied();
    let is_question = matches!(kind, Some(0 | 8));
    protocol == Some(IpProtocol::ICMP.0) && !is_question
}

fn send<D: Driver>(
    ip: &mut Ip<D>,
    now: Instant,
    about: &Packet,
    message: &Message,
    quote: &[u8],
) -> bool {
    let ends = (Some(about.destination), about.source);
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
    //# Every ICMP error message includes the Internet header and at least the first 8 data octets
    //# of the datagram that triggered the error; more than 8 octets MAY be sent; this header and
    //# data MUST be unchanged from the received datagram.
    send_quoting(ip, now, ends, IpProtocol::ICMP, quote, |sum, _, out| {
        message.emit(sum, out)
    })
}

/// Sends an error that quotes a packet: `emit` writes its first 8 bytes, given the sum of the quote
/// and both addresses. `false`: no room.
pub(super) fn send_quoting<D: Driver>(
    ip: &mut Ip<D>,
    now: Instant,
    (source, destination): (Option<IpAddr>, IpAddr),
    protocol: IpProtocol,
    quote: &[u8],
    emit: impl FnOnce(Sum, (IpAddr, IpAddr), &mut [u8]) -> Option<usize>,
) -> bool {
    let Ok(mut path) = ip.path(source, destination) else {
        return true;
    };
    let resolution = ip.resolve(now, &mut path);
    match resolution {
        Resolution::Ready => {}
        Resolution::Pending => path = ip.held_path(&path),
        Resolution::Failed => return true,
    }
    let mut slot = Slot::new();
    let len = icmpv4::HEADER_LEN;
    let header = ip.write_header(&path, &mut slot, protocol, len, quote.len());
    let Some((bytes, _)) = header else {
        return true;
    };
    let ends = (path.source, path.destination);
    if emit(checksum::sum(quote), ends, bytes).is_none() {
        return true;
    }
    let Some(link) = ip.links.get_mut(path.link) else {
        return true;
    };
    let pool = &mut link.endpoint.pool;
    let Some(range) = pool.reserve_whole(&mut link.small, quote.len()) else {
        return false;
    };
    if let Some(to) = pool.bytes_mut(range) {
        to.copy_from_slice(quote);
    }
    let sent = slot.push_range(range)
        && match resolution {
            Resolution::Pending => ip.hold_answer(&path, &slot),
            _ => ip.send(&path, &slot).is_ok(),
        };
    if let Some(endpoint) = ip.endpoint(path.link) {
        endpoint.release(range);
    }
    sent
}
