//! What a server granted.

use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use gannet_base::{Instant, Rng};
use gannet_wire::dhcpv4::{DhcpOption, Options, addresses};

/// Most routers, and most name servers, that are kept.
const LIST_MAX: usize = 8;

/// The soonest that a renewal is believed to be wanted, for leases that are long enough.
const RENEW_LEAST: Duration = Duration::from_secs(60);

/// An address and what comes with it, until it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Our address.
    pub address: Ipv4Addr,
    /// Leading bits that are the network's.
    pub prefix_len: u8,
    /// Routers, the preferred first; at most 8.
    pub routers: Vec<Ipv4Addr>,
    /// Name servers, the preferred first; at most 8.
    pub dns_servers: Vec<Ipv4Addr>,
    /// The MTU that the server wants, in bytes; at least 68.
    pub mtu: Option<u16>,
    /// The server that granted it.
    pub server: Ipv4Addr,
    /// T1: when that server is asked for more time.
    pub renew_at: Instant,
    /// T2: when every server is asked.
    pub rebind_at: Instant,
    /// When it ends; [`Instant::FAR_FUTURE`]: never.
    pub expires_at: Instant,
}

/// Whether an address can be one host's.
pub(super) const fn is_usable(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}

impl Lease {
    /// Reads what an acknowledgement of `address` grants, for a request sent at `requested`;
    /// `None` when it lacks the server or a lease time, or the address is none.
    pub(super) fn read(
        address: Ipv4Addr,
        options: &Options<'_>,
        requested: Instant,
        rng: &mut Rng,
    ) -> Option<Self> {
        let (mut mask, mut mtu) = (None, None);
        let (mut total, mut t1, mut t2) = (None, None, None);
        let (mut routers, mut dns_servers) = (Vec::new(), Vec::new());
        let mut server = None;
        for option in options.clone() {
            match option {
                DhcpOption::SubnetMask(value) => mask = Some(value),
                DhcpOption::Routers(list) => extend(&mut routers, list),
                DhcpOption::DnsServers(list) => extend(&mut dns_servers, list),
                DhcpOption::Mtu(value) if value >= 68 => mtu = Some(value),
                DhcpOption::ServerId(value) => server = Some(value),
                DhcpOption::LeaseTime(value) => total = Some(value),
                DhcpOption::RenewalTime(value) => t1 = Some(value),
                DhcpOption::RebindingTime(value) => t2 = Some(value),
                _ => {}
            }
        }
        let total = total.filter(|&seconds| seconds > 0)?;
        if !is_usable(address) {
            return None;
        }
        let times = Times::new(total, t1, t2, rng);
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.1
        //# The client records the lease expiration time as the sum of the time at which the
        //# original request was sent and the duration of the lease from the DHCPACK message.
        let at = |after: Option<Duration>| after.map_or(Instant::FAR_FUTURE, |d| requested + d);
        Some(Lease {
            address,
            prefix_len: mask.and_then(prefix_of).unwrap_or_else(|| natural(address)),
            routers,
            dns_servers,
            mtu,
            server: server?,
            renew_at: at(times.renew),
            rebind_at: at(times.rebind),
            expires_at: at(times.total),
        })
    }
}

/// Durations from the request on; `None`: for ever.
struct Times {
    renew: Option<Duration>,
    rebind: Option<Duration>,
    total: Option<Duration>,
}

impl Times {
    /// What the server says as long as it makes sense, else half and seven eighths of the lease, a
    /// little sooner at random.
    fn new(total: u32, t1: Option<u32>, t2: Option<u32>, rng: &mut Rng) -> Self {
        if total == u32::MAX {
            let (renew, rebind, total) = (None, None, None);
            return Times {
                renew,
                rebind,
                total,
            };
        }
        let whole = Duration::from_secs(u64::from(total));
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
        //# Times T1 and T2 SHOULD be chosen with some random "fuzz" around a fixed value, to avoid
        //# synchronization of client reacquisition.
        let mut sooner = |of: Duration| {
            let spread = u64::try_from(whole.as_nanos() / 32).unwrap_or(u64::MAX);
            of.saturating_sub(Duration::from_nanos(rng.below(spread)))
        };
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
        //# T1 MUST be earlier than T2, which, in turn, MUST be earlier than the time at which the
        //# client's lease will expire.
        let seconds = |value: u32| Duration::from_secs(u64::from(value));
        // A server that says "at once" would be asked without end.
        let least = (whole / 4).min(RENEW_LEAST);
        let told = t2.map(seconds);
        let told = told.filter(|&t2| t2 < whole && t2 >= least * 2);
        let rebind = told.unwrap_or_else(|| sooner(whole * 7 / 8));
        let told = t1.map(seconds).filter(|&t1| t1 < rebind && t1 >= least);
        let renew = told
            .unwrap_or_else(|| sooner(whole / 2))
            .min(rebind * 7 / 8);
        Times {
            renew: Some(renew),
            rebind: Some(rebind),
            total: Some(whole),
        }
    }
}

fn extend(list: &mut Vec<Ipv4Addr>, bytes: &[u8]) {
    let room = LIST_MAX.saturating_sub(list.len());
    list.extend(addresses(bytes).filter(|&a| is_usable(a)).take(room));
}

/// The length of a mask whose ones all come first.
fn prefix_of(mask: Ipv4Addr) -> Option<u8> {
    let bits = mask.to_bits();
    let len = bits.leading_ones();
    (bits.count_ones() == len && len > 0).then_some(len as u8)
}

/// The network's bits by the address's class (RFC 791), for servers that give no mask.
const fn natural(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}
