//! Datagrams longer than the path's MTU are sent in fragments, both families (RFC 791 section 2.3,
//! RFC 1122 section 3.3.5, RFC 8200 section 4.5).
//!
//! Nothing is copied: each fragment refers to its part of the payload where it lies. TCP never
//! comes here.

use core::net::IpAddr;

use gannet_link::{Driver, Full, Range, Slot};
use gannet_wire::extension::{self, FRAGMENT_LEN};
use gannet_wire::ipv4::{self, IpProtocol};
use gannet_wire::ipv6;

use super::layer::Ip;
use super::path::Path;
use super::select::Resolution;
use crate::counters::DropReason;

/// Bytes in the unit of fragment offsets.
const UNIT: usize = 8;

/// What is sent in fragments.
pub(crate) struct Parts<'a> {
    pub(crate) protocol: IpProtocol,
    /// The transport header, complete with its checksum: it leaves in the first fragment.
    pub(crate) transport: &'a [u8],
    /// What is behind it, in blocks of the path's link.
    pub(crate) payload: &'a [Range],
}

/// One fragment.
#[derive(Clone, Copy)]
struct Cut {
    ident: u32,
    /// Where it begins, in bytes.
    offset: usize,
    /// Bytes of it.
    len: usize,
    more: bool,
}

/// What is left of a payload.
struct Rest<'a> {
    ranges: &'a [Range],
    /// Bytes of the first range that are gone.
    done: u32,
}

impl<D: Driver> Ip<D> {
    /// Sends a datagram in fragments of at most `mtu` bytes; with a neighbour still being asked
    /// (`path` from [`Ip::held_path`]) they wait for it. How many fragments.
    ///
    /// # Errors
    /// [`Full`]: nothing was sent. When the link takes only some of them the datagram is lost, as
    /// on any wire, and counted.
    pub(crate) fn send_in_fragments(
        &mut self,
        (path, resolution): (&Path, Resolution),
        mtu: u32,
        what: &Parts<'_>,
    ) -> Result<u32, Full> {
        let total =
            what.transport.len() + what.payload.iter().map(|r| r.len as usize).sum::<usize>();
        let headers = match path.destination {
            IpAddr::V4(_) => ipv4::HEADER_LEN,
            IpAddr::V6(_) => ipv6::HEADER_LEN + FRAGMENT_LEN,
        };
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
        //# The lengths of the fragments must be chosen such that the resulting fragment packets fit
        //# within the MTU of the path to the packet's destination(s).
        //= https://www.rfc-editor.org/rfc/rfc791#section-2.3
        //# The data of the long datagram is divided into two portions on a 8 octet (64 bit)
        //# boundary (the second portion might not be an integral multiple of 8 octets, but the
        //# first must be).
        //= https://www.rfc-editor.org/rfc/rfc791#section-3.2
        //# If an internet datagram is fragmented, its data portion must be broken on 8 octet
        //# boundaries.
        let size = (mtu as usize).saturating_sub(headers) / UNIT * UNIT;
        if size <= what.transport.len() {
            return Err(Full);
        }
        let ident = self
            .idents
            .next(path.source, path.destination, what.protocol);
        let mut rest = Rest {
            ranges: what.payload,
            done: 0,
        };
        let mut offset = 0;
        let mut sent = 0;
        while offset < total {
            let len = size.min(total - offset);
            let cut = Cut {
                ident,
                offset,
                len,
                more: offset + len < total && !planted!(FragmentUnmarked),
            };
            let mut slot = Slot::new();
            let written = write(path, &mut slot, what, &cut, &mut rest);
            if written.is_none() || !self.send_one(path, resolution, &slot) {
                if sent == 0 {
                    return Err(Full);
                }
                self.count_drop(DropReason::LinkFull);
                return Ok(sent);
            }
            sent += 1;
            //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
            //# Fragments must not be created that overlap with any other fragments created from the
            //# original packet.
            //= https://www.rfc-editor.org/rfc/rfc5722#section-4
            //# IPv6 nodes transmitting datagrams that need to be fragmented MUST NOT create
            //# overlapping fragments.
            offset += len;
        }
        Ok(sent)
    }

    /// Sends or holds one fragment. A full link is asked to hand over what it has first.
    fn send_one(&mut self, path: &Path, resolution: Resolution, slot: &Slot) -> bool {
        if resolution == Resolution::Pending {
            self.hold(path, slot);
            return true;
        }
        if self.send(path, slot).is_ok() {
            return true;
        }
        if let Some(endpoint) = self.endpoint(path.link) {
            endpoint.flush();
            endpoint.reclaim();
        }
        self.send(path, slot).is_ok()
    }
}

/// Writes one fragment into an empty slot.
fn write(
    path: &Path,
    slot: &mut Slot,
    what: &Parts<'_>,
    cut: &Cut,
    rest: &mut Rest<'_>,
) -> Option<()> {
    let header = path.header?;
    let link_header = header.as_slice();
    //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
    //# These headers must be in the first fragment.
    let transport = match cut.offset {
        0 => what.transport,
        _ => &[],
    };
    let ip_len = match path.destination {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN + FRAGMENT_LEN,
    };
    let head = slot.inline_mut(link_header.len() + ip_len + transport.len())?;
    let (link_part, head) = head.split_at_mut_checked(link_header.len())?;
    link_part.copy_from_slice(link_header);
    let (ip, behind) = head.split_at_mut_checked(ip_len)?;
    behind.copy_from_slice(transport);
    match (path.source, path.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = ipv4::Header {
                tos: path.tos,
                total_len: u16::try_from(ip_len + cut.len).ok()?,
                ident: cut.ident as u16,
                reserved_flag: false,
                //= https://www.rfc-editor.org/rfc/rfc6864#section-4.3
                //# >> IPv4 datagrams whose DF=1 MUST NOT be fragmented.
                dont_fragment: false,
                more_fragments: cut.more,
                fragment_offset: u16::try_from(cut.offset / UNIT).ok()?,
                ttl: path.ttl.max(1),
                protocol: what.protocol,
                src: source,
                dst: destination,
                options: ipv4::OptionReport::default(),
            };
            header.emit(ip)?;
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
            //# The Per-Fragment headers must consist of the IPv6 header plus any extension headers
            //# that must be processed by nodes en route to the destination, that is, all headers up
            //# to and including the Routing header if present, else the Hop-by-Hop Options header
            //# if present, else no extension headers.
            let (base, fragment) = ip.split_at_mut_checked(ipv6::HEADER_LEN)?;
            let header = ipv6::Header {
                traffic_class: path.tos,
                flow_label: 0,
                payload_len: u16::try_from(FRAGMENT_LEN + cut.len).ok()?,
                next_header: IpProtocol::FRAGMENT,
                hop_limit: path.ttl.max(1),
                src: source,
                dst: destination,
            };
            header.emit(base)?;
            let header = extension::Fragment {
                next_header: what.protocol,
                offset: u16::try_from(cut.offset / UNIT).ok()?,
                more: cut.more,
                ident: cut.ident,
            };
            header.emit(fragment)?;
        }
        _ => return None,
    }
    rest.push(slot, cut.len - transport.len())
}

impl Rest<'_> {
    /// Appends the next `len` bytes to the slot.
    fn push(&mut self, slot: &mut Slot, len: usize) -> Option<()> {
        let mut left = u32::try_from(len).ok()?;
        while left > 0 {
            let (first, later) = self.ranges.split_first()?;
            let part = first.skip(self.done).front(left);
            if part.len > 0 && !slot.push_range(part) {
                return None;
            }
            left -= part.len;
            self.done += part.len;
            if self.done >= first.len {
                (self.ranges, self.done) = (later, 0);
            }
        }
        Some(())
    }
}
