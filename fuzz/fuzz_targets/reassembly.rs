//! Fragments in any order, with any edges, doubled, contradicting each other, of many datagrams at
//! once, against a whole stack. Claims: what arrives is byte for byte what one sender could have
//! sent, memory stays below its limit, and nothing is held once all time-outs are over.
#![no_main]

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Checksum, Medium};
use gannet_stack::testing::packet::{datagram, mend};
use gannet_stack::testing::{A, B, Simulated, Wire, WireConfig, WireDriver};
use gannet_stack::{Config, LinkAddress, LinkConfig, LinkId, Stack};
use libfuzzer_sys::fuzz_target;

const PORT: u16 = 9;
const BLOCKS: (u32, u32) = (2048, 128);
const MEMORY: usize = 64 << 10;

/// The datagram of one identification: its bytes follow from that and its length.
fn whole(ident: u8) -> Vec<u8> {
    let len = [20, 300, 2000, 9000][usize::from(ident) % 4];
    let payload: Vec<u8> = (0..len)
        .map(|i| (i as u8).wrapping_mul(ident | 1))
        .collect();
    let (from, to) = (SocketAddr::new(A, 1), SocketAddr::new(B, PORT));
    datagram(from, to, &payload)
}

/// One fragment as five bytes of input describe it.
fn fragment([ident, offset, len, how, spoil]: [u8; 5]) -> Vec<u8> {
    let packet = whole(ident & 7);
    let (head, payload) = packet.split_at(20);
    let unit = if how & 1 == 0 { 8 } else { 256 };
    let offset = (usize::from(offset) * unit).min(payload.len() / 8 * 8);
    let rest = &payload[offset..];
    let want = if how & 2 == 0 {
        usize::from(len) * 8
    } else {
        usize::from(len)
    };
    let part = &rest[..want.min(rest.len())];
    let more = (offset + part.len() < payload.len()) ^ (how & 0xc0 == 0xc0);
    let mut bytes = head.to_vec();
    bytes.extend_from_slice(part);
    let place = (offset / 8) as u16 | u16::from(more) << 13;
    let total = (bytes.len() as u16).to_be_bytes();
    bytes[2..4].copy_from_slice(&total);
    bytes[4..6].copy_from_slice(&u16::from(ident & 0x3f).to_be_bytes());
    bytes[6..8].copy_from_slice(&place.to_be_bytes());
    if spoil >= 0xf0 {
        let at = usize::from(spoil) * 7 % bytes.len();
        bytes[at] ^= 1 << (spoil & 7);
    }
    mend(&mut bytes);
    bytes
}

fn host() -> (Stack<WireDriver>, LinkId, gannet_link::Endpoint<WireDriver>) {
    let wire = WireConfig {
        medium: Medium::Ip,
        mtu: 65_535,
        checksum: Checksum::Software,
        delay: Duration::ZERO,
        blocks: BLOCKS,
        ..WireConfig::default()
    };
    let (left, right) = Wire::ends(1, &wire);
    let mut config = Config::new([7; 16], 7);
    config.ip.reassembly_memory = MEMORY;
    let mut stack = Stack::new(config);
    let addresses = [LinkAddress {
        address: B,
        prefix_len: 24,
    }];
    let config = LinkConfig {
        addresses: addresses.into(),
        ..LinkConfig::default()
    };
    let link = stack.add_link(left, config);
    (stack, link, right)
}

fuzz_target!(|data: &[u8]| {
    let (mut stack, link, _right) = host();
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
    let socket = stack.udp_bind(any).expect("free");
    let mut now = Instant::from_millis(1000);
    let mut buffer = vec![0; 65_536];
    let expected: Vec<Vec<u8>> = (0..8).map(|i| whole(i)[28..].to_vec()).collect();
    for step in data.as_chunks::<5>().0 {
        if step[3] & 0x30 == 0x30 {
            now += Duration::from_millis(u64::from(step[4]) * 8);
        }
        let endpoint = stack.link_mut(link).expect("a link");
        endpoint.driver.advance(now);
        endpoint.driver.inject(&fragment(*step));
        while stack.poll(now) {}
        while let Ok((len, _, _)) = stack.udp_recv_from(socket, &mut buffer) {
            assert!(expected.iter().any(|e| *e == buffer[..len]), "spoilt bytes");
        }
        let pool = &stack.link(link).expect("a link").pool;
        pool.invariants();
        let used = (pool.blocks() - pool.free_blocks()) * BLOCKS.0 as usize;
        assert!(used <= MEMORY + 8 * BLOCKS.0 as usize, "too much memory");
    }
    stack.udp_close(socket);
    now += Duration::from_secs(100);
    let endpoint = stack.link_mut(link).expect("a link");
    endpoint.driver.advance(now);
    while stack.poll(now) {}
    let pool = &stack.link(link).expect("a link").pool;
    assert!(pool.free_blocks() + 1 >= pool.blocks(), "memory stays");
});
