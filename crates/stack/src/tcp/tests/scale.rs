//! A million idle connections in one process: what each takes.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::time::Instant;

use gannet_link::{Layout, NoDoorbell, PeerDriver};

use crate::tcp::{ListenerId, TcpEvent, TcpId};
use crate::testing::{B, Pair};

type Hosts = Pair<PeerDriver<NoDoorbell>>;

/// Connections: the figure of the mark in release code.
const CONNECTIONS: usize = if cfg!(debug_assertions) {
    20_000
} else {
    1_000_000
};
/// Made at a time.
const BATCH: usize = 1000;
/// Connections of one of the server's ports.
const PER_PORT: usize = 50_000;

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split_whitespace().nth(1).expect("the second field");
    pages.parse::<usize>().expect("a number") * 4096
}

fn connect(pair: &mut Hosts, n: usize) -> TcpId {
    let port = 10_000 + (n % PER_PORT) as u16;
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let to = SocketAddr::new(B, 1 + (n / PER_PORT) as u16);
    let connected = pair
        .a
        .tcp_connect(pair.now, Some(SocketAddr::new(any, port)), to);
    connected.expect("room")
}

/// Until what found the link full has left as well.
fn wait(pair: &mut Hosts) {
    pair.pass(Duration::from_millis(50));
}

/// Accepts, and lets each connection carry a question and its answer.
fn talk(pair: &mut Hosts, listener: ListenerId, clients: &[TcpId]) -> usize {
    let mut buffer = [0; 64];
    for &id in clients {
        assert_eq!(pair.a.tcp_send(pair.now, id, b"question"), Ok(8));
    }
    wait(pair);
    let mut accepted = 0;
    while let Some(id) = pair.b.tcp_accept(listener) {
        assert_eq!(pair.b.tcp_recv(pair.now, id, &mut buffer), Ok(8));
        assert_eq!(pair.b.tcp_send(pair.now, id, b"answer"), Ok(6));
        accepted += 1;
    }
    wait(pair);
    for &id in clients {
        assert_eq!(pair.a.tcp_recv(pair.now, id, &mut buffer), Ok(6));
    }
    accepted
}

/// Established connections that have carried something and then nothing for a while, both ends in
/// this process. The mark is 1 KiB each; the number is what the operating system says (in debug
/// code other tests run beside it, and nothing is asserted about that).
#[test]
fn mark_a_million_idle_connections() {
    let mut pair = Pair::channel_with(1, Layout::CHANNEL, |_| {});
    let (before, start) = (resident(), Instant::now());
    let (mut some, mut accepted) = (std::vec::Vec::new(), 0);
    for port in 0..CONNECTIONS.div_ceil(PER_PORT) {
        let local = SocketAddr::new(B, 1 + port as u16);
        let listener = pair.b.tcp_listen(local, BATCH).expect("free");
        let first = port * PER_PORT;
        for batch in (first..CONNECTIONS.min(first + PER_PORT)).step_by(BATCH) {
            let clients: std::vec::Vec<_> = (batch..batch + BATCH)
                .map(|n| connect(&mut pair, n))
                .collect();
            wait(&mut pair);
            accepted += talk(&mut pair, listener, &clients);
            some.push(clients[7]);
            // so that not all are awake at the same time
            pair.pass(Duration::from_secs(1));
        }
    }
    pair.pass(Duration::from_secs(10));
    let took = start.elapsed().as_secs_f64();
    let each = (resident() - before) / (2 * CONNECTIONS);
    std::eprintln!(
        "{CONNECTIONS} connections: {each} bytes per end, {:.0} connections/s",
        CONNECTIONS as f64 / took
    );
    assert_eq!(accepted, CONNECTIONS);
    assert_eq!(pair.a.tcp_connections(), CONNECTIONS);
    for host in [&pair.a, &pair.b] {
        let rested = host.tcp_counters().get(TcpEvent::Rested);
        assert!(rested >= CONNECTIONS as u64, "{rested}");
        assert_eq!(host.next_timeout(), None, "idle means idle");
    }
    // and they live
    for &id in &some {
        assert_eq!(pair.a.tcp_send(pair.now, id, b"still there?"), Ok(12));
    }
    wait(&mut pair);
    for &id in &some {
        let info = pair.a.tcp_info(id).expect("open");
        assert_eq!((info.in_flight, info.bytes_acknowledged), (0, 20));
    }
    if !cfg!(debug_assertions) {
        assert!(each <= 1024, "{each} bytes per end");
    }
}
