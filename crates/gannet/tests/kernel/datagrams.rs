//! UDP and ICMP between Gannet and the kernel.

use crate::lan::{GANNET, Join, KERNEL, Lan, PATIENCE, not_root, wait};
use gannet::{Datagram, PathMtuDiscovery, UdpSocket as Ours, os_code};
use gannet_base::Rng;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use rustix::net::{recv, sendto, socket};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

/// Headers of IPv4 and UDP.
const HEADERS: usize = 28;

fn bind(lan: &Lan) -> Ours {
    let ours = Ours::bind(&lan.host, (GANNET, 0)).unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    ours
}

/// Every size that fits into the MTU, sent by us, echoed by the kernel.
fn every_size(join: Join, mtu: u32) {
    let mtu = mtu.min(join.mtu_max());
    let lan = Lan::new(join, mtu);
    let (ours, theirs) = (bind(&lan), lan.kernel_datagrams());
    let most = (mtu as usize - HEADERS).min(65_507);
    let mut pattern = vec![0; most + 1];
    Rng::new(u64::from(mtu)).fill(&mut pattern);
    ours.connect(theirs.local_addr().unwrap()).unwrap();
    let start = Instant::now();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut buffer = vec![0; 65_536];
            for size in 0..=most {
                let (n, from) = theirs.recv_from(&mut buffer).unwrap();
                assert_eq!(n, size);
                theirs.send_to(&buffer[..n], from).unwrap();
            }
        });
        let mut buffer = vec![0; 65_536];
        for size in 0..=most {
            assert_eq!(ours.send(&pattern[..size]).unwrap(), size);
            assert_eq!(ours.recv(&mut buffer).unwrap(), size);
            assert!(buffer[..size] == pattern[..size], "{size} bytes");
        }
    });
    println!("0..={most} bytes over {join:?}: {:.2?}", start.elapsed());
    ours.set_path_mtu_discovery(PathMtuDiscovery::Do).unwrap();
    let error = ours.send(&pattern[..most + 1]).unwrap_err();
    assert_eq!(os_code(&error), Some(90), "EMSGSIZE: {error}");
    assert!(error.to_string().contains("too large"), "{error}");
}

#[test]
fn every_size_over_a_virtual_ethernet() {
    if !not_root() {
        for mtu in [576, 1500, 65_535] {
            every_size(Join::Veth, mtu);
        }
    }
}

#[test]
fn every_size_over_tap() {
    if !not_root() {
        for mtu in [1500, 65_521] {
            every_size(Join::Tap, mtu);
        }
    }
}

/// Many at a time: one super-datagram out, which the kernel cuts; single ones back.
#[test]
fn batches() {
    if not_root() {
        return;
    }
    const COUNT: usize = 60;
    const SIZE: usize = 1000;
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        let (ours, theirs) = (bind(&lan), lan.kernel_datagrams());
        let mut data = vec![0; COUNT * SIZE];
        Rng::new(5).fill(&mut data);
        ours.connect(theirs.local_addr().unwrap()).unwrap();
        let mut sent = 0;
        while sent < data.len() {
            sent += ours.send_batch(&data[sent..], SIZE).unwrap();
        }
        let mut buffer = [0; 2048];
        for (number, piece) in data.chunks(SIZE).enumerate() {
            let n = theirs.recv(&mut buffer).unwrap();
            let came = data.chunks(SIZE).position(|other| other == &buffer[..n]);
            assert_eq!(came, Some(number), "{n} bytes");
            assert!(&buffer[..n] == piece);
        }
        theirs.connect(ours.local_addr().unwrap()).unwrap();
        for piece in data.chunks(SIZE) {
            theirs.send(piece).unwrap();
        }
        let (mut back, mut places) = (vec![0; COUNT * SIZE], vec![Datagram::EMPTY; COUNT]);
        let mut got = Vec::new();
        while got.len() < data.len() {
            let n = ours.recv_batch(&mut back, &mut places).unwrap();
            for place in &places[..n] {
                assert_eq!(place.len, SIZE);
                got.extend_from_slice(&back[place.offset..place.offset + place.len]);
            }
        }
        assert!(got == data);
    }
}

/// RFC 1122 section 4.1.3.3: an error that ICMP reports reaches the application, in both
/// directions.
#[test]
fn nobody_at_the_port() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        let theirs = lan.kernel_datagrams();
        let closed = theirs.local_addr().unwrap();
        drop(theirs);
        let ours = bind(&lan);
        ours.connect(closed).unwrap();
        ours.send(b"anybody?").unwrap();
        let error = ours.recv(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        // Reported once.
        ours.set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let error = ours.recv(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");

        let theirs = lan.kernel_datagrams();
        theirs.connect((GANNET, 4711)).unwrap();
        theirs.send(b"anybody?").unwrap();
        let error = theirs.recv(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}

/// RFC 1122 section 3.2.2.6: echoes with the same identifier, number and data.
#[test]
fn the_kernel_pings_gannet() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 9000);
        let raw = lan.kernel.run(|| {
            let icmp = Some(ipproto::ICMP);
            let raw = socket(AddressFamily::INET, SocketType::RAW, icmp).unwrap();
            rustix::net::sockopt::set_socket_timeout(
                &raw,
                rustix::net::sockopt::Timeout::Recv,
                Some(PATIENCE),
            )
            .unwrap();
            raw
        });
        let to = SocketAddrV4::new(GANNET.parse::<Ipv4Addr>().unwrap(), 0);
        for (number, size) in [0, 1, 56, 1472, 8972, 8973, 65_507].into_iter().enumerate() {
            let mut request = vec![8, 0, 0, 0, 0x12, 0x34, 0, number as u8];
            request.extend((0..size).map(|i: usize| (i % 251) as u8));
            let sum = checksum(&request);
            request[2..4].copy_from_slice(&sum.to_be_bytes());
            sendto(&raw, &request, SendFlags::empty(), &to).unwrap();
            let mut buffer = vec![0; 65_536];
            let (n, _) = recv(&raw, &mut buffer[..], RecvFlags::empty()).unwrap();
            let answer = &buffer[20..n]; // behind the IP header
            assert_eq!(checksum(answer), 0, "{size} bytes");
            assert_eq!(answer[..2], [0, 0], "an echo reply");
            assert!(answer[4..] == request[4..], "{size} bytes");
        }
    }
}

/// RFC 1071, slow and plain.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn datagrams_that_lead_nowhere() {
    if not_root() {
        return;
    }
    let lan = Lan::new(Join::Veth, 1500);
    let ours = bind(&lan);
    let error = ours.send_to(b"x", "192.0.2.1:9").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
    // A neighbour that does not answer is found out later: connected sockets are told.
    ours.connect("10.90.0.77:9").unwrap();
    let mut told = None;
    wait("an error", || {
        told = ours.send(b"x").err();
        told.is_some()
    });
    let error = told.unwrap();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    // And the socket is as good as before.
    let theirs = lan.kernel_datagrams();
    ours.connect((KERNEL, theirs.local_addr().unwrap().port()))
        .unwrap();
    ours.send(b"here").unwrap();
    assert_eq!(theirs.recv(&mut [0; 9]).unwrap(), 4);
}
