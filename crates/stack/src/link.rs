//! The links of a host: endpoints with addresses.

use alloc::vec::Vec;
use core::net::IpAddr;

use gannet_link::{Arena, Driver, Endpoint, Pool};

/// One link of a host. Stays unique: a removed link's id is never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(u32);

impl LinkId {
    /// Its number.
    //= https://www.rfc-editor.org/rfc/rfc7217#section-5
    //# It MUST be different for each network interface simultaneously in use.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Its number as applications count links, from 1.
    pub(crate) const fn zone(self) -> u32 {
        self.0.wrapping_add(1)
    }
}

/// An address of ours on a link, with the length of its network prefix (0 to 32, or 128 for IPv6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// Our address.
    pub address: IpAddr,
    /// Leading bits that are the network's.
    pub prefix_len: u8,
}

/// What a host knows of a link that the driver does not.
#[derive(Clone, Debug, Default)]
pub struct LinkConfig {
    /// Our addresses on it. Packets to other addresses are not ours.
    //= https://www.rfc-editor.org/rfc/rfc791#section-2.3
    //# Care must be taken in mapping internet addresses to local net addresses; a single physical
    //# host must be able to act as if it were several distinct hosts to the extent of using several
    //# distinct internet addresses.
    //= https://www.rfc-editor.org/rfc/rfc791#section-2.3
    //# That is, provision must be made for a host to have several physical interfaces to the
    //# network with each having several logical internet addresses.
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.2
    //# The local address, assigned by the local network, must allow for a single physical host to
    //# act as several distinct internet hosts.
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.2
    //# That is, there must be a mapping between internet host addresses and network/host interfaces
    //# that allows several internet addresses to correspond to one interface.
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.2
    //# It must also be allowed for a host to have several physical interfaces and to treat the
    //# datagrams from several of them as if they were all addressed to a single host.
    pub addresses: Vec<LinkAddress>,
    /// The one host at the other end, when the link is a channel: only packets from it are taken,
    /// and packets to it go this way.
    pub peer: Option<IpAddr>,
    /// It leads back to this host: packets to any address of ours go this way, and loopback
    /// addresses are ours. At most one such link is used, the first. Its driver must bring back
    /// what is sent, and nothing else ([`gannet_link::LoopDriver`]).
    pub loopback: bool,
    /// The VLAN (IEEE 802.1Q, 1 to 4094) of an Ethernet: what leaves bears its tag, and nothing
    /// else is taken. `None`: no tags; those that only carry a priority are taken.
    pub vlan: Option<u16>,
    /// The driver lets only frames of that VLAN through, and has taken the tag off them.
    pub vlan_stripped: bool,
    /// No packet that we send is longer, bytes, nor are peers asked for any; `None`: as long
    /// as the link takes.
    pub mtu: Option<u32>,
}

/// An endpoint with its addresses.
pub struct Link<D> {
    /// Memory, rings and driver.
    pub endpoint: Endpoint<D>,
    /// Addresses.
    pub config: LinkConfig,
    /// Where small received payloads are moved, so that none of them pins a whole block.
    pub small: Arena,
    /// The other side is gone and everybody was told.
    pub(crate) gone: bool,
    /// Frames came in during this poll.
    pub(crate) heard: bool,
    /// Whether its memory runs short.
    pub(crate) pressure: Pressure,
    /// The largest packet that somebody on the link wants (DHCP), if below the driver's.
    pub(crate) mtu_limit: u32,
    /// Slots the driver took when nothing was under way: its capacity.
    pub(crate) capacity: usize,
}

/// How short memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Enough.
    #[default]
    None,
    /// Less than a quarter is free, and has not been more than three eighths since.
    Short,
    /// Less than a sixteenth is free, and has not been more than an eighth since.
    Critical,
}

impl Pressure {
    /// What the pool says, when it was `before`.
    pub(crate) fn of(pool: &Pool, before: Pressure) -> Self {
        let (free, all) = (pool.available(), pool.blocks());
        let below = |sixteenths: usize| free < all / 16 * sixteenths;
        match before {
            _ if below(1) => Pressure::Critical,
            Pressure::Critical if below(2) => Pressure::Critical,
            _ if below(4) => Pressure::Short,
            Pressure::Short | Pressure::Critical if below(6) => Pressure::Short,
            _ => Pressure::None,
        }
    }
}

/// All links, by id. Few: found by walking a short list whose last hit is tried first.
pub struct Links<D> {
    list: Vec<(LinkId, Link<D>)>,
    next: u32,
}

impl<D: Driver> Links<D> {
    /// None yet.
    pub const fn new() -> Self {
        Links {
            list: Vec::new(),
            next: 0,
        }
    }

    /// Adds a link.
    pub fn add(&mut self, mut endpoint: Endpoint<D>, config: LinkConfig) -> LinkId {
        let id = LinkId(self.next);
        self.next = self.next.wrapping_add(1);
        let capacity = endpoint.driver.room();
        let link = Link {
            endpoint,
            mtu_limit: config.mtu.unwrap_or(u32::MAX),
            config,
            small: Arena::new(),
            gone: false,
            heard: false,
            pressure: Pressure::None,
            capacity,
        };
        self.list.push((id, link));
        id
    }

    /// Removes a link.
    pub fn remove(&mut self, id: LinkId) -> Option<Link<D>> {
        let at = self.list.iter().position(|(i, _)| *i == id)?;
        Some(self.list.remove(at).1)
    }

    /// The link `id`.
    #[inline]
    pub fn get(&self, id: LinkId) -> Option<&Link<D>> {
        self.list.iter().find(|(i, _)| *i == id).map(|(_, l)| l)
    }

    /// The link `id`.
    #[inline]
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut Link<D>> {
        self.list.iter_mut().find(|(i, _)| *i == id).map(|(_, l)| l)
    }

    /// Number of links.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The link at position `index` of the list, with its id.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> Option<(LinkId, &mut Link<D>)> {
        self.list.get_mut(index).map(|(id, link)| (*id, link))
    }

    /// Every link.
    pub fn iter(&self) -> impl Iterator<Item = (LinkId, &Link<D>)> {
        self.list.iter().map(|(id, link)| (*id, link))
    }
}

impl<D: Driver> Default for Links<D> {
    fn default() -> Self {
        Self::new()
    }
}
