//! UDP longer than the MTU, both ways between Gannet and the kernel.

use crate::lan::{GANNET, Join, Lan, PATIENCE, not_root};
use gannet::UdpSocket as Ours;
use gannet_base::Rng;
use std::time::Instant;

/// Largest payload of a datagram.
const MOST: usize = 65_507;

/// A figure of `Ip` in the kernel's SNMP table of the namespace.
fn figure(lan: &Lan, name: &str) -> u64 {
    let table = lan
        .kernel
        .run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
    let mut lines = table.lines().filter(|l| l.starts_with("Ip: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|n| n == name).unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}

/// Datagrams of many sizes, echoed by the other side.
fn there_and_back(join: Join, mtu: u32) {
    let lan = Lan::new(join, mtu);
    let ours = Ours::bind(&lan.host, (GANNET, 0)).unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let theirs = lan.kernel_datagrams();
    ours.connect(theirs.local_addr().unwrap()).unwrap();
    let whole = mtu as usize - 28;
    let mut sizes = vec![whole + 1, whole + 8, 2 * whole, 9000, 16_384, 40_000, MOST];
    let mut rng = Rng::new(u64::from(mtu));
    sizes.extend((0..60).map(|_| 1 + rng.below(MOST as u64) as usize));
    let mut pattern = vec![0; MOST];
    rng.fill(&mut pattern);
    let start = Instant::now();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut buffer = vec![0; 65_536];
            for &size in &sizes {
                let (n, from) = theirs.recv_from(&mut buffer).unwrap();
                assert_eq!(n, size);
                theirs.send_to(&buffer[..n], from).unwrap();
            }
        });
        let mut buffer = vec![0; 65_536];
        for &size in &sizes {
            assert_eq!(ours.send(&pattern[..size]).unwrap(), size);
            assert_eq!(ours.recv(&mut buffer).unwrap(), size);
            assert!(buffer[..size] == pattern[..size], "{size} bytes");
        }
    });
    let (joined, cut) = (figure(&lan, "ReasmOKs"), figure(&lan, "FragOKs"));
    println!(
        "{} datagrams over {join:?}, MTU {mtu}: {:.2?}",
        sizes.len(),
        start.elapsed()
    );
    assert!(joined >= 30 && cut >= 30, "joined {joined}, cut {cut}");
    assert_eq!(figure(&lan, "ReasmFails"), 0);
}

#[test]
fn longer_than_the_mtu_over_a_virtual_ethernet() {
    if !not_root() {
        for mtu in [1500, 576, 9000] {
            there_and_back(Join::Veth, mtu);
        }
    }
}

#[test]
fn longer_than_the_mtu_over_tap() {
    if !not_root() {
        there_and_back(Join::Tap, 1500);
    }
}
