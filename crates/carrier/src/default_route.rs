//! Which router leads to everything that is on no link: the one that the user names, the DHCP
//! server, the kernel's own routes, or the router itself.

use gannet::Host;
use gannet::settings::{Gateway, LinkChoice, Place, Settings};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// How long a router may take to advertise itself: it is asked after a second and may wait for half
/// a second (RFC 4861 section 10), or be asked once more after four.
const ADVERTISED: Duration = Duration::from_secs(7);
/// An address that only a default route leads to (RFC 3849).
const ELSEWHERE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);
/// A route through a gateway, in the kernel's tables (`RTF_GATEWAY`).
const THROUGH_GATEWAY: u32 = 2;

/// Where the default route comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultRoute {
    None,
    /// The DHCP server says.
    Leased,
    /// A router says (RFC 4861).
    Advertised,
    Through(IpAddr),
}

impl DefaultRoute {
    /// What the settings ask for.
    ///
    /// # Errors
    /// In three lines, when the link has none such.
    pub(crate) fn choose(settings: &Settings) -> io::Result<DefaultRoute> {
        let (link, place) = (settings.link(), settings.place());
        let interface = match &link {
            LinkChoice::Channel => None,
            LinkChoice::Packet(name) | LinkChoice::Tap(name) => Some(name.as_str()),
        };
        match (settings.gateway(), place, interface) {
            (Gateway::None, ..) => Ok(DefaultRoute::None),
            (Gateway::Auto | Gateway::Link, Place::Dhcp, _) => Ok(DefaultRoute::Leased),
            (Gateway::Auto, ..) => Ok(DefaultRoute::None),
            (Gateway::Link | Gateway::At(_), _, None) => Err(refused(
                "cannot use a gateway",
                "a channel joins programs of this machine: no router is on it",
                "--link packet:IF, or leave --gateway out",
            )),
            (Gateway::At(gateway), Place::Dhcp, _) => Err(refused(
                &format!("cannot use the gateway {gateway}"),
                "the DHCP server that gives the address names the router",
                "--gateway auto, or an --addr of your own",
            )),
            (Gateway::At(gateway), Place::Fixed(own, _), _) if gateway == own => Err(refused(
                &format!("cannot use the gateway {gateway}"),
                "it is the program's own address",
                "the router's address, as ip route shows it",
            )),
            (Gateway::At(gateway), ..) => Ok(DefaultRoute::Through(gateway)),
            (Gateway::Link, Place::Fixed(own, _), Some(name)) => of_kernel(name, own.is_ipv6()),
            // The link refuses to begin without an address.
            (Gateway::Link, Place::Auto, _) => Ok(DefaultRoute::None),
        }
    }

    /// Waits until a router has advertised itself, if one is to.
    ///
    /// # Errors
    /// `TimedOut` when none has.
    pub(crate) fn wait(self, host: &Host) -> io::Result<()> {
        let until = Instant::now() + ADVERTISED;
        while self == DefaultRoute::Advertised && !host.has_route(ELSEWHERE.into()) {
            if Instant::now() >= until {
                let why = "the kernel has no default route there, and no router advertised itself";
                let hint = "--gateway with the router's address, or --gateway none";
                return Err(refused("cannot find a gateway on the link", why, hint));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What the route leads to, if there is one.
    pub(crate) fn network(self, host: &Host) -> Option<&'static str> {
        let (four, six) = ("0.0.0.0/0", "::/0");
        match self {
            DefaultRoute::None => None,
            DefaultRoute::Leased => {
                let leases = host.leases();
                leases
                    .iter()
                    .any(|lease| !lease.routers.is_empty())
                    .then_some(four)
            }
            DefaultRoute::Advertised => Some(six),
            DefaultRoute::Through(gateway) => Some(if gateway.is_ipv6() { six } else { four }),
        }
    }
}

fn refused(what: &str, why: &str, hint: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{what}\nwhy: {why}\ntry: {hint}"),
    )
}

/// The router that the kernel uses on the interface `name`.
fn of_kernel(name: &str, is_ipv6: bool) -> io::Result<DefaultRoute> {
    let file = if is_ipv6 { "ipv6_route" } else { "route" };
    let table = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    let gateway = match is_ipv6 {
        true => ipv6_gateway(&table, name).map(IpAddr::V6),
        false => ipv4_gateway(&table, name).map(IpAddr::V4),
    };
    match gateway {
        Some(gateway) => Ok(DefaultRoute::Through(gateway)),
        None if is_ipv6 => Ok(DefaultRoute::Advertised),
        None => Err(refused(
            &format!("cannot find a gateway on {name}"),
            "the kernel has no default route through this interface",
            "--gateway with the router's address, as ip route shows it",
        )),
    }
}

/// The gateway of least metric in `/proc/net/route`.
fn ipv4_gateway(table: &str, name: &str) -> Option<Ipv4Addr> {
    let mut best: Option<(u32, Ipv4Addr)> = None;
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [
            interface,
            destination,
            gateway,
            flags,
            _,
            _,
            metric,
            mask,
            ..,
        ] = words[..]
        else {
            continue;
        };
        let number = |text| u32::from_str_radix(text, 16).ok();
        let flags = number(flags).unwrap_or(0);
        if interface != name || (number(destination), number(mask)) != (Some(0), Some(0)) {
            continue;
        }
        if flags & THROUGH_GATEWAY == 0 {
            continue;
        }
        // In the order of the machine, as the kernel prints a word of the network's order.
        let Some(gateway) = number(gateway).map(|word| Ipv4Addr::from(word.to_ne_bytes())) else {
            continue;
        };
        let metric = metric.parse().unwrap_or(u32::MAX);
        if best.is_none_or(|(least, _)| metric < least) {
            best = Some((metric, gateway));
        }
    }
    best.map(|(_, gateway)| gateway)
}

/// The gateway of least metric in `/proc/net/ipv6_route`.
fn ipv6_gateway(table: &str, name: &str) -> Option<Ipv6Addr> {
    let mut best: Option<(u32, Ipv6Addr)> = None;
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [
            destination,
            "00",
            _,
            _,
            gateway,
            metric,
            _,
            _,
            flags,
            interface,
        ] = words[..]
        else {
            continue;
        };
        let number = |text| u32::from_str_radix(text, 16).ok();
        let address = |text| u128::from_str_radix(text, 16).ok();
        let flags = number(flags).unwrap_or(0);
        if interface != name || address(destination) != Some(0) || flags & THROUGH_GATEWAY == 0 {
            continue;
        }
        let Some(gateway) = address(gateway).filter(|to| *to != 0).map(Ipv6Addr::from) else {
            continue;
        };
        let metric = number(metric).unwrap_or(u32::MAX);
        if best.is_none_or(|(least, _)| metric < least) {
            best = Some((metric, gateway));
        }
    }
    best.map(|(_, gateway)| gateway)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_route_of_least_metric() {
        let word = |a, b, c, d| format!("{:08X}", u32::from_ne_bytes([a, b, c, d]));
        let (one, two) = (word(10, 0, 0, 1), word(10, 0, 0, 2));
        let table = format!(
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
             eth0\t00000000\t{one}\t0003\t0\t0\t200\t00000000\t0\t0\t0\n\
             eth0\t00000000\t{two}\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
             eth1\t00000000\t{one}\t0001\t0\t0\t0\t00000000\t0\t0\t0\n\
             eth2\t0000000A\t{one}\t0003\t0\t0\t0\t000000FF\t0\t0\t0\n"
        );
        assert_eq!(
            ipv4_gateway(&table, "eth0"),
            Some(Ipv4Addr::new(10, 0, 0, 2))
        );
        for none in ["eth1", "eth2", "eth3"] {
            assert_eq!(ipv4_gateway(&table, none), None, "{none}");
        }
    }

    #[test]
    fn the_kernels_route_of_ipv6() {
        let zero = "0".repeat(32);
        let router = "fe800000000000000000000000000001";
        let table = format!(
            "{zero} 00 {zero} 00 {router} 00000400 00000001 00000000 00450003     eth0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n\
             fd000000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 \
             00000001     eth1\n"
        );
        let found = ipv6_gateway(&table, "eth0");
        assert_eq!(found, "fe80::1".parse().ok());
        assert_eq!(ipv6_gateway(&table, "lo"), None);
        assert_eq!(ipv6_gateway(&table, "eth1"), None);
    }

    #[test]
    fn what_the_settings_ask_for() {
        use gannet::settings::Assignment;
        let choose = |link, address, gateway| {
            let mut settings = Settings::defaults();
            for (name, value) in [("link", link), ("address", address), ("gateway", gateway)] {
                let option = Assignment::option("--set", name, value);
                settings.set(&option).unwrap();
            }
            DefaultRoute::choose(&settings).map_err(|error| error.to_string())
        };
        let router = IpAddr::from([10, 0, 0, 254]);
        for (link, address, gateway, expected) in [
            ("channel", "auto", "auto", Ok(DefaultRoute::None)),
            ("channel", "10.0.0.1/24", "none", Ok(DefaultRoute::None)),
            (
                "channel",
                "10.0.0.1/24",
                "10.0.0.254",
                Err("no router is on it"),
            ),
            ("packet:x", "10.0.0.1/24", "auto", Ok(DefaultRoute::None)),
            (
                "packet:x",
                "10.0.0.1/24",
                "10.0.0.254",
                Ok(DefaultRoute::Through(router)),
            ),
            ("packet:x", "10.0.0.1/24", "10.0.0.1", Err("own address")),
            ("packet:x", "10.0.0.1/24", "link", Err("no default route")),
            (
                "packet:x",
                "fd00::1/64",
                "link",
                Ok(DefaultRoute::Advertised),
            ),
            ("packet:x", "dhcp", "auto", Ok(DefaultRoute::Leased)),
            ("packet:x", "dhcp", "none", Ok(DefaultRoute::None)),
            ("packet:x", "dhcp", "10.0.0.254", Err("names the router")),
        ] {
            match (choose(link, address, gateway), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(part)) => {
                    assert!(found.contains(part), "{found}");
                    assert_eq!(found.lines().count(), 3, "{found}");
                }
                (found, expected) => panic!("{link} {address} {gateway}: {found:?} {expected:?}"),
            }
        }
    }
}
