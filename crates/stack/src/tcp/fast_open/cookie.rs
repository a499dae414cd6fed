//! Fast Open cookies (RFC 7413 section 4.1.2): a keyed hash of both addresses and the time.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use gannet_base::Instant;
use gannet_wire::tcp::FastOpenCookie;

use crate::hash::{FourTuple, HashKey, Purpose};

/// A cookie made in one period is taken in this and the next: it lives for half a day to a day.
const PERIOD: Duration = Duration::from_secs(12 * 3600);

/// The cookie that a client is given now. `ends`: our address and the client's.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.2
//# The
//# cookie SHOULD be a MAC tag with the following properties.
pub(super) fn make(key: &HashKey, ends: (IpAddr, IpAddr), now: Instant) -> FastOpenCookie {
    of_period(key, ends, period(now))
}

/// Whether we gave this cookie to this client, and not too long ago.
pub(super) fn is_valid(
    key: &HashKey,
    ends: (IpAddr, IpAddr),
    cookie: &FastOpenCookie,
    now: Instant,
) -> bool {
    let current = period(now);
    let earlier = current.checked_sub(1);
    let mut made = earlier.into_iter().chain([current]);
    made.any(|period| of_period(key, ends, period) == *cookie)
}

fn of_period(key: &HashKey, (local, remote): (IpAddr, IpAddr), period: u64) -> FastOpenCookie {
    let ends = FourTuple {
        local: SocketAddr::new(local, 0),
        remote: SocketAddr::new(remote, 0),
    };
    let mut bytes = [0; 36 + 8];
    let (addresses, time) = bytes.split_at_mut(36);
    addresses.copy_from_slice(&ends.bytes());
    time.copy_from_slice(&period.to_be_bytes());
    let hash = key.hash(Purpose::FastOpen, &bytes);
    FastOpenCookie::new(&hash.to_be_bytes()).unwrap_or_default()
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / PERIOD.as_nanos() as u64
}
