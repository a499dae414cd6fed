//! TUN and TAP devices against the kernel's own IP, ICMP, UDP and TCP.

mod support;

use gannet_drivers::interface::Interface;
use gannet_drivers::tap::{Kind, Options, TapDriver};
use gannet_drivers::virtio::{DropReason, SegmentSize};
use gannet_link::{Driver, Endpoint, Frame, LinkState, Medium};
use rustix::fs::{Mode, OFlags};
use std::io::{ErrorKind, Write};
use std::net::{TcpStream, UdpSocket};
use support::*;

type Tap = Endpoint<TapDriver>;

const KERNEL: [u8; 4] = [10, 78, 0, 1];
const OURS: [u8; 4] = [10, 78, 0, 2];

/// A device whose kernel side has an address, knows ours, and is up.
fn open(namespace: &Namespace, kind: Kind, mtu: u32) -> Tap {
    namespace.run(|| {
        let options = Options {
            mtu: Some(mtu),
            ..Options::default()
        };
        let tap = TapDriver::open(Some("gannet%d"), kind, options).unwrap();
        let interface = tap.driver.interface().unwrap();
        assert_eq!(interface.name(), "gannet0");
        interface.set_address(KERNEL.into(), 24).unwrap();
        interface.up().unwrap();
        wait("the carrier", || {
            interface.is_running().unwrap().then_some(())
        });
        if kind == Kind::Tap {
            let ours = tap.capabilities().hardware_address;
            let text = ours.map(|b| format!("{b:02x}")).join(":");
            ip(&[
                "neigh",
                "replace",
                "10.78.0.2",
                "lladdr",
                &text,
                "dev",
                "gannet0",
            ]);
        }
        tap
    })
}

/// The link header towards the kernel: none on TUN.
fn link_header(tap: &Tap) -> Vec<u8> {
    match tap.capabilities().medium {
        Medium::Ip => Vec::new(),
        Medium::Ethernet => {
            let kernel = tap.driver.interface().unwrap().hardware_address().unwrap();
            ethernet(kernel, tap.capabilities().hardware_address, 0x0800)
        }
    }
}

/// Waits for an IPv4 packet of `protocol` and returns it without link header.
fn expect_ipv4(tap: &mut Tap, protocol: u8) -> Seen {
    let link = link_header(tap).len();
    wait("a packet", || {
        let mut seen = receive(tap)?;
        if link == 14 && seen.bytes.get(12..14) != Some(&[8, 0]) {
            return None;
        }
        seen.bytes.drain(..link);
        let ours = seen.bytes.first()? >> 4 == 4 && seen.bytes.get(9) == Some(&protocol);
        ours.then_some(seen)
    })
}

fn echo_request(payload: &[u8], sequence: u16) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0, 0x12, 0x34];
    message.extend_from_slice(&sequence.to_be_bytes());
    message.extend_from_slice(payload);
    let sum = internet_checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

#[test]
fn the_kernel_answers_echo_requests_of_every_size() {
    if not_root() {
        return;
    }
    for kind in [Kind::Tap, Kind::Tun] {
        for mtu in [576, 1500, 9000, 65_521] {
            let namespace = Namespace::new();
            let mut tap = open(&namespace, kind, mtu);
            assert_eq!(tap.capabilities().mtu, mtu);
            let link = link_header(&tap);
            let most = mtu as usize - 28;
            for size in [0, 1, 40, 54, 55, 68, 69, 97, 400, most - 1, most] {
                let message = echo_request(&pattern(size, size as u64), size as u16);
                let header = ipv4(OURS, KERNEL, 1, message.len());
                let head = [&link[..], &header[..]].concat();
                assert!(send(&mut tap, &head, &message, Extra::default()));
                let seen = expect_ipv4(&mut tap, 1);
                assert_eq!(seen.bytes[20], 0, "an echo reply");
                assert_eq!(seen.bytes[24..], message[4..], "{kind:?} {mtu} {size}");
                assert_eq!(internet_checksum(&seen.bytes[20..]), 0);
            }
            assert_eq!(tap.driver.drops().total(), 0);
            tap.pool.invariants();
        }
    }
}

#[test]
fn datagrams_with_partial_checksums_both_ways() {
    if not_root() {
        return;
    }
    for kind in [Kind::Tap, Kind::Tun] {
        let namespace = Namespace::new();
        let mut tap = open(&namespace, kind, 65_521);
        let socket = namespace.run(|| UdpSocket::bind("10.78.0.1:8080").unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let link = link_header(&tap);
        let mut buffer = vec![0; 70_000];
        for size in [1, 60, 1472, 30_000, 65_493] {
            let payload = pattern(size, 4);
            let len = 8 + size;
            let mut udp = vec![0x30, 0x39, 0x1f, 0x90];
            udp.extend_from_slice(&(len as u16).to_be_bytes());
            udp.extend_from_slice(&fold(&pseudo(OURS, KERNEL, 17, len)).to_be_bytes());
            let head = [&link[..], &ipv4(OURS, KERNEL, 17, len), &udp].concat();
            let extra = partial(link.len() as u16 + 20, 6, 0);
            assert!(send(&mut tap, &head, &payload, extra));
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..n], payload[..]);
            socket.send_to(&payload, from).unwrap();
            let seen = expect_ipv4(&mut tap, 17);
            assert!(seen.valid);
            assert_eq!(seen.bytes[28..], payload[..]);
        }
    }
}

/// A TCP segment from us to the kernel, checksum partial.
fn segment(link: &[u8], numbers: (u32, u32), control: u8, payload: &[u8]) -> (Vec<u8>, Extra) {
    let mut tcp = vec![0x1f, 0x90, 0, 0];
    tcp.extend_from_slice(&numbers.0.to_be_bytes());
    tcp.extend_from_slice(&numbers.1.to_be_bytes());
    tcp.extend_from_slice(&[0x50, control, 0xff, 0xff]);
    let len = 20 + payload.len();
    tcp.extend_from_slice(&fold(&pseudo(OURS, KERNEL, 6, len)).to_be_bytes());
    tcp.extend_from_slice(&[0, 0]);
    let head = [link, &ipv4(OURS, KERNEL, 6, len), &tcp].concat();
    (head, partial(link.len() as u16 + 20, 16, 0))
}

/// The kernel's TCP hands us super-segments: answered by hand just enough to see one.
#[test]
fn the_kernel_leaves_cutting_to_us() {
    if not_root() {
        return;
    }
    for kind in [Kind::Tap, Kind::Tun] {
        let namespace = Namespace::new();
        let mut tap = open(&namespace, kind, 1500);
        let link = link_header(&tap);
        let writer = std::thread::spawn({
            let name = namespace.name.clone();
            move || writer(&name)
        });
        let syn = expect_ipv4(&mut tap, 6).bytes;
        let port = [syn[20], syn[21]];
        let iss = u32::from_be_bytes([syn[24], syn[25], syn[26], syn[27]]);
        let reply = |tap: &mut Tap, seq: u32, ack: u32, control: u8| {
            let (mut head, extra) = segment(&link, (seq, ack), control, &[]);
            let at = link.len() + 22;
            head[at..at + 2].copy_from_slice(&port);
            assert!(send(tap, &head, &[], extra));
        };
        reply(&mut tap, 1000, iss.wrapping_add(1), 0x12);
        let (mut next, mut data, mut largest) = (iss.wrapping_add(1), Vec::new(), 0);
        while data.len() < 300_000 {
            let seen = expect_ipv4(&mut tap, 6);
            let payload = &seen.bytes[20 + usize::from(seen.bytes[32] >> 4) * 4..];
            let seq = seen.bytes[24..28].try_into().unwrap();
            if u32::from_be_bytes(seq) == next && !payload.is_empty() {
                assert!(seen.valid);
                assert!(
                    payload.len() <= 536 || seen.gso_size == 536,
                    "{}",
                    seen.gso_size
                );
                largest = largest.max(payload.len());
                data.extend_from_slice(payload);
                next = next.wrapping_add(payload.len() as u32);
                reply(&mut tap, 1001, next, 0x10);
            }
        }
        reply(&mut tap, 1001, next, 0x14);
        assert_eq!(data[..300_000], pattern(300_000, 6)[..]);
        assert!(largest > 10_000, "largest segment: {largest}");
        writer.join().unwrap();
    }
}

/// Connects to us from inside the namespace and writes.
fn writer(namespace: &str) {
    let file = std::fs::File::open(format!("/run/netns/{namespace}")).unwrap();
    let kind = rustix::thread::LinkNameSpaceType::Network;
    let fd = std::os::fd::AsFd::as_fd(&file);
    rustix::thread::move_into_link_name_space(fd, Some(kind)).unwrap();
    let mut stream = TcpStream::connect("10.78.0.2:8080").unwrap();
    let _ = stream.write_all(&pattern(300_000, 6));
}

#[test]
fn rubbish_is_refused_by_the_kernel_and_counted() {
    if not_root() {
        return;
    }
    let namespace = Namespace::new();
    let mut tun = open(&namespace, Kind::Tun, 1500);
    assert!(send(&mut tun, &[0xff; 40], &[], Extra::default())); // IP version 15
    let mut tap = open_second(&namespace);
    for len in 1..14 {
        assert!(send(&mut tap, &pattern(len, 1), &[], Extra::default()));
    }
    assert_eq!(tun.driver.drops().get(DropReason::Rejected), 1);
    assert_eq!(tap.driver.drops().get(DropReason::Rejected), 13);
}

fn open_second(namespace: &Namespace) -> Tap {
    namespace.run(|| {
        let tap = TapDriver::open(None, Kind::Tap, Options::default()).unwrap();
        tap.driver.interface().unwrap().up().unwrap();
        tap
    })
}

#[test]
fn a_descriptor_is_taken_over_and_the_device_removed_under_it() {
    if not_root() {
        return;
    }
    let namespace = Namespace::new();
    let options = Options::default();
    let busy = namespace.run(|| {
        let first = TapDriver::open(Some("gannet0"), Kind::Tun, options).unwrap();
        let second = TapDriver::open(Some("gannet0"), Kind::Tun, options);
        (first, second)
    });
    assert_eq!(busy.1.err().unwrap().kind(), ErrorKind::ResourceBusy);
    let own = busy.0.driver.port();
    let fd = rustix::io::fcntl_dupfd_cloexec(own, 0).unwrap();
    let mut taken = TapDriver::from_fd(fd, 1500, [0; 6], SegmentSize::default()).unwrap();
    assert_eq!(taken.capabilities().medium, Medium::Ip);
    namespace.run(|| {
        let interface = Interface::open("gannet0").unwrap();
        interface.set_address(KERNEL.into(), 24).unwrap();
        interface.up().unwrap();
    });
    let message = echo_request(b"taken over", 1);
    let head = ipv4(OURS, KERNEL, 1, message.len());
    assert!(send(&mut taken, &head, &message, Extra::default()));
    let seen = wait("a reply", || {
        receive(&mut taken).filter(|s| s.bytes.get(9) == Some(&1))
    });
    assert_eq!(seen.bytes[24..], message[4..]);

    ip(&["-n", &namespace.name, "link", "del", "gannet0"]);
    let mut frame = Frame::new();
    for mut end in [taken, busy.0] {
        wait("the end", || {
            assert!(!end.receive(&mut frame, &mut 4));
            (end.state() == LinkState::Gone).then_some(())
        });
        assert!(send(&mut end, &head, &message, Extra::default()));
        assert!(end.driver.drops().get(DropReason::LinkDown) > 0);
        assert_eq!(end.driver.room(), 64);
    }
}

#[test]
fn errors_say_what_why_and_what_to_try() {
    if not_root() {
        return;
    }
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()).unwrap();
    let error = TapDriver::from_fd(null, 1500, [0; 6], SegmentSize::default());
    let namespace = Namespace::new();
    let name = namespace.run(|| {
        TapDriver::open(
            Some("a-name-that-is-too-long"),
            Kind::Tun,
            Options::default(),
        )
    });
    let options = Options {
        mtu: Some(70_000),
        ..Options::default()
    };
    let mtu = namespace.run(|| TapDriver::open(None, Kind::Tun, options));
    for error in [
        error.err().unwrap(),
        name.err().unwrap(),
        mtu.err().unwrap(),
    ] {
        let text = error.to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.contains("\nwhy: ") && text.contains("\ntry: "),
            "{text}"
        );
    }
}
