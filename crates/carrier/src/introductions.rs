//! Connections that a process of the program accepted from a program it does not know: kept here
//! until that program's memory is known, and then brought to the listener again. See
//! `gannet_local::meet::introduce`.

use crate::kernel::{Kernel, Token};
use gannet_local::meet::introduce;
use gannet_local::{HostId, Network};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Most at a time: twice what waits at a listener. Further ones push the oldest out, which is
/// turned away by that.
const MOST: usize = 8192;
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
    /// Those that are [`Step::Due`].
    due: BTreeSet<(Instant, u32)>,
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
        if self.all.len() > MOST
            && let Some((&oldest, _)) = self.all.first_key_value()
        {
            self.end(oldest);
        }
    }

    /// The memory of a program is known now.
    pub(crate) fn is_known(&mut self, from: HostId, now: Instant) {
        for number in self.that_ask(from) {
            self.step(number, Step::Due(now));
        }
    }

    /// The memory of a program cannot be known.
    pub(crate) fn is_unknown(&mut self, from: HostId) {
        for number in self.that_ask(from) {
            self.end(number);
        }
    }

    fn that_ask(&self, from: HostId) -> Vec<u32> {
        let asks = |one: &Introduction| one.from == from && matches!(one.step, Step::Asks);
        let all = self.all.iter().filter(|(_, one)| asks(one));
        all.map(|(&number, _)| number).collect()
    }

    /// When one is to be brought.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
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
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        for number in due.map(|&(_, number)| number).collect::<Vec<_>>() {
            let Some(one) = self.all.get(&number) else {
                continue;
            };
            let Some(file) = memory(one.from) else {
                unknown.push(one.from);
                self.step(number, Step::Asks);
                continue;
            };
            match introduce::bring(&one.listener, &file, &one.stream) {
                Ok(brought) => {
                    // Where that fails it is brought once only.
                    let _ = kernel.add(&brought, Token::Introduced(number));
                    self.step(number, Step::Brought(brought));
                }
                Err(Errno::CONNREFUSED | Errno::NOENT) => self.end(number),
                Err(_) => self.later(number, now),
            }
        }
        unknown
    }

    /// A process has taken what was brought, or has not.
    pub(crate) fn heard(&mut self, number: u32, now: Instant) {
        let Some(one) = self.all.get(&number) else {
            return;
        };
        let Step::Brought(brought) = &one.step else {
            return;
        };
        match introduce::is_taken(brought) {
            Ok(()) => self.end(number),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.later(number, now),
        }
    }

    /// Brings it again after a pause, which doubles.
    fn later(&mut self, number: u32, now: Instant) {
        let Some(one) = self.all.get_mut(&number) else {
            return;
        };
        let at = now + one.pause;
        one.pause = (one.pause * 2).min(LATE);
        self.step(number, Step::Due(at));
    }

    fn step(&mut self, number: u32, to: Step) {
        if let Some(one) = self.all.get_mut(&number) {
            let due = is_due(&to);
            let was = is_due(&std::mem::replace(&mut one.step, to));
            if let Some(at) = was {
                self.due.remove(&(at, number));
            }
            if let Some(at) = due {
                self.due.insert((at, number));
            }
        }
    }

    fn end(&mut self, number: u32) {
        let ended = self.all.remove(&number);
        if let Some(at) = ended.and_then(|one| is_due(&one.step)) {
            self.due.remove(&(at, number));
        }
    }
}

fn is_due(step: &Step) -> Option<Instant> {
    match step {
        Step::Due(at) => Some(*at),
        Step::Asks | Step::Brought(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_local::meet;
    use gannet_local::name::{Family, Place};
    use rustix::net::{SendFlags, SocketFlags};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;

    const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
    const NAME: &str = "l-4-10.0.0.1-80-0";

    struct Test {
        all: Introductions,
        kernel: Kernel,
        network: Network,
        listener: Option<OwnedFd>,
        now: Instant,
        _directory: tempfile::TempDir,
    }

    impl Test {
        fn new() -> Test {
            let directory = tempfile::tempdir().unwrap();
            let private = PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(directory.path(), private).unwrap();
            let uid = rustix::process::geteuid().as_raw();
            let network = Network::at(directory.path().as_os_str().as_bytes(), uid, 0).unwrap();
            let at = (Family::Four, Place::At([10, 0, 0, 1].into()), 80);
            let listener = meet::bind((&network, 1), at, false, FLAGS).unwrap();
            rustix::net::listen(&listener, 4).unwrap();
            Test {
                all: Introductions::default(),
                kernel: Kernel::new().unwrap(),
                network,
                listener: Some(listener),
                now: Instant::now(),
                _directory: directory,
            }
        }

        fn begin(&mut self, from: HostId) -> OwnedFd {
            let (stream, other) = pair();
            self.all.begin(&self.network, from, NAME, stream);
            other
        }

        fn bring(&mut self) -> Vec<HostId> {
            self.all.bring(&self.kernel, self.now, |_| Some(pair().0))
        }

        fn accept(&self) -> Option<OwnedFd> {
            let listener = self.listener.as_ref()?;
            rustix::net::accept_with(listener, FLAGS).ok()
        }

        fn hear(&mut self) {
            let mut news = Vec::new();
            self.kernel.look(&mut news);
            for news in news {
                if let Token::Introduced(number) = news.token {
                    self.all.heard(number, self.now);
                }
            }
        }
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        (a.into(), b.into())
    }

    #[test]
    fn what_is_not_taken_is_brought_again_and_what_is_taken_is_not() {
        let mut test = Test::new();
        let _opener = test.begin(7);
        assert_eq!((test.all.due(), test.bring().len()), (None, 0));
        test.all.is_known(8, test.now);
        assert_eq!(test.all.due(), None, "of another program");
        test.all.is_known(7, test.now);
        for _ in 0..3 {
            assert!(test.all.due().is_some_and(|due| due <= test.now));
            test.bring();
            let brought = test.accept().expect("it is brought");
            test.hear();
            assert_eq!(test.all.due(), None, "as long as it takes");
            // Killed before it has taken it.
            drop(brought);
            test.hear();
            assert!(test.all.due().is_some_and(|due| due > test.now));
            test.now += LATE;
        }
        test.bring();
        let brought = test.accept().unwrap();
        rustix::net::send(&brought, b"+", SendFlags::empty()).unwrap();
        test.hear();
        drop(brought);
        assert!(test.all.all.is_empty());
    }

    #[test]
    fn s6_connections_that_cannot_be_brought_end() {
        let mut test = Test::new();
        let is_closed = |fd: &OwnedFd| {
            rustix::net::recv(fd, &mut [0][..], rustix::net::RecvFlags::DONTWAIT) == Ok((0, 0))
        };
        let unknown = test.begin(7);
        test.all.is_unknown(7);
        assert!(is_closed(&unknown));
        let (stream, nameless) = pair();
        test.all.begin(&test.network, 7, "../g-0", stream);
        assert!(is_closed(&nameless));
        let late = test.begin(7);
        test.all.is_known(7, test.now);
        test.listener = None;
        assert!(!is_closed(&late));
        test.bring();
        assert!(is_closed(&late), "no listener is left");
    }

    #[test]
    fn s6_the_oldest_of_too_many_ends() {
        let mut test = Test::new();
        let (first, _) = (test.begin(1), test.begin(2));
        for from in 3..3 + MOST as u64 - 2 {
            drop(test.begin(from));
        }
        let mut byte = [0];
        let mut heard =
            || rustix::net::recv(&first, &mut byte[..], rustix::net::RecvFlags::DONTWAIT);
        assert_eq!(heard(), Err(Errno::AGAIN));
        drop(test.begin(9));
        assert_eq!(heard(), Ok((0, 0)));
        assert_eq!(test.all.all.len(), MOST);
    }

    /// A full queue: the others come later, none is lost.
    #[test]
    fn a_listener_that_is_full_is_tried_again() {
        let mut test = Test::new();
        let openers: Vec<_> = (0..20).map(|_| test.begin(7)).collect();
        test.all.is_known(7, test.now);
        let mut taken = 0;
        for _ in 0..20 {
            test.bring();
            while let Some(brought) = test.accept() {
                rustix::net::send(&brought, b"+", SendFlags::empty()).unwrap();
                taken += 1;
            }
            test.hear();
            test.now += LATE;
        }
        assert_eq!((taken, test.all.all.len()), (openers.len(), 0));
    }
}
