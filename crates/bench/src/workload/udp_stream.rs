//! Datagrams one way, as fast as they are taken. Each begins with its number, so that the server
//! knows which came.
//!
//! The client says how many there were; the orchestration subtracts. Lost is what was sent and
//! never came, whatever dropped it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Clock, cpu_seconds};
use crate::pattern;
use crate::peer::{BATCH, Batch, Datagrams};
use crate::role::{Load, Report};

/// The shortest datagram: its number.
pub const LEAST: usize = 8;
/// The number in the datagram that opens a conversation.
pub(super) const HELLO: u64 = u64::MAX;
/// The number in the datagrams that end it.
pub(super) const END: u64 = u64::MAX - 1;

/// The client opens: it says hello until the server answers.
///
/// # Errors
/// Those of the socket; `TimedOut` when nobody answers.
pub fn open(socket: &mut impl Datagrams, to: SocketAddr) -> io::Result<()> {
    socket.connect(to)?;
    let until = Instant::now() + Duration::from_secs(3);
    let mut answer = [0; LEAST];
    while Instant::now() < until {
        socket.send(&HELLO.to_le_bytes())?;
        if socket.receive(&mut answer).is_ok() && answer == HELLO.to_le_bytes() {
            return Ok(());
        }
    }
    Err(io::Error::new(
        ErrorKind::TimedOut,
        format!("no answer from {to}"),
    ))
}

/// The server waits for a hello, fixes its peer and answers.
///
/// # Errors
/// Those of the socket; `TimedOut` when nobody comes.
pub fn accept(socket: &mut impl Datagrams) -> io::Result<()> {
    let until = Instant::now() + Duration::from_secs(3);
    let mut hello = [0; LEAST];
    while Instant::now() < until {
        if let Ok((LEAST, from)) = socket.receive_from(&mut hello)
            && hello == HELLO.to_le_bytes()
        {
            socket.connect(from)?;
            socket.send(&hello)?;
            return Ok(());
        }
    }
    Err(io::Error::new(ErrorKind::TimedOut, "no client came"))
}

/// The client.
///
/// # Errors
/// Those of the socket.
pub fn send(socket: &mut impl Datagrams, load: &Load) -> io::Result<Report> {
    let size = load.size.max(LEAST);
    let mut batch = Batch::new(size);
    let begin = cpu_seconds();
    let mut clock = Clock::start(load);
    let mut number = 0u64;
    loop {
        for (place, number) in batch.places(BATCH).zip(number..) {
            write_datagram(place, number, load.verify);
        }
        let sent = match socket.send_batch(&batch) {
            Ok(sent) => sent as u64,
            // The kernel has no room for the moment; what was not sent is not lost.
            Err(error) if is_pressure(&error) => 0,
            Err(error) => return Err(error),
        };
        number += sent;
        if clock.count_many(sent, sent * size as u64) || (sent == 0 && clock.is_over()) {
            break;
        }
    }
    let cpu = cpu_seconds() - begin;
    close(socket);
    Ok(clock.report(cpu))
}

/// So often the client says that this was all, until the server says that it heard; and so long the
/// server takes silence for a pause.
pub(super) const ENDINGS: u32 = 8;

/// The client says that this was all, until the server says so, too. A server that heard it and
/// whose answer was lost is gone: then nothing is left to be done.
pub(super) fn close(socket: &mut impl Datagrams) {
    let mut answer = [0; LEAST];
    for _ in 0..ENDINGS {
        // Late enough for the server to have taken what is queued before it.
        std::thread::sleep(Duration::from_millis(10));
        if socket.send(&END.to_le_bytes()).is_err() {
            return;
        }
        while let Ok(count) = socket.receive(&mut answer) {
            if answer.get(..count).and_then(number_of) == Some(END) {
                return;
            }
        }
    }
}

/// The server heard that this was all. Said three times: an answer may be lost.
pub(super) fn confirm_close(socket: &mut impl Datagrams) {
    for _ in 0..3 {
        let _ = socket.send(&END.to_le_bytes());
    }
}

fn is_pressure(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

fn write_datagram(place: &mut [u8], number: u64, verify: bool) {
    if let Some((head, rest)) = place.split_first_chunk_mut() {
        *head = number.to_le_bytes();
        if verify {
            pattern::fill(number, rest);
        }
    }
}

/// The server.
///
/// # Errors
/// Those of the socket; `InvalidData` when a datagram has the wrong length or a verified byte is
/// wrong.
pub fn receive(socket: &mut impl Datagrams, load: &Load) -> io::Result<Report> {
    let size = load.size.max(LEAST);
    let mut batch = Batch::new(size);
    let mut seen = Seen::default();
    let mut verified_bytes = 0;
    let mut silent = 0;
    let begin = cpu_seconds();
    let mut clock = Clock::start(load);
    'all: loop {
        let count = match socket.receive_batch(&mut batch) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if is_silence(&error) && silent < ENDINGS => {
                silent += 1;
                continue;
            }
            // The datagrams that end the conversation were lost as well.
            Err(error) if is_silence(&error) && seen.count > 0 => break,
            Err(error) => return Err(error),
        };
        silent = 0;
        let mut fresh = 0;
        for datagram in batch.datagrams(count) {
            match number_of(datagram) {
                Some(HELLO) => {}
                Some(END) => break 'all,
                Some(number) => {
                    check(datagram, number, size, load.verify)?;
                    verified_bytes += if load.verify { size as u64 } else { 0 };
                    fresh += u64::from(seen.is_new(number));
                }
                None => return Err(wrong("a datagram is too short")),
            }
        }
        clock.count_many(fresh, fresh * size as u64);
    }
    let cpu = cpu_seconds() - begin;
    confirm_close(socket);
    Ok(Report {
        verified_bytes,
        ..clock.report(cpu)
    })
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The number a datagram begins with.
pub(super) fn number_of(datagram: &[u8]) -> Option<u64> {
    datagram.first_chunk().map(|head| u64::from_le_bytes(*head))
}

fn check(datagram: &[u8], number: u64, size: usize, verify: bool) -> io::Result<()> {
    if datagram.len() != size {
        return Err(wrong(&format!(
            "datagram {number} has {} bytes",
            datagram.len()
        )));
    }
    let body = datagram.get(LEAST..).unwrap_or_default();
    if verify && pattern::first_difference(number, body).is_some() {
        return Err(wrong(&format!("datagram {number} is damaged")));
    }
    Ok(())
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

/// Which numbers have come: a bit each.
#[derive(Debug, Default)]
struct Seen {
    words: Vec<u64>,
    count: u64,
}

/// Numbers above this are not counted as delivered: 8 billion datagrams, a gigabyte of bits.
const MOST: u64 = 1 << 33;

impl Seen {
    fn is_new(&mut self, number: u64) -> bool {
        if number >= MOST {
            return false;
        }
        let index = (number / 64) as usize;
        if index >= self.words.len() {
            self.words
                .resize((index + 1).next_power_of_two().max(1024), 0);
        }
        let bit = 1 << (number % 64);
        let Some(word) = self.words.get_mut(index) else {
            return false;
        };
        let new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubled_datagram_is_delivered_once() {
        let mut seen = Seen::default();
        let new: Vec<bool> = [0, 1, 1, 70_000, 0, 63, 64].map(|n| seen.is_new(n)).into();
        assert_eq!(new, [true, true, false, true, false, true, true]);
        assert_eq!(seen.count, 5);
        assert!(!seen.is_new(HELLO));
    }

    #[test]
    fn datagrams_are_checked() {
        let mut datagram = [0; 40];
        write_datagram(&mut datagram, 77, true);
        assert_eq!(number_of(&datagram), Some(77));
        assert!(check(&datagram, 77, 40, true).is_ok());
        assert!(check(&datagram, 77, 41, false).is_err());
        datagram[39] ^= 1;
        assert!(check(&datagram, 77, 40, true).is_err());
        assert_eq!(number_of(&datagram[..7]), None);
    }
}
