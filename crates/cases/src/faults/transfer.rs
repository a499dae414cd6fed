//! The text, and the two who send and receive it.

use crate::sys::{self, Got, Ret};
use crate::table::send_all;
use crate::talk::{SOON, Talk, ready};
use libc::{ECONNRESET, EPIPE, MSG_NOSIGNAL, POLLIN};

/// Length of the text: more than all buffers on the way hold.
const LENGTH: usize = 24 << 20;
/// After this much of it the bad thing happens.
pub(super) const MIDDLE: usize = 1 << 20;

/// A text of which every piece is somewhere else in its period of 251 bytes.
pub(crate) fn text() -> Vec<u8> {
    (0..LENGTH).map(letter).collect()
}

fn letter(at: usize) -> u8 {
    (at % 251) as u8
}

/// What has come of a text.
#[derive(Default)]
pub(super) struct Reader {
    came: usize,
    wrong: bool,
}

impl Reader {
    /// Receives until this much has come; whether it has.
    pub(super) fn until(&mut self, fd: i32, bytes: usize) -> bool {
        while self.came < bytes && ready(fd, POLLIN) {
            if self.some(fd).data.is_empty() {
                return false;
            }
        }
        self.came >= bytes
    }

    /// Receives until nothing more comes: how the stream ended.
    pub(super) fn drain(&mut self, fd: i32) -> String {
        loop {
            if !ready(fd, POLLIN) {
                return "nothing in 3 s".to_owned();
            }
            let got = self.some(fd);
            if got.data.is_empty() {
                return ending(got.ret);
            }
        }
    }

    /// Receives what there is.
    pub(super) fn once(&mut self, fd: i32) {
        self.some(fd);
    }

    fn some(&mut self, fd: i32) -> Got {
        let got = sys::recv(fd, 1 << 16, 0);
        let right = |(at, &byte): (usize, &u8)| byte == letter(self.came + at);
        self.wrong |= !got.data.iter().enumerate().all(right);
        self.came += got.data.len();
        got
    }

    /// Whether all that came is the beginning of the text, or all of the text.
    pub(super) fn verdict(&self) -> &'static str {
        match (self.wrong, self.came) {
            (true, _) => "damaged",
            (false, LENGTH) => "whole",
            (false, 0) => "nothing",
            (false, _) => "a beginning",
        }
    }
}

/// Both ways to say that the peer has gone while data was on the way are the same here: which of
/// them it is depends on what was unread at that moment.
pub(super) fn ending(ret: Ret) -> String {
    match ret {
        Ret::Value(0) => "end".to_owned(),
        Ret::Errno(ECONNRESET | EPIPE) => "ended by the peer's death".to_owned(),
        other => other.to_string(),
    }
}

/// Sends for ever; how that ended.
pub(super) fn pour(fd: i32) -> Ret {
    // A whole number of periods, so that every block is the same.
    let block: Vec<u8> = (0..251 * 256).map(letter).collect();
    let mut rest: &[u8] = &block;
    loop {
        if sys::poll(&[(fd, libc::POLLOUT)], SOON).0 == Ret::Value(0) {
            return Ret::Errno(libc::ETIMEDOUT);
        }
        let ret = sys::send(fd, rest, MSG_NOSIGNAL | libc::MSG_DONTWAIT);
        if !matches!(ret, Ret::Value(_)) && !ret.is_errno(libc::EAGAIN) {
            return ret;
        }
        rest = rest.get(ret.count()..).unwrap_or_default();
        if rest.is_empty() {
            rest = &block;
        }
    }
}

/// A connection and a child that sends the whole text over it: our end, and the child.
pub(super) fn sender(t: &Talk) -> (i32, i32) {
    let (ours, theirs) = t.pair();
    let pid = sys::fork(|| {
        sys::close(ours);
        i32::from(!send_all(theirs, &text()))
    });
    sys::close(theirs);
    (ours, pid)
}

/// A connection and a child that receives the whole text: our end, and the child.
pub(super) fn receiver(t: &Talk) -> (i32, i32) {
    let (ours, theirs) = t.pair();
    let pid = sys::fork(|| {
        sys::close(ours);
        let mut reader = Reader::default();
        let _ = reader.drain(theirs);
        i32::from(reader.verdict() != "whole")
    });
    sys::close(theirs);
    (ours, pid)
}
