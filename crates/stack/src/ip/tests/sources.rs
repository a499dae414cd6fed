//! A group's datagrams for several sockets, and for those that want their source.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_wire::{EtherType, MacAddr};

use super::groups::{ANY, GROUP, MAC_A, record, told};
use crate::counters::DropReason;
use crate::testing::packet::{datagram, frame};
use crate::testing::{A, B, Pair, WireConfig, WireDriver};
use crate::udp::SourceChange::{Block, Join, Leave, Unblock};
use crate::udp::{BindError, Binding, GroupError, UdpId};

const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77));
const SHARED: Binding = Binding {
    only_six: false,
    shared: true,
};

fn shared(pair: &mut Pair<WireDriver>, at: IpAddr) -> UdpId {
    let at = SocketAddr::new(at, 7);
    pair.b.udp_bind_as(at, SHARED).expect("all share")
}

/// A source sends to the group.
fn send(pair: &mut Pair<WireDriver>, source: IpAddr, text: &[u8]) {
    let (from, to) = (SocketAddr::new(source, 9), SocketAddr::new(GROUP.into(), 7));
    let bytes = datagram(from, to, text);
    let mac = MacAddr::of_group_v4(GROUP);
    pair.inject_b(&[frame(mac, MAC_A, EtherType::IPV4, &bytes)]);
}

/// What a socket gets.
fn got(pair: &mut Pair<WireDriver>, id: UdpId) -> Vec<(IpAddr, Vec<u8>)> {
    let mut all = vec![];
    let mut buffer = [0; 2000];
    while let Ok((n, _, from)) = pair.b.udp_recv_from(id, &mut buffer) {
        all.push((from.ip(), buffer[..n].to_vec()));
    }
    all
}

fn is_whole(pair: &mut Pair<WireDriver>) {
    let link = pair.b.link_mut(pair.link_b).expect("there");
    link.pool.invariants();
}

#[test]
fn every_member_gets_it() {
    for size in [4, 200, 300, 1400] {
        let mut pair = Pair::wire(1, &WireConfig::default());
        let free = pair
            .b
            .link_mut(pair.link_b)
            .expect("there")
            .pool
            .free_blocks();
        let sockets: Vec<_> = [ANY, GROUP.into(), ANY, B, ANY]
            .map(|at| shared(&mut pair, at))
            .into();
        for &id in &sockets[..4] {
            pair.b.udp_join_group(id, GROUP.into(), ANY).expect("free");
        }
        let text = vec![7; size];
        send(&mut pair, A, &text);
        let all: Vec<_> = sockets.iter().map(|&id| got(&mut pair, id).len()).collect();
        assert_eq!(all, [1, 1, 1, 0, 0], "bound elsewhere, or not joined");
        // what one reads is the others' too, and goes home with the last
        send(&mut pair, A, &text);
        for &id in &sockets[..2] {
            assert_eq!(got(&mut pair, id), [(A, text.clone())]);
        }
        is_whole(&mut pair);
        for &id in &sockets {
            pair.b.udp_close(id);
        }
        is_whole(&mut pair);
        let link = pair.b.link_mut(pair.link_b).expect("there");
        assert!(link.pool.free_blocks() + 2 >= free, "nothing is kept");
    }
}

#[test]
fn a_member_with_a_full_buffer_costs_the_others_nothing() {
    let mut pair = Pair::wire(2, &WireConfig::default());
    let sockets = [ANY, ANY, ANY].map(|at| shared(&mut pair, at));
    for id in sockets {
        pair.b.udp_join_group(id, GROUP.into(), ANY).expect("free");
    }
    for full in sockets {
        let small = crate::udp::UdpOption::ReceiveBuffer(1);
        let large = crate::udp::UdpOption::ReceiveBuffer(1 << 20);
        pair.b.udp_set_option(full, small);
        let before = pair.b.drops().get(DropReason::UdpReceiveFull);
        for _ in 0..8 {
            send(&mut pair, A, &[7; 1000]);
        }
        let lost = pair.b.drops().get(DropReason::UdpReceiveFull) - before;
        let all = sockets.map(|id| got(&mut pair, id).len() as u64);
        let expected = sockets.map(|id| if id == full { 8 - lost } else { 8 });
        assert_eq!(all, expected);
        assert!(lost > 0);
        pair.b.udp_set_option(full, large);
        is_whole(&mut pair);
    }
}

#[test]
fn an_address_is_shared_only_by_those_who_share() {
    let mut pair = Pair::wire(3, &WireConfig::default());
    let at = SocketAddr::new(ANY, 7);
    let first = pair.b.udp_bind(at).expect("free");
    let taken = Err(BindError::AddressInUse);
    assert_eq!(pair.b.udp_bind_as(at, SHARED), taken);
    pair.b.udp_close(first);
    shared(&mut pair, ANY);
    shared(&mut pair, ANY);
    assert_eq!(pair.b.udp_bind(at), taken);
}

/// RFC 3376 section 3.1: INCLUDE the listed, or EXCLUDE them.
#[test]
fn sources_are_wanted_or_not() {
    let mut pair = Pair::wire(4, &WireConfig::default());
    let [all, one] = [ANY, ANY].map(|at| shared(&mut pair, at));
    pair.b.udp_join_group(all, GROUP.into(), ANY).expect("free");
    let change = |pair: &mut Pair<WireDriver>, id, change, source| {
        pair.b
            .udp_change_source(id, (GROUP.into(), source), change, ANY)
    };
    assert_eq!(change(&mut pair, one, Join, OTHER), Ok(()));
    let both = |pair: &mut Pair<WireDriver>| {
        send(pair, A, b"a");
        send(pair, OTHER, b"o");
        [all, one].map(|id| got(pair, id).iter().map(|g| g.1[0]).collect::<Vec<_>>())
    };
    assert_eq!(both(&mut pair), [&b"ao"[..], b"o"]);
    assert_eq!(change(&mut pair, all, Block, A), Ok(()));
    assert_eq!(change(&mut pair, one, Join, A), Ok(()));
    assert_eq!(both(&mut pair), [&b"o"[..], b"ao"]);
    assert_eq!(change(&mut pair, all, Unblock, A), Ok(()));
    assert_eq!(change(&mut pair, one, Leave, OTHER), Ok(()));
    assert_eq!(both(&mut pair), [&b"ao"[..], b"a"]);
    // with its last source the group is left, and may be joined otherwise
    assert_eq!(change(&mut pair, one, Leave, A), Ok(()));
    assert_eq!(both(&mut pair), [&b"ao"[..], b""]);
    assert_eq!(change(&mut pair, one, Leave, A), Err(GroupError::NotJoined));
    let joined = pair.b.udp_join_group(one, GROUP.into(), ANY);
    assert_eq!(joined, Ok(()));
}

#[test]
fn changes_that_cannot_be_right() {
    let mut pair = Pair::wire(5, &WireConfig::default());
    let [all, one] = [ANY, ANY].map(|at| shared(&mut pair, at));
    pair.b.udp_join_group(all, GROUP.into(), ANY).expect("free");
    let mut change = |id, group: IpAddr, what, source: IpAddr| {
        pair.b.udp_change_source(id, (group, source), what, ANY)
    };
    let group = GROUP.into();
    assert_eq!(change(all, group, Join, A), Err(GroupError::OtherMode));
    assert_eq!(change(one, group, Block, A), Err(GroupError::NotJoined));
    assert_eq!(change(one, A, Join, A), Err(GroupError::NotAGroup));
    let six = "2001:db8::1".parse().expect("an address");
    for source in [six, GROUP.into(), ANY] {
        let wrong = change(one, group, Join, source);
        assert_eq!(wrong, Err(GroupError::NotASource), "{source}");
    }
    for n in 1..=10 {
        let source = Ipv4Addr::new(192, 0, 2, n).into();
        assert_eq!(change(one, group, Join, source), Ok(()));
    }
    assert_eq!(change(one, group, Join, A), Err(GroupError::AlreadyJoined));
    let more = Ipv4Addr::new(192, 0, 2, 100).into();
    assert_eq!(change(one, group, Join, more), Err(GroupError::TooMany));
    assert_eq!(change(one, group, Block, A), Err(GroupError::OtherMode));
}

/// Routers are told which sources are wanted, as long as no socket wants them all.
#[test]
fn rfc3376_section_3_2_sources_are_told() {
    const BOTH: &str = "192.0.2.2 > 224.0.0.22 IGMP V3 report, to_in 239.1.2.3 \
        sources 192.0.2.1,192.0.2.77";
    let line = |kind| std::format!("192.0.2.2 > 224.0.0.22 IGMP V3 report, {kind} 239.1.2.3");
    let mut pair = Pair::wire(6, &WireConfig::default());
    let [all, one] = [ANY, ANY].map(|at| shared(&mut pair, at));
    pair.settle();
    record(&mut pair);
    let next = |pair: &mut Pair<WireDriver>| {
        pair.pass(Duration::from_secs(5));
        let mut lines = told(pair);
        lines.dedup();
        lines
    };
    for source in [A, OTHER] {
        pair.b
            .udp_change_source(one, (GROUP.into(), source), Join, ANY)
            .expect("free");
    }
    assert_eq!(next(&mut pair), [BOTH]);
    pair.b.udp_join_group(all, GROUP.into(), ANY).expect("free");
    assert_eq!(next(&mut pair), [line("to_ex")]);
    pair.b.udp_close(all);
    assert_eq!(next(&mut pair), [BOTH]);
    pair.b.udp_close(one);
    assert_eq!(next(&mut pair), [line("to_in")]);
}
