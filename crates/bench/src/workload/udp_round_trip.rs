//! A UDP round trip: one datagram there, one of the same size back. A lost one is given up after
//! the socket's patience.

use std::io::{self, ErrorKind};

use super::udp_stream::{END, ENDINGS, HELLO, LEAST, close, confirm_close, number_of};
use super::{Times, cpu_seconds};
use crate::pattern;
use crate::peer::Datagrams;
use crate::role::{Load, Report};

/// The client.
///
/// # Errors
/// Those of the socket; `InvalidData` when a verified byte is wrong; `TimedOut` when nothing comes
/// back any more.
pub fn ask(socket: &mut impl Datagrams, load: &Load) -> io::Result<Report> {
    let mut request = vec![0; load.size.max(LEAST)];
    let mut answer = request.clone();
    let mut number = 0u64;
    let mut lost = 0u64;
    let mut verified_bytes = 0;
    let mut times = Times::start(load);
    loop {
        if let Some((head, rest)) = request.split_first_chunk_mut() {
            *head = number.to_le_bytes();
            if load.verify {
                pattern::fill(number, rest);
            }
        }
        socket.send(&request)?;
        let over = match socket.receive(&mut answer) {
            // A late answer to a request that was given up is taken for lost, too.
            Ok(count) if number_of(&answer) == Some(number) => {
                if load.verify && answer.get(..count) != Some(request.as_slice()) {
                    let what = format!("the answer to datagram {number} is wrong");
                    return Err(io::Error::new(ErrorKind::InvalidData, what));
                }
                verified_bytes += if load.verify { count as u64 } else { 0 };
                times.finished_one()
            }
            Ok(_) => times.lost_one(),
            Err(error) if is_silence(&error) && lost < 8 => {
                lost += 1;
                times.lost_one()
            }
            Err(error) => return Err(error),
        };
        number += 1;
        if over {
            break;
        }
    }
    let report = times.report();
    close(socket);
    Ok(Report {
        verified_bytes,
        ..report
    })
}

/// The server.
///
/// # Errors
/// Those of the socket.
pub fn answer(socket: &mut impl Datagrams, load: &Load) -> io::Result<Report> {
    let mut request = vec![0; load.size.max(LEAST)];
    let begin = cpu_seconds();
    let mut report = Report::default();
    let mut silent = 0;
    // The end may be lost: long enough without a word, and the conversation is over.
    while silent < ENDINGS {
        let count = match socket.receive(&mut request) {
            Ok(count) => count,
            Err(error) if is_silence(&error) => {
                silent += 1;
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        silent = 0;
        let datagram = request.get(..count).unwrap_or_default();
        match number_of(datagram) {
            Some(END) => break,
            Some(HELLO) | None => {}
            Some(_) => {
                socket.send(datagram)?;
                report.all_operations += 1;
                report.all_bytes += count as u64;
            }
        }
    }
    report.cpu_seconds = cpu_seconds() - begin;
    confirm_close(socket);
    Ok(report)
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
