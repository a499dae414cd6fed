//! What people read.

use gannet_wire::icmpv4::{Message, Unreachable};
use gannet_wire::tcp::{self, Flags, Options};
use gannet_wire::{EtherType, IpProtocol, MacAddr, arp, checksum, ethernet, ipv4, pretty, udp};
use std::net::Ipv4Addr;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn ip(protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Header {
        tos: 0,
        total_len: 20 + payload.len() as u16,
        ident: 77,
        reserved_flag: false,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol,
        src: A,
        dst: B,
        options: ipv4::OptionReport::default(),
    };
    let mut out = vec![0; 20];
    header.emit(&mut out).unwrap();
    out.extend(payload);
    out
}

fn tcp(flags: Flags, options: &Options, data: &[u8]) -> Vec<u8> {
    let header = tcp::Header {
        src_port: 40_000,
        dst_port: 80,
        seq: u32::MAX,
        ack: 7,
        reserved: 0,
        flags,
        window: 512,
        checksum: 0,
        urgent: 3,
    };
    let mut out = vec![0; 60];
    let len = header.emit(options, &mut out).unwrap();
    out.truncate(len);
    out.extend(data);
    out
}

fn icmp(message: Message, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 8];
    message.emit(checksum::sum(payload), &mut out).unwrap();
    out.extend(payload);
    out
}

#[test]
fn tcp_lines() {
    let syn = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((5, 0)),
        ..Options::NONE
    };
    let bytes = ip(IpProtocol::TCP, &tcp(Flags::SYN, &syn, &[]));
    assert_eq!(
        pretty::ipv4(&bytes).to_string(),
        "10.0.0.1:40000 > 10.0.0.2:80 TCP [S] seq 4294967295 win 512 \
         <mss 1460,sackOK,TS 5 0,ws 7> length 0"
    );
    let flags = Flags::PSH | Flags::ACK | Flags::URG;
    let bytes = ip(IpProtocol::TCP, &tcp(flags, &Options::NONE, b"data"));
    assert_eq!(
        pretty::ipv4(&bytes).to_string(),
        "10.0.0.1:40000 > 10.0.0.2:80 TCP [PU.] seq 4294967295:3 ack 7 win 512 urg 3 length 4"
    );
    let sack = Options {
        sack: [(9, 12)].into_iter().collect(),
        ..Options::NONE
    };
    assert_eq!(
        pretty::tcp(&tcp(Flags::empty(), &sack, &[])).to_string(),
        "40000 > 80 TCP [none] seq 4294967295 win 512 <sack 9:12> length 0"
    );
}

#[test]
fn udp_and_icmp_lines() {
    let mut datagram = vec![0; 12];
    let header = udp::Header {
        src_port: 53,
        dst_port: 5353,
        length: 12,
        checksum: 0,
    };
    header.emit(&mut datagram).unwrap();
    let bytes = ip(IpProtocol::UDP, &datagram);
    let line = "10.0.0.1:53 > 10.0.0.2:5353 UDP length 4";
    assert_eq!(pretty::ipv4(&bytes).to_string(), line);

    let echo = icmp(Message::EchoRequest { ident: 1, seq: 2 }, b"ping");
    let line = "10.0.0.1 > 10.0.0.2 ICMP echo request id 1 seq 2 length 12";
    assert_eq!(pretty::ipv4(&ip(IpProtocol::ICMP, &echo)).to_string(), line);

    let code = Unreachable::FRAGMENTATION_NEEDED;
    let message = Message::DestinationUnreachable {
        code,
        next_hop_mtu: 1280,
    };
    let error = icmp(message, &bytes[..28]);
    let line = "10.0.0.1 > 10.0.0.2 ICMP fragmentation needed, mtu 1280 length 36 \
                (about 10.0.0.1:53 > 10.0.0.2:5353 UDP)";
    assert_eq!(
        pretty::ipv4(&ip(IpProtocol::ICMP, &error)).to_string(),
        line
    );
}

#[test]
fn ethernet_lines() {
    let link = ethernet::Header {
        dst: MacAddr::BROADCAST,
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        ethertype: EtherType::ARP,
    };
    let request = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: link.src,
        sender_ip: A,
        target_mac: MacAddr::ZERO,
        target_ip: B,
    };
    let mut frame = vec![0; 60];
    link.emit(&mut frame).unwrap();
    request.emit(&mut frame[14..]).unwrap();
    let line = "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff ARP who has 10.0.0.2 tell 10.0.0.1";
    assert_eq!(pretty::ethernet(&frame).to_string(), line);

    frame[13] = 0x99;
    let line = "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff 0x0899 length 46";
    assert_eq!(pretty::ethernet(&frame).to_string(), line);
    assert_eq!(
        pretty::ethernet(&frame[..9]).to_string(),
        "[runt frame, 9 bytes]"
    );
}

#[test]
fn what_is_wrong_is_said() {
    let mut bytes = ip(IpProtocol(99), b"abcd");
    bytes[10] ^= 1;
    let line = "10.0.0.1 > 10.0.0.2 protocol 99 length 4 [IP BadChecksum]";
    assert_eq!(pretty::ipv4(&bytes).to_string(), line);
    assert_eq!(
        pretty::ipv4(&bytes[..7]).to_string(),
        "IPv4 [Truncated, 7 bytes]"
    );
    let cut = ip(IpProtocol::TCP, &[0; 19]);
    let line = "10.0.0.1 > 10.0.0.2 TCP [Truncated, 19 bytes]";
    assert_eq!(pretty::ipv4(&cut).to_string(), line);
}
