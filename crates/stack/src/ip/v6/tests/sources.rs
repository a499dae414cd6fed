//! RFC 6724 section 10.1's examples, and each rule alone.

use std::vec::Vec;

use super::super::source::{Candidate, choose, scope};

/// The source that is chosen for `destination` among `candidates`; a deprecated one ends in `!`.
fn chosen(destination: &str, candidates: &[&str]) -> std::string::String {
    let parse = |text: &&str| Candidate {
        address: text.trim_end_matches('!').parse().expect("an address"),
        deprecated: text.ends_with('!'),
    };
    let destination = destination.parse().expect("an address");
    let forwards = choose(candidates.iter().map(parse), destination);
    let mut reversed: Vec<_> = candidates.iter().map(parse).collect();
    reversed.reverse();
    let backwards = choose(reversed.into_iter(), destination);
    assert_eq!(forwards, backwards, "the order decides nothing");
    forwards.expect("a candidate").to_string()
}

use std::string::ToString;

//= https://www.rfc-editor.org/rfc/rfc6724#section-3.4
//= type=test
//# The loopback address MUST be treated as having link-local scope (Section 4 of [RFC4007]) and
//# "preferred" (in the RFC 4862 sense) configuration status.
#[test]
fn the_rfc_s_examples() {
    for (destination, candidates, best) in [
        // prefer appropriate scope
        (
            "2001:db8:1::1",
            &["2001:db8:3::1", "fe80::1"][..],
            "2001:db8:3::1",
        ),
        ("ff05::1", &["2001:db8:3::1", "fe80::1"], "2001:db8:3::1"),
        // prefer same address
        (
            "2001:db8:1::1",
            &["2001:db8:1::1!", "2001:db8:2::1"],
            "2001:db8:1::1",
        ),
        // prefer appropriate scope over avoiding deprecated addresses
        ("fe80::1", &["fe80::2!", "2001:db8:1::1"], "fe80::2"),
        // longest matching prefix
        (
            "2001:db8:1::1",
            &["2001:db8:1::2", "2001:db8:3::2"],
            "2001:db8:1::2",
        ),
        // prefer matching label
        (
            "2002:c633:6401::1",
            &["2002:c633:6401::d5e3:7953:13eb:22e8", "2001:db8:1::2"],
            "2002:c633:6401:0:d5e3:7953:13eb:22e8",
        ),
    ] {
        assert_eq!(chosen(destination, candidates), best, "to {destination}");
    }
}

//= https://www.rfc-editor.org/rfc/rfc6724#section-5
//= type=test
//# In the case that a given rule produces a tie, i.e., provides an "equal to" result for the two
//# addresses, the remaining rules MUST be applied (in order) to just those addresses that are tied
//# to break the tie.
#[test]
fn each_rule_alone() {
    for (destination, candidates, best) in [
        (
            "2001:db8::9",
            &["2001:db8::1!", "2001:db8::2"][..],
            "2001:db8::2",
        ),
        ("fd00::9", &["2001:db8::1", "fd00:1::1"], "fd00:1::1"),
        ("ff02::1", &["2001:db8::1", "fe80::1"], "fe80::1"),
        ("2001:db8::9", &["fe80::1"], "fe80::1"),
        ("fe80::9", &["2001:db8::1", "fec0::1"], "fec0::1"),
    ] {
        assert_eq!(chosen(destination, candidates), best, "to {destination}");
    }
    for (address, is) in [
        ("ff01::1", 1),
        ("ff0e::1", 14),
        ("fe80::1", 2),
        ("fec0::1", 5),
        ("::1", 2),
    ] {
        assert_eq!(scope(address.parse().expect("an address")), is, "{address}");
    }
}
