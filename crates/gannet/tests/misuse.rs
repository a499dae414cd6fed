//! The same misuse of `std::net` on the kernel's loopback and of this crate on a channel gives the
//! same kind of error. Messages name the address and the cause.

use gannet::Host;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// Two hosts in one process, and addresses on both.
struct World {
    near: Host,
    far: Host,
}

const NEAR: &str = "10.0.0.1:0";
const FAR: &str = "10.0.0.2:0";

impl World {
    fn new(test: &str) -> World {
        let network = format!("misuse-{test}-{}", std::process::id());
        let host = |address| Host::builder().channel(&network, address).build().unwrap();
        World {
            near: host("10.0.0.1/24"),
            far: host("10.0.0.2/24"),
        }
    }

    fn pair(&self) -> (gannet::TcpStream, gannet::TcpStream) {
        let listener = gannet::TcpListener::bind(&self.far, FAR).unwrap();
        let to = listener.local_addr().unwrap();
        let near = gannet::TcpStream::connect(&self.near, to).unwrap();
        (near, listener.accept().unwrap().0)
    }
}

fn kernel_pair() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let near = std::net::TcpStream::connect(to).unwrap();
    (near, listener.accept().unwrap().0)
}

/// A port on which nobody listens.
fn kernel_free_port() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn kind<T>(result: io::Result<T>) -> Result<(), (ErrorKind, String)> {
    match result {
        Ok(_) => Ok(()),
        Err(error) => Err((error.kind(), error.to_string())),
    }
}

/// Compares the two, and looks for `names` in our message.
fn same<T, U>(what: &str, kernel: io::Result<T>, ours: io::Result<U>, names: &[&str]) {
    let (kernel, ours) = (kind(kernel), kind(ours));
    match (&kernel, &ours) {
        (Err((theirs, _)), Err((kind, text))) => {
            assert_eq!(kind, theirs, "{what}: {text}");
            for name in names {
                assert!(text.contains(name), "{what}: {text:?} lacks {name:?}");
            }
        }
        _ => assert!(
            kernel.is_ok() && ours.is_ok(),
            "{what}: {kernel:?}, {ours:?}"
        ),
    }
}

#[test]
fn connecting_and_listening() {
    let world = World::new("connect");
    let nobody = kernel_free_port();
    same(
        "refused",
        std::net::TcpStream::connect(nobody),
        gannet::TcpStream::connect(&world.near, "10.0.0.2:9"),
        &["10.0.0.2:9", "refused"],
    );
    let theirs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = gannet::TcpListener::bind(&world.near, NEAR).unwrap();
    let (at, our_at) = (theirs.local_addr().unwrap(), ours.local_addr().unwrap());
    same(
        "address in use",
        std::net::TcpListener::bind(at),
        gannet::TcpListener::bind(&world.near, our_at),
        &[&our_at.to_string()],
    );
    same(
        "not our address",
        std::net::TcpListener::bind("192.0.2.1:80"),
        gannet::TcpListener::bind(&world.near, "192.0.2.1:80"),
        &["192.0.2.1:80"],
    );
    same(
        "no time-out of zero",
        std::net::TcpStream::connect_timeout(&nobody, Duration::ZERO),
        gannet::TcpStream::connect_timeout(&world.near, &our_at, Duration::ZERO),
        &[],
    );
    for ttl in [0, 7, 256] {
        same("time to live", theirs.set_ttl(ttl), ours.set_ttl(ttl), &[]);
    }
    let _client = gannet::TcpStream::connect(&world.far, our_at).unwrap();
    let inherits = ours.accept().unwrap().0.ttl().unwrap();
    assert_eq!((inherits, theirs.ttl().unwrap()), (7, ours.ttl().unwrap()));
    theirs.set_nonblocking(true).unwrap();
    ours.set_nonblocking(true).unwrap();
    same("nobody to accept", theirs.accept(), ours.accept(), &[]);
    let none: &[SocketAddr] = &[];
    same(
        "no addresses",
        std::net::TcpStream::connect(none),
        gannet::TcpStream::connect(&world.near, none),
        &[],
    );
}

#[test]
fn reading_and_writing() {
    let world = World::new("stream");
    let (mut theirs, their_peer) = kernel_pair();
    let (mut ours, our_peer) = world.pair();
    let to = ours.peer_addr().unwrap().to_string();

    let zero = Some(Duration::ZERO);
    same(
        "read time-out of zero",
        theirs.set_read_timeout(zero),
        ours.set_read_timeout(zero),
        &[],
    );
    for ttl in [0, 1, 255, 256] {
        same("time to live", theirs.set_ttl(ttl), ours.set_ttl(ttl), &[]);
        assert_eq!(theirs.ttl().unwrap(), ours.ttl().unwrap());
    }
    ours.set_tos(0xb8).unwrap();
    assert_eq!(ours.tos().unwrap(), 0xb8);
    theirs.set_nonblocking(true).unwrap();
    ours.set_nonblocking(true).unwrap();
    let (a, b) = (&mut [0; 4], &mut [0; 4]);
    same("nothing to read", theirs.read(a), ours.read(b), &[]);
    same("nothing to peek", theirs.peek(a), ours.peek(b), &[]);
    same("write of nothing", theirs.write(b""), ours.write(b""), &[]);
    theirs.set_nonblocking(false).unwrap();
    ours.set_nonblocking(false).unwrap();
    let wait = Some(Duration::from_millis(10));
    theirs.set_read_timeout(wait).unwrap();
    ours.set_read_timeout(wait).unwrap();
    same("time-out", theirs.read(a), ours.read(b), &[]);

    let how = Shutdown::Write;
    same("shut down", theirs.shutdown(how), ours.shutdown(how), &[]);
    same(
        "write after it",
        theirs.write(b"x"),
        ours.write(b"x"),
        &[&to],
    );
    same(
        "shut down twice",
        theirs.shutdown(how),
        ours.shutdown(how),
        &[],
    );
    // The peers have seen our end before they come to theirs.
    assert_eq!((&their_peer).read(a).unwrap(), 0);
    assert_eq!((&our_peer).read(b).unwrap(), 0);
    drop((their_peer, our_peer));
    theirs.set_read_timeout(None).unwrap();
    ours.set_read_timeout(None).unwrap();
    let (n, m) = (theirs.read(a).unwrap(), ours.read(b).unwrap());
    assert_eq!((n, m), (0, 0), "the end of the stream");
    same(
        "shut down the rest",
        theirs.shutdown(how),
        ours.shutdown(how),
        &[],
    );
}

#[test]
fn a_peer_that_resets() {
    let world = World::new("reset");
    let (mut theirs, their_peer) = kernel_pair();
    let (mut ours, our_peer) = world.pair();
    // Closing with unread bytes resets.
    theirs.write_all(b"unread").unwrap();
    ours.write_all(b"unread").unwrap();
    their_peer.peek(&mut [0]).unwrap();
    our_peer.peek(&mut [0]).unwrap();
    drop((their_peer, our_peer));
    let to = ours.peer_addr().unwrap().to_string();
    let (a, b) = (&mut [0; 4], &mut [0; 4]);
    same("reset", theirs.read(a), ours.read(b), &[&to, "reset"]);
    same("after that the end", theirs.read(a), ours.read(b), &[]);
    same(
        "and no writing",
        theirs.write(b"x"),
        ours.write(b"x"),
        &[&to],
    );
    let both = Shutdown::Both;
    same(
        "nothing to shut",
        theirs.shutdown(both),
        ours.shutdown(both),
        &[],
    );
}

#[test]
fn datagrams() {
    let world = World::new("udp");
    let theirs = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let ours = gannet::UdpSocket::bind(&world.near, NEAR).unwrap();
    let (at, our_at) = (theirs.local_addr().unwrap(), ours.local_addr().unwrap());
    same(
        "address in use",
        std::net::UdpSocket::bind(at),
        gannet::UdpSocket::bind(&world.near, our_at),
        &[&our_at.to_string()],
    );
    same(
        "not our address",
        std::net::UdpSocket::bind("192.0.2.1:0"),
        gannet::UdpSocket::bind(&world.near, "192.0.2.1:0"),
        &["192.0.2.1"],
    );
    assert_eq!(theirs.ttl().unwrap(), ours.ttl().unwrap());
    for ttl in [0, 1, 255, 256] {
        same("time to live", theirs.set_ttl(ttl), ours.set_ttl(ttl), &[]);
        assert_eq!(theirs.ttl().unwrap(), ours.ttl().unwrap());
    }
    ours.set_tos(0xb8).unwrap();
    same("no peer", theirs.send(b"x"), ours.send(b"x"), &[]);
    same("no name of it", theirs.peer_addr(), ours.peer_addr(), &[]);
    let far = gannet::UdpSocket::bind(&world.far, FAR).unwrap();
    let far_at = far.local_addr().unwrap();
    let large = vec![0; 65_508];
    same(
        "too large",
        theirs.send_to(&large, at),
        ours.send_to(&large, far_at),
        &[&far_at.to_string()],
    );
    same(
        "port 0",
        theirs.send_to(b"x", "127.0.0.1:0"),
        ours.send_to(b"x", "10.0.0.2:0"),
        &["10.0.0.2:0"],
    );
    same(
        "a broadcast without leave",
        theirs.send_to(b"x", "255.255.255.255:9"),
        ours.send_to(b"x", "255.255.255.255:9"),
        &["255.255.255.255:9", "try:"],
    );
    theirs.set_nonblocking(true).unwrap();
    ours.set_nonblocking(true).unwrap();
    let (a, b) = (&mut [0; 4], &mut [0; 4]);
    same("nothing to read", theirs.recv(a), ours.recv(b), &[]);

    theirs.set_nonblocking(false).unwrap();
    ours.set_nonblocking(false).unwrap();
    theirs.connect(kernel_free_port()).unwrap();
    drop(far);
    ours.connect(far_at).unwrap();
    theirs.send(b"x").unwrap();
    ours.send(b"x").unwrap();
    same("nobody there", theirs.recv(a), ours.recv(b), &[]);
}

#[test]
fn what_std_has_no_counterpart_for() {
    let world = World::new("ours");
    let (near, _far) = world.pair();
    let none = Host::builder().build().unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidInput);
    assert!(none.to_string().contains("try:"), "{none}");

    let network = format!("misuse-ours-{}", std::process::id());
    let taken = Host::builder().channel(&network, "10.0.0.1/24").build();
    let taken = taken.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse, "{taken}");
    assert!(taken.to_string().contains("10.0.0.1"), "{taken}");

    let six = gannet::TcpStream::connect(&world.near, "[::1]:80").unwrap_err();
    assert_eq!(six.kind(), ErrorKind::ConnectionRefused, "the host itself");
    let six = gannet::TcpStream::connect(&world.near, "[2001:db8::1]:80").unwrap_err();
    assert_eq!(six.kind(), ErrorKind::NetworkUnreachable);

    let block = near.take_block().unwrap();
    let long = block.len() + 1;
    let error = near.send_block(block, long).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = near.send_block(near.take_block().unwrap(), 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);

    let poller = gannet::Poller::new(&world.far);
    let foreign = poller.add(&near, 0, gannet::Interest::READABLE);
    assert_eq!(foreign.unwrap_err().kind(), ErrorKind::InvalidInput);

    let missing = Host::builder().packet("no-such-if0", "10.9.9.9/24").build();
    let text = missing.unwrap_err().to_string();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(
        text.contains("no-such-if0") && text.contains("try:"),
        "{text}"
    );
}
