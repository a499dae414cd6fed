//! ICMP errors that we send: nobody listens here.

use gannet_base::Instant;
use gannet_link::{Driver, Slot};
use gannet_wire::icmpv4::{self, Message, Unreachable};
use gannet_wire::{IpProtocol, checksum};

use super::input::Icmp;
use crate::counters::DropReason;
use crate::ip::{Ip, Packet, QUOTE_LEN, Resolution};

impl Icmp {
    /// Tells the sender of the packet that arrived last that nobody takes its protocol or port.
    pub(crate) fn unreachable<D: Driver>(
        &mut self,
        ip: &mut Ip<D>,
        now: Instant,
        packet: &Packet,
        code: Unreachable,
    ) {
        let quote = ip.quote;
        if !may_answer(ip, packet, &quote) {
            return;
        }
        if !self.limiter.allow(now, packet.source) {
            ip.count_drop(DropReason::IcmpLimited);
            return;
        }
        let message = Message::DestinationUnreachable {
            code,
            next_hop_mtu: 0,
        };
        if !send(ip, now, packet, &message, &quote) {
            ip.count_drop(DropReason::LinkFull);
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
//# An ICMP error message MUST NOT be sent as the result of receiving:
/// Not about a broadcast (about fragments and ICMP errors we are never asked). And not about a
/// packet with options: they would have to be quoted, and have been the way into other stacks
/// (CVE-2019-12256).
fn may_answer<D: Driver>(ip: &Ip<D>, packet: &Packet, quote: &[u8; QUOTE_LEN]) -> bool {
    let without_options = quote.first() == Some(&0x45);
    without_options && ip.is_local(packet.destination)
}

fn send<D: Driver>(
    ip: &mut Ip<D>,
    now: Instant,
    about: &Packet,
    message: &Message,
    quote: &[u8; QUOTE_LEN],
) -> bool {
    let Ok(mut path) = ip.path(Some(about.destination), about.source) else {
        return true;
    };
    if ip.resolve(now, &mut path) != Resolution::Ready {
        // The packet came from there, so its sender is usually known. If not: errors are hints.
        return true;
    }
    let mut slot = Slot::new();
    let len = icmpv4::HEADER_LEN + QUOTE_LEN;
    let Some((bytes, _)) = ip.write_header(&path, &mut slot, IpProtocol::ICMP, len, 0) else {
        return true;
    };
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.8
    //# Every ICMP error message includes the Internet header and at least the first 8 data octets
    //# of the datagram that triggered the error; more than 8 octets MAY be sent; this header and
    //# data MUST be unchanged from the received datagram.
    let emitted = message.emit(checksum::sum(quote), bytes);
    if let (Some(at), Some(to)) = (emitted, bytes.get_mut(icmpv4::HEADER_LEN..)) {
        debug_assert_eq!(at, icmpv4::HEADER_LEN);
        to.copy_from_slice(quote);
    }
    ip.send(&path, &slot).is_ok()
}
