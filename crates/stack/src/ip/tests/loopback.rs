//! A host that talks to itself; robustness I4 and T11.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_link::LoopDriver;

use super::{at, bare, dropped, spoil};
use crate::config::Config;
use crate::counters::DropReason::*;
use crate::ip::NoRoute;
use crate::link::{LinkAddress, LinkConfig, LinkId};
use crate::stack::Stack;
use crate::tcp::TcpId;
use crate::testing::{A, B};
use crate::udp::{UdpError, UdpOption};

const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A host with a loopback link and, as [`A`], one that leads nowhere.
struct Alone {
    stack: Stack<LoopDriver>,
    home: LinkId,
    now: Instant,
}

impl Alone {
    fn new() -> Self {
        let mut stack = Stack::new(Config::new([5; 16], 5));
        let mut link = |address, prefix_len, loopback| {
            let endpoint = LoopDriver::endpoint(16 * 1024, 256).expect("possible");
            let own = LinkAddress {
                address,
                prefix_len,
            };
            let config = LinkConfig {
                addresses: vec![own],
                loopback,
                ..LinkConfig::default()
            };
            stack.add_link(endpoint, config)
        };
        let _wire = link(A, 24, false);
        let home = link(HOME, 8, true);
        Alone {
            stack,
            home,
            now: Instant::from_millis(1000),
        }
    }

    fn settle(&mut self) {
        for step in 0.. {
            self.stack.flush();
            if !self.stack.poll(self.now) {
                break;
            }
            assert!(step < 100_000, "runs in circles");
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(at) = self.stack.next_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    /// Writes `data` into one connection and reads it from another (or the same).
    fn transfer(&mut self, from: TcpId, to: TcpId, data: &[u8]) {
        let (mut sent, mut got) = (0, Vec::new());
        let mut buffer = vec![0; 100_000];
        for step in 0.. {
            sent += self
                .stack
                .tcp_send(self.now, from, &data[sent..])
                .unwrap_or(0);
            self.settle();
            while let Ok(n) = self.stack.tcp_recv(self.now, to, &mut buffer) {
                if n == 0 {
                    break;
                }
                got.extend_from_slice(&buffer[..n]);
            }
            if got.len() >= data.len() {
                break;
            }
            self.pass(Duration::from_millis(1));
            assert!(step < 10_000, "{} of {} bytes", got.len(), data.len());
        }
        assert!(got == data);
    }

    fn nothing_kept(&mut self) {
        let pool = &self.stack.link(self.home).expect("there").pool;
        pool.invariants();
        assert!(pool.free_blocks() + 1 >= pool.blocks());
    }
}

#[test]
fn streams_to_every_address_of_ours() {
    let other = IpAddr::from([127, 9, 8, 7]);
    for to in [HOME, other, A] {
        let mut alone = Alone::new();
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 80);
        let listener = alone.stack.tcp_listen(any, 4).expect("free");
        let now = alone.now;
        let client = alone.stack.tcp_connect(now, None, at(to, 80));
        let client = client.expect("a way");
        alone.settle();
        let server = alone.stack.tcp_accept(listener).expect("a client");
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
        alone.transfer(client, server, &data);
        alone.transfer(server, client, &data[..100_000]);
        for id in [client, server] {
            alone.stack.tcp_close(alone.now, id);
        }
        alone.stack.tcp_close_listener(alone.now, listener);
        alone.pass(Duration::from_secs(200));
        assert_eq!(alone.stack.tcp_connections(), 0, "{to}");
        assert_eq!(alone.stack.drops().total(), 0, "{to}");
        alone.nothing_kept();
    }
}

/// RFC 9293 figure 7 with both ends the same: the SYN meets itself.
#[test]
fn t11_a_connection_to_itself() {
    let mut alone = Alone::new();
    let own = at(HOME, 4000);
    let id = alone.stack.tcp_connect(alone.now, Some(own), own);
    let id = id.expect("a way");
    alone.pass(Duration::from_secs(2));
    alone.transfer(id, id, &[7; 50_000]);
    alone.stack.tcp_close(alone.now, id);
    alone.pass(Duration::from_secs(200));
    assert_eq!(alone.stack.tcp_connections(), 0);
    alone.nothing_kept();
}

#[test]
fn datagrams_errors_and_sources() {
    let mut alone = Alone::new();
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let server = alone.stack.udp_bind(at(any, 53)).expect("free");
    for (to, from) in [(HOME, HOME), (IpAddr::from([127, 1, 1, 1]), HOME), (A, A)] {
        let client = alone.stack.udp_bind(at(any, 0)).expect("free");
        let data = vec![9; 65_507];
        let now = alone.now;
        let sent = alone
            .stack
            .udp_send_to(now, client, &data, Some(at(to, 53)));
        assert_eq!(sent, Ok(65_507));
        alone.settle();
        let mut buffer = vec![0; 65_536];
        let got = alone.stack.udp_recv_from(server, &mut buffer);
        let (n, _, source) = got.expect("a datagram");
        assert!(
            buffer[..n] == data[..] && source.ip() == from,
            "{to}: {source}"
        );
        // Nobody at the port.
        alone
            .stack
            .udp_connect(client, Some(at(to, 54)))
            .expect("a way");
        let now = alone.now + Duration::from_secs(5);
        alone.now = now;
        assert_eq!(alone.stack.udp_send_to(now, client, b"x", None), Ok(1));
        alone.settle();
        assert_eq!(alone.stack.udp_take_error(client), Some(UdpError::Refused));
        alone.stack.udp_close(client);
    }
    alone.settle();
    alone.nothing_kept();
}

//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
//= type=test
//# Addresses of this form MUST NOT appear outside a host.
#[test]
fn i4_loopback_addresses_stay_inside() {
    let alone = Alone::new();
    let ip = alone.stack.ip();
    assert!(ip.path(None, B).is_ok());
    assert_eq!(ip.path(Some(HOME), B), Err(NoRoute));
    assert_eq!(ip.path(Some(HOME), A).map(|p| p.link), Ok(alone.home));
    // On a wire they are nobody's, with and without a loopback link.
    for place in [12, 16] {
        let reason = if place == 12 { IpSource } else { IpNotForUs };
        let bytes = spoil(|b| b[place..place + 4].copy_from_slice(&[127, 0, 0, 1]));
        dropped(&bytes, reason, 0);
        let mut alone = Alone::new();
        let mut slot = gannet_link::Slot::new();
        let mut bytes = bytes.clone();
        if place == 12 {
            bytes[16..20].copy_from_slice(&[192, 0, 2, 1]);
        } else {
            bytes[12..16].copy_from_slice(&[192, 0, 2, 2]);
        }
        crate::testing::packet::mend(&mut bytes);
        let wire = alone.stack.link_ids().next().expect("the first");
        slot.inline_mut(bytes.len())
            .expect("short")
            .copy_from_slice(&bytes);
        let endpoint = alone.stack.link_mut(wire).expect("there");
        endpoint.transmit(&slot).expect("room");
        alone.settle();
        assert_eq!(alone.stack.drops().get(reason), 1);
        assert_eq!(alone.stack.drops().total(), 1);
    }
}

#[test]
fn without_a_loopback_link_there_is_no_way_home() {
    let (mut pair, socket) = bare();
    for to in [HOME, B] {
        let sent = pair.b.udp_send_to(pair.now, socket, b"x", Some(at(to, 9)));
        assert_eq!(sent, Err(UdpError::NoRoute));
    }
}

/// What we send to a group comes to our own sockets that are in it.
#[test]
fn groups_come_back_to_their_members() {
    let mut host = Alone::new();
    let own = LinkAddress {
        address: "fd00::1".parse().expect("an address"),
        prefix_len: 64,
    };
    let wire = host.stack.link_ids().next().expect("a link");
    host.stack.add_address(wire, own);
    for (group, any) in [("239.1.2.3", "0.0.0.0"), ("ff05::7", "::")] {
        let group: IpAddr = group.parse().expect("a group");
        let any: IpAddr = any.parse().expect("an address");
        let member = host.stack.udp_bind(at(any, 70)).expect("free");
        let sender = host.stack.udp_bind(at(any, 0)).expect("free");
        let mut buffer = [0; 100];
        let to = Some(at(group, 70));
        let now = host.now;
        let mut expect = |host: &mut Alone, what: &[&[u8]], when: &str| {
            host.settle();
            for datagram in what {
                let (n, _, from) = host.stack.udp_recv_from(member, &mut buffer).expect(when);
                assert_eq!(&buffer[..n], *datagram, "{when}");
                assert!(host.stack.is_local(from.ip()));
            }
            let end = host.stack.udp_recv_from(member, &mut buffer);
            assert_eq!(end, Err(UdpError::WouldBlock), "{when}");
        };
        assert_eq!(host.stack.udp_send_to(now, sender, b"a", to), Ok(1));
        expect(&mut host, &[], "before it joined");
        host.stack.udp_join_group(member, group, any).expect("may");
        assert_eq!(host.stack.udp_send_to(now, sender, b"b", to), Ok(1));
        assert_eq!(host.stack.udp_send_to(now, sender, b"", to), Ok(0));
        let sent = host.stack.udp_send_batch(now, sender, to, b"ccddx", 2);
        assert_eq!(sent, Ok(3));
        expect(&mut host, &[b"b", b"", b"cc", b"dd", b"x"], "joined");
        let off = UdpOption::GroupLoop(false);
        assert!(host.stack.udp_set_option(sender, off));
        assert_eq!(host.stack.udp_send_to(now, sender, b"d", to), Ok(1));
        expect(&mut host, &[], "switched off");
        host.stack.udp_close(member);
        host.stack.udp_close(sender);
        let home = host.home;
        host.stack.link_mut(home).expect("there").pool.invariants();
    }
}
