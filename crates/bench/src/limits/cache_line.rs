//! The cache-line round trip: the time in which one core writes a line, another sees it and writes
//! one back.
//!
//! No exchange between two processes can be faster, because at least one line must travel each way.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::sys::SharedMemory;
use super::wait::until;
use crate::role::{Load, Percentiles, Report, Side};
use crate::workload::cpu_seconds;

/// Bytes of shared memory: one page.
pub const MEMORY: usize = 4096;

// Two lines apart, so that the neighbour-line prefetcher does not pull one with the other.
const REQUEST: usize = 0;
const ANSWER: usize = 256;
/// What the client writes to end the exchange.
const END: u64 = u64::MAX;
/// Round trips between two looks at the clock.
const TURNS: u64 = 256;

/// One side of the exchange.
///
/// # Errors
/// `TimedOut` when the other side stops answering.
pub fn run(memory: &SharedMemory, side: Side, load: &Load) -> io::Result<Report> {
    let (request, answer) = (memory.word(REQUEST)?, memory.word(ANSWER)?);
    match side {
        Side::Client => ask(request, answer, load),
        Side::Server => echo(request, answer),
    }
}

fn ask(request: &AtomicU64, answer: &AtomicU64, load: &Load) -> io::Result<Report> {
    let begin = cpu_seconds();
    let started = Instant::now();
    let mut turn = 0u64;
    let mut samples = Vec::new();
    let mut last = started;
    loop {
        for _ in 0..TURNS {
            turn += 1;
            request.store(turn, Ordering::Release);
            wait(answer, turn)?;
        }
        let now = Instant::now();
        let elapsed = now.duration_since(started).as_secs_f64();
        if elapsed >= load.warm_up {
            samples.push(now.duration_since(last).as_secs_f64() / TURNS as f64);
        }
        last = now;
        if elapsed >= load.warm_up + load.seconds {
            break;
        }
    }
    request.store(END, Ordering::Release);
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (samples.len() as f64 * share) as usize;
        samples
            .get(index)
            .or(samples.last())
            .copied()
            .unwrap_or(f64::NAN)
    };
    Ok(Report {
        operations: samples.len() as u64 * TURNS,
        seconds: load.seconds,
        cpu_seconds: cpu_seconds() - begin,
        all_operations: turn,
        times: Some(Percentiles {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
        }),
        ..Report::default()
    })
}

fn echo(request: &AtomicU64, answer: &AtomicU64) -> io::Result<Report> {
    let begin = cpu_seconds();
    let mut turn = 0;
    loop {
        turn += 1;
        if wait(request, turn)? == END {
            break;
        }
        answer.store(turn, Ordering::Release);
    }
    let cpu_seconds = cpu_seconds() - begin;
    Ok(Report {
        cpu_seconds,
        all_operations: turn - 1,
        ..Report::default()
    })
}

fn wait(word: &AtomicU64, turn: u64) -> io::Result<u64> {
    until(|| {
        let value = word.load(Ordering::Acquire);
        (value >= turn).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_meet() {
        let file = crate::limits::memory_file(MEMORY).unwrap();
        let load = Load {
            size: 64,
            seconds: 0.02,
            warm_up: 0.0,
            verify: false,
            bytes: None,
        };
        std::thread::scope(|scope| {
            let file = &file;
            let server = scope.spawn(move || {
                let memory = SharedMemory::map(file, MEMORY).unwrap();
                run(&memory, Side::Server, &load).unwrap()
            });
            let memory = SharedMemory::map(file, MEMORY).unwrap();
            let client = run(&memory, Side::Client, &load).unwrap();
            assert_eq!(server.join().unwrap().all_operations, client.all_operations);
            assert!(client.times.unwrap().p50 > 0.0);
        });
    }
}
