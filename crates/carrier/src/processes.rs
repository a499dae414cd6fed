//! The processes of the program: who lives, and what the dead held.

use crate::kernel::{Kernel, Token};
use gannet_local::{Arena, PROCESSES, TRANSIT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that is watched.
#[derive(Debug)]
struct Watched {
    pid: u32,
    /// Readable when it has ended; none when descriptors ran out.
    fd: Option<OwnedFd>,
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
    /// [`Arena::entered`] at the last look.
    seen: Option<u32>,
}

impl Processes {
    pub(crate) fn new() -> Processes {
        Processes {
            entries: (0..PROCESSES).map(|_| None).collect(),
            seen: None,
        }
    }

    /// Whether processes entered since the last look.
    pub(crate) fn is_stale(&self, arena: &Arena) -> bool {
        self.seen != Some(arena.entered())
    }

    /// Looks at the table: watches whoever is new. Entries whose process has ended already are
    /// added to `dead`.
    pub(crate) fn look(&mut self, arena: &Arena, kernel: &Kernel, dead: &mut Vec<usize>) {
        self.seen = Some(arena.entered());
        for (n, entry) in self.entries.iter_mut().enumerate() {
            if n == TRANSIT {
                continue;
            }
            // A process that is about to be made has no number yet: it is looked at when it has.
            let pid = arena.pid_of(n);
            let watched = entry.as_ref();
            // Without a descriptor its end would not be heard of: there may be one by now.
            if watched.is_some_and(|watched| watched.pid == pid && watched.fd.is_some()) {
                continue;
            }
            *entry = None;
            if pid == 0 {
                continue;
            }
            match watch(pid, n, kernel) {
                Err(Errno::SRCH) => dead.push(n),
                fd => *entry = Some(Watched { pid, fd: fd.ok() }),
            }
        }
    }

    /// The kernel says that the process of this entry has ended. False when the entry is another's
    /// by now, who may be watched already: what the kernel said was of the one before.
    pub(crate) fn ended(&mut self, n: usize, arena: &Arena) -> bool {
        let place = self.entries.get_mut(n);
        let watched = place.and_then(|place| place.take_if(|watched| watched.has_ended()));
        watched.is_some_and(|watched| watched.pid == arena.pid_of(n))
    }

    /// Whether nobody lives, as far as is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.iter().all(Option::is_none)
    }

    /// Whether `pid` is one of them.
    pub(crate) fn has(&self, pid: u32) -> bool {
        let mut all = self.entries.iter().flatten();
        all.any(|watched| watched.pid == pid)
    }
}

fn watch(pid: u32, entry: usize, kernel: &Kernel) -> Result<OwnedFd, Errno> {
    let pid = Pid::from_raw(pid as i32).ok_or(Errno::SRCH)?;
    let fd = pidfd_open(pid, PidfdFlags::empty())?;
    kernel.add(&fd, Token::Process(entry as u32))?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_local::Geometry;
    use std::process::Command;

    #[test]
    fn news_of_the_one_before_do_not_end_who_has_the_entry_now() {
        let geometry = Geometry {
            slots: 64,
            ring: 4096,
        };
        let (_file, arena) = Arena::create(7, geometry.clamped()).unwrap();
        let kernel = Kernel::new().unwrap();
        let (mut processes, mut dead) = (Processes::new(), Vec::new());
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let entry = arena.enter(child.id()).unwrap();
        processes.look(&arena, &kernel, &mut dead);
        assert!(!processes.ended(entry, &arena), "it lives");
        assert!(processes.has(child.id()));
        // As if descriptors had run out.
        processes.entries[entry].as_mut().unwrap().fd = None;
        processes.look(&arena, &kernel, &mut dead);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(processes.ended(entry, &arena));
        assert!(!processes.ended(entry, &arena), "once");
        assert!(dead.is_empty());
    }
}
