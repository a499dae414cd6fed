//! Path MTU discovery (RFC 1191) through two routers of the kernel's, with less between them:
//! Gannet, 1500, first router, 1000, second router, 1500, the kernel.

use crate::lan::{GANNET, Namespace, PATIENCE, not_root, veth, wait};
use crate::stream::{drain, pour};
use gannet::{Host, PathMtuDiscovery, TcpStream, UdpSocket, os_code};
use std::net::{Shutdown, TcpListener};
use std::thread::scope;

const FAR: &str = "10.92.0.1";
/// IPv4, TCP, and time stamps.
const HEADERS: u32 = 20 + 20 + 12;

struct Path {
    host: Host,
    far: Namespace,
    _between: [Namespace; 3],
}

fn path() -> Path {
    let [near, first, second, far] = [(); 4].map(|()| Namespace::new());
    veth((&near, "near"), (&first, "left1"), 1500);
    veth((&first, "right1"), (&second, "left2"), 1000);
    veth((&second, "right2"), (&far, "far"), 1500);
    for (namespace, lines) in [
        (
            &first,
            [
                "addr add 10.90.0.1/24 dev left1",
                "addr add 10.91.0.1/24 dev right1",
                "route add default via 10.91.0.2",
            ],
        ),
        (
            &second,
            [
                "addr add 10.91.0.2/24 dev left2",
                "addr add 10.92.0.2/24 dev right2",
                "route add default via 10.91.0.1",
            ],
        ),
    ] {
        lines.into_iter().for_each(|line| namespace.ip(line));
        assert!(namespace.set("ipv4/ip_forward", "1"));
    }
    far.ip(&format!("addr add {FAR}/24 dev far"));
    far.ip("route add default via 10.92.0.2");
    let own = format!("{GANNET}/24");
    let builder = Host::builder().packet("near", &own).gateway("10.90.0.1");
    let host = near.run(|| builder.build().unwrap());
    Path {
        host,
        far,
        _between: [near, first, second],
    }
}

#[test]
fn a_stream_finds_the_smaller_mtu() {
    if not_root() {
        return;
    }
    let path = path();
    let listener = path.far.run(|| TcpListener::bind((FAR, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let mut ours = TcpStream::connect(&path.host, address).unwrap();
    let (mut theirs, _) = listener.accept().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(ours.info().unwrap().send_mss, 1500 - HEADERS);
    let len = 16 << 20;
    scope(|threads| {
        let received = threads.spawn(|| drain(&mut theirs, 1));
        let sent = pour(&mut ours, len, 1);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(received.join().unwrap(), sent);
    });
    let info = ours.info().unwrap();
    assert_eq!(info.send_mss, 1000 - HEADERS, "{info:?}");
    // The kernel has to find it, too.
    scope(|threads| {
        let received = threads.spawn(|| drain(&mut ours, 2));
        let sent = pour(&mut theirs, len, 2);
        theirs.shutdown(Shutdown::Write).unwrap();
        assert_eq!(received.join().unwrap(), sent);
    });
    // What was learnt holds for the next connection.
    let again = TcpStream::connect(&path.host, address).unwrap();
    assert_eq!(again.info().unwrap().send_mss, 1000 - HEADERS);
}

/// A datagram that is too large and must not be cut is lost; then the path's MTU is known, and the
/// sender is told.
#[test]
fn a_datagram_finds_the_smaller_mtu() {
    if not_root() {
        return;
    }
    let path = path();
    let theirs = path
        .far
        .run(|| std::net::UdpSocket::bind((FAR, 0)).unwrap());
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    let ours = UdpSocket::bind(&path.host, (GANNET, 0)).unwrap();
    ours.connect(theirs.local_addr().unwrap()).unwrap();
    ours.set_path_mtu_discovery(PathMtuDiscovery::Do).unwrap();
    ours.send(&[1; 900]).unwrap();
    let mut buffer = [0; 2048];
    assert_eq!(theirs.recv(&mut buffer).unwrap(), 900);
    let mut told = None;
    wait("an error", || {
        told = ours.send(&[2; 1400]).err();
        told.is_some()
    });
    let error = told.unwrap();
    assert_eq!(os_code(&error), Some(90), "EMSGSIZE: {error}");
    ours.send(&[3; 1000 - 28]).unwrap();
    assert_eq!(theirs.recv(&mut buffer).unwrap(), 1000 - 28);
}
