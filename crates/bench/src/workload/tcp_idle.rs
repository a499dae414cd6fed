//! Connections that carry nothing: what they cost in processor time and in memory.

use std::io;
use std::time::{Duration, Instant};

use super::cpu_seconds;
use crate::role::{Load, Report};

/// Holds the connections for the time of the load, after its warm-up.
///
/// # Errors
/// When the memory in use cannot be read.
pub fn hold<S>(connections: &[S], load: &Load) -> io::Result<Report> {
    std::thread::sleep(Duration::from_secs_f64(load.warm_up));
    let (begin, started) = (cpu_seconds(), Instant::now());
    std::thread::sleep(Duration::from_secs_f64(load.seconds));
    Ok(Report {
        operations: connections.len() as u64,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds() - begin,
        all_operations: connections.len() as u64,
        memory_bytes: Some(resident_bytes()?),
        ..Report::default()
    })
}

/// Memory of this process that is resident, shared memory included.
fn resident_bytes() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_what_is_touched() {
        let before = resident_bytes().unwrap();
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        let load = Load {
            size: 2,
            seconds: 0.0,
            warm_up: 0.0,
            verify: false,
            bytes: None,
        };
        let report = hold(&[(), ()], &load).unwrap();
        assert_eq!(report.operations, 2);
        assert!(report.memory_bytes.unwrap() >= before + (16 << 20));
        drop(block);
    }
}
