//! RFC 9293 section 3.10.7.3: SYN-SENT; and what a connection does before its first answer.

use core::time::Duration;

use super::peer::{ACK, FIN, Peer, RST, SYN, all_options, mss_only, seg};
use crate::tcp::{ConnectError, TcpError, TcpOption, TcpState};
use core::net::{IpAddr, SocketAddr};
use gannet_wire::tcp::Flags;
use std::vec::Vec;

#[test]
fn section_3_10_7_3() {
    use TcpState::{Closed, Established, SynReceived, SynSent};
    let none = Flags::empty();
    let max = 0x8000_0000;
    let table = [
        // first, check the ACK bit
        (seg(ACK, 0, 0), Some((RST, 0, 0, 0)), SynSent),
        (seg(ACK, 0, 2), Some((RST, 2, 0, 0)), SynSent),
        (seg(SYN | ACK, 0, max), Some((RST, max, 0, 0)), SynSent),
        (seg(RST | ACK, 0, 2), None, SynSent),
        (seg(ACK, 0, 1), None, SynSent),
        // second, check the RST bit
        (seg(RST, 0, 0), None, SynSent),
        (seg(RST | ACK, 0, 1), None, Closed),
        (seg(RST | SYN | ACK, 0, 1), None, Closed),
        // fourth, check the SYN bit
        (seg(SYN | ACK, 0, 1), Some((ACK, 1, 1, 0)), Established),
        (seg(SYN, 0, 0), Some((SYN | ACK, 0, 1, 0)), SynReceived),
        (
            seg(SYN | ACK, 0, 1).text(b"t5"),
            Some((ACK, 1, 3, 0)),
            Established,
        ),
        (
            seg(SYN | ACK | FIN, 0, 1),
            Some((ACK, 1, 2, 0)),
            TcpState::CloseWait,
        ),
        // fifth, neither SYN nor RST
        (seg(none, 0, 0), None, SynSent),
        (seg(FIN, 0, 0), None, SynSent),
    ];
    for (segment, answer, state) in table {
        let mut p = Peer::new();
        p.connect();
        let expected: Vec<_> = answer.into_iter().collect();
        assert_eq!(p.brief(&segment), expected, "{segment:?}");
        assert_eq!(p.state(), state, "{segment:?}");
    }
}

#[test]
fn t5_text_in_the_syn_ack_is_read() {
    let mut p = Peer::new();
    p.connect();
    p.send(&seg(SYN | ACK, 0, 1).text(b"hello"));
    assert_eq!(p.read(), b"hello");
    p.send(&seg(ACK, 6, 1).text(b" again"));
    assert_eq!(p.read(), b" again");
}

#[test]
fn a_refusal_is_told_once() {
    let mut p = Peer::new();
    p.connect();
    p.send(&seg(RST | ACK, 0, 1));
    assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::Refused));
    assert_eq!(p.host.tcp_take_error(p.id()), None);
    p.close();
    assert_eq!(p.host.tcp_connections(), 0);
}

/// RFC 6298 with the first time-out at 1 s.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//= type=test
//# However, the values of R1 and R2 may be different for SYN and data segments.  In particular, R2
//# for a SYN segment MUST be set large enough to provide retransmission of the segment for at least
//# 3 minutes (MUST-23).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//= type=test
//# SYN retransmissions MUST be handled in the general way just described for data
//# retransmissions, including notification of the application layer.
#[test]
fn the_syn_is_sent_again_with_back_off() {
    let mut p = Peer::new();
    let first = p.connect();
    let again = p.pass(Duration::from_secs(1000));
    let times: Vec<_> = again.iter().map(|(t, _)| t.as_secs()).collect();
    assert_eq!(times, [1, 3, 7, 15, 31, 63, 127]);
    assert!(again.iter().all(|(_, s)| s.flags == SYN && s.seq == 0));
    assert!(
        again
            .iter()
            .all(|(_, s)| s.options.mss == first.options.mss)
    );
    assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::TimedOut));
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
//= type=test
//# A TCP implementation MUST reject as an error a local OPEN call for an invalid remote IP address
//# (e.g., a broadcast or multicast address) (MUST-46).
#[test]
fn impossible_destinations() {
    let mut p = Peer::new();
    let table = [
        (
            IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            80,
            ConnectError::InvalidDestination,
        ),
        (
            IpAddr::V4(core::net::Ipv4Addr::BROADCAST),
            80,
            ConnectError::InvalidDestination,
        ),
        (
            IpAddr::from([224, 0, 0, 1]),
            80,
            ConnectError::InvalidDestination,
        ),
        (
            IpAddr::from([192, 0, 2, 255]),
            80,
            ConnectError::InvalidDestination,
        ),
        (crate::testing::B, 0, ConnectError::InvalidDestination),
        (IpAddr::from([10, 0, 0, 1]), 80, ConnectError::NoRoute),
    ];
    for (address, port, error) in table {
        let to = SocketAddr::new(address, port);
        assert_eq!(p.host.tcp_connect(p.now, None, to), Err(error), "{to}");
    }
    assert_eq!(p.host.tcp_connections(), 0);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
//= type=test
//# If an MSS Option is not received at connection setup, TCP implementations MUST assume a default
//# send MSS of 536 (576 - 40) for IPv4 or 1220 (1280 - 60) for IPv6 (MUST-15).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
//= type=test
//# TCP endpoints MUST implement both sending and receiving the MSS Option (MUST-14).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
//= type=test
//# The maximum size of a segment that a TCP endpoint really sends, the "effective send MSS", MUST
//# be the smaller (MUST-16) of the send MSS (that reflects the available reassembly buffer size
//# at the remote host, the EMTU_R [19]) and the largest transmission size permitted by the IP
//# layer (EMTU_S [19]):
#[test]
fn t2_the_size_of_segments_follows_the_offer() {
    // MSS of 0, 1 and 47 are floored at 48 (CVE-2019-11479)
    let table = [
        (None, 536),
        (Some(0), 48),
        (Some(1), 48),
        (Some(47), 48),
        (Some(48), 48),
    ];
    let table = table
        .into_iter()
        .chain([(Some(1000), 1000), (Some(65_535), 1460)]);
    for (mss, size) in table {
        let mut options = mss_only(0);
        options.mss = mss;
        let mut p = Peer::active(options);
        let out = p.write(&[7; 6000]);
        assert_eq!(out[0].len(), size, "{mss:?}");
    }
}

#[test]
fn closing_before_the_answer() {
    let mut p = Peer::new();
    p.connect();
    assert_eq!(p.close(), []);
    assert_eq!(p.host.tcp_connections(), 0);
    // a late answer finds nobody
    assert_eq!(p.brief(&seg(SYN | ACK, 0, 1)), [(RST, 1, 0, 0)]);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.5
//= type=test
//# A TCP implementation MUST support simultaneous open attempts (MUST-10).
#[test]
fn t11_simultaneous_open() {
    for options in [mss_only(1460), all_options()] {
        let mut p = Peer::new();
        p.connect();
        let out = p.send(&seg(SYN, 0, 0).options(options));
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].brief(), (SYN | ACK, 0, 1, 0));
        assert_eq!(p.state(), TcpState::SynReceived);
        let mut answer = seg(SYN | ACK, 0, 1).options(options);
        if let Some((value, _)) = options.timestamps {
            let echo = out[0].options.timestamps.expect("answered").0;
            answer = answer.stamp(value, echo);
        }
        p.send(&answer);
        assert_eq!(p.state(), TcpState::Established);
        let out = p.write(b"both began");
        assert_eq!(out[0].payload, b"both began");
    }
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
//= type=test
//# The optional "local IP address" parameter MUST be supported to allow the specification of the
//# local IP address (MUST-43).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
//= type=test
//# If an application on a multihomed host does not specify the local IP address when actively
//# opening a TCP connection, then the TCP implementation MUST ask the IP layer to select a local
//# IP address before sending the (first) SYN (MUST-44).
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.1
//= type=test
//# At all other times, a previous segment has either been sent or received on this connection,
//# and TCP implementations MUST use the same local address that was used in those previous
//# segments (MUST-45).
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.4.2
//= type=test
//# (2) An application MUST be able to explicitly specify the source address for initiating a
//# connection or a request.
#[test]
fn the_local_address() {
    let mut p = Peer::new();
    let wanted = SocketAddr::new(crate::testing::A, 7777);
    let id = p.host.tcp_connect(p.now, Some(wanted), p.me).expect("ours");
    assert_eq!(p.host.tcp_addresses(id), Some((wanted, p.me)));
    let again = p.host.tcp_connect(p.now, Some(wanted), p.me);
    assert_eq!(again, Err(ConnectError::AddressInUse));
    let strange = SocketAddr::new(IpAddr::from([192, 0, 2, 77]), 0);
    let told = p.host.tcp_connect(p.now, Some(strange), p.me);
    assert_eq!(told, Err(ConnectError::AddressNotAvailable));
    // another address of ours, added later, changes nothing for a connection that exists
    let other = crate::LinkAddress {
        address: IpAddr::from([192, 0, 2, 9]),
        prefix_len: 32,
    };
    p.poll();
    assert!(p.host.add_address(p.link, other));
    let again = p.pass_ms(1100);
    assert_eq!(again[0].1.flags, SYN);
    assert_eq!(p.host.tcp_addresses(id), Some((wanted, p.me)));
}

#[test]
fn a_syn_leaves_anew_when_a_way_has_come() {
    let mut p = Peer::new();
    let first = p.connect();
    p.pass_ms(10);
    assert!(p.host.tcp_start_over(p.now, p.id()));
    let second = p.poll();
    assert_eq!(second.len(), 1);
    assert_eq!(
        (second[0].flags, second[0].options),
        (SYN, {
            let mut options = first.options;
            options.timestamps = second[0].options.timestamps;
            options
        })
    );
    // The second is answered as ever.
    p.send(&seg(SYN | ACK, 0, 1));
    assert_eq!(p.state(), TcpState::Established);
    assert!(!p.host.tcp_start_over(p.now, p.id()), "it is open");
    p.host.tcp_give_up(p.now, p.id(), TcpError::HostUnreachable);
    assert_eq!(p.state(), TcpState::Established);
}

#[test]
fn a_way_that_will_not_come() {
    let mut p = Peer::new();
    p.connect();
    p.host.tcp_give_up(p.now, p.id(), TcpError::HostUnreachable);
    assert_eq!(p.state(), TcpState::Closed);
    assert_eq!(
        p.host.tcp_take_error(p.id()),
        Some(TcpError::HostUnreachable)
    );
    p.close();
    p.host.tcp_give_up(p.now, p.id(), TcpError::HostUnreachable);
    assert!(!p.host.tcp_start_over(p.now, p.id()));
}

#[test]
fn each_connection_has_its_own_number_of_retries() {
    for (retries, syns) in [(Some(0), 1), (Some(2), 3), (None, 8)] {
        let mut p = Peer::new();
        p.connect();
        p.host
            .tcp_set_option(p.id(), TcpOption::SynRetries(retries));
        let again = p.pass(Duration::from_secs(600));
        assert_eq!(1 + again.len(), syns, "{again:?}");
        assert_eq!(p.host.tcp_take_error(p.id()), Some(TcpError::TimedOut));
    }
}
