//! SYN floods (RFC 4987; robustness.md, section 3): bounded memory, honest peers are served.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec::Vec;

use super::peer::{ACK, Peer, RST, SYN, Seg, all_options, mss_only, seg, wire};
use crate::SynCookies;
use crate::tcp::{TcpEvent, TcpState};
use gannet_base::Rng;
use gannet_wire::tcp::Options;

fn host(syn_backlog: usize, cookies: SynCookies) -> Peer {
    let mut p = Peer::with(&wire(), |c| {
        c.tcp.syn_backlog = syn_backlog;
        c.tcp.syn_cookies = cookies;
    });
    p.listen(128);
    p
}

/// Another peer on the same network, by number.
fn become_peer(p: &mut Peer, n: u32) {
    let address = Ipv4Addr::from(0xc000_0203 + n % 200);
    p.me = SocketAddr::new(address.into(), 1024 + (n / 200) as u16);
}

fn flood(p: &mut Peer, count: u32) -> usize {
    let mut answers = 0;
    for n in 0..count {
        become_peer(p, n);
        let packet = p.packet(&seg(SYN, n, 0));
        p.inject(&packet);
        if n % 50 == 49 {
            answers += p.poll().len();
        }
    }
    answers
}

fn honest(p: &mut Peer) {
    p.me = SocketAddr::new(crate::testing::B, 4000);
}

/// Cookies off: SYNs without end are dropped when the backlog is full, and those whose SYN-ACK goes
/// unanswered are forgotten.
#[test]
fn without_cookies_the_backlog_bounds() {
    let mut p = host(128, SynCookies::Off);
    assert_eq!(flood(&mut p, 10_000), 128);
    assert_eq!(p.host.tcp_connections(), 128);
    assert_eq!(p.count(TcpEvent::BacklogFull), 10_000 - 128);
    honest(&mut p);
    assert_eq!(p.brief(&seg(SYN, 0, 0)), []);
    p.pass(Duration::from_secs(200));
    assert_eq!(p.host.tcp_connections(), 0);
    assert_eq!(p.brief(&seg(SYN, 0, 0)), [(SYN | ACK, 0, 1, 0)]);
}

/// Cookies on: every SYN is answered, with one segment, nothing is kept of those beyond the
/// backlog, and an honest peer gets in with all its options.
#[test]
fn with_cookies_everybody_is_answered_and_the_honest_get_in() {
    let mut p = host(128, SynCookies::OnOverflow);
    assert_eq!(flood(&mut p, 10_000), 10_000, "one answer to each");
    assert_eq!(p.host.tcp_connections(), 128);
    assert_eq!(p.count(TcpEvent::CookieSent), 10_000 - 128);
    assert!(p.host.tcp_requests_memory() <= 256 * 144);
    honest(&mut p);
    open_by_cookie(&mut p, all_options());
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.send_mss, 1460 - 12);
    assert!(info.sack && info.timestamps);
    assert_eq!(info.window_scale.map(|s| s.1), Some(7));
    // and works
    let echo = p.write(b"hello");
    assert_eq!(echo[0].payload, b"hello");
    let again = p.pass(Duration::from_secs(200));
    let answers = again.iter().filter(|(_, s)| s.flags == SYN | ACK);
    let answers = answers.count();
    let most = 128 + 64 * 4;
    assert!(answers <= most, "{answers}: in a crowd sent again but once");
}

/// Handshake with a listener that keeps nothing: `p.id` is the connection.
fn open_by_cookie(p: &mut Peer, options: Options) -> Seg {
    let before = p.count(TcpEvent::CookieSent);
    let answer = p.send(&seg(SYN, 0, 0).options(options)).remove(0);
    assert_eq!(answer.flags, SYN | ACK);
    assert_eq!(p.count(TcpEvent::CookieSent), before + 1);
    let mut ack = seg(ACK, 1, 1);
    if let Some((value, _)) = options.timestamps {
        let echo = answer.options.timestamps.expect("answered").0;
        ack = ack.stamp(value + 1, echo);
    }
    assert_eq!(p.brief(&ack), []);
    p.accept();
    assert_eq!(p.state(), TcpState::Established);
    answer
}

#[test]
fn cookies_always_keep_nothing() {
    let mut p = host(2048, SynCookies::Always);
    assert_eq!(flood(&mut p, 1000), 1000);
    assert_eq!(p.host.tcp_connections(), 0);
    assert_eq!(p.host.tcp_requests_memory(), 0);
    honest(&mut p);
    let answer = open_by_cookie(&mut p, all_options());
    assert!(answer.options.sack_permitted && answer.options.window_scale.is_some());
    // without time stamps nothing can carry the options: they are not promised
    p.me.set_port(4001);
    let mut options = all_options();
    options.timestamps = None;
    let answer = open_by_cookie(&mut p, options);
    assert!(!answer.options.sack_permitted && answer.options.window_scale.is_none());
    assert_eq!(p.host.tcp_info(p.id()).expect("open").send_mss, 1460);
    p.me.set_port(4002);
    open_by_cookie(&mut p, mss_only(1000));
    assert_eq!(p.host.tcp_info(p.id()).expect("open").send_mss, 536);
}

/// The first text takes the place of a lost acknowledgement.
#[test]
fn text_brings_the_cookie_too() {
    let mut p = host(2048, SynCookies::Always);
    p.send(&seg(SYN, 0, 0).options(mss_only(1460)));
    p.send(&seg(ACK, 1, 1).text(b"request"));
    p.accept();
    assert_eq!(p.read(), b"request");
}

/// Nothing is made of an acknowledgement that no cookie of ours fits: not in the first place, not
/// later, not with another number, not when cookies are not in use.
#[test]
fn forged_and_old_cookies_open_nothing() {
    let mut p = host(2048, SynCookies::Always);
    p.send(&seg(SYN, 0, 0).options(mss_only(1460)));
    let mut rng = Rng::new(7);
    for _ in 0..20_000 {
        let (seq, ack) = (rng.next_u32(), rng.next_u32());
        if (seq, ack) != (1, 1) {
            let packet = p.packet(&seg(ACK, seq, ack));
            p.inject(&packet);
        }
        if rng.chance(20_000) {
            let out = p.poll();
            assert!(out.iter().all(|s| s.flags.contains(RST)));
        }
    }
    p.poll();
    assert_eq!(p.host.tcp_connections(), 0);
    // it holds for one to two minutes
    p.pass(Duration::from_secs(121));
    assert_eq!(p.brief(&seg(ACK, 1, 1)), [(RST, 1, 0, 0)]);
    assert_eq!(p.host.tcp_connections(), 0);
    let mut p = host(2048, SynCookies::OnOverflow);
    assert_eq!(p.brief(&seg(ACK, 1, 1)), [(RST, 1, 0, 0)]);
}

/// A full accept queue: a cookie that comes back is dropped and taken when there is room.
#[test]
fn a_cookie_waits_for_room() {
    let mut p = Peer::with(&wire(), |c| c.tcp.syn_cookies = SynCookies::Always);
    p.listen(1);
    let mut first = 0;
    for port in [1000, 1001] {
        p.me.set_port(port);
        p.send(&seg(SYN, 0, 0));
        first = if port == 1000 { p.irs } else { first };
    }
    p.send(&seg(ACK, 1, 1));
    p.me.set_port(1000);
    p.irs = first;
    assert_eq!(p.brief(&seg(ACK, 1, 1)), []);
    assert_eq!(p.count(TcpEvent::AcceptQueueFull), 1);
    p.accept();
    p.send(&seg(ACK, 1, 1).text(b"x"));
    p.accept();
    assert_eq!(p.read(), b"x");
}

/// What the mark says: SYNs without answer at ten times the rate at which the application accepts
/// honest ones; at least 99 % of those succeed, and memory grows by less than 64 MiB. Half a minute
/// of it, the application accepting every 10 ms.
#[test]
fn mark_flood_at_ten_times_the_accept_rate() {
    const ACCEPTED_PER_SECOND: u32 = 200;
    const FLOOD: u32 = 10;
    let mut p = host(256, SynCookies::OnOverflow);
    let (mut tried, mut flooded) = (0u32, 0u32);
    let mut open = Vec::new();
    for _ in 0..30 * 100 {
        for _ in 0..ACCEPTED_PER_SECOND / 100 {
            for _ in 0..FLOOD {
                flooded += 1;
                p.me = SocketAddr::new(
                    Ipv4Addr::from(0xc000_0203 + flooded % 200).into(),
                    1024 + (flooded / 200) as u16,
                );
                let packet = p.packet(&seg(SYN, flooded, 0).options(all_options()));
                p.inject(&packet);
            }
            p.poll();
            tried += 1;
            p.me = SocketAddr::new(crate::testing::B, 1024 + tried as u16);
            let answer = p.send(&seg(SYN, 0, 0).options(all_options()));
            let Some(stamp) = answer.last().and_then(|s| s.options.timestamps) else {
                continue;
            };
            p.send(&seg(ACK, 1, 1).stamp(5001, stamp.0));
        }
        while let Some(id) = p.listener.and_then(|l| p.host.tcp_accept(l)) {
            open.push(id);
        }
        p.pass_ms(10);
    }
    let memory = p.host.tcp_requests_memory();
    std::eprintln!("{} of {tried} among {flooded}, {memory} bytes", open.len());
    assert!(open.len() as u32 >= tried * 99 / 100);
    assert!(memory < 64 << 20);
}
