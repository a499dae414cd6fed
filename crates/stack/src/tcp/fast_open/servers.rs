//! What a client knows about servers (RFC 7413 sections 4.1.3 and 4.1.3.1). Bounded.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use hashbrown::HashMap;

use gannet_base::Instant;
use gannet_wire::tcp::FastOpenCookie;

use crate::hash::{HashKey, KeyedState};

/// How long a server is left in peace after its first failure; twice as long after each other.
const PAUSE: Duration = Duration::from_secs(60);
/// After this many failures the pause grows no more: about an hour.
const STRIKES_MAX: u8 = 6;

/// Our address and the server's, with its port.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3.1
//# Since TFO is enabled on a per-service-port
//# basis, but cookies are independent of service ports, the client's
//# cache should include remote port numbers, too.
pub(in crate::tcp) type Key = (IpAddr, SocketAddr);

#[derive(Clone, Copy, Debug, Default)]
struct Server {
    cookie: Option<FastOpenCookie>,
    /// What it said it accepts; 0: nothing.
    mss: u16,
    /// Fast Open is not tried before.
    not_before: Instant,
    /// Failures in a row.
    strikes: u8,
    /// When it was last asked about.
    used: u64,
}

/// Every server that is remembered.
pub(in crate::tcp) struct Servers {
    most: usize,
    known: HashMap<Key, Server, KeyedState>,
    asked: u64,
}

impl Servers {
    pub(in crate::tcp) fn new(key: HashKey, most: usize) -> Self {
        Servers {
            most,
            known: HashMap::with_hasher(KeyedState::new(key)),
            asked: 0,
        }
    }

    /// What the option of a SYN to this server says, and what the server accepts (0: unknown);
    /// `None`: no Fast Open for now.
    pub(super) fn advice(&mut self, key: &Key, now: Instant) -> Option<(FastOpenCookie, u16)> {
        self.asked += 1;
        let Some(server) = self.known.get_mut(key) else {
            return Some((FastOpenCookie::REQUEST, 0));
        };
        server.used = self.asked;
        if now < server.not_before {
            return None;
        }
        let cookie = server.cookie.unwrap_or(FastOpenCookie::REQUEST);
        Some((cookie, server.mss))
    }

    /// It gave a cookie.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3
    //# The client MUST cache cookies from servers for later Fast Open
    //# connections.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3
    //# Hence, the client should cache
    //# at most one (most recently received) cookie per client and server IP
    //# address pair.
    pub(super) fn gave(&mut self, key: &Key, cookie: FastOpenCookie, mss: u16) {
        let server = self.server(key);
        (server.cookie, server.mss) = (Some(cookie), mss);
    }

    /// It took the data.
    pub(super) fn took(&mut self, key: &Key) {
        let server = self.server(key);
        (server.strikes, server.not_before) = (0, Instant::ZERO);
    }

    /// It, or the path to it, did not.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3.1
    //# The client MUST cache negative responses from the server in order to
    //# avoid potential connection failures.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3.1
    //# For any negative responses, the client SHOULD disable Fast Open on
    //# the specific path (the source and destination IP addresses and ports)
    //# at least temporarily.
    pub(in crate::tcp) fn failed(&mut self, key: &Key, now: Instant) {
        let server = self.server(key);
        server.not_before = now + PAUSE.saturating_mul(1 << server.strikes);
        server.strikes = (server.strikes + 1).min(STRIKES_MAX);
    }

    fn server(&mut self, key: &Key) -> &mut Server {
        if self.known.len() >= self.most.max(1) && !self.known.contains_key(key) {
            let oldest = self.known.iter().min_by_key(|(_, s)| s.used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.known.remove(&oldest);
            }
        }
        let used = self.asked;
        let server = self.known.entry(*key).or_default();
        server.used = used;
        server
    }

    /// Number of servers.
    #[cfg(test)]
    pub(in crate::tcp) fn len(&self) -> usize {
        self.known.len()
    }
}
