//! UDP between two hosts: RFC 768, robustness U1, U2 (with `icmp/tests.rs`), back-pressure.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::Rng;
use gannet_link::{Checksum, Layout, Medium, NoDoorbell, PeerDriver};
use gannet_wire::IpProtocol;

use super::{BindError, Datagram, UdpError, UdpId, UdpOption, WhenFull};
use crate::counters::DropReason::{self, *};
use crate::testing::packet::{datagram, mend, packet};
use crate::testing::{A, B, Faults, Pair, Simulated, WireConfig, WireDriver};

const ANY: IpAddr = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
type Channel = Pair<PeerDriver<NoDoorbell>>;

fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

/// A socket on A's port 5, connected to one on B's port 9.
fn connected<D: Simulated>(pair: &mut Pair<D>) -> (UdpId, UdpId) {
    let from = pair.a.udp_bind(at(A, 5)).expect("free");
    let to = pair.b.udp_bind(at(B, 9)).expect("free");
    pair.a.udp_connect(from, Some(at(B, 9))).expect("a route");
    (from, to)
}

fn read<D: Simulated>(pair: &mut Pair<D>, socket: UdpId) -> Result<Vec<u8>, UdpError> {
    let mut buffer = vec![0; 65_535];
    let (copied, len, _) = pair.b.udp_recv_from(socket, &mut buffer)?;
    assert_eq!(copied, len);
    buffer.truncate(copied);
    Ok(buffer)
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; len];
    Rng::new(seed).fill(&mut data);
    data
}

fn nothing_kept<D: Simulated>(pair: &mut Pair<D>) {
    pair.settle();
    let links = [(&pair.a, pair.link_a), (&pair.b, pair.link_b)];
    for (host, link) in links {
        let pool = &host.link(link).expect("there").pool;
        pool.invariants();
        assert!(pool.blocks() - pool.free_blocks() <= 1, "one shared block");
    }
}

#[test]
fn datagrams_of_every_size_over_links_of_every_kind() {
    let sizes = [
        0, 1, 7, 8, 67, 68, 69, 128, 255, 256, 257, 1471, 1472, 1473, 2952, 2953, 16_385, 65_507,
    ];
    let every = |pair: &mut Pair<WireDriver>| {
        let (from, to) = connected(pair);
        for (seed, len) in sizes.into_iter().enumerate() {
            let data = bytes(len, seed as u64);
            assert_eq!(pair.a.udp_send_to(pair.now, from, &data, None), Ok(len));
            pair.pass(Duration::from_millis(1));
            assert_eq!(read(pair, to), Ok(data));
        }
        assert_eq!(read(pair, to), Err(UdpError::WouldBlock));
        let long = pair.a.udp_send_to(pair.now, from, &[0; 65_508], None);
        assert_eq!(long, Err(UdpError::TooLarge));
        nothing_kept(pair);
    };
    for medium in [Medium::Ip, Medium::Ethernet] {
        for checksum in [Checksum::Software, Checksum::Partial, Checksum::None] {
            let wire = WireConfig {
                medium,
                checksum,
                ..WireConfig::default()
            };
            every(&mut Pair::wire(1, &wire));
        }
    }
    let mut pair = Pair::channel(1);
    let (from, to) = connected(&mut pair);
    for len in sizes.into_iter().chain([16_384, 40_000]) {
        let data = bytes(len, len as u64);
        assert_eq!(pair.a.udp_send_to(pair.now, from, &data, None), Ok(len));
        pair.settle();
        assert_eq!(read(&mut pair, to), Ok(data));
    }
    let long = pair.a.udp_send_to(pair.now, from, &[0; 65_508], None);
    assert_eq!(long, Err(UdpError::TooLarge));
    nothing_kept(&mut pair);
}

/// Sends `count` datagrams of `size` bytes as fast as the sender may while the receiver reads only
/// when nothing else moves; every byte must arrive, in order.
fn no_loss<D: Simulated>(mut pair: Pair<D>, count: usize, size: usize, batch: usize, last: usize) {
    let (from, to) = connected(&mut pair);
    let data = bytes((count - 1) * size + last, 5);
    let (mut sent, mut got) = (0, Vec::new());
    let mut waits = 0;
    while got.len() < data.len() {
        while sent < data.len() {
            let end = data.len().min(sent + batch * size);
            match pair
                .a
                .udp_send_batch(pair.now, from, None, &data[sent..end], size)
            {
                Ok(taken) => sent = data.len().min(sent + taken * size),
                Err(UdpError::WouldBlock) => break,
                Err(e) => panic!("{e:?}"),
            }
            pair.settle();
        }
        pair.pass(Duration::from_millis(1));
        if pair.a.udp_status(from).is_some_and(|s| s.writable) && sent < data.len() {
            continue;
        }
        waits += 1;
        let mut buffer = vec![0; 100_000];
        let (n, each, _) = pair.b.udp_recv_segments(to, &mut buffer).expect("unread");
        assert_eq!(each, size.min(data.len() - got.len()));
        got.extend_from_slice(&buffer[..n]);
    }
    assert!(got == data);
    assert!(waits > 1, "never waited: {size} bytes times {count}");
    assert_eq!(pair.b.drops().total(), 0);
    nothing_kept(&mut pair);
}

#[test]
fn a_channel_loses_nothing_however_slow_the_receiver() {
    for (count, size, batch, last) in [
        (200_000, 128, 512, 128),
        (200_000, 128, 1, 128),
        (60_000, 1, 1, 1),
        (3_000_000, 1, 1000, 1),
        (20_000, 1400, 10, 77),
        (5_000, 8192, 64, 1),
        (300, 65_507, 1, 65_507),
    ] {
        no_loss(Pair::channel(1), count, size, batch, last);
    }
}

#[test]
fn a_sender_that_waits_is_told_when_to_go_on() {
    let mut pair = Pair::channel(1);
    let (from, to) = connected(&mut pair);
    let data = [0; 8192];
    loop {
        match pair.a.udp_send_to(pair.now, from, &data, None) {
            Ok(_) => pair.settle(),
            Err(e) => break assert_eq!(e, UdpError::WouldBlock),
        }
    }
    while pair.a.udp_take_ready().is_some() {}
    assert!(!pair.a.udp_status(from).expect("open").writable);
    pair.settle();
    assert_eq!(pair.a.udp_take_ready(), None);
    while read(&mut pair, to).is_ok() {}
    pair.settle();
    assert_eq!(pair.a.udp_take_ready(), Some(from));
    assert!(pair.a.udp_status(from).expect("open").writable);
}

#[test]
fn sockets_that_nobody_reads_do_not_stop_tcp() {
    let mut pair = Pair::channel(1);
    for port in 0..40 {
        let from = pair.a.udp_bind(at(A, 0)).expect("free");
        pair.b.udp_bind(at(B, 1000 + port)).expect("free");
        let to = Some(at(B, 1000 + port));
        let size = [1, 128, 8192][usize::from(port) % 3];
        while pair
            .a
            .udp_send_to(pair.now, from, &vec![0; size], to)
            .is_ok()
        {
            pair.settle();
        }
    }
    assert_eq!(pair.b.drops().total(), 0, "nothing was lost either");
    let listener = pair.b.tcp_listen(at(B, 80), 1).expect("free");
    let client = pair
        .a
        .tcp_connect(pair.now, None, at(B, 80))
        .expect("a route");
    let mut got = 0;
    let mut sent = 0;
    let mut server = None;
    pair.run_until(|p| {
        server = server.or_else(|| p.b.tcp_accept(listener));
        sent += p.a.tcp_send(p.now, client, &[1; 50_000]).unwrap_or(0);
        if let Some(server) = server {
            got += p.b.tcp_recv(p.now, server, &mut [0; 50_000]).unwrap_or(0);
        }
        got > 1_000_000
    });
}

#[test]
fn batches_are_cut_where_they_were_joined() {
    let mut pair = Pair::channel(1);
    let (from, to) = connected(&mut pair);
    let data = bytes(1000 * 100 + 30, 1);
    let taken = pair.a.udp_send_batch(pair.now, from, None, &data, 100);
    assert_eq!(taken, Ok(1001));
    pair.settle();
    // One, by itself; then peeked and cut; then a few; then as many as fit.
    assert_eq!(read(&mut pair, to).as_deref(), Ok(&data[..100]));
    let mut small = [0; 60];
    let expected = Ok((60, 100, at(A, 5)));
    assert_eq!(pair.b.udp_peek_from(to, &mut small), expected);
    assert_eq!(pair.b.udp_recv_from(to, &mut small), expected);
    assert_eq!(small, data[100..160]);
    let mut buffer = vec![0; 200_000];
    let mut out = [Datagram::EMPTY; 7];
    assert_eq!(pair.b.udp_recv_batch(to, &mut buffer, &mut out), Ok(7));
    assert_eq!(buffer[..700], data[200..900]);
    assert!(
        out.iter()
            .enumerate()
            .all(|(i, d)| (d.offset, d.len) == (i * 100, 100))
    );
    let got = pair.b.udp_recv_segments(to, &mut buffer[..250]);
    assert_eq!(got, Ok((200, 100, at(A, 5))));
    assert_eq!(buffer[..200], data[900..1100]);
    let got = pair.b.udp_recv_segments(to, &mut buffer);
    assert_eq!(got, Ok((data.len() - 1100, 100, at(A, 5))));
    assert!(buffer[..data.len() - 1100] == data[1100..]);
    assert_eq!(read(&mut pair, to), Err(UdpError::WouldBlock));
    nothing_kept(&mut pair);
}

#[test]
fn segments_join_only_what_is_of_one_size_and_one_sender() {
    let mut pair = Pair::channel(1);
    let (from, to) = connected(&mut pair);
    let other = pair.a.udp_bind(at(A, 6)).expect("free");
    let send = |p: &mut Channel, s, len: usize| {
        let sent =
            p.a.udp_send_to(p.now, s, &vec![len as u8; len], Some(at(B, 9)));
        assert_eq!(sent, Ok(len));
        p.settle();
    };
    for len in [10, 10, 10, 4, 10, 10, 20, 10] {
        send(&mut pair, from, len);
    }
    send(&mut pair, other, 10);
    let mut next = || {
        let mut buffer = [0; 100];
        let (n, size, from) = pair.b.udp_recv_segments(to, &mut buffer).ok()?;
        Some((n, size, from.port()))
    };
    let got: Vec<_> = core::iter::from_fn(&mut next).collect();
    let expected = [
        (34, 10, 5),
        (20, 10, 5),
        (20, 20, 5),
        (10, 10, 5),
        (10, 10, 6),
    ];
    // A shorter one ends a batch, so after 20 comes 10 in the same one.
    let joined = [(34, 10, 5), (20, 10, 5), (30, 20, 5), (10, 10, 6)];
    assert!(got == expected || got == joined, "{got:?}");
}

#[test]
fn a_wire_carries_batches_as_datagrams() {
    for (checksum, whole) in [
        (Checksum::Partial, false),
        (Checksum::Partial, true),
        (Checksum::Software, false),
    ] {
        let wire = WireConfig {
            checksum,
            whole,
            ..WireConfig::default()
        };
        let mut pair = Pair::wire(1, &wire);
        let (from, to) = connected(&mut pair);
        let first = pair.a.udp_send_to(pair.now, from, b"resolve", None);
        assert_eq!(first, Ok(7));
        pair.pass(Duration::from_millis(1));
        assert_eq!(read(&mut pair, to), Ok(b"resolve".to_vec()));
        let data = bytes(99 * 700 + 5, 9);
        let taken = pair.a.udp_send_batch(pair.now, from, None, &data, 700);
        assert_eq!(taken, Ok(100));
        pair.pass(Duration::from_millis(1));
        for piece in data.chunks(700) {
            assert_eq!(read(&mut pair, to).as_deref(), Ok(piece));
        }
        nothing_kept(&mut pair);
    }
}

#[test]
fn many_destinations_in_one_call() {
    let mut pair = Pair::channel(1);
    let from = pair.a.udp_bind(at(ANY, 5)).expect("free");
    let sockets = [9, 10].map(|port| pair.b.udp_bind(at(B, port)).expect("free"));
    let batch: Vec<_> = [9, 10, 10, 9]
        .iter()
        .map(|&port| (&b"to whom"[..], at(B, port)))
        .collect();
    assert_eq!(pair.a.udp_send_many(pair.now, from, &batch), Ok(4));
    pair.settle();
    for socket in sockets {
        assert!(read(&mut pair, socket).is_ok() && read(&mut pair, socket).is_ok());
        assert_eq!(read(&mut pair, socket), Err(UdpError::WouldBlock));
    }
}

#[test]
fn addresses() {
    let mut pair = Pair::channel(1);
    let wild = pair.b.udp_bind(at(ANY, 9)).expect("free");
    let exact = pair.b.udp_bind(at(B, 9)).expect("may share the port");
    assert_eq!(pair.b.udp_bind(at(B, 9)), Err(BindError::AddressInUse));
    assert_eq!(pair.b.udp_bind(at(ANY, 9)), Err(BindError::AddressInUse));
    let foreign = pair.b.udp_bind(at(A, 9));
    assert_eq!(foreign, Err(BindError::AddressNotAvailable));
    let from = pair.a.udp_bind(at(ANY, 0)).expect("a free port");
    let (local, _) = pair.a.udp_addresses(from).expect("open");
    assert!(local.port() >= 32_768);
    let send = |p: &mut Channel| {
        assert!(p.a.udp_send_to(p.now, from, b"x", Some(at(B, 9))).is_ok());
        p.settle();
    };
    send(&mut pair);
    assert_eq!(pair.b.udp_status(wild).expect("open").unread, 0);
    assert_eq!(read(&mut pair, exact), Ok(b"x".to_vec()));
    // Connected to somebody else: the other one gets it.
    pair.b.udp_connect(exact, Some(at(A, 1))).expect("a route");
    send(&mut pair);
    assert_eq!(read(&mut pair, exact), Err(UdpError::WouldBlock));
    assert_eq!(read(&mut pair, wild), Ok(b"x".to_vec()));
    pair.b.udp_connect(exact, None).expect("always");
    send(&mut pair);
    assert_eq!(read(&mut pair, exact), Ok(b"x".to_vec()));
    pair.b.udp_close(exact);
    send(&mut pair);
    assert_eq!(read(&mut pair, wild), Ok(b"x".to_vec()));
    assert_eq!(read(&mut pair, exact), Err(UdpError::Closed));
    assert!(pair.b.udp_bind(at(B, 9)).is_ok(), "free again");
}

#[test]
fn ephemeral_ports_run_out_and_come_back() {
    let mut pair = Pair::channel(1);
    let mut seen = vec![false; 65_536];
    let mut ids = Vec::new();
    while let Ok(id) = pair.a.udp_bind(at(ANY, 0)) {
        let port = pair.a.udp_addresses(id).expect("open").0.port();
        assert!(!core::mem::replace(&mut seen[usize::from(port)], true));
        ids.push(id);
    }
    assert_eq!(ids.len(), 28_232);
    let neighbours = ids
        .windows(2)
        .filter(|pair_| pair_[0].index + 1 == pair_[1].index);
    assert!(neighbours.count() > 0);
    pair.a.udp_close(ids[5]);
    assert!(pair.a.udp_bind(at(ANY, 0)).is_ok());
}

#[test]
fn calls_that_cannot_be_right() {
    let mut pair = Pair::channel(1);
    let socket = pair.a.udp_bind(at(A, 5)).expect("free");
    let now = pair.now;
    let mut send = |to| pair.a.udp_send_to(now, socket, b"x", to);
    assert_eq!(send(None), Err(UdpError::NotConnected));
    assert_eq!(send(Some(at(B, 0))), Err(UdpError::InvalidDestination));
    assert_eq!(send(Some(at(ANY, 5))), Err(UdpError::InvalidDestination));
    let group = IpAddr::from([224, 0, 0, 1]);
    // A channel leads to one host, not to a group.
    assert_eq!(send(Some(at(group, 5))), Err(UdpError::NoRoute));
    assert_eq!(
        send(Some(at(IpAddr::V4(core::net::Ipv4Addr::BROADCAST), 5))),
        Err(UdpError::NotPermitted)
    );
    assert_eq!(
        send(Some(at([10, 0, 0, 1].into(), 5))),
        Err(UdpError::NoRoute)
    );
    let connect = pair
        .a
        .udp_connect(socket, Some(at([10, 0, 0, 1].into(), 5)));
    assert_eq!(connect, Err(UdpError::NoRoute));
    pair.a.udp_close(socket);
    pair.a.udp_close(socket);
    let sent = pair.a.udp_send_to(now, socket, b"x", Some(at(B, 9)));
    assert_eq!(sent, Err(UdpError::Closed));
    assert_eq!(pair.a.udp_status(socket), None);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.6
//= type=test
//# A host MUST recognize any of these forms in the destination address of an incoming datagram.
#[test]
fn broadcasts_by_permission() {
    let mut pair = Pair::wire(1, &WireConfig::default());
    let from = pair.a.udp_bind(at(A, 5)).expect("free");
    let to = pair.b.udp_bind(at(ANY, 9)).expect("free");
    let exact = pair.b.udp_bind(at(B, 9)).expect("free");
    assert!(pair.a.udp_set_option(from, UdpOption::Broadcast(true)));
    for all in [
        IpAddr::V4(core::net::Ipv4Addr::BROADCAST),
        IpAddr::from([192, 0, 2, 255]),
    ] {
        let sent = pair.a.udp_send_to(pair.now, from, b"all", Some(at(all, 9)));
        assert_eq!(sent, Ok(3));
        pair.pass(Duration::from_millis(1));
        assert_eq!(read(&mut pair, to), Ok(b"all".to_vec()), "{all}");
        assert_eq!(read(&mut pair, exact), Err(UdpError::WouldBlock));
    }
}

fn spoilt(change: impl Fn(&mut Vec<u8>), reason: Option<DropReason>) {
    let wire = WireConfig {
        medium: Medium::Ip,
        ..WireConfig::default()
    };
    let mut pair = Pair::wire(1, &wire);
    let socket = pair.b.udp_bind(at(B, 9)).expect("free");
    let good = datagram(at(A, 1), at(B, 9), b"hello");
    let mut bad = good.clone();
    change(&mut bad);
    mend(&mut bad);
    pair.inject_b(&[bad]);
    match reason {
        Some(reason) => {
            assert_eq!(pair.b.drops().get(reason), 1, "{reason:?}");
            assert_eq!(read(&mut pair, socket), Err(UdpError::WouldBlock));
        }
        None => assert_eq!(read(&mut pair, socket), Ok(b"hello".to_vec())),
    }
    pair.inject_b(&[good]);
    assert_eq!(read(&mut pair, socket), Ok(b"hello".to_vec()));
}

#[test]
fn u1_lengths() {
    for len in [0u16, 1, 7, 14, 100, 0xffff] {
        spoilt(
            |b| b[24..26].copy_from_slice(&len.to_be_bytes()),
            Some(UdpLength),
        );
    }
    for ip_payload in 0..8usize {
        let cut = |b: &mut Vec<u8>| {
            b.truncate(20 + ip_payload);
            b[2..4].copy_from_slice(&(20 + ip_payload as u16).to_be_bytes());
        };
        spoilt(cut, Some(UdpLength));
    }
    // A datagram shorter than the packet: what lies behind it is not read, nor summed.
    spoilt(
        |b| {
            b.extend_from_slice(&[0xaa; 9]);
            b[2..4].copy_from_slice(&42u16.to_be_bytes());
        },
        None,
    );
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.4
//= type=test
//# A host MUST implement the facility to generate and validate UDP checksums.
//= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.4
//= type=test
//# If a UDP datagram is received with a checksum that is non-zero and invalid, UDP MUST silently
//# discard the datagram.
#[test]
fn u1_checksums() {
    spoilt(|b| b[26..28].fill(0), None);
    for bit in 0..16 {
        spoilt(|b| b[26 + bit / 8] ^= 1 << (bit % 8), Some(UdpChecksum));
    }
    for byte in 28..33 {
        spoilt(|b| b[byte] ^= 0x10, Some(UdpChecksum));
    }
    // The pseudo header counts: another source, same datagram.
    spoilt(|b| b[15] = 77, Some(UdpChecksum));
}

//= https://www.rfc-editor.org/rfc/rfc768
//= type=test
//# If the computed checksum is zero, it is transmitted as all ones (the equivalent in one's
//# complement arithmetic).
//= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
//= type=test
//# That is, whenever originating a UDP packet, an IPv6 node must compute a UDP checksum over the
//# packet and the pseudo-header, and, if that computation yields a result of zero, it must be
//# changed to hex FFFF for placement in the UDP header.
#[test]
fn u1_a_checksum_of_zero_is_sent_as_ones() {
    for checksum in [Checksum::Software, Checksum::Partial] {
        let wire = WireConfig {
            medium: Medium::Ip,
            checksum,
            ..WireConfig::default()
        };
        let mut pair = Pair::wire(1, &wire);
        let (from, to) = connected(&mut pair);
        // The two bytes that bring the sum to all ones.
        let without = datagram(at(A, 5), at(B, 9), &[0, 0]);
        let data = [without[26], without[27]];
        let link = pair.link_b;
        assert_eq!(pair.a.udp_send_to(pair.now, from, &data, None), Ok(2));
        pair.pass(Duration::from_millis(1));
        assert_eq!(read(&mut pair, to), Ok(data.to_vec()), "{link:?}");
        let framed = datagram(at(A, 5), at(B, 9), &data);
        assert_eq!(framed[26..28], [0xff, 0xff]);
    }
}

#[test]
fn a_bad_wire_damages_no_datagram() {
    let wire = WireConfig {
        medium: Medium::Ethernet,
        checksum: Checksum::Software,
        faults: Faults {
            loss: 50_000,
            duplication: 50_000,
            reorder: 100_000,
            reorder_by: Duration::from_millis(1),
            corruption: 200_000,
            ..Faults::default()
        },
        ..WireConfig::default()
    };
    let mut pair = Pair::wire(3, &wire);
    let (from, to) = connected(&mut pair);
    let mut arrived = 0;
    for round in 0..2000u32 {
        let data = bytes(1 + round as usize % 1400, u64::from(round % 1400));
        let _ = pair.a.udp_send_to(pair.now, from, &data, None);
        pair.pass(Duration::from_millis(1));
        while let Ok(got) = read(&mut pair, to) {
            arrived += 1;
            assert!(
                got == bytes(got.len(), got.len() as u64 - 1),
                "round {round}"
            );
        }
    }
    assert!(arrived > 1000, "{arrived}");
    nothing_kept(&mut pair);
}

#[test]
fn a_full_receive_buffer_drops_the_newest_or_the_oldest_and_counts() {
    let wire = WireConfig {
        medium: Medium::Ip,
        ..WireConfig::default()
    };
    let cases = [
        (WhenFull::DropNewest, UdpReceiveFull, 0..100u32),
        (WhenFull::DropOldest, UdpReceiveOld, 900..1000),
    ];
    for (choice, reason, kept) in cases {
        let mut pair = Pair::wire(1, &wire);
        let socket = pair.b.udp_bind(at(B, 9)).expect("free");
        let options = [
            UdpOption::ReceiveBuffer(128 * 100),
            UdpOption::WhenFull(choice),
        ];
        for option in options {
            assert!(pair.b.udp_set_option(socket, option));
        }
        let flood: Vec<_> = (0..1000)
            .map(|n: u32| datagram(at(A, 1), at(B, 9), &n.to_be_bytes()))
            .collect();
        pair.inject_b(&flood);
        assert_eq!(pair.b.drops().get(reason), 900);
        let status = pair.b.udp_status(socket).expect("open");
        assert_eq!(status.dropped, 900, "{choice:?}");
        for n in kept {
            assert_eq!(read(&mut pair, socket), Ok(n.to_be_bytes().to_vec()));
        }
        assert_eq!(read(&mut pair, socket), Err(UdpError::WouldBlock));
        pair.b.udp_close(socket);
        nothing_kept(&mut pair);
    }
}

/// A datagram that would not fit into an empty buffer costs no other its place.
#[test]
fn a_datagram_larger_than_the_buffer_displaces_nothing() {
    let mut pair = Pair::wire(1, &WireConfig::default());
    let (from, to) = connected(&mut pair);
    let small = [
        UdpOption::ReceiveBuffer(1000),
        UdpOption::WhenFull(WhenFull::DropOldest),
    ];
    for option in small {
        assert!(pair.b.udp_set_option(to, option));
    }
    for len in [500, 1400] {
        assert_eq!(
            pair.a.udp_send_to(pair.now, from, &vec![3; len], None),
            Ok(len)
        );
        pair.pass(Duration::from_millis(1));
    }
    assert_eq!(read(&mut pair, to), Ok(vec![3; 500]));
    assert_eq!(pair.b.udp_status(to).map(|s| s.dropped), Some(1));
}

#[test]
fn tiny_datagrams_share_a_block() {
    let wire = WireConfig {
        medium: Medium::Ip,
        ..WireConfig::default()
    };
    let mut pair = Pair::wire(1, &wire);
    let socket = pair.b.udp_bind(at(B, 9)).expect("free");
    let flood: Vec<_> = (0..1000)
        .map(|_| datagram(at(A, 1), at(B, 9), &[7; 200]))
        .collect();
    pair.inject_b(&flood);
    let link = pair.link_b;
    let pool = &pair.b.link(link).expect("there").pool;
    assert!(
        pool.blocks() - pool.free_blocks() <= 13,
        "200 kB in 16 KiB blocks"
    );
    pair.b.udp_close(socket);
    nothing_kept(&mut pair);
}

#[test]
fn a_link_that_goes_takes_its_sockets_peers_along() {
    let mut pair = Pair::channel(1);
    let (from, to) = connected(&mut pair);
    assert!(pair.a.udp_send_to(pair.now, from, &[1; 5000], None).is_ok());
    pair.settle();
    let link = pair.link_a;
    let endpoint = pair.a.remove_link(pair.now, link).expect("there");
    assert_eq!(endpoint.pool.free_blocks(), endpoint.pool.blocks());
    let sent = pair.a.udp_send_to(pair.now, from, b"x", None);
    assert_eq!(sent, Err(UdpError::LinkGone));
    let sent = pair.a.udp_send_to(pair.now, from, b"x", None);
    assert_eq!(sent, Err(UdpError::NoRoute));
    // What had arrived at the other side is still there.
    drop(endpoint);
    pair.b.poll(pair.now);
    assert_eq!(read(&mut pair, to), Ok(vec![1; 5000]));
    let link = pair.link_b;
    pair.b.remove_link(pair.now, link).expect("there");
}

#[test]
fn a_dead_peer_is_noticed_though_another_link_is_busy() {
    let mut pair = Pair::channel(1);
    let (from, to) = connected(&mut pair);
    let (near, far) = gannet_link::pair(Layout::CHANNEL, (NoDoorbell, NoDoorbell));
    let other = IpAddr::from([192, 0, 2, 3]);
    let config = crate::LinkConfig {
        addresses: [crate::LinkAddress {
            address: B,
            prefix_len: 24,
        }]
        .into(),
        peer: Some(other),
        ..crate::LinkConfig::default()
    };
    let dying = pair.b.add_link(near, config);
    let talker = pair.b.udp_bind(at(B, 7)).expect("free");
    pair.b
        .udp_connect(talker, Some(at(other, 7)))
        .expect("a route");
    assert!(
        pair.b
            .udp_send_to(pair.now, talker, b"hello?", None)
            .is_ok()
    );
    drop(far);
    for _ in 0..2 {
        assert!(pair.a.udp_send_to(pair.now, from, b"busy", None).is_ok());
        pair.a.flush();
        pair.b.poll(pair.now);
        assert!(read(&mut pair, to).is_ok());
    }
    let status = pair.b.udp_status(talker).expect("open");
    assert_eq!(status.error, Some(UdpError::LinkGone));
    let pool = &pair.b.link(dying).expect("still there").pool;
    assert_eq!(pool.free_blocks(), pool.blocks());
}

#[test]
fn unread_datagrams_of_a_removed_link_are_counted() {
    let mut pair = Pair::channel(1);
    let (from, to) = connected(&mut pair);
    let taken = pair.a.udp_send_batch(pair.now, from, None, &[1; 1000], 100);
    assert_eq!(taken, Ok(10));
    pair.settle();
    let link = pair.link_b;
    pair.b.remove_link(pair.now, link).expect("there");
    assert_eq!(pair.b.drops().get(DropReason::UdpLinkGone), 10);
    assert_eq!(read(&mut pair, to), Err(UdpError::WouldBlock));
}

#[test]
fn small_blocks_and_rings() {
    let layout = Layout {
        slots: 8,
        completions: 64,
        block_bytes: 2048,
        blocks: 64,
        align: 4096,
    };
    let pair = || Pair::channel_with(1, layout, |_| {});
    no_loss(pair(), 5000, 128, 100, 128);
    no_loss(pair(), 500, 14_336, 1, 14_336);
    let mut pair = pair();
    let (from, _) = connected(&mut pair);
    let long = pair.a.udp_send_to(pair.now, from, &[0; 14_337], None);
    assert_eq!(long, Err(UdpError::TooLarge));
    let protocol = packet(A, B, IpProtocol::UDP, &[]);
    assert_eq!(protocol.len(), 20);
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.6
//= type=test
//# The IP layer MUST provide a means for the transport layer to set the TOS field of every datagram
//# that is sent; the default is all zero bits.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.7
//= type=test
//# The IP layer MUST provide a means for the transport layer to set the TTL field of every datagram
//# that is sent.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.7
//= type=test
//# A host MUST NOT send a datagram with a Time-to-Live (TTL) value of zero.
//= https://www.rfc-editor.org/rfc/rfc1122#section-2.4
//= type=test
//# The packet send interface between the IP and link layers MUST include the 5-bit TOS field (see
//# Section 3.2.1.6).
#[test]
fn datagrams_are_marked() {
    let wire = WireConfig {
        medium: Medium::Ip,
        ..WireConfig::default()
    };
    let mut pair = Pair::wire(1, &wire);
    let (from, _) = connected(&mut pair);
    let endpoint = pair.a.link_mut(pair.link_a).expect("there");
    endpoint.driver.record();
    // before there is a path, and with one
    let rows = [
        (None, None, (64, 0)),
        (Some(5), None, (5, 0)),
        (None, Some(0xb9), (5, 0xb9)),
        (Some(0), Some(0), (1, 0)),
        (Some(255), None, (255, 0)),
    ];
    for (ttl, tos, expected) in rows {
        let ttl = ttl.map(UdpOption::TimeToLive);
        for option in ttl.into_iter().chain(tos.map(UdpOption::TypeOfService)) {
            assert!(pair.a.udp_set_option(from, option));
        }
        let sent = pair.a.udp_send_to(pair.now, from, b"x", None);
        assert_eq!(sent, Ok(1));
        pair.settle();
        let endpoint = pair.a.link_mut(pair.link_a).expect("there");
        let frames = endpoint.driver.recorded();
        assert_eq!(frames.len(), 1);
        let header = gannet_wire::ipv4::Header::parse(&frames[0])
            .expect("IPv4")
            .0;
        assert_eq!((header.ttl, header.tos), expected);
    }
    let again = pair.a.udp_bind(at(A, 6)).expect("free");
    assert!(pair.a.udp_set_option(again, UdpOption::TimeToLive(2)));
    let sent = pair.a.udp_send_to(pair.now, again, b"x", Some(at(B, 9)));
    assert_eq!(sent, Ok(1));
    let endpoint = pair.a.link_mut(pair.link_a).expect("there");
    assert_eq!(
        endpoint.driver.recorded()[0][8],
        2,
        "set before any path was known"
    );
}
