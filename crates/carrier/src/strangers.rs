//! The memory of other programs: asked of their carriers. No answer is waited for: a carrier that
//! waited for another one might be waited for by it, and one that is stopped answers when it goes
//! on.

use crate::kernel::{Kernel, Token};
use gannet_local::service::{self, Answer, Question};
use gannet_local::{Arena, HostId, Network, pid_namespace};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most programs whose memory is kept at hand: two descriptors each. Beyond, the one that was not
/// needed for longest is given back. A process that needs it asks again, and a socket whose
/// other end cannot be looked at is freed when that end is closed.
const KNOWN_MAX: usize = 256;
/// Most carriers that are being asked. Beyond, the one that has not answered for longest is given
/// up.
const ASKED_MAX: usize = 64;
/// Most processes that wait for one answer. The others ask again.
const ASKERS_MAX: usize = 16;
/// How long an answer may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program whose memory is known.
#[derive(Debug)]
struct Stranger {
    file: OwnedFd,
    arena: Arc<Arena>,
    /// Its carrier, if that can be watched.
    process: Option<OwnedFd>,
    number: u32,
    /// When it was last needed, in what [`Strangers`] counts.
    used: Cell<u64>,
}

/// A program whose carrier is being asked.
#[derive(Debug)]
struct Fetch {
    host: HostId,
    question: OwnedFd,
    since: Instant,
    askers: VecDeque<OwnedFd>,
}

/// Programs that are known, and those that are being asked for.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    known: HashMap<HostId, Stranger>,
    asked: BTreeMap<u32, Fetch>,
    next: u32,
    uses: Cell<u64>,
}

impl Strangers {
    /// A program's memory, if it is known.
    pub(crate) fn arena(&self, host: HostId) -> Option<&Arc<Arena>> {
        self.used(host).map(|stranger| &stranger.arena)
    }

    /// The same as a descriptor of its own.
    pub(crate) fn file(&self, host: HostId) -> Option<OwnedFd> {
        self.used(host)?.file.try_clone().ok()
    }

    fn used(&self, host: HostId) -> Option<&Stranger> {
        let stranger = self.known.get(&host)?;
        self.note_use(stranger);
        Some(stranger)
    }

    fn note_use(&self, stranger: &Stranger) {
        self.uses.set(self.uses.get() + 1);
        stranger.used.set(self.uses.get());
    }

    /// Asks `host`'s carrier for its memory, and answers `asker` with it: later.
    ///
    /// # Errors
    /// Why that carrier cannot be asked; `asker` has heard it.
    pub(crate) fn fetch(
        &mut self,
        (network, kernel, now): (&Network, &Kernel, Instant),
        host: HostId,
        asker: Option<OwnedFd>,
    ) -> Result<(), Errno> {
        if let Some(asker) = &asker {
            // What it may do from now on is of no interest.
            kernel.remove(asker);
        }
        if let Some(fetch) = self.asked.values_mut().find(|fetch| fetch.host == host) {
            fetch.askers.extend(asker);
            if fetch.askers.len() > ASKERS_MAX {
                fetch.askers.pop_front();
            }
            return Ok(());
        }
        let number = self.next;
        let begun = service::begin(network, host, &Question::Arena(host));
        let watched = begun.and_then(|question| {
            kernel.add(&question, Token::Fetched(number))?;
            Ok(question)
        });
        let question = watched.inspect_err(|error| answer_all(&asker, Err(*error)))?;
        self.next = number.wrapping_add(1);
        let fetch = Fetch {
            host,
            question,
            since: now,
            askers: asker.into_iter().collect(),
        };
        self.asked.insert(number, fetch);
        if self.asked.len() > ASKED_MAX
            && let Some((_, oldest)) = self.asked.pop_first()
        {
            answer_all(&oldest.askers, Err(Errno::AGAIN));
        }
        Ok(())
    }

    /// A carrier answers. Gives the program, and whether its memory is known now.
    pub(crate) fn fetched(&mut self, number: u32, kernel: &Kernel) -> Option<(HostId, bool)> {
        let answer = service::answer_from(&self.asked.get(&number)?.question);
        if matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
            return None;
        }
        let fetch = self.asked.remove(&number)?;
        let file = answer.and_then(|answer| answer.file.ok_or(Errno::PROTO));
        let file = file.and_then(|file| {
            let arena = Arena::open(&file, false)?;
            match arena.host() == fetch.host {
                true => Ok((file, Arc::new(arena))),
                false => Err(Errno::PROTO),
            }
        });
        answer_all(
            &fetch.askers,
            file.as_ref().map(|(file, _)| file).map_err(|e| *e),
        );
        let known = file.is_ok();
        if let Ok((file, arena)) = file {
            let process = service::peer_process(&fetch.question).ok();
            if let Some(process) = &process {
                let _ = kernel.add(process, Token::Stranger(number));
            }
            self.insert(Stranger {
                file,
                arena,
                process,
                number,
                used: Cell::new(0),
            });
        }
        Some((fetch.host, known))
    }

    fn insert(&mut self, stranger: Stranger) {
        self.note_use(&stranger);
        let others = self.known.iter();
        let oldest = others.min_by_key(|(_, other)| other.used.get());
        let oldest = oldest.map(|(host, _)| *host);
        if self.known.len() >= KNOWN_MAX
            && let Some(oldest) = oldest
        {
            self.known.remove(&oldest);
        }
        self.known.insert(stranger.arena.host(), stranger);
    }

    /// Gives up carriers that did not answer. Gives their programs.
    pub(crate) fn give_up(&mut self, now: Instant) -> Vec<HostId> {
        let late = |fetch: &Fetch| now.duration_since(fetch.since) >= PATIENCE;
        let late: Vec<Fetch> = self
            .asked
            .extract_if(.., |_, fetch| late(fetch))
            .map(|(_, fetch)| fetch)
            .collect();
        for fetch in &late {
            answer_all(&fetch.askers, Err(Errno::TIMEDOUT));
        }
        late.into_iter().map(|fetch| fetch.host).collect()
    }

    /// When [`Strangers::give_up`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.asked
            .values()
            .map(|fetch| fetch.since + PATIENCE)
            .min()
    }

    /// The carrier of a program has ended: its processes before it, unless it was killed.
    pub(crate) fn ended(&mut self, number: u32, kernel: &Kernel) -> Vec<HostId> {
        let ended = self.known.values().find(|known| known.number == number);
        if let Some(process) = ended.and_then(|stranger| stranger.process.as_ref()) {
            kernel.remove(process);
        }
        self.forget_the_dead()
    }

    /// Forgets programs without a living process. Gives their numbers.
    pub(crate) fn forget_the_dead(&mut self) -> Vec<HostId> {
        let dead = self
            .known
            .extract_if(|_, stranger| !has_living(&stranger.arena));
        dead.map(|(host, _)| host).collect()
    }
}

fn answer_all<'a>(askers: impl IntoIterator<Item = &'a OwnedFd>, file: Result<&OwnedFd, Errno>) {
    for asker in askers {
        let copy = file.and_then(|file| {
            let copy = file.as_fd().try_clone_to_owned();
            copy.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
        });
        let (errno, file) = match copy {
            Ok(file) => (0, Some(file)),
            Err(errno) => (errno.raw_os_error(), None),
        };
        let text = String::new();
        // A process that asked and went away needs no answer.
        let _ = service::answer(asker, &Answer { errno, text, file });
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_local::Geometry;

    fn stranger(host: HostId, number: u32) -> Stranger {
        let (file, arena) = Arena::create(
            host,
            Geometry {
                slots: 64,
                ring: 4096,
            },
        )
        .unwrap();
        arena.enter(std::process::id()).unwrap();
        Stranger {
            file,
            arena: Arc::new(arena),
            process: None,
            number,
            used: Cell::new(0),
        }
    }

    #[test]
    fn s6_the_program_that_is_needed_least_is_given_back() {
        let mut all = Strangers::default();
        for n in 0..KNOWN_MAX as u32 {
            all.insert(stranger(u64::from(n) + 1, n));
            assert!(all.arena(1).is_some(), "needed again and again");
        }
        all.insert(stranger(1000, 1000));
        assert_eq!(all.known.len(), KNOWN_MAX);
        assert!(all.arena(1).is_some() && all.arena(1000).is_some());
        assert!(all.file(2).is_none(), "longest ago");
    }

    #[test]
    fn a_program_is_forgotten_when_its_processes_have_ended() {
        let (mut all, kernel) = (Strangers::default(), Kernel::new().unwrap());
        all.insert(stranger(1, 5));
        let dead = stranger(2, 6);
        let entries: Vec<_> = dead.arena.entries().collect();
        all.insert(dead);
        assert_eq!(all.ended(6, &kernel), [0; 0], "its carrier was killed");
        for made in entries {
            all.known[&2].arena.leave(made.entry);
        }
        assert_eq!(all.ended(6, &kernel), [2]);
        assert!(all.arena(1).is_some() && all.arena(2).is_none());
    }

    /// A carrier that is stopped.
    #[test]
    fn s9_mute_carriers_and_their_askers_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(directory.path(), private).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let path = std::os::unix::ffi::OsStrExt::as_bytes(directory.path().as_os_str());
        let network = Network::at(path, uid, 0).unwrap();
        let (mut all, kernel) = (Strangers::default(), Kernel::new().unwrap());
        let first = u64::from(std::process::id()) << 32;
        let hosts = first..first + ASKED_MAX as u64 + 2;
        let _mute: Vec<_> = hosts
            .clone()
            .map(|host| service::listen(&network, host).unwrap())
            .collect();
        let now = Instant::now();
        let asker = || std::os::unix::net::UnixStream::pair().unwrap();
        let (mut answered, mut ends) = (0, Vec::new());
        for host in hosts {
            for _ in 0..ASKERS_MAX + 2 {
                let (asker, end) = asker();
                all.fetch((&network, &kernel, now), host, Some(asker.into()))
                    .unwrap();
                ends.push(end);
            }
        }
        assert_eq!(all.asked.len(), ASKED_MAX);
        let waiting =
            |all: &Strangers| -> usize { all.asked.values().map(|fetch| fetch.askers.len()).sum() };
        assert_eq!(waiting(&all), ASKED_MAX * ASKERS_MAX);
        assert_eq!(all.due(), Some(now + PATIENCE));
        assert_eq!(all.give_up(now).len(), 0);
        assert_eq!(all.give_up(now + PATIENCE).len(), ASKED_MAX);
        assert_eq!((waiting(&all), all.due()), (0, None));
        for end in ends {
            let mut bytes = [0; 64];
            let got = rustix::net::recv(&end, &mut bytes[..], rustix::net::RecvFlags::DONTWAIT);
            answered += usize::from(got.unwrap().1 > 0);
        }
        assert_eq!(answered, (ASKED_MAX + 2) * ASKERS_MAX, "all are told");
        let nowhere = first - 1;
        let asked = all.fetch((&network, &kernel, now), nowhere, None);
        assert_eq!(asked, Err(Errno::CONNREFUSED));
    }
}
