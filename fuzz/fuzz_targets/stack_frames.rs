//! Whole frames, calls and time, decoded from bytes, against a whole stack: what anybody on its
//! wire might send, on an Ethernet or a bare IP link. Claims: no panic, no endless loop, the
//! invariants of memory after every step, and none of it held once everything is closed.
#![no_main]

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Checksum, Medium};
use gannet_stack::tcp::{ListenerId, TcpId};
use gannet_stack::testing::packet::four;
use gannet_stack::testing::{A, B, Simulated, Wire, WireConfig, WireDriver};
use gannet_stack::udp::{Datagram, UdpId, UdpOption};
use gannet_stack::{Config, LinkAddress, LinkConfig, LinkId, Stack};
use gannet_wire::checksum::{pseudo_v4, sum};
use gannet_wire::ipv4::IpProtocol;
use libfuzzer_sys::fuzz_target;

/// Bytes that run out as zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }

    /// One of `known`, or any.
    fn one_of(&mut self, known: &[u8]) -> u8 {
        let choice = usize::from(self.byte());
        match known.get(choice) {
            Some(&known) => known,
            None => self.byte(),
        }
    }

    /// An address that means something to the stack, or any.
    fn address(&mut self) -> IpAddr {
        match self.byte() {
            0..=100 => B,
            101..=200 => A,
            201..=210 => Ipv4Addr::BROADCAST.into(),
            211..=220 => [192, 0, 2, 255].into(),
            221..=230 => Ipv4Addr::UNSPECIFIED.into(),
            231..=240 => [192, 0, 2, self.byte()].into(),
            _ => [self.byte(), self.byte(), self.byte(), self.byte()].into(),
        }
    }
}

/// Ports that the stack or its peers have.
const PORTS: [u16; 4] = [80, 53, 4000, 9];

struct World {
    stack: Stack<WireDriver>,
    link: LinkId,
    medium: Medium,
    now: Instant,
    listener: ListenerId,
    connections: Vec<TcpId>,
    sockets: Vec<UdpId>,
    /// Everything the stack sent lately: its peers answer that, byte by byte, or spoil it.
    sent: Vec<Vec<u8>>,
}

impl World {
    fn new(how: u8) -> (Self, gannet_link::Endpoint<WireDriver>) {
        let medium = match how & 1 {
            0 => Medium::Ethernet,
            _ => Medium::Ip,
        };
        let wire = WireConfig {
            medium,
            checksum: match how & 2 {
                0 => Checksum::Software,
                _ => Checksum::Partial,
            },
            delay: Duration::ZERO,
            blocks: (2048, 64),
            ..WireConfig::default()
        };
        let (left, right) = Wire::ends(1, &wire);
        let mut stack = Stack::new(Config::new([7; 16], 7));
        let addresses = [LinkAddress {
            address: A,
            prefix_len: 24,
        }];
        let config = LinkConfig {
            addresses: addresses.into(),
            peer: None,
            ..LinkConfig::default()
        };
        let link = stack.add_link(left, config);
        stack.add_route(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0, Some(B), link);
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let listener = stack.tcp_listen(SocketAddr::new(any, 80), 3);
        let sockets = [(A, 53), (any, 53), (any, 4000)];
        let sockets = sockets.map(|(a, port)| stack.udp_bind(SocketAddr::new(a, port)));
        let sockets: Vec<UdpId> = sockets.into_iter().flatten().collect();
        let peer = SocketAddr::new(B, 9);
        stack.udp_connect(sockets[2], Some(peer)).expect("a route");
        if let Some(endpoint) = stack.link_mut(link) {
            endpoint.driver.record();
        }
        let world = World {
            stack,
            link,
            medium,
            now: Instant::from_millis(1000),
            listener: listener.expect("free"),
            connections: Vec::new(),
            sockets,
            sent: Vec::new(),
        };
        (world, right)
    }

    fn poll(&mut self) {
        let now = self.now;
        if let Some(endpoint) = self.stack.link_mut(self.link) {
            endpoint.driver.advance(now);
        }
        for _ in 0..64 {
            if !self.stack.poll(now) {
                break;
            }
        }
        self.stack.check_tcp();
        if let Some(endpoint) = self.stack.link_mut(self.link) {
            endpoint.pool.invariants();
            let fresh = endpoint.driver.recorded();
            self.sent.extend(fresh);
            let old = self.sent.len().saturating_sub(16);
            self.sent.drain(..old);
        }
    }

    fn inject(&mut self, frame: &[u8]) {
        let now = self.now;
        if let Some(endpoint) = self.stack.link_mut(self.link) {
            endpoint.driver.advance(now);
            endpoint.driver.inject(frame);
        }
    }

    fn ethernet(&self, ether_type: u16, payload: Vec<u8>, input: &mut Input) -> Vec<u8> {
        if self.medium == Medium::Ip {
            return payload;
        }
        let to = match input.byte() {
            0..=200 => vec![2, 0, 0, 0, 0, 1],
            201..=230 => vec![255; 6],
            _ => input.bytes(6),
        };
        let from = match input.byte() {
            0..=240 => vec![2, 0, 0, 0, 0, 2],
            _ => input.bytes(6),
        };
        [to, from, ether_type.to_be_bytes().to_vec(), payload].concat()
    }

    /// A frame made from scratch, plausible where the input does not say otherwise.
    fn frame(&mut self, input: &mut Input) -> Vec<u8> {
        match input.byte() {
            0..=9 => {
                let len = usize::from(input.byte());
                input.bytes(len)
            }
            10..=49 if self.medium == Medium::Ethernet => {
                let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1 + (input.byte() & 1)];
                arp.extend([2, 0, 0, 0, 0, 2]);
                arp.extend(four(input.address()).octets());
                arp.extend([0; 6]);
                arp.extend(four(input.address()).octets());
                spoil(&mut arp, input);
                self.ethernet(0x0806, arp, input)
            }
            _ => {
                let packet = packet(input);
                self.ethernet(0x0800, packet, input)
            }
        }
    }

    /// What the stack sent comes back, perhaps with its ends exchanged, perhaps spoiled.
    fn echo(&mut self, input: &mut Input) -> Vec<u8> {
        let at = usize::from(input.byte()) % self.sent.len().max(1);
        let mut frame = self.sent.get(at).cloned().unwrap_or_default();
        let how = input.byte();
        let ip = match self.medium {
            Medium::Ethernet => 14,
            Medium::Ip => 0,
        };
        if ip > 0 && frame.len() > 12 {
            frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        }
        if how & 1 == 0 && frame.len() >= ip + 24 && frame[ip] == 0x45 {
            // the sums stay right
            let (from, to) = frame[ip + 12..ip + 20].split_at_mut(4);
            from.swap_with_slice(to);
            let (from, to) = frame[ip + 20..ip + 24].split_at_mut(2);
            from.swap_with_slice(to);
        }
        if how & 2 != 0 {
            spoil(&mut frame, input);
        }
        if how & 4 != 0 && frame.len() >= ip + 28 {
            // quoted by an ICMP error
            let (kind, code) = (input.one_of(&[3, 11, 12, 4, 5]), input.byte() & 15);
            let mut icmp = vec![kind, code, 0, 0, 0, 0];
            icmp.extend(input.word().to_be_bytes());
            icmp.extend(self.sent[at].get(ip..).unwrap_or(&[]));
            icmp.truncate(8 + 576);
            let payload = with_sum(icmp, 2, sum(&[]));
            let packet = ip_packet(B, A, 1, &payload);
            return self.ethernet(0x0800, packet, input);
        }
        frame
    }

    fn call(&mut self, input: &mut Input) {
        let what = input.byte();
        let now = self.now;
        let len = usize::from(input.word()) % 4000;
        let mut buffer = vec![1; len];
        let to = SocketAddr::new(input.address(), PORTS[usize::from(what >> 6)]);
        let socket = self.sockets[usize::from(what >> 4) % self.sockets.len()];
        let connection = self.connections.get(usize::from(what >> 4) % 4).copied();
        match (what & 15, connection) {
            (0, _) if self.connections.len() < 4 => {
                let begun = self.stack.tcp_connect(now, None, to);
                self.connections.extend(begun);
            }
            (1 | 2, _) => _ = self.stack.udp_send_to(now, socket, &buffer, Some(to)),
            (3, _) => {
                let size = usize::from(input.byte()) + 1;
                _ = self.stack.udp_send_batch(now, socket, None, &buffer, size);
            }
            (4, _) => _ = self.stack.udp_recv_from(socket, &mut buffer),
            (5, _) => {
                let mut places = [Datagram::EMPTY; 4];
                _ = self.stack.udp_recv_batch(socket, &mut buffer, &mut places);
            }
            (6, _) => _ = self.stack.udp_recv_segments(socket, &mut buffer),
            (7, _) => {
                _ = self
                    .stack
                    .udp_set_option(socket, UdpOption::Broadcast(len & 1 == 0))
            }
            (8, _) => {
                _ = self
                    .stack
                    .udp_connect(socket, Some(to).filter(|_| len & 1 == 0))
            }
            (9 | 10, Some(id)) => _ = self.stack.tcp_send(now, id, &buffer),
            (11 | 12, Some(id)) => _ = self.stack.tcp_recv(now, id, &mut buffer),
            (13, Some(id)) => {
                self.stack.tcp_close(now, id);
                self.connections.retain(|&other| other != id);
            }
            _ => self
                .connections
                .extend(self.stack.tcp_accept(self.listener)),
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for step in 0.. {
            let Some(at) = self.stack.next_timeout().filter(|&at| at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            self.poll();
            assert!(step < 100_000, "runs in circles");
        }
        self.now = end;
        self.poll();
    }

    fn finish(mut self) {
        for &id in &self.connections {
            self.stack.tcp_close(self.now, id);
        }
        for &id in &self.sockets {
            self.stack.udp_close(id);
        }
        self.stack.tcp_close_listener(self.now, self.listener);
        self.pass(Duration::from_secs(4000));
        self.poll();
        assert_eq!(self.stack.tcp_connections(), 0, "a connection stays");
        let pool = &self.stack.link(self.link).expect("a link").pool;
        assert!(pool.free_blocks() + 1 >= pool.blocks(), "memory stays");
    }
}

/// Changes up to three bytes.
fn spoil(bytes: &mut [u8], input: &mut Input) {
    for _ in 0..input.byte() & 3 {
        let at = usize::from(input.byte()) % bytes.len().max(1);
        let value = input.byte();
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= value;
        }
    }
}

/// `bytes` with its checksum put in at `at`.
fn with_sum(mut bytes: Vec<u8>, at: usize, pseudo: gannet_wire::checksum::Sum) -> Vec<u8> {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.fill(0);
    }
    let checksum = sum(&bytes).combine(pseudo, false).finish();
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
    bytes
}

fn ip_packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header.extend(four(from).octets());
    header.extend(four(to).octets());
    let mut packet = with_sum(header, 10, sum(&[]));
    packet.extend_from_slice(payload);
    packet
}

/// An IP packet with a transport header that fits, and then what the input does to it.
fn packet(input: &mut Input) -> Vec<u8> {
    let (from, to) = (input.address(), input.address());
    let protocol = input.one_of(&[1, 6, 17]);
    let ports = [input.byte(), input.byte()].map(|n| PORTS[usize::from(n & 3)]);
    let ports = ports.map(u16::to_be_bytes).concat();
    let len = usize::from(input.byte());
    let (header, at) = match protocol {
        1 => (
            vec![input.one_of(&[8, 3, 0, 13, 17]), input.byte() & 15, 0, 0],
            2,
        ),
        6 => {
            let numbers = input.bytes(8);
            let flags = input.byte() & 0x3f;
            let rest = vec![0x50 + (input.byte() & 0x30), flags, 16, 0, 0, 0, 0, 0];
            ([ports, numbers, rest].concat(), 16)
        }
        17 => {
            let len = ((8 + len) as u16).to_be_bytes();
            ([ports, len.to_vec(), vec![0, 0]].concat(), 6)
        }
        _ => (Vec::new(), 0),
    };
    let mut payload = [header, input.bytes(len)].concat();
    if input.byte() & 7 == 0 {
        spoil(&mut payload, input);
    }
    let pseudo = match protocol {
        1 => sum(&[]),
        _ => pseudo_v4(
            four(from),
            four(to),
            IpProtocol(protocol),
            payload.len() as u16,
        ),
    };
    if at > 0 && input.byte() & 15 != 0 {
        payload = with_sum(payload, at, pseudo);
    }
    let mut packet = ip_packet(from, to, protocol, &payload);
    if input.byte() & 7 == 0 {
        spoil(&mut packet[..20], input);
        if input.byte() & 1 == 0 {
            let header: Vec<u8> = packet.drain(..20).collect();
            let header = with_sum(header, 10, sum(&[]));
            packet.splice(..0, header);
        }
    }
    packet
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (mut world, _right) = World::new(input.byte());
    for _ in 0..300 {
        if input.0.is_empty() {
            break;
        }
        match input.byte() & 7 {
            0..=2 => {
                let frame = world.frame(&mut input);
                world.inject(&frame);
                world.poll();
            }
            3 | 4 => {
                let frame = world.echo(&mut input);
                world.inject(&frame);
                world.poll();
            }
            5 | 6 => world.call(&mut input),
            _ => world.pass(Duration::from_millis(1 << (input.byte() % 18))),
        }
        while world.stack.tcp_take_ready().is_some() {}
        while world.stack.udp_take_ready().is_some() {}
    }
    world.finish();
});
