//! Ids, status, options, errors; the socket itself.

use core::net::SocketAddr;

use super::blocks::SendBlocks;
use super::queue::ReceiveQueue;
use super::sources::Joined;
use crate::config::UdpConfig;
use crate::ip::Path;
use crate::link::LinkId;

/// A UDP socket. Carries a generation, so that an id outliving its socket names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// Why a socket could not be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindError {
    /// Another socket has this address and port, or no ephemeral port is free.
    AddressInUse,
    /// The address is not one of ours.
    AddressNotAvailable,
    /// As many sockets as ids exist already.
    TooManySockets,
}

/// Why a datagram could not be sent or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// Sending: the send buffer or the link is full. Reading: nothing has arrived.
    WouldBlock,
    /// No link leads to the destination.
    NoRoute,
    /// Longer than 65,507 bytes (IPv6: 65,527) or than one frame of the link holds; or than the
    /// path's MTU allows where [`PathMtuDiscovery`] forbids fragments.
    TooLarge,
    /// No destination was given and the socket is not connected.
    NotConnected,
    /// The destination is no host: 0.0.0.0, ::, or port 0.
    InvalidDestination,
    /// A broadcast without [`UdpOption::Broadcast`].
    NotPermitted,
    /// The neighbour does not answer, or an ICMP error said so. Reported once.
    HostUnreachable,
    /// An ICMP error: nobody listens at the peer's port. Reported once.
    Refused,
    /// The link is gone: the process at its other end died, or the interface was removed.
    LinkGone,
    /// The id names no socket.
    Closed,
}

/// How a socket is bound, beside where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// On `::`: nothing of IPv4 is taken (RFC 3493's IPV6_V6ONLY), and a socket on 0.0.0.0 may have
    /// the port, too.
    pub only_six: bool,
    /// Others that say the same may be bound to the same address and port: each gets what is sent
    /// to groups that it has joined; one of them gets what is for the address itself.
    pub shared: bool,
}

/// What can be done with a socket right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpStatus {
    /// Reading gives a datagram or an error at once.
    pub readable: bool,
    /// Sending is not known to be impossible.
    pub writable: bool,
    /// The error that the next call will report.
    pub error: Option<UdpError>,
    /// Bytes that wait to be read.
    pub unread: u64,
    /// Datagrams for this socket that were thrown away because its receive buffer was full.
    pub dropped: u64,
}

/// Which datagrams are lost when the receive buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Those that arrive: what waits is kept, as in every other stack.
    #[default]
    DropNewest,
    /// Those that have waited longest: for readers to whom only the latest matters.
    DropOldest,
}

/// What becomes of datagrams longer than the path's MTU, and whether routers may cut those that
/// are not; Linux's `IP_MTU_DISCOVER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathMtuDiscovery {
    /// They are sent in fragments; others must arrive whole (DF), so that a narrower path shows.
    #[default]
    Want,
    /// They are refused; others must arrive whole.
    Do,
    /// They are sent in fragments, and routers may cut others, too.
    Dont,
    /// Datagrams up to the link's MTU must arrive whole, whatever is known of the path; longer ones
    /// are refused. For applications that look for the path's MTU themselves.
    Probe,
}

/// A setting of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpOption {
    /// Bytes of datagrams waiting to be read.
    ReceiveBuffer(u32),
    /// Which datagrams are lost when that is full.
    WhenFull(WhenFull),
    /// Bytes sent and not yet taken by the link.
    SendBuffer(u32),
    /// On `::`: whether nothing of IPv4 is taken (RFC 3493's IPV6_V6ONLY); `false` at first.
    OnlySix(bool),
    /// Whether broadcasts may be sent.
    Broadcast(bool),
    /// What becomes of datagrams longer than the path's MTU.
    PathMtu(PathMtuDiscovery),
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.7
    //# When a fixed TTL value is used, it MUST be configurable.
    /// Time to live of every packet; 64 at first, 0 is taken as 1.
    TimeToLive(u8),
    /// Time to live of packets to groups; 1 at first: they stay on the link.
    GroupTimeToLive(u8),
    /// The link by which packets to groups leave; `None`: that of the socket's own address, of a
    /// default route, or the first.
    GroupLink(Option<LinkId>),
    /// Whether packets to groups come to our own sockets that are in them, too; `true` at first.
    GroupLoop(bool),
    /// Type of service of every packet: Differentiated Services and the two ECN bits.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.4
    //# The interface between the IP layer and the transport layer MUST provide full access to all
    //# the mechanisms of the IP layer, including options, Type-of-Service, and Time-to-Live.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.4
    //# The transport layer MUST either have mechanisms to set these interface parameters, or
    //# provide a path to pass them through from an application, or both.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.4
    //# The application interface to UDP MUST provide the full services of the IP/transport
    //# interface described in Section 3.4 of this document.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.4
    //# An application-layer program MUST be able to set the TTL and TOS values as well as IP
    //# options for sending a UDP datagram, and these values must be passed transparently to the IP
    //# layer.
    TypeOfService(u8),
}

/// A destination with the path to it, and the epoch in which it was looked up.
#[derive(Clone, Copy)]
pub(super) struct Cached {
    pub(super) path: Path,
    pub(super) epoch: u32,
}

/// One socket.
pub(super) struct Socket {
    pub(super) generation: u32,
    /// As bound; the address may be 0.0.0.0.
    pub(super) local: SocketAddr,
    /// The one peer of a connected socket, and our address towards it.
    pub(super) remote: Option<SocketAddr>,
    pub(super) source: Option<core::net::IpAddr>,
    /// The link that its peer is on, where the address alone does not tell.
    pub(super) zone: Option<LinkId>,
    /// Next socket on the same port.
    pub(super) next: u32,
    pub(super) queue: ReceiveQueue,
    pub(super) blocks: SendBlocks,
    pub(super) cached: Option<Cached>,
    pub(super) error: Option<UdpError>,
    pub(super) when_full: WhenFull,
    /// Datagrams lost because the queue was full.
    pub(super) dropped: u64,
    pub(super) broadcast: bool,
    /// The groups that it is in, and where.
    pub(super) groups: alloc::vec::Vec<Joined>,
    /// Time to live of what it sends to groups, and the link it leaves by.
    pub(super) group_ttl: u8,
    pub(super) group_link: Option<LinkId>,
    /// Whether our own sockets get what it sends to groups.
    pub(super) group_loop: bool,
    pub(super) path_mtu: PathMtuDiscovery,
    /// On `::`: takes nothing of IPv4.
    pub(super) only_six: bool,
    /// May have its address and port together with others.
    pub(super) shared: bool,
    pub(super) ttl: u8,
    pub(super) tos: u8,
    /// A send was refused since the socket was last reported writable.
    pub(super) blocked: bool,
    /// Bytes of the datagram that was refused.
    pub(super) wanted: usize,
    /// Waits in the list of changed sockets.
    pub(super) listed: bool,
    /// Has blocks under way and waits in the list of those.
    pub(super) busy: bool,
}

impl Socket {
    pub(super) fn new(generation: u32, local: SocketAddr, config: &UdpConfig) -> Self {
        Socket {
            generation,
            local,
            remote: None,
            source: None,
            zone: None,
            next: super::ports::NONE,
            queue: ReceiveQueue::new(config.receive_buffer),
            blocks: SendBlocks::new(config.send_buffer),
            cached: None,
            error: None,
            when_full: WhenFull::default(),
            dropped: 0,
            broadcast: false,
            groups: alloc::vec::Vec::new(),
            group_ttl: 1,
            group_link: None,
            group_loop: true,
            path_mtu: PathMtuDiscovery::default(),
            only_six: false,
            shared: false,
            ttl: Path::TTL,
            tos: 0,
            blocked: false,
            wanted: 0,
            listed: false,
            busy: false,
        }
    }
}
