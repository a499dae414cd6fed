//! The table alone: rules that are IPv6's, which the wire format in front of it does not matter to.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_link::driver::Received;
use gannet_link::frame::Bounds;
use gannet_link::{Frame, Range, Space};

use super::super::{HEAD_MAX, Head, Key, Piece, Reassembly};
use crate::config::IpConfig;
use crate::counters::DropReason::{self, *};
use crate::counters::Drops;
use crate::hash::HashKey;
use crate::link::{LinkConfig, LinkId, Links};
use crate::testing::{Wire, WireConfig, WireDriver};

/// Bytes of a fragment that come inline, when there are that many.
const INLINE: usize = 40;

/// A table with one link to fill it from.
pub(super) struct Desk {
    pub(super) table: Reassembly,
    pub(super) links: Links<WireDriver>,
    pub(super) link: LinkId,
    pub(super) drops: Drops,
    pub(super) now: Instant,
}

impl Desk {
    pub(super) fn new(blocks: (u32, u32), memory: usize) -> Self {
        let wire = WireConfig {
            blocks,
            ..WireConfig::default()
        };
        let (endpoint, _) = Wire::ends(1, &wire);
        let mut links = Links::new();
        let link = links.add(endpoint, LinkConfig::default());
        let config = IpConfig {
            reassembly_memory: memory,
            ..IpConfig::default()
        };
        Desk {
            table: Reassembly::new(&config, HashKey::new([3; 16])),
            links,
            link,
            drops: Drops::new(),
            now: Instant::from_millis(1000),
        }
    }

    pub(super) fn key(&self, ident: u32, is_ipv6: bool) -> Key {
        let (source, destination) = match is_ipv6 {
            true => (
                IpAddr::V6(Ipv6Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            ),
            false => (
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V4(Ipv4Addr::BROADCAST),
            ),
        };
        Key {
            link: self.link,
            source,
            destination,
            ident,
            protocol: 0,
        }
    }

    /// A fragment of `bytes`; the whole datagram when it is complete.
    pub(super) fn give(
        &mut self,
        key: &Key,
        (offset, more): (u32, bool),
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, DropReason> {
        let mut frame = self.frame(bytes);
        let piece = Piece {
            offset,
            len: bytes.len() as u32,
            more,
            head: Head {
                bytes: [0; HEAD_MAX],
                len: HEAD_MAX,
                tos: 0,
                protocol: 17,
            },
        };
        let parts = (&mut self.links, &mut self.drops);
        let outcome = self.table.arrives(self.now, key, &piece, parts, &mut frame);
        let endpoint = &mut self.links.get_mut(self.link).expect("there").endpoint;
        let whole = outcome.map(|whole| {
            whole.map(|_| {
                let mut all = vec![0; frame.len()];
                assert_eq!(endpoint.peek(&frame, &mut all), all.len());
                all
            })
        });
        endpoint.release_frame(&frame);
        endpoint.pool.invariants();
        self.table.shelf.invariants();
        whole
    }

    fn frame(&mut self, bytes: &[u8]) -> Frame {
        let pool = &mut self.links.get_mut(self.link).expect("there").endpoint.pool;
        let (inline, mut rest) = bytes.split_at(INLINE.min(bytes.len()));
        let mut ranges: Vec<Range> = vec![];
        while !rest.is_empty() {
            let block = pool.alloc_for_receive().expect("memory");
            let len = rest.len().min(pool.block_bytes() as usize);
            let range = pool.range(block, 0, len as u32);
            pool.bytes_mut(range)
                .expect("ours")
                .copy_from_slice(&rest[..len]);
            ranges.push(range);
            rest = &rest[len..];
        }
        let bounds = Bounds {
            space: Space::Own,
            segment_bytes: pool.block_bytes() * pool.blocks() as u32,
            block_bytes: pool.block_bytes(),
        };
        let mut frame = Frame::new();
        let mut empty = false;
        let loaded = frame.load(&bounds, |slot| {
            slot.inline_mut(inline.len())
                .expect("room")
                .copy_from_slice(inline);
            empty = bytes.is_empty();
            !empty && ranges.iter().all(|&r| slot.push_range(r))
        });
        assert!(empty || loaded == Received::Frame);
        frame
    }
}

//= https://www.rfc-editor.org/rfc/rfc5722#section-4
//= type=test
//# When reassembling an IPv6 datagram, if one or more its constituent fragments is determined to be
//# an overlapping fragment, the entire datagram (and any constituent fragments, including those not
//# yet received) MUST be silently discarded.
#[test]
fn six_4_an_overlap_spoils_what_has_not_come_yet() {
    let mut desk = Desk::new((2048, 64), 1 << 20);
    let key = desk.key(7, true);
    assert_eq!(desk.give(&key, (0, true), &[1; 80]), Ok(None));
    assert_eq!(desk.give(&key, (72, true), &[1; 80]), Err(FragmentOverlap));
    for (place, len) in [((0, true), 80), ((80, true), 80), ((160, false), 9)] {
        let outcome = desk.give(&key, place, &[1; 80][..len]);
        assert_eq!(outcome, Err(FragmentOverlap), "{place:?}");
    }
    // Its blocks are free, and nobody is told when its time is over.
    let pool = &desk.links.get(desk.link).expect("there").endpoint.pool;
    assert_eq!(pool.free_blocks(), pool.blocks());
    let end = desk.now + Duration::from_secs(60);
    let parts = (&mut desk.links, &mut desk.drops);
    assert!(desk.table.expire(end, parts).is_none());
    assert_eq!(desk.drops.get(FragmentTimeout), 1);
    assert_eq!(desk.table.next_timeout(), None);
    desk.now = end;
    assert_eq!(desk.give(&key, (0, true), &[1; 80]), Ok(None));
    assert_eq!(
        desk.give(&key, (80, false), &[2; 3]),
        Ok(Some([&[1; 80][..], &[2; 3]].concat()))
    );
}

//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
//= type=test
//# If insufficient fragments are received to complete reassembly of a packet within 60 seconds of
//# the reception of the first-arriving fragment of that packet, reassembly of that packet must be
//# abandoned and all the fragments that have been received for that packet must be discarded.
#[test]
fn six_4_sixty_seconds_for_ipv6_and_thirty_for_ipv4() {
    let mut desk = Desk::new((2048, 64), 1 << 20);
    let start = desk.now;
    for is_ipv6 in [true, false] {
        let key = desk.key(7, is_ipv6);
        assert_eq!(desk.give(&key, (0, true), &[1; 80]), Ok(None));
    }
    let expired = |desk: &mut Desk, seconds| {
        let now = start + Duration::from_secs(seconds);
        let parts = (&mut desk.links, &mut desk.drops);
        desk.table.expire(now, parts).map(|e| e.source.is_ipv6())
    };
    assert_eq!(expired(&mut desk, 29), None);
    assert_eq!(expired(&mut desk, 30), Some(false));
    assert_eq!(expired(&mut desk, 30), None);
    assert_eq!(
        desk.table.next_timeout(),
        Some(start + Duration::from_secs(60))
    );
    assert_eq!(expired(&mut desk, 59), None);
    assert_eq!(expired(&mut desk, 60), Some(true));
    assert_eq!(desk.table.next_timeout(), None);
}

//= https://www.rfc-editor.org/rfc/rfc8200#section-5
//= type=test
//# A node must be able to accept a fragmented packet that, after reassembly, is as large as 1500
//# octets.
#[test]
fn six_4_longest_payloads() {
    let mut desk = Desk::new((16 * 1024, 64), 1 << 20);
    for (is_ipv6, most) in [(true, 65_535), (false, 65_515)] {
        let key = desk.key(7, is_ipv6);
        let bytes: Vec<u8> = (0..most).map(|i| (i / 97) as u8).collect();
        let (first, last) = bytes.split_at(65_000);
        assert_eq!(desk.give(&key, (65_000, false), last), Ok(None));
        let whole = desk.give(&key, (0, true), first);
        assert!(whole == Ok(Some(bytes.clone())), "IPv6: {is_ipv6}");
        let long = [last, &[0]].concat();
        let outcome = desk.give(&key, (65_000, false), &long);
        assert_eq!(outcome, Err(FragmentTooLong));
    }
    // Blocks so small that a frame cannot refer to enough of them.
    let mut desk = Desk::new((2048, 64), 1 << 20);
    let key = desk.key(7, true);
    assert_eq!(desk.give(&key, (16_376, true), &[1; 8]), Ok(None));
    assert_eq!(
        desk.give(&key, (16_384, false), &[1; 8]),
        Err(FragmentTooLong)
    );
}

#[test]
fn a_quarter_of_the_blocks_is_for_others() {
    let mut desk = Desk::new((2048, 64), 1 << 20);
    let mut taken = 0;
    for ident in 0..64 {
        let key = desk.key(ident, ident % 2 == 0);
        match desk.give(&key, (0, true), &[1; 40]) {
            Ok(None) => taken += 1,
            other => assert_eq!(other, Err(NoMemory)),
        }
    }
    let pool = &desk.links.get(desk.link).expect("there").endpoint.pool;
    assert_eq!(pool.available(), 16);
    assert_eq!(taken, 64 - 16 - 16, "a reserve of 16 and a quarter of 64");
}
