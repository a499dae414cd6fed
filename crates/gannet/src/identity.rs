//! By what DHCP servers know a host: neither by the interface's hardware address, which the kernel
//! and other programs have as well, nor by chance, so that it gets the same address again.

use crate::error::fail;
use gannet_drivers::packet::Claim;
use gannet_stack::ClientIdentifier;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::io;

/// Hosts of one name on one interface.
const INSTANCES: u32 = 256;

/// The identifier of the host called `name` (by default as its program) on a link. On an interface
/// that others share it is the first that none of them has, and stays so with the claim.
pub(crate) fn identifier(
    name: Option<&str>,
    link: &str,
    (interface, vlan): (Option<&str>, Option<u16>),
) -> io::Result<(ClientIdentifier, Option<Claim>)> {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    let name = name.unwrap_or(&program);
    let uuid = machine();
    for instance in 0..INSTANCES {
        let iaid = number(name, link, instance);
        let identifier = ClientIdentifier { iaid, uuid };
        let Some(interface) = interface else {
            return Ok((identifier, None));
        };
        let what = match vlan {
            None => format!("dhcp-{iaid:08x}"),
            Some(vlan) => format!("dhcp-{iaid:08x}@{vlan}"),
        };
        if let Ok(claim) = Claim::take(interface, &what)? {
            return Ok((identifier, Some(claim)));
        }
    }
    let why = "hundreds of hosts of this name are there\ntry: fewer, or addresses of their own";
    Err(fail(
        libc::EADDRINUSE,
        format!("ask for an address on {link}"),
        why,
    ))
}

/// Which client of the machine's.
fn number(name: &str, link: &str, instance: u32) -> u32 {
    let mut hash = SipHasher13::new_with_keys(0x6761_6e6e_6574_0001, u64::from(instance));
    for text in [name, link] {
        hash.write(text.as_bytes());
        hash.write_u8(0xff);
    }
    hash.finish() as u32
}

/// The machine as this software sees it: machine-id(5) is not to be told to others as it is.
fn machine() -> [u8; 16] {
    let files = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let mut read = files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok());
    let id = read.find(|id| !id.trim().is_empty());
    // Without one, by the name that people gave it.
    let id = id.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let mut hash = SipHasher13::new_with_keys(0x6761_6e6e_6574_0002, 0x6475_6964);
    hash.write(id.unwrap_or_default().trim().as_bytes());
    hash.finish128().as_u128().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_stay_and_differ() {
        let of = |name, link| identifier(Some(name), link, (None, None)).unwrap().0;
        let one = of("default/redis", "tap0");
        assert_eq!(one, of("default/redis", "tap0"));
        assert_ne!(one.iaid, of("default/nginx", "tap0").iaid);
        assert_ne!(one.iaid, of("default/redis", "tap1").iaid);
        assert_ne!(number("a", "b", 0), number("a", "b", 1));
        assert_ne!(number("a", "bc", 0), number("ab", "c", 0));
        assert_eq!(one.uuid, of("x", "y").uuid, "the same machine");
    }

    #[test]
    fn two_of_one_name_on_one_interface_differ() {
        let name = format!("test-{}", std::process::id());
        let of = || identifier(Some(&name), "lo", (Some("lo"), None)).unwrap();
        let (first, claim) = of();
        let (second, _other) = of();
        assert_ne!(first.iaid, second.iaid);
        drop(claim);
        assert_eq!(of().0, first, "free again");
    }
}
