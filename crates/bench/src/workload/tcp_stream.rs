//! A TCP stream, one way: the client writes `size` bytes at a time as fast as they are taken, the
//! server reads.
//!
//! Goodput is what the server read, from the end of the warm-up to the end of the stream. The
//! client waits until the server has read everything, so that a stack in the client's own process
//! gets to send it.

use std::io::{self, ErrorKind};

use super::{Clock, cpu_seconds};
use crate::pattern::{self, Hash};
use crate::peer::ByteStream;
use crate::role::{Load, Report};

/// A read buffer is at least this long: many small writes arrive as one large read.
const LEAST_READ: usize = 64 * 1024;

/// The client.
///
/// # Errors
/// Those of the stream.
pub fn send(stream: &mut impl ByteStream, load: &Load) -> io::Result<Report> {
    let mut message = vec![0; load.size.max(1)];
    pattern::fill(0, &mut message);
    let mut hash = Hash::default();
    let mut position = 0u64;
    let begin = cpu_seconds();
    let mut clock = Clock::start(load);
    loop {
        if load.verify {
            pattern::fill(position, &mut message);
            hash.update(&message);
        }
        stream.write_all(&message)?;
        position += message.len() as u64;
        let all = load.bytes.is_some_and(|bytes| position >= bytes);
        if clock.count(message.len() as u64) || all {
            break;
        }
    }
    stream.finish()?;
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Ok(_) => return Err(wrong("the server sent something in a one-way stream")),
        Err(error) => return Err(error),
    }
    let report = clock.report(cpu_seconds() - begin);
    Ok(Report {
        hash: load.verify.then_some(hash.value()),
        ..report
    })
}

/// The server.
///
/// # Errors
/// Those of the stream; `InvalidData` when a verified byte is wrong.
pub fn receive(stream: &mut impl ByteStream, load: &Load) -> io::Result<Report> {
    let mut buffer = vec![0; load.size.max(LEAST_READ)];
    let mut hash = Hash::default();
    let mut position = 0u64;
    let begin = cpu_seconds();
    let mut clock = Clock::start(load);
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if load.verify {
            let bytes = buffer.get(..count).ok_or(ErrorKind::InvalidData)?;
            if let Some(at) = pattern::first_difference(position, bytes) {
                return Err(wrong(&format!("byte {at} of the stream is wrong")));
            }
            hash.update(bytes);
        }
        position += count as u64;
        clock.count(count as u64);
    }
    clock.end();
    let report = clock.report(cpu_seconds() - begin);
    Ok(Report {
        hash: load.verify.then_some(hash.value()),
        verified_bytes: if load.verify { position } else { 0 },
        ..report
    })
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read, Write};

    use super::*;

    struct Fixed(Cursor<Vec<u8>>);
    impl Read for Fixed {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = into.len().min(777);
            self.0.read(&mut into[..count])
        }
    }
    impl Write for Fixed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl ByteStream for Fixed {
        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_server_checks_every_byte() {
        let load = Load {
            size: 100,
            seconds: 1.0,
            warm_up: 0.0,
            verify: true,
            bytes: None,
        };
        let mut bytes = vec![0; 10_000];
        pattern::fill(0, &mut bytes);
        let report = receive(&mut Fixed(Cursor::new(bytes.clone())), &load).unwrap();
        assert_eq!((report.verified_bytes, report.all_bytes), (10_000, 10_000));
        bytes[5_000] ^= 0x80;
        let error = receive(&mut Fixed(Cursor::new(bytes)), &load).unwrap_err();
        assert_eq!(error.to_string(), "byte 5000 of the stream is wrong");
    }
}
