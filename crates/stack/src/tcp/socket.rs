//! What callers hold and see of a connection: ids, options, information.

use core::net::SocketAddr;
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Range, View};

use super::error::TcpError;
use super::send::Busy;
use crate::config::CongestionControl;
use crate::link::LinkId;

/// A connection. Carries a generation, so that an id outliving its connection names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// A socket whose readiness may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TcpReady {
    /// Data, space, a finished handshake, an error or the end.
    Connection(TcpId),
    /// A connection to accept.
    Listener(ListenerId),
}

/// Which directions to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// No more reading: what arrives is acknowledged and thrown away.
    Read,
    /// No more writing: a FIN follows what is queued.
    Write,
    /// Both.
    Both,
}

/// States of RFC 9293 section 3.3.2. LISTEN belongs to listeners, CLOSED to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TcpState {
    /// SYN sent.
    SynSent,
    /// SYN received and answered.
    SynReceived,
    /// Open.
    Established,
    /// We closed, our FIN is not acknowledged.
    FinWait1,
    /// We closed, our FIN is acknowledged.
    FinWait2,
    /// The peer closed.
    CloseWait,
    /// Both closed, our FIN is not acknowledged.
    Closing,
    /// The peer closed first, then we; our FIN is not acknowledged.
    LastAck,
    /// Closed; late packets are answered.
    TimeWait,
    /// Over.
    Closed,
}

/// What can be done with a connection right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpStatus {
    /// State of the protocol.
    pub state: TcpState,
    /// Reading gives bytes, the end, or an error at once.
    pub readable: bool,
    /// Writing takes bytes or gives an error at once. With [`TcpOption::Linger`] and writing shut
    /// down: the peer has acknowledged everything.
    pub writable: bool,
    /// The peer will send no more and everything was read.
    pub read_closed: bool,
    /// Why the connection failed, if it did.
    pub error: Option<TcpError>,
}

/// A setting of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// `true`: small segments never wait for acknowledgements (Nagle off).
    NoDelay(bool),
    /// Probes after this idle time; `None`: no keep-alive (the default, RFC 9293 MUST-25).
    KeepAlive(Option<Duration>),
    /// Between two probes, at least a second; `None`: [`crate::TcpConfig::keep_alive_interval`].
    KeepAliveInterval(Option<Duration>),
    /// Unanswered probes before giving up, at least one; `None`:
    /// [`crate::TcpConfig::keep_alive_probes`]. With [`TcpOption::UserTimeout`] that time decides
    /// instead.
    KeepAliveProbes(Option<u8>),
    /// Retransmissions of the SYN of a connection that is not open yet; `None`:
    /// [`crate::TcpConfig::syn_retries`].
    SynRetries(Option<u8>),
    /// Give up when data stays unacknowledged for this long (RFC 9293 section 3.8.3's R2);
    /// `None`: by number of retransmissions.
    UserTimeout(Option<Duration>),
    /// Suggests this to the peer, and lets the peer suggest a time (RFC 5482); `None`: neither (the
    /// default). The longer of both, within [`crate::UserTimeoutConfig`], is then waited, unless
    /// [`TcpOption::UserTimeout`] says otherwise. Rounded up to seconds, beyond nine hours to
    /// minutes.
    AdvertiseUserTimeout(Option<Duration>),
    /// Send buffer in bytes; switches its growth off.
    SendBuffer(u32),
    /// Receive buffer in bytes; switches its growth off.
    ReceiveBuffer(u32),
    /// Most bytes that are written and not sent yet, at least a segment or 4 KiB (Linux's
    /// TCP_NOTSENT_LOWAT): writing takes no more, and is possible again at less than half of it.
    /// `None`: as many as the send buffer holds.
    UnsentMax(Option<u32>),
    /// Most bytes in a segment (Linux's TCP_MAXSEG), at least 48, options included; `None`: as link
    /// and peer have it. Of a listener: announced and obeyed; of an open connection: obeyed from
    /// now on, and never raised. For connections we open: [`crate::TcpConfig::max_segment`].
    MaxSegment(Option<u16>),
    /// What closing does with unsent data: `Some(0)` resets.
    Linger(Option<Duration>),
    /// Time to live of every packet; 64 at first, 0 is taken as 1 (RFC 9293 MUST-49).
    TimeToLive(u8),
    /// Type of service of every packet: Differentiated Services in the upper six bits; the lower
    /// two, ECN, are TCP's and not set (RFC 9293 MUST-48). To change it while data is under way
    /// invites reordering (SHLD-23).
    TypeOfService(u8),
    /// Of a listener: takes data in SYNs (RFC 7413), from so many peers at a time that have yet to
    /// acknowledge; 0: not at all. See [`crate::FastOpenConfig`] for when not to.
    FastOpen(u16),
    /// Congestion control. A connection under way keeps its window.
    CongestionControl(CongestionControl),
}

/// What a sender makes of what the peer acknowledges (Linux calls it `tcpi_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossState {
    /// Nothing is missing.
    #[default]
    Open,
    /// Something arrived out of order, or an acknowledgement twice: perhaps a loss.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// The retransmission timer has expired.
    Loss,
}

/// What a congestion control says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlState {
    /// Nothing more than its window.
    #[default]
    Window,
    /// BBR's model of the path.
    Bbr {
        /// Bytes per second.
        bandwidth: u64,
        /// Smallest round trip; none before the first.
        min_rtt: Option<Duration>,
        /// Of the bandwidth, at which it sends, in percent.
        pacing_gain: u32,
        /// Of bandwidth times round trip, that it has under way, in percent.
        window_gain: u32,
    },
    /// DCTCP's share of marks (RFC 8257).
    Dctcp {
        /// DCTCP.Alpha in parts of 1,024.
        alpha: u32,
        /// Bytes acknowledged in the window under way, and those of them that were marked.
        acknowledged: u32,
        /// See `acknowledged`.
        marked: u32,
    },
}

/// What a connection knows about itself: U-Net's "the application sees the state of its queues".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpInfo {
    /// State of the protocol.
    pub state: TcpState,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Its variation.
    pub rtt_variation: Option<Duration>,
    /// Smallest round trip of the last five to ten minutes.
    pub rtt_min: Option<Duration>,
    /// Retransmission time-out.
    pub rto: Duration,
    /// Largest payload of a TCP segment we send, bytes.
    pub send_mss: u32,
    /// Largest payload we accept, bytes.
    pub receive_mss: u32,
    /// Congestion window, bytes.
    pub congestion_window: u32,
    /// Slow-start threshold, bytes.
    pub slow_start_threshold: u32,
    /// Window the peer offers, bytes.
    pub send_window: u32,
    /// Window we offer, bytes.
    pub receive_window: u32,
    /// Sent and not acknowledged, bytes.
    pub in_flight: u32,
    /// Of those what the peer has reported with selective acknowledgements, bytes.
    pub sacked: u32,
    /// Whether a loss is suspected, or being repaired.
    pub loss_state: LossState,
    /// When the last payload arrived.
    pub last_received: Option<Instant>,
    /// Written and not sent, bytes.
    pub unsent: u32,
    /// Arrived and not read, bytes.
    pub unread: u32,
    /// Arrived out of order, bytes.
    pub out_of_order: u32,
    /// Send buffer, bytes.
    pub send_buffer: u32,
    /// Receive buffer, bytes.
    pub receive_buffer: u32,
    /// Payload bytes acknowledged by the peer.
    pub bytes_acknowledged: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// TCP segments sent.
    pub segments_sent: u64,
    /// TCP segments received.
    pub segments_received: u64,
    /// TCP segments sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Times fast recovery was entered.
    pub fast_recoveries: u64,
    /// Recoveries and time-outs that turned out needless and were undone.
    pub spurious_recoveries: u64,
    /// Probes sent when no acknowledgement came for two round trips (RFC 8985).
    pub tail_probes: u64,
    /// Whether the path has delivered segments in another order than they were sent.
    pub reordering_seen: bool,
    /// Window scale we apply, and the peer's; `None` when not negotiated.
    pub window_scale: Option<(u8, u8)>,
    /// Selective acknowledgements negotiated.
    pub sack: bool,
    /// Time stamps negotiated.
    pub timestamps: bool,
    /// Explicit congestion notification negotiated (RFC 3168).
    pub ecn: bool,
    /// Congestion control.
    pub congestion_control: CongestionControl,
    /// What it says of itself.
    pub control_state: ControlState,
    /// How long there was something to send, and what held it back: [`Busy::times`].
    pub busy: Busy,
    /// Bytes per second at which data leaves; none: as fast as the windows allow.
    pub pacing_rate: Option<u64>,
    /// Time to live of packets.
    pub time_to_live: u8,
    /// Type of service of packets.
    pub type_of_service: u8,
    /// The user time-out that the peer suggests (RFC 5482); only where we do so too.
    pub peer_user_timeout: Option<Duration>,
    /// What the last ICMP error said that did not end the connection: a host or network that cannot
    /// be reached, a port that nobody has. Forgotten when the peer acknowledges something new.
    pub soft_error: Option<TcpError>,
}

/// Received bytes that stay where they are until released: see `Stack::tcp_recv_block`.
pub struct ReceivedBlock {
    /// Reads them, without any lock.
    pub view: View,
    /// What to give back.
    pub(in crate::tcp) link: LinkId,
    /// See `link`.
    pub(in crate::tcp) range: Range,
}

impl core::fmt::Debug for ReceivedBlock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ReceivedBlock({:?})", self.range)
    }
}
