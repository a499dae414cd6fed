//! Every combination of flags where T3's other test has none: nobody there, a listener, text under
//! way; and segments of unusual sizes (T5).

use std::vec::Vec;

use gannet_wire::tcp::Flags;

use super::peer::{ACK, FIN, Peer, RST, SYN, Seg, mss_only, seg, wire};
use crate::tcp::TcpState;

const NUMBERS: [u32; 5] = [0, 7, 0x7fff_ffff, 0x8000_0000, u32::MAX];

fn all_flags() -> impl Iterator<Item = Flags> {
    (0..64).map(Flags::from_bits_truncate)
}

/// What RFC 9293 sections 3.10.7.1 and 3.10.7.2 say to a segment that no connection knows.
fn expected(s: &Seg, listens: bool) -> Vec<(Flags, u32, u32, u32)> {
    let has = |flag| s.flags.contains(flag);
    let len = s.len() + u32::from(has(SYN)) + u32::from(has(FIN));
    match () {
        () if has(RST) => Vec::new(),
        () if has(ACK) => [(RST, s.ack, 0, 0)].into(),
        () if !listens => [(RST | ACK, 0, s.seq.wrapping_add(len), 0)].into(),
        () if has(SYN) => [(SYN | ACK, 0, s.seq.wrapping_add(1), 0)].into(),
        () => Vec::new(),
    }
}

/// T3: XMAS and NULL scans, SYN with FIN or RST, FIN without ACK, and all the others, where nobody
/// listens and where somebody does.
#[test]
fn t3_all_flags_without_a_connection() {
    for flags in all_flags() {
        for seq in NUMBERS {
            for ack in NUMBERS {
                for text in [&b""[..], b"xyz"] {
                    for listens in [false, true] {
                        let mut p = Peer::new();
                        if listens {
                            p.listen(4);
                        }
                        let s = seg(flags, seq, ack).text(text);
                        let out = p.brief(&s);
                        assert_eq!(out, expected(&s, listens), "{listens} {s:?}");
                        let opens = out.iter().any(|o| o.0.contains(SYN));
                        assert_eq!(p.host.tcp_connections(), usize::from(opens));
                    }
                }
            }
        }
    }
}

/// Whether a segment may acknowledge (RFC 9293 section 3.10.7.4, steps one to five), the window
/// being 65,535 from 1 on. One without text may stand at its edge, or one further (appendix A.2).
fn acceptable(s: &Seg) -> bool {
    let len = s.len() + u32::from(s.flags.contains(FIN));
    let first = s.seq.wrapping_sub(1);
    let last = first.wrapping_add(len.max(1) - 1);
    let edge = if len == 0 { 65_537 } else { 65_535 };
    (first < edge || last < edge) && s.flags.contains(ACK) && !s.flags.intersects(RST | SYN)
}

/// T3: text is under way, so that the oldest number not acknowledged and the next differ: what is
/// taken for acknowledged is what may be, whatever the flags and numbers.
#[test]
fn t3_all_flags_while_text_is_under_way() {
    let (una, nxt) = (1u32, 2921);
    let acks = [
        una.wrapping_sub(70_000),
        una,
        una + 1,
        nxt,
        nxt + 1,
        una.wrapping_add(0x8000_0000),
    ];
    for flags in all_flags() {
        for seq in [0, 1, 10, 65_535, 65_536, 65_538] {
            for ack in acks {
                for text in [&b""[..], b"xyz"] {
                    let mut p = Peer::active(mss_only(1460));
                    p.write(&[7; 2920]);
                    let s = seg(flags, seq, ack).text(text);
                    p.send(&s);
                    if p.state() == TcpState::Closed {
                        assert!(flags.contains(RST) && seq == 1, "{s:?}");
                        continue;
                    }
                    let news = (una + 1..=nxt).contains(&ack) && acceptable(&s);
                    let left = p.host.tcp_info(p.id()).expect("open").in_flight;
                    let now = if news { nxt - ack } else { nxt - una };
                    assert_eq!(left, now, "{s:?}");
                }
            }
        }
    }
}

/// T5: the longest segment that an IPv4 packet holds, and lengths that end at the window's edge.
#[test]
fn t5_the_longest_segments() {
    let mut link = wire();
    link.mtu = 65_535;
    for len in [65_495, 65_494, 40_000, 1461] {
        let mut p = Peer::with(&link, |_| {});
        p.open(mss_only(65_495));
        let text: Vec<u8> = (0..len).map(|n| n as u8).collect();
        p.send(&seg(ACK, 1, 1).text(&text));
        assert!(p.read() == text, "{len}");
        // beyond the window: what fits is taken, and the connection goes on
        let window = p.host.tcp_info(p.id()).expect("open").receive_window;
        let next = 1 + len as u32;
        p.send(&seg(ACK, next + window - 10, 1).text(&text[..1000]));
        p.send(&seg(ACK, next, 1).text(b"on"));
        assert_eq!(p.read(), b"on", "{len}");
        p.assert_alive();
    }
}

impl Peer {
    /// Text still passes both ways.
    fn assert_alive(&mut self) {
        assert_eq!(self.state(), TcpState::Established);
        assert_eq!(self.write(b"alive").len(), 1);
    }
}

/// T5: a byte at a time, which nobody reads: memory does not grow with the number of segments.
#[test]
fn t5_one_byte_segments_share_blocks() {
    let mut p = Peer::active(mss_only(1460));
    let pool = |p: &Peer| p.host.link(p.link).expect("a link").pool.free_blocks();
    let before = pool(&p);
    for n in 0..20_000u32 {
        let packet = p.packet(&seg(ACK, 1 + n, 1).text(&[n as u8]));
        p.inject(&packet);
        if n % 40 == 39 {
            p.poll();
        }
    }
    assert!(before - pool(&p) <= 4, "{} blocks", before - pool(&p));
    let expected: Vec<u8> = (0..20_000u32).map(|n| n as u8).collect();
    assert!(p.read() == expected);
    p.assert_memory_is_back();
}

/// T5: probes of a closed window are answered, each, and their byte is not taken.
#[test]
fn t5_probes_of_a_closed_window() {
    let mut p = Peer::active(mss_only(1460));
    let mut seq = 1;
    while p.host.tcp_info(p.id()).expect("open").receive_window > 0 {
        let out = p.send(&seg(ACK, seq, 1).text(&[7; 1000]));
        seq = out.last().map_or(seq + 1000, |s| s.ack);
    }
    for _ in 0..10 {
        p.pass_ms(1000);
        let out = p.send(&seg(ACK, seq, 1).text(b"?"));
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].ack, out[0].window), (seq, 0));
    }
    assert_eq!(p.read().len() as u32, seq - 1, "no byte of a probe");
    p.send(&seg(ACK, seq, 1).text(b"on"));
    assert_eq!(p.read(), b"on");
}
