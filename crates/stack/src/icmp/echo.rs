//! The echo server.

use gannet_base::Instant;
use gannet_link::{Arena, Driver, Endpoint, Frame, Range, Slot};
use gannet_wire::IpProtocol;
use gannet_wire::checksum::{self, Sum};
use gannet_wire::icmpv4::{self, Message};
use gannet_wire::icmpv6;

use crate::address;
use crate::counters::DropReason;
use crate::ip::{Ip, Packet, Parts, Path, Resolution};

/// Most ranges of an answer beside its headers (14 + 20 + 8 bytes inline).
const RANGES: usize = 8;

/// Bytes of an answer in blocks of the sending link.
struct Copy {
    ranges: [Range; RANGES],
    count: usize,
    sum: Sum,
}

/// Answers an echo request whose data is what is left of `frame`. The data is copied: the request's
/// blocks belong to the link it came by, the answer's to the link it leaves by.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.6
//# Every host MUST implement an ICMP Echo server function that receives Echo Requests and sends
//# corresponding Echo Replies.
pub(super) fn answer<D: Driver>(
    ip: &mut Ip<D>,
    now: Instant,
    packet: &Packet,
    (ident, seq): (u16, u16),
    frame: &Frame,
) -> Result<(), DropReason> {
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.6
    //# The IP source address in an ICMP Echo Reply MUST be the same as the specific-destination
    //# address (defined in Section 3.2.1.3) of the corresponding ICMP Echo Request message.
    //= https://www.rfc-editor.org/rfc/rfc8200#section-8.4
    //# When an upper-layer protocol sends one or more packets in response to a received packet that
    //# included a Routing header, the response packet(s) must not include a Routing header that was
    //# automatically derived by "reversing" the received Routing header UNLESS the integrity and
    //# authenticity of the received Source Address and Routing header have been verified (e.g., via
    //# the use of an Authentication header in the received packet).
    let path = ip.path(Some(packet.destination), packet.source);
    let mut path = path.map_err(|_| DropReason::NoRoute)?;
    let resolution = ip.resolve(now, &mut path);
    if resolution == Resolution::Failed {
        return Err(DropReason::NeighbourFailed);
    }
    if resolution == Resolution::Pending {
        path = ip.held_path(&path);
    }
    let len = frame.len();
    let mut slot = Slot::new();
    let copy = match copy_data(ip, packet, path.link, frame) {
        Some(copy) => copy,
        None => return Err(DropReason::NoMemory),
    };
    let Some(reply) = Reply::new(&path, (ident, seq), len, copy.sum) else {
        return Err(DropReason::NoMemory);
    };
    let ranges = copy.ranges.get(..copy.count).unwrap_or(&[]);
    let sent = if path.ip_header_len() + icmpv4::HEADER_LEN + len > path.mtu as usize {
        in_fragments(ip, (&path, resolution), &reply, ranges)
    } else {
        let (protocol, header_len) = (reply.protocol, reply.header.len());
        let header = ip.write_header(&path, &mut slot, protocol, header_len, len);
        let written = header.map(|(bytes, _)| bytes.copy_from_slice(&reply.header));
        let complete = written.is_some() && ranges.iter().all(|&r| slot.push_range(r));
        complete && send(ip, (&path, resolution), &slot)
    };
    if let Some(endpoint) = ip.endpoint(path.link) {
        for &range in ranges {
            endpoint.release(range);
        }
    }
    match sent {
        true => Ok(()),
        false if resolution == Resolution::Pending => Err(DropReason::NeighbourQueueFull),
        false => Err(DropReason::LinkFull),
    }
}

/// The header of a reply, complete with its checksum.
struct Reply {
    protocol: IpProtocol,
    header: [u8; icmpv4::HEADER_LEN],
}

impl Reply {
    /// For `len` bytes of data whose sum is `sum`.
    fn new(path: &Path, (ident, seq): (u16, u16), len: usize, sum: Sum) -> Option<Self> {
        let mut header = [0; icmpv4::HEADER_LEN];
        if path.destination.is_ipv4() {
            let protocol = IpProtocol::ICMP;
            Message::EchoReply { ident, seq }.emit(sum, &mut header)?;
            return Some(Reply { protocol, header });
        }
        let protocol = IpProtocol::ICMPV6;
        let total = (icmpv6::HEADER_LEN + len) as u32;
        let pseudo = address::pseudo(path.source, path.destination, protocol, total);
        let reply = icmpv6::Message::EchoReply { ident, seq };
        reply.emit(sum.combine(pseudo, false), &mut header)?;
        Some(Reply { protocol, header })
    }
}

/// Sends a reply of one packet, or keeps it until the neighbour answers.
fn send<D: Driver>(ip: &mut Ip<D>, (path, resolution): (&Path, Resolution), slot: &Slot) -> bool {
    match resolution {
        Resolution::Pending => ip.hold_answer(path, slot),
        _ => ip.send(path, slot).is_ok(),
    }
}

/// Sends a reply that is longer than the path's MTU.
fn in_fragments<D: Driver>(
    ip: &mut Ip<D>,
    how: (&Path, Resolution),
    reply: &Reply,
    payload: &[Range],
) -> bool {
    let parts = Parts {
        protocol: reply.protocol,
        transport: &reply.header,
        payload,
    };
    if how.1 == Resolution::Pending && !ip.holds_answers() {
        return false;
    }
    ip.send_in_fragments(how, how.0.mtu, &parts).is_ok()
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.6
//# Data received in an ICMP Echo Request MUST be entirely included in the resulting Echo Reply.
//= https://www.rfc-editor.org/rfc/rfc792
//# The data received in the echo message must be returned in the echo reply message.
fn copy_data<D: Driver>(
    ip: &mut Ip<D>,
    packet: &Packet,
    out: crate::link::LinkId,
    frame: &Frame,
) -> Option<Copy> {
    let mut copy = Copy {
        ranges: [Range::EMPTY; RANGES],
        count: 0,
        sum: Sum::new(),
    };
    let mut arena = Arena::new();
    let mut done = 0;
    let mut complete = true;
    while done < frame.len() {
        let range = ip
            .endpoint(out)
            .and_then(|e| e.pool.reserve_in(&mut arena, frame.len() - done));
        let (Some(range), Some(place)) = (range, copy.ranges.get_mut(copy.count)) else {
            if let (Some(range), Some(endpoint)) = (range, ip.endpoint(out)) {
                endpoint.release(range);
            }
            complete = false;
            break;
        };
        *place = range;
        copy.count += 1;
        let part = fill(ip, (packet.link, out), frame, done, range);
        copy.sum = copy.sum.combine(part, done % 2 == 1);
        done += range.len as usize;
    }
    let endpoint = ip.endpoint(out)?;
    endpoint.pool.close(&mut arena);
    if complete {
        return Some(copy);
    }
    for &range in copy.ranges.get(..copy.count).unwrap_or(&[]) {
        endpoint.release(range);
    }
    None
}

/// Fills `range` on link `to` with the bytes from `from` on of a frame of another (or the same)
/// link; their sum.
fn fill<D: Driver>(
    ip: &mut Ip<D>,
    (source, to): (crate::link::LinkId, crate::link::LinkId),
    frame: &Frame,
    from: usize,
    range: Range,
) -> Sum {
    let mut sum = Sum::new();
    let mut buffer = [0; 1024];
    let mut done = 0;
    while done < range.len as usize {
        let want = buffer.len().min(range.len as usize - done);
        let n = ip.endpoint(source).map_or(0, |e| {
            let part = buffer.get_mut(..want).unwrap_or(&mut []);
            peek_at(e, frame, from + done, part)
        });
        let bytes = buffer.get(..n).unwrap_or(&[]);
        let place = range.skip(done as u32).front(n as u32);
        let target = ip.endpoint(to).and_then(|e| e.pool.bytes_mut(place));
        let (Some(target), false) = (target, n == 0) else {
            break;
        };
        // 1,024 is even: only the last piece may be odd.
        sum = sum.combine(checksum::copy_and_sum(bytes, target), false);
        done += n;
    }
    sum
}

/// Copies bytes from position `from` on out of what is left of a frame.
fn peek_at<D: Driver>(endpoint: &Endpoint<D>, frame: &Frame, from: usize, out: &mut [u8]) -> usize {
    let head = frame.head().get(from..).unwrap_or(&[]);
    let mut n = head.len().min(out.len());
    if let (Some(to), Some(bytes)) = (out.get_mut(..n), head.get(..n)) {
        to.copy_from_slice(bytes);
    }
    let mut skip = from.saturating_sub(frame.head().len());
    for &range in frame.ranges() {
        let here = skip.min(range.len as usize);
        skip -= here;
        let rest = range.skip(here as u32);
        if let Some(to) = out.get_mut(n..).filter(|o| !o.is_empty() && rest.len > 0) {
            n += endpoint.read(rest, to);
        }
    }
    n
}
