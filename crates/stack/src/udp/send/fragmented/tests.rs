//! Datagrams in fragments, both ways between two hosts; robustness I10.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use gannet_link::{Checksum, Medium};

use crate::counters::DropReason::*;
use crate::testing::packet::icmp;
use crate::testing::{A, B, Faults, Pair, WireConfig, WireDriver};
use crate::udp::{PathMtuDiscovery, UdpError, UdpId, UdpOption};

fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// A's socket is connected to B's; what A sends is recorded.
fn pair_over(wire: &WireConfig) -> (Pair<WireDriver>, UdpId, UdpId) {
    let mut pair = Pair::wire(1, wire);
    let from = pair.a.udp_bind(at(A, 5)).expect("free");
    let to = pair.b.udp_bind(at(B, 9)).expect("free");
    pair.a.udp_connect(from, Some(at(B, 9))).expect("a route");
    let link = pair.link_a;
    pair.a.link_mut(link).expect("there").driver.record();
    (pair, from, to)
}

fn bare(checksum: Checksum) -> WireConfig {
    WireConfig {
        medium: Medium::Ip,
        checksum,
        ..WireConfig::default()
    }
}

fn sent(pair: &mut Pair<WireDriver>) -> Vec<Vec<u8>> {
    let link = pair.link_a;
    pair.a.link_mut(link).expect("there").driver.recorded()
}

fn send(pair: &mut Pair<WireDriver>, socket: UdpId, len: usize) -> Result<usize, UdpError> {
    pair.a.udp_send_to(pair.now, socket, &bytes(len), None)
}

/// Everything that waits at B.
fn received(pair: &mut Pair<WireDriver>, socket: UdpId) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    let mut all = vec![];
    while let Ok((n, len, _)) = pair.b.udp_recv_from(socket, &mut buffer) {
        assert_eq!(n, len);
        all.push(buffer[..n].to_vec());
    }
    all
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

#[test]
fn fragments_are_as_long_as_fits_and_in_order() {
    let (mut pair, from, to) = pair_over(&bare(Checksum::Partial));
    assert_eq!(send(&mut pair, from, 65_507), Ok(65_507));
    pair.settle();
    let frames = sent(&mut pair);
    assert_eq!(frames.len(), 45);
    let mut next = 0;
    for (index, frame) in frames.iter().enumerate() {
        let last = index == 44;
        let place = word(frame, 6);
        assert_eq!(place & 0x1fff, next, "offset of {index}");
        assert_eq!(place & 0xe000, if last { 0 } else { 0x2000 }, "MF, no DF");
        assert_eq!(word(frame, 4), word(&frames[0], 4), "one identification");
        assert!(last || frame.len() == 1500);
        next += ((frame.len() - 20) / 8) as u16;
    }
    pair.pass(Duration::from_millis(1));
    assert!(received(&mut pair, to) == [bytes(65_507)]);
    assert_eq!(pair.b.drops().total(), 0);
}

#[test]
fn what_the_option_says() {
    use PathMtuDiscovery::{Do, Dont, Probe, Want};
    // Longest datagram on a path told to carry 1,000 bytes, by a link of 1,500; DF of short ones.
    for (choice, longest, whole, whole_only) in [
        (Want, 65_507, 972, true),
        (Dont, 65_507, 972, false),
        (Do, 972, 972, true),
        (Probe, 1472, 1472, true),
    ] {
        let (mut pair, from, _) = pair_over(&bare(Checksum::Software));
        let quote = crate::testing::packet::datagram(at(A, 5), at(B, 9), &[0; 8]);
        let link = pair.link_a;
        let told = icmp(B, A, (3, 4, [0, 0, 3, 232]), &quote);
        pair.a.link_mut(link).expect("there").driver.inject(&told);
        pair.settle();
        assert!(pair.a.udp_set_option(from, UdpOption::PathMtu(choice)));
        let outcome = send(&mut pair, from, longest + 1);
        assert_eq!(outcome, Err(UdpError::TooLarge), "{choice:?}");
        assert_eq!(send(&mut pair, from, longest), Ok(longest), "{choice:?}");
        pair.settle();
        sent(&mut pair);
        assert_eq!(send(&mut pair, from, whole), Ok(whole), "{choice:?}");
        let frames = sent(&mut pair);
        assert_eq!(frames.len(), 1, "{choice:?}");
        let (ident, place) = (word(&frames[0], 4), word(&frames[0], 6));
        let expected = if whole_only { 0x4000 } else { 0 };
        assert_eq!(place, expected, "{choice:?}");
        assert_eq!(ident == 0, whole_only, "{choice:?}");
    }
}

//= https://www.rfc-editor.org/rfc/rfc6864#section-4.3
//= type=test
//# >> Sources emitting non-atomic datagrams MUST NOT repeat IPv4 ID values within one MDL for a
//# given source address/destination address/protocol tuple.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
//= type=test
//# The Identification must be different than that of any other fragmented packet sent recently*
//# with the same Source Address and Destination Address.
#[test]
fn i10_each_datagram_has_an_identification_of_its_own() {
    let (mut pair, from, _) = pair_over(&bare(Checksum::Software));
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        assert_eq!(send(&mut pair, from, 2000), Ok(2000));
        pair.settle();
        let frames = sent(&mut pair);
        assert_eq!(frames.len(), 2);
        assert!(seen.insert(word(&frames[0], 4)));
    }
}

#[test]
fn a_lost_fragment_costs_one_datagram() {
    let wire = WireConfig {
        medium: Medium::Ethernet,
        ..WireConfig::default()
    };
    let (mut pair, from, to) = pair_over(&wire);
    assert_eq!(send(&mut pair, from, 9000), Ok(9000));
    pair.pass(Duration::from_millis(1));
    assert!(received(&mut pair, to) == [bytes(9000)], "while ARP asked");
    // A frame in fifty is lost: every seventh datagram or so.
    let faults = Faults {
        loss: 20_000,
        duplication: 20_000,
        reorder: 200_000,
        reorder_by: Duration::from_micros(300),
        ..Faults::default()
    };
    let link = pair.link_a;
    let driver = |p: &mut Pair<WireDriver>, f| {
        p.a.link_mut(link).expect("there").driver.set_faults(f);
    };
    driver(&mut pair, faults);
    let mut whole = 0;
    for _ in 0..200 {
        assert_eq!(send(&mut pair, from, 9000), Ok(9000));
        pair.pass(Duration::from_millis(5));
        for datagram in received(&mut pair, to) {
            assert!(datagram == bytes(9000));
            whole += 1;
        }
    }
    assert!((150..195).contains(&whole), "{whole} of 200");
    driver(&mut pair, Faults::default());
    pair.pass(Duration::from_secs(40));
    let lost = pair.b.drops().get(FragmentTimeout);
    // A duplicate that comes when all is put together begins a datagram that nothing completes.
    let doubled = pair.b.drops().get(FragmentDuplicate);
    assert!(
        (200 - whole..=240 - whole).contains(&lost),
        "{lost}, {doubled}"
    );
    let pool = &pair.b.link(pair.link_b).expect("there").pool;
    assert!(pool.free_blocks() + 1 >= pool.blocks());
}

#[test]
fn batches_of_long_datagrams_and_a_short_last() {
    let (mut pair, from, to) = pair_over(&bare(Checksum::Partial));
    let all = bytes(3 * 4000 + 100);
    let taken = pair.a.udp_send_batch(pair.now, from, None, &all, 4000);
    assert_eq!(taken, Ok(4));
    pair.pass(Duration::from_millis(1));
    let got = received(&mut pair, to);
    assert_eq!(got.len(), 4);
    assert!(got.concat() == all);
    let pool = &pair.a.link(pair.link_a).expect("there").pool;
    assert!(pool.free_blocks() + 1 >= pool.blocks());
}

#[test]
fn a_full_link_takes_nothing_or_counts_the_loss() {
    let (mut pair, from, to) = pair_over(&bare(Checksum::Software));
    let link = pair.link_a;
    pair.a
        .link_mut(link)
        .expect("there")
        .driver
        .set_blocked(true);
    assert_eq!(send(&mut pair, from, 5000), Err(UdpError::WouldBlock));
    pair.a
        .link_mut(link)
        .expect("there")
        .driver
        .set_blocked(false);
    pair.settle();
    // The wire takes 256 frames in one step: the sixth datagram of 45 does not fit.
    let mut taken = 0;
    while send(&mut pair, from, 65_507) == Ok(65_507) {
        taken += 1;
        assert!(taken < 10);
    }
    pair.pass(Duration::from_millis(1));
    let whole = received(&mut pair, to).len() as u64;
    assert_eq!(whole + pair.a.drops().get(LinkFull), taken);
    pair.settle();
    let pool = &pair.a.link(link).expect("there").pool;
    assert!(pool.free_blocks() + 1 >= pool.blocks());
}

#[test]
fn echo_replies_longer_than_the_mtu() {
    let (mut pair, _, _) = pair_over(&bare(Checksum::Software));
    let request = icmp(A, B, (8, 0, [1, 2, 3, 4]), &bytes(9000));
    let pieces = crate::testing::packet::fragments(&request, 3, 1480);
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").driver.record();
    pair.inject_b(&pieces);
    let frames = pair.b.link_mut(link).expect("there").driver.recorded();
    assert_eq!(frames.len(), 7);
    let payload: Vec<u8> = frames.iter().flat_map(|f| f[20..].to_vec()).collect();
    let expected = icmp(B, A, (0, 0, [1, 2, 3, 4]), &bytes(9000));
    assert!(payload == expected[20..]);
}
