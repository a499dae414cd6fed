//! What a segment costs in instructions: two stacks joined by a channel over heap memory, one
//! thread, no clock, no system call, so that the same work is the same number every time.
//!
//! The command runs itself under valgrind twice, with few and with many segments. What the second
//! run took more, divided by what it carried more, is the cost of one; starting up, connecting and
//! closing fall out.

use std::net::IpAddr;

use gannet_base::Instant;
use gannet_link::{Endpoint, Layout, NoDoorbell, PeerDriver};
use gannet_stack::tcp::{TcpId, TcpOption};
use gannet_stack::{Config, LinkAddress, LinkConfig, Stack};
use serde::Serialize;

use super::valgrind;
use crate::error::Problem;

/// Segments of the two runs.
const RUNS: [u32; 2] = [2_000, 12_000];
/// Port of the server.
const PORT: u16 = 80;
/// Rounds after which a pair that stands still is broken.
const PATIENCE: u32 = 1000;

/// What is sent and received, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// One byte there, one byte back: two segments.
    RoundTrip,
    /// One write of 1,448 bytes, read.
    Segment,
    /// One write of 60,000 bytes, read.
    SuperSegment,
}

impl Work {
    /// All of it, in the order of the table.
    pub const ALL: [Work; 3] = [Work::RoundTrip, Work::Segment, Work::SuperSegment];

    /// Its name on the command line and in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Work::RoundTrip => "round-trip",
            Work::Segment => "segment",
            Work::SuperSegment => "super-segment",
        }
    }

    /// The work of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|w| w.name() == name)
    }

    fn bytes(self) -> usize {
        match self {
            Work::RoundTrip => 1,
            Work::Segment => 1448,
            Work::SuperSegment => 60_000,
        }
    }
}

/// Instructions that one piece of work takes, at both ends together.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Count {
    /// What was done.
    pub work: Work,
    /// Instructions for each.
    pub instructions: f64,
}

/// Counts every kind of work.
///
/// # Errors
/// When valgrind is missing or cannot run this program, or the stack stands still.
pub fn count(mut progress: impl FnMut(&str)) -> Result<Vec<Count>, Problem> {
    let mut counts = Vec::new();
    for work in Work::ALL {
        progress(work.name());
        let [few, many] = RUNS;
        let inside = |segments: u32| {
            let count = segments.to_string();
            let what = [
                "instructions",
                "--inside",
                work.name(),
                "--segments",
                &count,
            ];
            valgrind::count(&what)
        };
        let (low, high) = (inside(few)?, inside(many)?);
        counts.push(Count {
            work,
            instructions: (high.saturating_sub(low)) as f64 / f64::from(many - few),
        });
    }
    Ok(counts)
}

/// The work itself: `segments` times.
///
/// # Errors
/// When the stack refuses, or stands still.
pub fn run(work: Work, segments: u32) -> Result<(), Problem> {
    let broken = |why: &str| super::tally::broken("Gannet", why, "report it: this is a fault");
    let mut pair = Pair::connect().ok_or_else(|| broken("no connection"))?;
    let message = vec![0x5a; work.bytes()];
    let mut buffer = vec![0; work.bytes()];
    for _ in 0..segments {
        let arrived = pair.carry(&message, &mut buffer);
        let back = work != Work::RoundTrip || pair.answer(&mut buffer);
        if !arrived || !back {
            return Err(broken("it stands still"));
        }
    }
    Ok(())
}

/// Two hosts with a connection between them.
struct Pair {
    hosts: [Stack<PeerDriver<NoDoorbell>>; 2],
    ids: [TcpId; 2],
    now: Instant,
}

impl Pair {
    fn connect() -> Option<Self> {
        let (left, right) = gannet_link::pair(Layout::CHANNEL, (NoDoorbell, NoDoorbell));
        let mut a = host(1, left);
        let mut b = host(2, right);
        let mut now = Instant::from_millis(1000);
        let at = core::net::SocketAddr::new(address(2), PORT);
        let listener = b.tcp_listen(at, 1).ok()?;
        let client = a.tcp_connect(now, None, at).ok()?;
        a.tcp_set_option(client, TcpOption::NoDelay(true));
        for _ in 0..PATIENCE {
            now += core::time::Duration::from_micros(1);
            a.poll(now);
            b.poll(now);
            if let Some(server) = b.tcp_accept(listener) {
                return Some(Pair {
                    hosts: [a, b],
                    ids: [client, server],
                    now,
                });
            }
        }
        None
    }

    /// Sends `message` from the first to the second, which reads all of it.
    fn carry(&mut self, message: &[u8], buffer: &mut [u8]) -> bool {
        self.move_bytes([0, 1], message, buffer)
    }

    /// One byte from the second to the first.
    fn answer(&mut self, buffer: &mut [u8]) -> bool {
        self.move_bytes([1, 0], &[1], buffer)
    }

    fn move_bytes(&mut self, [from, to]: [usize; 2], message: &[u8], buffer: &mut [u8]) -> bool {
        let (mut sent, mut read) = (0, 0);
        for _ in 0..PATIENCE {
            self.now += core::time::Duration::from_micros(1);
            let now = self.now;
            let rest = message.get(sent..).unwrap_or_default();
            if !rest.is_empty()
                && let Ok(count) = self.hosts[from].tcp_send(now, self.ids[from], rest)
            {
                sent += count;
                self.hosts[from].flush();
            }
            self.hosts[to].poll(now);
            while let Ok(count @ 1..) = self.hosts[to].tcp_recv(now, self.ids[to], buffer) {
                read += count;
            }
            self.hosts[to].flush();
            self.hosts[from].poll(now);
            if read >= message.len() {
                return true;
            }
        }
        false
    }
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

fn host(number: u8, end: Endpoint<PeerDriver<NoDoorbell>>) -> Stack<PeerDriver<NoDoorbell>> {
    let mut stack = Stack::new(Config::new([number; 16], u64::from(number)));
    stack.add_link(
        end,
        LinkConfig {
            addresses: [LinkAddress {
                address: address(number),
                prefix_len: 24,
            }]
            .into(),
            peer: Some(address(3 - number)),
            ..LinkConfig::default()
        },
    );
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_is_carried() {
        for work in Work::ALL {
            run(work, 50).unwrap();
            assert_eq!(Work::named(work.name()), Some(work));
        }
    }
}
