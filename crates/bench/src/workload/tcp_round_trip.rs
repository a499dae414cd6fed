//! A TCP round trip: the client writes `size` bytes and reads as many back; one at a time.

use std::io::{self, ErrorKind};

use super::{Times, cpu_seconds};
use crate::pattern;
use crate::peer::ByteStream;
use crate::role::{Load, Report};

/// The client.
///
/// # Errors
/// Those of the stream; `InvalidData` when a verified byte is wrong.
pub fn ask(stream: &mut impl ByteStream, load: &Load) -> io::Result<Report> {
    let mut request = vec![0; load.size.max(1)];
    let mut answer = request.clone();
    pattern::fill(0, &mut request);
    let mut position = 0u64;
    let mut times = Times::start(load);
    loop {
        if load.verify {
            pattern::fill(position, &mut request);
        }
        stream.write_all(&request)?;
        stream.read_exact(&mut answer)?;
        if load.verify && answer != request {
            let what = format!("the answer to byte {position} is wrong");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        position += request.len() as u64;
        if times.finished_one() {
            break;
        }
    }
    let report = times.report();
    stream.finish()?;
    Ok(Report {
        verified_bytes: if load.verify { position } else { 0 },
        ..report
    })
}

/// The server.
///
/// # Errors
/// Those of the stream.
pub fn answer(stream: &mut impl ByteStream, load: &Load) -> io::Result<Report> {
    let mut request = vec![0; load.size.max(1)];
    let begin = cpu_seconds();
    let mut report = Report::default();
    while read_whole(stream, &mut request)? {
        stream.write_all(&request)?;
        report.all_operations += 1;
        report.all_bytes += request.len() as u64;
    }
    stream.finish()?;
    report.cpu_seconds = cpu_seconds() - begin;
    Ok(report)
}

/// Reads a whole request; `false` at the end of the stream.
fn read_whole(stream: &mut impl ByteStream, request: &mut [u8]) -> io::Result<bool> {
    let first = loop {
        match stream.read(request) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => break outcome?,
        }
    };
    if first == 0 {
        return Ok(false);
    }
    stream.read_exact(request.get_mut(first..).unwrap_or_default())?;
    Ok(true)
}
