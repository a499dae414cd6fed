//! TCP Fast Open, by section of RFC 7413.

use core::time::Duration;
use std::vec::Vec;

use gannet_link::{Checksum, Medium};
use gannet_wire::tcp::{FastOpenCookie, Options};

use super::peer::{ACK, Peer, RST, SYN, Seg, all_options, mss_only, seg, wire};
use crate::SynCookies;
use crate::tcp::{TcpError, TcpEvent, TcpOption, TcpState};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn host(change: impl Fn(&mut crate::TcpConfig)) -> Peer {
    Peer::with(&wire(), |c| {
        c.tcp.fast_open.server = true;
        c.tcp.fast_open.client = true;
        change(&mut c.tcp);
    })
}

fn server() -> Peer {
    let mut p = host(|_| {});
    p.listen(64);
    p
}

fn with_cookie(mut options: Options, cookie: &FastOpenCookie) -> Options {
    options.set_fast_open(cookie);
    options
}

/// Asks for a cookie and leaves the handshake at that.
fn ask(p: &mut Peer) -> FastOpenCookie {
    let syn = seg(SYN, 0, 0).options(with_cookie(mss_only(1460), &FastOpenCookie::REQUEST));
    let answer = p.send(&syn).remove(0);
    assert_eq!(answer.brief(), (SYN | ACK, 0, 1, 0));
    p.send(&seg(RST, 1, 0));
    let cookie = answer.options.fast_open().expect("granted");
    assert_eq!(cookie.as_slice().len(), 8);
    p.me.set_port(p.me.port() + 1);
    cookie
}

fn syn_with(cookie: &FastOpenCookie, data: &[u8]) -> Seg {
    seg(SYN, 0, 0)
        .options(with_cookie(mss_only(1460), cookie))
        .text(data)
}

fn brief(out: &[Seg]) -> Vec<(gannet_wire::tcp::Flags, u32, u32, u32)> {
    out.iter().map(Seg::brief).collect()
}

//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2
//= type=test
//# When this flag is off, the server does not
//# perform any TFO-related operations and MUST ignore all cookie
//# options.
#[test]
fn section_4_2_off_by_default() {
    let mut p = Peer::new();
    p.listen(8);
    let syn = seg(SYN, 0, 0).options(with_cookie(mss_only(1460), &FastOpenCookie::REQUEST));
    let answer = p.send(&syn).remove(0);
    assert_eq!(answer.options.fast_open(), None);
    // and the client sends no option
    let mut p = Peer::new();
    let (id, taken) = connect(&mut p, b"hello");
    assert_eq!(taken, 5);
    let syn = p.poll().remove(0);
    assert_eq!((syn.options.fast_open(), syn.len()), (None, 0));
    p.id = Some(id);
    let out = p.send(&seg(SYN | ACK, 0, 1).options(mss_only(1460)));
    assert_eq!(out[0].payload, b"hello", "behind the handshake");
}

/// The data is readable, and the answer leaves, before the handshake ends.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//= type=test
//# Buffer the data and notify the application.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//= type=test
//# If the FastOpened flag is set, the packet acknowledges
//# the SYN and data sequence.
#[test]
fn section_4_2_2_server() {
    let mut p = server();
    let cookie = ask(&mut p);
    let out = p.send(&syn_with(&cookie, b"GET /"));
    assert_eq!(brief(&out), [(SYN | ACK, 0, 6, 0)]);
    assert_eq!(out[0].options.fast_open(), None);
    p.accept();
    assert_eq!(p.state(), TcpState::SynReceived);
    assert_eq!(p.read(), b"GET /");
    let out = p.write(b"200 OK");
    assert_eq!(brief(&out), [(ACK | super::peer::PSH, 1, 6, 6)]);
    assert_eq!(brief(&p.send(&seg(ACK, 6, 7))), []);
    assert_eq!(p.state(), TcpState::Established);
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!((info.in_flight, info.bytes_received), (0, 5));
    // and goes on like any other
    p.send(&seg(ACK, 6, 7).text(b"more"));
    assert_eq!(p.read(), b"more");
    p.close();
    p.send(&seg(super::peer::FIN | ACK, 10, 8));
    p.pass(Duration::from_secs(61));
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
}

/// Once its SYN is acknowledged a connection that has nothing to do rests, as any other.
#[test]
fn an_idle_one_rests() {
    for early in [&b""[..], b"200 OK"] {
        let mut p = server();
        let cookie = ask(&mut p);
        p.send(&syn_with(&cookie, b"GET /"));
        p.accept();
        p.read();
        if !early.is_empty() {
            p.write(early);
        }
        let acked = 1 + early.len() as u32;
        p.send(&seg(ACK, 6, acked));
        p.pass(Duration::from_secs(20));
        assert_eq!(p.count(TcpEvent::Rested), 1);
        p.send(&seg(ACK, 6, acked).text(b"more"));
        assert_eq!(p.read(), b"more");
    }
}

//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//= type=test
//# If the SYN-ACK timer fires, the server SHOULD retransmit a SYN-ACK
//# segment with neither data nor Fast Open options for compatibility
//# reasons.
#[test]
fn section_4_2_2_syn_ack_is_sent_again_and_given_up() {
    let mut p = server();
    let cookie = ask(&mut p);
    p.send(&syn_with(&cookie, b"GET /"));
    p.accept();
    p.read();
    let again = p.pass(Duration::from_secs(8));
    let again: Vec<_> = again
        .iter()
        .map(|(t, s)| (t.as_secs(), s.brief()))
        .collect();
    let syn_ack = (SYN | ACK, 0, 6, 0);
    assert_eq!(again, [(1, syn_ack), (3, syn_ack), (7, syn_ack)]);
    p.pass(Duration::from_secs(200));
    let status = p.host.tcp_status(p.id()).expect("held");
    assert_eq!(status.error, Some(TcpError::TimedOut));
    p.close();
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
}

/// A SYN-ACK that asked for a cookie and is sent again has none.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.1
//= type=test
//# We
//# RECOMMEND both the client and the server to retransmit SYN and SYN-
//# ACK packets without the cookie options on timeouts.
#[test]
fn section_4_2_1_cookie_only_in_the_first_syn_ack() {
    let mut p = server();
    let syn = seg(SYN, 0, 0).options(with_cookie(mss_only(1460), &FastOpenCookie::REQUEST));
    assert!(p.send(&syn)[0].options.fast_open().is_some());
    let again = p.pass(Duration::from_secs(2));
    assert_eq!(again[0].1.options.fast_open(), None);
}

/// A cookie that is not ours, another client's, or too old: the ordinary handshake, with a new one.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//= type=test
//# If IsCookieValid() (in Section 4.1.2) returns false, go to step 5.
#[test]
fn section_4_1_2_bad_cookies() {
    let mut p = server();
    let cookie = ask(&mut p);
    let forged = FastOpenCookie::new(&[7; 8]).expect("8 bytes");
    let out = p.send(&syn_with(&forged, b"GET /"));
    assert_eq!(brief(&out), [(SYN | ACK, 0, 1, 0)], "the data is not acked");
    assert_eq!(out[0].options.fast_open(), Some(cookie));
    p.send(&seg(ACK, 1, 1).text(b"GET /"));
    p.accept();
    assert_eq!(p.read(), b"GET /");
    // from another address
    p.me = core::net::SocketAddr::new([192, 0, 2, 77].into(), 4000);
    assert_eq!(p.send(&syn_with(&cookie, b"GET /"))[0].ack, 1);
    assert_eq!(p.count(TcpEvent::FastOpenBadCookie), 2);
    p.me = core::net::SocketAddr::new(crate::testing::B, 5000);
    // it lives for half a day at least, and not for more than one
    p.pass(DAY / 2);
    assert_eq!(p.send(&syn_with(&cookie, b"GET /"))[0].ack, 6);
    p.me.set_port(5001);
    p.pass(DAY / 2);
    assert_eq!(p.send(&syn_with(&cookie, b"GET /"))[0].ack, 1);
    assert_eq!(p.count(TcpEvent::FastOpen), 1);
}

//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2
//= type=test
//# If this variable goes over a preset system limit, the
//# server MUST disable TFO for all new connection requests until
//# PendingFastOpenRequests drops below the system limit.
#[test]
fn section_4_2_pending_is_bounded() {
    let mut p = server();
    let listener = p.listener.expect("listens");
    p.host
        .tcp_set_listener_option(listener, TcpOption::FastOpen(3));
    let cookie = ask(&mut p);
    let mut acks = Vec::new();
    let first = p.me.port();
    for n in 0..4 {
        p.me.set_port(first + n);
        acks.push(p.send(&syn_with(&cookie, b"GET /"))[0].ack);
    }
    assert_eq!(acks, [6, 6, 6, 1], "the last in the ordinary way");
    assert_eq!(p.count(TcpEvent::FastOpenFull), 1);
    // one that was reset still counts
    p.me.set_port(first);
    let syn_ack = p.send(&seg(SYN, 0, 0)).remove(0);
    assert_eq!(syn_ack.brief(), (SYN | ACK, 0, 6, 0), "the SYN again");
    p.send(&seg(RST, 6, 0));
    p.me.set_port(first + 10);
    assert_eq!(p.send(&syn_with(&cookie, b"GET /"))[0].ack, 1);
    // one that was acknowledged does not
    p.me.set_port(first + 1);
    p.send(&seg(SYN, 0, 0));
    assert_eq!(brief(&p.send(&seg(ACK, 6, 1))), []);
    p.me.set_port(first + 11);
    assert_eq!(p.send(&syn_with(&cookie, b"GET /"))[0].ack, 6);
}

/// The SYN again while its connection lives: its data is not read twice.
#[test]
fn section_6_1_the_syn_again_while_the_connection_lives() {
    let mut p = server();
    let cookie = ask(&mut p);
    let syn = syn_with(&cookie, b"GET /");
    p.send(&syn);
    p.accept();
    assert_eq!(p.read(), b"GET /");
    assert_eq!(brief(&p.send(&syn)), [(SYN | ACK, 0, 6, 0)]);
    assert_eq!(p.read(), b"");
    p.send(&seg(ACK, 6, 1));
    assert_eq!(brief(&p.send(&syn)), [(ACK, 1, 6, 0)], "a challenge");
    assert_eq!(p.read(), b"");
    assert!(!p.host.tcp_can_accept(p.listener.expect("listens")));
}

/// What acknowledges anything else is reset, and a reset with the right number ends it.
#[test]
fn segments_before_the_ack() {
    let mut p = server();
    let cookie = ask(&mut p);
    p.send(&syn_with(&cookie, b"GET /"));
    p.accept();
    for ack in [0, 2, 1000] {
        assert_eq!(brief(&p.send(&seg(ACK, 6, ack))), [(RST, ack, 0, 0)]);
    }
    assert_eq!(p.state(), TcpState::SynReceived);
    p.send(&seg(RST, 6, 0));
    let status = p.host.tcp_status(p.id()).expect("held");
    assert_eq!(status.error, Some(TcpError::Reset));
    p.close();
    p.assert_memory_is_back();
}

/// RFC 4987: a listener in trouble does nothing early.
#[test]
fn not_with_syn_cookies() {
    let mut p = host(|c| c.syn_cookies = SynCookies::Always);
    p.listen(8);
    let syn = seg(SYN, 0, 0).options(with_cookie(all_options(), &FastOpenCookie::REQUEST));
    assert_eq!(p.send(&syn)[0].options.fast_open(), None);
    let mut q = server();
    let cookie = ask(&mut q);
    let out = p.send(&syn_with(&cookie, b"GET /"));
    assert_eq!(brief(&out), [(SYN | ACK, 0, 1, 0)]);
    assert_eq!(p.host.tcp_connections(), 0);
}

fn connect(p: &mut Peer, data: &[u8]) -> (crate::tcp::TcpId, usize) {
    let connected = p.host.tcp_connect_with_data(p.now, None, p.me, data);
    let (id, taken) = connected.expect("a route");
    p.id = Some(id);
    (id, taken)
}

/// The stack connects with data; its SYN.
fn dial(p: &mut Peer, data: &[u8]) -> Seg {
    connect(p, data);
    let syn = p.poll().remove(0);
    assert_eq!(syn.flags, SYN);
    syn
}

fn finish(p: &mut Peer) {
    p.send(&seg(RST | ACK, 1, 1));
    p.host.tcp_abort(p.now, p.id());
    p.poll();
}

const COOKIE: [u8; 6] = [1, 2, 3, 4, 5, 6];

fn cookie() -> FastOpenCookie {
    FastOpenCookie::new(&COOKIE).expect("6 bytes")
}

/// A client that has a cookie for us.
fn client() -> Peer {
    let mut p = host(|_| {});
    let syn = dial(&mut p, b"first");
    assert_eq!(syn.options.fast_open(), Some(FastOpenCookie::REQUEST));
    assert_eq!(syn.len(), 0);
    let answer = seg(SYN | ACK, 0, 1).options(with_cookie(mss_only(1000), &cookie()));
    let out = p.send(&answer);
    assert_eq!(out[0].payload, b"first");
    finish(&mut p);
    p
}

//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3
//= type=test
//# The client MUST cache cookies from servers for later Fast Open
//# connections.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//= type=test
//# Include any data up to the cached server MSS or
//# default 536 bytes.
#[test]
fn section_4_2_2_client() {
    let mut p = client();
    let data = [b'x'; 3000];
    let syn = dial(&mut p, &data);
    assert_eq!(syn.options.fast_open(), Some(cookie()));
    let len = 1000 - syn.options.encoded_len() as u32;
    assert_eq!(syn.len(), len);
    assert_eq!(p.count(TcpEvent::FastOpenSent), 1);
    // all of it is acknowledged: the rest follows
    let out = p.send(&seg(SYN | ACK, 0, 1 + len).options(mss_only(1000)));
    let rest: Vec<_> = out.iter().map(|s| (s.seq, s.len())).collect();
    assert_eq!(rest[0].0, 1 + len);
    assert_eq!(rest.iter().map(|r| r.1).sum::<u32>(), 3000 - len);
    assert_eq!(p.count(TcpEvent::FastOpenTaken), 1);
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.bytes_acknowledged, u64::from(len));
    p.send(&seg(ACK, 1, 3001));
    finish(&mut p);
    p.assert_memory_is_back();
}

/// What the SYN-ACK does not acknowledge, or only in part, is sent at once with the ACK.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//= type=test
//# The client SHOULD retransmit
//# any unacknowledged data in the first ACK packet in step 2.
#[test]
fn section_4_2_2_client_whose_data_was_not_taken() {
    for acked in [0, 3] {
        let mut p = client();
        assert_eq!(dial(&mut p, b"GET /").payload, b"GET /");
        let out = p.send(&seg(SYN | ACK, 0, 1 + acked).options(mss_only(1000)));
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].seq, out[0].ack), (1 + acked, 1));
        assert_eq!(out[0].payload, b"GET /"[acked as usize..]);
        assert_eq!(p.state(), TcpState::Established);
    }
    // what was never sent cannot be acknowledged
    let mut p = client();
    dial(&mut p, b"GET /");
    let out = p.send(&seg(SYN | ACK, 0, 7).options(mss_only(1000)));
    assert_eq!(brief(&out), [(RST, 7, 0, 0)]);
    assert_eq!(p.state(), TcpState::SynSent);
}

//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
//= type=test
//# To deal with network or servers dropping SYN packets with payload or
//# unknown options, when the SYN timer fires, the client SHOULD
//# retransmit a SYN packet without data and Fast Open options.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3.1
//= type=test
//# The client MUST cache negative responses from the server in order to
//# avoid potential connection failures.
#[test]
fn section_4_1_3_1_a_path_that_swallows_it() {
    let mut p = client();
    let mut pauses = Vec::new();
    for _ in 0..3 {
        assert!(dial(&mut p, b"GET /").options.fast_open().is_some());
        let again = p.pass(Duration::from_secs(2));
        assert_eq!(again.len(), 1);
        let syn = &again[0].1;
        assert_eq!((syn.options.fast_open(), syn.len()), (None, 0));
        let out = p.send(&seg(SYN | ACK, 0, 1).options(mss_only(1000)));
        assert_eq!(out[0].payload, b"GET /");
        finish(&mut p);
        // not tried for a while, and then once
        let mut minutes = 0;
        while dial(&mut p, b"GET /").options.fast_open().is_none() {
            finish(&mut p);
            p.pass(Duration::from_secs(60));
            minutes += 1;
            assert!(minutes < 100, "never again");
        }
        finish(&mut p);
        pauses.push(minutes);
    }
    assert_eq!(pauses, [1, 2, 4]);
}

/// A server without Fast Open is not asked again at once.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.1
//= type=test
//# We also RECOMMEND the client to record the set of servers that failed
//# to respond to cookie requests and only attempt another cookie request
//# after a certain period.
#[test]
fn section_4_2_1_a_server_that_gives_no_cookie() {
    let mut p = host(|_| {});
    assert!(dial(&mut p, b"first").options.fast_open().is_some());
    let out = p.send(&seg(SYN | ACK, 0, 1).options(mss_only(1000)));
    assert_eq!(out[0].payload, b"first");
    finish(&mut p);
    assert_eq!(dial(&mut p, b"next").options.fast_open(), None);
}

/// The least recently used server is forgotten.
#[test]
fn servers_are_bounded() {
    use crate::tcp::fast_open::Servers;
    use gannet_base::Instant;
    let mut servers = Servers::new(crate::hash::HashKey::new([1; 16]), 4);
    for n in 0..100 {
        let key = (
            crate::testing::A,
            core::net::SocketAddr::new(crate::testing::B, n),
        );
        servers.failed(&key, Instant::ZERO);
        assert!(servers.len() <= 4);
    }
}

/// Closed before the SYN is answered: what was queued is let go of.
#[test]
fn early_data_is_let_go_of() {
    let mut p = client();
    dial(&mut p, &[b'x'; 50_000]);
    p.close();
    assert_eq!(p.host.tcp_connections(), 0);
    p.assert_memory_is_back();
    dial(&mut p, &[b'x'; 50_000]);
    p.send(&seg(RST | ACK, 0, 1));
    p.close();
    p.assert_memory_is_back();
}

/// Both SYNs cross: data and all arrive once.
#[test]
fn section_4_2_2_simultaneous_open() {
    let mut p = client();
    assert_eq!(dial(&mut p, b"GET /").payload, b"GET /");
    let out = p.send(&seg(SYN, 0, 0).options(mss_only(1000)));
    assert_eq!(brief(&out), [(SYN | ACK, 0, 1, 0)]);
    let out = p.send(&seg(ACK, 1, 6));
    assert_eq!(brief(&out), []);
    assert_eq!(p.state(), TcpState::Established);
    assert_eq!(p.write(b"!")[0].seq, 6);
}

/// Two stacks on every kind of link: the second request is answered in one round trip.
#[test]
fn two_hosts() {
    use crate::testing::{B, Pair, Wire, WireConfig};
    let media = [
        (Medium::Ip, Checksum::Software),
        (Medium::Ethernet, Checksum::Software),
        (Medium::Ethernet, Checksum::Partial),
    ];
    for (medium, checksum) in media {
        let config = WireConfig {
            medium,
            checksum,
            delay: Duration::from_millis(10),
            ..WireConfig::default()
        };
        let ends = Wire::ends(5, &config);
        let mut pair = Pair::join(5, ends, (None, None), |c| {
            c.tcp.fast_open.server = true;
            c.tcp.fast_open.client = true;
        });
        let at = core::net::SocketAddr::new(B, 80);
        let listener = pair.b.tcp_listen(at, 8).expect("free");
        let request = [b'?'; 700];
        let mut times = Vec::new();
        for _ in 0..3 {
            let start = pair.now;
            let opened = pair.a.tcp_connect_with_data(pair.now, None, at, &request);
            let (id, taken) = opened.expect("a route");
            assert_eq!(taken, request.len());
            let mut buffer = [0; 2000];
            let mut server = None;
            let mut got = 0;
            pair.run_until(|pair| {
                server = server.or_else(|| pair.b.tcp_accept(listener));
                if let Some(server) = server
                    && got < request.len()
                {
                    got += pair.b.tcp_recv(pair.now, server, &mut buffer).unwrap_or(0);
                    if got == request.len() {
                        let sent = pair.b.tcp_send(pair.now, server, b"yes");
                        sent.expect("room");
                    }
                }
                pair.a.tcp_recv(pair.now, id, &mut buffer) == Ok(3)
            });
            times.push(pair.now.saturating_duration_since(start));
            pair.a.tcp_close(pair.now, id);
            pair.b.tcp_close(pair.now, server.expect("accepted"));
            pair.a.check_tcp();
            pair.b.check_tcp();
        }
        let round_trip = Duration::from_millis(20);
        assert!(times[0] > round_trip * 4 / 3, "{medium:?} {times:?}");
        assert!(times[1] < round_trip * 4 / 3, "{medium:?} {times:?}");
        assert!(times[2] < round_trip * 4 / 3, "{medium:?} {times:?}");
    }
}
