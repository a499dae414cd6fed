//! What processes ask: one connection a question. None of them is waited for, and a process that
//! only connects, however often, costs a bounded part of each turn.

use crate::kernel::{Kernel, Token};
use gannet_local::Network;
use gannet_local::credentials::{self, Credentials};
use gannet_local::service::{self, Answer, LONGEST, Question};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most questions whose text has not come yet. Further ones push the oldest out.
const MOST: usize = 256;
/// How long a question may take to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections taken in one turn.
const ACCEPTS_MAX: usize = 64;

/// Connections whose question has not come yet, by number.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: BTreeMap<u32, (OwnedFd, Credentials, Instant)>,
    next: u32,
}

/// Somebody asks.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) by: Credentials,
    pub(crate) question: Question,
    /// What came with the question.
    pub(crate) file: Option<OwnedFd>,
    /// Where the answer goes.
    pub(crate) to: OwnedFd,
}

impl Questions {
    /// Takes the connections of processes that `may` ask; gives those whose question is there
    /// already. False when descriptors have run out.
    pub(crate) fn take(
        &mut self,
        listener: &OwnedFd,
        (kernel, now): (&Kernel, Instant),
        may: &mut dyn FnMut(Credentials) -> bool,
        asked: &mut Vec<Asked>,
    ) -> bool {
        self.waiting
            .retain(|_, (_, _, since)| now.duration_since(*since) < PATIENCE);
        for _ in 0..ACCEPTS_MAX {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = match rustix::net::accept_with(listener, flags) {
                Ok(fd) => fd,
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(error) => return error == Errno::AGAIN,
            };
            let Some(by) = credentials::of_peer(&fd).ok().filter(|by| may(*by)) else {
                continue;
            };
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            // Fails when memory runs out: then the process that asks gets no answer.
            let _ = kernel.add(&fd, Token::Question(number));
            self.waiting.insert(number, (fd, by, now));
            if self.waiting.len() > MOST {
                self.waiting.pop_first();
            }
            self.read(number, asked);
        }
        // The others are there in the next turn.
        true
    }

    /// Looks whether a question has come. One that is nonsense is not answered.
    pub(crate) fn read(&mut self, number: u32, asked: &mut Vec<Asked>) {
        let Some((fd, _, _)) = self.waiting.get(&number) else {
            return;
        };
        let taken = service::take(fd);
        if matches!(taken, Err(Errno::AGAIN)) {
            return;
        }
        let Some((to, by, _)) = self.waiting.remove(&number) else {
            return;
        };
        if let Ok(Some((question, file))) = taken {
            asked.push(Asked {
                by,
                question,
                file,
                to,
            });
        }
    }
}

impl Asked {
    /// The answer is an errno, 0 for none.
    pub(crate) fn say(&self, errno: i32) {
        let answer = Answer {
            errno,
            ..Answer::default()
        };
        // Who asked and went away needs no answer.
        let _ = service::answer(&self.to, &answer);
    }

    /// Does for the process, with the socket it sent, what it cannot do itself.
    pub(crate) fn act(&self, network: &Network) {
        let acted = match &self.file {
            Some(fd) => service::act_for(network, &self.question, fd),
            None => Err(Errno::BADF),
        };
        self.say(acted.err().map_or(0, Errno::raw_os_error));
    }

    /// The answer is a descriptor and a text.
    pub(crate) fn give(&self, file: impl AsFd, mut text: String) {
        text.truncate(LONGEST - 8);
        match file.as_fd().try_clone_to_owned() {
            Ok(file) => {
                let answer = Answer {
                    errno: 0,
                    text,
                    file: Some(file),
                };
                let _ = service::answer(&self.to, &answer);
            }
            Err(error) => self.say(error.raw_os_error().unwrap_or(libc::EMFILE)),
        }
    }
}
