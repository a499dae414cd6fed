//! The gateway: streams between the program and the carrier, from their beginning to their end.

use crate::config::Config;
use crate::doors::Doors;
use crate::flow::{Around, End, Flow, Joined, Next};
use crate::kernel::{Kernel, Token};
use crate::tcp::{CORKED_MAX, Tcp};
use crate::udp::{SCRATCH, Udp};
use gannet::{Host, Poller, TcpStream};
use gannet_local::meet::{self, Met, Wish};
use gannet_local::name;
use gannet_local::slot::{Kind, flags};
use gannet_local::{Arena, Drained, Geometry, HostId, Network, Peers, Stream, Watcher, drain};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::process::{Resource, getrlimit};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

const SOCKET: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// How often a carrier enters a network that others leave at the same time.
const ENTERED_MAX: u32 = 64;
/// Streams taken from the program in one turn.
const ACCEPTS_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Gateway {
    peers: Peers,
    /// Its memory, for the program's processes.
    pub(crate) file: OwnedFd,
    holder: usize,
    listener: OwnedFd,
    /// The program's number.
    program: HostId,
    pub(crate) watcher: Watcher,
    /// What wakes the carrier when it has news; without one the streams do.
    pub(crate) bell: Option<OwnedFd>,
    /// By slot.
    pub(crate) flows: Vec<Option<Box<Flow>>>,
    pub(crate) doors: Doors,
    /// Flows to look at in this turn.
    list: Vec<u32>,
    /// One of them is of datagrams.
    datagrams: bool,
    /// Flows with corked bytes, and when to look at them again: the first is due first.
    corked: VecDeque<(Instant, u32)>,
    /// Flows joined to something.
    pub(crate) open: usize,
    scratch: Vec<u8>,
    /// Bytes given to programs since somebody was woken for them.
    pub(crate) given: usize,
    /// Datagrams for programs that did not read theirs.
    pub(crate) dropped: u64,
}

/// What of the carrier the gateway works with.
pub(crate) struct Tools<'a> {
    pub(crate) host: &'a Host,
    pub(crate) poller: &'a Poller,
    pub(crate) kernel: &'a Kernel,
    pub(crate) program: &'a Arc<Arena>,
    pub(crate) now: Instant,
}

impl Gateway {
    /// The network, and this, the carrier's first name in it: the directory goes with the last
    /// carrier that was there before, in the moment before that name is in it perhaps.
    ///
    /// # Errors
    /// What keeps the directory from being made, or the gateway.
    pub(crate) fn enter(
        config: &Config,
        number: HostId,
        geometry: Geometry,
        program: &Arc<Arena>,
    ) -> io::Result<(Network, Gateway)> {
        let mut tried = 0;
        loop {
            let network = config.network()?;
            // What killed carriers and programs left.
            network.sweep();
            match Self::open(network, number, geometry, program) {
                Err(Errno::NOENT) if tried < ENTERED_MAX => tried += 1,
                opened => return Ok((network, opened?)),
            }
        }
    }

    /// A gateway with the number `host`, for `program`.
    fn open(
        network: Network,
        host: HostId,
        geometry: Geometry,
        program: &Arc<Arena>,
    ) -> Result<Gateway, Errno> {
        // All of it is mapped at once: it is sealed against every later writer.
        let room = getrlimit(Resource::As).current.unwrap_or(u64::MAX);
        let (file, arena) = Arena::create_alone(host, geometry.within(room / 4))?;
        let arena = Arc::new(arena);
        let holder = arena.enter(std::process::id()).ok_or(Errno::NOMEM)?;
        // A datagram socket of the program's comes from no address yet.
        let peers = Peers::new(arena.clone(), network).with_partner(program.host());
        let peers = peers.asking_none();
        peers.insert(program.clone());
        let listener = meet::bind_as(&network, &name::gateway(&network, program.host())?)?;
        rustix::net::listen(&listener, 4096)?;
        let watcher = Watcher::new(arena, holder);
        let bell = watcher.make_bell();
        Ok(Gateway {
            peers,
            file,
            holder,
            listener,
            program: program.host(),
            watcher,
            bell,
            flows: Vec::new(),
            doors: Doors::default(),
            list: Vec::new(),
            datagrams: false,
            corked: VecDeque::new(),
            open: 0,
            scratch: vec![0; SCRATCH],
            given: 0,
            dropped: 0,
        })
    }

    /// Its memory.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        self.peers.own()
    }

    pub(crate) fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// Takes the streams that processes of the program have opened to the carrier. False when the
    /// kernel has no descriptor left for them.
    pub(crate) fn accept(&mut self, tools: &Tools<'_>) -> bool {
        for _ in 0..ACCEPTS_MAX {
            match meet::accept(&self.peers, self.holder, &self.listener, SOCKET) {
                Ok(met) => self.admit(tools, met),
                Err(Errno::AGAIN) => return true,
                Err(Errno::NOBUFS | Errno::CONNABORTED) => {}
                Err(_) => return false,
            }
        }
        // The others are there in the next turn.
        true
    }

    /// Somebody has opened a stream to the carrier: joins it to what it asks for.
    fn admit(&mut self, tools: &Tools<'_>, met: Met) {
        let own = self.peers.own().clone();
        let slot = own.own(met.slot);
        let end = End {
            fd: met.fd,
            slot: met.slot,
        };
        let joined = match slot.peer_name().host == self.program {
            false => Err(libc::EPERM),
            true => self.join(tools, &end),
        };
        match joined {
            Ok(joined) => self.begin(tools, end, joined),
            Err(errno) => {
                let _ = meet::say_no(&end.fd, Errno::from_raw_os_error(errno));
                self.free(end.slot);
            }
        }
    }

    fn join(&mut self, tools: &Tools<'_>, end: &End) -> Result<Joined, i32> {
        let own = self.peers.own().clone();
        let slot = own.own(end.slot);
        match slot.kind() {
            Some(Kind::Stream) => {
                let (from, to) = (meet::plain(slot.remote()), meet::plain(slot.local()));
                let name = slot.peer_name();
                let peer = tools.program.peer(name.slot);
                let peer = (peer.generation() == name.generation).then_some(peer);
                let tcp = Tcp::begin(tools.host, end.slot, (from, to), peer)?;
                Ok(Joined::Tcp(Box::new(tcp)))
            }
            Some(Kind::Datagrams) => {
                let mut around = self.around(tools, &own);
                let udp = Udp::open(tools.host, end, &mut around)?;
                Ok(Joined::Udp(Box::new(udp)))
            }
            _ => Err(libc::EPROTONOSUPPORT),
        }
    }

    /// A stream is joined to something: watches both.
    fn begin(&mut self, tools: &Tools<'_>, end: End, joined: Joined) {
        let slot = end.slot;
        self.watcher.add(slot, tools.program);
        // Fails when the kernel's memory runs out: then only news of the program tells.
        let _ = tools.kernel.add(&end.fd, Token::Flow(slot));
        let place = slot as usize;
        if self.flows.len() <= place {
            self.flows.resize_with(place + 1, || None);
        }
        if let Some(entry) = self.flows.get_mut(place) {
            *entry = Some(Box::new(Flow {
                end,
                joined,
                listed: false,
                corked: false,
            }));
        }
        self.open += 1;
        self.list(slot);
    }

    /// Takes the connections that wait at a door. True when the program's listener has no room for
    /// the next one.
    pub(crate) fn welcome(&mut self, tools: &Tools<'_>, door: usize) -> bool {
        loop {
            let Some(open) = self.doors.get_mut(door) else {
                return false;
            };
            let Some(tcp) = open.next() else {
                open.watch(tools.poller, door, true);
                return false;
            };
            let (Ok(local), Ok(remote)) = (tcp.local_addr(), tcp.peer_addr()) else {
                continue;
            };
            let (local, remote) = (meet::plain(local), meet::plain(remote));
            let names = open.names(self.peers.network(), self.program, local);
            let wish = Wish {
                local: remote,
                remote: local,
                kind: Kind::Stream,
                socket: SOCKET,
            };
            let met = meet::prepare(&self.peers, self.holder, wish, false);
            let met = met.and_then(|met| meet::connect_by(&self.peers, self.holder, met, names));
            match met {
                Ok(met) => self.hand_over(tools, met, tcp),
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::MFILE | Errno::NFILE) => {
                    open.waiting = Some(tcp);
                    open.watch(tools.poller, door, false);
                    return true;
                }
                // Nobody listens any more; the connection is reset.
                Err(_) => {
                    let _ = tcp.set_linger(Some(std::time::Duration::ZERO));
                    self.doors.prune(tools.program);
                }
            }
        }
    }

    fn hand_over(&mut self, tools: &Tools<'_>, met: Met, tcp: TcpStream) {
        let tcp = Box::new(Tcp::accepted(tcp, met.slot));
        let end = End {
            fd: met.fd,
            slot: met.slot,
        };
        self.begin(tools, end, Joined::Tcp(tcp));
    }

    fn flow(&mut self, slot: u32) -> Option<&mut Flow> {
        self.flows.get_mut(slot as usize)?.as_deref_mut()
    }

    /// This flow is to be looked at.
    pub(crate) fn list(&mut self, slot: u32) {
        let Some(flow) = self.flow(slot) else { return };
        let datagrams = matches!(flow.joined, Joined::Udp(_));
        if !std::mem::replace(&mut flow.listed, true) {
            self.list.push(slot);
            self.datagrams |= datagrams;
        }
    }

    /// Whether datagrams may be among what is to be looked at; told once.
    pub(crate) fn has_datagrams(&mut self) -> bool {
        std::mem::take(&mut self.datagrams)
    }

    /// All flows are to be looked at.
    pub(crate) fn list_all(&mut self) {
        for slot in 0..self.flows.len() {
            self.list(slot as u32);
        }
    }

    /// The poller says that what a flow is joined to can be read.
    pub(crate) fn readable(&mut self, slot: u32) {
        match self.flow(slot).map(|flow| &mut flow.joined) {
            Some(Joined::Tcp(tcp)) => tcp.is_readable(),
            Some(Joined::Udp(udp)) => udp.is_readable(),
            Some(Joined::Nothing) | None => {}
        }
    }

    /// The poller says that what a flow is joined to has failed.
    pub(crate) fn failed(&mut self, slot: u32, poller: &Poller) {
        if let Some(Joined::Tcp(tcp)) = self.flow(slot).map(|flow| &mut flow.joined) {
            tcp.has_failed(poller);
        }
    }

    /// The kernel says that a flow's descriptor has wake-ups, an answer, or a hang-up.
    pub(crate) fn woken(&mut self, tools: &Tools<'_>, slot: u32, hung_up: bool) {
        let Gateway { peers, flows, .. } = self;
        let Some(Some(flow)) = flows.get_mut(slot as usize) else {
            return;
        };
        let own = peers.own().own(slot);
        hear_answer(peers, tools.program, &flow.end);
        let mut gone = hung_up;
        if own.flags() & flags::RESOLVED != 0 {
            gone |= drain(flow.end.fd.as_fd()) == Drained::HungUp;
        }
        if gone {
            let program = Some(&**tools.program);
            Stream::new(peers.own(), slot, program, flow.end.fd.as_fd()).hung_up();
            tools.kernel.remove(&flow.end.fd);
        }
        let datagrams = matches!(flow.joined, Joined::Udp(_));
        self.list(slot);
        if gone && datagrams {
            // Nobody has its port any more, which what others send is to find.
            let at = self.list.iter().position(|other| *other == slot);
            if let Some(before) = at.and_then(|at| self.list.get_mut(..=at)) {
                before.rotate_right(1);
            }
        }
    }

    /// Follows what the program's processes did. True when there was anything.
    pub(crate) fn hear(&mut self) -> bool {
        if !self.watcher.has_news() {
            return false;
        }
        let mut heard = std::mem::take(&mut self.list);
        let known = heard.len();
        let sure = self.watcher.collect(&mut heard);
        self.list = Vec::with_capacity(heard.len());
        for (n, slot) in heard.into_iter().enumerate() {
            match n < known {
                true => self.list.push(slot),
                false => self.list(slot),
            }
        }
        if !sure {
            self.list_all();
        }
        true
    }

    /// Whether any flow is to be looked at.
    pub(crate) fn has_work(&self) -> bool {
        !self.list.is_empty()
    }

    /// Wakes whoever is to be woken since [`Arena::gather`]. (A stream that was closed since has
    /// woken its other end by that.)
    pub(crate) fn ring(&mut self) {
        self.given = 0;
        for slot in self.peers.own().ring_gathered() {
            if let Some(flow) = self.flow(slot) {
                gannet_local::wake(flow.end.fd.as_fd());
            }
        }
    }

    /// Looks at all flows of the list.
    pub(crate) fn look(&mut self, tools: &Tools<'_>) {
        let own = self.peers.own().clone();
        let mut list = std::mem::take(&mut self.list);
        for slot in list.drain(..) {
            self.look_at(tools, &own, slot);
        }
        // Those that have their turn again were listed meanwhile.
        if self.list.is_empty() {
            self.list = list;
        }
    }

    fn look_at(&mut self, tools: &Tools<'_>, own: &Arena, slot: u32) {
        let Some(mut flow) = self.flows.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        flow.listed = false;
        hear_answer(&self.peers, tools.program, &flow.end);
        let mut around = self.around(tools, own);
        let next = match &mut flow.joined {
            Joined::Tcp(tcp) => tcp.look(&flow.end, &mut around),
            Joined::Udp(udp) => udp.look(&flow.end, &mut around),
            Joined::Nothing => Next::Wait,
        };
        if matches!(next, Next::Over | Next::Refused) {
            flow.joined = Joined::Nothing;
            self.open = self.open.saturating_sub(1);
        }
        let over = matches!(flow.joined, Joined::Nothing);
        if next == Next::Refused || over && self.is_forgotten(tools, &flow) {
            self.watcher.remove(slot, self.program);
            drop(flow);
            self.free(slot);
            return;
        }
        if let Some(place) = self.flows.get_mut(slot as usize) {
            *place = Some(flow);
        }
        match next {
            Next::Again => self.list(slot),
            Next::Uncork => self.uncork_later(slot, tools.now),
            _ => {}
        }
    }

    fn uncork_later(&mut self, slot: u32, now: Instant) {
        let Some(flow) = self.flow(slot) else { return };
        if !std::mem::replace(&mut flow.corked, true) {
            self.corked.push_back((now + CORKED_MAX, slot));
        }
    }

    /// When corked bytes have waited long enough.
    pub(crate) fn uncorking_due(&self) -> Option<Instant> {
        self.corked.front().map(|(due, _)| *due)
    }

    /// Looks at those whose corked bytes have waited long enough by now, or left long ago.
    pub(crate) fn uncork(&mut self, now: Instant) {
        while let Some((_, slot)) = self.corked.pop_front_if(|(due, _)| *due <= now) {
            if let Some(flow) = self.flow(slot) {
                flow.corked = false;
            }
            self.list(slot);
        }
    }

    /// Whether the program needs the memory of this end no more. One that was never accepted may
    /// still be: as long as its listener lives.
    fn is_forgotten(&self, tools: &Tools<'_>, flow: &Flow) -> bool {
        let own = self.peers.own();
        let known = own.own(flow.end.slot).flags();
        if known & flags::RESOLVED == 0 {
            return known & (flags::HUNG_UP | flags::BROKEN) != 0;
        }
        let fd = flow.end.fd.as_fd();
        Stream::new(own, flow.end.slot, Some(tools.program), fd).is_forgotten()
    }

    /// Says anew what is known of the connection behind a slot, if there is one.
    pub(crate) fn tell_figures(&self, slot: u32) {
        let flow = self.flows.get(slot as usize).and_then(Option::as_deref);
        if let Some(Joined::Tcp(tcp)) = flow.map(|flow| &flow.joined) {
            tcp.tell_figures_now(self.arena().own(slot));
        }
    }

    /// The same, of all.
    pub(crate) fn tell_all_figures(&self) {
        (0..self.flows.len()).for_each(|slot| self.tell_figures(slot as u32));
    }

    fn free(&self, slot: u32) {
        let own = self.peers.own();
        own.let_go(self.holder, slot);
        own.free(self.holder, slot);
    }

    fn around<'a>(&'a mut self, tools: &'a Tools<'_>, own: &'a Arena) -> Around<'a> {
        Around {
            own,
            program: tools.program,
            poller: tools.poller,
            scratch: &mut self.scratch,
            given: &mut self.given,
            now: tools.now,
            dropped: &mut self.dropped,
        }
    }
}

/// Whether the program has answered the stream by now. It may have looked and gone to sleep since
/// its answer, and until that was heard nobody saw it sleep: what was written meanwhile is told
/// now.
fn hear_answer(peers: &Peers, program: &Arena, end: &End) {
    if peers.own().own(end.slot).flags() & flags::RESOLVED != 0 {
        return;
    }
    meet::resolve(peers, end.slot, end.fd.as_fd());
    Stream::new(peers.own(), end.slot, Some(program), end.fd.as_fd()).tell();
}
