//! One stack, and the tests as its peer: they craft every segment it gets and see every segment it
//! sends. Sequence numbers are relative: 0 is the SYN of whoever sent it, 1 the first byte.

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_link::{Checksum, Endpoint, Medium};
use gannet_wire::checksum::{pseudo_v4, sum};
use gannet_wire::ipv4::{self, IpProtocol};
use gannet_wire::tcp::{self, Flags, Options};

use crate::tcp::{ListenerId, RecvError, Shutdown, TcpEvent, TcpId, TcpState};
use crate::testing::packet::four;
use crate::testing::{A, B, Simulated, Wire, WireConfig, WireDriver};
use crate::{Config, LinkAddress, LinkConfig, LinkId, Stack};

pub(super) const ACK: Flags = Flags::ACK;
pub(super) const SYN: Flags = Flags::SYN;
pub(super) const FIN: Flags = Flags::FIN;
pub(super) const RST: Flags = Flags::RST;
pub(super) const URG: Flags = Flags::URG;
pub(super) const PSH: Flags = Flags::PSH;

/// A segment, numbers relative to the SYNs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seg {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: Options,
    pub(super) payload: Vec<u8>,
}

/// A segment without payload and options, window 65,535.
pub(super) fn seg(flags: Flags, seq: u32, ack: u32) -> Seg {
    Seg {
        seq,
        ack,
        flags,
        window: 65_535,
        urgent: 0,
        options: Options::NONE,
        payload: Vec::new(),
    }
}

impl Seg {
    pub(super) fn window(mut self, window: u16) -> Self {
        self.window = window;
        self
    }

    pub(super) fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    pub(super) fn stamp(mut self, value: u32, echo: u32) -> Self {
        self.options.timestamps = Some((value, echo));
        self
    }

    pub(super) fn urgent(mut self, pointer: u16) -> Self {
        self.flags |= URG;
        self.urgent = pointer;
        self
    }

    pub(super) fn text(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    pub(super) fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        for &(left, right) in blocks {
            self.options.sack.push(left, right);
        }
        self
    }

    /// Payload length.
    pub(super) fn len(&self) -> u32 {
        self.payload.len() as u32
    }

    /// Flags, seq, ack and payload length: what most tables compare.
    pub(super) fn brief(&self) -> (Flags, u32, u32, u32) {
        (self.flags, self.seq, self.ack, self.len())
    }
}

/// The options of a SYN that offers everything.
pub(super) fn all_options() -> Options {
    Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((5000, 0)),
        ..Options::NONE
    }
}

/// Only an MSS.
pub(super) fn mss_only(mss: u16) -> Options {
    Options {
        mss: Some(mss),
        ..Options::NONE
    }
}

/// MSS and SACK.
pub(super) fn with_sack() -> Options {
    Options {
        mss: Some(1460),
        sack_permitted: true,
        ..Options::NONE
    }
}

/// The stack under test and what its peer knows.
pub(super) struct Peer {
    pub(super) host: Stack<WireDriver>,
    pub(super) link: LinkId,
    pub(super) now: Instant,
    /// The stack's end.
    pub(super) at: SocketAddr,
    /// Our end.
    pub(super) me: SocketAddr,
    /// Our initial sequence number.
    pub(super) iss: u32,
    /// The stack's, once seen.
    pub(super) irs: u32,
    pub(super) id: Option<TcpId>,
    pub(super) listener: Option<ListenerId>,
    _other: Endpoint<WireDriver>,
}

/// A bare IP link on which the stack makes checksums.
pub(super) fn wire() -> WireConfig {
    WireConfig {
        medium: Medium::Ip,
        checksum: Checksum::Software,
        delay: Duration::ZERO,
        blocks: (16 * 1024, 128),
        ..WireConfig::default()
    }
}

impl Peer {
    pub(super) fn new() -> Self {
        Self::with(&wire(), |_| {})
    }

    pub(super) fn with(wire: &WireConfig, change: impl Fn(&mut Config)) -> Self {
        let (left, right) = Wire::ends(1, wire);
        let mut config = Config::new([1; 16], 1);
        change(&mut config);
        let mut host = Stack::new(config);
        let addresses = [LinkAddress {
            address: A,
            prefix_len: 24,
        }];
        let link = host.add_link(
            left,
            LinkConfig {
                addresses: addresses.into(),
                peer: None,
                ..LinkConfig::default()
            },
        );
        if let Some(endpoint) = host.link_mut(link) {
            endpoint.driver.record();
        }
        Peer {
            host,
            link,
            now: Instant::from_millis(1000),
            at: SocketAddr::new(A, 80),
            me: SocketAddr::new(B, 4000),
            iss: 0x7000_0000,
            irs: 0,
            id: None,
            listener: None,
            _other: right,
        }
    }

    /// The connection.
    pub(super) fn id(&self) -> TcpId {
        self.id.expect("a connection")
    }

    pub(super) fn state(&self) -> TcpState {
        let status = self.id.and_then(|id| self.host.tcp_status(id));
        status.map_or(TcpState::Closed, |s| s.state)
    }

    pub(super) fn count(&self, event: TcpEvent) -> u64 {
        self.host.tcp_counters().get(event)
    }

    /// The bytes of a packet with this segment.
    pub(super) fn packet(&self, s: &Seg) -> Vec<u8> {
        let header = tcp::Header {
            src_port: self.me.port(),
            dst_port: self.at.port(),
            seq: s.seq.wrapping_add(self.iss),
            ack: match s.flags.contains(ACK) {
                true => s.ack.wrapping_add(self.irs),
                false => s.ack,
            },
            reserved: 0,
            flags: s.flags,
            window: s.window,
            checksum: 0,
            urgent: s.urgent,
        };
        let mut options = s.options;
        if !s.options.sack.is_empty() {
            let blocks = s.options.sack.as_slice().iter();
            options.sack = blocks
                .map(|&(l, r)| (l.wrapping_add(self.irs), r.wrapping_add(self.irs)))
                .collect();
        }
        let mut bytes = std::vec![0; tcp::HEADER_LEN + options.encoded_len()];
        header.emit(&options, &mut bytes).expect("room");
        bytes.extend_from_slice(&s.payload);
        self.finish(bytes)
    }

    /// Checksum and IP header for a TCP segment of any bytes.
    pub(super) fn finish(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let (from, to) = (four(self.me.ip()), four(self.at.ip()));
        if bytes.len() >= 18 {
            bytes[16..18].fill(0);
            let pseudo = pseudo_v4(from, to, IpProtocol::TCP, bytes.len() as u16);
            let checksum = sum(&bytes).combine(pseudo, false).finish();
            bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        }
        let mut packet = std::vec![0; ipv4::HEADER_LEN];
        let header = ipv4::Header {
            tos: 0,
            total_len: (ipv4::HEADER_LEN + bytes.len()) as u16,
            ident: 1,
            reserved_flag: false,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: IpProtocol::TCP,
            src: from,
            dst: to,
            options: ipv4::OptionReport::default(),
        };
        header.emit(&mut packet).expect("20 bytes");
        packet.extend_from_slice(&bytes);
        packet
    }

    /// Hands over a packet of any bytes; what the stack sends.
    pub(super) fn raw(&mut self, packet: &[u8]) -> Vec<Seg> {
        self.inject(packet);
        self.poll()
    }

    /// Puts a packet on the wire; it arrives with the next poll.
    pub(super) fn inject(&mut self, packet: &[u8]) {
        let now = self.now;
        let endpoint = self.host.link_mut(self.link).expect("the link");
        endpoint.driver.advance(now);
        endpoint.driver.inject(packet);
    }

    /// A segment arrives; what the stack sends.
    pub(super) fn send(&mut self, s: &Seg) -> Vec<Seg> {
        let packet = self.packet(s);
        self.raw(&packet)
    }

    /// As [`Peer::send`], flags, seq, ack and length only.
    pub(super) fn brief(&mut self, s: &Seg) -> Vec<(Flags, u32, u32, u32)> {
        self.send(s).iter().map(Seg::brief).collect()
    }

    /// Polls; what the stack sends.
    pub(super) fn poll(&mut self) -> Vec<Seg> {
        let now = self.now;
        if let Some(endpoint) = self.host.link_mut(self.link) {
            endpoint.driver.advance(now);
        }
        while self.host.poll(now) {}
        self.host.check_tcp();
        self.sent()
    }

    /// What the stack has sent since the last look.
    pub(super) fn sent(&mut self) -> Vec<Seg> {
        let Some(endpoint) = self.host.link_mut(self.link) else {
            return Vec::new();
        };
        let frames = endpoint.driver.recorded();
        frames.iter().map(|f| self.parse(f)).collect()
    }

    fn parse(&mut self, frame: &[u8]) -> Seg {
        let bytes = &frame[20..];
        let ip = ipv4::Header::parse(frame).expect("a packet").0;
        let pseudo = pseudo_v4(ip.src, ip.dst, IpProtocol::TCP, bytes.len() as u16);
        let total = sum(bytes).combine(pseudo, false).finish();
        assert_eq!(total, 0, "the checksum of what was sent is right");
        let (header, len) = tcp::Header::parse(bytes).expect("a header");
        if header.flags.contains(SYN) {
            self.irs = header.seq;
        }
        self.at.set_port(header.src_port);
        let mut options = Options::parse(tcp::options(bytes, len));
        if !options.sack.is_empty() {
            let blocks = options.sack;
            let blocks = blocks.as_slice().iter();
            options.sack = blocks
                .map(|&(l, r)| (l.wrapping_sub(self.iss), r.wrapping_sub(self.iss)))
                .collect();
        }
        Seg {
            seq: header.seq.wrapping_sub(self.irs),
            ack: match header.flags.contains(ACK) {
                true => header.ack.wrapping_sub(self.iss),
                false => header.ack,
            },
            flags: header.flags,
            window: header.window,
            urgent: header.urgent,
            options,
            payload: bytes[len..].to_vec(),
        }
    }

    /// Time passes; what the stack sends and when.
    pub(super) fn pass(&mut self, time: Duration) -> Vec<(Duration, Seg)> {
        let start = self.now;
        let end = start + time;
        let mut out = Vec::new();
        let mut steps = 0;
        while let Some(at) = self.host.next_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            let after = self.now.saturating_duration_since(start);
            out.extend(self.poll().into_iter().map(|s| (after, s)));
            steps += 1;
            assert!(steps < 100_000, "runs in circles");
        }
        self.now = end;
        out.extend(self.poll().into_iter().map(|s| (time, s)));
        out
    }

    pub(super) fn pass_ms(&mut self, ms: u64) -> Vec<(Duration, Seg)> {
        self.pass(Duration::from_millis(ms))
    }

    /// The stack connects: SYN-SENT. Returns its SYN.
    pub(super) fn connect(&mut self) -> Seg {
        let id = self.host.tcp_connect(self.now, None, self.me);
        self.id = Some(id.expect("a route"));
        let syn = self.poll().pop().expect("a SYN");
        assert_eq!(syn.flags, SYN);
        syn
    }

    /// An open connection that the stack began.
    pub(super) fn active(options: Options) -> Self {
        let mut peer = Peer::new();
        peer.open(options);
        peer
    }

    /// The stack connects and we answer with `options`.
    pub(super) fn open(&mut self, options: Options) {
        let syn = self.connect();
        let mut options = options;
        if let Some((_, echo)) = &mut options.timestamps {
            *echo = syn.options.timestamps.expect("offered").0;
        }
        let out = self.send(&seg(SYN | ACK, 0, 1).options(options));
        assert_eq!(out.len(), 1, "the ACK of our SYN");
        assert_eq!(self.state(), TcpState::Established);
    }

    /// The stack listens on port 80.
    pub(super) fn listen(&mut self, backlog: usize) {
        let at = SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 80);
        self.listener = Some(self.host.tcp_listen(at, backlog).expect("free"));
    }

    /// An open connection that we began, accepted.
    pub(super) fn passive(options: Options) -> Self {
        let mut peer = Peer::new();
        peer.listen(8);
        let out = peer.send(&seg(SYN, 0, 0).options(options));
        assert_eq!(out[0].flags, SYN | ACK);
        let mut ack = seg(ACK, 1, 1);
        if let Some((value, _)) = options.timestamps {
            let echo = out[0].options.timestamps.expect("answered").0;
            ack = ack.stamp(value, echo);
        }
        peer.send(&ack);
        peer.accept();
        peer
    }

    pub(super) fn accept(&mut self) {
        self.id = self.host.tcp_accept(self.listener.expect("a listener"));
        assert!(self.id.is_some(), "a connection to accept");
    }

    /// The application writes; what is sent.
    pub(super) fn write(&mut self, data: &[u8]) -> Vec<Seg> {
        let (now, id) = (self.now, self.id());
        let n = self.host.tcp_send(now, id, data).expect("room");
        assert_eq!(n, data.len());
        self.poll()
    }

    /// The application reads what there is.
    pub(super) fn read(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.host.tcp_recv(self.now, self.id(), &mut buffer) {
                Ok(0) | Err(RecvError::WouldBlock) => return out,
                Ok(n) => out.extend_from_slice(&buffer[..n]),
                Err(e) => panic!("{e:?} after {} bytes", out.len()),
            }
        }
    }

    /// The application will write no more; what is sent.
    pub(super) fn shutdown(&mut self) -> Vec<Seg> {
        let (now, id) = (self.now, self.id());
        let done = self.host.tcp_shutdown(now, id, Shutdown::Write);
        done.expect("open");
        self.poll()
    }

    /// The application lets go; what is sent.
    pub(super) fn close(&mut self) -> Vec<Seg> {
        self.host.tcp_close(self.now, self.id());
        self.poll()
    }

    /// Every block is free but the one that small payloads are gathered in.
    pub(super) fn assert_memory_is_back(&self) {
        let pool = &self.host.link(self.link).expect("the link").pool;
        pool.invariants();
        assert!(
            pool.free_blocks() + 1 >= pool.blocks(),
            "{} of {}",
            pool.free_blocks(),
            pool.blocks()
        );
    }

    /// A connection in any state but CLOSED and LISTEN, with no option but an MSS. In every state
    /// our next sequence number and the acknowledgement of everything the stack sent are returned.
    pub(super) fn in_state(state: TcpState) -> (Self, u32, u32) {
        let mut p = match state {
            TcpState::SynSent => {
                let mut p = Peer::new();
                p.connect();
                return (p, 0, 1);
            }
            TcpState::SynReceived => {
                let mut p = Peer::new();
                p.connect();
                p.send(&seg(SYN, 0, 0).options(mss_only(1460)));
                return (p, 1, 1);
            }
            _ => Peer::active(mss_only(1460)),
        };
        let next = match state {
            TcpState::Established => (1, 1),
            TcpState::FinWait1 => {
                p.shutdown();
                (1, 2)
            }
            TcpState::FinWait2 => {
                p.shutdown();
                p.send(&seg(ACK, 1, 2));
                (1, 2)
            }
            TcpState::CloseWait => {
                p.send(&seg(FIN | ACK, 1, 1));
                (2, 1)
            }
            TcpState::Closing => {
                p.shutdown();
                p.send(&seg(FIN | ACK, 1, 1));
                (2, 2)
            }
            TcpState::LastAck => {
                p.send(&seg(FIN | ACK, 1, 1));
                p.shutdown();
                (2, 2)
            }
            TcpState::TimeWait => {
                p.shutdown();
                p.send(&seg(FIN | ACK, 1, 2));
                (2, 2)
            }
            _ => unreachable!("no such state here"),
        };
        assert_eq!(p.state(), state);
        (p, next.0, next.1)
    }
}

/// Every state of [`Peer::in_state`].
pub(super) const STATES: [TcpState; 9] = [
    TcpState::SynSent,
    TcpState::SynReceived,
    TcpState::Established,
    TcpState::FinWait1,
    TcpState::FinWait2,
    TcpState::CloseWait,
    TcpState::Closing,
    TcpState::LastAck,
    TcpState::TimeWait,
];
