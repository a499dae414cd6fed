//! Whether the link will do: its interface, the right to use it, the address on it. What can be
//! known beforehand is said before the program starts.

use std::fs;
use std::path::{Path, PathBuf};

use gannet::settings::{LinkChoice, Place, Settings};
use gannet_bench::Problem;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use rustix::process::getuid;
use rustix::thread::{CapabilitySet, capabilities};

/// Checks the link and the address of `settings`.
pub(super) fn check(settings: &Settings) -> Result<(), Problem> {
    let effective = capabilities(None).map(|all| all.effective);
    let effective = effective.unwrap_or(CapabilitySet::empty());
    check_with(settings, effective)
}

fn check_with(settings: &Settings, effective: CapabilitySet) -> Result<(), Problem> {
    let link = settings.link();
    address(&link, settings.place())?;
    match &link {
        LinkChoice::Channel => Ok(()),
        LinkChoice::Packet(name) => packet(name, effective),
        LinkChoice::Tap(name) => tap(name, effective),
    }
}

/// Whether a link can have such an address.
fn address(link: &LinkChoice, place: Place) -> Result<(), Problem> {
    match (link, place) {
        (LinkChoice::Channel, Place::Dhcp) => Err(Problem::new(
            "cannot ask a DHCP server for an address",
            "a channel joins processes of this machine: there is none",
            "--addr 10.0.0.1/24, or leave --addr out",
        )),
        (LinkChoice::Packet(name) | LinkChoice::Tap(name), Place::Auto) => Err(Problem::new(
            format!("cannot use {name} without an address"),
            "on a network that others are in no address can be made up",
            "--addr 10.0.0.2/24 (one that is free there), or --addr dhcp",
        )),
        _ => Ok(()),
    }
}

fn packet(name: &str, effective: CapabilitySet) -> Result<(), Problem> {
    let what = format!("cannot attach to {name}");
    if !exists(name) {
        let why = "there is no interface of that name in this network namespace";
        return Err(Problem::new(what, why, "ip link, for their names"));
    }
    if is_down(name) {
        let hint = format!("ip link set {name} up");
        return Err(Problem::new(what, "the interface is down", hint));
    }
    match effective.contains(CapabilitySet::NET_RAW) {
        true => Ok(()),
        false => Err(lacks(what, "CAP_NET_RAW", "cap_net_raw")),
    }
}

fn tap(name: &str, effective: CapabilitySet) -> Result<(), Problem> {
    let what = format!("cannot make or use the TAP device {name}");
    if !Path::new("/dev/net/tun").exists() {
        let why = "there is no /dev/net/tun";
        return Err(Problem::new(
            what,
            why,
            "modprobe tun, or --device /dev/net/tun of a container",
        ));
    }
    if exists(name) && !is_tap(name) {
        let why = "that interface is no TAP device";
        return Err(Problem::new(
            what,
            why,
            "another name, or --link packet:IF for this one",
        ));
    }
    match effective.contains(CapabilitySet::NET_ADMIN) || is_mine(name) {
        true => Ok(()),
        false => Err(lacks(what, "CAP_NET_ADMIN", "cap_net_admin")),
    }
}

fn lacks(what: String, capability: &str, name: &str) -> Problem {
    let why = format!("this process lacks {capability}");
    let own = std::env::current_exe();
    let own = own.map_or_else(|_| "gannet".to_owned(), |own| own.display().to_string());
    let hint = format!("sudo setcap {name}+ep {own}, or sudo; --link channel needs no privilege");
    Problem::new(what, why, hint)
}

/// Whether the network namespace of this process has an interface `name`.
fn exists(name: &str) -> bool {
    number(name).is_some()
}

fn number(name: &str) -> Option<u32> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    netdevice::name_to_index(socket, name).ok()
}

/// What /sys says about an interface that exists; nothing where /sys is that of another network
/// namespace, whose interface of that name is another one.
fn device(name: &str) -> Option<PathBuf> {
    let device = Path::new("/sys/class/net").join(name);
    let index = fs::read_to_string(device.join("ifindex")).ok()?;
    (index.trim().parse().ok() == number(name)).then_some(device)
}

/// Whether an interface is a TUN or TAP device, as far as can be seen.
fn is_tap(name: &str) -> bool {
    device(name).is_none_or(|device| device.join("tun_flags").exists())
}

/// Whether a TAP device was made for this user (`ip tuntap add NAME mode tap user ME`).
fn is_mine(name: &str) -> bool {
    let owner = device(name).and_then(|device| fs::read_to_string(device.join("owner")).ok());
    owner.is_some_and(|owner| owner.trim().parse() == Ok(getuid().as_raw()))
}

/// Whether an interface is switched off (IFF_UP), as far as can be seen.
fn is_down(name: &str) -> bool {
    let flags = device(name).and_then(|device| fs::read_to_string(device.join("flags")).ok());
    let flags = flags.and_then(|flags| {
        let digits = flags.trim().strip_prefix("0x")?;
        u32::from_str_radix(digits, 16).ok()
    });
    flags.is_some_and(|flags| flags & libc::IFF_UP as u32 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet::settings::Assignment;

    #[test]
    fn links_and_addresses() {
        let all = CapabilitySet::all();
        let none = CapabilitySet::empty();
        let rows = [
            ("channel", "auto", none, None),
            ("channel", "10.0.0.1/24", none, None),
            ("channel", "dhcp", none, Some("DHCP")),
            ("packet:lo", "10.0.0.1/24", all, None),
            ("packet:lo", "dhcp", all, None),
            ("packet:lo", "auto", all, Some("without an address")),
            ("packet:lo", "10.0.0.1/24", none, Some("lacks CAP_NET_RAW")),
            (
                "packet:no-such-if",
                "dhcp",
                all,
                Some("no interface of that name"),
            ),
            ("tap:lo", "10.0.0.1/24", all, Some("TAP device")),
            ("tap:no-such-tap", "10.0.0.1/24", none, Some("TAP device")),
        ];
        for (link, address, effective, part) in rows {
            let mut settings = Settings::defaults();
            for (name, value) in [("link", link), ("address", address)] {
                let assignment = Assignment::option("--set", name, value);
                settings.set(&assignment).unwrap();
            }
            let found = check_with(&settings, effective);
            match (found, part) {
                (Err(problem), None) if is_down("lo") => {
                    assert!(problem.why.contains("down"), "{problem}");
                }
                (Ok(()), None) => {}
                (Err(problem), Some(part)) => {
                    assert!(problem.to_string().contains(part), "{problem}");
                }
                (found, _) => panic!("{link} {address}: {found:?}"),
            }
        }
    }
}
