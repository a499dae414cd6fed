//! A host that talks to itself: by its own addresses and by 127.0.0.1, without any wire.

use gannet::{Host, TcpListener, TcpStream, UdpSocket};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Longest wait for anything; reached only when something is broken.
const PATIENCE: Duration = Duration::from_secs(30);

fn host(test: &str) -> Host {
    let network = format!("loopback-{test}-{}", std::process::id());
    let builder = Host::builder().channel(&network, "10.0.0.1/24");
    builder.build().unwrap()
}

fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}

#[test]
fn a_listener_and_its_client_in_one_host() {
    for address in ["127.0.0.1:80", "10.0.0.1:80"] {
        let host = host("stream");
        let listener = TcpListener::bind(&host, address).unwrap();
        let data: Vec<u8> = (0..8_000_000u32).map(|i| (i / 11) as u8).collect();
        std::thread::scope(|threads| {
            // Asleep in accept, then in read, while the other thread is the one that calls.
            threads.spawn(|| {
                let (mut stream, from) = listener.accept().unwrap();
                assert_eq!(from.ip(), address.parse::<SocketAddr>().unwrap().ip());
                patient(&stream);
                let mut got = vec![0; data.len()];
                stream.read_exact(&mut got).unwrap();
                assert!(got == data);
                stream.write_all(b"all of it").unwrap();
            });
            std::thread::sleep(Duration::from_millis(20));
            let mut stream = TcpStream::connect(&host, address).unwrap();
            patient(&stream);
            std::thread::sleep(Duration::from_millis(20));
            stream.write_all(&data).unwrap();
            let mut answer = [0; 9];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"all of it");
        });
    }
}

#[test]
fn round_trips_between_two_threads_that_sleep() {
    let host = host("turns");
    let listener = TcpListener::bind(&host, "127.0.0.1:80").unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            patient(&stream);
            let mut byte = [0];
            while stream.read(&mut byte).unwrap() == 1 {
                stream.write_all(&byte).unwrap();
            }
        });
        let mut stream = TcpStream::connect(&host, "127.0.0.1:80").unwrap();
        patient(&stream);
        for turn in 0..500u32 {
            if turn % 100 == 0 {
                std::thread::sleep(Duration::from_millis(30));
            }
            let mut back = [0];
            stream.write_all(&[turn as u8]).unwrap();
            stream.read_exact(&mut back).unwrap();
            assert_eq!(back[0], turn as u8);
        }
    });
}

#[test]
fn datagrams_and_refusals() {
    let host = host("datagrams");
    let server = UdpSocket::bind(&host, "0.0.0.0:53").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    for to in ["127.0.0.1:53", "127.3.2.1:53", "10.0.0.1:53"] {
        let client = UdpSocket::bind(&host, "0.0.0.0:0").unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let data = vec![7; 65_507];
        client.send_to(&data, to).unwrap();
        let mut buffer = vec![0; 65_536];
        let (n, from) = server.recv_from(&mut buffer).unwrap();
        assert!(buffer[..n] == data[..], "{to}");
        server.send_to(b"back", from).unwrap();
        assert_eq!(client.recv(&mut buffer).unwrap(), 4);
    }
    let client = UdpSocket::bind(&host, "0.0.0.0:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect("127.0.0.1:54").unwrap();
    client.send(b"anybody?").unwrap();
    let error = client.recv(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    let error = TcpStream::connect(&host, "127.0.0.1:81").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
}

#[test]
fn one_thread_may_do_it_all() {
    let host = host("alone");
    let listener = TcpListener::bind(&host, "127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let mut near = TcpStream::connect(&host, to).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    patient(&far);
    near.write_all(b"to myself").unwrap();
    let mut got = [0; 9];
    far.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"to myself");
    drop(near);
    assert_eq!(far.read(&mut got).unwrap(), 0);
}

/// On `::` for IPv6 alone, and beside it on 0.0.0.0 (IPV6_V6ONLY); several on one port, if all of
/// them say so.
#[test]
fn ports_that_are_shared() {
    let host = host("shared");
    let _six = TcpListener::bind_only_v6(&host, "[::]:80").unwrap();
    let _four = TcpListener::bind(&host, "0.0.0.0:80").unwrap();
    let _both = TcpListener::bind(&host, "[::]:81").unwrap();
    let taken = TcpListener::bind(&host, "0.0.0.0:81").unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);

    let _six = UdpSocket::bind_only_v6(&host, "[::]:80").unwrap();
    let _four = UdpSocket::bind(&host, "0.0.0.0:80").unwrap();
    let taken = UdpSocket::bind_shared(&host, "0.0.0.0:80").unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    let _one = UdpSocket::bind_shared(&host, "0.0.0.0:5353").unwrap();
    let _two = UdpSocket::bind_shared(&host, "0.0.0.0:5353").unwrap();
    let taken = UdpSocket::bind(&host, "0.0.0.0:5353").unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
}
