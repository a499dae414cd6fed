//! The carrier's stack: its link, its address, where it leads.

use crate::config::{Config, random_number};
use crate::default_route::DefaultRoute;
use gannet::Host;
use gannet::settings::{LinkChoice, Place};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Where carriers without an address of their own find one: 10.199.0.0/16.
const AUTO: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 199, 0, 0), 16);
/// Addresses tried.
const TRIES: usize = 64;
/// How long a DHCP server may take.
const LEASE: Duration = Duration::from_secs(10);
/// How long whoever had the address may take to go: a program that has just ended does not keep
/// the same one from being started again.
const HANDOVER: Duration = Duration::from_secs(2);
/// How long what programs wrote before they ended may take to arrive.
const LINGER: Duration = Duration::from_secs(5);

/// A host, and the networks that programs reach through it.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) host: Host,
    /// As text, `10.0.0.0/24`.
    pub(crate) routes: Vec<String>,
}

/// Makes the host that the configuration describes.
pub(crate) fn build(config: &Config) -> io::Result<Stack> {
    let link = config.settings.link();
    let default = DefaultRoute::choose(&config.settings)?;
    let host = match (config.settings.place(), &link) {
        (Place::Fixed(ip, bits), _) => at(config, &link, &format!("{ip}/{bits}"), default)?,
        (Place::Auto, LinkChoice::Channel) => at_a_free_address(config, &link)?,
        (Place::Auto | Place::Dhcp, _) => by_lease(config, &link)?,
    };
    default.wait(&host)?;
    let routes = routes(config, &host, default);
    Ok(Stack { host, routes })
}

fn with_address(
    config: &Config,
    link: &LinkChoice,
    address: &str,
    default: DefaultRoute,
) -> io::Result<Host> {
    let identity = format!(
        "{}/{}/{}",
        config.uid,
        config.settings.network(),
        config.name
    );
    let builder = config.settings.apply(Host::builder()).linger(LINGER);
    let builder = builder.identity(&identity);
    let mut builder = match link {
        LinkChoice::Channel => builder.channel(&config.settings.network(), address),
        LinkChoice::Packet(interface) => builder.packet(interface, address),
        LinkChoice::Tap(name) => builder.tap(name, address),
    };
    for (network, gateway) in &config.routes {
        builder = builder.route(network, gateway);
    }
    match default {
        DefaultRoute::Through(gateway) => builder = builder.gateway(&gateway.to_string()),
        DefaultRoute::Advertised => builder = builder.autoconf(),
        DefaultRoute::None | DefaultRoute::Leased => {}
    }
    builder.build()
}

/// With the address, as soon as it is free.
fn at(
    config: &Config,
    link: &LinkChoice,
    address: &str,
    default: DefaultRoute,
) -> io::Result<Host> {
    let until = Instant::now() + HANDOVER;
    loop {
        match with_address(config, link, address, default) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                // Of two that begin together one is to come first.
                std::thread::sleep(Duration::from_millis(5 + random_number() % 20));
            }
            other => return other,
        }
    }
}

/// The network itself refuses an address that somebody has.
fn at_a_free_address(config: &Config, link: &LinkChoice) -> io::Result<Host> {
    let (base, bits) = AUTO;
    let hosts = (1u32 << (32 - u32::from(bits))) - 2;
    let mut tried = 0;
    loop {
        let number = 1 + (random_number() % u64::from(hosts)) as u32;
        let ip = Ipv4Addr::from(u32::from(base) + number);
        match with_address(config, link, &format!("{ip}/{bits}"), DefaultRoute::None) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tried < TRIES => tried += 1,
            other => return other,
        }
    }
}

fn by_lease(config: &Config, link: &LinkChoice) -> io::Result<Host> {
    let host = with_address(config, link, "dhcp", DefaultRoute::Leased)?;
    host.wait_for_lease(LEASE)?;
    Ok(host)
}

fn routes(config: &Config, host: &Host, default: DefaultRoute) -> Vec<String> {
    let mut all = Vec::new();
    match config.settings.place() {
        Place::Fixed(ip, bits) => all.push(network_of(ip, bits)),
        Place::Auto if config.settings.link() == LinkChoice::Channel => {
            all.push(network_of(AUTO.0.into(), AUTO.1));
        }
        Place::Auto | Place::Dhcp => {
            let leases = host.leases().into_iter();
            all.extend(leases.map(|lease| network_of(lease.address.into(), lease.prefix_len)));
        }
    }
    all.extend(config.routes.iter().map(|(network, _)| network.clone()));
    all.extend(default.network(host).map(str::to_owned));
    all
}

/// The network that `ip` is in, as text.
fn network_of(ip: IpAddr, bits: u8) -> String {
    let network: IpAddr = match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32)));
            Ipv4Addr::from(u32::from(ip) & mask.unwrap_or(0)).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128)));
            Ipv6Addr::from(u128::from(ip) & mask.unwrap_or(0)).into()
        }
    };
    format!("{network}/{bits}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet::settings::{Assignment, Settings};

    #[test]
    fn an_address_is_taken_once_its_last_holder_is_gone() {
        let mut settings = Settings::defaults();
        let network = format!("handover{}", std::process::id());
        for (name, value) in [("network", network.as_str()), ("address", "10.9.0.1/24")] {
            let option = Assignment::option("--set", name, value);
            settings.set(&option).expect("a value");
        }
        let config = Config::new(settings);
        let before = build(&config).expect("a free address");
        let (stack, taken) = std::thread::scope(|scope| {
            let after = scope.spawn(|| build(&config));
            // Most likely the other was refused by now, and asks again.
            std::thread::sleep(Duration::from_millis(100));
            let taken = !after.is_finished();
            drop(before);
            (after.join().expect("no panic"), taken)
        });
        assert!(taken, "two have one address");
        assert_eq!(stack.expect("a free address").routes, ["10.9.0.0/24"]);
    }

    #[test]
    fn networks_without_their_hosts() {
        let of = |text: &str, bits| network_of(text.parse().unwrap(), bits);
        assert_eq!(of("10.1.2.3", 16), "10.1.0.0/16");
        assert_eq!(of("10.1.2.3", 0), "0.0.0.0/0");
        assert_eq!(of("10.1.2.3", 32), "10.1.2.3/32");
        assert_eq!(of("fd00:1::9", 64), "fd00:1::/64");
    }
}
