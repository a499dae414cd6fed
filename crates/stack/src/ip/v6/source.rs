//! The choice of a source address (RFC 6724 section 5): pure, so that the RFC's examples are a
//! table.
//!
//! Rule 4 (home addresses) and 7 (temporary ones) compare what we do not have; rule 5 is kept by
//! offering only the addresses of the link that packets leave by.

use core::net::Ipv6Addr;

/// An address that could be the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The address.
    pub(super) address: Ipv6Addr,
    /// Its preferred lifetime is over.
    pub(super) deprecated: bool,
}

/// The best source for packets to `destination`, `None` without candidates.
pub(super) fn choose(
    candidates: impl Iterator<Item = Candidate>,
    destination: Ipv6Addr,
) -> Option<Ipv6Addr> {
    let better = |a: Candidate, b: Candidate| match prefers(&b, &a, destination) {
        true => b,
        false => a,
    };
    candidates.reduce(better).map(|c| c.address)
}

/// Whether `a` is to be preferred over `b`: the first rule that tells them apart decides.
//= https://www.rfc-editor.org/rfc/rfc6724#section-5
//# In the case that a given rule produces a tie, i.e., provides an "equal to" result for the two
//# addresses, the remaining rules MUST be applied (in order) to just those addresses that are tied
//# to break the tie.
fn prefers(a: &Candidate, b: &Candidate, destination: Ipv6Addr) -> bool {
    //= https://www.rfc-editor.org/rfc/rfc6724#section-5
    //# Rule 1: Prefer same address.
    let same = (a.address == destination, b.address == destination);
    if same.0 != same.1 {
        return same.0;
    }
    //= https://www.rfc-editor.org/rfc/rfc6724#section-5
    //# Rule 2: Prefer appropriate scope.
    let to = scope(destination);
    let (of_a, of_b) = (scope(a.address), scope(b.address));
    if of_a != of_b {
        return match of_a < of_b {
            true => of_a >= to,
            false => of_b < to,
        };
    }
    //= https://www.rfc-editor.org/rfc/rfc6724#section-5
    //# Rule 3: Avoid deprecated addresses.
    if a.deprecated != b.deprecated {
        return b.deprecated;
    }
    //= https://www.rfc-editor.org/rfc/rfc6724#section-5
    //# Rule 6: Prefer matching label.
    let wanted = label(destination);
    let matching = (label(a.address) == wanted, label(b.address) == wanted);
    if matching.0 != matching.1 {
        return matching.0;
    }
    //= https://www.rfc-editor.org/rfc/rfc6724#section-5
    //# Rule 8: Use longest matching prefix.
    common_prefix(a.address, destination) > common_prefix(b.address, destination)
}

/// The scope of an address (RFC 6724 section 3.1), as multicast addresses write it: link-local 2,
/// site-local 5, global 14.
//= https://www.rfc-editor.org/rfc/rfc6724#section-3.4
//# The loopback address MUST be treated as having link-local scope (Section 4 of [RFC4007]) and
//# "preferred" (in the RFC 4862 sense) configuration status.
//= https://www.rfc-editor.org/rfc/rfc6724#section-3.3
//# For the purposes of this document, these addresses MUST be treated as having global scope.
pub(super) fn scope(address: Ipv6Addr) -> u8 {
    let [first, second, ..] = address.octets();
    match address {
        a if a.is_multicast() => second & 0xf,
        a if a.is_unicast_link_local() || a.is_loopback() => 0x2,
        _ if first == 0xfe && second & 0xc0 == 0xc0 => 0x5,
        //= https://www.rfc-editor.org/rfc/rfc6724#section-3.4
        //# NSAP addresses and other addresses with as-yet-undefined format prefixes MUST be treated
        //# as having global scope and "preferred" (in the RFC 4862) configuration status.
        _ => 0xe,
    }
}

/// The default policy table's labels (RFC 6724 section 2.1).
fn label(address: Ipv6Addr) -> u8 {
    let bits = address.to_bits();
    let within = |prefix: u128, len: u32| (bits ^ prefix).leading_zeros() >= len;
    match () {
        () if bits == 1 => 0,
        () if within(0xffff << 32, 96) => 4,
        () if within(0, 96) => 3,
        () if within(0x2001 << 112, 32) => 5,
        () if within(0x2002 << 112, 16) => 2,
        () if within(0x3ffe << 112, 16) => 12,
        () if within(0xfec0 << 112, 10) => 11,
        () if within(0xfc00 << 112, 7) => 13,
        () => 1,
    }
}

/// Leading bits in common, at most the 64 of the source's prefix (RFC 6724 section 2.2).
fn common_prefix(source: Ipv6Addr, destination: Ipv6Addr) -> u32 {
    let differ = source.to_bits() ^ destination.to_bits();
    differ.leading_zeros().min(64)
}
