//! A host, and the packets that somebody writes for it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use gannet_base::{Instant, Rng};
use gannet_link::Medium;
use gannet_stack::tcp::{TcpId, TcpOption};
use gannet_stack::udp::UdpId;
use gannet_stack::{Config, LinkAddress, LinkConfig, LinkId, Stack};
use gannet_wire::ipv4::{self, IpProtocol};
use gannet_wire::tcp::{self, Flags, Options};
use gannet_wire::{EtherType, MacAddr, arp, ethernet};

use super::device::Device;

/// The host's address and the other's.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// The port it listens on, of both protocols, and the other's.
pub(super) const PORTS: [u16; 2] = [80, 4000];
/// The host's port of the connection, and the other's.
const STREAM_PORTS: (u16, u16) = (81, 4001);
/// Where the other's sequence numbers begin.
const ISS: u32 = 0x7000_0000;

/// A host under attack.
pub(super) struct Victim {
    pub(super) stack: Stack<Device>,
    link: LinkId,
    pub(super) now: Instant,
    pub(super) rng: Rng,
    /// Its TCP connection, if one was opened.
    pub(super) tcp: Option<TcpId>,
    pub(super) udp: Option<UdpId>,
    /// The next sequence numbers of the other and of the host (as far as it acknowledges).
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// How far the kind of packets has got.
    pub(super) step: u32,
    /// Packets are written, and nothing is done with them: what the writing costs.
    pub(super) dry: bool,
    buffer: Vec<u8>,
}

impl Victim {
    /// A host with a listener and a UDP socket; `None` when the stack refuses.
    pub(super) fn new(medium: Medium) -> Option<Self> {
        let mut stack = Stack::new(Config::new([1; 16], 1));
        let link = stack.add_link(
            Device::endpoint(medium)?,
            LinkConfig {
                addresses: [LinkAddress {
                    address: IpAddr::V4(ADDRESSES[0]),
                    prefix_len: 8,
                }]
                .into(),
                peer: None,
                ..LinkConfig::default()
            },
        );
        let at = SocketAddr::new(ADDRESSES[0].into(), PORTS[0]);
        stack.tcp_listen(at, 16).ok()?;
        let udp = stack.udp_bind(at).ok();
        Some(Victim {
            stack,
            link,
            now: Instant::from_millis(1000),
            rng: Rng::new(8),
            tcp: None,
            udp,
            seq: ISS,
            ack: 0,
            step: 0,
            dry: false,
            buffer: vec![0; 70_000],
        })
    }

    /// A host with an open connection from the other, SACK agreed.
    pub(super) fn connected() -> Option<Self> {
        let mut v = Victim::new(Medium::Ip)?;
        let at = SocketAddr::new(ADDRESSES[0].into(), STREAM_PORTS.0);
        let listener = v.stack.tcp_listen(at, 4).ok()?;
        let options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            ..Options::NONE
        };
        let syn = segment(STREAM_PORTS, (ISS, 0), Flags::SYN, &options, &[]);
        v.arrives(&syn);
        let sent = &v.stack.link_mut(v.link)?.driver.last;
        let irs = u32::from_be_bytes(sent.get(24..28)?.try_into().ok()?);
        (v.seq, v.ack) = (ISS + 1, irs.wrapping_add(1));
        v.acknowledge(0, &[]);
        v.tcp = v.stack.tcp_accept(listener);
        // room for more than a thousand pieces, and for a long flight
        v.stack
            .tcp_set_option(v.tcp?, TcpOption::ReceiveBuffer(1 << 20));
        v.stack
            .tcp_set_option(v.tcp?, TcpOption::SendBuffer(1 << 20));
        v.tcp.map(|_| v)
    }

    /// Packets the host has sent.
    pub(super) fn sent(&mut self) -> u64 {
        self.stack.link_mut(self.link).map_or(0, |l| l.driver.sent)
    }

    /// A packet arrives; the host looks.
    pub(super) fn arrives(&mut self, packet: &[u8]) {
        if self.dry {
            return;
        }
        self.now += Duration::from_micros(10);
        offer(&mut self.stack, self.link, packet);
        self.stack.poll(self.now);
    }

    /// Text of the connection: `len` bytes, `offset` behind what comes next.
    pub(super) fn text(&mut self, offset: u32, len: usize) {
        const TEXT: [u8; 1448] = [7; 1448];
        let numbers = (self.seq.wrapping_add(offset), self.ack);
        let text = TEXT.get(..len).unwrap_or(&TEXT);
        let packet = segment(STREAM_PORTS, numbers, Flags::ACK, &Options::NONE, text);
        self.arrives(&packet);
    }

    /// An acknowledgement of the connection, with SACK blocks counted from what it acknowledges.
    pub(super) fn acknowledge(&mut self, advance: u32, blocks: &[(u32, u32)]) {
        self.ack = self.ack.wrapping_add(advance);
        let mut options = Options::NONE;
        for &(left, right) in blocks {
            let at = |n: u32| self.ack.wrapping_add(n);
            options.sack.push(at(left), at(right));
        }
        let numbers = (self.seq, self.ack);
        let packet = segment(STREAM_PORTS, numbers, Flags::ACK, &options, &[]);
        self.arrives(&packet);
    }

    /// Bytes of the connection that are sent and not acknowledged.
    pub(super) fn in_flight(&self) -> u32 {
        let info = self.tcp.and_then(|id| self.stack.tcp_info(id));
        info.map_or(0, |info| info.in_flight)
    }

    /// The application reads what there is; bytes.
    pub(super) fn read(&mut self) -> usize {
        let Some(id) = self.tcp.filter(|_| !self.dry) else {
            return 0;
        };
        let read = self.stack.tcp_recv(self.now, id, &mut self.buffer);
        read.unwrap_or(0)
    }

    /// The application writes as much as is taken.
    pub(super) fn write(&mut self, len: usize) {
        let id = self.tcp.filter(|_| !self.dry);
        if let (Some(id), Some(data)) = (id, self.buffer.get(..len)) {
            let _ = self.stack.tcp_send(self.now, id, data);
            self.stack.flush();
        }
    }

    /// The application reads a datagram.
    pub(super) fn read_datagram(&mut self) {
        if let Some(id) = self.udp.filter(|_| !self.dry) {
            let _ = self.stack.udp_recv_from(id, &mut self.buffer);
        }
    }

    /// A SYN from somewhere else each time.
    pub(super) fn syn(&mut self, number: u32) {
        let options = Options {
            mss: Some(1460),
            ..Options::NONE
        };
        let ports = (PORTS[0], 1024 + (number % 50_000) as u16);
        let mut packet = segment(ports, (number, 0), Flags::SYN, &options, &[]);
        let source = 0xc000_0300 + number / 50_000;
        replace_source(&mut packet, source);
        self.arrives(&packet);
    }
}

fn offer(stack: &mut Stack<Device>, link: LinkId, packet: &[u8]) {
    if let Some(endpoint) = stack.link_mut(link) {
        endpoint.driver.packet.clear();
        endpoint.driver.packet.extend_from_slice(packet);
        endpoint.driver.waits = true;
    }
}

/// A packet from the other to the host.
pub(super) fn packet(
    protocol: IpProtocol,
    (ident, offset, more): (u16, u16, bool),
    payload: &[u8],
) -> Vec<u8> {
    let header = ipv4::Header {
        tos: 0,
        total_len: (ipv4::HEADER_LEN + payload.len()) as u16,
        ident,
        reserved_flag: false,
        dont_fragment: false,
        more_fragments: more,
        fragment_offset: offset,
        ttl: 64,
        protocol,
        src: ADDRESSES[1],
        dst: ADDRESSES[0],
        options: ipv4::OptionReport::default(),
    };
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    let _ = header.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// An Ethernet frame that asks for the host's hardware address.
pub(super) fn question(sender: MacAddr, address: u32) -> Vec<u8> {
    let question = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: sender,
        sender_ip: Ipv4Addr::from(address),
        target_mac: MacAddr([0; 6]),
        target_ip: ADDRESSES[0],
    };
    let header = ethernet::Header {
        dst: MacAddr([0xff; 6]),
        src: sender,
        ethertype: EtherType::ARP,
    };
    let mut bytes = vec![0; ethernet::HEADER_LEN + arp::PACKET_LEN];
    let (head, rest) = bytes.split_at_mut(ethernet::HEADER_LEN);
    let _ = header.emit(head);
    let _ = question.emit(rest);
    bytes
}

/// Another source, and the header's checksum to go with it.
fn replace_source(packet: &mut [u8], source: u32) {
    if let Some(field) = packet.get_mut(12..16) {
        field.copy_from_slice(&source.to_be_bytes());
    }
    if let Some(header) = packet.get_mut(..20) {
        header[10..12].fill(0);
        let sum = gannet_wire::checksum::sum(header).finish();
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A TCP segment to the host, as a packet. (Its checksum was verified by the device.)
fn segment(
    (to, from): (u16, u16),
    (seq, ack): (u32, u32),
    flags: Flags,
    options: &Options,
    text: &[u8],
) -> Vec<u8> {
    let header = tcp::Header {
        src_port: from,
        dst_port: to,
        seq,
        ack,
        reserved: 0,
        flags,
        window: 65_535,
        checksum: 0,
        urgent: 0,
    };
    let mut bytes = vec![0; tcp::HEADER_LEN + options.encoded_len()];
    let _ = header.emit(options, &mut bytes);
    bytes.extend_from_slice(text);
    packet(IpProtocol::TCP, (1, 0, false), &bytes)
}
