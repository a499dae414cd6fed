//! Keyed hashing: whoever does not know the key can neither predict an initial sequence number
//! nor fill one bucket of a table. SipHash-1-3 (Aumasson and Bernstein; what Linux uses for flows).

use core::hash::{BuildHasher, Hasher};
use core::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher13;

/// 128 secret random bits, drawn once per host.
#[derive(Clone, Copy)]
//= https://www.rfc-editor.org/rfc/rfc7217#section-5
//# F(): A pseudorandom function (PRF) that MUST NOT be computable from the outside (without
//# knowledge of the secret key).
//= https://www.rfc-editor.org/rfc/rfc7217#section-5
//# F() MUST also be difficult to reverse, such that it resists attempts to obtain the secret_key,
//# even when given samples of the output of F() and knowledge or control of the other input
//# parameters.
//= https://www.rfc-editor.org/rfc/rfc6528#section-3
//# F() MUST NOT be computable from the outside, or an attacker could still guess at sequence
//# numbers from the ISN used for some other connection.
pub struct HashKey([u8; 16]);

impl HashKey {
    /// Wraps 16 random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        HashKey(bytes)
    }

    /// Hash of `bytes` for one purpose; different purposes give unrelated hashes of equal bytes.
    #[must_use]
    pub fn hash(&self, purpose: Purpose, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write_u8(purpose as u8);
        hasher.write(bytes);
        hasher.finish()
    }
}

impl core::fmt::Debug for HashKey {
    /// Never prints the key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

/// What a hash is for. One key serves all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Initial sequence numbers.
    InitialSequence = 1,
    /// Time stamp offsets.
    TimestampOffset = 2,
    /// Ephemeral ports: where to start.
    PortOffset = 3,
    /// Ephemeral ports: which counter.
    PortCounter = 4,
    /// Choice of a shard or a table's bucket.
    Flow = 5,
    /// SYN cookies.
    SynCookie = 6,
    /// Identifications of datagrams in fragments.
    FragmentIdent = 7,
    /// Cookies of TCP Fast Open (RFC 7413).
    FastOpen = 8,
    /// Interface identifiers (RFC 7217).
    InterfaceIdentifier = 17,
    /// Flow labels (RFC 6437).
    FlowLabel = 18,
}

/// Both ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FourTuple {
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// The flow label of its packets (RFC 6437 section 3): 20 bits, never 0; 0 for IPv4.
    //= https://www.rfc-editor.org/rfc/rfc6437#section-3
    //# It is therefore RECOMMENDED that source hosts support the flow label by setting the flow
    //# label field for all packets of a given flow to the same value chosen from an approximation
    //# to a discrete uniform distribution.
    #[must_use]
    pub fn flow_label(&self, key: &HashKey) -> u32 {
        if self.local.is_ipv4() {
            return 0;
        }
        let label = key.hash(Purpose::FlowLabel, &self.bytes()) as u32 & 0x000f_ffff;
        label.max(1)
    }

    /// Unambiguous bytes of the tuple: both addresses in 16 bytes (IPv4 mapped), both ports.
    #[must_use]
    pub fn bytes(&self) -> [u8; 36] {
        let mut out = [0; 36];
        let (local, rest) = out.split_at_mut(16);
        let (remote, ports) = rest.split_at_mut(16);
        local.copy_from_slice(&address_bytes(self.local.ip()));
        remote.copy_from_slice(&address_bytes(self.remote.ip()));
        let (l, r) = (
            self.local.port().to_be_bytes(),
            self.remote.port().to_be_bytes(),
        );
        ports.copy_from_slice(&[l[0], l[1], r[0], r[1]]);
        out
    }
}

fn address_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Makes hash tables keyed: `hashbrown::HashMap<K, V, KeyedState>`.
#[derive(Clone, Debug)]
pub struct KeyedState(HashKey);

impl KeyedState {
    /// Hashes with this key.
    #[must_use]
    pub const fn new(key: HashKey) -> Self {
        Self(key)
    }
}

impl BuildHasher for KeyedState {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        let mut hasher = SipHasher13::new_with_key(&self.0.0);
        hasher.write_u8(Purpose::Flow as u8);
        hasher
    }
}

#[cfg(test)]
mod tests;
