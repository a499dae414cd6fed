//! This process as part of a carried program: its arena, its addresses, what is ours.

use crate::errno::Outcome;
use crate::interfaces;
use gannet_local::service::{self, Question};
use gannet_local::{Arena, HostId, Lingering, Made, Network, Peers, UNKNOWN, pid_namespace};
use std::ffi::{CStr, CString};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The variable by which a process finds its carrier: `HOST:UID:PID:DIRECTORY`, the first
/// hexadecimal.
pub(crate) const VARIABLE: &str = "GANNET_ATTACH";

/// The entry among the processes that was made for this one before it existed: its number and that
/// of its maker.
pub(crate) const ENTRY: &str = "GANNET_RUN_ENTRY";

/// What the image of a child finds its entry by.
pub(crate) fn entry_variable(entry: Made) -> Option<CString> {
    CString::new(format!("{ENTRY}={entry}:{}", std::process::id())).ok()
}

/// Whether a string of an environment is such a variable.
pub(crate) fn is_entry(text: &CStr) -> bool {
    let rest = text.to_bytes().strip_prefix(ENTRY.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"="))
}

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    peers: Peers,
    holder: AtomicUsize,
    host: HostId,
    lingering: Lingering,
    settings: Settings,
    /// What a new image of this process needs in its environment.
    pub(crate) environment: Vec<CString>,
}

/// What the carrier says when a process attaches: lines of a word and its value.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Our own addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// The interface where they stand.
    pub(crate) interface: CString,
    /// Networks that are reached through us.
    pub(crate) routes: Vec<Prefix>,
    /// Whether loopback addresses mean the network's programs first.
    pub(crate) loopback: bool,
    /// Longest look before a sleep.
    pub(crate) spin: Option<Duration>,
    /// Whether small writes leave at once.
    pub(crate) nodelay: bool,
    /// The number under which the carrier is the other end of streams.
    pub(crate) gateway: HostId,
}

/// A network prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    fn parse(text: &str) -> Option<Prefix> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= most)?;
        Some(Prefix { address, bits })
    }

    fn has(self, ip: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.address, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let differ = u32::from(a) ^ u32::from(b);
                differ.checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let differ = u128::from(a) ^ u128::from(b);
                differ.checked_shr(128 - bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl Settings {
    fn parse(text: &str) -> Settings {
        let mut settings = Settings {
            interface: c"lo".to_owned(),
            ..Settings::default()
        };
        for line in text.lines() {
            let Some((word, value)) = line.split_once(' ') else {
                continue;
            };
            match word {
                "address" => settings.addresses.extend(value.parse::<IpAddr>().ok()),
                "interface" => {
                    settings.interface = CString::new(value).unwrap_or_default();
                }
                "route" => settings.routes.extend(Prefix::parse(value)),
                "loopback" => settings.loopback = value == "yes",
                "gateway" => settings.gateway = HostId::from_str_radix(value, 16).unwrap_or(0),
                "nodelay" => settings.nodelay = value == "1",
                "spin" => {
                    settings.spin = value.parse().ok().map(Duration::from_micros);
                }
                _ => {}
            }
        }
        settings
    }

    /// The leading bits of an own address that are its network's.
    pub(crate) fn bits_of(&self, own: IpAddr) -> u8 {
        let networks = self
            .routes
            .iter()
            .filter(|route| route.bits > 0 && route.has(own));
        let whole = if own.is_ipv4() { 32 } else { 128 };
        networks.map(|route| route.bits).max().unwrap_or(whole)
    }
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

/// The state, if this process is carried.
#[inline]
pub(crate) fn get() -> Option<&'static State> {
    // SAFETY: leaked when it was set.
    unsafe { STATE.load(Acquire).as_ref() }
}

/// Whose an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The kernel's.
    Kernel,
    /// Loopback: a program's of the network if one listens there, else the kernel's.
    Loopback,
    /// Ours, or reached through us.
    Ours,
}

/// Attaches this process to its carrier, if there is one. Called once, before the program's `main`.
pub(crate) fn attach() {
    let Some((network, host)) = named_carrier() else {
        return;
    };
    let Ok(state) = State::attach(network, host) else {
        say_not_attached();
        return;
    };
    crate::object::set_spin_time(state.settings.spin.unwrap_or(Duration::from_micros(50)));
    STATE.store(Box::leak(Box::new(state)), Release);
}

fn named_carrier() -> Option<(Network, HostId)> {
    let value = std::env::var(VARIABLE).ok()?;
    let (host, network) = value.split_once(':')?;
    let host = u64::from_str_radix(host, 16).ok()?;
    Some((Network::parse(network)?, host))
}

/// The program goes on with the kernel's sockets; it must not be silent about it.
fn say_not_attached() {
    let text = b"gannet: this process is not carried\n\
        why: the carrier that started it has ended, or does not answer\n\
        try: start the program again with `gannet run`\n";
    if std::env::var_os("GANNET_QUIET").is_none() {
        let _ = rustix::io::write(rustix::stdio::stderr(), text);
    }
}

impl State {
    fn attach(network: Network, host: HostId) -> Outcome<State> {
        let raw = crate::errno::raw;
        let answer = service::ask(&network, host, &Question::Attach).map_err(raw)?;
        let file = answer.file.ok_or(libc::EPROTO)?;
        let arena = Arc::new(Arena::open(&file, true).map_err(raw)?);
        let pid = std::process::id();
        // What this process was before `exec`, or what its maker held for it. Left once this
        // process holds anew what it kept: else whoever closed its own meanwhile was the last.
        let mut before: Vec<Made> = made_for_us(&arena).into_iter().collect();
        // (Its maker may have given it our number since.)
        let here = pid_namespace();
        let own = |made: &Made| made.pid() == pid && arena.namespace_of(made.entry) == here;
        before.extend(arena.entries().filter(own));
        // Other threads were about to fork when `exec` ended them.
        let makers: Vec<usize> = before.iter().map(|made| made.entry).collect();
        let ours = |made: &Made| made.maker().is_some_and(|maker| makers.contains(&maker));
        before.extend(arena.entries().filter(ours));
        let entry = arena.enter(pid).or_else(|| {
            // All are taken: one of them by what we were.
            before.drain(..).for_each(|made| give_back(&arena, made));
            arena.enter(pid)
        });
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = before;
        let entered = |entry| Question::Enter(arena.look_at(entry).pack());
        let _ = service::ask(&network, host, &entry.map_or(Question::Look, entered));
        // Too many processes: what this one has ends when the kernel says so.
        let holder = entry.unwrap_or(UNKNOWN);
        let environment = environment(&network, host);
        let settings = Settings::parse(&answer.text);
        Ok(State {
            peers: Peers::new(arena, network).with_partner(settings.gateway),
            holder: AtomicUsize::new(holder),
            host,
            lingering: Lingering::default(),
            settings,
            environment,
        })
    }

    /// The own program's arena.
    #[inline]
    pub(crate) fn arena(&self) -> &Arena {
        self.peers.own()
    }

    /// Whether the interface that leads to `ip` is off.
    pub(crate) fn is_cut_off_from(&self, ip: IpAddr) -> bool {
        self.arena().is_link_down() && !self.settings.addresses.contains(&ip)
    }

    /// The own program's arena, to be shared.
    pub(crate) fn shared_arena(&self) -> &Arc<Arena> {
        self.peers.own()
    }

    /// The other programs.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// This process's entry in the arena.
    pub(crate) fn holder(&self) -> usize {
        self.holder.load(Relaxed)
    }

    pub(crate) fn set_holder(&self, holder: usize) {
        self.holder.store(holder, Relaxed);
    }

    /// Which carrier.
    pub(crate) fn host(&self) -> HostId {
        self.host
    }

    /// Streams closed here that the other end is not done with.
    pub(crate) fn lingering(&self) -> &Lingering {
        &self.lingering
    }

    /// What the carrier said.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whose `ip` is.
    pub(crate) fn whose(&self, ip: IpAddr) -> Whose {
        if ip.is_loopback() {
            return match self.settings.loopback {
                true => Whose::Loopback,
                false => Whose::Kernel,
            };
        }
        let mut routes = self.settings.routes.iter();
        let ours = self.settings.addresses.contains(&ip)
            || routes.any(|prefix| prefix.has(ip) && (prefix.bits > 0 || is_elsewhere(ip)));
        if ours { Whose::Ours } else { Whose::Kernel }
    }

    /// The address from which to speak to `to`.
    pub(crate) fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        if to.is_loopback() {
            return Some(to);
        }
        let fits = |ip: &&IpAddr| ip.is_ipv4() == to.is_ipv4();
        self.settings.addresses.iter().find(fits).copied()
    }

    /// A port for a socket that has none.
    pub(crate) fn fresh(&self, ip: IpAddr) -> SocketAddr {
        static START: OnceLock<u16> = OnceLock::new();
        let start = *START.get_or_init(|| {
            let mut bytes = [0u8; 2];
            let _ = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::NONBLOCK);
            u16::from_ne_bytes(bytes)
        });
        SocketAddr::new(ip, self.arena().next_port(start))
    }
}

/// Whether a default route may lead to `ip`: a host of another machine. The kernel's own addresses
/// are reached through the kernel only.
fn is_elsewhere(ip: IpAddr) -> bool {
    let is_host = match ip {
        IpAddr::V4(ip) => !ip.is_broadcast() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    is_host && !ip.is_unspecified() && !ip.is_multicast() && !interfaces::is_kernels(ip)
}

/// The entry that the maker of this process made for it, unless it has our number by now.
fn made_for_us(arena: &Arena) -> Option<Made> {
    let value = std::env::var(ENTRY).ok()?;
    let (made, maker) = value.split_once(':')?;
    let made: Made = made.parse().ok()?;
    let parent = rustix::process::getppid()?.as_raw_nonzero().get();
    let is_ours = maker.parse() == Ok(parent) && arena.is_unborn(made);
    is_ours.then_some(made)
}

/// Entries that hold what came with the descriptors.
static BEFORE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

/// Everything that came with the descriptors is held by this process: the entries that held it
/// until now are of no use any more.
pub(crate) fn is_complete(state: &State) {
    let before = std::mem::take(&mut *BEFORE.lock().unwrap_or_else(PoisonError::into_inner));
    before
        .into_iter()
        .for_each(|made| give_back(state.arena(), made));
}

/// Its maker may name it at this moment.
fn give_back(arena: &Arena, made: Made) {
    let now = arena.look_at(made.entry);
    if !arena.leave_as(made) && now.pack() == made.pack() {
        arena.leave_as(now);
    }
}

fn environment(network: &Network, host: HostId) -> Vec<CString> {
    let attach = format!("{VARIABLE}={host:016x}:{network}");
    let preload = std::env::var("LD_PRELOAD").map(|value| format!("LD_PRELOAD={value}"));
    let all = [Some(attach), preload.ok()];
    all.into_iter()
        .flatten()
        .filter_map(|text| CString::new(text).ok())
        .collect()
}
