//! A capture of a real conversation, read back by a reader that is not ours.

use crate::lan::{GANNET, Join, Lan, not_root};
use crate::stream::{drain, pour};
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs::File;
use std::net::Shutdown;

/// The TCP segments of a capture: flags and length of the payload.
fn segments(path: &std::path::Path) -> Vec<(u8, usize)> {
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut found = Vec::new();
    let mut packets = 0;
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.unwrap() else {
            continue;
        };
        packets += 1;
        let frame = &packet.data;
        // Ethernet, IPv4 without options, TCP.
        if frame[12..14] == [8, 0] && frame[14] == 0x45 && frame[23] == 6 {
            let headers = 14 + 20 + usize::from(frame[14 + 20 + 12] >> 4) * 4;
            found.push((frame[14 + 20 + 13], packet.original_len as usize - headers));
        }
    }
    assert!(packets > found.len(), "ARP before TCP");
    found
}

#[test]
fn the_capture_holds_the_conversation() {
    if not_root() {
        return;
    }
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    const FIN: u8 = 0x01;
    for (join, name) in [(Join::Veth, "near"), (Join::Tap, "far")] {
        let directory = tempfile::tempdir().unwrap();
        let lan = Lan::with(join, 1500, |builder| builder.capture(directory.path()));
        let (mut ours, mut theirs) = lan.pair();
        let len = 200_000;
        let sent = pour(&mut ours, len, 1);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(drain(&mut theirs, 1), sent);
        drop(theirs);
        assert_eq!(drain(&mut ours, 1).len, 0);
        drop(ours);
        drop(lan);
        let all = segments(&directory.path().join(format!("{name}.pcapng")));
        let flags: Vec<u8> = all
            .iter()
            .map(|(flags, _)| flags & (SYN | ACK | FIN))
            .collect();
        assert_eq!(flags[..3], [SYN, SYN | ACK, ACK], "{GANNET}: the handshake");
        let ends = flags.iter().filter(|&&f| f & FIN != 0).count();
        assert_eq!(ends, 2, "one FIN each way");
        let bytes: usize = all.iter().map(|(_, len)| len).sum();
        assert_eq!(bytes as u64, len, "every byte, once");
    }
}
