//! The memory of other programs: asked of their carriers, by helper threads, because a carrier that
//! waited for another one might be waited for by it.

use gannet_local::service::{self, Answer};
use gannet_local::{Arena, HostId, Network, pid_namespace};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

/// Most helper threads at a time.
const HELPERS: usize = 16;

/// A program whose memory is known.
#[derive(Debug)]
struct Stranger {
    file: OwnedFd,
    arena: Arc<Arena>,
}

/// Who is known, and who is being asked for.
#[derive(Debug)]
pub(crate) struct Strangers {
    known: HashMap<HostId, Stranger>,
    bell: Arc<OwnedFd>,
    brought: Receiver<(HostId, OwnedFd)>,
    bring: Sender<(HostId, OwnedFd)>,
    /// Alive while a helper is at work.
    helpers: Vec<Weak<OwnedFd>>,
}

impl Strangers {
    pub(crate) fn new() -> Result<Strangers, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (bring, brought) = channel();
        Ok(Strangers {
            known: HashMap::new(),
            bell: Arc::new(bell),
            brought,
            bring,
            helpers: Vec::new(),
        })
    }

    /// Readable when a helper has brought something.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// A program's memory, if it is known.
    pub(crate) fn arena(&self, host: HostId) -> Option<&Arc<Arena>> {
        self.known.get(&host).map(|stranger| &stranger.arena)
    }

    /// The same as a descriptor of its own.
    pub(crate) fn file(&self, host: HostId) -> Option<OwnedFd> {
        self.known.get(&host)?.file.try_clone().ok()
    }

    /// Asks `host`'s carrier for its memory, and answers `asker` with it: later.
    pub(crate) fn fetch(&mut self, network: Network, host: HostId, asker: OwnedFd) {
        self.helpers.retain(|helper| helper.strong_count() > 0);
        let asker = Arc::new(asker);
        if self.helpers.len() >= HELPERS {
            answer(&asker, Err(Errno::AGAIN));
            return;
        }
        self.helpers.push(Arc::downgrade(&asker));
        let (bell, bring, question) = (self.bell.clone(), self.bring.clone(), asker.clone());
        let helper = move || {
            let file = service::ask_for_arena(&network, host, host);
            if let Some(copy) = file.as_ref().ok().and_then(|file| file.try_clone().ok()) {
                let _ = bring.send((host, copy));
                let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
            }
            answer(&question, file);
        };
        let name = "gannet-ask".to_owned();
        if std::thread::Builder::new()
            .name(name)
            .spawn(helper)
            .is_err()
        {
            answer(&asker, Err(Errno::AGAIN));
        }
    }

    /// Takes in what helpers have brought.
    pub(crate) fn take_in(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        while let Ok((host, file)) = self.brought.try_recv() {
            if let Ok(arena) = Arena::open(&file, false)
                && arena.host() == host
            {
                let arena = Arc::new(arena);
                self.known.insert(host, Stranger { file, arena });
            }
        }
    }

    /// Forgets programs without a living process. True when there were any.
    pub(crate) fn forget_the_dead(&mut self) -> bool {
        let before = self.known.len();
        self.known.retain(|_, stranger| has_living(&stranger.arena));
        self.known.len() != before
    }
}

fn answer(asker: &OwnedFd, file: Result<OwnedFd, Errno>) {
    let (errno, file) = match file {
        Ok(file) => (0, Some(file)),
        Err(errno) => (errno.raw_os_error(), None),
    };
    let text = String::new();
    // Who asked and went away needs no answer.
    let _ = service::answer(asker, &Answer { errno, text, file });
}

fn has_living(arena: &Arena) -> bool {
    let here = pid_namespace();
    // A process that is not made yet has a maker that lives. Numbers of another PID namespace say
    // nothing: its own carrier takes dead ones out of the table.
    arena
        .entries()
        .any(|made| match Pid::from_raw(made.pid() as i32) {
            Some(_) if arena.namespace_of(made.entry) != here => arena.has_carrier(),
            Some(pid) => test_kill_process(pid) != Err(Errno::SRCH),
            None => false,
        })
}
