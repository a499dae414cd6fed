//! What processes ask: one connection a question. None of them is waited for.

use crate::kernel::{Kernel, Token};
use gannet_local::service::{self, Answer, LONGEST, Question};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, UCred, sockopt};
use std::collections::BTreeMap;

/// Most questions whose text has not come yet. Further ones push the oldest out.
const MOST: usize = 256;

/// Connections whose question has not come yet, by number.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: BTreeMap<u32, OwnedFd>,
    next: u32,
}

/// Somebody asks.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) by: UCred,
    pub(crate) question: Question,
    /// Where the answer goes.
    pub(crate) to: OwnedFd,
}

impl Questions {
    /// Takes those who connect; gives those whose question is there already. False when descriptors
    /// have run out.
    pub(crate) fn take(
        &mut self,
        listener: &OwnedFd,
        kernel: &Kernel,
        asked: &mut Vec<Asked>,
    ) -> bool {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = match rustix::net::accept_with(listener, flags) {
                Ok(fd) => fd,
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(error) => return error == Errno::AGAIN,
            };
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            // Fails when memory runs out: then whoever asks hears nothing.
            let _ = kernel.add(&fd, Token::Question(number));
            self.waiting.insert(number, fd);
            if self.waiting.len() > MOST {
                self.waiting.pop_first();
            }
            self.read(number, asked);
        }
    }

    /// Looks whether a question has come. One that is nonsense is not answered.
    pub(crate) fn read(&mut self, number: u32, asked: &mut Vec<Asked>) {
        let Some(fd) = self.waiting.get(&number) else {
            return;
        };
        let mut bytes = [0u8; 64];
        let got = rustix::net::recv(fd, &mut bytes[..], RecvFlags::DONTWAIT);
        if got == Err(Errno::AGAIN) {
            return;
        }
        let Some(to) = self.waiting.remove(&number) else {
            return;
        };
        let text = got.ok().and_then(|(_, n)| bytes.get(..n));
        let question = text.and_then(Question::unpack);
        if let (Some(question), Ok(by)) = (question, sockopt::socket_peercred(&to)) {
            asked.push(Asked { by, question, to });
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
