//! Multicast with the kernel: it receives ours, we receive its, and it sees what we tell.

use crate::lan::{GANNET, Join, KERNEL, Lan, PATIENCE, not_root};
use gannet::UdpSocket as Ours;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket as Theirs};
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
