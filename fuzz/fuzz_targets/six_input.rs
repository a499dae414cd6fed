//! IPv6 that arrives: headers, chains, neighbour and router discovery with right checksums and
//! whatever else the input says. Nothing may panic, no table may grow without end, no block may be
//! lost.
#![no_main]

use core::net::Ipv6Addr;
use core::time::Duration;

use gannet_stack::testing::packet::{frame, six};
use gannet_stack::testing::{A6, B6, Pair, WireConfig};
use gannet_wire::nd::{ALL_NODES, solicited_node};
use gannet_wire::{EtherType, IpProtocol, MacAddr, icmpv6};
use libfuzzer_sys::fuzz_target;

const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);

fuzz_target!(|data: &[u8]| {
    let mut pair = Pair::six(1, &WireConfig::default());
    pair.b.autoconfigure(pair.link_b);
    let _ = pair.b.udp_bind("[::]:9".parse().expect("an address"));
    let mut rest = data;
    while let [what, len, more @ ..] = rest {
        let (payload, later) = more.split_at(usize::from(*len).min(more.len()));
        rest = later;
        let source = match what & 3 {
            0 => A6,
            1 => LINK_LOCAL,
            2 => Ipv6Addr::UNSPECIFIED,
            _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(*what)),
        };
        let (to, station) = match what >> 2 & 3 {
            0 => (ALL_NODES, MacAddr([0x33, 0x33, 0, 0, 0, 1])),
            1 => (solicited_node(B6), MacAddr([0x33, 0x33, 0xff, 0, 0, 2])),
            _ => (B6, MacAddr([2, 0, 0, 0, 0, 2])),
        };
        let mut payload = payload.to_vec();
        let packet = match what >> 4 {
            0..=7 => {
                let _ = icmpv6::set_checksum(source, to, &mut payload);
                six(source, to, (IpProtocol::ICMPV6, 255), &payload)
            }
            8 => six(source, to, (IpProtocol::HOP_BY_HOP, 64), &payload),
            9 => six(source, to, (IpProtocol::DESTINATION_OPTIONS, 64), &payload),
            10 => six(source, to, (IpProtocol::ROUTING, 64), &payload),
            11 => six(source, to, (IpProtocol::FRAGMENT, 64), &payload),
            12 => six(source, to, (IpProtocol::UDP, 64), &payload),
            _ => payload,
        };
        pair.inject_b(&[frame(
            station,
            MacAddr([2, 0, 0, 0, 0, 1]),
            EtherType::IPV6,
            &packet,
        )]);
        pair.pass(Duration::from_millis(u64::from(*len)));
    }
    let own = pair
        .b
        .link_config(pair.link_b)
        .map_or(0, |c| c.addresses.len());
    assert!(own <= 1 + 2 + 16, "{own} addresses");
    pair.pass(Duration::from_secs(100));
    let link = pair.link_b;
    pair.b.link_mut(link).expect("there").pool.invariants();
});
