//! Connections that are opened without waiting, from a port of one's choice, or with a short queue.

use gannet::{
    ChannelOptions, Connect, Event, Host, Interest, ListenOptions, Poller, TcpListener, TcpStream,
};
use gannet_drivers::channel::{Directory, Listener};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Longest wait for anything; reached only when something is broken.
const PATIENCE: Duration = Duration::from_secs(30);

fn network(test: &str) -> String {
    format!("connect-{test}-{}", std::process::id())
}

fn hosts(test: &str) -> (Host, Host) {
    let network = network(test);
    let host = |address| Host::builder().channel(&network, address).build().unwrap();
    (host("10.0.0.1/24"), host("10.0.0.2/24"))
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The first thing that is told of `stream`.
fn outcome(host: &Host, stream: &TcpStream) -> Event {
    let poller = Poller::new(host);
    poller.add(stream, 7, Interest::WRITABLE).unwrap();
    let mut events = Vec::new();
    assert_eq!(poller.wait(&mut events, Some(PATIENCE)).unwrap(), 1);
    events[0]
}

#[test]
fn begun_and_open_later() {
    let (server, client) = hosts("later");
    let listener = TcpListener::bind(&server, "10.0.0.1:80").unwrap();
    // Nobody has talked to the server yet: the first of these needs a channel, the others wait too.
    let begun: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect_nonblocking(&client, &at("10.0.0.1:80")).unwrap())
        .collect();
    assert_eq!(begun[0].local_addr().unwrap().ip(), at("10.0.0.2:0").ip());
    for mut stream in begun {
        let event = outcome(&client, &stream);
        assert!(event.writable && !event.failed, "{event:?}");
        assert!(!stream.is_connecting() && stream.take_error().unwrap().is_none());
        let mut buffer = [0; 5];
        let nothing = stream.read(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        stream.write_all(b"hello").unwrap();
        let (mut far, from) = listener.accept().unwrap();
        assert_eq!(from, stream.local_addr().unwrap());
        far.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"hello");
    }
}

#[test]
fn both_begin_at_once() {
    for _ in 0..10 {
        let (one, two) = hosts("both");
        let listeners = [
            TcpListener::bind(&one, "10.0.0.1:80").unwrap(),
            TcpListener::bind(&two, "10.0.0.2:80").unwrap(),
        ];
        let from_one = TcpStream::connect_nonblocking(&one, &at("10.0.0.2:80")).unwrap();
        let from_two = TcpStream::connect_nonblocking(&two, &at("10.0.0.1:80")).unwrap();
        for (host, stream, listener) in [
            (&one, from_one, &listeners[1]),
            (&two, from_two, &listeners[0]),
        ] {
            let event = outcome(host, &stream);
            assert!(event.writable && !event.failed, "{event:?}");
            (&stream).write_all(b"hello").unwrap();
            let mut text = [0; 5];
            listener.accept().unwrap().0.read_exact(&mut text).unwrap();
            assert_eq!(&text, b"hello");
        }
    }
}

#[test]
fn calls_on_a_connection_that_is_not_open_yet() {
    let (server, client) = hosts("early");
    let listener = TcpListener::bind(&server, "10.0.0.1:80").unwrap();
    let mut near = TcpStream::connect_nonblocking(&client, &at("10.0.0.1:80")).unwrap();
    let mut byte = [0];
    assert_eq!(
        near.read(&mut byte).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    // Made to wait, they wait for the connection, too.
    near.set_nonblocking(false).unwrap();
    near.set_write_timeout(Some(PATIENCE)).unwrap();
    near.write_all(b"x").unwrap();
    let (mut far, _) = listener.accept().unwrap();
    assert_eq!(far.read(&mut byte).unwrap(), 1);
}

#[test]
fn a_refusal_is_told_later() {
    let (_server, client) = hosts("refused");
    let stream = TcpStream::connect_nonblocking(&client, &at("10.0.0.1:81")).unwrap();
    let event = outcome(&client, &stream);
    assert!(event.failed && event.writable, "{event:?}");
    let error = stream.take_error().unwrap().expect("it failed");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert!(stream.take_error().unwrap().is_none());
}

#[test]
fn what_is_known_at_once() {
    let (_server, client) = hosts("at-once");
    let begin = |to| TcpStream::connect_nonblocking(&client, &at(to)).unwrap_err();
    assert_eq!(begin("10.0.0.9:80").kind(), ErrorKind::HostUnreachable);
    assert_eq!(begin("192.0.2.1:80").kind(), ErrorKind::NetworkUnreachable);
    assert_eq!(client.connections(), 0);
}

#[test]
fn a_process_that_does_not_answer_costs_no_waiting() {
    let network = network("silent");
    let options = ChannelOptions {
        handshake_timeout: Duration::from_millis(100),
        ..ChannelOptions::default()
    };
    // Has the name and never looks who knocks.
    let directory = Directory::open(&network).unwrap();
    let _silent = Listener::bind(&directory, "10.0.0.9", &options).unwrap();
    let client = Host::builder().channel(&network, "10.0.0.2/24");
    let client = client.channel_options(options).build().unwrap();
    let begin = || TcpStream::connect_nonblocking(&client, &at("10.0.0.9:80")).unwrap();
    let (stream, given_up) = (begin(), begin());
    drop(given_up);
    // A call that waits for the same channel hears the same.
    let waited = TcpStream::connect(&client, "10.0.0.9:80").unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::TimedOut, "{waited}");
    assert!(outcome(&client, &stream).failed);
    let error = stream.take_error().unwrap().expect("it failed");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(stream);
    assert_eq!(client.connections(), 0);
}

#[test]
fn a_port_of_ones_choice() {
    let (server, client) = hosts("from");
    let listener = TcpListener::bind(&server, "10.0.0.1:80").unwrap();
    let from = at("0.0.0.0:4000");
    let near = TcpStream::connect_from(&client, from, "10.0.0.1:80").unwrap();
    let (far, seen) = listener.accept().unwrap();
    assert_eq!(seen, at("10.0.0.2:4000"));
    assert_eq!(near.local_addr().unwrap(), seen);

    // The very connection exists; another peer's port does not mind.
    let taken = TcpStream::connect_from(&client, from, "10.0.0.1:80").unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrNotAvailable);
    let refused = TcpStream::connect_from(&client, from, "10.0.0.1:81").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let foreign = Connect::new(&client).from(at("10.0.0.7:0"));
    let foreign = foreign.begin(at("10.0.0.1:80")).unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::AddrNotAvailable);
    let never = Connect::new(&client).timeout(Duration::ZERO);
    let never = never.to("10.0.0.1:80").unwrap_err();
    assert_eq!(never.kind(), ErrorKind::InvalidInput);

    // A listener's port is free again although its connections are in TIME-WAIT.
    drop((far, near, listener));
    TcpListener::bind(&server, "10.0.0.1:80").unwrap();
}

#[test]
fn a_queue_of_one() {
    let (server, client) = hosts("backlog");
    let short = ListenOptions {
        backlog: 1,
        ..ListenOptions::default()
    };
    let listener = TcpListener::bind_with(&server, "10.0.0.1:0", short).unwrap();
    listener.set_nonblocking(true).unwrap();
    let to = listener.local_addr().unwrap();
    let incoming = Poller::new(&server);
    incoming.add(&listener, 1, Interest::READABLE).unwrap();
    let mut events = Vec::new();
    assert_eq!(incoming.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);

    let first = TcpStream::connect(&client, to).unwrap();
    let second = TcpStream::connect_nonblocking(&client, &to).unwrap();
    assert_eq!(incoming.wait(&mut events, Some(PATIENCE)).unwrap(), 1);
    assert!(events[0].readable);
    std::thread::sleep(Duration::from_millis(50));
    assert!(second.is_connecting(), "there is no room for it");

    let from = listener.accept().unwrap().1;
    assert_eq!(from, first.local_addr().unwrap());
    assert!(outcome(&client, &second).writable);
    assert_eq!(incoming.wait(&mut events, Some(PATIENCE)).unwrap(), 1);
    assert_eq!(listener.accept().unwrap().1, second.local_addr().unwrap());
    let none = listener.accept().unwrap_err();
    assert_eq!(none.kind(), ErrorKind::WouldBlock);
}

#[test]
fn bounded_events_take_turns() {
    let (server, client) = hosts("turns");
    let listener = TcpListener::bind(&server, "10.0.0.1:80").unwrap();
    let poller = Poller::new(&server);
    let mut pairs = Vec::new();
    for token in 0..5 {
        let mut near = TcpStream::connect(&client, "10.0.0.1:80").unwrap();
        let (far, _) = listener.accept().unwrap();
        poller.add(&far, token, Interest::READABLE).unwrap();
        near.write_all(b"x").unwrap();
        pairs.push((near, far));
    }
    let mut events = Vec::new();
    while poller.wait(&mut events, Some(PATIENCE)).unwrap() < pairs.len() {}
    // All are ready and stay so: each is told of once in any five.
    for _ in 0..3 {
        let mut told = Vec::new();
        while told.len() < pairs.len() {
            let found = poller.wait_for_some(&mut events, 1, Some(PATIENCE));
            assert_eq!(found.unwrap(), 1);
            told.push(events[0].token);
        }
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn pieces_of_a_gathering_write_leave_together() {
    let (server, client) = hosts("gathered");
    let listener = TcpListener::bind(&server, "10.0.0.1:80").unwrap();
    let mut near = TcpStream::connect(&client, "10.0.0.1:80").unwrap();
    let (far, _) = listener.accept().unwrap();
    let pieces = [
        IoSlice::new(b"head"),
        IoSlice::new(b""),
        IoSlice::new(b"body"),
    ];
    let before = near.info().unwrap().segments_sent;
    assert_eq!(near.write_vectored(&pieces).unwrap(), 8);
    let mut text = [0; 16];
    assert_eq!(far.peek(&mut text).unwrap(), 8);
    assert_eq!(near.info().unwrap().segments_sent, before + 1);
}
