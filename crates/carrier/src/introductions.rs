//! Connections that a process of the program accepted from a program it does not know: kept here
//! until that program's memory is known, and then brought to the listener again. See
//! `gannet_local::meet::introduce`.

use crate::kernel::{Kernel, Token};
use gannet_local::meet::introduce;
use gannet_local::{HostId, Network};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most at a time. Further ones push the oldest out, which is turned away by that.
const MOST: usize = 1024;
/// Between two attempts to bring one, at first and at last.
const SOON: Duration = Duration::from_millis(2);
const LATE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Introduction {
    /// The program that opened it.
    from: HostId,
    listener: SocketAddrUnix,
    stream: OwnedFd,
    step: Step,
    pause: Duration,
}

#[derive(Debug)]
enum Step {
    /// The program's carrier is being asked.
    Asks,
    /// To be brought then.
    Due(Instant),
    /// Brought to the listener, and not taken yet.
    Brought(OwnedFd),
}

/// All of them, by number: the first is the oldest.
#[derive(Debug, Default)]
pub(crate) struct Introductions {
    all: BTreeMap<u32, Introduction>,
    next: u32,
}

impl Introductions {
    /// Keeps a connection from program `from` to the listener `name`.
    pub(crate) fn begin(&mut self, network: &Network, from: HostId, name: &str, stream: OwnedFd) {
        let Ok(listener) = introduce::listener(network, name) else {
            return;
        };
        let introduction = Introduction {
            from,
            listener,
            stream,
            step: Step::Asks,
            pause: SOON,
        };
        self.all.insert(self.next, introduction);
        self.next = self.next.wrapping_add(1);
        if self.all.len() > MOST {
            self.all.pop_first();
        }
    }

    /// The memory of a program is known now.
    pub(crate) fn is_known(&mut self, from: HostId, now: Instant) {
        let waiting = self.all.values_mut().filter(|one| one.from == from);
        for one in waiting.filter(|one| matches!(one.step, Step::Asks)) {
            one.step = Step::Due(now);
        }
    }

    /// The memory of a program cannot be known.
    pub(crate) fn is_unknown(&mut self, from: HostId) {
        self.all
            .retain(|_, one| one.from != from || !matches!(one.step, Step::Asks));
    }

    /// When one is to be brought.
    pub(crate) fn due(&self) -> Option<Instant> {
        let times = self.all.values().filter_map(|one| match one.step {
            Step::Due(at) => Some(at),
            _ => None,
        });
        times.min()
    }

    /// Brings those that are due; `memory` says where a program's memory is. Gives the programs of
    /// which it was not known any more.
    pub(crate) fn bring(
        &mut self,
        kernel: &Kernel,
        now: Instant,
        memory: impl Fn(HostId) -> Option<OwnedFd>,
    ) -> Vec<HostId> {
        let mut unknown = Vec::new();
        let mut gone = Vec::new();
        for (number, one) in &mut self.all {
            if !matches!(one.step, Step::Due(at) if at <= now) {
                continue;
            }
            let Some(file) = memory(one.from) else {
                one.step = Step::Asks;
                unknown.push(one.from);
                continue;
            };
            match introduce::bring(&one.listener, &file, &one.stream) {
                Ok(brought) => {
                    // Where that fails it is brought once only.
                    let _ = kernel.add(&brought, Token::Introduced(*number));
                    one.step = Step::Brought(brought);
                }
                Err(Errno::CONNREFUSED | Errno::NOENT) => gone.push(*number),
                Err(_) => one.later(now),
            }
        }
        for number in gone {
            self.all.remove(&number);
        }
        unknown
    }

    /// A process has taken what was brought, or has not.
    pub(crate) fn heard(&mut self, number: u32, now: Instant) {
        let Some(one) = self.all.get_mut(&number) else {
            return;
        };
        let Step::Brought(brought) = &one.step else {
            return;
        };
        match introduce::is_taken(brought) {
            Ok(()) => drop(self.all.remove(&number)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => one.later(now),
        }
    }
}

impl Introduction {
    fn later(&mut self, now: Instant) {
        self.step = Step::Due(now + self.pause);
        self.pause = (self.pause * 2).min(LATE);
    }
}
