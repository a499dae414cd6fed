//! The event loop: one turn of it. What happens in it is in the other files; each line is a call to
//! read next.

use crate::config::Config;
use crate::doors;
use crate::gateway::{Gateway, Tools};
use crate::host::Stack;
use crate::introductions::Introductions;
use crate::janitor::{Janitor, Others, Swept};
use crate::kept::Kept;
use crate::kernel::{Kernel, News, Token};
use crate::link_watch::LinkWatch;
use crate::processes::Processes;
use crate::questions::{Asked, Questions};
use crate::strangers::Strangers;
use gannet::settings::{Knob, LinkChoice};
use gannet::{Event, Host, Poller};
use gannet_local::credentials::Credentials;
use gannet_local::service::{self, Question};
use gannet_local::{Arena, HostId, Made, Network, Spin, bell};
use rustix::fd::{AsFd, IntoRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Turns between two looks at the kernel while there is work, or the loop looks around.
const KERNEL_EVERY: u32 = 32;
/// Turns between two looks at the links while there is nothing: such a look is a system call where
/// the link is the kernel's, a look at the program's memory is next to nothing.
const LINKS_EVERY: u32 = 4;
/// Bytes of which a program hears later, together with what comes next, if that is there already:
/// one that is woken for each super-segment sleeps again before the next, which costs both more
/// than the copy. From half a ring on it reads while the other half fills. (Small messages are not
/// worth the wait.)
const MUCH: Range<usize> = 16 << 10..256 << 10;
/// Turns in a row that this may take.
const UNRUNG_MAX: u32 = 7;
/// How soon to try again where a listener had no room, or descriptors had run out.
const TRY_AGAIN: Duration = Duration::from_millis(2);
/// How often an entry may change while its process is found dead: by its parent, once.
const NAMED_MEANWHILE: u32 = 4;
/// How long what programs left behind may take to be delivered.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Carrier {
    pub(crate) config: Config,
    pub(crate) network: Network,
    pub(crate) host: Host,
    pub(crate) routes: Vec<String>,
    poller: Poller,
    kernel: Kernel,
    /// The program's memory.
    pub(crate) program: Arc<Arena>,
    file: OwnedFd,
    pub(crate) gateway: Gateway,
    /// Where processes ask: near, and from afar.
    service: [OwnedFd; 2],
    /// Say that the program has its addresses, for as long as they are open.
    _claims: Vec<OwnedFd>,
    questions: Questions,
    kept: Kept,
    pub(crate) strangers: Strangers,
    introductions: Introductions,
    pub(crate) processes: Processes,
    janitor: Janitor,
    guardian: Option<OwnedFd>,
    link: Option<LinkWatch>,
    /// Since when nobody is left, or nobody was ever there.
    alone: Option<Instant>,
    /// Whether a process was there.
    visited: bool,
    /// When to try again what there was no room for.
    again: Option<Instant>,
    now: Instant,
    turns: u32,
    /// Turns in a row in which there was nothing.
    idle: u32,
    /// Turns in a row after which nobody was woken, since there was more for them.
    unrung: u32,
    events: Vec<Event>,
    news: Vec<News>,
}

impl Carrier {
    /// Makes everything; from now on processes are answered once the loop runs.
    pub(crate) fn open(config: Config, stack: Stack) -> io::Result<Carrier> {
        let geometry = config.geometry();
        let (file, program) = Arena::create(config.host, geometry)?;
        let program = Arc::new(program);
        // Another number for its own ends, which nobody else has.
        let number = config.host.wrapping_add(1).max(1);
        let (network, gateway) = Gateway::enter(&config, number, geometry, &program)?;
        let service = service::listen(&network, config.host)?;
        let claims = stack.host.addresses().into_iter();
        let claims = claims.filter_map(|ip| network.claim(ip, config.host).ok());
        let claims = claims.collect();
        let kernel = Kernel::new()?;
        kernel.add(gateway.listener(), Token::Gateway)?;
        for (at, listener) in service.iter().enumerate() {
            kernel.add(listener, Token::Service(at as u32))?;
        }
        if let Some(bell) = &gateway.bell {
            kernel.add(bell, Token::Bell)?;
            gateway.watcher.hang_bell();
        }
        bell::set_ringer(bell::ringer()?.into_raw_fd());
        let guardian = config.guardian.and_then(guard);
        if let Some(guardian) = &guardian {
            kernel.add(guardian, Token::Guardian)?;
        }
        // Without one programs hear of it later, from TCP.
        let link = LinkWatch::new(&config.settings.link()).ok().flatten();
        if let Some(link) = &link {
            kernel.add(&link.socket, Token::Link)?;
        }
        let poller = Poller::new(&stack.host);
        poller.add_descriptor(kernel.as_fd())?;
        Ok(Carrier {
            config,
            network,
            host: stack.host,
            routes: stack.routes,
            poller,
            kernel,
            program,
            file,
            gateway,
            service,
            _claims: claims,
            questions: Questions::default(),
            kept: Kept::default(),
            strangers: Strangers::default(),
            introductions: Introductions::default(),
            processes: Processes::new(),
            janitor: Janitor::new()?,
            guardian,
            link,
            alone: Some(Instant::now()),
            visited: false,
            again: None,
            now: Instant::now(),
            turns: 0,
            idle: 0,
            unrung: 0,
            events: Vec::new(),
            news: Vec::new(),
        })
    }

    /// Until nobody is left.
    pub(crate) fn run(&mut self) {
        let spin = Spin::new(self.config.settings.time(Knob::Spin));
        while !self.is_over() {
            if self.turn() || spin.until(|| self.turn()) {
                continue;
            }
            self.sleep();
        }
        self.program.carrier_leaves();
    }

    /// One turn: what came from the links, what the program did, what the kernel tells, what is
    /// due, and the streams that this concerns. True when there was anything.
    fn turn(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        if self.idle.is_multiple_of(LINKS_EVERY) {
            self.look_at_links();
        }
        self.gateway.hear();
        let mut busy = false;
        if self.turns.is_multiple_of(KERNEL_EVERY) {
            self.now = Instant::now();
            busy |= self.look_at_kernel();
            self.do_what_is_due();
        }
        busy |= self.look_at_flows();
        self.idle = match busy {
            true => 0,
            false => self.idle.wrapping_add(1),
        };
        busy
    }

    fn look_at_links(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        // None of its errors is possible: see its description.
        let _ = self.poller.wait(&mut events, Some(Duration::ZERO));
        self.heed_events(&events);
        self.events = events;
    }

    fn tools(&mut self) -> (&mut Gateway, Tools<'_>) {
        let tools = Tools {
            host: &self.host,
            poller: &self.poller,
            kernel: &self.kernel,
            program: &self.program,
            now: self.now,
        };
        (&mut self.gateway, tools)
    }

    /// What all of them send leaves together, and whoever sleeps on several of them is woken once.
    fn look_at_flows(&mut self) -> bool {
        if !self.gateway.has_work() {
            if self.unrung > 0 {
                self.ring();
            }
            return false;
        }
        if self.gateway.has_datagrams() {
            // Who has died before they were sent is not there to get them.
            self.look_at_kernel();
        }
        let together = self.host.gather();
        self.gateway.arena().gather();
        let (gateway, tools) = self.tools();
        gateway.look(&tools);
        let much = MUCH.contains(&self.gateway.given);
        if much && self.unrung < UNRUNG_MAX && self.host.has_more() {
            self.unrung += 1;
        } else {
            self.ring();
        }
        drop(together);
        true
    }

    /// Wakes whoever sleeps although there is something for him by now.
    fn ring(&mut self) {
        self.gateway.ring();
        self.unrung = 0;
    }

    fn heed_events(&mut self, events: &[Event]) {
        for event in events {
            if let Some(door) = doors::number(event.token) {
                self.welcome(door);
                continue;
            }
            let slot = event.token as u32;
            if event.readable || event.failed {
                self.gateway.readable(slot);
            }
            if event.failed {
                self.gateway.failed(slot, &self.poller);
            }
            self.gateway.list(slot);
        }
    }

    fn welcome(&mut self, door: usize) {
        let (gateway, tools) = self.tools();
        if gateway.welcome(&tools, door) {
            self.try_again();
        }
    }

    fn try_again(&mut self) {
        self.again = Some(self.now + TRY_AGAIN);
    }

    /// Sleeps until something happens anywhere.
    fn sleep(&mut self) {
        let news = self.gateway.watcher.arm();
        if !news {
            let begun = Instant::now();
            let timeout = self.due().map(|due| due.saturating_duration_since(begun));
            let mut events = std::mem::take(&mut self.events);
            let _ = self.poller.sleep(&mut events, timeout);
            self.now = Instant::now();
            self.events = events;
        }
        self.gateway.watcher.disarm();
        let events = std::mem::take(&mut self.events);
        self.heed_events(&events);
        self.events = events;
        self.look_at_kernel();
        self.do_what_is_due();
        self.gateway.hear();
        self.look_at_flows();
    }

    /// When the loop must turn again at the latest.
    fn due(&self) -> Option<Instant> {
        let last = self.alone.map(|alone| alone + LAST_WORDS);
        let corked = self.gateway.uncorking_due();
        let suspects = self.processes.due();
        let (asked, introduced) = (self.strangers.due(), self.introductions.due());
        let all = [self.janitor.due(), self.again, corked, last, suspects];
        let all = all.into_iter().chain([asked, introduced]);
        all.flatten().min()
    }

    fn do_what_is_due(&mut self) {
        if self.janitor.due().is_some_and(|due| due <= self.now) {
            self.sweep();
        }
        if self.again.is_some_and(|due| due <= self.now) {
            self.again = None;
            let crowded: Vec<usize> = self.gateway.doors.crowded().collect();
            for door in crowded {
                self.welcome(door);
            }
            // Whoever could not be taken for want of descriptors.
            self.watch_doors_of_the_kernel();
        }
        self.gateway.uncork(self.now);
        if self.strangers.due().is_some_and(|due| due <= self.now) {
            for host in self.strangers.give_up(self.now) {
                self.introductions.is_unknown(host);
            }
        }
        if self.introductions.due().is_some_and(|due| due <= self.now) {
            self.bring_introduced();
        }
        let suspects = self.processes.due().is_some_and(|due| due <= self.now);
        if suspects || self.processes.is_stale(&self.program) {
            self.look_at_processes();
        }
    }

    fn watch_doors_of_the_kernel(&self) {
        // Watched already, in most cases.
        let _ = self.kernel.add(self.gateway.listener(), Token::Gateway);
        for (at, listener) in self.service.iter().enumerate() {
            let _ = self.kernel.add(listener, Token::Service(at as u32));
        }
    }

    /// True when there was anything.
    fn look_at_kernel(&mut self) -> bool {
        let mut news = std::mem::take(&mut self.news);
        self.kernel.look(&mut news);
        let any = !news.is_empty();
        for News { token, hung_up } in news.drain(..) {
            self.heed(token, hung_up);
        }
        self.news = news;
        any
    }

    fn heed(&mut self, token: Token, hung_up: bool) {
        let mut asked = Vec::new();
        match token {
            Token::Flow(slot) => {
                let (gateway, tools) = self.tools();
                gateway.woken(&tools, slot, hung_up);
            }
            Token::Gateway => {
                let (gateway, tools) = self.tools();
                if !gateway.accept(&tools) {
                    self.kernel.remove(self.gateway.listener());
                    self.try_again();
                }
            }
            Token::Service(at) => self.take_questions(at as usize, &mut asked),
            Token::Question(number) => self.questions.read(number, &mut asked),
            Token::Fetched(number) => self.fetched(number),
            Token::Stranger(number) => {
                let gone = self.strangers.ended(number, &self.kernel);
                self.forget_news(&gone);
            }
            Token::Introduced(number) => {
                self.introductions.heard(number, self.now);
            }
            Token::Process(entry) => self.process_ended(entry as usize),
            Token::Bell => {
                // Its news is heard in every turn.
                if let Some(bell) = &self.gateway.bell {
                    bell::silence(bell);
                }
            }
            Token::Guardian => self.guardian = None,
            Token::Link => {
                if let Some(up) = self.link.as_ref().and_then(LinkWatch::read) {
                    self.program.say_link(up);
                }
            }
        }
        for question in asked {
            self.answer(question);
        }
    }

    fn take_questions(&mut self, at: usize, asked: &mut Vec<Asked>) {
        let Some(listener) = self.service.get(at) else {
            return;
        };
        let (uid, now) = (self.config.uid, Instant::now());
        let (processes, program, kernel) = (&mut self.processes, &self.program, &self.kernel);
        let mut dead = Vec::new();
        let mut may = |by: Credentials| {
            if by.uid == uid || by.uid == 0 {
                return true;
            }
            // Processes that changed their user are known by the table.
            if processes.is_stale(program) {
                processes.look(program, kernel, now, &mut dead);
            }
            by.pid != 0 && processes.has(by.pid)
        };
        let taken = self
            .questions
            .take(listener, (kernel, now), &mut may, asked);
        if !taken {
            kernel.remove(listener);
        }
        for entry in dead {
            self.bury(entry);
        }
        if !taken {
            self.try_again();
        }
    }

    fn answer(&mut self, asked: Asked) {
        match asked.question {
            Question::Connect(_) | Question::Bind(..) => asked.act(&self.network),
            Question::Attach => asked.give(&self.file, self.settings_text()),
            Question::Arena(host) => self.give_arena(host, asked),
            Question::Listen(slot) => {
                let both = (&self.host, &self.poller);
                let opened = self.gateway.doors.open(both, &self.program, slot);
                asked.say(opened.err().unwrap_or(0));
            }
            Question::Look => {
                self.look_at_processes();
                self.gateway.doors.prune(&self.program);
                self.kept.prune(&self.program, self.now);
                self.janitor.look_soon(self.now);
                asked.say(0);
            }
            Question::Enter(made) => {
                if let Ok(process) = service::peer_process(&asked.to) {
                    let (kernel, program) = (&self.kernel, &self.program);
                    let by = (process, asked.by.pid);
                    self.processes.entered(made, by, kernel, program);
                }
                self.look_at_processes();
                self.janitor.look_soon(self.now);
                asked.say(0);
            }
            Question::Figures(slot) => {
                // With what the program has done before it asked.
                self.gateway.hear();
                self.look_at_flows();
                self.gateway.tell_figures(slot);
                asked.say(0);
            }
            Question::Introduce(from, ref name) => {
                if let Some(stream) = asked.file {
                    self.introductions.begin(&self.network, from, name, stream);
                    self.introduce(from);
                }
            }
            Question::Keep(slot) => self.keep(slot, asked),
            Question::Kept(slot, place) => match self.kept.get(&self.program, slot, place) {
                Some(hidden) => asked.give(hidden, String::new()),
                None => asked.say(libc::ENOENT),
            },
            Question::List => match crate::listing::write(self) {
                Ok(file) => asked.give(file, String::new()),
                Err(error) => asked.say(error.raw_os_error()),
            },
        }
    }

    fn keep(&mut self, slot: u32, mut asked: Asked) {
        let errno = match asked.file.take() {
            Some(hidden) => match self.kept.keep(&self.program, slot, hidden, self.now) {
                true => 0,
                false => libc::ENOSPC,
            },
            None => libc::EBADF,
        };
        self.janitor.look_soon(self.now);
        asked.say(errno);
    }

    fn give_arena(&mut self, host: HostId, asked: Asked) {
        match self.memory().of(host) {
            Some(file) => asked.give(file, String::new()),
            None => {
                let with = (&self.network, &self.kernel, self.now);
                // What is wrong was answered.
                let _ = self.strangers.fetch(with, host, Some(asked.to));
            }
        }
    }

    fn memory(&self) -> Memory<'_> {
        Memory(&self.program, &self.file, &self.gateway, &self.strangers)
    }

    /// Asks for the memory of a program that connections were accepted from.
    fn introduce(&mut self, from: HostId) {
        if self.memory().of(from).is_some() {
            self.introductions.is_known(from, self.now);
            return self.bring_introduced();
        }
        let with = (&self.network, &self.kernel, self.now);
        if self.strangers.fetch(with, from, None).is_err() {
            self.introductions.is_unknown(from);
        }
    }

    /// Another carrier has answered.
    fn fetched(&mut self, number: u32) {
        match self.strangers.fetched(number, &self.kernel) {
            Some((host, true)) => self.introductions.is_known(host, self.now),
            Some((host, false)) => self.introductions.is_unknown(host),
            None => return,
        }
        self.bring_introduced();
    }

    fn bring_introduced(&mut self) {
        let memory = Memory(&self.program, &self.file, &self.gateway, &self.strangers);
        let unknown = self
            .introductions
            .bring(&self.kernel, self.now, |host| memory.of(host));
        for host in unknown {
            self.introduce(host);
        }
    }

    /// Programs that have ended have no news, nor those that were given back and have no stream.
    fn forget_news(&self, ended: &[HostId]) {
        let others = Known(&self.strangers, &self.gateway, &self.program, &self.kept);
        let has_stream = |host| {
            let mut slots = self.program.allocated().map(|n| self.program.peer(n));
            slots.any(|slot| slot.peer_name().host == host)
        };
        let is_unused = |host| others.arena(host).is_none() && !has_stream(host);
        self.program
            .forget_news(|host| ended.contains(&host) || is_unused(host));
    }

    /// What a process is told when it attaches: lines of a word and its value.
    fn settings_text(&self) -> String {
        let settings = &self.config.settings;
        let mut text = format!("net {}\n", settings.network());
        for address in self.host.addresses() {
            text += &format!("address {address}\n");
        }
        if let LinkChoice::Packet(name) | LinkChoice::Tap(name) = settings.link() {
            text += &format!("interface {name}\n");
        }
        for route in &self.routes {
            text += &format!("route {route}\n");
        }
        let spin = settings.time(Knob::Spin).as_micros();
        let nodelay = u8::from(settings.flag(Knob::NoDelay));
        let gateway = self.gateway.arena().host();
        text += &format!("loopback yes\nspin {spin}\nnodelay {nodelay}\ngateway {gateway:016x}\n");
        text
    }

    fn look_at_processes(&mut self) {
        let mut dead = Vec::new();
        let (kernel, now) = (&self.kernel, self.now);
        self.processes.look(&self.program, kernel, now, &mut dead);
        for made in dead {
            self.bury(made);
        }
        self.visited |= !self.processes.is_empty();
        self.alone = match self.processes.is_empty() {
            true => self.alone.or(Some(self.now)),
            false => None,
        };
    }

    fn process_ended(&mut self, entry: usize) {
        if let Some(made) = self.processes.ended(entry, &self.program) {
            self.bury(made);
        }
        self.look_at_processes();
    }

    /// A dead process holds nothing any more.
    fn bury(&mut self, mut made: Made) {
        let held: Vec<u32> = self.program.held_by(made.entry).collect();
        self.processes.orphan(made.entry, &self.program, self.now);
        // Its parent may name it at this moment; another use of the entry is left alone.
        for _ in 0..NAMED_MEANWHILE {
            let now = self.program.look_at(made.entry);
            if self.program.leave_as(made) || now.pack() != made.pack() || now.is_free() {
                break;
            }
            made = now;
        }
        self.kept.prune(&self.program, self.now);
        let others = Known(&self.strangers, &self.gateway, &self.program, &self.kept);
        let swept = self.janitor.bury(&self.program, held, &others, self.now);
        self.after(&swept);
    }

    fn sweep(&mut self) {
        let gone = self.strangers.forget_the_dead();
        self.forget_news(&gone);
        self.kept.prune(&self.program, self.now);
        let others = Known(&self.strangers, &self.gateway, &self.program, &self.kept);
        let swept = self.janitor.sweep(&self.program, &others, self.now);
        self.after(&swept);
    }

    fn after(&mut self, swept: &Swept) {
        let own = self.gateway.arena().host();
        for end in swept.ends.iter().filter(|end| end.host == own) {
            self.gateway.list(end.slot);
        }
        if swept.freed > 0 {
            self.gateway.doors.prune(&self.program);
        }
    }

    /// Whether nobody is left, and everything was delivered.
    fn is_over(&mut self) -> bool {
        if self.guardian.is_some() || !self.processes.is_empty() {
            return false;
        }
        self.now = Instant::now();
        self.look_at_processes();
        let Some(alone) = self.alone else {
            return false;
        };
        let late = self.now.duration_since(alone) >= LAST_WORDS;
        // Without a guardian the first process is waited for.
        let began = self.visited || self.config.guardian.is_some();
        if began {
            self.gateway.doors.close_all();
        }
        late || began && self.gateway.open == 0
    }
}

/// Where the memory of programs is.
struct Memory<'a>(&'a Arena, &'a OwnedFd, &'a Gateway, &'a Strangers);

impl Memory<'_> {
    /// A descriptor for it. `None` when it is not known, or there is no descriptor left.
    fn of(&self, host: HostId) -> Option<OwnedFd> {
        let Memory(program, file, gateway, strangers) = self;
        if host == program.host() {
            file.try_clone().ok()
        } else if host == gateway.arena().host() {
            gateway.file.try_clone().ok()
        } else {
            strangers.file(host)
        }
    }
}

/// The programs that the carrier knows.
struct Known<'a>(&'a Strangers, &'a Gateway, &'a Arc<Arena>, &'a Kept);

impl Others for Known<'_> {
    fn arena(&self, host: HostId) -> Option<Arc<Arena>> {
        let Known(strangers, gateway, program, _) = self;
        if host == program.host() {
            Some((*program).clone())
        } else if host == gateway.arena().host() {
            Some(gateway.arena().clone())
        } else {
            strangers.arena(host).cloned()
        }
    }

    fn keeps(&self, slot: u32) -> bool {
        self.3.has(slot)
    }
}

fn guard(pid: u32) -> Option<OwnedFd> {
    let open = |pid| -> Result<OwnedFd, Errno> { pidfd_open(pid, PidfdFlags::empty()) };
    open(Pid::from_raw(pid as i32)?).ok()
}
