//! IPv6 autoconfiguration (RFC 4861, RFC 4862) with the kernel as router: a socket on its side
//! says what a router's daemon says, its stack forwards.

use crate::lan::{Namespace, PATIENCE, not_root, veth, wait};
use crate::stream::{drain, pour};
use gannet::{Host, TcpListener, TcpStream};
use gannet_drivers::interface::Interface;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
use rustix::net::{recvfrom, sendto, socket};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddrV6};
use std::thread::scope;

/// The kernel's address in the prefix that it advertises.
const KERNEL: &str = "2001:db8:90::1";
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x90, 0, 0, 0, 0, 0);
/// Another, on its loopback: behind the router.
const BEYOND: &str = "2001:db8:91::1";
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const HOUR: u32 = 3600;

const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;

/// A socket for ICMPv6 on the kernel's side; the kernel sets the checksum.
struct Router {
    socket: OwnedFd,
    interface: Interface,
}

impl Router {
    fn open(kernel: &Namespace) -> Router {
        let (socket, interface) = kernel.run(|| {
            let icmp = Some(ipproto::ICMPV6);
            let socket = socket(AddressFamily::INET6, SocketType::RAW, icmp).unwrap();
            (socket, Interface::open("far").unwrap())
        });
        sockopt::set_ipv6_multicast_hops(&socket, 255).unwrap();
        let patience = Some(PATIENCE);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, patience).unwrap();
        Router { socket, interface }
    }

    fn send(&self, to: Ipv6Addr, message: &[u8]) {
        let index = u32::try_from(self.interface.index().unwrap()).unwrap();
        let to = SocketAddrV6::new(to, 0, 0, index);
        sendto(&self.socket, message, SendFlags::empty(), &to).unwrap();
    }

    /// Waits for a message of the type: where from, and what.
    fn receive(&self, kind: u8) -> (Ipv6Addr, Vec<u8>) {
        let mut buffer = [0; 2048];
        loop {
            let (len, _, from) = recvfrom(&self.socket, &mut buffer, RecvFlags::empty()).unwrap();
            if buffer[..len].first() == Some(&kind) {
                let from = SocketAddrV6::try_from(from.unwrap()).unwrap();
                return (*from.ip(), buffer[..len].to_vec());
            }
        }
    }

    /// To all: the prefix is on the link and to make addresses of; this is a router for so many
    /// seconds.
    fn advertise(&self, router_lifetime: u16) {
        let mut message = vec![ADVERTISEMENT, 0, 0, 0, 64, 0];
        message.extend(router_lifetime.to_be_bytes());
        message.extend([0; 8]);
        message.extend([1, 1]); // source link-layer address
        message.extend(self.interface.hardware_address().unwrap());
        message.extend([3, 4, 64, 0xc0]); // prefix information: /64, L and A
        message.extend(HOUR.to_be_bytes());
        message.extend(HOUR.to_be_bytes());
        message.extend([0; 4]);
        message.extend(PREFIX.octets());
        self.send(ALL_NODES, &message);
    }
}

/// The kernel as router, and a host on its link that has no address of IPv6 but the link's own.
fn link() -> (Router, Host, [Namespace; 2]) {
    let (near, kernel) = (Namespace::new(), Namespace::new());
    veth((&near, "near"), (&kernel, "far"), 1500);
    assert!(kernel.set("ipv6/conf/all/forwarding", "1"));
    for (variable, value) in [
        ("accept_dad", "0"),
        ("disable_ipv6", "0"),
        ("forwarding", "1"),
    ] {
        assert!(kernel.set(&format!("ipv6/conf/far/{variable}"), value));
    }
    assert!(kernel.set("ipv6/conf/lo/disable_ipv6", "0"));
    kernel.ip(&format!("addr add {KERNEL}/64 dev far nodad"));
    kernel.ip(&format!("addr add {BEYOND}/128 dev lo"));
    let router = Router::open(&kernel);
    let builder = Host::builder().packet("near", "10.90.0.2/24").autoconf();
    let host = near.run(|| builder.build().unwrap());
    (router, host, [near, kernel])
}

/// The host's address in the advertised prefix.
fn formed(host: &Host) -> Option<Ipv6Addr> {
    host.addresses().into_iter().find_map(|own| match own {
        IpAddr::V6(own) if own.segments()[..4] == PREFIX.segments()[..4] => Some(own),
        _ => None,
    })
}

/// Bytes each way, one after the other.
fn there_and_back(mut ours: TcpStream, mut theirs: std::net::TcpStream) {
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    let len = 1 << 20;
    scope(|threads| {
        let received = threads.spawn(|| drain(&mut theirs, 1));
        let sent = pour(&mut ours, len, 1);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(received.join().unwrap(), sent);
    });
    scope(|threads| {
        let received = threads.spawn(|| drain(&mut ours, 2));
        let sent = pour(&mut theirs, len, 2);
        theirs.shutdown(Shutdown::Write).unwrap();
        assert_eq!(received.join().unwrap(), sent);
    });
}

#[test]
fn a_router_that_advertises_gives_an_address_and_leads_beyond() {
    if not_root() {
        return;
    }
    let (router, host, [_near, kernel]) = link();
    let (from, _) = router.receive(SOLICITATION);
    assert!(from.is_unicast_link_local() || from.is_unspecified());
    let listener = kernel.run(|| std::net::TcpListener::bind((BEYOND, 0)).unwrap());
    let beyond = listener.local_addr().unwrap();
    assert_eq!(formed(&host), None);
    let error = TcpStream::connect(&host, beyond).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");

    router.advertise(1800);
    wait("an address in the prefix", || formed(&host).is_some());
    let own = formed(&host).unwrap();
    // the kernel asks for it: an echo, and a connection
    let mut echo = vec![ECHO_REQUEST, 0, 0, 0, 0x12, 0x34, 0, 1];
    echo.extend([7; 1000]);
    router.send(own, &echo);
    let (from, reply) = router.receive(ECHO_REPLY);
    assert_eq!((from, &reply[4..]), (own, &echo[4..]));
    let ours = TcpListener::bind(&host, (own, 80)).unwrap();
    let theirs = kernel.run(|| std::net::TcpStream::connect((own, 80)).unwrap());
    let (accepted, peer) = ours.accept().unwrap();
    assert_eq!(peer.ip().to_string(), KERNEL);
    there_and_back(accepted, theirs);

    // an address that no prefix on the link has: by the router
    let opened = TcpStream::connect(&host, beyond).unwrap();
    assert_eq!(opened.local_addr().unwrap().ip(), IpAddr::V6(own));
    there_and_back(opened, listener.accept().unwrap().0);

    // it says that it is no router any more; the address stays
    router.advertise(0);
    wait("the end of the route", || {
        let error = TcpStream::connect(&host, beyond).err();
        error.is_some_and(|error| error.kind() == ErrorKind::NetworkUnreachable)
    });
    assert_eq!(formed(&host), Some(own));
    let mut theirs = kernel.run(|| std::net::TcpStream::connect((own, 80)).unwrap());
    let (mut accepted, _) = ours.accept().unwrap();
    theirs.write_all(b"still here").unwrap();
    let mut got = [0; 10];
    accepted.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
}
