//! Everything that can be set, with its default, unit and cost.

use core::net::Ipv4Addr;
use core::time::Duration;

mod congestion;

pub use congestion::{CongestionControl, EcnMode, Pacing, UnknownCongestionControl};

/// Settings of a host's stack.
#[derive(Clone, Debug)]
pub struct Config {
    //= https://www.rfc-editor.org/rfc/rfc6528#section-4
    //# If random numbers are used as the sole source of the secret, they MUST be chosen in
    //# accordance with the recommendations given in [RFC4086].
    /// 128 secret random bits: sequence numbers, ports and table hashes are keyed with them. Draw
    /// them from the operating system, never from a clock.
    pub secret: [u8; 16],
    /// Seed for choices that need not be secret.
    pub seed: u64,
    /// Most frames taken from a link in one poll: bounds the work before timers get their turn.
    pub receive_budget: usize,
    /// IP.
    pub ip: IpConfig,
    /// IPv6 where it differs.
    pub ipv6: Ipv6Config,
    /// TCP.
    pub tcp: TcpConfig,
    /// UDP.
    pub udp: UdpConfig,
    /// The DHCP client.
    pub dhcp: DhcpConfig,
}

impl Config {
    /// Defaults, with the host's secret and seed.
    pub fn new(secret: [u8; 16], seed: u64) -> Self {
        Config {
            secret,
            seed,
            receive_budget: 64,
            ip: IpConfig::default(),
            ipv6: Ipv6Config::default(),
            tcp: TcpConfig::default(),
            udp: UdpConfig::default(),
            dhcp: DhcpConfig::default(),
        }
    }
}

/// Settings of IP. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct IpConfig {
    /// Memory for datagrams whose fragments have not all come, whole blocks counted; Linux's
    /// `ipfrag_high_thresh`. 0: fragments are thrown away.
    pub reassembly_memory: usize,
    /// How long IPv4 fragments wait for the others; Linux's `ipfrag_time`.
    pub reassembly_timeout_v4: Duration,
    /// How long IPv6 fragments wait for the others.
    pub reassembly_timeout_v6: Duration,
}

impl Default for IpConfig {
    fn default() -> Self {
        IpConfig {
            reassembly_memory: 4 << 20,
            reassembly_timeout_v4: Duration::from_secs(30),
            // RFC 8200 section 4.5.
            reassembly_timeout_v6: Duration::from_secs(60),
        }
    }
}

/// Settings of IPv6.
#[derive(Clone, Debug)]
pub struct Ipv6Config {
    /// How often an address is asked for before it is used, a second apart (RFC 4862's
    /// DupAddrDetectTransmits). 0: never, addresses are used at once.
    //= https://www.rfc-editor.org/rfc/rfc4862#section-5.1
    //# A node MUST allow the following autoconfiguration-related variable to be configured by
    //# system management for each multicast-capable interface:
    pub dad_transmits: u8,
}

impl Default for Ipv6Config {
    fn default() -> Self {
        Ipv6Config { dad_transmits: 1 }
    }
}

/// Settings of TCP. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Send buffer of a new connection: how much may be written and not yet acknowledged. Grows
    /// with the path, to two congestion windows, up to `send_buffer_max`.
    pub send_buffer: u32,
    /// Limit of that growth.
    pub send_buffer_max: u32,
    /// Receive buffer of a new connection; grows with the flow up to `receive_buffer_max`.
    pub receive_buffer: u32,
    /// Limit of the growth. Also decides the window scale, for a connection's whole life.
    pub receive_buffer_max: u32,
    /// Offer and accept windows beyond 65,535 bytes (RFC 7323 section 2). Off: for boxes on the
    /// path that spoil the option.
    pub window_scaling: bool,
    /// Offer and accept time stamps (RFC 7323 section 3): 12 bytes in every segment, for round
    /// trips measured in recoveries too and for old segments known as such.
    pub timestamps: bool,
    /// Offer and accept selective acknowledgements (RFC 2018). Off: one lost segment is found in a
    /// round trip.
    pub sack: bool,
    /// Small segments leave at once on a new connection, as with `TcpOption::NoDelay(true)`.
    pub nodelay: bool,
    /// Segments that may leave before the first acknowledgement, from 1; 10 is RFC 6928's number,
    /// whose bound on segments above 1460 bytes grows and shrinks with it.
    pub initial_window: u8,
    /// How long an acknowledgement may wait for company, at most 490 ms (RFC 9293: below 500).
    pub delayed_ack: Duration,
    /// Retransmission time-out before the first round trip is measured, of SYNs too; doubled each
    /// time. 1 ms to 60 s; RFC 6298: one second. Less sends needless copies where paths are long.
    pub initial_rto: Duration,
    /// Least time that a retransmission waits beyond the round trip. 1 ms to 60 s; RFC 6298 wants
    /// one second in all, Linux has 200 ms. Less repairs a lost tail sooner, and takes for lost
    /// what a peer acknowledges late: not below what peers may delay acknowledgements by.
    pub min_rto: Duration,
    /// Most bytes in a segment, both ways (announced in the SYN), whatever the link takes: for
    /// links whose tunnels do not say how narrow they are. `None`: as the link has it. Per
    /// connection: `TcpOption::MaxSegment`.
    pub max_segment: Option<u16>,
    /// How long a connection stays in TIME-WAIT (2 MSL).
    pub time_wait: Duration,
    /// How long an orphan waits for the peer's FIN in FIN-WAIT-2.
    pub fin_wait_2: Duration,
    /// How long what a closed connection has queued may stay without any progress: an application
    /// that has gone cannot give up itself, and a peer may keep its window closed for ever.
    pub orphan_timeout: Duration,
    /// Retransmissions of a SYN before giving up. RFC 9293 wants at least 3 minutes: 7 give 191 s.
    pub syn_retries: u8,
    /// Retransmissions of a SYN-ACK before giving up.
    pub syn_ack_retries: u8,
    /// Connections that may be half open at a time, per listener (about 128 bytes each): their SYNs
    /// are answered and remembered. See `syn_cookies` for what happens to more.
    pub syn_backlog: usize,
    /// What happens to a SYN beyond `syn_backlog`.
    pub syn_cookies: SynCookies,
    /// Retransmissions of data (R2) before giving up.
    pub data_retries: u8,
    /// Orphans: connections whose application has let go and which still deliver what it wrote.
    /// One more is reset.
    pub orphans_max: usize,
    /// Connections in TIME-WAIT (about 300 bytes each); one more ends the oldest.
    pub time_wait_max: usize,
    /// Connections in all, beyond which no more are made. One at rest takes less than a KiB.
    pub connections_max: usize,
    /// How long an established connection must have had nothing to do before most of its memory is
    /// given back: until something happens it takes less than a KiB. `Duration::MAX`: never.
    pub rest_after: Duration,
    /// Idle time before the first keep-alive probe, where keep-alive is on.
    pub keep_alive_idle: Duration,
    /// Time between keep-alive probes.
    pub keep_alive_interval: Duration,
    /// Unanswered probes after which the connection is given up.
    pub keep_alive_probes: u8,
    /// Limits of the user time-out where a peer has a say in it (RFC 5482).
    pub user_timeout: UserTimeoutConfig,
    /// Least time between two answers to doubtful segments (RFC 5961's challenge ACKs) of one
    /// connection; zero: every one is answered.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-7
    //# The time limit SHOULD be tunable to help timeout brute force attacks
    //# faster than a potential legitimate flood of RSTs.
    pub challenge_interval: Duration,
    /// Congestion control of a new connection.
    pub congestion: CongestionControl,
    /// Whether data leaves at a rate or in bursts, where the congestion control leaves the choice.
    pub pacing: Pacing,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// When larger segments are searched for by probes. A probe is new data in one large segment,
    /// whose loss is repaired without a smaller congestion window; it costs nothing until then.
    pub mtu_probing: MtuProbing,
    /// Data in the SYN (RFC 7413).
    pub fast_open: FastOpenConfig,
    /// Take the straight-line paths where they apply. Off: the general paths always, which must
    /// send the same bytes; for the test that proves it.
    pub straight_line: bool,
}

/// TCP Fast Open (RFC 7413): data in the SYN, one round trip less for a peer that was here before.
/// Off by default, and only for what may arrive twice: the network may deliver a SYN again when its
/// connection is long over, and with it the data.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2
//# It MUST be turned on explicitly by
//# the application.
//= https://www.rfc-editor.org/rfc/rfc7413#section-6.1
//# Nevertheless, a client
//# that cannot handle receiving the same SYN data more than once MUST
//# NOT enable TFO to send data in a SYN.
//= https://www.rfc-editor.org/rfc/rfc7413#section-6.1
//# Similarly, a server that
//# cannot accept receiving the same SYN data more than once MUST NOT
//# enable TFO to receive data in a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenConfig {
    /// `Stack::tcp_connect_with_data` may put data into the SYN. Off: it follows the handshake.
    pub client: bool,
    /// Every new listener takes data in SYNs; one alone: `TcpOption::FastOpen`.
    pub server: bool,
    /// Connections per listener that were opened so and whose peer has yet to acknowledge; one more
    /// is opened in the ordinary way.
    pub pending_max: u16,
    /// Servers that the client remembers (about 100 bytes each); one more replaces the one not used
    /// for longest.
    pub servers_max: usize,
}

impl Default for FastOpenConfig {
    fn default() -> Self {
        FastOpenConfig {
            client: false,
            server: false,
            pending_max: 256,
            servers_max: 1024,
        }
    }
}

/// Limits of a user time-out that a peer has suggested, where the application lets it
/// (`TcpOption::AdvertiseUserTimeout`).
//= https://www.rfc-editor.org/rfc/rfc5482#section-3
//# Hosts MUST impose upper and lower limits on the user timeouts they use for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserTimeoutConfig {
    /// L_LIMIT: no less, and never less than a retransmission takes.
    pub least: Duration,
    /// U_LIMIT: no more: so long a peer that has gone may cost us memory.
    pub most: Duration,
}

impl Default for UserTimeoutConfig {
    fn default() -> Self {
        UserTimeoutConfig {
            //= https://www.rfc-editor.org/rfc/rfc5482#section-3.1
            //# Consequently, the lower limit (L_LIMIT) SHOULD be set to at least 100 seconds when
            //# following the RECOMMENDED scheme described in this section.
            least: Duration::from_secs(100),
            most: Duration::from_secs(3600),
        }
    }
}

/// When the MTU of a path is searched for by probes (RFC 4821, RFC 8899), like Linux's
/// `tcp_mtu_probing`. What a router tells is obeyed in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuProbing {
    /// Never: when large segments vanish, small ones are sent for a while, then large ones again.
    Never,
    /// When large segments have vanished.
    //= https://www.rfc-editor.org/rfc/rfc4821#section-7.2
    //# A conservative configuration would be to set eff_pmtu to search_high,
    //# and rely on ICMP PTB messages to set the eff_pmtu down as
    //# appropriate.
    #[default]
    BlackHole,
    /// Every connection begins with segments that pass almost everywhere (1,024 bytes; IPv6: 1,220)
    /// and searches for larger ones: where it is known that routers say nothing.
    Always,
}

/// When a SYN is answered without being remembered (RFC 4987 section 3.6). A connection made so has
/// window scaling and SACK only if the peer sends time stamps, and its SYN-ACK is sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynCookies {
    /// Never: a SYN beyond the backlog is dropped.
    Off,
    /// When the backlog is full.
    OnOverflow,
    /// Always: no half-open connection takes any memory.
    Always,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            send_buffer: 4 << 20,
            send_buffer_max: 32 << 20,
            receive_buffer: 256 << 10,
            receive_buffer_max: 16 << 20,
            window_scaling: true,
            timestamps: true,
            sack: true,
            nodelay: false,
            initial_window: 10,
            delayed_ack: Duration::from_millis(40),
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_millis(200),
            max_segment: None,
            time_wait: Duration::from_secs(60),
            fin_wait_2: Duration::from_secs(60),
            orphan_timeout: Duration::from_secs(120),
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
            //# In particular, R2 for a SYN segment MUST be set large enough to provide
            //# retransmission of the segment for at least 3 minutes (MUST-23).
            syn_retries: 7,
            syn_ack_retries: 5,
            syn_backlog: 2048,
            syn_cookies: SynCookies::OnOverflow,
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
            //# The value of R2 SHOULD correspond to at least 100 seconds (SHLD-11).
            // 924 s at the least RTO
            data_retries: 15,
            orphans_max: 131_072,
            time_wait_max: 131_072,
            connections_max: 4 << 20,
            rest_after: Duration::from_secs(5),
            keep_alive_idle: Duration::from_secs(7200),
            keep_alive_interval: Duration::from_secs(75),
            keep_alive_probes: 9,
            user_timeout: UserTimeoutConfig::default(),
            challenge_interval: Duration::from_millis(500),
            congestion: CongestionControl::default(),
            pacing: Pacing::default(),
            ecn: EcnMode::default(),
            mtu_probing: MtuProbing::default(),
            fast_open: FastOpenConfig::default(),
            straight_line: true,
        }
    }
}

/// Settings of UDP. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Datagrams waiting to be read, per socket.
    pub receive_buffer: u32,
    /// Datagrams sent and not yet taken by the link (or, on a channel, by the peer), per socket.
    pub send_buffer: u32,
}

impl Default for UdpConfig {
    fn default() -> Self {
        UdpConfig {
            receive_buffer: 4 << 20,
            send_buffer: 2 << 20,
        }
    }
}

/// Settings of the DHCP client.
#[derive(Clone, Debug)]
pub struct DhcpConfig {
    /// The longest random wait before the first message; default none. RFC 2131 has one to ten
    /// seconds, for networks whose hosts are all switched on at once.
    pub start_delay: Duration,
    /// Time before the first retransmission, a quarter more or less at random; doubled each time.
    pub retry_first: Duration,
    /// The longest time between retransmissions.
    pub retry_max: Duration,
    /// Requests for an offered address before everything begins again.
    pub request_tries: u8,
    /// Questions whether anybody has the address already, before it is used; 0: none are asked.
    pub probes: u8,
    /// Time to wait for an answer to each. RFC 5227 asks 3 times and waits seven seconds in all;
    /// stations answer within a millisecond.
    pub probe_interval: Duration,
    /// Whether another part of this machine has an address: such an offer is not taken. Default:
    /// none has.
    pub is_taken: fn(Ipv4Addr) -> bool,
}

/// A client identifier of RFC 4361: the same whatever the interface's hardware address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientIdentifier {
    /// Which of the machine's clients (IAID).
    pub iaid: u32,
    /// The machine, and what runs the clients there: a DUID-UUID (RFC 6355).
    pub uuid: [u8; 16],
}

impl ClientIdentifier {
    /// Bytes in [`ClientIdentifier::bytes`].
    pub const LEN: usize = 23;

    /// As the option has it: type 255, the IAID, the DUID (RFC 4361 section 6.1).
    pub fn bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let parts = [&[255][..], &self.iaid.to_be_bytes(), &[0, 4], &self.uuid];
        for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// A hardware address of the client's own, locally administered: for servers that tell clients
    /// by theirs although there is an identifier.
    pub fn hardware_address(&self) -> [u8; 6] {
        let [a, b, c, d] = self.iaid.to_be_bytes();
        let mixed = self
            .uuid
            .iter()
            .fold(0_u8, |all, byte| all.rotate_left(3) ^ byte);
        [0x02, mixed, a, b, c, d]
    }
}

impl Default for DhcpConfig {
    fn default() -> Self {
        DhcpConfig {
            start_delay: Duration::ZERO,
            //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
            //# For example, in a 10Mb/sec Ethernet internetwork, the delay before the first
            //# retransmission SHOULD be 4 seconds randomized by the value of a uniform random
            //# number chosen from the range -1 to +1.
            retry_first: Duration::from_secs(4),
            retry_max: Duration::from_secs(64),
            request_tries: 4,
            probes: 2,
            probe_interval: Duration::from_millis(500),
            is_taken: |_| false,
        }
    }
}
