//! What a host is made of.

use crate::address::{Prefix, is_kernels};
use crate::driver::{AnyDriver, any};
use crate::error::fail;
use crate::host::Host;
use crate::identity;
use crate::network::Network;
use crate::shard::Shard;
use crate::waiting::Shared;
use crate::watch::Watch;
use gannet_drivers::channel::Options as ChannelOptions;
use gannet_drivers::packet::{Claim, Options as PacketOptions, PacketDriver, interface_number};
use gannet_drivers::tap::{Kind, Options as TapOptions, TapDriver};
use gannet_drivers::virtio::SegmentSize;
use gannet_drivers::wait::WaitPolicy;
use gannet_stack::{
    Config, DhcpConfig, LinkAddress, LinkConfig, LinkId, Stack, TcpConfig, UdpConfig,
};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Makes a [`Host`]: names its links, then [`HostBuilder::build`]s it. Texts are checked there.
#[derive(Debug)]
pub struct HostBuilder {
    links: Vec<(Plan, String)>,
    routes: Vec<(String, String)>,
    /// Further addresses, by number of the link, counted from 1.
    more: Vec<(usize, String)>,
    /// Links whose routers may configure them, counted alike.
    autoconf: Vec<usize>,
    /// VLANs, by the number of the link that they are for.
    vlans: Vec<(usize, u16)>,
    captures: Option<PathBuf>,
    policy: WaitPolicy,
    linger: Duration,
    tcp: TcpConfig,
    udp: UdpConfig,
    dhcp: DhcpConfig,
    identity: Option<String>,
    channel: ChannelOptions,
    mtu: Option<u32>,
}

#[derive(Debug)]
enum Plan {
    Channel(String),
    Packet(String),
    Tap(String, Kind),
    /// Descriptor, MTU, our hardware address.
    TapFd(OwnedFd, u32, [u8; 6]),
}

impl HostBuilder {
    pub(crate) fn new() -> HostBuilder {
        HostBuilder {
            links: Vec::new(),
            routes: Vec::new(),
            more: Vec::new(),
            autoconf: Vec::new(),
            vlans: Vec::new(),
            captures: None,
            // The loop itself looks several times between two readings.
            policy: WaitPolicy {
                looks_per_reading: 0,
                ..WaitPolicy::default()
            },
            linger: Duration::from_secs(2),
            tcp: TcpConfig::default(),
            udp: UdpConfig::default(),
            dhcp: DhcpConfig::default(),
            identity: None,
            channel: ChannelOptions::default(),
            mtu: None,
        }
    }

    /// Joins the network of this user's processes called `network`, as `address` (`10.0.0.1/24`).
    /// Other processes that joined it reach this one by its address, over shared memory. The
    /// network exists while anybody is in it; nobody has to make it.
    #[must_use]
    pub fn channel(mut self, network: &str, address: &str) -> Self {
        let plan = Plan::Channel(network.to_owned());
        self.links.push((plan, address.to_owned()));
        self
    }

    /// Attaches to the Ethernet interface `interface` beside the kernel, as `address`, which must
    /// not be one of the kernel's or a neighbour's: it is probed first, which takes 0.6 seconds
    /// (for IPv6 one). Needs CAP_NET_RAW.
    ///
    /// The address `dhcp` has a DHCP server give one, with network, gateway and MTU, and keeps it
    /// for as long as the server allows: [`Host::wait_for_lease`], [`Host::leases`]. Until then
    /// nothing can be sent.
    #[must_use]
    pub fn packet(mut self, interface: &str, address: &str) -> Self {
        let plan = Plan::Packet(interface.to_owned());
        self.links.push((plan, address.to_owned()));
        self
    }

    /// Makes (or attaches to) the TAP device `name`: an Ethernet with the kernel at the other end.
    /// Needs CAP_NET_ADMIN.
    #[must_use]
    pub fn tap(mut self, name: &str, address: &str) -> Self {
        let plan = Plan::Tap(name.to_owned(), Kind::Tap);
        self.links.push((plan, address.to_owned()));
        self
    }

    /// As [`HostBuilder::tap`] without Ethernet: bare IP packets.
    #[must_use]
    pub fn tun(mut self, name: &str, address: &str) -> Self {
        let plan = Plan::Tap(name.to_owned(), Kind::Tun);
        self.links.push((plan, address.to_owned()));
        self
    }

    /// Takes over a descriptor of a TUN or TAP device, perhaps of another network namespace, made
    /// with `IFF_NO_PI | IFF_VNET_HDR`; `mtu` is the device's, `hardware_address` ours (zeros for
    /// TUN).
    #[must_use]
    pub fn tap_fd(
        mut self,
        device: OwnedFd,
        mtu: u32,
        hardware_address: [u8; 6],
        address: &str,
    ) -> Self {
        let plan = Plan::TapFd(device, mtu, hardware_address);
        self.links.push((plan, address.to_owned()));
        self
    }

    /// Leads packets for `network` (`10.1.0.0/16`) through `gateway`, a neighbour on one of the
    /// links.
    #[must_use]
    pub fn route(mut self, network: &str, gateway: &str) -> Self {
        self.routes.push((network.to_owned(), gateway.to_owned()));
        self
    }

    /// Leads everything that no other route or link leads anywhere through `gateway`.
    #[must_use]
    pub fn gateway(self, gateway: &str) -> Self {
        match gateway.contains(':') {
            true => self.route("::/0", gateway),
            false => self.route("0.0.0.0/0", gateway),
        }
    }

    /// One more address for the link named last, of either family (`fd00::2/64`). On an Ethernet
    /// [`HostBuilder::build`] waits a second for others to say that they have an IPv6 address.
    #[must_use]
    pub fn address(mut self, address: &str) -> Self {
        let link = self.links.len();
        self.more.push((link, address.to_owned()));
        self
    }

    /// Lets the routers of the Ethernet named last give addresses of IPv6 and lead to other
    /// networks (RFC 4861, RFC 4862). They need a moment: see [`Host::addresses`].
    #[must_use]
    pub fn autoconf(mut self) -> Self {
        self.autoconf.push(self.links.len());
        self
    }

    /// The link named last, an Ethernet, is on the VLAN `id` (IEEE 802.1Q, 1 to 4094): what leaves
    /// bears its tag, and nothing else comes in. Several links may be on one interface, each on a
    /// VLAN of its own.
    #[must_use]
    pub fn vlan(mut self, id: u16) -> Self {
        self.vlans.push((self.links.len(), id));
        self
    }

    /// Writes down what passes every link: a pcapng file for each, in `directory`, which must
    /// exist. Costs a copy of every byte, and the disk.
    #[must_use]
    pub fn capture(mut self, directory: impl Into<PathBuf>) -> Self {
        self.captures = Some(directory.into());
        self
    }

    /// How long a waiting call spins before it sleeps; default 50 us, zero: never. Spinning costs
    /// as much of a core and saves the wake-up, some microseconds each way.
    #[must_use]
    pub fn spin(mut self, at_most: Duration) -> Self {
        self.policy.spin_max = at_most;
        self
    }

    /// How long dropping the last handle waits for closed connections to deliver what was written;
    /// default 2 s.
    #[must_use]
    pub fn linger(mut self, at_most: Duration) -> Self {
        self.linger = at_most;
        self
    }

    /// Lowers the MTU of all links, in bytes: no longer packets are sent, nor are peers asked for
    /// any; TAP and TUN devices that are made have it, too. Default: what the link takes.
    #[must_use]
    pub fn mtu(mut self, bytes: u32) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// TCP's settings: buffers, time-outs, limits.
    #[must_use]
    pub fn tcp(mut self, settings: TcpConfig) -> Self {
        self.tcp = settings;
        self
    }

    /// UDP's settings: buffers.
    #[must_use]
    pub fn udp(mut self, settings: UdpConfig) -> Self {
        self.udp = settings;
        self
    }

    /// The DHCP client's settings, for links whose address is `dhcp`.
    #[must_use]
    pub fn dhcp(mut self, settings: DhcpConfig) -> Self {
        self.dhcp = settings;
        self
    }

    /// The name by which DHCP servers know this host among those of this machine (RFC 4361), so
    /// that it gets the same address when it comes back; default: that of the running program.
    #[must_use]
    pub fn identity(mut self, name: &str) -> Self {
        self.identity = Some(name.to_owned());
        self
    }

    /// Memory of channels, and how their handshake goes.
    #[must_use]
    pub fn channel_options(mut self, options: ChannelOptions) -> Self {
        self.channel = options;
        self
    }

    /// Makes the host.
    ///
    /// # Errors
    /// `InvalidInput` for texts that are no addresses of a host, or no link at all; `AddrInUse`
    /// when a living process has the address in the network or at the interface, or a neighbour
    /// answers for it (RFC 5227, RFC 4862); `AddrNotAvailable` when the kernel has it;
    /// `PermissionDenied`, `NotFound` for interfaces, in three lines: what, why, what to try.
    pub fn build(self) -> io::Result<Host> {
        if self.links.is_empty() {
            let why = "it has no links\ntry: HostBuilder::channel(\"name\", \"10.0.0.1/24\")";
            return Err(fail(libc::EINVAL, "build a host", why));
        }
        let watch = Arc::new(Watch::new()?);
        let (secret, seed) = (random()?, u64::from_ne_bytes(random()?));
        let config = Config {
            tcp: self.tcp.clone(),
            udp: self.udp.clone(),
            dhcp: DhcpConfig {
                is_taken: |address| is_kernels(address.into(), 0),
                ..self.dhcp.clone()
            },
            ..Config::new(secret, seed)
        };
        let mut shard = Shard::new(Stack::new(config), watch.clone());
        shard.captures = self.captures;
        shard.mtu = self.mtu;
        let mut attached = Vec::new();
        for (number, (plan, address)) in self.links.into_iter().enumerate() {
            let config = LinkConfig {
                mtu: self.mtu,
                ..on_vlan(&plan, vlan_of(&self.vlans, number + 1))?
            };
            if address == DHCP {
                add_dhcp_link(
                    &mut shard,
                    plan,
                    (self.mtu, config),
                    self.identity.as_deref(),
                )?;
                continue;
            }
            let mut all = vec![Prefix::parse_own(&address)?];
            for (_, more) in self.more.iter().filter(|(at, _)| *at == number + 1) {
                all.push(Prefix::parse_own(more)?);
            }
            for own in &all {
                shard.claims.extend(claim(&plan, *own, config.vlan)?);
            }
            let id = add_link(&mut shard, plan, &all, (self.channel, self.mtu, config))?;
            attached.extend(all.into_iter().map(|own| (own, id)));
            if self.autoconf.contains(&(number + 1)) {
                shard.stack.autoconfigure(id);
            }
        }
        shard.add_loopback()?;
        for (network, gateway) in self.routes {
            let network = Prefix::parse(&network)?;
            let gateway = Prefix::parse(&gateway)?.address;
            let id = leads_to(&attached, gateway)?;
            let stack = &mut shard.stack;
            stack.add_route(network.address, network.len, Some(gateway), id);
        }
        let shared = Arc::new(Shared::new(shard, watch, self.policy));
        let host = Host::start(shared, self.linger)?;
        host.wait_for_addresses()?;
        Ok(host)
    }
}

/// Attaches a link with the addresses `all`, of which an Ethernet's are probed first.
fn add_link(
    shard: &mut Shard,
    plan: Plan,
    all: &[Prefix],
    (channel, mtu, config): (ChannelOptions, Option<u32>, LinkConfig),
) -> io::Result<LinkId> {
    let address = |own: &Prefix| LinkAddress {
        address: own.address,
        prefix_len: own.len,
    };
    let (id, rest) = match (plan, all) {
        (Plan::Channel(network), [own, rest @ ..]) => {
            let network = Network::join(&network, *own, channel)?;
            (shard.add_network(network)?, rest)
        }
        (plan, all) => {
            let (name, endpoint) = open(plan, mtu, config.vlan)?;
            (shard.add_link(&name, endpoint, config)?, all)
        }
    };
    for own in rest {
        shard.stack.try_address(id, address(own));
    }
    Ok(id)
}

/// Makes sure that no other program of this machine has the address: neither the kernel nor others
/// at the same interface answer the probes that are sent there.
fn claim(plan: &Plan, own: Prefix, vlan: Option<u16>) -> io::Result<Option<Claim>> {
    let name = match plan {
        Plan::Packet(name) | Plan::Tap(name, Kind::Tap) => name,
        Plan::Channel(_) | Plan::Tap(_, Kind::Tun) | Plan::TapFd(..) => return Ok(None),
    };
    let what = || format!("be {} on {name}", own.address);
    let hint = "another address of that network that is free there, or dhcp";
    if is_kernels(own.address, interface_number(name).unwrap_or(0)) {
        let why = "this machine's kernel has the address: its connections would be reset";
        return Err(fail(
            libc::EADDRNOTAVAIL,
            what(),
            format!("{why}\ntry: {hint}"),
        ));
    }
    if !matches!(plan, Plan::Packet(_)) {
        return Ok(None);
    }
    let claimed = match vlan {
        None => own.address.to_string(),
        Some(vlan) => format!("{}@{vlan}", own.address),
    };
    // Without the interface, opening it says so.
    match Claim::take(name, &claimed) {
        Ok(Ok(claim)) => Ok(Some(claim)),
        Ok(Err(holder)) => {
            let why = format!("{holder} has the address on this interface\ntry: {hint}");
            Err(fail(libc::EADDRINUSE, what(), why))
        }
        Err(_) => Ok(None),
    }
}

/// The word in the place of an address that has a DHCP server give one.
const DHCP: &str = "dhcp";

/// Attaches a link without an address, for which a DHCP client looks for one.
fn add_dhcp_link(
    shard: &mut Shard,
    plan: Plan,
    (mtu, config): (Option<u32>, LinkConfig),
    identity: Option<&str>,
) -> io::Result<()> {
    let interface = match &plan {
        Plan::Packet(interface) => Some(interface.clone()),
        _ => None,
    };
    let vlan = config.vlan;
    let (name, endpoint) = open(plan, mtu, vlan)?;
    let (identifier, claim) = identity::identifier(identity, &name, (interface.as_deref(), vlan))?;
    shard.claims.extend(claim);
    let id = shard.add_link(&name, endpoint, config)?;
    match shard.stack.dhcp_start(id, None, Some(identifier)) {
        true => Ok(()),
        false => Err(fail(
            libc::EINVAL,
            format!("have a DHCP server give {name} an address"),
            "it is no Ethernet\ntry: an address such as 10.0.0.1/24",
        )),
    }
}

/// The VLAN of a link, if it was put on one.
fn vlan_of(vlans: &[(usize, u16)], link: usize) -> Option<u16> {
    let mut vlans = vlans.iter().rev();
    vlans.find(|(at, _)| *at == link).map(|(_, id)| *id)
}

/// A link without addresses, on a VLAN if that is wanted and possible.
fn on_vlan(plan: &Plan, vlan: Option<u16>) -> io::Result<LinkConfig> {
    let Some(id) = vlan else {
        return Ok(LinkConfig::default());
    };
    let what = format!("put a link on VLAN {id}");
    let ethernet = match plan {
        Plan::Packet(_) | Plan::Tap(_, Kind::Tap) => true,
        Plan::TapFd(_, _, address) => *address != [0; 6],
        Plan::Tap(_, Kind::Tun) | Plan::Channel(_) => false,
    };
    if !ethernet {
        let why = "it is no Ethernet\ntry: HostBuilder::packet or tap";
        return Err(fail(libc::EINVAL, what, why));
    }
    if !(1..=4094).contains(&id) {
        let why = "it names none\ntry: 1 to 4094";
        return Err(fail(libc::EINVAL, what, why));
    }
    Ok(LinkConfig {
        vlan,
        vlan_stripped: matches!(plan, Plan::Packet(_)),
        ..LinkConfig::default()
    })
}

/// The endpoint of a link to the kernel or its interfaces.
fn open(
    plan: Plan,
    mtu: Option<u32>,
    vlan: Option<u16>,
) -> io::Result<(String, gannet_link::Endpoint<AnyDriver>)> {
    Ok(match plan {
        Plan::Packet(interface) => {
            let options = PacketOptions {
                vlan,
                ..PacketOptions::default()
            };
            let endpoint = PacketDriver::open(&interface, options)?;
            (interface, any(endpoint, AnyDriver::Packet))
        }
        Plan::Tap(name, kind) => {
            let options = TapOptions {
                mtu,
                ..TapOptions::default()
            };
            let endpoint = TapDriver::open(Some(&name), kind, options)?;
            (name, any(endpoint, AnyDriver::Tap))
        }
        Plan::TapFd(device, mtu, address) => {
            let endpoint = TapDriver::from_fd(device, mtu, address, SegmentSize::default())?;
            ("tap".to_owned(), any(endpoint, AnyDriver::Tap))
        }
        Plan::Channel(network) => {
            return Err(fail(
                libc::EINVAL,
                network,
                "a network is joined, not opened",
            ));
        }
    })
}

/// The link that a gateway is a neighbour on.
fn leads_to(attached: &[(Prefix, LinkId)], gateway: IpAddr) -> io::Result<LinkId> {
    // Routers of IPv6 are known by their link-local addresses.
    let is_local = matches!(gateway, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let leads = |own: &Prefix| own.contains(gateway) || is_local && own.address.is_ipv6();
    let near = attached.iter().find(|(own, _)| leads(own));
    near.map(|(_, id)| *id).ok_or_else(|| {
        let why = "it is in no link's network\ntry: a gateway that a link's prefix covers";
        fail(libc::ENETUNREACH, format!("use the gateway {gateway}"), why)
    })
}

/// Random bytes from the operating system.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}
