//! Captured files, read back with another library.

use gannet_drivers::capture::{Capture, Trace};
use gannet_link::slot::flags;
use gannet_link::{Driver, Endpoint, Frame, Layout, NoDoorbell, PeerDriver, Slot, pair};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

type End = Endpoint<PeerDriver<NoDoorbell>>;

fn ends() -> (End, End) {
    let layout = Layout {
        slots: 16,
        completions: 64,
        block_bytes: 16 << 10,
        blocks: 16,
        align: 4096,
    };
    pair(layout, (NoDoorbell, NoDoorbell))
}

/// Somewhere to write that can be looked at afterwards, and fails after a number of bytes.
#[derive(Clone, Default)]
struct Shared {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: Option<usize>,
}

impl Write for Shared {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        if self
            .room
            .is_some_and(|room| bytes.len() + from.len() > room)
        {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        bytes.extend_from_slice(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn clock() -> impl FnMut() -> u64 {
    let mut now = 1_700_000_000_000_000_000;
    move || {
        now += 1_000_000_001;
        now
    }
}

/// Sends `head` inline and `payload` in ranges.
fn send<D: Driver>(endpoint: &mut Endpoint<D>, head: &[u8], payload: &[u8], slot: &mut Slot) {
    slot.inline_mut(head.len()).unwrap().copy_from_slice(head);
    let mut ranges = Vec::new();
    for piece in payload.chunks(16 << 10) {
        let block = endpoint.pool.alloc().unwrap();
        let range = endpoint.pool.range(block, 0, piece.len() as u32);
        endpoint
            .pool
            .bytes_mut(range)
            .unwrap()
            .copy_from_slice(piece);
        assert!(slot.push_range(range));
        ranges.push(range);
    }
    endpoint.transmit(slot).unwrap();
    for range in ranges {
        endpoint.release(range);
    }
    endpoint.flush();
}

fn drain<D: Driver>(endpoint: &mut Endpoint<D>) -> usize {
    let (mut frame, mut count) = (Frame::new(), 0);
    while endpoint.receive(&mut frame, &mut 4) {
        endpoint.release_frame(&frame);
        count += 1;
    }
    endpoint.flush();
    count
}

/// Bytes, original length, time in nanoseconds and comments of each packet of a file.
type Packets = Vec<(Vec<u8>, u32, u128, String)>;

fn read_back(bytes: &[u8]) -> (DataLink, Packets) {
    let mut reader = PcapNgReader::new(bytes).unwrap();
    let (mut packets, mut link) = (Vec::new(), None);
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => link = Some(interface.linktype),
            Block::EnhancedPacket(packet) => {
                let comments = packet.options.iter().filter_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                    _ => None,
                });
                let (data, len) = (packet.data.to_vec(), packet.original_len);
                packets.push((data, len, packet.timestamp.as_nanos(), comments.collect()));
            }
            other => panic!("an unexpected block: {other:?}"),
        }
    }
    (link.unwrap(), packets)
}

#[test]
fn both_directions_whole_with_times_and_comments() {
    let (left, mut right) = ends();
    let output = Shared::default();
    let mut left = Capture::start(left, output.clone(), "left", 0, clock());
    let payload: Vec<u8> = (0..50_000_u32).map(|n| n as u8).collect();
    let mut slot = Slot::new();
    slot.set_flags(flags::CSUM_PARTIAL);
    slot.set_checksum_place(20, 16);
    slot.set_gso_size(1448);
    send(&mut left, &[0x45; 40], &payload, &mut slot);
    assert_eq!(drain(&mut right), 1);
    send(&mut right, b"small", b"", &mut Slot::new());
    send(&mut right, b"larger", &payload[..20_000], &mut Slot::new());
    assert_eq!(drain(&mut left), 2);
    assert_eq!(
        (left.driver.sink().written(), left.driver.sink().errors()),
        (3, 0)
    );
    drop(left);

    let bytes = output.bytes.lock().unwrap().clone();
    let (link, packets) = read_back(&bytes);
    assert_eq!(link, DataLink::RAW);
    assert_eq!(packets.len(), 3);
    let start = 1_700_000_000_000_000_000_u128;
    for (index, (bytes, len, time, _)) in packets.iter().enumerate() {
        assert_eq!(bytes.len(), *len as usize);
        // pcap-file reads the raw time as it reads the resolution: nanoseconds either way.
        assert_eq!(*time, start + (index as u128 + 1) * 1_000_000_001);
    }
    assert_eq!(packets[0].0, [&[0x45; 40][..], &payload].concat());
    assert_eq!(
        packets[0].3,
        "out, in segments of 1448, checksum not filled in"
    );
    assert_eq!(
        (&packets[1].0[..], &packets[1].3[..]),
        (&b"small"[..], "in")
    );
    assert_eq!(packets[2].0, [&b"larger"[..], &payload[..20_000]].concat());
}

#[test]
fn the_snap_length_cuts_and_the_original_length_stays() {
    let (left, mut right) = ends();
    let output = Shared::default();
    let mut left = Capture::start(left, output.clone(), "left", 60, clock());
    send(&mut left, &[1; 40], &[2; 1000], &mut Slot::new());
    assert_eq!(drain(&mut right), 1);
    drop(left);
    let bytes = output.bytes.lock().unwrap().clone();
    let (_, packets) = read_back(&bytes);
    assert_eq!(packets[0].0, [[1; 40].as_slice(), &[2; 20]].concat());
    assert_eq!(packets[0].1, 1040);
}

#[test]
fn a_full_disk_is_counted_and_disturbs_nobody() {
    let (left, mut right) = ends();
    let output = Shared {
        room: Some(2000),
        ..Shared::default()
    };
    let mut left = Capture::start(left, output.clone(), "left", 0, clock());
    for _ in 0..10 {
        send(&mut left, &[1; 40], &[2; 500], &mut Slot::new());
        assert_eq!(drain(&mut right), 1);
        left.reclaim();
    }
    let sink = left.driver.sink();
    assert_eq!(sink.written() + sink.errors(), 10);
    assert!(sink.errors() > 0 && sink.written() > 0);
    let (_, packets) = read_back(&output.bytes.lock().unwrap());
    assert_eq!(
        packets.len() as u64,
        sink.written(),
        "what was written can be read"
    );
}

#[test]
fn refused_frames_are_not_captured() {
    let (left, _right) = ends();
    let output = Shared::default();
    let mut left = Capture::start(left, output, "left", 0, clock());
    let mut slot = Slot::new();
    slot.inline_mut(4).unwrap().fill(1);
    let sent = (0..100).filter(|_| left.transmit(&slot).is_ok()).count();
    assert!(sent < 100);
    assert_eq!(left.driver.sink().written(), sent as u64);
}

#[test]
fn a_trace_prints_a_line_per_frame() {
    let (left, mut right) = ends();
    let output = Shared::default();
    let mut left = Trace::start(left, output.clone(), clock());
    let mut slot = Slot::new();
    slot.set_gso_size(100);
    let header = [
        0x45, 0, 4, 20, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    send(&mut left, &header, &[0; 1000], &mut slot);
    send(&mut right, b"?", b"", &mut Slot::new());
    assert_eq!(drain(&mut left), 1);
    let text = String::from_utf8(output.bytes.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("1700000001.000000001 out "), "{text}");
    assert!(
        lines[0].contains("10.0.0.1") && lines[0].ends_with("(in segments of 100)"),
        "{text}"
    );
    assert!(lines[1].starts_with("1700000002.000000002 in "), "{text}");
}
