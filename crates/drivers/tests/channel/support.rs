//! Starting the other process, waiting for it, sending and receiving.

use gannet_base::Instant;
use gannet_drivers::channel::Options;
use gannet_drivers::wait::Spinner;
use gannet_drivers::{Channel, Connector, Directory, Listener};
use gannet_link::{Driver, Endpoint, Frame, LinkState, Slot};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longer than anything here takes on a busy machine: reached only when something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type End = Endpoint<Channel>;

/// Time since the process started to look.
pub(crate) fn now() -> Instant {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    Instant::from_nanos(start.elapsed().as_nanos() as u64)
}

/// A fresh runtime directory and a network in it.
pub(crate) fn network() -> (tempfile::TempDir, Directory) {
    let runtime = tempfile::tempdir().unwrap();
    let directory = Directory::open_below(runtime.path(), "test").unwrap();
    (runtime, directory)
}

pub(crate) fn options() -> Options {
    Options {
        // A busy machine is not a stalled peer.
        handshake_timeout: PATIENCE,
        ..Options::default()
    }
}

/// Another process that plays `role`; killed when dropped.
pub(crate) struct Other(pub(crate) Child);

impl Other {
    pub(crate) fn start(role: &str, runtime: &Path) -> Other {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "roles::other_process", "--nocapture"])
            .env("GANNET_TEST_ROLE", role)
            .env("GANNET_TEST_RUNTIME", runtime)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Other(command.spawn().unwrap())
    }

    /// Waits until it ends by itself; it must have been content.
    pub(crate) fn finish(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "the other process failed: {status}");
    }

    /// SIGKILL; does not wait for the end.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls `step` until it returns something, sleeping on `fds` in between.
pub(crate) fn until<T>(what: &str, mut step: impl FnMut() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(done) = step() {
            return done;
        }
        assert!(start.elapsed() < PATIENCE, "{what} does not happen");
        std::thread::sleep(Duration::from_micros(200));
    }
}

pub(crate) fn accept(listener: &mut Listener) -> End {
    until("a channel to accept", || {
        listener.accept_ready(now()).unwrap()
    })
}

/// Connects; waits for the name to appear.
pub(crate) fn connect(directory: &Directory, own: &str, peer: &str) -> End {
    let mut connector = until("the name to connect to", || {
        match Connector::start(directory, own, peer, &options(), now()) {
            Ok(connector) => Some(connector),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => None,
            Err(error) => panic!("{error}"),
        }
    });
    until("a channel", || connector.progress(now()).unwrap())
}

/// Both ends in this process.
pub(crate) fn both_ends(directory: &Directory) -> (End, End) {
    let mut listener = Listener::bind(directory, "a", &options()).unwrap();
    let mut connector = Connector::start(directory, "b", "a", &options(), now()).unwrap();
    let a = accept(&mut listener);
    let b = until("a channel", || connector.progress(now()).unwrap());
    (a, b)
}

/// Sends `head` inline and `body` from a block; `false` when there is no room.
pub(crate) fn send(end: &mut End, head: &[u8], body: &[u8]) -> bool {
    let mut slot = Slot::new();
    slot.inline_mut(head.len()).unwrap().copy_from_slice(head);
    let mut range = None;
    if !body.is_empty() {
        let Some(block) = end.pool.alloc() else {
            return false;
        };
        let r = end.pool.range(block, 0, body.len() as u32);
        end.pool.bytes_mut(r).unwrap().copy_from_slice(body);
        assert!(slot.push_range(r));
        range = Some(r);
    }
    let sent = end.transmit(&slot).is_ok();
    range.into_iter().for_each(|r| end.pool.release(r));
    sent
}

/// The bytes of a frame, which is given back.
pub(crate) fn take(end: &mut End, frame: &Frame) -> Vec<u8> {
    let mut bytes = vec![0; frame.len()];
    let n = end.peek(frame, &mut bytes);
    assert_eq!(n, bytes.len());
    end.release_frame(frame);
    bytes
}

/// Waits as programs do: spins, then sleeps on the channel's two descriptors.
pub(crate) fn wait(end: &mut End, spinner: &mut Spinner) {
    if spinner.spin() {
        return;
    }
    if end.driver.arm() {
        let wake: BorrowedFd<'_> = end.driver.wake_fd();
        let fds = [wake, end.driver.control_fd()];
        assert!(
            spinner.sleep(&fds, Some(PATIENCE)).unwrap(),
            "asleep for good: a wake-up was lost"
        );
    }
    end.driver.disarm();
    end.driver.drain_wake();
    end.driver.check_peer();
}

/// Waits for a frame; `None` when the peer is gone and has left none.
pub(crate) fn receive(end: &mut End) -> Option<Vec<u8>> {
    let mut frame = Frame::new();
    let mut spinner = Spinner::default();
    loop {
        end.reclaim();
        if end.receive(&mut frame, &mut 64) {
            let bytes = take(end, &frame);
            end.flush();
            return Some(bytes);
        }
        if end.state() == LinkState::Gone {
            return None;
        }
        wait(end, &mut spinner);
    }
}

/// Number of this process's descriptors.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Number of this process's mappings of channel memory.
pub(crate) fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|l| l.contains("gannet-channel"))
        .count()
}
