//! Where a host is: the network's name, its link, its address. Texts are checked here, what they
//! name is looked for where it is used.

use super::value::{BadValue, bad};
use crate::address::unusable;
use gannet_stack::address::bits;
use std::net::IpAddr;

/// What a host is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkChoice {
    /// Other processes of this user, over shared memory.
    Channel,
    /// The network interface of that name, beside the kernel.
    Packet(String),
    /// A TAP device of that name, with the kernel at its other end.
    Tap(String),
}

/// The address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A free one, whichever.
    Auto,
    /// What a DHCP server gives.
    Dhcp,
    /// This one, with the length of its network's prefix. Where the text had none: 24 for IPv4, 64
    /// for IPv6.
    Fixed(IpAddr, u8),
}

/// The neighbour that leads to everything which no link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// The router that a DHCP server names, where the address is a lease; otherwise none.
    Auto,
    /// None: only neighbours are reached.
    None,
    /// The router of the link: the one that the kernel uses there, or one that advertises itself
    /// (IPv6).
    Link,
    /// This one.
    At(IpAddr),
}

/// Bytes in the longest name of an interface (IFNAMSIZ without the zero).
const INTERFACE_MAX: usize = 15;

impl LinkChoice {
    /// Reads `channel`, `packet:IF` or `tap:IF`.
    pub(super) fn parse(text: &str) -> Option<LinkChoice> {
        match text.split_once(':') {
            None if text == "channel" => Some(LinkChoice::Channel),
            Some(("packet", name)) if is_interface_name(name) => {
                Some(LinkChoice::Packet(name.to_owned()))
            }
            Some(("tap", name)) if is_interface_name(name) => {
                Some(LinkChoice::Tap(name.to_owned()))
            }
            _ => None,
        }
    }
}

impl Place {
    /// Reads `auto`, `dhcp`, `10.0.0.1/24` or `10.0.0.1`.
    pub(super) fn parse(text: &str) -> Option<Place> {
        match text {
            "auto" => return Some(Place::Auto),
            "dhcp" => return Some(Place::Dhcp),
            _ => {}
        }
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (usual, most) = match address {
            IpAddr::V4(_) => (24, 32),
            IpAddr::V6(_) => (64, 128),
        };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|&len| len <= most)?,
            None => usual,
        };
        Some(Place::Fixed(address, prefix))
    }
}

impl Gateway {
    /// Reads `auto`, `none`, `link` or an address.
    pub(super) fn parse(text: &str) -> Option<Gateway> {
        match text {
            "auto" => Some(Gateway::Auto),
            "none" => Some(Gateway::None),
            "link" => Some(Gateway::Link),
            _ => text.parse().ok().map(Gateway::At),
        }
    }
}

/// Whether a network can have that name: it becomes that of a directory.
pub(super) fn is_network_name(name: &str) -> bool {
    let fits = (1..=64).contains(&name.len());
    fits && !name.starts_with('.') && !name.contains(|c: char| c == '/' || c.is_control())
}

fn is_interface_name(name: &str) -> bool {
    let fits = (1..=INTERFACE_MAX).contains(&name.len()) && name != "." && name != "..";
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    fits && !name.contains(bad)
}

pub(super) fn check_address(text: &str) -> Result<(), BadValue> {
    let hint = "auto, dhcp, or an address like 10.0.0.1/24";
    match Place::parse(text) {
        Some(Place::Fixed(address, len)) => {
            unusable(address, len).map_or(Ok(()), |why| Err(bad(why, hint)))
        }
        Some(_) => Ok(()),
        None => Err(bad("a number is out of range, or it is a name", hint)),
    }
}

pub(super) fn check_gateway(text: &str) -> Result<(), BadValue> {
    let hint = "auto, none, link, or an address like 10.0.0.254";
    match Gateway::parse(text) {
        Some(Gateway::At(address)) => {
            unusable(address, bits(address)).map_or(Ok(()), |why| Err(bad(why, hint)))
        }
        Some(_) => Ok(()),
        None => Err(bad("it is no address", hint)),
    }
}

pub(super) fn check_link(text: &str) -> Result<(), BadValue> {
    if LinkChoice::parse(text).is_some() {
        return Ok(());
    }
    let why = match text.split_once(':') {
        Some(("packet" | "tap", _)) => "that is no name of an interface",
        _ => "there are channel, packet:IF, tap:IF",
    };
    Err(bad(why, "channel, or packet:eth0"))
}
