//! Segments, calls and time, decoded from bytes, against a whole stack: what its peer might send
//! and its owner might call, in any order. Claims: no panic, no endless loop, the invariants of
//! every connection after every step, and no memory held once everything is closed.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Checksum, Medium};
use gannet_stack::tcp::{ListenerId, Shutdown, TcpId, TcpOption};
use gannet_stack::testing::packet::four;
use gannet_stack::testing::{A, B, Simulated, Wire, WireConfig, WireDriver};
use gannet_stack::{Config, LinkAddress, LinkConfig, LinkId, Stack};
use gannet_wire::checksum::{pseudo_v4, sum};
use gannet_wire::ipv4::{self, IpProtocol};
use gannet_wire::tcp::{self, Flags};
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
}

struct World {
    stack: Stack<WireDriver>,
    link: LinkId,
    now: Instant,
    listener: ListenerId,
    /// Blocks that were dropped: found again when memory is short.
    abandoned: usize,
    ids: Vec<TcpId>,
    /// Seq and ack by which the peer's numbers are chosen: the last that the stack sent.
    seq: u32,
    ack: u32,
    port: u16,
}

impl World {
    fn new() -> (Self, gannet_link::Endpoint<WireDriver>) {
        let wire = WireConfig {
            medium: Medium::Ip,
            checksum: Checksum::Software,
            delay: Duration::ZERO,
            blocks: (4096, 64),
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
        let at = SocketAddr::new(A, 80);
        let listener = stack.tcp_listen(at, 3).expect("free");
        if let Some(endpoint) = stack.link_mut(link) {
            endpoint.driver.record();
        }
        let now = Instant::from_millis(1000);
        let world = World {
            stack,
            link,
            now,
            listener,
            abandoned: 0,
            ids: Vec::new(),
            seq: 0,
            ack: 1000,
            port: 80,
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
        let Some(endpoint) = self.stack.link_mut(self.link) else {
            return;
        };
        for frame in endpoint.driver.recorded() {
            let Ok((header, len)) = tcp::Header::parse(&frame[20..]) else {
                continue;
            };
            let payload = (frame.len() - 20 - len) as u32;
            let marks = header.flags & (Flags::SYN | Flags::FIN);
            self.seq = header.seq.wrapping_add(payload + marks.bits().count_ones());
            if header.flags.contains(Flags::ACK) {
                self.ack = header.ack;
            }
            self.port = header.src_port;
        }
    }

    fn segment(&mut self, input: &mut Input) {
        let flags = input.byte();
        let how = input.byte();
        let near = |base: u32, how: u8, input: &mut Input| match how & 3 {
            0 => base,
            1 => base.wrapping_add(u32::from(input.byte())).wrapping_sub(128),
            2 => base
                .wrapping_add(u32::from(input.word()))
                .wrapping_sub(32_768),
            _ => base ^ (u32::from(input.byte()) << 24),
        };
        let header = tcp::Header {
            src_port: 4000 + u16::from(how >> 6),
            dst_port: if how & 0x20 == 0 { self.port } else { 80 },
            seq: near(self.ack, how, input),
            ack: near(self.seq, how >> 2, input),
            reserved: 0,
            flags: Flags::from_bits_truncate(flags & 0x3f),
            window: input.word(),
            checksum: 0,
            urgent: if flags & 0x20 != 0 { input.word() } else { 0 },
        };
        let options = usize::from(input.byte() % 11) * 4;
        let mut bytes = vec![0; tcp::HEADER_LEN];
        let mut fixed = [0; tcp::HEADER_LEN];
        header.emit_fixed(options, &mut fixed);
        bytes.copy_from_slice(&fixed);
        bytes.extend((0..options).map(|_| input.byte()));
        let len = match input.byte() {
            n @ 0..200 => usize::from(n),
            n => usize::from(n - 199) * 25,
        };
        bytes.extend(core::iter::repeat_n(0x55, len));
        bytes[16..18].fill(0);
        let pseudo = pseudo_v4(four(B), four(A), IpProtocol::TCP, bytes.len() as u16);
        let checksum = sum(&bytes).combine(pseudo, false).finish();
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        let mut packet = vec![0; ipv4::HEADER_LEN];
        let ip = ipv4::Header {
            tos: 0,
            total_len: (ipv4::HEADER_LEN + bytes.len()) as u16,
            ident: 1,
            reserved_flag: false,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: IpProtocol::TCP,
            src: four(B),
            dst: four(A),
            options: ipv4::OptionReport::default(),
        };
        ip.emit(&mut packet).expect("20 bytes");
        packet.extend_from_slice(&bytes);
        let now = self.now;
        if let Some(endpoint) = self.stack.link_mut(self.link) {
            endpoint.driver.advance(now);
            endpoint.driver.inject(&packet);
        }
    }

    fn call(&mut self, input: &mut Input) {
        let what = input.byte();
        let now = self.now;
        if self.ids.is_empty() || what & 15 == 0 {
            let to = SocketAddr::new(B, 4000 + u16::from(what >> 6));
            if self.ids.len() < 4 {
                self.ids.extend(self.stack.tcp_connect(now, None, to));
            }
            return;
        }
        let index = usize::from(input.byte()) % self.ids.len();
        let id = self.ids[index];
        let len = usize::from(input.word()) % 9000;
        let mut buffer = vec![1; len];
        match what & 15 {
            1 | 2 => _ = self.stack.tcp_send(now, id, &buffer),
            3 => _ = self.stack.tcp_join(id, &buffer),
            4..=6 => _ = self.stack.tcp_recv(now, id, &mut buffer),
            7 => _ = self.stack.tcp_send_urgent(now, id, &buffer),
            8 => {
                if let Ok(block) = self.stack.tcp_take_block(id) {
                    let sent = self.stack.tcp_send_block(now, id, block, len);
                    self.abandoned += usize::from(sent.is_err());
                }
            }
            9 => {
                if let Ok(Some(block)) = self.stack.tcp_recv_block(now, id) {
                    self.stack.tcp_release_block(block);
                }
            }
            10 => _ = self.stack.tcp_shutdown(now, id, Shutdown::Write),
            11 => _ = self.stack.tcp_shutdown(now, id, Shutdown::Read),
            12 => self.stack.tcp_close(now, self.ids.swap_remove(index)),
            13 => self.stack.tcp_abort(now, self.ids.swap_remove(index)),
            14 => {
                let time = Duration::from_millis(len as u64);
                let option = match what >> 4 {
                    0 => TcpOption::NoDelay(len % 2 == 0),
                    1 => TcpOption::KeepAlive(Some(time)),
                    2 => TcpOption::UserTimeout(Some(time)),
                    3 => TcpOption::SendBuffer(len as u32),
                    4 => TcpOption::ReceiveBuffer(len as u32),
                    5 => TcpOption::Linger(Some(time)),
                    _ => TcpOption::Linger(None),
                };
                self.stack.tcp_set_option(id, option);
            }
            _ => drop((self.stack.tcp_status(id), self.stack.tcp_info(id))),
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
}

fuzz_target!(|data: &[u8]| {
    let (mut world, _right) = World::new();
    let at = SocketAddr::new(A, 81);
    let listener = world.stack.tcp_listen(at, 1).expect("free");
    world.stack.tcp_close_listener(world.now, listener);
    let mut input = Input(data);
    for _ in 0..400 {
        if input.0.is_empty() {
            break;
        }
        match input.byte() & 7 {
            0..=3 => {
                world.segment(&mut input);
                world.poll();
            }
            4 => world.segment(&mut input), // with the next in one batch
            5 | 6 => {
                world.call(&mut input);
                world.stack.check_tcp();
            }
            _ => {
                let ms = 1 << (input.byte() % 18);
                world.pass(Duration::from_millis(ms));
            }
        }
        while world.stack.tcp_take_ready().is_some() {}
        if input.byte() & 1 == 0 {
            world.ids.extend(world.stack.tcp_accept(world.listener));
        }
    }
    for id in core::mem::take(&mut world.ids) {
        world.stack.tcp_close(world.now, id);
    }
    world.stack.tcp_close_listener(world.now, world.listener);
    world.pass(Duration::from_secs(4000));
    world.poll();
    assert_eq!(world.stack.tcp_connections(), 0, "a connection stays");
    let pool = &world.stack.link(world.link).expect("a link").pool;
    pool.invariants();
    assert!(
        pool.free_blocks() + world.abandoned + 1 >= pool.blocks(),
        "memory stays"
    );
});
