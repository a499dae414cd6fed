//! Urgent data (RFC 9293 section 3.8.5, RFC 6093): it stays in the stream, and no pointer hurts.

use super::peer::{ACK, PSH, Peer, SYN, URG, mss_only, seg};
use crate::tcp::TcpState;

/// T4: every byte arrives once and in place whatever the pointer says (URGENT/11).
#[test]
fn t4_pointers_of_any_kind() {
    for pointer in [0, 1, 2, 5, 6, 7, 1000, 65_534, 65_535] {
        for again in [0, 3, 65_535] {
            let mut p = Peer::active(mss_only(1460));
            p.send(&seg(ACK, 1, 1).text(b"hello").urgent(pointer));
            p.send(&seg(ACK, 6, 1).text(b" w").urgent(again));
            p.send(&seg(ACK, 11, 1).text(b"d").urgent(pointer));
            p.send(&seg(ACK, 8, 1).text(b"orl"));
            assert_eq!(p.read(), b"hello world", "{pointer} {again}");
            p.write(b"on");
            assert_eq!(p.state(), TcpState::Established);
        }
    }
}

#[test]
fn t4_a_pointer_without_text_or_flag() {
    let mut p = Peer::active(mss_only(1460));
    assert_eq!(p.send(&seg(ACK, 1, 1).urgent(65_535)), []);
    let mut stray = seg(ACK, 1, 1).text(b"abc");
    stray.urgent = 2; // no URG
    p.send(&stray);
    p.send(&seg(ACK, 4, 1).text(b"def"));
    assert_eq!(p.read(), b"abcdef");
}

#[test]
fn t4_urg_in_the_handshake() {
    let mut p = Peer::new();
    p.listen(4);
    assert_eq!(p.brief(&seg(SYN, 0, 0).urgent(1)), [(SYN | ACK, 0, 1, 0)]);
    p.send(&seg(ACK, 1, 1).urgent(65_535).text(b"x"));
    p.accept();
    assert_eq!(p.read(), b"x");
    let mut p = Peer::new();
    p.connect();
    p.send(&seg(SYN | ACK, 0, 1).urgent(0));
    assert_eq!(p.state(), TcpState::Established);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
//= type=test
//# The urgent pointer MUST point to the sequence number of the octet following the urgent data
//# (MUST-62).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
//= type=test
//# However, TCP implementations MUST still include support for the urgent mechanism (MUST-30).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
//= type=test
//# A TCP implementation MUST support a sequence of urgent data of any length (MUST-31) [19].
#[test]
fn sending() {
    let mut p = Peer::active(mss_only(1000));
    p.write(b"calm");
    p.send(&seg(ACK, 1, 5));
    let n = p
        .host
        .tcp_send_urgent(p.now, p.id(), &[b'!'; 2500])
        .expect("room");
    assert_eq!(n, 2500);
    let mut out = p.poll();
    while out.last().is_some_and(|s| s.seq + s.len() < 2505) {
        let ack = out.last().map_or(0, |s| s.seq + s.len());
        let more = p.send(&seg(ACK, 1, ack));
        assert!(!more.is_empty(), "stuck at {ack}");
        out.extend(more);
    }
    for s in &out {
        let pointed = s.seq + u32::from(s.urgent);
        assert!(s.flags.contains(URG), "{s:?}");
        assert_eq!(pointed, 2505);
    }
    p.send(&seg(ACK, 1, 2505));
    let calm = p.write(b"calm again");
    assert_eq!(calm[0].brief(), (ACK | PSH, 2505, 1, 10));
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
//= type=test
//# A TCP implementation MUST (MUST-32) inform the application layer asynchronously whenever it
//# receives an urgent pointer and there was previously no pending urgent data, or whenever the
//# urgent pointer advances in the data stream.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
//= type=test
//# The TCP implementation MUST (MUST-33) provide a way for the application to learn how much
//# urgent data remains to be read from the connection, or at least to determine whether more
//# urgent data remains to be read [19].
#[test]
fn the_application_learns_of_urgent_data() {
    let mut p = Peer::active(mss_only(1460));
    let told = |p: &mut Peer| core::iter::from_fn(|| p.host.tcp_take_ready()).count();
    let pending = |p: &Peer| p.host.tcp_urgent_pending(p.id());
    told(&mut p);
    assert_eq!(pending(&p), Some(0));
    // a pointer ahead of its data
    p.send(&seg(ACK, 1, 1).text(b"abc").urgent(5));
    assert_eq!((told(&mut p), pending(&p)), (1, Some(5)));
    // the same pointer again is no news
    p.send(&seg(ACK, 4, 1).text(b"d").urgent(2));
    assert_eq!((told(&mut p), pending(&p)), (0, Some(5)));
    // it advances
    p.send(&seg(ACK, 5, 1).text(b"e").urgent(3));
    assert_eq!((told(&mut p), pending(&p)), (1, Some(7)));
    assert_eq!(p.read(), b"abcde");
    assert_eq!(pending(&p), Some(2));
    p.send(&seg(ACK, 6, 1).text(b"fgh"));
    assert_eq!(
        pending(&p),
        Some(2),
        "read up to the end of the text before"
    );
    let mut two = [0; 2];
    let n = p.host.tcp_recv(p.now, p.id(), &mut two);
    assert_eq!((n, &two), (Ok(2), b"fg"));
    assert_eq!(pending(&p), Some(0), "the mark");
    assert_eq!(p.read(), b"h");
    assert_eq!(pending(&p), Some(0));
    // and anew
    told(&mut p);
    p.send(&seg(ACK, 9, 1).text(b"ij").urgent(1));
    assert_eq!((told(&mut p), pending(&p)), (1, Some(1)));
}
