//! The client in virtual time against a small server of the test's own; robustness U4.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_link::{Endpoint, Frame, Slot};
use gannet_wire::dhcpv4::{self, DhcpOption, Header, MessageType};
use gannet_wire::{EtherType, IpProtocol, MacAddr, arp, ethernet, ipv4, udp};

use super::StateName;
use crate::config::{ClientIdentifier, Config};
use crate::counters::DropReason;
use crate::link::{LinkConfig, LinkId};
use crate::stack::Stack;
use crate::testing::packet::{datagram, frame};
use crate::testing::{Faults, Simulated, Wire, WireConfig, WireDriver};
use crate::udp::UdpError;

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FIRST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);
const SECOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 101);
const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// What the server saw of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    at: Instant,
    kind: MessageType,
    ip: (Ipv4Addr, Ipv4Addr),
    requested: Option<Ipv4Addr>,
    server: Option<Ipv4Addr>,
    identifier: Vec<u8>,
    header: Header,
}

/// A server with one address to give, at the other end of the client's wire.
struct Server {
    end: Endpoint<WireDriver>,
    gives: Ipv4Addr,
    lease: u32,
    silent: bool,
    refuses: bool,
    /// An address that another station on the wire has.
    taken: Option<Ipv4Addr>,
    extra: Vec<DhcpOption<'static>>,
    seen: Vec<Seen>,
}

struct Lan {
    host: Stack<WireDriver>,
    link: LinkId,
    server: Server,
    now: Instant,
}

impl Lan {
    fn new(seed: u64, loss: u32, change: impl FnOnce(&mut Config)) -> Lan {
        let wire = WireConfig {
            faults: Faults {
                loss,
                ..Faults::default()
            },
            ..WireConfig::default()
        };
        let (near, far) = Wire::ends(seed, &wire);
        let mut config = Config::new([7; 16], seed);
        change(&mut config);
        let mut host = Stack::new(config);
        let link = host.add_link(near, LinkConfig::default());
        let server = Server {
            end: far,
            gives: FIRST,
            lease: 3600,
            silent: false,
            refuses: false,
            taken: None,
            extra: vec![
                DhcpOption::Routers(&[192, 0, 2, 1]),
                DhcpOption::DnsServers(&[192, 0, 2, 1, 192, 0, 2, 9]),
                DhcpOption::Mtu(1400),
            ],
            seen: Vec::new(),
        };
        Lan {
            host,
            link,
            server,
            now: Instant::from_millis(1000),
        }
    }

    fn started(seed: u64) -> Lan {
        let mut lan = Lan::new(seed, 0, |_| {});
        assert!(lan.host.dhcp_start(lan.link, None, None));
        lan
    }

    fn bound(seed: u64) -> Lan {
        let mut lan = Lan::started(seed);
        lan.until(StateName::Bound);
        lan
    }

    fn settle(&mut self) {
        for _ in 0..1000 {
            let near = self.host.link_mut(self.link).unwrap();
            near.driver.advance(self.now);
            self.server.end.driver.advance(self.now);
            let mut moved = self.host.poll(self.now);
            moved |= self.server.serve(self.now);
            if !moved && self.next().is_none_or(|at| at > self.now) {
                return;
            }
        }
        panic!("runs in circles");
    }

    fn next(&self) -> Option<Instant> {
        let near = self.host.link(self.link).unwrap();
        let events = [
            self.host.next_timeout(),
            near.driver.next_arrival(),
            self.server.end.driver.next_arrival(),
        ];
        events.into_iter().flatten().min()
    }

    fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.settle();
        while let Some(next) = self.next().filter(|&at| at <= end) {
            self.now = self.now.max(next);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn state(&self) -> StateName {
        self.host.dhcp_state(self.link).unwrap()
    }

    fn until(&mut self, state: StateName) {
        let patience = self.now + Duration::from_secs(40 * 3600);
        self.settle();
        while self.state() != state {
            assert!(self.now < patience, "still {:?}", self.state());
            let next = self.next().expect("something to wait for");
            self.now = self.now.max(next);
            self.settle();
        }
    }

    fn address(&self) -> Option<Ipv4Addr> {
        self.host.dhcp_lease(self.link).map(|lease| lease.address)
    }

    fn kinds(&self) -> Vec<MessageType> {
        self.server.seen.iter().map(|seen| seen.kind).collect()
    }

    /// Seconds between messages of one kind.
    fn gaps(&self, kind: MessageType) -> Vec<f64> {
        let times: Vec<_> = self.server.seen.iter().filter(|s| s.kind == kind).collect();
        let gap = |pair: &[&Seen]| (pair[1].at - pair[0].at).as_secs_f64();
        times.windows(2).map(gap).collect()
    }
}

impl Server {
    /// Whether anything arrived.
    fn serve(&mut self, now: Instant) -> bool {
        self.end.reclaim();
        let (mut received, mut budget) = (Frame::new(), 64);
        let mut any = false;
        while self.end.receive(&mut received, &mut budget) {
            any = true;
            let mut bytes = vec![0; 1600];
            let len = self.end.peek(&received, &mut bytes);
            bytes.truncate(len);
            self.end.release_frame(&received);
            if let Some(answer) = self.answer(now, &bytes) {
                self.send(&answer);
            }
        }
        self.end.flush();
        any
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut slot = Slot::new();
        let (head, rest) = bytes.split_at(bytes.len().min(42));
        slot.inline_mut(head.len()).unwrap().copy_from_slice(head);
        let mut arena = gannet_link::Arena::new();
        if !rest.is_empty() {
            let range = self.end.pool.reserve_whole(&mut arena, rest.len()).unwrap();
            let place = self.end.pool.bytes_mut(range).unwrap();
            place.copy_from_slice(rest);
            assert!(slot.push_range(range));
            self.end.transmit(&slot).unwrap();
            self.end.release(range);
        } else {
            self.end.transmit(&slot).unwrap();
        }
        self.end.pool.close(&mut arena);
    }

    fn answer(&mut self, now: Instant, bytes: &[u8]) -> Option<Vec<u8>> {
        let (link, at) = ethernet::Header::parse(bytes).unwrap();
        if link.ethertype == EtherType::ARP {
            return self.answer_arp(&bytes[at..]);
        }
        if link.ethertype != EtherType::IPV4 {
            return None;
        }
        let (ip, len) = ipv4::Header::parse(&bytes[at..]).unwrap();
        if ip.protocol != IpProtocol::UDP {
            return None;
        }
        let udp_bytes = &bytes[at + len..][..ip.payload_len(len)];
        let (udp, len) = udp::Header::parse(udp_bytes).unwrap();
        assert_eq!((udp.src_port, udp.dst_port), (68, 67));
        assert!(udp.has_checksum());
        let broadcast = ip.dst.is_broadcast();
        assert_eq!(link.dst.is_broadcast(), broadcast, "{link:?} {ip:?}");
        let (header, options) = Header::parse(&udp_bytes[len..]).unwrap();
        assert!(udp_bytes.len() - len >= dhcpv4::MIN_LEN);
        let requested = options.clone().find_map(|option| match option {
            DhcpOption::RequestedAddress(address) => Some(address),
            _ => None,
        });
        let identifier = options.clone().find_map(|option| match option {
            DhcpOption::ClientId(id) => Some(id.to_vec()),
            _ => None,
        });
        let seen = Seen {
            at: now,
            identifier: identifier.expect("in each message"),
            kind: options.message_type().unwrap(),
            ip: (ip.src, ip.dst),
            requested,
            server: options.server_id(),
            header,
        };
        self.seen.push(seen.clone());
        if self.silent {
            return None;
        }
        self.reply(&seen)
    }

    fn reply(&self, seen: &Seen) -> Option<Vec<u8>> {
        let kind = match seen.kind {
            MessageType::DISCOVER => MessageType::OFFER,
            MessageType::REQUEST if self.refuses => MessageType::NAK,
            MessageType::REQUEST => {
                let wanted = seen.requested.unwrap_or(seen.header.ciaddr);
                match wanted == self.gives {
                    true => MessageType::ACK,
                    false => MessageType::NAK,
                }
            }
            _ => return None,
        };
        Some(self.message(kind, seen.header))
    }

    fn message(&self, kind: MessageType, to: Header) -> Vec<u8> {
        let mut options = vec![DhcpOption::MessageType(kind), DhcpOption::ServerId(SERVER)];
        let mut header = Header {
            to_server: false,
            siaddr: SERVER,
            ..to
        };
        if kind != MessageType::NAK {
            header.yiaddr = self.gives;
            options.push(DhcpOption::SubnetMask(Ipv4Addr::new(255, 255, 255, 0)));
            options.push(DhcpOption::LeaseTime(self.lease));
            options.extend(self.extra.iter().copied());
        }
        let mut message = vec![0; 600];
        let len = header.emit(&options, &mut message).unwrap();
        self.wrap(to.ciaddr, &message[..len])
    }

    /// In a frame to the client, by unicast when it has an address.
    fn wrap(&self, client: Ipv4Addr, message: &[u8]) -> Vec<u8> {
        let (to, mac) = match client.is_unspecified() {
            true => (Ipv4Addr::BROADCAST, MacAddr::BROADCAST),
            false => (client, MacAddr([2, 0, 0, 0, 0, 1])),
        };
        let from = SocketAddr::new(SERVER.into(), 67);
        let packet = datagram(from, SocketAddr::new(to.into(), 68), message);
        frame(mac, SERVER_MAC, EtherType::IPV4, &packet)
    }

    fn answer_arp(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (question, _) = arp::Packet::parse(bytes).unwrap();
        let known = question.target_ip == SERVER || Some(question.target_ip) == self.taken;
        if question.operation != arp::Operation::Request || !known {
            return None;
        }
        let answer = arp::Packet {
            operation: arp::Operation::Reply,
            sender_mac: SERVER_MAC,
            sender_ip: question.target_ip,
            target_mac: question.sender_mac,
            target_ip: question.sender_ip,
        };
        let mut bytes = vec![0; 28];
        answer.emit(&mut bytes).unwrap();
        let mac = question.sender_mac;
        Some(frame(mac, SERVER_MAC, EtherType::ARP, &bytes))
    }
}

const DISCOVER: MessageType = MessageType::DISCOVER;
const REQUEST: MessageType = MessageType::REQUEST;

#[test]
fn rfc2131_section_3_1_an_address_is_granted() {
    let mut lan = Lan::bound(1);
    assert_eq!(lan.kinds(), [DISCOVER, REQUEST]);
    let lease = lan.host.dhcp_lease(lan.link).unwrap().clone();
    assert_eq!((lease.address, lease.prefix_len), (FIRST, 24));
    assert_eq!(lease.routers, [SERVER]);
    assert_eq!(lease.dns_servers, [SERVER, Ipv4Addr::new(192, 0, 2, 9)]);
    assert_eq!((lease.mtu, lease.server), (Some(1400), SERVER));
    assert!(lan.host.is_local(FIRST.into()));

    let [discover, request] = &lan.server.seen[..] else {
        panic!()
    };
    for seen in [discover, request] {
        assert_eq!(seen.ip, (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
        assert!(seen.header.broadcast && seen.header.to_server);
        assert!(seen.header.ciaddr.is_unspecified());
        assert_eq!(seen.header.xid, discover.header.xid);
        assert_eq!(seen.header.secs, discover.header.secs);
    }
    assert_eq!((discover.requested, discover.server), (None, None));
    assert_eq!(
        (request.requested, request.server),
        (Some(FIRST), Some(SERVER))
    );

    // The router and the MTU are in use: a datagram to far away goes to the server's station.
    let socket = lan.host.udp_bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let far = Some("198.51.100.1:9".parse().unwrap());
    let too_long = lan.host.udp_send_to(lan.now, socket, &[0; 1373], far);
    let fits = lan.host.udp_send_to(lan.now, socket, &[0; 1372], far);
    assert_eq!(fits, Ok(1372));
    assert!(too_long.is_err() || too_long == Ok(1373), "{too_long:?}");
    assert_eq!(lan.host.drops().total(), 0);
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
//= type=test
//# The retransmission delay SHOULD be doubled with subsequent retransmissions up to a maximum of
//# 64 seconds.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
//= type=test
//# The client MUST adopt a retransmission strategy that incorporates a randomized exponential
//# backoff algorithm to determine the delay between retransmissions.
#[test]
fn rfc2131_section_4_1_silence_and_back_off() {
    let mut other = Vec::new();
    for seed in [2, 3] {
        let mut lan = Lan::started(seed);
        lan.server.silent = true;
        lan.pass(Duration::from_secs(300));
        let gaps = lan.gaps(DISCOVER);
        let expected = [4.0, 8.0, 16.0, 32.0, 64.0, 64.0, 64.0];
        assert!(gaps.len() >= 6, "{gaps:?}");
        for (gap, expected) in gaps.iter().zip(expected) {
            assert!((gap - expected).abs() <= 1.001, "{gaps:?}");
        }
        assert_ne!(gaps, other, "not random");
        other = gaps;
        let secs = lan.server.seen.last().unwrap().header.secs;
        assert!(secs >= 180, "{secs}");
        lan.server.silent = false;
        lan.until(StateName::Bound);
    }
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
//= type=test
//# The client should choose to retransmit the DHCPREQUEST enough times to give adequate
//# probability of contacting the server without causing the client (and the user of that client)
//# to wait overly long before giving up;
#[test]
fn rfc2131_section_3_1_a_request_without_answer_is_given_up() {
    let mut lan = Lan::started(4);
    lan.settle();
    lan.pass(Duration::from_micros(120));
    assert_eq!(lan.state(), StateName::Requesting);
    lan.server.silent = true;
    lan.pass(Duration::from_secs(70));
    let kinds = lan.kinds();
    assert_eq!(kinds[..5], [DISCOVER, REQUEST, REQUEST, REQUEST, REQUEST]);
    assert!(kinds[5..].iter().all(|k| *k == DISCOVER) && kinds.len() > 5);
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
//= type=test
//# If the client detects that the address is already in use (e.g., through the use of ARP), the
//# client MUST send a DHCPDECLINE message to the server and restarts the configuration process.
//= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
//= type=test
//# The client SHOULD wait a minimum of ten seconds before restarting the configuration process to
//# avoid excessive network traffic in case of looping.
//= https://www.rfc-editor.org/rfc/rfc2131#section-3.2
//= type=test
//# If the client detects that the IP address in the DHCPACK message is already in use, the client
//# MUST send a DHCPDECLINE message to the server and restarts the configuration process by
//# requesting a new network address.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.1
//= type=test
//# If the network address appears to be in use, the client MUST send a DHCPDECLINE message to the
//# server.
#[test]
fn rfc2131_section_3_1_an_address_in_use_is_declined() {
    let mut lan = Lan::started(5);
    lan.server.taken = Some(FIRST);
    lan.pass(Duration::from_secs(5));
    assert_eq!(lan.kinds(), [DISCOVER, REQUEST, MessageType::DECLINE]);
    let decline = lan.server.seen.last().unwrap();
    assert_eq!(
        (decline.requested, decline.server),
        (Some(FIRST), Some(SERVER))
    );
    assert!(decline.header.ciaddr.is_unspecified());
    assert_eq!(lan.address(), None);
    assert!(!lan.host.is_local(FIRST.into()));
    let declined = decline.at;
    lan.server.gives = SECOND;
    lan.until(StateName::Bound);
    let discover = &lan.server.seen[3];
    assert_eq!(discover.kind, DISCOVER);
    assert!(discover.at - declined >= Duration::from_secs(10));
    assert_eq!(lan.address(), Some(SECOND));
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
//= type=test
//# DHCP clients MUST use the IP address provided in the 'server identifier' option for any unicast
//# requests to the DHCP server.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
//= type=test
//# The client MUST NOT include a 'server identifier' in the DHCPREQUEST message.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
//= type=test
//# The client MUST NOT include a 'server identifier' in the DHCPREQUEST message.
#[test]
fn rfc2131_section_4_4_5_renewing() {
    let mut lan = Lan::bound(6);
    lan.server.seen.clear();
    let before = lan.host.dhcp_lease(lan.link).unwrap().clone();
    lan.pass(Duration::from_secs(1900));
    let [renewal] = &lan.server.seen[..] else {
        panic!("{:?}", lan.server.seen);
    };
    assert_eq!(renewal.ip, (FIRST, SERVER));
    assert_eq!(renewal.header.ciaddr, FIRST);
    assert_eq!((renewal.requested, renewal.server), (None, None));
    assert!(!renewal.header.broadcast);
    let after = lan.host.dhcp_lease(lan.link).unwrap();
    assert!(after.expires_at > before.expires_at);
    assert_eq!(lan.state(), StateName::Bound);
    assert!(lan.host.is_local(FIRST.into()));
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
//= type=test
//# In both RENEWING and REBINDING states, if the client receives no response to its DHCPREQUEST
//# message, the client SHOULD wait one-half of the remaining time until T2 (in RENEWING state) and
//# one-half of the remaining lease time (in REBINDING state), down to a minimum of 60 seconds,
//# before retransmitting the DHCPREQUEST message.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
//= type=test
//# If the lease expires before the client receives a DHCPACK, the client moves to INIT state, MUST
//# immediately stop any other network processing and requests network initialization parameters as
//# if the client were uninitialized.
#[test]
fn rfc2131_section_4_4_5_rebinding_and_expiry() {
    let mut lan = Lan::bound(7);
    let lease = lan.host.dhcp_lease(lan.link).unwrap().clone();
    lan.server.seen.clear();
    lan.server.silent = true;
    lan.until(StateName::Rebinding);
    assert_eq!(lan.now, lease.rebind_at);
    lan.until(StateName::Selecting);
    assert_eq!(lan.now, lease.expires_at);
    assert_eq!(lan.address(), None);
    assert!(!lan.host.is_local(FIRST.into()));
    let socket = lan.host.udp_bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let gone = lan
        .host
        .udp_send_to(lan.now, socket, b"x", Some("192.0.2.1:9".parse().unwrap()));
    assert_eq!(gone, Err(UdpError::NoRoute));

    let seen = &lan.server.seen;
    let renewals = seen.iter().filter(|s| s.at < lease.rebind_at);
    let rebindings = seen
        .iter()
        .filter(|s| s.at >= lease.rebind_at && s.at < lease.expires_at);
    assert!(renewals.clone().all(|s| s.ip == (FIRST, SERVER)));
    assert!(
        rebindings
            .clone()
            .all(|s| s.ip == (FIRST, Ipv4Addr::BROADCAST))
    );
    assert!(renewals.count() >= 3 && rebindings.count() >= 2, "{seen:?}");
    for pair in seen.windows(2).filter(|p| p[1].at < lease.rebind_at) {
        let (gap, left) = (pair[1].at - pair[0].at, lease.rebind_at - pair[0].at);
        assert!(gap >= Duration::from_secs(60) && gap >= left / 2 - Duration::from_millis(1));
    }
    lan.server.silent = false;
    lan.server.gives = SECOND;
    lan.until(StateName::Bound);
    assert_eq!(lan.address(), Some(SECOND));
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
//= type=test
//# If the client is given a new network address, it MUST NOT continue using the previous network
//# address and SHOULD notify the local users of the problem.
#[test]
fn a_refusal_takes_the_address_away() {
    let mut lan = Lan::bound(8);
    lan.server.refuses = true;
    lan.until(StateName::Init);
    assert_eq!(lan.address(), None);
    assert!(!lan.host.is_local(FIRST.into()));
    lan.server.refuses = false;
    lan.server.gives = SECOND;
    lan.until(StateName::Bound);
    assert_eq!(lan.address(), Some(SECOND));
    assert!(lan.host.is_local(SECOND.into()) && !lan.host.is_local(FIRST.into()));
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.2
//= type=test
//# The client MUST insert its known network address as a 'requested IP address' option in the
//# DHCPREQUEST message.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.2
//= type=test
//# The client MUST NOT include a 'server identifier' in the DHCPREQUEST message.
//= https://www.rfc-editor.org/rfc/rfc2131#section-3.2
//= type=test
//# As the client has not received its network address, it MUST NOT fill in the 'ciaddr' field.
#[test]
fn rfc2131_section_3_2_the_address_from_before() {
    let mut lan = Lan::new(9, 0, |_| {});
    assert!(lan.host.dhcp_start(lan.link, Some(FIRST), None));
    lan.until(StateName::Bound);
    let [request] = &lan.server.seen[..] else {
        panic!("{:?}", lan.server.seen);
    };
    assert_eq!((request.kind, request.requested), (REQUEST, Some(FIRST)));
    assert_eq!(request.server, None);
    assert!(request.header.ciaddr.is_unspecified());
    // On another network it is refused, and the long way leads to another.
    let mut lan = Lan::new(9, 0, |_| {});
    lan.server.gives = SECOND;
    assert!(lan.host.dhcp_start(lan.link, Some(FIRST), None));
    lan.until(StateName::Bound);
    assert_eq!(lan.kinds(), [REQUEST, DISCOVER, REQUEST]);
    assert_eq!(lan.address(), Some(SECOND));
}

//= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
//= type=test
//# If the client used a 'client identifier' when it obtained the lease, it MUST use the same
//# 'client identifier' in the DHCPRELEASE message.
#[test]
fn rfc2131_section_4_4_6_release() {
    let mut lan = Lan::bound(10);
    let now = lan.now;
    assert!(lan.host.dhcp_release(now, lan.link));
    lan.pass(Duration::from_secs(100));
    let last = lan.server.seen.last().unwrap();
    assert_eq!(
        (last.kind, last.ip),
        (MessageType::RELEASE, (FIRST, SERVER))
    );
    assert_eq!((last.header.ciaddr, last.server), (FIRST, Some(SERVER)));
    assert_eq!((lan.state(), lan.address()), (StateName::Released, None));
    assert!(!lan.host.is_local(FIRST.into()));
    assert_eq!(lan.host.next_timeout(), None);
}

#[test]
fn a_lossy_wire_only_takes_longer() {
    for seed in 20..60 {
        let mut lan = Lan::new(seed, 300_000, |_| {});
        lan.server.lease = 600;
        assert!(lan.host.dhcp_start(lan.link, None, None));
        lan.until(StateName::Bound);
        // Renewed for a day; without loss it would be 288 times.
        lan.pass(Duration::from_secs(24 * 3600));
        let count = lan.gaps(REQUEST).len();
        assert!((200..900).contains(&count), "seed {seed}: {count} requests");
        lan.until(StateName::Bound);
        assert_eq!(lan.address(), Some(FIRST), "seed {seed}");
        lan.host.link(lan.link).unwrap().pool.invariants();
    }
}

#[test]
fn u4_what_is_not_for_us_or_no_message_changes_nothing() {
    let mut lan = Lan::started(11);
    lan.server.silent = true;
    lan.settle();
    lan.pass(Duration::from_micros(60));
    let discover = lan.server.seen[0].header;
    let good = lan.server.message(MessageType::OFFER, discover);
    let spoiled = |lan: &Lan, change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = good[42..].to_vec();
        change(&mut message);
        lan.server.wrap(Ipv4Addr::UNSPECIFIED, &message)
    };
    type Change = dyn Fn(&mut Vec<u8>);
    let unexpected: [&Change; 6] = [
        &|m| m[4] ^= 1,                   // another transaction
        &|m| m[28] ^= 1,                  // another client
        &|m| m[0] = 1,                    // to a server
        &|m| m[242] = MessageType::ACK.0, // nothing was asked for
        &|m| m[242] = MessageType::NAK.0,
        &|m| m[242] = MessageType::RELEASE.0,
    ];
    let malformed: [&Change; 7] = [
        &|m| m.truncate(239),
        &|m| m.truncate(0),
        &|m| m[236] = 0,
        &|m| m[241] = 255,        // an option beyond the message
        &|m| m[240] = 99,         // no message type
        &|m| m[243] = 99,         // no server
        &|m| m[16..20].fill(255), // no address of a host
    ];
    for (changes, reason) in [
        (&unexpected[..], DropReason::DhcpUnexpected),
        (&malformed[..], DropReason::DhcpMalformed),
    ] {
        for (number, change) in changes.iter().enumerate() {
            let before = lan.host.drops().get(reason);
            let bytes = spoiled(&lan, change);
            lan.server.send(&bytes);
            lan.pass(Duration::from_millis(1));
            assert_eq!(
                lan.host.drops().get(reason),
                before + 1,
                "{reason:?} {number}"
            );
            assert_eq!(lan.state(), StateName::Selecting, "{reason:?} {number}");
        }
    }
    let mut bad_sum = good.clone();
    bad_sum[100] ^= 1;
    lan.server.send(&bad_sum);
    lan.pass(Duration::from_millis(1));
    assert_eq!(lan.host.drops().get(DropReason::UdpChecksum), 1);
    lan.server.send(&good);
    lan.pass(Duration::from_millis(1));
    assert_eq!(lan.state(), StateName::Requesting);
    // Acknowledged by a server that was not asked.
    let mut ack = lan.server.message(MessageType::ACK, discover);
    let at = 42 + 240 + 3 + 2;
    assert_eq!(ack[at..at + 4], SERVER.octets());
    ack[at + 3] = 77;
    ack[40..42].fill(0); // no checksum
    lan.server.send(&ack);
    lan.pass(Duration::from_millis(1));
    assert_eq!(lan.state(), StateName::Requesting);
}

#[test]
fn impossible_times_and_masks_are_not_believed() {
    // (T1, T2) that are not in order, of a lease of 1000 s.
    for (t1, t2) in [
        (2000, 3000),
        (900, 100),
        (0, 0),
        (999, 1000),
        (u32::MAX, u32::MAX),
    ] {
        let mut lan = Lan::new(12, 0, |_| {});
        lan.server.lease = 1000;
        lan.server.extra = vec![
            DhcpOption::RenewalTime(t1),
            DhcpOption::RebindingTime(t2),
            DhcpOption::SubnetMask(Ipv4Addr::new(255, 0, 255, 0)),
        ];
        assert!(lan.host.dhcp_start(lan.link, None, None));
        lan.until(StateName::Bound);
        let lease = lan.host.dhcp_lease(lan.link).unwrap();
        assert!(lease.renew_at <= lease.rebind_at, "{t1} {t2}");
        assert!(lease.rebind_at < lease.expires_at, "{t1} {t2}");
        assert_eq!(lease.prefix_len, 24, "by its class");
        assert!(lease.routers.is_empty());
    }
    let mut lan = Lan::new(13, 0, |_| {});
    lan.server.lease = u32::MAX;
    assert!(lan.host.dhcp_start(lan.link, None, None));
    lan.until(StateName::Bound);
    lan.pass(Duration::from_secs(10));
    assert_eq!(lan.host.next_timeout(), None, "for ever");
}

#[test]
fn a_link_that_goes_takes_its_client_with_it() {
    let mut lan = Lan::bound(14);
    let now = lan.now;
    let end = lan.host.remove_link(now, lan.link).unwrap();
    end.pool.invariants();
    assert_eq!(lan.host.dhcp_state(lan.link), None);
    assert_eq!(lan.host.next_timeout(), None);
}

const IDENTIFIER: ClientIdentifier = ClientIdentifier {
    iaid: 0x0102_0304,
    uuid: [7; 16],
};

#[test]
fn rfc4361_section_6_1_the_identifier_is_in_every_message() {
    let mut lan = Lan::new(1, 0, |_| {});
    assert!(lan.host.dhcp_start(lan.link, None, Some(IDENTIFIER)));
    lan.until(StateName::Bound);
    lan.until(StateName::Renewing);
    lan.pass(Duration::from_secs(1));
    lan.host.dhcp_release(lan.now, lan.link);
    lan.pass(Duration::from_secs(1));
    assert_eq!(
        lan.kinds(),
        [DISCOVER, REQUEST, REQUEST, MessageType::RELEASE]
    );
    let mut expected = vec![255, 1, 2, 3, 4, 0, 4];
    expected.extend([7; 16]);
    for seen in &lan.server.seen {
        assert_eq!(seen.identifier, expected);
        assert_eq!(seen.header.chaddr, MacAddr([2, 0, 0, 0, 0, 1]));
    }
    // Without one: the hardware address.
    let lan = Lan::bound(1);
    assert_eq!(lan.server.seen[0].identifier, [1, 2, 0, 0, 0, 0, 1]);
}

#[test]
fn an_address_that_this_machine_has_is_not_taken() {
    let mut lan = Lan::new(1, 0, |config| config.dhcp.is_taken = |ip| ip == FIRST);
    assert!(lan.host.dhcp_start(lan.link, None, Some(IDENTIFIER)));
    lan.pass(Duration::from_secs(1));
    assert!(!lan.host.is_local(FIRST.into()));
    assert!(lan.kinds().iter().all(|kind| *kind == DISCOVER));
    // The server is asked again as by another station, which it may give another address.
    let own = MacAddr(IDENTIFIER.hardware_address());
    let last = lan.server.seen.last().unwrap();
    assert_eq!((last.header.chaddr, last.header.broadcast), (own, true));
    assert!(
        own.is_unicast() && own.0[0] & 2 == 2,
        "locally administered"
    );
    lan.server.gives = SECOND;
    lan.until(StateName::Bound);
    assert_eq!(lan.address(), Some(SECOND));
}
