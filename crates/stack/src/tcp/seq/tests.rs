//! RFC 9293 section 3.4.
use super::*;

const S: fn(u32) -> SeqNum = SeqNum;

#[test]
fn section_3_4_comparisons() {
    // a, b, a before b
    let rows = [
        (0, 1, true),
        (1, 0, false),
        (u32::MAX, 0, true), // across the wrap
        (0, u32::MAX, false),
        (u32::MAX - 10, 10, true),
        (0, 0x7fff_ffff, true), // the furthest that is still "after"
        (0x7fff_ffff, 0, false),
        (0, 0x8000_0000, true), // exactly opposite: both before each other
        (0x8000_0000, 0, true),
        (5, 5, false),
    ];
    for (a, b, before) in rows {
        let (x, y) = (S(a), S(b));
        assert_eq!(x.before(y), before, "{a} before {b}");
        assert_eq!(y.after(x), before, "{b} after {a}");
        assert_eq!(x.before_eq(y), before || a == b, "{a} before or at {b}");
        assert_eq!(y.after_eq(x), before || a == b, "{b} after or at {a}");
    }
}

#[test]
fn ranges_across_the_wrap() {
    let rows = [
        (10, 10, 1, true),
        (10, 10, 0, false), // an empty range contains nothing
        (9, 10, 5, false),
        (14, 10, 5, true),
        (15, 10, 5, false),
        (2, u32::MAX, 4, true),
        (3, u32::MAX, 4, false),
        (9, 10, u32::MAX, false), // a range of all but one
    ];
    for (seq, start, len, inside) in rows {
        assert_eq!(
            S(seq).in_range(S(start), len),
            inside,
            "{seq} in {start}+{len}"
        );
    }
}

#[test]
fn arithmetic_wraps() {
    assert_eq!(S(u32::MAX) + 2, S(1));
    assert_eq!(S(1) - 2, S(u32::MAX));
    assert_eq!(S(1) - S(u32::MAX), 2);
    assert_eq!(S(1).since(S(u32::MAX)), 2);
    assert_eq!(S(u32::MAX).since(S(1)), -2);
    assert_eq!(S(u32::MAX).min(S(3)), S(u32::MAX));
    assert_eq!(S(u32::MAX).max(S(3)), S(3));
    let mut s = S(u32::MAX);
    s += 1;
    assert_eq!(s, S(0));
}
