//! RFC 9293 section 3.10.7.1: nobody is there.

use super::peer::{ACK, FIN, PSH, Peer, RST, SYN, seg};
use crate::tcp::TcpEvent;
use gannet_wire::tcp::Flags;

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.1
//= type=test
//# An incoming segment not containing a RST causes a RST to be sent in response.
#[test]
fn section_3_10_7_1() {
    let none = Flags::empty();
    let table = [
        (seg(RST, 7, 9), None),
        (seg(RST | ACK, 7, 9), None),
        (seg(SYN, 7, 0), Some((RST | ACK, 0, 8, 0))),
        (seg(none, 7, 0), Some((RST | ACK, 0, 7, 0))),
        (seg(FIN, 7, 0).text(b"abc"), Some((RST | ACK, 0, 11, 0))),
        (seg(SYN | FIN, 7, 0), Some((RST | ACK, 0, 9, 0))),
        (seg(ACK, 7, 9), Some((RST, 9, 0, 0))),
        (seg(SYN | ACK, 7, 9), Some((RST, 9, 0, 0))),
        (seg(ACK | PSH, 7, 9).text(b"abc"), Some((RST, 9, 0, 0))),
        (seg(Flags::all(), 7, 9), None),
    ];
    for (segment, answer) in table {
        let mut p = Peer::new();
        let expected: std::vec::Vec<_> = answer.into_iter().collect();
        assert_eq!(p.brief(&segment), expected, "{segment:?}");
        assert_eq!(p.count(TcpEvent::NoSocket), 1);
        assert_eq!(p.host.tcp_connections(), 0);
    }
}
