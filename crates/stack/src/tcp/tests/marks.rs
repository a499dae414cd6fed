//! Time to live and type of service of what a connection sends.

use core::net::SocketAddr;
use std::vec::Vec;

use gannet_wire::ipv4;

use super::peer::{ACK, Peer, SYN, mss_only, seg};
use crate::ip::Path;
use crate::tcp::{TcpOption, TcpState};

impl Peer {
    /// Time to live and type of service of every packet that was sent since the last look.
    fn marks(&mut self) -> Vec<(u8, u8)> {
        let now = self.now;
        self.host.poll(now);
        let endpoint = self.host.link_mut(self.link).expect("the link");
        let frames = endpoint.driver.recorded();
        let headers = frames.iter().map(|f| ipv4::Header::parse(f));
        let headers = headers.map(|h| h.expect("a packet").0);
        headers.map(|h| (h.ttl, h.tos)).collect()
    }

    fn set(&mut self, option: TcpOption) {
        assert!(self.host.tcp_set_option(self.id(), option));
    }

    fn answer_and_look(&mut self, data: &[u8]) -> Vec<(u8, u8)> {
        let (now, id) = (self.now, self.id());
        assert_eq!(self.host.tcp_send(now, id, data), Ok(data.len()));
        self.marks()
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2
//= type=test
//# Time to Live (TTL): The TTL value used to send TCP segments MUST be configurable (MUST-49).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.9
//= type=test
//# The application layer MUST be able to specify the Differentiated Services field for segments
//# that are sent on a connection (MUST-48).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.9
//= type=test
//# It is not required, but the application SHOULD be able to change the Differentiated Services
//# field during the connection lifetime (SHLD-21).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.9
//= type=test
//# TCP implementations SHOULD pass the current Differentiated Services field value without change
//# to the IP layer, when it sends segments on the connection (SHLD-22).
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.7
//= type=test
//# When a fixed TTL value is used, it MUST be configurable.
#[test]
fn every_segment_is_marked() {
    for straight in [true, false] {
        let mut p = Peer::with(&super::peer::wire(), |c| c.tcp.straight_line = straight);
        p.open(mss_only(1000));
        // with the template of before
        assert_eq!(p.answer_and_look(&[1; 100]), [(64, 0)]);
        p.set(TcpOption::TimeToLive(3));
        p.set(TcpOption::TypeOfService(0xb8));
        let told = p.host.tcp_info(p.id()).expect("open");
        assert_eq!((told.time_to_live, told.type_of_service), (3, 0xb8));
        // text, an acknowledgement, the same again after a time-out, a reset
        p.send(&seg(ACK, 1, 101));
        assert_eq!(p.answer_and_look(&[1; 2500]), [(3, 0xb8); 3]);
        let packet = p.packet(&seg(ACK, 5, 101).text(b"gap"));
        p.inject(&packet);
        assert_eq!(p.marks(), [(3, 0xb8)]);
        let again = (0..9).find_map(|_| {
            p.now = p.host.next_timeout().expect("a retransmission").max(p.now);
            p.marks().pop()
        });
        assert_eq!(again, Some((3, 0xb8)));
        // the lowest values, and the bits that are not the application's
        p.set(TcpOption::TimeToLive(0));
        p.set(TcpOption::TypeOfService(0xff));
        let (now, id) = (p.now, p.id());
        p.host.tcp_abort(now, id);
        assert_eq!(p.marks(), [(1, 0xfc)]);
    }
}

/// TIME-WAIT, where nothing but the path is left.
#[test]
fn the_last_acknowledgement_is_marked() {
    let (mut p, seq, ack) = Peer::in_state(TcpState::TimeWait);
    p.set(TcpOption::TimeToLive(9));
    p.close();
    let packet = p.packet(&seg(super::peer::FIN | ACK, seq - 1, ack));
    p.inject(&packet);
    assert_eq!(p.marks(), [(9, 0)]);
}

/// A connection has from its first packet what its listener was told.
#[test]
fn a_listener_marks_what_it_makes() {
    let mut p = Peer::new();
    p.listen(8);
    let listener = p.listener.expect("it listens");
    for option in [
        TcpOption::TimeToLive(7),
        TcpOption::TypeOfService(0x20),
        TcpOption::SendBuffer(5000),
    ] {
        assert!(p.host.tcp_set_listener_option(listener, option));
    }
    let syn = p.packet(&seg(SYN, 0, 0).options(mss_only(1000)));
    p.inject(&syn);
    assert_eq!(p.marks(), [(7, 0x20)], "the SYN-ACK");
    let now = p.now;
    p.host.tcp_close_listener(now, listener);
    assert!(
        !p.host
            .tcp_set_listener_option(listener, TcpOption::NoDelay(true))
    );
    // others are not touched
    p.marks();
    p.me = SocketAddr::new(p.me.ip(), 4001);
    p.connect();
    let info = p.host.tcp_info(p.id()).expect("it tries");
    assert_eq!((info.time_to_live, info.type_of_service), (Path::TTL, 0));
}

#[test]
fn an_accepted_connection_has_its_listeners_settings() {
    let mut p = Peer::new();
    p.listen(8);
    let listener = p.listener.expect("it listens");
    p.host
        .tcp_set_listener_option(listener, TcpOption::TimeToLive(7));
    p.host
        .tcp_set_listener_option(listener, TcpOption::SendBuffer(5000));
    p.send(&seg(SYN, 0, 0).options(mss_only(1000)));
    p.send(&seg(ACK, 1, 1));
    p.accept();
    assert_eq!(p.answer_and_look(b"hello"), [(7, 0)]);
    let info = p.host.tcp_info(p.id()).expect("open");
    assert_eq!(info.send_buffer, 5000);
}
