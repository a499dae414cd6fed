//! A TCP stream that is cut off: the server counts what it read in its seconds, to the moment, and
//! ends, however much is still under way. For paths on which what waits in the client's buffer
//! would take longer than the seconds themselves.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::cpu_seconds;
use crate::pattern;
use crate::peer::ByteStream;
use crate::role::{Load, Report};

/// Bytes in one read.
const READ: usize = 256 * 1024;

/// The client: writes until the other side is gone.
///
/// # Errors
/// Those of the stream, but for the end of the other side.
pub fn pour(stream: &mut impl ByteStream, load: &Load) -> io::Result<Report> {
    let mut message = vec![0; load.size.max(1)];
    pattern::fill(0, &mut message);
    loop {
        match stream.write_all(&message) {
            Ok(()) => {}
            Err(error) if is_end(&error) => return Ok(Report::default()),
            Err(error) => return Err(error),
        }
    }
}

/// The server: what arrived between the end of the warm-up and the end of the seconds.
///
/// # Errors
/// Those of the stream; `UnexpectedEof` when it ended by itself.
pub fn gauge(stream: &mut impl ByteStream, load: &Load) -> io::Result<Report> {
    let mut buffer = vec![0; READ];
    let cpu = cpu_seconds();
    let begin = Instant::now() + seconds(load.warm_up);
    let end = begin + seconds(load.seconds);
    let mut report = Report {
        seconds: load.seconds,
        ..Report::default()
    };
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        if now >= end {
            report.cpu_seconds = cpu_seconds() - cpu;
            return Ok(report);
        }
        report.all_bytes += count;
        report.all_operations += 1;
        if now >= begin {
            report.bytes += count;
            report.operations += 1;
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}

fn is_end(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset
    )
}
