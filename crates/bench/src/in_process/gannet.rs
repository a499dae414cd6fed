//! Gannet as both ends of a TCP stream: two hosts in one process, one thread, joined by a channel.
//!
//! Nothing blocks: the one thread writes a little, then reads until the server's queue is empty,
//! and so drives both hosts. A little, because what is under way then stays in the second-level
//! cache: filling the whole queue first was a tenth slower.

use std::fmt;
use std::io::{ErrorKind, Read, Write};

use gannet::{ChannelOptions, Host, TcpListener, TcpStream};

use super::tally::{self, Tally};
use crate::error::Problem;
use crate::pattern;
use crate::role::{Load, Report};

/// Bytes written before they are read again.
const BURST: u64 = 64 * 1024;

/// Sends a stream from one socket to another.
///
/// # Errors
/// When the stack refuses, stands still or delivers a wrong byte.
pub fn stream(load: &Load) -> Result<Report, Problem> {
    let mut pair = Pair::connect(ChannelOptions::default()).map_err(broken)?;
    let mut message = vec![0; load.size.max(1)];
    let mut buffer = vec![0; load.size.max(64 * 1024)];
    pattern::fill(0, &mut message);
    let (mut written, mut offset) = (0u64, 0);
    let mut tally = Tally::start(load);
    loop {
        let burst = written + BURST;
        while written < burst
            && let Some(count) = pair.write(message.get(offset..).unwrap_or_default())?
        {
            written += count as u64;
            offset = (offset + count) % message.len();
            if load.verify && offset == 0 {
                pattern::fill(written, &mut message);
            }
        }
        while let Some(count) = pair.read(&mut buffer)? {
            tally.received(count, &buffer).map_err(broken)?;
        }
        if tally.is_over().map_err(broken)? {
            return Ok(tally.report());
        }
    }
}

/// The same with blocks: each is written in place by the sender (its first bytes; all of them when
/// they are verified) and read in place by the receiver. Nothing is copied, so this is what the
/// protocols and the rings cost.
///
/// # Errors
/// As [`stream`].
pub fn stream_in_place(load: &Load) -> Result<Report, Problem> {
    let pair = Pair::connect(large_blocks()).map_err(broken)?;
    let mut written = 0u64;
    let mut seen = vec![0; 64 * 1024];
    let looked_at = if load.verify { usize::MAX } else { 64 };
    let mut tally = Tally::start(load);
    loop {
        if let Some(mut block) = when_possible(pair.client.take_block())? {
            let len = load.size.clamp(1, block.len());
            let place = block.get_mut(..len.min(looked_at)).unwrap_or_default();
            pattern::fill(written, place);
            if when_possible(pair.client.send_block(block, len))?.is_some() {
                written += len as u64;
            }
        }
        while let Some(Some(block)) = when_possible(pair.server.recv_block())? {
            let space = seen.get_mut(..looked_at.min(65_536)).unwrap_or_default();
            block.read_at(0, space);
            tally.received(block.len(), &seen).map_err(broken)?;
        }
        if tally.is_over().map_err(broken)? {
            return Ok(tally.report());
        }
    }
}

/// Blocks of 64 KiB, one for each write of that size, in as much memory as usual.
fn large_blocks() -> ChannelOptions {
    let mut options = ChannelOptions::default();
    let bytes = options.layout.block_bytes * options.layout.blocks;
    options.layout.block_bytes = 64 << 10;
    options.layout.blocks = bytes / options.layout.block_bytes;
    options
}

fn broken(why: impl fmt::Display) -> Problem {
    tally::broken("Gannet", why, "leave it out: --peer smoltcp")
}

/// Two hosts with a connection between them.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    _hosts: [Host; 2],
}

impl Pair {
    fn connect(channel: ChannelOptions) -> std::io::Result<Self> {
        let network = format!("gannet-bench-{}", std::process::id());
        let server_host = Host::builder()
            .channel(&network, "10.77.0.1/24")
            .channel_options(channel)
            .build()?;
        let client_host = Host::builder()
            .channel(&network, "10.77.0.2/24")
            .channel_options(channel)
            .build()?;
        let listener = TcpListener::bind(&server_host, "10.77.0.1:0")?;
        let client = TcpStream::connect(&client_host, listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        // Small writes may wait for one another, as they do in smoltcp until it is polled.
        client.set_nonblocking(true)?;
        server.set_nonblocking(true)?;
        Ok(Self {
            client,
            server,
            _hosts: [server_host, client_host],
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>, Problem> {
        when_possible(self.client.write(bytes))
    }

    fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, Problem> {
        when_possible(self.server.read(into))
    }
}

fn when_possible<T>(outcome: std::io::Result<T>) -> Result<Option<T>, Problem> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(broken(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives() {
        for size in [64, 65_536, 1 << 20] {
            let load = Load {
                size,
                seconds: 0.05,
                warm_up: 0.0,
                verify: true,
                bytes: None,
            };
            for report in [stream(&load).unwrap(), stream_in_place(&load).unwrap()] {
                assert!(report.all_bytes > 0);
                assert_eq!(report.verified_bytes, report.all_bytes);
            }
        }
    }
}
