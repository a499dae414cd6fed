//! What became of sockets, for `gannet run -v`: the log of the arena. Costs one load while nobody
//! wants it. What is written here is for people: nothing else depends on it.

use crate::border;
use crate::errno::Outcome;
use crate::object::{self, Found, Kind};
use crate::open;
use crate::state::{State, Whose};
use gannet_local::log::{Event, Fate, Protocol, Reason, Role};
use gannet_local::meet;
use gannet_local::service::{self, Question};
use gannet_local::slot::{self, flags};
use libc::c_int;
use rustix::io::Errno;
use std::net::SocketAddr;

/// Whether a call on `fd` is the first that decides: somebody wants to know, and nothing is known
/// of it yet. To be asked before the call.
#[inline]
pub(crate) fn is_news(state: &State, fd: c_int) -> bool {
    state.arena().log_wanted() && is_undecided(state, fd)
}

#[cold]
fn is_undecided(state: &State, fd: c_int) -> bool {
    let Some(object) = object::find(fd) else {
        return true;
    };
    // A call by name that would sleep is made once more at the border.
    let opens = || {
        let slot = state.arena().own(object.slot());
        let blocks = slot.flags() & flags::NONBLOCKING == 0;
        border::is_answering() && blocks && slot.state() == slot::State::SynSent
    };
    match object.kind() {
        Kind::Bound => true,
        Kind::Stream => opens(),
        _ => false,
    }
}

fn write(state: &State, fate: Fate, role: Role, protocol: Protocol, address: Option<SocketAddr>) {
    let event = Event {
        fate,
        role,
        protocol,
        address,
    };
    state.arena().note(event, std::process::id());
}

/// The protocol of a kernel socket, if it is one that could have been ours. All others were noted
/// when they were made.
fn protocol(fd: c_int) -> Option<Protocol> {
    open::plain(fd).map(|plain| match plain.stream {
        true => Protocol::Tcp,
        false => Protocol::Udp,
    })
}

/// Why the kernel has a socket that speaks to, or is bound to, an address.
fn reason(state: &State, fd: c_int, protocol: Protocol, address: SocketAddr) -> Option<Reason> {
    if !object::fits(fd) {
        return Some(Reason::DescriptorTooHigh);
    }
    match (state.whose(address.ip()), protocol) {
        (Whose::Kernel, _) => Some(Reason::AddressNotOurs),
        (Whose::Loopback, Protocol::Udp) => Some(Reason::LoopbackDatagrams),
        (Whose::Loopback, _) => Some(Reason::NoListener),
        (Whose::Ours, _) => None,
    }
}

/// What ran out, of a call that failed or went on without us.
fn shortage(fd: c_int, error: c_int) -> Option<Reason> {
    match error {
        libc::EMFILE if !object::fits(fd) => Some(Reason::DescriptorTooHigh),
        libc::ENOBUFS => Some(Reason::StreamsExhausted),
        libc::ENOMEM => Some(Reason::OutOfMemory),
        _ => None,
    }
}

/// Whether a call failed because there is no carrier any more.
fn loneliness(state: &State, error: c_int) -> Option<Reason> {
    let network = state.peers().network();
    let gone = || service::tell(network, state.host(), &Question::Look) == Err(Errno::CONNREFUSED);
    (error == libc::ENETUNREACH && gone()).then_some(Reason::NoCarrier)
}

/// The border is not raised: what the program calls otherwise than by name is the kernel's.
#[cold]
pub(crate) fn names_only(state: &State) {
    if state.arena().log_wanted() {
        let fate = Fate::Left(Reason::NamesOnly);
        write(state, fate, Role::Start, Protocol::Other, None);
    }
}

/// A socket was made. TCP and UDP are decided later, by address.
#[cold]
pub(crate) fn made(state: &State, fd: c_int, domain: c_int, kind: c_int) {
    let kind = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    let reason = match (domain, kind) {
        // The C library asks a name service cache by one: not what the program did.
        (libc::AF_UNIX, _) if border::is_answering() => return,
        (libc::AF_UNIX, _) => Reason::UnixSocket,
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_RAW) => Reason::RawSocket,
        (libc::AF_INET | libc::AF_INET6, _) if open::plain(fd).is_some() => return,
        (libc::AF_INET | libc::AF_INET6, _) => Reason::OtherProtocol,
        _ => Reason::OtherFamily,
    };
    write(state, Fate::Left(reason), Role::Make, Protocol::Other, None);
}

/// `listen` was called on a socket, the kernel's or ours.
#[cold]
pub(crate) fn listened(state: &State, fd: c_int, outcome: Outcome<()>) {
    let note = |fate, address| write(state, fate, Role::Listen, Protocol::Tcp, address);
    if let Err(error) = outcome {
        if let Some(reason) = shortage(fd, error) {
            note(Fate::Failed(reason), open::kernel_name(fd));
        }
        return;
    }
    if let Some(object) = object::find(fd).filter(|object| object.kind() == Kind::Listener) {
        let local = state.arena().own(object.slot()).local();
        return note(Fate::Direct, Some(local));
    }
    let Some(name) = open::kernel_name(fd).filter(|_| protocol(fd) == Some(Protocol::Tcp)) else {
        return;
    };
    let reason = match object::fits(fd) {
        false => Reason::DescriptorTooHigh,
        true if state.whose(name.ip()) == Whose::Kernel && !name.ip().is_unspecified() => {
            Reason::AddressNotOurs
        }
        true => Reason::ListenerTaken,
    };
    note(Fate::Left(reason), Some(name));
}

/// `connect` to `to` was ours.
#[cold]
pub(crate) fn connected(state: &State, fd: c_int, to: SocketAddr, outcome: &Outcome<()>) {
    let note = |fate, protocol| write(state, fate, Role::Connect, protocol, Some(meet::plain(to)));
    let begun = matches!(outcome, Ok(()) | Err(libc::EINPROGRESS));
    if let Some(object) = object::find(fd).filter(|_| begun) {
        let slot = state.arena().own(object.slot());
        let fate = match slot.flags() & flags::CARRIED {
            0 => Fate::Direct,
            _ => Fate::Carrier,
        };
        match object.kind() {
            Kind::Stream => note(fate, Protocol::Tcp),
            Kind::Datagrams => note(Fate::Carrier, Protocol::Udp),
            _ => {}
        }
    } else if let Err(error) = outcome
        && let Some(reason) = shortage(fd, *error).or_else(|| loneliness(state, *error))
    {
        note(Fate::Failed(reason), protocol(fd).unwrap_or(Protocol::Tcp));
    }
}

/// `connect` to `to` goes to the kernel.
#[cold]
pub(crate) fn connects_at_kernel(state: &State, fd: c_int, to: SocketAddr) {
    let to = meet::plain(to);
    if !open::is_connected(fd)
        && let Some(protocol) = protocol(fd)
        && let Some(reason) = reason(state, fd, protocol, open::reachable(to))
    {
        let fate = Fate::Left(reason);
        write(state, fate, Role::Connect, protocol, Some(to));
    }
}

/// A stream was accepted as descriptor `fd`.
pub(crate) fn accepted(state: &State, fd: c_int) {
    if state.arena().log_wanted()
        && let Some(object) = object::find(fd)
    {
        let slot = state.arena().own(object.slot());
        let fate = match slot.peer_name().host == state.settings().gateway {
            true => Fate::Carrier,
            false => Fate::Direct,
        };
        let local = Some(slot.local());
        write(state, fate, Role::Accept, Protocol::Tcp, local);
    }
}

/// A listener of ours has accepted `fd` at the kernel.
pub(crate) fn accepted_at_kernel(state: &State, fd: c_int) {
    if state.arena().log_wanted() && fd >= 0 {
        let fate = Fate::Left(Reason::KernelPeer);
        let local = open::kernel_name(fd);
        write(state, fate, Role::Accept, Protocol::Tcp, local);
    }
}

/// A stream could not be accepted.
pub(crate) fn not_accepted(state: &State, listener: &Found, error: c_int) {
    if state.arena().log_wanted() && error == libc::ENOBUFS {
        let fate = Fate::Failed(Reason::StreamsExhausted);
        let local = Some(state.arena().own(listener.slot()).local());
        write(state, fate, Role::Accept, Protocol::Tcp, local);
    }
}

/// The number of an accepted descriptor is too high.
pub(crate) fn too_high(state: &State, listener: &Found) {
    if state.arena().log_wanted() {
        let fate = Fate::Failed(Reason::DescriptorTooHigh);
        let local = Some(state.arena().own(listener.slot()).local());
        write(state, fate, Role::Accept, Protocol::Tcp, local);
    }
}

/// `bind` was done. What it means for TCP says `listen` or `connect`.
#[cold]
pub(crate) fn bound(state: &State, fd: c_int) {
    let note = |fate, address| write(state, fate, Role::Bind, Protocol::Udp, Some(address));
    if let Some(object) = object::find(fd) {
        if object.kind() == Kind::Datagrams {
            note(Fate::Carrier, state.arena().own(object.slot()).local());
        }
        return;
    }
    let name = open::kernel_name(fd).filter(|_| protocol(fd) == Some(Protocol::Udp));
    if let Some(name) = name
        // Else it was told why already.
        && (!name.ip().is_unspecified() || state.settings().addresses.is_empty())
        && let Some(reason) = reason(state, fd, Protocol::Udp, name)
    {
        note(Fate::Left(reason), name);
    }
}

/// A socket bound to a wildcard has no side with us.
pub(crate) fn has_no_side(state: &State, fd: c_int, name: SocketAddr, error: c_int) {
    if state.arena().log_wanted() {
        let reason = shortage(fd, error).unwrap_or(Reason::NoCarrier);
        let fate = Fate::Left(reason);
        write(state, fate, Role::Bind, Protocol::Udp, Some(name));
    }
}

/// `sendto` on a socket that nothing is known of: `ours` when it has a side with us since.
#[cold]
pub(crate) fn sent(state: &State, fd: c_int, to: SocketAddr, ours: bool) {
    let to = meet::plain(to);
    if ours {
        let kind = object::find(fd).and_then(|object| state.arena().own(object.slot()).kind());
        if kind == Some(slot::Kind::Datagrams) {
            write(state, Fate::Carrier, Role::Send, Protocol::Udp, Some(to));
        }
        return;
    }
    // The first one: it has no port yet.
    let first = open::kernel_name(fd).is_some_and(|name| name.port() == 0);
    if first
        && protocol(fd) == Some(Protocol::Udp)
        && let Some(reason) = reason(state, fd, Protocol::Udp, to)
    {
        write(
            state,
            Fate::Left(reason),
            Role::Send,
            Protocol::Udp,
            Some(to),
        );
    }
}
