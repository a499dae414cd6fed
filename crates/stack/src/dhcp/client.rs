//! The client's state machine (RFC 2131 figure 5).
//!
//! ```text
//!  Init -DISCOVER-> Selecting -OFFER-> Requesting -ACK-> Probing -silence-> Bound
//!   ^ ^                                    |                |                | T1
//!   | +---------------NAK, silence---------+                |             Renewing -ACK-> Bound
//!   +-------------------------DECLINE, 10 s-----------------+                | T2
//!   +-------------------------NAK, expiry------------------------------- Rebinding -ACK-> Bound
//! ```
//!
//! With a known address it begins as Rebooting, which goes on like Requesting. The caller asks
//! [`Client::poll`] for what to do until there is nothing, when [`Client::due`] has come and after
//! every message or conflict.

use core::net::Ipv4Addr;
use core::time::Duration;

use gannet_base::{Instant, Rng};
use gannet_wire::MacAddr;
use gannet_wire::dhcpv4::{Header, MessageType, Options};

use super::lease::{Lease, is_usable};
use super::message::Message;
use crate::config::{ClientIdentifier, DhcpConfig};

/// How long after a conflict, or a refusal, the client begins again.
const AFTER_CONFLICT: Duration = Duration::from_secs(10);
const AFTER_REFUSAL: Duration = Duration::from_secs(1);
/// The shortest time between requests for more time.
const RENEW_MIN: Duration = Duration::from_secs(60);

/// A DHCP client for one interface.
#[derive(Debug)]
pub struct Client {
    config: DhcpConfig,
    /// The interface's hardware address, or one of the identifier's.
    mac: MacAddr,
    identifier: Option<ClientIdentifier>,
    rng: Rng,
    state: State,
    /// What is in use.
    lease: Option<Lease>,
    /// No longer in use, and nobody was told yet.
    lost: Option<Lease>,
    /// In use, and nobody was told yet.
    gained: bool,
    xid: u32,
    /// When the client began to look for an address; `None` until it does.
    began: Option<Instant>,
    secs: u16,
    /// When the last request was sent.
    requested: Instant,
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the first `len` bytes of the buffer from port 68 to port 67.
    Send {
        /// Bytes of the message.
        len: usize,
        /// To whom.
        to: Destination,
    },
    /// Ask by ARP, with no address as sender, who has this address; report [`Client::conflict`]
    /// when somebody has.
    Probe(Ipv4Addr),
    /// From now on use what the lease says.
    Use(Lease),
    /// Stop using it, at once.
    Stop(Lease),
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// From this address (0.0.0.0 without one) to 255.255.255.255 and every station.
    Broadcast {
        /// The source.
        from: Ipv4Addr,
    },
    /// To one server, from the client's address.
    Server {
        /// The source.
        from: Ipv4Addr,
        /// The server.
        server: Ipv4Addr,
    },
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No DHCP message, or one without what its kind needs.
    Malformed,
    /// For another client, from another server, or at another time.
    Unexpected,
}

/// The client's state by name, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateName {
    /// Waits before it begins.
    Init,
    /// Looks for servers.
    Selecting,
    /// Asked one for what it offered.
    Requesting,
    /// Asked for the address it had before.
    Rebooting,
    /// Looks whether anybody else has the address.
    Probing,
    /// Has an address.
    Bound,
    /// Has an address, and asked its server for more time.
    Renewing,
    /// Has an address, and asked every server for more time.
    Rebinding,
    /// Gave the address back, or is about to.
    Released,
}

#[derive(Clone, Debug)]
enum State {
    Init {
        at: Instant,
    },
    Selecting {
        retry: Retry,
    },
    Requesting {
        address: Ipv4Addr,
        /// `None`: the address is the one before a restart, and any server may confirm it.
        server: Option<Ipv4Addr>,
        retry: Retry,
    },
    Probing {
        lease: Lease,
        sent: u8,
        at: Instant,
    },
    Declining {
        address: Ipv4Addr,
        server: Ipv4Addr,
    },
    Bound,
    Renewing {
        at: Instant,
    },
    Rebinding {
        at: Instant,
    },
    Releasing,
    Released,
}

/// When to send again, and how often that was done.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    sent: u8,
}

impl Retry {
    const fn now(at: Instant) -> Self {
        Retry { at, sent: 0 }
    }
}

impl Client {
    /// A client that begins when it is first polled. Servers know it by `identifier`, without one
    /// by its hardware address. `previous` is the address that it had before, if it may still be
    /// its own.
    pub fn new(
        config: DhcpConfig,
        (mac, identifier): (MacAddr, Option<ClientIdentifier>),
        seed: u64,
        previous: Option<Ipv4Addr>,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let xid = rng.next_u32();
        let state = match previous.filter(|&a| is_usable(a) && !(config.is_taken)(a)) {
            Some(address) => State::Requesting {
                address,
                server: None,
                retry: Retry::now(Instant::ZERO),
            },
            None => State::Init { at: Instant::ZERO },
        };
        Client {
            config,
            mac,
            identifier,
            rng,
            state,
            lease: None,
            lost: None,
            gained: false,
            xid,
            began: None,
            secs: 0,
            requested: Instant::ZERO,
        }
    }

    /// What is in use.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The state.
    pub fn state(&self) -> StateName {
        match &self.state {
            State::Init { .. } | State::Declining { .. } => StateName::Init,
            State::Selecting { .. } => StateName::Selecting,
            State::Requesting { server: None, .. } => StateName::Rebooting,
            State::Requesting { .. } => StateName::Requesting,
            State::Probing { .. } => StateName::Probing,
            State::Bound => StateName::Bound,
            State::Renewing { .. } => StateName::Renewing,
            State::Rebinding { .. } => StateName::Rebinding,
            State::Releasing | State::Released => StateName::Released,
        }
    }

    /// When [`Client::poll`] has something to do; `None`: never by itself.
    pub fn due(&self) -> Option<Instant> {
        if self.lost.is_some() || self.gained {
            return Some(Instant::ZERO);
        }
        let lease = self.lease.as_ref();
        let own = match &self.state {
            State::Init { at } => Some(*at),
            State::Selecting { retry } | State::Requesting { retry, .. } => Some(retry.at),
            State::Probing { at, .. } => Some(*at),
            State::Declining { .. } | State::Releasing => Some(Instant::ZERO),
            State::Bound => lease.map(|l| l.renew_at),
            State::Renewing { at } => lease.map(|l| l.rebind_at.min(*at)),
            State::Rebinding { at } => Some(*at),
            State::Released => None,
        };
        // While another address is tried, the one in use can run out.
        let expires = lease.map(|l| l.expires_at);
        own.into_iter()
            .chain(expires)
            .min()
            .filter(|&at| at != Instant::FAR_FUTURE)
    }

    /// What is to be done at `now`, one after the other; messages are written to `out`, which
    /// should have room for 548 bytes.
    pub fn poll(&mut self, now: Instant, out: &mut [u8]) -> Option<Action> {
        if let Some(lease) = self.lost.take() {
            return Some(Action::Stop(lease));
        }
        if core::mem::take(&mut self.gained)
            && let Some(lease) = &self.lease
        {
            return Some(Action::Use(lease.clone()));
        }
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
        //# If the lease expires before the client receives a DHCPACK, the client moves to INIT
        //# state, MUST immediately stop any other network processing and requests network
        //# initialization parameters as if the client were uninitialized.
        if self.lease.as_ref().is_some_and(|l| l.expires_at <= now) {
            self.lost = self.lease.take();
            self.state = State::Init { at: now };
            return self.lost.take().map(Action::Stop);
        }
        self.expire(now, out)
    }

    /// The state's own time has come.
    fn expire(&mut self, now: Instant, out: &mut [u8]) -> Option<Action> {
        match self.state.clone() {
            State::Init { .. } if self.began.is_none() && !self.config.start_delay.is_zero() => {
                self.began = Some(now);
                let at = now + self.random(self.config.start_delay);
                self.state = State::Init { at };
                None
            }
            //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
            //# A DHCP client MUST choose 'xid's in such a way as to minimize the chance of using an
            //# 'xid' identical to one used by another client.
            State::Init { .. } => {
                self.xid = self.rng.next_u32();
                self.discover(now, Retry::now(now), out)
            }
            State::Selecting { retry } => self.discover(now, retry, out),
            State::Requesting {
                address,
                server,
                retry,
            } => self.request(now, (address, server), retry, out),
            State::Probing { lease, sent, .. } => self.probe(now, lease, sent),
            State::Declining { address, server } => self.decline(now, (address, server), out),
            State::Bound | State::Renewing { .. } | State::Rebinding { .. } => {
                self.prolong(now, out)
            }
            State::Releasing => self.give_back(now, out),
            State::Released => None,
        }
    }

    fn discover(&mut self, now: Instant, retry: Retry, out: &mut [u8]) -> Option<Action> {
        self.secs = self.since_beginning(now);
        let retry = self.again(now, retry);
        self.state = State::Selecting { retry };
        let message = self.message(MessageType::DISCOVER, None, None);
        self.broadcast(&message, out)
    }

    fn request(
        &mut self,
        now: Instant,
        (address, server): (Ipv4Addr, Option<Ipv4Addr>),
        retry: Retry,
        out: &mut [u8],
    ) -> Option<Action> {
        //= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
        //# The client should choose to retransmit the DHCPREQUEST enough times to give adequate
        //# probability of contacting the server without causing the client (and the user of that
        //# client) to wait overly long before giving up;
        if retry.sent >= self.config.request_tries {
            self.state = State::Init { at: now };
            return self.expire(now, out);
        }
        if server.is_none() {
            self.secs = self.since_beginning(now);
        }
        self.requested = now;
        let retry = self.again(now, retry);
        self.state = State::Requesting {
            address,
            server,
            retry,
        };
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.2
        //# The client MUST insert its known network address as a 'requested IP address' option in
        //# the DHCPREQUEST message.
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.2
        //# The client MUST NOT include a 'server identifier' in the DHCPREQUEST message.
        //= https://www.rfc-editor.org/rfc/rfc2131#section-3.2
        //# As the client has not received its network address, it MUST NOT fill in the 'ciaddr'
        //# field.
        let message = self.message(MessageType::REQUEST, Some(address), server);
        self.broadcast(&message, out)
    }

    //= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
    //# The client SHOULD perform a final check on the parameters (e.g., ARP for allocated network
    //# address), and notes the duration of the lease specified in the DHCPACK message.
    fn probe(&mut self, now: Instant, lease: Lease, sent: u8) -> Option<Action> {
        if sent < self.config.probes {
            let address = lease.address;
            let at = now + self.config.probe_interval;
            let sent = sent + 1;
            self.state = State::Probing { lease, sent, at };
            return Some(Action::Probe(address));
        }
        self.state = State::Bound;
        self.lease = Some(lease.clone());
        Some(Action::Use(lease))
    }

    //= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
    //# If the client detects that the address is already in use (e.g., through the use of ARP),
    //# the client MUST send a DHCPDECLINE message to the server and restarts the configuration
    //# process.
    fn decline(
        &mut self,
        now: Instant,
        (address, server): (Ipv4Addr, Ipv4Addr),
        out: &mut [u8],
    ) -> Option<Action> {
        //= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
        //# The client SHOULD wait a minimum of ten seconds before restarting the configuration
        //# process to avoid excessive network traffic in case of looping.
        //= https://www.rfc-editor.org/rfc/rfc5227#section-2.1.1
        //# A host implementing this specification MUST take precautions to limit the rate at which
        //# it probes for new candidate addresses: if the host experiences MAX_CONFLICTS or more
        //# address conflicts on a given interface, then the host MUST limit the rate at which it
        //# probes for new addresses on this interface to no more than one attempted new address per
        //# RATE_LIMIT_INTERVAL.
        let at = now + AFTER_CONFLICT;
        self.state = State::Init { at };
        let message = self.message(MessageType::DECLINE, Some(address), Some(server));
        self.broadcast(&message, out)
    }

    /// Asks for more time: the lease's server from T1 on, everybody from T2 on.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
    //# The client MUST NOT include a 'server identifier' in the DHCPREQUEST message.
    fn prolong(&mut self, now: Instant, out: &mut [u8]) -> Option<Action> {
        let lease = self.lease.as_ref()?;
        let (own, server) = (lease.address, lease.server);
        let (rebind_at, expires_at) = (lease.rebind_at, lease.expires_at);
        if matches!(self.state, State::Bound) {
            self.xid = self.rng.next_u32();
            self.secs = 0;
        }
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
        //# In both RENEWING and REBINDING states, if the client receives no response to its
        //# DHCPREQUEST message, the client SHOULD wait one-half of the remaining time until T2 (in
        //# RENEWING state) and one-half of the remaining lease time (in REBINDING state), down to
        //# a minimum of 60 seconds, before retransmitting the DHCPREQUEST message.
        let half_way = |end: Instant| {
            let left = end.saturating_duration_since(now);
            now + (left / 2).max(RENEW_MIN)
        };
        let to = if now < rebind_at {
            let at = half_way(rebind_at);
            self.state = State::Renewing { at };
            //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
            //# DHCP clients MUST use the IP address provided in the 'server identifier' option for
            //# any unicast requests to the DHCP server.
            Destination::Server { from: own, server }
        } else {
            let at = half_way(expires_at);
            self.state = State::Rebinding { at };
            Destination::Broadcast { from: own }
        };
        self.requested = now;
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
        //# The client MUST NOT include a 'server identifier' in the DHCPREQUEST message.
        let message = Message {
            own,
            ..self.message(MessageType::REQUEST, None, None)
        };
        let len = self.write(&message, out)?;
        Some(Action::Send { len, to })
    }

    fn give_back(&mut self, _now: Instant, out: &mut [u8]) -> Option<Action> {
        self.state = State::Released;
        self.lost = self.lease.take();
        let lease = self.lost.as_ref()?;
        let (from, server) = (lease.address, lease.server);
        self.xid = self.rng.next_u32();
        let message = Message {
            own: from,
            secs: 0,
            ..self.message(MessageType::RELEASE, None, Some(server))
        };
        let len = self.write(&message, out)?;
        let to = Destination::Server { from, server };
        Some(Action::Send { len, to })
    }

    /// A message came to port 68.
    ///
    /// # Errors
    /// [`Refused`]: it changes nothing.
    pub fn arrives(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Refused> {
        let (header, options) = Header::parse(bytes).map_err(|_| Refused::Malformed)?;
        if header.to_server || header.xid != self.xid || header.chaddr != self.mac {
            return Err(Refused::Unexpected);
        }
        let kind = options.message_type().ok_or(Refused::Malformed)?;
        let server = options.server_id().ok_or(Refused::Malformed)?;
        match kind {
            MessageType::OFFER => self.offered(now, header.yiaddr, server),
            MessageType::ACK => self.acknowledged(now, header.yiaddr, &options, server),
            MessageType::NAK => self.refused(now, server),
            _ => Err(Refused::Unexpected),
        }
    }

    /// The first offer is taken.
    fn offered(
        &mut self,
        now: Instant,
        address: Ipv4Addr,
        server: Ipv4Addr,
    ) -> Result<(), Refused> {
        if !matches!(self.state, State::Selecting { .. }) {
            return Err(Refused::Unexpected);
        }
        if !is_usable(address) {
            return Err(Refused::Malformed);
        }
        if (self.config.is_taken)(address) {
            return self.take_own_hardware_address(now);
        }
        self.state = State::Requesting {
            address,
            server: Some(server),
            retry: Retry::now(now),
        };
        Ok(())
    }

    /// The server offers what another part of this machine has: it knows clients by their hardware
    /// address, whatever they call themselves. From now on this client has another one in its
    /// messages; answers to it are broadcast.
    fn take_own_hardware_address(&mut self, now: Instant) -> Result<(), Refused> {
        let own = self.identifier.map(|id| MacAddr(id.hardware_address()));
        let own = own.filter(|own| *own != self.mac);
        self.mac = own.ok_or(Refused::Unexpected)?;
        self.state = State::Init { at: now };
        Ok(())
    }

    fn acknowledged(
        &mut self,
        now: Instant,
        address: Ipv4Addr,
        options: &Options<'_>,
        from: Ipv4Addr,
    ) -> Result<(), Refused> {
        self.expects_answer_of(from)?;
        if (self.config.is_taken)(address) {
            return Err(Refused::Unexpected);
        }
        let lease = Lease::read(address, options, self.requested, &mut self.rng);
        let lease = lease.ok_or(Refused::Malformed)?;
        if lease.expires_at <= now {
            return Err(Refused::Unexpected);
        }
        let prolonged = self.lease.as_ref().is_some_and(|l| l.address == address);
        if prolonged {
            self.state = State::Bound;
            self.gained = self.lease.as_ref() != Some(&lease);
            self.lease = Some(lease);
            return Ok(());
        }
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.5
        //# If the client is given a new network address, it MUST NOT continue using the previous
        //# network address and SHOULD notify the local users of the problem.
        self.lost = self.lease.take();
        self.state = State::Probing {
            lease,
            sent: 0,
            at: now,
        };
        Ok(())
    }

    fn refused(&mut self, now: Instant, from: Ipv4Addr) -> Result<(), Refused> {
        self.expects_answer_of(from)?;
        self.lost = self.lease.take();
        let at = now + AFTER_REFUSAL;
        self.state = State::Init { at };
        Ok(())
    }

    /// Whether a request waits for an answer, and this server may give it.
    fn expects_answer_of(&self, from: Ipv4Addr) -> Result<(), Refused> {
        let expected = match &self.state {
            State::Requesting {
                server: Some(server),
                retry,
                ..
            } => *server == from && retry.sent > 0,
            State::Requesting { retry, .. } => retry.sent > 0,
            State::Renewing { .. } => self.lease.as_ref().is_some_and(|l| l.server == from),
            State::Rebinding { .. } => true,
            _ => false,
        };
        expected.then_some(()).ok_or(Refused::Unexpected)
    }

    /// Another station has the address that is being probed.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-3.2
    //# If the client detects that the IP address in the DHCPACK message is already in use, the
    //# client MUST send a DHCPDECLINE message to the server and restarts the configuration process
    //# by requesting a new network address.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.4.1
    //# If the network address appears to be in use, the client MUST send a DHCPDECLINE message to
    //# the server.
    pub fn conflict(&mut self, address: Ipv4Addr) {
        if let State::Probing { lease, .. } = &self.state
            && lease.address == address
        {
            self.state = State::Declining {
                address,
                server: lease.server,
            };
        }
    }

    /// Gives the address back, if there is one, and stops.
    pub fn release(&mut self) {
        self.state = match self.lease {
            Some(_) => State::Releasing,
            None => State::Released,
        };
    }

    fn message(
        &self,
        kind: MessageType,
        requested: Option<Ipv4Addr>,
        server: Option<Ipv4Addr>,
    ) -> Message {
        Message {
            kind,
            xid: self.xid,
            secs: self.secs,
            own: Ipv4Addr::UNSPECIFIED,
            requested,
            server,
        }
    }

    fn write(&self, message: &Message, out: &mut [u8]) -> Option<usize> {
        match self.identifier {
            Some(identifier) => message.write(self.mac, &identifier.bytes(), out),
            None => {
                let [a, b, c, d, e, f] = self.mac.0;
                message.write(self.mac, &[1, a, b, c, d, e, f], out)
            }
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
    //# DHCP messages broadcast by a client prior to that client obtaining its IP address must have
    //# the source address field in the IP header set to 0.
    fn broadcast(&self, message: &Message, out: &mut [u8]) -> Option<Action> {
        let len = self.write(message, out)?;
        let from = Ipv4Addr::UNSPECIFIED;
        Some(Action::Send {
            len,
            to: Destination::Broadcast { from },
        })
    }

    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
    //# The client MUST adopt a retransmission strategy that incorporates a randomized exponential
    //# backoff algorithm to determine the delay between retransmissions.
    fn again(&mut self, now: Instant, retry: Retry) -> Retry {
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
        //# The retransmission delay SHOULD be doubled with subsequent retransmissions up to a
        //# maximum of 64 seconds.
        let doubled = 1_u32.checked_shl(u32::from(retry.sent)).unwrap_or(u32::MAX);
        let delay = self.config.retry_first.saturating_mul(doubled);
        let delay = delay.min(self.config.retry_max);
        // A quarter of the first delay more or less: 1 s of 4 s.
        let spread = self.config.retry_first / 4;
        let delay = delay.saturating_sub(spread) + self.random(spread * 2);
        Retry {
            at: now + delay,
            sent: retry.sent.saturating_add(1),
        }
    }

    fn random(&mut self, below: Duration) -> Duration {
        let bound = u64::try_from(below.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.below(bound))
    }

    fn since_beginning(&mut self, now: Instant) -> u16 {
        let began = *self.began.get_or_insert(now);
        let seconds = now.saturating_duration_since(began).as_secs();
        u16::try_from(seconds).unwrap_or(u16::MAX)
    }
}
