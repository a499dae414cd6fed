//! Link-local addresses, which mean somebody else on every link (RFC 4007): the zone of an address
//! is the number of a link, from 1.

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Instant;

use crate::tcp::ConnectError;
use crate::testing::{Simulated, Wire, WireConfig, WireDriver};
use crate::udp::{UdpError, UdpId};
use crate::{Config, LinkAddress, LinkConfig, Stack};

const NEAR: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const FAR: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

/// A host with two links, and one behind each: all three have link-local addresses, the two the
/// same.
struct Three {
    near: Stack<WireDriver>,
    far: [Stack<WireDriver>; 2],
    now: Instant,
}

impl Three {
    fn new() -> Self {
        let host = || {
            let mut config = Config::new([1; 16], 1);
            config.ipv6.dad_transmits = 0;
            Stack::new(config)
        };
        let (mut near, mut far) = (host(), [host(), host()]);
        for (n, far) in far.iter_mut().enumerate() {
            let (left, right) = Wire::ends(n as u64, &WireConfig::default());
            let near_at = Ipv6Addr::from_bits(NEAR.to_bits() + (n as u128) * 16);
            for (stack, end, at) in [(&mut near, left, near_at), (&mut *far, right, FAR)] {
                let link = stack.add_link(end, LinkConfig::default());
                let own = LinkAddress {
                    address: at.into(),
                    prefix_len: 64,
                };
                assert!(stack.add_address(link, own));
            }
        }
        let now = Instant::from_millis(1000);
        Three { near, far, now }
    }

    fn pass(&mut self) {
        for _ in 0..100 {
            self.now += Duration::from_millis(1);
            let [one, two] = &mut self.far;
            for stack in [&mut self.near, one, two] {
                let links: Vec<_> = stack.link_ids().collect();
                for link in links {
                    if let Some(endpoint) = stack.link_mut(link) {
                        endpoint.driver.advance(self.now);
                    }
                }
                stack.poll(self.now);
            }
        }
    }
}

fn at(zone: u32, port: u16) -> SocketAddr {
    SocketAddrV6::new(FAR, port, 0, zone).into()
}

fn bind(stack: &mut Stack<WireDriver>, port: u16) -> UdpId {
    let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    stack.udp_bind(any).expect("free")
}

#[test]
fn datagrams_go_where_the_zone_says_and_say_where_they_come_from() {
    let mut three = Three::new();
    let near = bind(&mut three.near, 9);
    let far: Vec<_> = three.far.iter_mut().map(|f| bind(f, 7)).collect();
    let mut buffer = [0; 9];
    for zone in [1, 2, 2, 1] {
        let now = three.now;
        let sent = three
            .near
            .udp_send_to(now, near, b"hello", Some(at(zone, 7)));
        assert_eq!(sent, Ok(5));
        three.pass();
        for (n, &id) in far.iter().enumerate() {
            let got = three.far[n].udp_recv_from(id, &mut buffer);
            if n + 1 != zone as usize {
                assert_eq!(got, Err(UdpError::WouldBlock), "{n} {zone}");
                continue;
            }
            let (_, _, from) = got.expect("arrived");
            let now = three.now;
            let back = three.far[n].udp_send_to(now, id, b"you", Some(from));
            assert_eq!(back, Ok(3));
        }
        three.pass();
        let (_, _, from) = three
            .near
            .udp_recv_from(near, &mut buffer)
            .expect("answered");
        assert_eq!(from, at(zone, 7));
    }
    let now = three.now;
    for zone in [3, u32::MAX] {
        let nowhere = three.near.udp_send_to(now, near, b"", Some(at(zone, 7)));
        assert_eq!(nowhere, Err(UdpError::NoRoute));
    }
}

#[test]
fn a_connected_socket_stays_in_its_zone() {
    let mut three = Three::new();
    let near = bind(&mut three.near, 9);
    let far: Vec<_> = three.far.iter_mut().map(|f| bind(f, 7)).collect();
    let mut buffer = [0; 9];
    for zone in [2, 1] {
        let connected = three.near.udp_connect(near, Some(at(zone, 7)));
        assert_eq!(connected, Ok(()));
        let now = three.now;
        assert_eq!(three.near.udp_send_to(now, near, b"hello", None), Ok(5));
        three.pass();
        let got = [0, 1].map(|n: usize| three.far[n].udp_recv_from(far[n], &mut buffer).is_ok());
        assert_eq!(got, [zone == 1, zone == 2]);
    }
}

#[test]
fn connections_are_opened_in_a_zone() {
    let mut three = Three::new();
    let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 80);
    let listeners: Vec<_> = three
        .far
        .iter_mut()
        .map(|f| f.tcp_listen(any, 1).expect("free"))
        .collect();
    for zone in [2, 1] {
        let now = three.now;
        let id = three.near.tcp_connect(now, None, at(zone, 80));
        let id = id.expect("a way");
        three.pass();
        let there = [0, 1].map(|n: usize| three.far[n].tcp_accept(listeners[n]).is_some());
        assert_eq!(there, [zone == 1, zone == 2]);
        let status = three.near.tcp_status(id).expect("open");
        assert!(status.writable);
    }
    let now = three.now;
    let nowhere = three.near.tcp_connect(now, None, at(7, 80));
    assert_eq!(nowhere.err(), Some(ConnectError::NoRoute));
}
