//! Multicast with the kernel: it receives ours, we receive its, and it sees what we tell.

use crate::lan::{GANNET, Join, KERNEL, Lan, Namespace, PATIENCE, not_root, veth, wait};
use gannet::{Host, UdpSocket as Ours};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6, UdpSocket as Theirs};
use std::time::Duration;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 7, 7, 7);

#[test]
fn groups_both_ways() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        let kernel: Ipv4Addr = KERNEL.parse().unwrap();
        let gannet: Ipv4Addr = GANNET.parse().unwrap();
        lan.kernel.ip("route add 239.0.0.0/8 dev far");

        // The kernel receives what we send.
        let theirs = lan.kernel.run(|| Theirs::bind(("0.0.0.0", 7007)).unwrap());
        theirs.set_read_timeout(Some(PATIENCE)).unwrap();
        theirs.join_multicast_v4(&GROUP, &kernel).unwrap();
        let ours = Ours::bind(&lan.host, "0.0.0.0:7007").unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        ours.send_to(b"ours", (GROUP, 7007)).unwrap();
        let mut buffer = [0; 16];
        let (n, from) = theirs.recv_from(&mut buffer).unwrap();
        assert_eq!(
            (&buffer[..n], from.ip()),
            (&b"ours"[..], gannet.into()),
            "{join:?}"
        );

        // We receive what it sends, as soon as we want to and no longer.
        ours.join_multicast_v4(&GROUP, &gannet).unwrap();
        theirs.send_to(b"theirs", (GROUP, 7007)).unwrap();
        let (n, from) = ours.recv_from(&mut buffer).unwrap();
        assert_eq!(
            (&buffer[..n], from.ip()),
            (&b"theirs"[..], kernel.into()),
            "{join:?}"
        );
        ours.leave_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED)
            .unwrap();
        theirs.send_to(b"more", (GROUP, 7007)).unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let error = ours.recv_from(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        let error = ours.leave_multicast_v4(&GROUP, &gannet).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable, "{error}");
        assert_eq!(ours.multicast_ttl_v4().unwrap(), 1);
        ours.set_multicast_ttl_v4(9).unwrap();
        assert_eq!(ours.multicast_ttl_v4().unwrap(), 9);
    }
}

const GROUP_SIX: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x7, 0x7);

/// What the kernel shows of a namespace's groups.
fn kernel_groups(lan: &Lan) -> String {
    let shown = std::process::Command::new("ip")
        .args(["-n", &lan.kernel.name, "-6", "maddr", "show"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

#[test]
fn groups_of_ipv6_both_ways() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::with(join, 1500, |builder| {
            builder.address("fd00:90::2/64").autoconf()
        });
        assert!(lan.kernel.set("ipv6/conf/far/disable_ipv6", "0"));
        lan.kernel.ip("addr add fd00:90::1/64 dev far nodad");
        let index = lan.kernel.run(|| {
            let index = std::fs::read_to_string("/sys/class/net/far/ifindex");
            index.map_or(0, |text| text.trim().parse().unwrap())
        });

        // The kernel receives what we send, and we what it sends.
        let theirs = lan.kernel.run(|| Theirs::bind(("::", 7007)).unwrap());
        theirs.set_read_timeout(Some(PATIENCE)).unwrap();
        theirs.join_multicast_v6(&GROUP_SIX, 0).unwrap();
        wait("the kernel's group", || {
            kernel_groups(&lan).contains("ff02::7:7")
        });
        let ours = Ours::bind(&lan.host, "[::]:7007").unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        ours.send_to(b"ours", (GROUP_SIX, 7007)).unwrap();
        let mut buffer = [0; 16];
        let (n, from) = theirs.recv_from(&mut buffer).unwrap();
        let IpAddr::V6(from) = from.ip() else {
            panic!("{from}");
        };
        assert!(from.is_unicast_link_local(), "{from}, {join:?}");
        assert_eq!(&buffer[..n], b"ours", "{join:?}");
        ours.join_multicast_v6(&GROUP_SIX, 1).unwrap();
        let to = SocketAddrV6::new(GROUP_SIX, 7007, 0, index);
        theirs.send_to(b"theirs", to).unwrap();
        let (n, _) = ours.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..n], b"theirs", "{join:?}");

        // What we send comes to ourselves, too, unless we do not want it.
        ours.send_to(b"own", (GROUP_SIX, 7007)).unwrap();
        let (n, _) = ours.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..n], b"own", "{join:?}");
        assert!(ours.multicast_loop_v6().unwrap());
        ours.set_multicast_loop_v6(false).unwrap();
        ours.send_to(b"alone", (GROUP_SIX, 7007)).unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let error = ours.recv_from(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        ours.leave_multicast_v6(&GROUP_SIX, 0).unwrap();
        let error = ours.join_multicast_v6(&GROUP_SIX, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable, "{error}");
    }
}

/// A bridge in between that listens to who wants what, asks, and lets through nothing else.
#[test]
fn a_switch_that_snoops_learns_our_groups() {
    if not_root() {
        return;
    }
    let (middle, near, far) = (Namespace::new(), Namespace::new(), Namespace::new());
    middle.ip("link add bridge type bridge mcast_snooping 1 mcast_querier 1 mcast_mld_version 2");
    assert!(middle.set("ipv6/conf/bridge/disable_ipv6", "0"));
    middle.ip("link set bridge up");
    veth((&near, "near"), (&middle, "one"), 1500);
    veth((&far, "far"), (&middle, "two"), 1500);
    middle.ip("link set one master bridge");
    middle.ip("link set two master bridge");
    let builder = Host::builder().packet("near", "fd00:91::2/64");
    let host = near.run(|| builder.build().unwrap());
    let ours = Ours::bind(&host, "[::]:7007").unwrap();
    ours.join_multicast_v6(&GROUP_SIX, 0).unwrap();
    let known = |group: &str| {
        let shown = std::process::Command::new("bridge")
            .args(["-n", &middle.name, "mdb", "show"])
            .output();
        match shown {
            Ok(shown) => String::from_utf8_lossy(&shown.stdout).contains(group),
            Err(_) => {
                println!("no bridge command here");
                true
            }
        }
    };
    wait("the switch to know a group", || known("ff02::7:7"));
    wait("the switch to know our address", || known("ff02::1:ff00:2"));
}
