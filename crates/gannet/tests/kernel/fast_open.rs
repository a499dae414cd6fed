//! TCP Fast Open with the kernel (RFC 7413), both ways.

use crate::lan::{GANNET, Join, Lan, PATIENCE, not_root};
use gannet::{FastOpenConfig, TcpConfig, TcpStream as Ours};
use rustix::net::{AddressFamily, SendFlags, SocketType, sendto, socket};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as Theirs};

/// `MSG_FASTOPEN` of Linux: connects with data.
const CONNECT: SendFlags = SendFlags::from_bits_retain(0x2000_0000);

/// Client and server on, and for listeners that did not ask (0x400).
const ON: &str = "1027";

fn lan() -> Option<Lan> {
    if not_root() {
        return None;
    }
    let lan = Lan::with(Join::Veth, 1500, |builder| {
        builder.tcp(TcpConfig {
            fast_open: FastOpenConfig {
                client: true,
                ..FastOpenConfig::default()
            },
            ..TcpConfig::default()
        })
    });
    if !lan.kernel.set("ipv4/tcp_fastopen", ON) {
        println!("skipped: this kernel has no TCP Fast Open");
        return None;
    }
    Some(lan)
}

/// A count of the kernel's `TcpExt`.
fn count(lan: &Lan, name: &str) -> u64 {
    let file = "/proc/thread-self/net/netstat";
    let text = lan.kernel.run(|| std::fs::read_to_string(file).unwrap());
    let mut lines = text.lines().filter(|l| l.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    let found = both.find(|(n, _)| *n == name);
    found.unwrap().1.parse().unwrap()
}

/// Gannet opens with data; the kernel takes it from the second time on.
#[test]
fn the_kernel_takes_our_data() {
    let Some(lan) = lan() else {
        return;
    };
    let (listener, address) = lan.kernel_listener();
    // more than goes with a SYN: the rest follows
    let request = vec![b'?'; 5000];
    for time in 0..3 {
        let mut ours = Ours::connect_with_data(&lan.host, address.as_str(), &request).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        theirs.set_read_timeout(Some(PATIENCE)).unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = vec![0; request.len()];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(got, request);
        theirs.write_all(b"yes").unwrap();
        let mut answer = [0; 3];
        ours.read_exact(&mut answer).unwrap();
        assert_eq!(count(&lan, "TCPFastOpenPassive"), time);
    }
    assert_eq!(count(&lan, "TCPFastOpenPassiveFail"), 0);
}

/// The kernel opens with data; Gannet takes it from the second time on.
#[test]
fn we_take_the_data_of_the_kernel() {
    let Some(lan) = lan() else {
        return;
    };
    let listener = lan.gannet_listener(80);
    listener.set_fast_open(16).unwrap();
    let to: SocketAddr = format!("{GANNET}:80").parse().unwrap();
    for time in 0..3 {
        let theirs = lan.kernel.run(|| {
            let kind = SocketType::STREAM;
            let socket = socket(AddressFamily::INET, kind, None).unwrap();
            let sent = sendto(&socket, b"GET /", CONNECT, &to).unwrap();
            assert_eq!(sent, 5);
            socket
        });
        let mut theirs = Theirs::from(theirs);
        theirs.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut ours, _) = listener.accept().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = [0; 5];
        ours.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"GET /");
        ours.write_all(b"200").unwrap();
        let mut answer = [0; 3];
        theirs.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"200");
        drop(ours);
        assert_eq!(theirs.read(&mut answer).unwrap(), 0);
        assert_eq!(count(&lan, "TCPFastOpenActive"), time);
    }
}
