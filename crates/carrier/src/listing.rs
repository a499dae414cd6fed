//! The sockets of the program as text, for `gannet ss`: a line each, words of a name and a value.
//!
//! ```text
//! gannet-listing 1
//! host number=... network=... carrier=PID connections=N dropped=N
//! socket kind=tcp state=ESTAB recvq=0 sendq=0 local=... peer=... inode=N pids=1,2 way=direct
//! ```
//! `way` says what is at the other end: `direct` a program of the network, `carried` a connection
//! of the carrier's, whose figures follow. Such connections are listed too when no process has them
//! any more.

use crate::carrier::Carrier;
use crate::figures;
use gannet::{BusyTimes, TcpInfo, TcpState};
use gannet_local::slot::{Kind, PeerSlot, State, flags, receiver, sent};
use gannet_local::{Figures, Opt, meet};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Writes the listing into a file of its own, to be read from its beginning.
pub(crate) fn write(carrier: &Carrier) -> Result<OwnedFd, Errno> {
    let text = text(carrier);
    let file = memfd_create("gannet-listing", MemfdFlags::CLOEXEC)?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let n = rustix::io::write(&file, rest)?;
        rest = rest.get(n..).unwrap_or_default();
    }
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file)
}

fn text(carrier: &Carrier) -> String {
    carrier.gateway.tell_all_figures();
    let holders = holders(carrier);
    let mut text = String::from("gannet-listing 1\n");
    let network = carrier.config.settings.network();
    let _ = writeln!(
        text,
        "host number={:016x} network={network} carrier={} connections={} dropped={}",
        carrier.config.host,
        std::process::id(),
        carrier.host.connections(),
        carrier.gateway.dropped,
    );
    let mut connections = connections(carrier);
    for n in carrier.program.allocated() {
        let slot = carrier.program.peer(n);
        if let Some(kind) = slot.kind() {
            let pids = holders.get(&n).map_or(&[][..], Vec::as_slice);
            let ends = (meet::plain(slot.local()), meet::plain(slot.remote()));
            let tcp = connections.remove(&ends).filter(|_| kind == Kind::Stream);
            describe(carrier, slot, (kind, tcp), pids, &mut text);
        }
    }
    for ((local, remote), info) in connections {
        let under_way = u64::from(info.in_flight) + u64::from(info.unsent);
        let _ = writeln!(
            text,
            "socket kind=tcp state={} recvq={} sendq={under_way} local={local} peer={remote} \
             inode=0 pids= way=carried{}",
            name(info.state),
            info.unread,
            words(&figures::of(&info, None, BusyTimes::default())),
        );
    }
    text
}

/// What TCP has, by its ends.
fn connections(carrier: &Carrier) -> HashMap<(SocketAddr, SocketAddr), TcpInfo> {
    let all = carrier.host.connection_infos().into_iter();
    all.map(|info| ((meet::plain(info.local), meet::plain(info.remote)), info))
        .collect()
}

/// Which processes hold a slot.
fn holders(carrier: &Carrier) -> HashMap<u32, Vec<u32>> {
    let mut all: HashMap<u32, Vec<u32>> = HashMap::new();
    for made in carrier.program.entries() {
        if let Some(pid) = carrier.processes.pid_of(made.entry) {
            for n in carrier.program.held_by(made.entry) {
                all.entry(n).or_default().push(pid);
            }
        }
    }
    all
}

fn describe(
    carrier: &Carrier,
    slot: PeerSlot<'_>,
    (kind, tcp): (Kind, Option<TcpInfo>),
    pids: &[u32],
    text: &mut String,
) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let what = match kind {
        Kind::Datagrams => "udp",
        Kind::Stream | Kind::Listener => "tcp",
    };
    let other = OtherEnd::of(carrier, slot, kind);
    let state = match tcp.filter(|_| slot.state() != State::SynSent) {
        Some(info) => name(info.state),
        None => state(slot, kind, other.slot),
    };
    let both = match slot.flags() & flags::DUAL != 0 && slot.local().ip().is_unspecified() {
        true => " both=yes",
        false => "",
    };
    let _ = writeln!(
        text,
        "socket kind={what} state={state} recvq={} sendq={} local={} peer={} inode={} pids={} \
         way={}{both}{}",
        other.there,
        other.under_way,
        slot.local(),
        slot.remote(),
        slot.inode(),
        pids.join(","),
        other.way,
        other.figures,
    );
}

/// What is known of a socket by looking at its other end.
struct OtherEnd<'a> {
    slot: Option<PeerSlot<'a>>,
    way: &'static str,
    there: u64,
    under_way: u64,
    figures: String,
}

impl<'a> OtherEnd<'a> {
    fn of(carrier: &'a Carrier, slot: PeerSlot<'a>, kind: Kind) -> OtherEnd<'a> {
        let mut end = OtherEnd {
            slot: None,
            way: "",
            there: 0,
            under_way: 0,
            figures: String::new(),
        };
        if kind == Kind::Listener {
            end.way = "listener";
            end.under_way = slot.get(Opt::Backlog).unwrap_or(0).into();
            return end;
        }
        let known = slot.flags();
        let name = slot.peer_name();
        let gateway = carrier.gateway.arena();
        let carried = known & flags::CARRIED != 0 || name.host == gateway.host();
        end.way = if carried { "carried" } else { "direct" };
        let arena = match name.host {
            host if host == gateway.host() => Some(gateway),
            host if host == carrier.program.host() => Some(&carrier.program),
            host => carrier.strangers.arena(host),
        };
        let Some(arena) = arena.filter(|_| known & flags::RESOLVED != 0) else {
            // (the SYN is one)
            let syn = u64::from(slot.state() == State::SynSent);
            end.under_way = slot.produced() + syn;
            return end;
        };
        let peer = arena.peer(name.slot);
        if peer.generation() != name.generation {
            return end;
        }
        end.slot = Some(peer);
        end.there = peer.produced().saturating_sub(slot.consumed());
        end.under_way = slot.produced().saturating_sub(peer.consumed());
        if carried {
            end.add_figures(peer);
        }
        end
    }

    fn add_figures(&mut self, peer: PeerSlot<'_>) {
        let figures = peer.figures();
        let in_tcp = figures.in_flight.saturating_add(figures.unsent);
        self.under_way = self.under_way.saturating_add(in_tcp.into());
        self.figures = words(&figures);
    }
}

fn words(figures: &Figures) -> String {
    format!(
        " rtt={} rttvar={} rto={} cwnd={} ssthresh={} mss={} retrans={} unacked={} snd_wnd={} \
         minrtt={} rcv_wnd={} segs_out={} segs_in={} notsent={}",
        figures.rtt,
        figures.rtt_variation,
        figures.rto,
        figures.congestion_window,
        figures.slow_start_threshold,
        figures.send_mss,
        figures.retransmissions,
        figures.in_flight,
        figures.send_window,
        figures.rtt_min,
        figures.receive_window,
        figures.segments_sent,
        figures.segments_received,
        figures.unsent,
    )
}

/// A state of TCP's as ss names it.
fn name(state: TcpState) -> &'static str {
    match state {
        TcpState::SynSent => "SYN-SENT",
        TcpState::SynReceived => "SYN-RECV",
        TcpState::Established => "ESTAB",
        TcpState::FinWait1 => "FIN-WAIT-1",
        TcpState::FinWait2 => "FIN-WAIT-2",
        TcpState::CloseWait => "CLOSE-WAIT",
        TcpState::Closing => "CLOSING",
        TcpState::LastAck => "LAST-ACK",
        TcpState::TimeWait => "TIME-WAIT",
        TcpState::Closed => "UNCONN",
    }
}

/// The state as ss names it, of a socket without TCP.
fn state(slot: PeerSlot<'_>, kind: Kind, other: Option<PeerSlot<'_>>) -> &'static str {
    match (kind, slot.state()) {
        (Kind::Datagrams, _) if slot.remote().port() != 0 => return "ESTAB",
        (Kind::Datagrams, _) => return "UNCONN",
        (Kind::Listener, State::Listen) => return "LISTEN",
        (_, State::SynSent) => return "SYN-SENT",
        (_, State::Closed) | (Kind::Listener, _) => return "UNCONN",
        _ => {}
    }
    let ended = slot.sent() & sent::FIN != 0;
    let closed = slot.receiver() & receiver::CLOSED != 0;
    let others = other.is_some_and(|other| other.sent() & sent::FIN != 0);
    match (ended, others) {
        (false, false) => "ESTAB",
        (false, true) => "CLOSE-WAIT",
        (true, false) if closed => "FIN-WAIT-1",
        (true, false) => "FIN-WAIT-2",
        (true, true) => "LAST-ACK",
    }
}
