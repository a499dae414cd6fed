//! Attacks (robustness.md section 3; RFC 5961, 5927, 1337), with their figures.

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Rng;

use super::peer::{ACK, FIN, PSH, Peer, RST, SYN, Seg, URG, all_options, mss_only, seg, wire};
use crate::tcp::{TcpError, TcpEvent, TcpOption, TcpState};
use crate::testing::{B, Pair, WireConfig};

/// Packets that a forger sends to one connection: the figure of the mark in release code.
const FORGED: u32 = if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};
/// How fast.
const PER_SECOND: u32 = 10_000;
const WINDOW: u32 = 65_535;

/// The kinds in turn, with numbers in and out of the window. What would be right is left out: who
/// knows it is no forger. (A reset with exactly the next number, or text within the window with an
/// acknowledgement that RFC 5961 allows.)
fn forged(rng: &mut Rng, nxt: u32, una: u32, most: u32) -> Seg {
    let within = nxt + 1 + rng.below(u64::from(WINDOW) - 2) as u32;
    let seq = match rng.below(2) {
        0 => within,
        _ => match rng.next_u32() {
            n if n.wrapping_sub(nxt) <= WINDOW => within,
            n => n,
        },
    };
    let ack = match rng.next_u32() {
        n if n.wrapping_sub(una).wrapping_add(most) <= 2 * most => una.wrapping_add(1 << 30),
        n => n,
    };
    let text = b"injected by somebody";
    match rng.below(6) {
        0 => seg(RST, seq, 0),
        1 => seg(RST | ACK, seq, ack),
        2 => seg(SYN, seq, 0),
        3 => seg(ACK | PSH, seq, ack).text(&text[..1 + rng.below(19) as usize]),
        4 => seg(ACK | FIN, seq, ack),
        _ => seg(ACK | URG, seq, ack).urgent(9).text(b"!"),
    }
}

fn bombard(options: gannet_wire::tcp::Options) {
    let mut p = Peer::active(options);
    let mut rng = Rng::new(5961);
    let stamped = options.timestamps.is_some();
    let most = WINDOW << options.window_scale.unwrap_or(0); // MAX.SND.WND
    let (mut answers, mut read, mut written) = (0usize, Vec::new(), 0u32);
    let seconds = FORGED / PER_SECOND;
    for second in 0..seconds {
        for n in 0..PER_SECOND {
            let nxt = 1 + read.len() as u32;
            let mut s = forged(&mut rng, nxt, 1 + written, most);
            if stamped && !s.flags.contains(RST) {
                s = s.stamp(rng.next_u32(), rng.next_u32());
            }
            if n % 100 == 7 {
                // ICMP about text not under way: unreachable, too big, quench
                let kind = [(3, 1), (3, 3), (3, 4), (4, 0)][rng.below(4) as usize];
                p.icmp(kind, 68, rng.next_u32() | 1 << 30);
            } else {
                let packet = p.packet(&s);
                p.inject(&packet);
            }
            if n % 50 == 49 {
                p.now += Duration::from_millis(1000 * 50 / u64::from(PER_SECOND));
                answers += p.poll().len();
            }
        }
        // meanwhile the connection works
        let mut text = seg(ACK, 1 + read.len() as u32, 1 + written).text(b"true");
        let mut back = seg(ACK, 5 + read.len() as u32, 5 + written);
        if stamped {
            (text, back) = (text.stamp(5000 + second, 0), back.stamp(5000 + second, 0));
        }
        p.send(&text);
        read.extend(p.read());
        assert_eq!(p.write(b"also").last().map(Seg::len), Some(4));
        p.send(&back);
        written += 4;
        assert_eq!(p.state(), TcpState::Established);
    }
    assert_eq!(read, b"true".repeat(seconds as usize), "no injected byte");
    let most = 2 * (seconds as usize + 1);
    assert!(answers <= most, "{answers} answers in {seconds} s");
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.soft_error, None);
    let options = u32::from(stamped) * 12;
    assert_eq!(info.send_mss, 1460 - options, "no router was believed");
    std::eprintln!("{FORGED} forged, {answers} answers in {seconds} s");
}

/// RFC 5961, CVE-2016-5696: no reset, no byte, at most 2 challenge ACKs in a second.
#[test]
fn mark_a_million_forged_packets() {
    bombard(mss_only(1460));
}

/// Forged text that begins within the window and ends beyond it is answered no more often.
#[test]
fn forged_text_across_the_edges_is_answered_rarely() {
    let mut p = Peer::active(mss_only(1460));
    p.send(&seg(ACK, 1, 1).text(b"before"));
    let mut answers = 0;
    for n in 0..1000 {
        let seq = [7 + WINDOW - 10, 2][n % 2];
        answers += p.send(&seg(ACK, seq, 1 << 30).text(&[7; 19])).len();
    }
    assert!(answers <= 1, "{answers}");
}

/// The same, with time stamps that mean nothing (PAWS poisoning).
#[test]
fn mark_a_million_forged_packets_with_time_stamps() {
    bombard(all_options());
}

/// CVE-2016-5696: what one connection is sent changes nothing for another; there is no shared
/// allowance of challenge ACKs whose use somebody could count.
#[test]
fn challenge_acks_are_not_counted_together() {
    let mut p = Peer::new();
    p.listen(8);
    let mut ends = Vec::new();
    for port in [1000, 1001] {
        p.me.set_port(port);
        p.send(&seg(SYN, 0, 0));
        p.send(&seg(ACK, 1, 1));
        p.accept();
        ends.push((port, p.irs));
    }
    (p.me, p.irs) = (SocketAddr::new(B, 1000), ends[0].1);
    let challenged: usize = (0..1000).map(|n| p.send(&seg(RST, 2 + n, 0)).len()).sum();
    assert_eq!(challenged, 1);
    (p.me, p.irs) = (SocketAddr::new(B, 1001), ends[1].1);
    assert_eq!(p.brief(&seg(SYN, 9, 0)), [(ACK, 1, 1, 0)]);
}

/// PAWS poisoning: a segment that covers the window's left edge but acknowledges nothing that can
/// be true does not set the time by which others are judged.
#[test]
fn a_forged_time_stamp_is_forgotten() {
    let mut p = Peer::active(all_options());
    let far = 5000u32.wrapping_add(0x7fff_0000);
    p.send(&seg(ACK, 1, 0x4000_0000).stamp(far, 0).text(b"forged"));
    p.send(&seg(ACK, 1, 1).stamp(5001, 0).text(b"true"));
    assert_eq!(p.read(), b"true");
}

/// Two hosts that disagree about where they are: each acknowledges what the other never sent. They
/// tell each other twice a second, not for ever at the speed of the wire.
#[test]
fn desynchronised_hosts_do_not_storm() {
    let mut pair = Pair::wire(3, &WireConfig::default());
    let at = SocketAddr::new(B, 80);
    let listener = pair.b.tcp_listen(at, 1).expect("free");
    let a = pair.a.tcp_connect(pair.now, None, at).expect("a route");
    pair.run_until(|p| p.b.tcp_can_accept(listener));
    let b = pair.b.tcp_accept(listener).expect("open");
    pair.a.skip_received(a, 1 << 20);
    pair.b.skip_received(b, 1 << 20);
    pair.a.tcp_send(pair.now, a, b"hello").expect("room");
    let before = pair.a.tcp_info(a).expect("open").segments_received;
    pair.pass(Duration::from_secs(10));
    let heard = pair.a.tcp_info(a).expect("open").segments_received - before;
    assert!((1..=25).contains(&heard), "{heard} segments in 10 s");
}

/// Optimistic acknowledgements and divided ones gain nothing: only bytes that were sent count, each
/// once.
#[test]
fn acknowledging_early_or_in_crumbs_gains_nothing() {
    let window = |p: &Peer| p.host.tcp_info(p.id()).expect("open").congestion_window;
    let mut whole = Peer::active(mss_only(1460));
    let first = window(&whole);
    let text = std::vec![1; first as usize];
    whole.write(&text);
    whole.send(&seg(ACK, 1, 1 + first));
    let mut crumbs = Peer::active(mss_only(1460));
    crumbs.write(&text);
    for at in (0..=first).step_by(73) {
        crumbs.send(&seg(ACK, 1, 1 + at));
    }
    crumbs.send(&seg(ACK, 1, 1 + first));
    assert!(window(&crumbs) <= window(&whole).max(2 * first));
    let mut early = Peer::active(mss_only(1460));
    early.write(&text);
    for at in 1..1000 {
        early.send(&seg(ACK, 1, 1 + first + at * 1460));
    }
    assert_eq!(
        window(&early),
        first,
        "nothing that was sent was acknowledged"
    );
    assert!(early.count(TcpEvent::BadAck) >= 999);
}

/// Slow reading: a peer that keeps its window closed and answers every probe holds what it was
/// going to be sent no longer than the application's time-out, or an orphan's.
#[test]
fn a_window_kept_closed_is_given_up() {
    let mut p = Peer::active(mss_only(1460));
    let patience = Duration::from_secs(30);
    let option = TcpOption::UserTimeout(Some(patience));
    assert!(p.host.tcp_set_option(p.id(), option));
    p.send(&seg(ACK, 1, 1).window(0));
    p.write(b"never read");
    let start = p.now;
    while p.state() == TcpState::Established {
        let at = p.host.next_timeout().expect("it probes");
        p.now = p.now.max(at);
        for _ in p.poll() {
            p.send(&seg(ACK, 1, 1).window(0));
        }
        assert!(p.now.saturating_duration_since(start) < 3 * patience);
    }
    assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::TimedOut));
}

/// Orphans are bounded: one more is reset at once.
#[test]
fn one_orphan_too_many_is_reset() {
    let mut p = Peer::with(&wire(), |c| c.tcp.orphans_max = 2);
    p.listen(8);
    let mut resets = 0;
    for port in 1000..1004 {
        p.me.set_port(port);
        p.send(&seg(SYN, 0, 0));
        p.send(&seg(ACK, 1, 1));
        p.accept();
        p.write(b"to be delivered");
        resets += p.close().iter().filter(|s| s.flags.contains(RST)).count();
    }
    assert_eq!(resets, 2);
    assert_eq!(p.count(TcpEvent::TooManyOrphans), 2);
    assert_eq!(p.host.tcp_connections(), 2);
}

/// TIME-WAIT is bounded: the oldest makes room.
#[test]
fn the_oldest_in_time_wait_makes_room() {
    let mut p = Peer::with(&wire(), |c| c.tcp.time_wait_max = 5);
    p.listen(8);
    for port in 1000..1020 {
        p.me.set_port(port);
        p.send(&seg(SYN, 0, 0));
        p.send(&seg(ACK, 1, 1));
        p.accept();
        p.close();
        p.send(&seg(ACK | FIN, 1, 2));
    }
    assert_eq!(p.host.tcp_connections(), 5);
    assert_eq!(p.count(TcpEvent::TimeWaitRecycled), 15);
    p.me.set_port(1019);
    assert_eq!(
        p.brief(&seg(ACK | FIN, 1, 2)),
        [(ACK, 2, 2, 0)],
        "the newest"
    );
    p.me.set_port(1000);
    assert_eq!(p.brief(&seg(ACK, 2, 2)), [(RST, 2, 0, 0)], "the oldest");
    p.pass(Duration::from_secs(61));
    assert_eq!(p.host.tcp_connections(), 0);
}

/// A flood of SACK blocks that mean nothing, or the same again: no memory, no change.
#[test]
fn a_sack_flood_changes_nothing() {
    let mut options = all_options();
    options.timestamps = None;
    let mut p = Peer::active(options);
    p.write(&[7; 10_000]);
    let mut rng = Rng::new(2018);
    for n in 0..20_000u32 {
        let mut block = || (rng.next_u32() | 1 << 20, rng.next_u32());
        let blocks = [block(), block(), block()];
        let packet = p.packet(&seg(ACK, 1, 1).sack(&blocks));
        p.inject(&packet);
        if n % 50 == 49 {
            p.poll();
        }
    }
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.in_flight, 10_000, "nothing was taken for received");
    p.send(&seg(ACK, 1, 10_001));
    assert_eq!(p.host.tcp_info(p.id()).expect("open").in_flight, 0);
}
