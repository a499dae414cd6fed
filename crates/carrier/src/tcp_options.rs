//! Socket options that concern the connections of the carrier: those a program has set before a
//! connection is begun leave with its SYN, later ones hold from then on.
//!
//! A value out of range is the program's business, whose library has checked it: such an option
//! stays as it was. Not passed on, because the stack has no such thing: `TCP_QUICKACK` and
//! `TCP_DEFER_ACCEPT`, `TCP_LINGER2`, `TCP_WINDOW_CLAMP`, `SO_PRIORITY`, `SO_MARK`.

use gannet::{CongestionControl, Connect, Host, TcpListener, TcpStream};
use gannet_local::options::{CONGESTION, buffers};
use gannet_local::slot::PeerSlot;
use gannet_local::{Opt, carrier_share};
use std::io;
use std::time::Duration;

/// How the connection begins that the program asks for in `peer`.
pub(crate) fn connect(host: &Host, peer: Option<PeerSlot<'_>>) -> Connect {
    let mut connect = Connect::new(host);
    let Some(peer) = peer else { return connect };
    if let Some(bytes) = max_segment(peer) {
        connect = connect.max_segment(bytes);
    }
    if let Some(ttl) = ttl(peer) {
        connect = connect.ttl(ttl);
    }
    if let Some(tos) = peer.get(Opt::Tos) {
        connect = connect.tos(tos as u8);
    }
    if let Some(retries) = small(peer, Opt::SynCount) {
        connect = connect.syn_retries(retries);
    }
    if let Some(bytes) = receive_buffer(peer) {
        connect = connect.receive_buffer(bytes);
    }
    if let Some(control) = congestion(peer) {
        connect = connect.congestion_control(control);
    }
    connect
}

/// What holds for the connections that a listener takes, from their first segment on.
pub(crate) fn listen(listener: &TcpListener, slot: PeerSlot<'_>) -> io::Result<()> {
    if let Some(bytes) = max_segment(slot) {
        listener.set_max_segment(Some(bytes))?;
    }
    if let Some(ttl) = ttl(slot) {
        listener.set_ttl(ttl.into())?;
    }
    if let Some(tos) = slot.get(Opt::Tos) {
        listener.set_tos(tos as u8)?;
    }
    if let Some(bytes) = receive_buffer(slot) {
        listener.set_receive_buffer(bytes)?;
    }
    if let Some(control) = congestion(slot) {
        listener.set_congestion_control(control)?;
    }
    if let Some(pending) = slot.get(Opt::FastOpen) {
        listener.set_fast_open(u16::try_from(pending).unwrap_or(u16::MAX))?;
    }
    Ok(())
}

/// The options that [`set`] passes on, to tell whether any of them has changed.
pub(crate) type Known = [Option<u32>; 15];

/// What `peer` has set of them.
pub(crate) fn known(peer: PeerSlot<'_>) -> Known {
    [
        Opt::NoDelay,
        Opt::Corked,
        Opt::KeepAlive,
        Opt::KeepIdle,
        Opt::KeepInterval,
        Opt::KeepCount,
        Opt::UserTimeout,
        Opt::Ttl,
        Opt::Tos,
        Opt::Congestion,
        Opt::MaxSegment,
        Opt::SendBuffer,
        Opt::ReceiveBuffer,
        Opt::BuffersSet,
        Opt::NOT_SENT_LOW_WATER,
    ]
    .map(|option| peer.get(option))
}

/// Whether `TCP_NODELAY` has set free since what waits under the cork.
pub(crate) fn pushes(before: &Known, now: &Known) -> bool {
    let [_, before, ..] = before;
    let [_, now, ..] = now;
    // (the first number says no more than that there was a cork)
    before != now && now.is_some_and(|n| n > 1)
}

/// Options of a connection that is there.
pub(crate) fn set(tcp: &TcpStream, peer: PeerSlot<'_>) -> io::Result<()> {
    let at_once = peer.is_on(Opt::NoDelay) || peer.is_on(Opt::Corked);
    if peer.get(Opt::NoDelay).is_some() || at_once {
        tcp.set_nodelay(at_once)?;
    }
    set_keep_alive(tcp, peer)?;
    if let Some(time) = peer.get(Opt::UserTimeout) {
        let time = Duration::from_millis(time.into());
        tcp.set_user_timeout((!time.is_zero()).then_some(time))?;
    }
    if let Some(ttl) = ttl(peer) {
        tcp.set_ttl(ttl.into())?;
    }
    if let Some(tos) = peer.get(Opt::Tos) {
        tcp.set_tos(tos as u8)?;
    }
    if let Some(control) = congestion(peer) {
        tcp.set_congestion_control(control)?;
    }
    if let Some(bytes) = max_segment(peer) {
        tcp.set_max_segment(bytes)?;
    }
    if let Some(bytes) = buffer(peer, Opt::SendBuffer, buffers::SEND) {
        tcp.set_send_buffer(bytes)?;
    }
    if let Some(bytes) = receive_buffer(peer) {
        tcp.set_receive_buffer(bytes)?;
    }
    if peer.get(Opt::NOT_SENT_LOW_WATER).is_some() {
        tcp.set_unsent_max(peer.not_sent_low_water().map(carrier_share))?;
    }
    Ok(())
}

fn set_keep_alive(tcp: &TcpStream, peer: PeerSlot<'_>) -> io::Result<()> {
    let Some(on) = peer.get(Opt::KeepAlive) else {
        return Ok(());
    };
    let seconds = |n: u32| Duration::from_secs(n.max(1).into());
    tcp.set_keepalive_interval(peer.get(Opt::KeepInterval).map(seconds))?;
    tcp.set_keepalive_probes(small(peer, Opt::KeepCount))?;
    match peer.get(Opt::KeepIdle) {
        _ if on == 0 => tcp.set_keepalive(None),
        Some(idle) => tcp.set_keepalive(Some(seconds(idle))),
        None => tcp.set_keepalive_as_configured(),
    }
}

fn small(peer: PeerSlot<'_>, option: Opt) -> Option<u8> {
    u8::try_from(peer.get(option)?).ok()
}

fn ttl(peer: PeerSlot<'_>) -> Option<u8> {
    small(peer, Opt::Ttl).filter(|ttl| *ttl > 0)
}

fn max_segment(peer: PeerSlot<'_>) -> Option<u16> {
    let bytes = u16::try_from(peer.get(Opt::MaxSegment)?).ok()?;
    (bytes > 0).then_some(bytes)
}

fn congestion(peer: PeerSlot<'_>) -> Option<CongestionControl> {
    CONGESTION
        .get(peer.get(Opt::Congestion)? as usize)?
        .parse()
        .ok()
}

fn receive_buffer(peer: PeerSlot<'_>) -> Option<u32> {
    buffer(peer, Opt::ReceiveBuffer, buffers::RECEIVE)
}

/// A buffer that the program has set, in bytes of text: the kernel's number counts its own
/// bookkeeping too, and is twice as large (socket(7)).
fn buffer(peer: PeerSlot<'_>, option: Opt, which: u32) -> Option<u32> {
    let set = peer.get(Opt::BuffersSet).unwrap_or(0) & which != 0;
    peer.get(option).filter(|_| set).map(|bytes| bytes / 2)
}
