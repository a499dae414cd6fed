//! IPv6 with the kernel: streams each way, datagrams, echoes, neighbours.

use crate::lan::{Join, Lan, PATIENCE, not_root, wait};
use crate::stream::{drain, pour};
use gannet::{TcpListener, TcpStream, UdpSocket};
use std::net::{Shutdown, SocketAddr};
use std::process::Command;
use std::thread::scope;

const KERNEL: &str = "fd00:90::1";
const GANNET: &str = "fd00:90::2";
/// Bytes of each stream.
const LEN: u64 = 64 << 20;

/// A link with both families on it.
fn lan(join: Join) -> Lan {
    let lan = Lan::with(join, 1500, |builder| {
        builder.address(&format!("{GANNET}/64")).autoconf()
    });
    assert!(lan.kernel.set("ipv6/conf/far/disable_ipv6", "0"));
    lan.kernel
        .ip(&format!("addr add {KERNEL}/64 dev far nodad"));
    lan
}

/// `len` bytes from one end to the other, hashed on both.
fn stream(
    mut from: impl std::io::Write + Send,
    to: impl std::io::Read + Send,
    end: impl FnOnce() + Send,
) {
    scope(|threads| {
        let mut to = to;
        let received = threads.spawn(move || drain(&mut to, 6));
        let sent = pour(&mut from, LEN, 6);
        end();
        assert_eq!(received.join().unwrap(), sent);
        assert_eq!(sent.len, LEN);
    });
}

#[test]
fn streams_each_way() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = lan(join);
        // Gannet opens, and sends
        let listener = lan
            .kernel
            .run(|| std::net::TcpListener::bind((KERNEL, 0)).unwrap());
        let ours = TcpStream::connect(&lan.host, listener.local_addr().unwrap()).unwrap();
        let (theirs, from) = listener.accept().unwrap();
        assert_eq!(from, ours.local_addr().unwrap());
        theirs.set_read_timeout(Some(PATIENCE)).unwrap();
        let end = || ours.shutdown(Shutdown::Write).unwrap();
        stream(ours.try_clone().unwrap(), theirs, end);
        // the kernel opens, and sends; the listener takes both families
        let listener = TcpListener::bind(&lan.host, "[::]:81").unwrap();
        for (address, mapped) in [(GANNET, false), (crate::lan::GANNET, true)] {
            let theirs = lan
                .kernel
                .run(|| std::net::TcpStream::connect((address, 81)).unwrap());
            let (ours, peer) = listener.accept().unwrap();
            let SocketAddr::V6(peer) = peer else {
                panic!("a socket of IPv6 sees addresses of IPv6, not {peer}");
            };
            assert_eq!(peer.ip().to_ipv4_mapped().is_some(), mapped);
            let end = || theirs.shutdown(Shutdown::Write).unwrap();
            stream(theirs.try_clone().unwrap(), ours, end);
        }
    }
}

#[test]
fn datagrams_and_echoes() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = lan(join);
        let theirs = lan
            .kernel
            .run(|| std::net::UdpSocket::bind((KERNEL, 0)).unwrap());
        theirs.set_read_timeout(Some(PATIENCE)).unwrap();
        let ours = UdpSocket::bind(&lan.host, (GANNET, 53)).unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 70_000];
        for len in [0, 1, 1452, 1453, 20_000, 65_000] {
            let data = vec![len as u8; len];
            let to = theirs.local_addr().unwrap();
            assert_eq!(ours.send_to(&data, to).unwrap(), len);
            let (n, from) = theirs.recv_from(&mut buffer).unwrap();
            assert!(buffer[..n] == data, "{len} bytes to the kernel, {join:?}");
            theirs.send_to(&data, from).unwrap();
            let (n, from) = ours.recv_from(&mut buffer).unwrap();
            assert!(buffer[..n] == data, "{len} bytes back, {join:?}");
            assert_eq!(from, to);
        }
        // nobody's port: the error comes back to the connected socket, both ways
        theirs.connect((GANNET, 9)).unwrap();
        theirs.send(b"x").unwrap();
        let refused = theirs.recv(&mut buffer).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        ours.connect((KERNEL, 9)).unwrap();
        ours.send(b"x").unwrap();
        let refused = ours.recv(&mut buffer).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        // echoes, as long as may be
        for size in ["56", "1400", "20000"] {
            let name = &lan.kernel.name;
            let ping = Command::new("ip")
                .args(["netns", "exec", name, "ping", "-6", "-c", "2", "-i", "0.2"])
                .args(["-W", "5", "-s", size, GANNET])
                .output();
            match ping {
                Ok(ping) if ping.status.success() => {}
                Ok(ping) => {
                    let missing = String::from_utf8_lossy(&ping.stderr).contains("No such file");
                    assert!(missing, "{size} bytes: {ping:?}");
                    println!("no ping here; echoes are tried in virtual time");
                }
                Err(error) => panic!("{error}"),
            }
        }
        // the kernel knows our station
        wait("the kernel's entry", || {
            let shown = Command::new("ip")
                .args(["-n", &lan.kernel.name, "-6", "neigh", "show", GANNET])
                .output()
                .unwrap();
            String::from_utf8_lossy(&shown.stdout).contains("lladdr")
        });
    }
}
