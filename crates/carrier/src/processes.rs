//! The processes of the program: which live, and which entries of the table belong to dead ones.
//!
//! A process that has ended is known by its descriptor, which the kernel gave for the connection by
//! which it entered itself (or, of a child that was not as far, by the number that its parent
//! wrote). An entry that can have no process any more is a suspect first: it is dead when it says
//! the same some time later.

use crate::kernel::{Kernel, Token};
use gannet_local::{Arena, Made, pid_namespace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::time::{Duration, Instant};

/// How long a child may take from its fork to its own first step, when its maker is dead; and a
/// process from its entry to its question to the carrier.
const GRACE: Duration = Duration::from_secs(1);

/// A process that is watched.
#[derive(Debug)]
struct Watched {
    /// Which use of which entry.
    made: u64,
    /// Its number in the carrier's PID namespace; 0 when it has none there.
    pid: u32,
    /// Readable when it has ended; none when descriptors ran out.
    fd: Option<OwnedFd>,
    /// The kernel said that the process which entered itself is this one.
    sure: bool,
}

impl Watched {
    fn has_ended(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let readable = |fd| poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)) == Ok(1);
        self.fd.as_ref().is_some_and(readable)
    }
}

/// The table of processes, as far as it has been looked at.
#[derive(Debug)]
pub(crate) struct Processes {
    entries: Vec<Option<Watched>>,
    suspects: Vec<(Made, Instant)>,
    namespace: u64,
    /// [`Arena::entered`] at the last look.
    seen: Option<u32>,
}

impl Processes {
    pub(crate) fn new() -> Processes {
        Processes {
            entries: Vec::new(),
            suspects: Vec::new(),
            namespace: pid_namespace(),
            seen: None,
        }
    }

    /// Whether processes entered since the last look.
    pub(crate) fn is_stale(&self, arena: &Arena) -> bool {
        self.seen != Some(arena.entered())
    }

    /// When suspects are to be looked at again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.suspects.iter().map(|(_, since)| *since + GRACE).min()
    }

    fn place(&mut self, entry: usize) -> Option<&mut Option<Watched>> {
        if self.entries.len() <= entry && entry < gannet_local::PROCESSES {
            self.entries.resize_with(entry + 1, || None);
        }
        self.entries.get_mut(entry)
    }

    fn suspect(&mut self, made: Made, now: Instant) {
        if !self.suspects.iter().any(|(known, _)| *known == made) {
            self.suspects.push((made, now));
        }
    }

    /// Looks at the table: watches every process that is new. Entries whose process has ended
    /// already are added to `dead`.
    pub(crate) fn look(
        &mut self,
        arena: &Arena,
        kernel: &Kernel,
        now: Instant,
        dead: &mut Vec<Made>,
    ) {
        self.seen = Some(arena.entered());
        let all: Vec<Made> = arena.entries().collect();
        // What is free is not listed: processes left there.
        for (n, watched) in self.entries.iter_mut().enumerate() {
            watched.take_if(|watched| arena.look_at(n).pack() != watched.made);
        }
        for made in all {
            self.look_at(made, arena, kernel, now, dead);
        }
        let unchanged = |(made, _): &(Made, Instant)| arena.look_at(made.entry) == *made;
        self.suspects.retain(unchanged);
        let entries = &self.entries;
        let watched = |made: &Made| entries.get(made.entry).is_some_and(Option::is_some);
        self.suspects.retain(|(made, _)| !watched(made));
        let late = |since: Instant| now.duration_since(since) >= GRACE;
        dead.extend(
            self.suspects
                .iter()
                .filter(|(_, since)| late(*since))
                .map(|(made, _)| *made),
        );
        self.suspects.retain(|(_, since)| !late(*since));
    }

    fn look_at(
        &mut self,
        made: Made,
        arena: &Arena,
        kernel: &Kernel,
        now: Instant,
        dead: &mut Vec<Made>,
    ) {
        let watched = self.entries.get(made.entry).and_then(Option::as_ref);
        // Without a descriptor its end would not be heard of: there may be one by now.
        if watched.is_some_and(|watched| watched.fd.is_some()) {
            return;
        }
        if made.is_leaving() {
            return self.suspect(made, now);
        }
        let pid = made.pid();
        if pid == 0 {
            // A process that is about to be made: its maker lives, or it is a suspect already.
            return;
        }
        let namespace = arena.namespace_of(made.entry);
        let since = self.suspects.iter().find(|(known, _)| *known == made);
        let late = since.is_some_and(|(_, since)| now.duration_since(*since) >= GRACE);
        // Its number means another process here, if any; it is about to say which it is.
        if namespace != self.namespace && !(namespace == 0 && late) {
            return self.suspect(made, now);
        }
        match watch(pid, made.entry, kernel) {
            Err(Errno::SRCH) => dead.push(made),
            fd => {
                let (made, fd) = (made.pack(), fd.ok());
                let entry = made as u32 as usize;
                let watched = Watched {
                    made,
                    pid,
                    fd,
                    sure: false,
                };
                if let Some(place) = self.place(entry) {
                    *place = Some(watched);
                }
            }
        }
    }

    /// A process says that it has an entry; the kernel says which process it is: its descriptor,
    /// and its number here. One that has ended by now is found so by the next look.
    pub(crate) fn entered(
        &mut self,
        made: u64,
        (fd, pid): (OwnedFd, u32),
        kernel: &Kernel,
        arena: &Arena,
    ) {
        let entry = made as u32 as usize;
        let now = arena.look_at(entry);
        if now.pack() != made || now.is_free() || now.is_leaving() {
            return;
        }
        let Some(place) = self.place(entry) else {
            return;
        };
        if place
            .as_ref()
            .is_some_and(|watched| watched.made == made && watched.sure)
        {
            return;
        }
        *place = None;
        let watching = kernel.add(&fd, Token::Process(entry as u32));
        let fd = watching.ok().map(|()| fd);
        *place = Some(Watched {
            made,
            pid,
            fd,
            sure: true,
        });
    }

    /// The kernel says that the process of this entry has ended. `None` when the entry is another's
    /// by now, which may be watched already: what the kernel said was of the one before.
    pub(crate) fn ended(&mut self, n: usize, arena: &Arena) -> Option<Made> {
        let place = self.entries.get_mut(n)?;
        let watched = place.take_if(|watched| watched.has_ended())?;
        let made = arena.look_at(n);
        (made.pack() == watched.made && !made.is_free()).then_some(made)
    }

    /// The process of this entry is dead: those that it was about to make may never have been.
    pub(crate) fn orphan(&mut self, maker: usize, arena: &Arena, now: Instant) {
        let unborn: Vec<Made> = arena
            .entries()
            .filter(|made| made.maker() == Some(maker))
            .collect();
        for made in unborn {
            self.suspect(made, now);
        }
    }

    /// Whether no process lives, as far as is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.suspects.is_empty() && self.entries.iter().all(Option::is_none)
    }

    /// Whether `pid` is one of them.
    pub(crate) fn has(&self, pid: u32) -> bool {
        let mut all = self.entries.iter().flatten();
        pid != 0 && all.any(|watched| watched.pid == pid)
    }

    /// The number that the process of an entry has here.
    pub(crate) fn pid_of(&self, entry: usize) -> Option<u32> {
        let watched = self.entries.get(entry)?.as_ref()?;
        (watched.pid != 0).then_some(watched.pid)
    }
}

fn watch(pid: u32, entry: usize, kernel: &Kernel) -> Result<OwnedFd, Errno> {
    let pid = Pid::from_raw(pid as i32).ok_or(Errno::SRCH)?;
    let fd = pidfd_open(pid, PidfdFlags::empty())?;
    kernel.add(&fd, Token::Process(entry as u32))?;
    Ok(fd)
}

#[cfg(test)]
mod tests;
