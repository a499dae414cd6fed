//! Packet drivers on virtual Ethernets: against each other and against the kernel.

mod support;

use gannet_drivers::capture::Capture;
use gannet_drivers::interface::Interface;
use gannet_drivers::packet::{Options, PacketDriver};
use gannet_drivers::virtio::{DropReason, SegmentSize};
use gannet_link::slot::flags;
use gannet_link::{Driver, Endpoint, Frame, LinkState};
use std::io::ErrorKind;
use std::net::UdpSocket;
use support::*;

type Packet = Endpoint<PacketDriver>;
type Packets = Endpoint<Capture<PacketDriver, Vec<u8>, fn() -> u64>>;

/// An EtherType for local experiments (IEEE 802).
const LOCAL: u16 = 0x88b5;
const A: [u8; 4] = [10, 77, 0, 1];
const B: [u8; 4] = [10, 77, 0, 2];

fn open(namespace: &Namespace, name: &str) -> Packet {
    open_with(namespace, name, Options::default())
}

fn open_with(namespace: &Namespace, name: &str, options: Options) -> Packet {
    namespace.run(|| PacketDriver::open(name, options).unwrap())
}

fn small() -> Options {
    Options {
        segment: SegmentSize {
            block_bytes: 16 << 10,
            blocks: 64,
        },
        ..Options::default()
    }
}

fn mac(endpoint: &Packet) -> [u8; 6] {
    endpoint.capabilities().hardware_address
}

#[test]
fn frames_of_every_size_arrive_unchanged() {
    if not_root() {
        return;
    }
    for mtu in [576, 1500, 9000, 65_535] {
        let (a, b) = veth(mtu);
        let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
        assert_eq!(left.capabilities().mtu, mtu);
        let free = (left.pool.free_blocks(), right.pool.free_blocks());
        let head = ethernet(mac(&right), mac(&left), LOCAL);
        let mtu = mtu as usize;
        let sizes = (0..300)
            .chain((300..mtu).step_by(mtu / 40))
            .chain([mtu - 1, mtu]);
        for size in sizes {
            let payload = pattern(size, size as u64);
            assert!(send(&mut left, &head, &payload, Extra::default()));
            let seen = expect(&mut right, LOCAL);
            assert_eq!(seen.bytes[..14], head[..]);
            assert_eq!(seen.bytes[14..], payload[..], "payload of {size}");
            assert_eq!((seen.gso_size, seen.valid), (0, false));
        }
        left.pool.invariants();
        right.pool.invariants();
        assert_eq!(left.pool.free_blocks(), free.0, "sent blocks came back");
        assert!(
            right.pool.free_blocks() + 6 >= free.1,
            "received blocks came back"
        );
        assert_eq!(
            (left.driver.drops().total(), right.driver.drops().total()),
            (0, 0)
        );
    }
}

#[test]
fn longer_than_the_mtu_is_dropped_and_counted() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
    let head = ethernet(mac(&right), mac(&left), LOCAL);
    assert!(send(&mut left, &head, &pattern(1600, 1), Extra::default()));
    assert_eq!(left.driver.drops().get(DropReason::TooLarge), 1);
    assert!(send(&mut left, &head, b"still works", Extra::default()));
    assert_eq!(expect(&mut right, LOCAL).bytes[14..], b"still works"[..]);
}

/// robustness.md L1: shorter than an Ethernet header.
#[test]
fn l1_runt_frames_are_refused_by_the_kernel_and_counted() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
    for len in 1..14 {
        assert!(send(&mut left, &pattern(len, 1), &[], Extra::default()));
    }
    assert_eq!(left.driver.drops().get(DropReason::Rejected), 13);
    let head = ethernet(mac(&right), mac(&left), LOCAL);
    assert!(send(&mut left, &head, &[], Extra::default()));
    assert_eq!(expect(&mut right, LOCAL).bytes, head);
}

/// A TCP segment as a stack makes it: partial checksum, headers inline.
fn tcp(endpoints: ([u8; 6], [u8; 6]), payload: &[u8], flags_byte: u8) -> (Vec<u8>, u16) {
    let mut header = vec![0; 20];
    header[..4].copy_from_slice(&[0x30, 0x39, 0xd4, 0x31]);
    header[4..8].copy_from_slice(&0x0102_0304_u32.to_be_bytes());
    header[12] = 0x50;
    header[13] = flags_byte;
    header[14..16].copy_from_slice(&0xffff_u16.to_be_bytes());
    let partial = fold(&pseudo(A, B, 6, 20 + payload.len()));
    header[16..18].copy_from_slice(&partial.to_be_bytes());
    let head = [
        ethernet(endpoints.1, endpoints.0, 0x0800),
        ipv4(A, B, 6, 20 + payload.len()),
        header,
    ]
    .concat();
    (head, partial)
}

#[test]
fn tcp_super_segments_cross_in_one_piece() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
    for (len, gso_size) in [(2000, 1460), (14_600, 1460), (65_160, 1448), (65_481, 536)] {
        let payload = pattern(len, len as u64);
        let (head, _) = tcp((mac(&left), mac(&right)), &payload, 0x18);
        assert!(send(&mut left, &head, &payload, partial(34, 16, gso_size)));
        let seen = expect(&mut right, 0x0800);
        assert_eq!((seen.gso_size, seen.valid), (gso_size, true));
        assert_eq!(seen.bytes[..54], head[..]);
        assert_eq!(seen.bytes[54..], payload[..]);
        assert!(seen.ranges <= 5);
    }
    assert_eq!(
        (left.driver.drops().total(), right.driver.drops().total()),
        (0, 0)
    );
}

#[test]
fn the_kernel_cuts_what_the_interface_cannot_carry() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
    ip(&[
        "-n",
        &a.name,
        "link",
        "set",
        "left",
        "gso_max_size",
        "20000",
    ]);
    let payload = pattern(29_200, 5);
    let (head, _) = tcp((mac(&left), mac(&right)), &payload, 0x98); // CWR, PSH, ACK
    assert!(send(&mut left, &head, &payload, partial(34, 16, 1460)));
    let mut got = Vec::new();
    let mut frames = 0;
    while got.len() < payload.len() {
        let seen = expect(&mut right, 0x0800);
        let total = usize::from(u16::from_be_bytes([seen.bytes[16], seen.bytes[17]]));
        assert_eq!(seen.bytes.len(), 14 + total);
        assert_eq!(
            seen.bytes[47] & 0x80 != 0,
            frames == 0,
            "CWR on the first segment only"
        );
        got.extend_from_slice(&seen.bytes[54..]);
        frames += 1;
    }
    assert_eq!(got, payload);
    assert!(frames > 1, "the limit of the interface asked for cutting");
}

#[test]
fn udp_super_datagrams_reach_a_kernel_socket_as_datagrams() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let mut left = open(&a, "left");
    assert!(
        left.capabilities().udp_segmentation,
        "this kernel is newer than 6.2"
    );
    let socket = kernel_peer(&b, mac(&left));
    let peer = b.run(|| {
        Interface::open("right")
            .unwrap()
            .hardware_address()
            .unwrap()
    });
    let payload = pattern(10 * 1000 + 7, 3);
    let (head, place) = udp((mac(&left), peer), &payload);
    let extra = Extra {
        flags: flags::CSUM_PARTIAL | flags::GSO_UDP,
        ..partial(place, 6, 1000)
    };
    assert!(send(&mut left, &head, &payload, extra));
    let mut buffer = [0; 2000];
    for chunk in payload.chunks(1000) {
        let (n, _) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..n], *chunk);
    }
    assert_eq!(left.driver.drops().total(), 0);
}

/// A UDP datagram with a partial checksum, and where the checksummed part starts.
fn udp(endpoints: ([u8; 6], [u8; 6]), payload: &[u8]) -> (Vec<u8>, u16) {
    let len = 8 + payload.len();
    let mut header = vec![0x30, 0x39, 0x1f, 0x90];
    header.extend_from_slice(&(len as u16).to_be_bytes());
    header.extend_from_slice(&fold(&pseudo(A, B, 17, len)).to_be_bytes());
    let head = [
        ethernet(endpoints.1, endpoints.0, 0x0800),
        ipv4(A, B, 17, len),
        header,
    ]
    .concat();
    (head, 34)
}

/// The kernel as a neighbour: address B on `right`, knows A at `neighbour`, a socket on port 8080.
fn kernel_peer(namespace: &Namespace, neighbour: [u8; 6]) -> UdpSocket {
    namespace.run(|| {
        let right = Interface::open("right").unwrap();
        right.set_address(B.into(), 24).unwrap();
        right.up().unwrap();
        let text = neighbour.map(|b| format!("{b:02x}")).join(":");
        ip(&[
            "neigh",
            "replace",
            "10.77.0.1",
            "lladdr",
            &text,
            "dev",
            "right",
        ]);
        let socket = UdpSocket::bind("10.77.0.2:8080").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    })
}

#[test]
fn datagrams_to_and_from_a_kernel_socket() {
    if not_root() {
        return;
    }
    for mtu in [576, 1500, 9000, 65_535] {
        let (a, b) = veth(mtu);
        let mut left = open(&a, "left");
        let socket = kernel_peer(&b, mac(&left));
        let peer = b.run(|| {
            Interface::open("right")
                .unwrap()
                .hardware_address()
                .unwrap()
        });
        let mut buffer = vec![0; 70_000];
        for size in [1, 54, 55, 500, mtu as usize - 28].map(|s| s.min(65_507)) {
            let payload = pattern(size, 9);
            let (head, place) = udp((mac(&left), peer), &payload);
            assert!(send(&mut left, &head, &payload, partial(place, 6, 0)));
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(
                buffer[..n],
                payload[..],
                "the kernel found the checksum right"
            );
            assert_eq!(from.to_string(), "10.77.0.1:12345");
            socket.send_to(&buffer[..n], from).unwrap();
            let seen = expect(&mut left, 0x0800);
            assert!(
                seen.valid,
                "the kernel vouches for what never left this machine"
            );
            assert_eq!(seen.bytes[42..], payload[..]);
        }
    }
}

#[test]
fn an_interface_that_goes_down_comes_back_and_one_removed_does_not() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
    for end in [&mut left, &mut right] {
        wait_up(end);
    }
    let control = a.run(|| Interface::open("left").unwrap());
    let head = ethernet(mac(&right), mac(&left), LOCAL);
    let mut frame = Frame::new();

    control.down().unwrap();
    assert!(
        !left.driver.arm(),
        "the change of state is something to see"
    );
    assert!(!left.receive(&mut frame, &mut 4));
    assert_eq!(left.state(), LinkState::Down);
    assert!(send(&mut left, &head, &pattern(500, 1), Extra::default()));
    assert_eq!(
        left.driver.drops().get(DropReason::LinkDown),
        1,
        "never stuck in the queue"
    );

    control.up().unwrap();
    wait_up(&mut left);
    assert!(send(&mut left, &head, b"back", Extra::default()));
    assert_eq!(expect(&mut right, LOCAL).bytes[14..], b"back"[..]);

    ip(&["-n", &a.name, "link", "del", "left"]); // takes its peer with it
    for end in [&mut left, &mut right] {
        wait("the end", || {
            assert!(!end.receive(&mut frame, &mut 4));
            (end.state() == LinkState::Gone).then_some(())
        });
        for _ in 0..200 {
            assert!(send(end, &head, &pattern(500, 1), Extra::default()));
        }
        assert!(end.driver.room() > 0);
        end.pool.invariants();
    }
}

/// The kernel reports a carrier some time after there is one.
fn wait_up(end: &mut Packet) {
    wait("the carrier", || {
        end.flush();
        (end.state() == LinkState::Up).then_some(())
    });
}

#[test]
fn without_memory_small_frames_still_pass() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open_with(&b, "right", small()));
    let head = ethernet(mac(&right), mac(&left), LOCAL);
    let mut held = Vec::new();
    let large = pattern(1400, 1);
    while right.driver.drops().get(DropReason::NoMemory) == 0 {
        assert!(send(&mut left, &head, &large, Extra::default()));
        let mut frame = Frame::new();
        wait("the frame or its drop", || {
            let came = right.receive(&mut frame, &mut 1);
            (came || right.driver.drops().total() > 0).then_some(())
        });
        held.push(frame);
        assert!(held.len() < 2000, "memory never ends");
    }
    assert!(
        held.len() > 500,
        "small frames share blocks: {} in 64 blocks",
        held.len()
    );
    assert!(send(&mut left, &head, b"acknowledgement", Extra::default()));
    assert_eq!(
        expect(&mut right, LOCAL).bytes[14..],
        b"acknowledgement"[..]
    );
    for frame in &held {
        right.release_frame(frame);
    }
    assert!(send(&mut left, &head, &large, Extra::default()));
    assert_eq!(expect(&mut right, LOCAL).bytes[14..], large[..]);
    right.pool.invariants();
}

#[test]
fn a_burst_goes_out_in_order() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
    let head = ethernet(mac(&right), mac(&left), LOCAL);
    let mut sent = 0_u32;
    for round in 1..40 {
        for _ in 0..round {
            let mut slot = gannet_link::Slot::new();
            let bytes = [&head[..], &sent.to_be_bytes()].concat();
            slot.inline_mut(bytes.len())
                .unwrap()
                .copy_from_slice(&bytes);
            left.transmit(&slot).unwrap();
            sent += 1;
        }
        left.flush();
        assert_eq!(left.driver.room(), 64);
        for number in sent - round..sent {
            assert_eq!(expect(&mut right, LOCAL).bytes[14..], number.to_be_bytes());
        }
    }
    assert!(right.driver.arm(), "nothing more to come");
}

#[test]
fn no_sleep_while_a_batch_is_half_handed_over() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
    let head = ethernet(mac(&right), mac(&left), LOCAL);
    for number in 0..20_u8 {
        assert!(send(&mut left, &head, &[number], Extra::default()));
    }
    for number in 0..20_u8 {
        wait("something to do", || (!right.driver.arm()).then_some(()));
        assert_eq!(expect(&mut right, LOCAL).bytes[14..], [number]);
    }
    wait("nothing to do", || {
        assert!(receive(&mut right).is_none());
        right.driver.arm().then_some(())
    });
}

#[test]
fn frames_of_other_networks_stay_out() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let (mut left, mut right) = (open(&a, "left"), open(&b, "right"));
    let mut tagged = ethernet(mac(&right), mac(&left), 0x8100);
    tagged.extend_from_slice(&[0, 5]);
    tagged.extend_from_slice(&LOCAL.to_be_bytes());
    assert!(send(&mut left, &tagged, b"of VLAN 5", Extra::default()));
    // No VLAN, only a priority: as without a tag.
    tagged[14..16].copy_from_slice(&[0xe0, 0]);
    assert!(send(&mut left, &tagged, b"urgent", Extra::default()));
    let head = ethernet(mac(&right), mac(&left), LOCAL);
    assert!(send(&mut left, &head, b"untagged", Extra::default()));
    for expected in [&b"urgent"[..], b"untagged"] {
        let seen = wait("a frame", || receive(&mut right));
        assert_eq!(
            (&seen.bytes[14..], &seen.bytes[..14]),
            (expected, &head[..])
        );
    }
    assert!(receive(&mut left).is_none(), "own frames do not come back");
}

/// An endpoint on a VLAN gets its frames only, and without their tags.
#[test]
fn one_vlan() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let options = Options {
        vlan: Some(5),
        ..Options::default()
    };
    let mut left = open(&a, "left");
    let mut right = b.run(|| PacketDriver::open("right", options).unwrap());
    let plain = ethernet(mac(&right), mac(&left), LOCAL);
    assert!(send(&mut left, &plain, b"untagged", Extra::default()));
    for id in [0, 4, 6, 4094, 5] {
        let mut tagged = ethernet(mac(&right), mac(&left), 0x8100);
        tagged.extend_from_slice(&u16::to_be_bytes(0x2000 | id));
        tagged.extend_from_slice(&LOCAL.to_be_bytes());
        let whole = pattern(1500, id.into());
        assert!(send(&mut left, &tagged, &whole, Extra::default()));
    }
    let seen = wait("a frame", || receive(&mut right));
    assert_eq!(seen.bytes[..14], plain[..]);
    assert_eq!(seen.bytes[14..], pattern(1500, 5)[..]);
    assert!(receive(&mut right).is_none());
    assert_eq!(left.driver.drops().total(), 0);
}

#[test]
fn a_capture_shows_what_passes_both_ways() {
    if not_root() {
        return;
    }
    let (a, b) = veth(1500);
    let now: fn() -> u64 = || 0;
    let mut left: Packets = Capture::start(open(&a, "left"), Vec::new(), "left", 0, now);
    let mut right: Packets = Capture::start(open(&b, "right"), Vec::new(), "right", 0, now);
    let local = |endpoint: &Packets| endpoint.capabilities().hardware_address;
    let payload = pattern(40_000, 2);
    let (head, _) = tcp((local(&left), local(&right)), &payload, 0x18);
    assert!(send(&mut left, &head, &payload, partial(34, 16, 1448)));
    assert_eq!(expect(&mut right, 0x0800).bytes[54..], payload[..]);
    for end in [&left, &right] {
        let sink = end.driver.sink();
        assert!(sink.written() > 0 && sink.errors() == 0);
        let whole = [&head[..], &payload].concat();
        assert!(
            sink.output()
                .windows(whole.len())
                .any(|bytes| bytes == whole)
        );
    }
}

#[test]
fn errors_say_what_why_and_what_to_try() {
    if not_root() {
        return;
    }
    let namespace = Namespace::new();
    let missing = namespace.run(|| PacketDriver::open("nosuch0", Options::default()));
    let error = missing.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text = error.to_string();
    assert!(text.contains("nosuch0") && text.contains("\nwhy: ") && text.contains("\ntry: "));

    let (a, _b) = veth(1500);
    let segment = SegmentSize {
        block_bytes: 5000,
        blocks: 100,
    };
    let options = Options {
        segment,
        ..Options::default()
    };
    let error = a.run(|| PacketDriver::open("left", options)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
