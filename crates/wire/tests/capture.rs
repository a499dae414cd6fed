//! pcapng blocks as another reader sees them.

use gannet_wire::pcapng::{self, LinkType, Packet};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};

fn read(file: &[u8]) -> Vec<Block<'static>> {
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut blocks = Vec::new();
    while let Some(block) = reader.next_block() {
        blocks.push(block.unwrap().into_owned());
    }
    blocks
}

#[test]
fn a_file_of_two_interfaces_and_packets_of_every_padding() {
    const TIME: u64 = 1_700_000_000_123_456_789;
    let mut file = Vec::new();
    pcapng::section_header(&mut file, "gannet");
    pcapng::interface(&mut file, LinkType::Ethernet, 0, "veth0");
    pcapng::interface(&mut file, LinkType::RawIp, 65_535, "");
    let data = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    for len in 0..=9 {
        let comment = ["", "dropped: bad checksum", "é"][len % 3];
        let (left, right) = data[..len].split_at(len / 2);
        let packet = Packet {
            interface: (len % 2) as u32,
            timestamp_ns: TIME + len as u64,
            pieces: &[left, &[], right],
            original_len: 1500,
            comment,
        };
        pcapng::packet(&mut file, &packet);
        assert_eq!(file.len() % 4, 0);
    }

    let blocks = read(&file);
    assert_eq!(blocks.len(), 12);
    let interfaces: Vec<_> = blocks[..2]
        .iter()
        .map(|block| block.clone().into_interface_description().unwrap())
        .collect();
    assert_eq!(
        (interfaces[0].linktype, interfaces[0].snaplen),
        (DataLink::ETHERNET, 0)
    );
    assert_eq!(
        (interfaces[1].linktype, interfaces[1].snaplen),
        (DataLink::RAW, 65_535)
    );
    assert!(
        interfaces[0]
            .options
            .contains(&InterfaceDescriptionOption::IfName("veth0".into()))
    );
    assert!(
        interfaces[0]
            .options
            .contains(&InterfaceDescriptionOption::IfTsResol(9))
    );
    for (len, block) in blocks[2..].iter().enumerate() {
        let packet = block.clone().into_enhanced_packet().unwrap();
        assert_eq!(packet.data[..], data[..len]);
        assert_eq!(
            (packet.interface_id, packet.original_len),
            ((len % 2) as u32, 1500)
        );
        assert_eq!(packet.timestamp.as_nanos(), u128::from(TIME) + len as u128);
        let expected = match len % 3 {
            0 => vec![],
            1 => vec![EnhancedPacketOption::Comment(
                "dropped: bad checksum".into(),
            )],
            _ => vec![EnhancedPacketOption::Comment("é".into())],
        };
        assert_eq!(packet.options, expected, "{len}");
    }
}

#[test]
fn a_comment_too_long_is_cut_between_characters() {
    let mut file = Vec::new();
    pcapng::section_header(&mut file, "gannet");
    pcapng::interface(&mut file, LinkType::RawIp, 0, "tun0");
    let comment = format!("x{}", "é".repeat(40_000));
    let packet = Packet {
        interface: 0,
        timestamp_ns: 0,
        pieces: &[&[7; 3]],
        original_len: 3,
        comment: &comment,
    };
    pcapng::packet(&mut file, &packet);
    let blocks = read(&file);
    let options = blocks[1].clone().into_enhanced_packet().unwrap().options;
    let [EnhancedPacketOption::Comment(read)] = &options[..] else {
        panic!("{options:?}")
    };
    assert_eq!(read.len(), 65_535);
    assert!(comment.starts_with(read.as_ref()));
}
