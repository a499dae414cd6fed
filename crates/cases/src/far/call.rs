//! Asking the helper. Only one thread of the process that a case runs in can, and none of those it
//! forks: a case that needs more says that it needs one process, and is no case of two programs.

use super::{Answer, Ask};
use crate::sys;
use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

/// The helper's descriptor 0 is this number here; the kernel has no descriptor so high.
pub(crate) const FIRST: i32 = 1 << 30;

static NAME: OnceLock<String> = OnceLock::new();
static REPORT: AtomicI32 = AtomicI32::new(-1);
static LINE: Mutex<Option<Line>> = Mutex::new(None);

/// The connection to the helper, and the process that has it.
struct Line {
    reader: BufReader<UnixStream>,
    owner: (i32, ThreadId),
}

/// The helper's number of a descriptor, if it is one of the helper's.
pub(crate) fn number(fd: i32) -> Option<i32> {
    (fd >= FIRST).then(|| fd - FIRST)
}

/// Whether there is a helper, and where it is from now on.
pub(crate) fn is_far(name: Option<String>) -> bool {
    if let Some(name) = name {
        let _ = NAME.set(name);
    }
    NAME.get().is_some()
}

/// Where a case's observation goes.
pub(crate) fn report_to(out: i32) {
    REPORT.store(out, Ordering::Relaxed);
}

/// Whether the helper was asked for anything.
pub(crate) fn used() -> bool {
    LINE.lock().is_ok_and(|line| line.is_some())
}

/// Asks about one of the helper's descriptors; `None` when `fd` is none of them.
pub(crate) fn one(fd: i32, make: impl FnOnce(i32) -> Ask) -> Option<Answer> {
    number(fd).map(|fd| ask(&make(fd)))
}

/// Whether all descriptors are the helper's; a mixture is more than two programs can do.
pub(crate) fn all(fds: &[(i32, i16)]) -> Option<Vec<(i32, i16)>> {
    let theirs = fds
        .iter()
        .filter_map(|(fd, events)| Some((number(*fd)?, *events)));
    let theirs: Vec<_> = theirs.collect();
    match theirs.len() {
        0 => None,
        n if n == fds.len() => Some(theirs),
        _ => needs_one_process(),
    }
}

/// What only this process can do with a descriptor.
pub(crate) fn here(fd: i32) {
    if number(fd).is_some() {
        needs_one_process();
    }
}

/// The helper's process.
pub(crate) fn pid() -> i32 {
    ask(&Ask::Pid).ret().fd()
}

/// Asks the helper. After its end nothing can be asked: the case cannot go on.
pub(crate) fn ask(ask: &Ask) -> Answer {
    let Ok(mut line) = LINE.try_lock() else {
        needs_one_process();
    };
    let line = line.get_or_insert_with(open);
    if line.owner != whoever() {
        needs_one_process();
    }
    let answer = line.exchange(ask);
    answer.unwrap_or_else(|| say("the helper is gone"))
}

impl Line {
    fn exchange(&mut self, ask: &Ask) -> Option<Answer> {
        let mut text = serde_json::to_vec(ask).ok()?;
        text.push(b'\n');
        self.reader.get_mut().write_all(&text).ok()?;
        if matches!(ask, Ask::Exit | Ask::Become(..)) {
            return Some(Answer::default());
        }
        let mut text = String::new();
        self.reader.read_line(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// This process and thread.
fn whoever() -> (i32, ThreadId) {
    (sys::own_pid(), std::thread::current().id())
}

fn open() -> Line {
    let name = NAME.get().map_or("", String::as_str);
    for _ in 0..1000 {
        let stream = SocketAddr::from_abstract_name(name)
            .and_then(|address| UnixStream::connect_addr(&address));
        if let Ok(stream) = stream {
            let (reader, owner) = (BufReader::new(stream), whoever());
            return Line { reader, owner };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    say("no helper")
}

fn needs_one_process() -> ! {
    say(super::ONE_PROCESS)
}

/// Ends the observation of the case with this, whichever thread or child of it finds out.
fn say(what: &str) -> ! {
    sys::write(
        REPORT.load(Ordering::Relaxed),
        format!("{what}\n").as_bytes(),
    );
    // The others of the case's processes wait for this one.
    sys::kill(0, libc::SIGKILL);
    sys::exit(97)
}
