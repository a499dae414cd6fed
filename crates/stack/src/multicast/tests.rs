//! The groups of a link in virtual time, by section.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_wire::group_record::RecordKind;

use super::{Asked, Full, Membership, Say, Version};

const G: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const H: Ipv4Addr = Ipv4Addr::new(239, 9, 9, 9);
const TO_EX: RecordKind = RecordKind::CHANGE_TO_EXCLUDE;
const TO_IN: RecordKind = RecordKind::CHANGE_TO_INCLUDE;
const IS_EX: RecordKind = RecordKind::MODE_IS_EXCLUDE;
const START: Instant = Instant::from_millis(1000);

/// Everything told until `end`, with its time in milliseconds after the start.
fn told(m: &mut Membership<Ipv4Addr>, end: Duration) -> Vec<(u64, RecordKind, Ipv4Addr)> {
    let mut all = Vec::new();
    while let Some(due) = m.due().filter(|due| *due <= START + end) {
        let now = due.max(START);
        let mut says = Vec::new();
        m.poll(now, &mut says);
        let ms = (now - START).as_millis() as u64;
        all.extend(
            says.iter()
                .map(|Say { kind, group, .. }| (ms, *kind, *group)),
        );
    }
    all
}

fn asked(version: Version, group: Option<Ipv4Addr>, within: u64) -> Asked<Ipv4Addr> {
    Asked {
        version,
        group,
        within: Duration::from_millis(within),
        robustness: 0,
        interval: None,
    }
}

const MINUTE: Duration = Duration::from_secs(60);

//= https://www.rfc-editor.org/rfc/rfc3376#section-5.1
//= type=test
//# To cover the possibility of the State-Change Report being missed by one or more multicast
//# routers, it is retransmitted [Robustness Variable] - 1 more times, at intervals chosen at
//# random from the range (0, [Unsolicited Report Interval]).
#[test]
fn rfc3376_section_5_1_changes_are_told_twice() {
    for seed in 0..50 {
        let mut m = Membership::new(seed);
        m.join(G).unwrap();
        m.join(G).unwrap();
        let all = told(&mut m, MINUTE);
        let [(0, TO_EX, G), (again, TO_EX, G)] = all[..] else {
            panic!("{all:?}");
        };
        assert!(again < 1000);
        m.leave(G);
        assert!(m.is_member(G) && told(&mut m, MINUTE).is_empty());
        m.leave(G);
        assert!(!m.is_member(G));
        let all = told(&mut m, MINUTE);
        assert!(
            matches!(all[..], [(0, TO_IN, G), (1..1000, TO_IN, G)]),
            "{all:?}"
        );
        m.leave(G);
        assert_eq!((m.due(), m.groups_len()), (None, 0));
    }
}

//= https://www.rfc-editor.org/rfc/rfc3810#section-6.3
//= type=test
//# Note that any such implementation MUST avoid the "ack-implosion" problem, i.e., MUST NOT send a
//# Report immediately upon reception of a General Query.
//= https://www.rfc-editor.org/rfc/rfc3376#section-5.2
//= type=test
//# Note that any such implementation MUST avoid the "ack-implosion" problem, i.e., MUST NOT send a
//# Report immediately on reception of a General Query.
#[test]
fn rfc3376_section_5_2_queries() {
    for seed in 0..50 {
        let mut m = Membership::new(seed);
        m.join(G).unwrap();
        m.join(H).unwrap();
        told(&mut m, MINUTE);
        m.asked(START, &asked(Version::Newest, None, 500));
        let all = told(&mut m, MINUTE);
        assert!(matches!(all[..], [(a, IS_EX, G), (b, IS_EX, H)] if a == b && a < 500));
        // One group; one that is not ours; and a flood is one answer.
        m.asked(
            START,
            &asked(Version::Newest, Some(Ipv4Addr::new(239, 7, 7, 7)), 500),
        );
        assert_eq!(m.due(), None);
        for _ in 0..1000 {
            m.asked(START, &asked(Version::Newest, Some(H), 500));
        }
        let all = told(&mut m, MINUTE);
        assert!(matches!(all[..], [(0..500, IS_EX, H)]), "{all:?}");
    }
}

//= https://www.rfc-editor.org/rfc/rfc3810#section-8.2.1
//= type=test
//# In order to be compatible with MLDv1 routers, MLDv2 hosts MUST operate in version 1
//# compatibility mode.
//= https://www.rfc-editor.org/rfc/rfc3810#section-8.2.1
//= type=test
//# MLDv2 hosts MUST keep state per local interface regarding the compatibility mode of each
//# attached link.
//= https://www.rfc-editor.org/rfc/rfc3376#section-7.2.1
//= type=test
//# In order to be compatible with older version routers, IGMPv3 hosts MUST operate in version 1 and
//# version 2 compatibility modes.
//= https://www.rfc-editor.org/rfc/rfc3376#section-7.2.1
//= type=test
//# IGMPv3 hosts MUST keep state per local interface regarding the compatibility mode of each
//# attached network.
//= https://www.rfc-editor.org/rfc/rfc3376#section-4
//= type=test
//# An implementation of IGMPv3 MUST also support the following three message types, for
//# interoperation with previous versions of IGMP (see section 7):
//= https://www.rfc-editor.org/rfc/rfc2236#section-5
//= type=test
//# The host MUST allow its Membership Report to be suppressed by either a Version 1 Membership
//# Report or a Version 2 Membership Report.
//= https://www.rfc-editor.org/rfc/rfc2236#section-4
//= type=test
//# Therefore, a state variable MUST be kept for each interface, describing whether the multicast
//# Querier on that interface is running IGMPv1 or IGMPv2.
//= https://www.rfc-editor.org/rfc/rfc2236#section-4
//= type=test
//# This variable MUST be based upon whether or not an IGMPv1 query was heard in the last [Version 1
//# Router Present Timeout] seconds, and MUST NOT be based upon the type of the last Query heard.
//= https://www.rfc-editor.org/rfc/rfc2236#section-4
//= type=test
//# This state variable MUST be used to decide what type of Membership Reports to send for
//# unsolicited Membership Reports as well as Membership Reports in response to Queries.
#[test]
fn rfc3376_section_7_2_1_older_queriers() {
    let mut m = Membership::new(1);
    m.join(G).unwrap();
    told(&mut m, MINUTE);
    m.asked(START, &asked(Version::Second, None, 1000));
    assert_eq!(m.version(), Version::Second);
    // Another host's report is enough (RFC 2236 section 3).
    m.heard(G);
    assert!(told(&mut m, MINUTE).is_empty());
    m.asked(START, &asked(Version::Second, Some(G), 1000));
    assert!(matches!(told(&mut m, MINUTE)[..], [(0..1000, IS_EX, G)]));
    m.join(H).unwrap();
    assert!(matches!(
        told(&mut m, MINUTE)[..],
        [(0, TO_EX, H), (0..10_000, TO_EX, H)]
    ));
    m.leave(H);
    assert_eq!(told(&mut m, MINUTE), [(0, TO_IN, H)]);
    // 2 * 125 s + 10 s after the last query of the old version the newest is spoken again.
    m.asked(
        START + Duration::from_secs(259),
        &asked(Version::Newest, None, 1),
    );
    assert_eq!(m.version(), Version::Second);
    m.asked(
        START + Duration::from_secs(260),
        &asked(Version::Newest, None, 1),
    );
    assert_eq!(m.version(), Version::Newest);
    m.asked(START, &asked(Version::First, None, 1));
    assert_eq!(m.version(), Version::First);
}

#[test]
fn groups_are_bounded() {
    let mut m = Membership::new(1);
    for number in 0..256_u32 {
        assert_eq!(m.join(Ipv4Addr::from_bits(0xef00_0000 + number)), Ok(()));
    }
    assert_eq!(m.join(G), Err(Full));
    assert_eq!(m.join(Ipv4Addr::from_bits(0xef00_0000)), Ok(()));
}

/// What is told of a group next: the kind, and the sources.
fn next(m: &mut Membership<Ipv4Addr>) -> Vec<(RecordKind, Vec<u32>)> {
    let mut says = Vec::new();
    m.poll(START, &mut says);
    let sources = |s: &Say<Ipv4Addr>| s.sources.iter().map(|s| s.to_bits()).collect();
    says.iter().map(|s| (s.kind, sources(s))).collect()
}

//= https://www.rfc-editor.org/rfc/rfc3376#section-3.2
//= type=test
//# An implementation MUST NOT use an EXCLUDE interface record to represent a group when all
//# sockets for this group are in INCLUDE state.
//= https://www.rfc-editor.org/rfc/rfc3810#section-4.2
//= type=test
//# An implementation MUST NOT use an EXCLUDE interface record for a multicast address if all
//# sockets for this multicast address are in INCLUDE state.
#[test]
fn rfc3376_section_3_2_sources_of_all_sockets_together() {
    const IS_IN: RecordKind = RecordKind::MODE_IS_INCLUDE;
    let source = Ipv4Addr::from_bits;
    let mut m = Membership::new(1);
    m.join_source(G, source(1)).unwrap();
    assert_eq!(next(&mut m), [(TO_IN, [1].into())]);
    m.join_source(G, source(1)).unwrap();
    m.join_source(G, source(2)).unwrap();
    assert_eq!(next(&mut m), [(TO_IN, [1, 2].into())]);
    told(&mut m, MINUTE);
    m.asked(START, &asked(Version::Newest, None, 0));
    assert_eq!(next(&mut m), [(IS_IN, [1, 2].into())]);
    // one wants all: single ones do not matter
    m.join(G).unwrap();
    assert_eq!(next(&mut m), [(TO_EX, [].into())]);
    told(&mut m, MINUTE);
    m.join_source(G, source(3)).unwrap();
    m.leave_source(G, source(3));
    assert!(next(&mut m).is_empty());
    m.leave(G);
    assert_eq!(next(&mut m), [(TO_IN, [1, 2].into())]);
    told(&mut m, MINUTE);
    m.leave_source(G, source(1));
    assert!(next(&mut m).is_empty(), "another wants it");
    m.leave_source(G, source(1));
    assert_eq!(next(&mut m), [(TO_IN, [2].into())]);
    m.leave_source(G, source(2));
    m.leave_source(G, source(2));
    assert!(!m.is_member(G));
    assert_eq!(next(&mut m), [(TO_IN, [].into())], "left");
    told(&mut m, MINUTE);
    assert_eq!(m.groups_len(), 0);
}

//= https://www.rfc-editor.org/rfc/rfc3376#section-3.2
//= type=test
//# If system resource limits are reached when an interface state source list is calculated, an
//# error MUST be returned to the application which requested the operation.
//= https://www.rfc-editor.org/rfc/rfc3810#section-4.2
//= type=test
//# If system resource limits are reached when a per-interface state source list is calculated, an
//# error MUST be returned to the application which requested the operation.
//= https://www.rfc-editor.org/rfc/rfc3376#section-2
//= type=test
//# When an operation causes the source list size limit to be exceeded, the service interface MUST
//# return an error.
#[test]
fn sources_are_bounded() {
    let mut m = Membership::new(1);
    for number in 0..10 {
        assert_eq!(m.join_source(G, Ipv4Addr::from_bits(number)), Ok(()));
    }
    assert_eq!(m.join_source(G, Ipv4Addr::from_bits(10)), Err(Full));
    assert_eq!(m.join_source(G, Ipv4Addr::from_bits(9)), Ok(()));
}

/// Reports are cut where a record ends, whatever the records' lengths.
#[test]
fn reports_hold_what_fits() {
    let say = |n: u32| Say {
        kind: TO_IN,
        group: G,
        sources: (0..n).map(Ipv4Addr::from_bits).collect(),
    };
    let says: Vec<_> = [10, 0, 0, 9, 1, 10, 3].map(say).into();
    let (mut rest, mut parts) = (&says[..], Vec::new());
    while !rest.is_empty() {
        let (part, len, later) = Say::part(rest, 48);
        assert!(len <= 48);
        parts.push(part.len());
        rest = later;
    }
    assert_eq!(parts, [1, 2, 1, 1, 1, 1]);
}
