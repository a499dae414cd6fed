//! Headers written, frames handed to a link.

use core::net::Ipv4Addr;

use gannet_base::Instant;
use gannet_link::{Driver, Endpoint, Frame, Full, Medium, Slot};
use gannet_wire::checksum::{self, Sum};
use gannet_wire::ipv4::{self, IpProtocol};

use super::path::{LinkHeader, NoRoute, Path};
use crate::link::{LinkId, Links};

/// The links of a host and the way to every destination.
pub struct Ip<D> {
    /// The links.
    pub links: Links<D>,
}

/// Whether a path's link header is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// `path.header` is set: send.
    Ready,
    /// The neighbour was asked; [`crate::Stack`] tells when it answers.
    Pending,
    /// The neighbour does not answer: host unreachable.
    Failed,
}

/// What the IP layer knows of a packet whose payload it hands up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it came in.
    pub link: LinkId,
    /// Its source.
    pub source: Ipv4Addr,
    /// Its destination: one of our addresses, or a broadcast.
    pub destination: Ipv4Addr,
    /// Type of service.
    pub tos: u8,
}

impl<D: Driver> Ip<D> {
    /// No links.
    pub const fn new() -> Self {
        Ip {
            links: Links::new(),
        }
    }

    /// The way to `destination`, from `source` if that is given.
    ///
    /// # Errors
    /// [`NoRoute`] when no link leads there, or none from `source`.
    pub fn path(&self, source: Option<Ipv4Addr>, destination: Ipv4Addr) -> Result<Path, NoRoute> {
        for (id, link) in self.links.iter() {
            let Some(own) = link.config.addresses.first() else {
                continue;
            };
            let fits = source.is_none_or(|s| s == own.address);
            if fits && link.config.peer.is_none_or(|p| p == destination) {
                let capabilities = link.endpoint.capabilities();
                let bare = capabilities.medium == Medium::Ip;
                return Ok(Path {
                    link: id,
                    source: own.address,
                    destination,
                    next_hop: destination,
                    mtu: capabilities.mtu,
                    header: bare.then_some(LinkHeader::NONE),
                });
            }
        }
        Err(NoRoute)
    }

    /// Finds the link header for `path`, asking the neighbour if need be.
    pub fn resolve(&mut self, _now: Instant, path: &mut Path) -> Resolution {
        match path.header {
            Some(_) => Resolution::Ready,
            None => Resolution::Failed,
        }
    }

    /// The endpoint of a link.
    #[inline]
    pub fn endpoint(&mut self, link: LinkId) -> Option<&mut Endpoint<D>> {
        self.links.get_mut(link).map(|l| &mut l.endpoint)
    }

    /// Starts a packet in `slot`: link and IPv4 header for `payload_len` bytes of payload behind the
    /// transport header of `transport_len` bytes, which is returned to be filled in, together with
    /// its offset in the slot. `None` when the headers do not fit, the packet would be longer than
    /// 65,535 bytes, or the path has no header yet.
    ///
    /// The slot must be empty (`Slot::clear`): ranges are pushed afterwards.
    pub fn write_header<'s>(
        &mut self,
        path: &Path,
        slot: &'s mut Slot,
        protocol: IpProtocol,
        transport_len: usize,
        payload_len: usize,
    ) -> Option<(&'s mut [u8], usize)> {
        let header = path.header?;
        let link_header = header.as_slice();
        let at = link_header.len() + ipv4::HEADER_LEN;
        let total = ipv4::HEADER_LEN + transport_len + payload_len;
        let head = slot.inline_mut(at + transport_len)?;
        let (link_part, rest) = head.split_at_mut_checked(link_header.len())?;
        link_part.copy_from_slice(link_header);
        let ip = ipv4::Header {
            tos: 0,
            total_len: u16::try_from(total).ok()?,
            ident: 0,
            reserved_flag: false,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            src: path.source,
            dst: path.destination,
            options: ipv4::OptionReport::default(),
        };
        ip.emit(rest)?;
        Some((rest.get_mut(ipv4::HEADER_LEN..)?, at))
    }

    /// Hands a finished frame to the path's link.
    ///
    /// # Errors
    /// [`Full`] when the link has no room now, or is gone.
    #[inline]
    pub fn send(&mut self, path: &Path, slot: &Slot) -> Result<(), Full> {
        self.endpoint(path.link).ok_or(Full)?.transmit(slot)
    }

    /// One's complement sum over what is left of `frame`, for verifying transport checksums.
    pub fn frame_sum(&mut self, link: LinkId, frame: &Frame) -> Sum {
        let mut sum = checksum::sum(frame.head());
        let mut odd = frame.head().len() % 2 == 1;
        let Some(endpoint) = self.endpoint(link) else {
            return sum;
        };
        for &range in frame.ranges() {
            sum = sum.combine(endpoint_sum(endpoint, range), odd);
            odd ^= range.len % 2 == 1;
        }
        sum
    }
}

impl<D: Driver> Ip<D> {
    /// Ours?
    pub fn is_local(&self, _a: Ipv4Addr) -> bool {
        true
    }
    /// Broadcast?
    pub fn is_broadcast(&self, _a: Ipv4Addr) -> bool {
        false
    }
    /// Path MTU.
    pub fn reduce_mtu(&mut self, _a: Ipv4Addr, m: u32, _n: Instant) -> u32 {
        m
    }
}
impl<D: Driver> Default for Ip<D> {
    fn default() -> Self {
        Self::new()
    }
}

/// Sum over a received range, in place when it is ours, else through a small buffer.
fn endpoint_sum<D: Driver>(endpoint: &Endpoint<D>, range: gannet_link::Range) -> Sum {
    if let Some(bytes) = endpoint.pool.bytes(range) {
        return checksum::sum(bytes);
    }
    let mut sum = Sum::new();
    let mut buffer = [0; 1024];
    let mut rest = range;
    while rest.len > 0 {
        let n = endpoint.read(rest, &mut buffer);
        let Some(bytes) = buffer.get(..n).filter(|b| !b.is_empty()) else {
            break;
        };
        sum.add_bytes(bytes);
        rest = rest.skip(n as u32);
    }
    sum
}
