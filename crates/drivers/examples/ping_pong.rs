//! Two processes over a bare channel: what a round trip and a stream cost below any protocol.
//!
//! `cargo run --release -p gannet-drivers --example ping_pong [seconds]`
//!
//! * round trip: 64 bytes inline there and back, both sides spinning;
//! * stream: 16 KiB, 64 KiB and 128 KiB writes, copied into blocks, sent as frames of 64 KiB,
//!   copied out by the receiver.

use gannet_drivers::channel::Options;
use gannet_drivers::wait::{Spinner, WaitPolicy};
use gannet_drivers::{Channel, Connector, Directory, Listener};
use gannet_link::{Driver, Endpoint, Frame, LinkState, Slot};
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

type End = Endpoint<Channel>;

/// Blocks in one frame of the stream: 64 KB less a little is what one IP packet carries.
const BLOCKS: usize = 4;

/// Most blocks under way in the stream: 512 KiB stay in the caches, the whole segment would not.
const WINDOW: usize = 32;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    let network = format!("ping-pong-{}", std::process::id());
    if first == "serve" {
        return serve(&arguments.next().unwrap_or(network));
    }
    let seconds: f64 = first.parse().unwrap_or(1.0);
    let directory = Directory::open(&network)?;
    let program = std::env::current_exe()?;
    let mut server = Command::new(program).args(["serve", &network]).spawn()?;
    let result = measure(&directory, Duration::from_secs_f64(seconds));
    server.wait()?;
    std::fs::remove_dir(directory.path())?;
    result
}

fn measure(directory: &Directory, time: Duration) -> io::Result<()> {
    let mut end = connect(directory)?;
    for _ in 0..3 {
        let (rounds, spent) = round_trips(&mut end, time)?;
        let each = spent.as_nanos() as f64 / rounds as f64;
        println!("round trip    {each:8.0} ns   ({rounds} rounds)");
    }
    for kib in [16, 64, 128] {
        let (bytes, spent) = stream(&mut end, kib * 1024, time)?;
        let rate = bytes as f64 / spent.as_secs_f64() / 1e9;
        println!(
            "stream {kib:4} KiB {rate:8.2} GB/s  ({:.0} Gbit/s)",
            rate * 8.0
        );
    }
    Ok(())
}

fn connect(directory: &Directory) -> io::Result<End> {
    let start = Instant::now();
    let now = || gannet_base::Instant::from_nanos(start.elapsed().as_nanos() as u64);
    let options = Options::default();
    loop {
        match Connector::start(directory, "client", "server", &options, now()) {
            Ok(mut connector) => loop {
                if let Some(end) = connector.progress(now())? {
                    return Ok(end);
                }
                std::thread::yield_now();
            },
            Err(error) if start.elapsed() > Duration::from_secs(5) => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// 64 bytes there and back until the time is up.
fn round_trips(end: &mut End, time: Duration) -> io::Result<(u64, Duration)> {
    let mut slot = Slot::new();
    slot.inline_mut(64).expect("room for 64 bytes").fill(b'p');
    let mut frame = Frame::new();
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < time {
        for _ in 0..1000 {
            let sent = end.transmit(&slot);
            sent.map_err(|_| io::Error::other("the ring is full"))?;
            end.flush();
            wait_for_frame(end, &mut frame)?;
        }
        rounds += 1000;
    }
    Ok((rounds, start.elapsed()))
}

/// Copies `write` bytes at a time into blocks and sends them, until the time is up and the other
/// side has read it all.
fn stream(end: &mut End, write: usize, time: Duration) -> io::Result<(u64, Duration)> {
    let data = vec![7u8; write];
    let mut frame = Frame::new();
    let (start, mut bytes) = (Instant::now(), 0);
    let mut spinner = Spinner::new(WaitPolicy::default());
    while start.elapsed() < time {
        for _ in 0..16 {
            for piece in data.chunks(BLOCKS * end.pool.block_bytes() as usize) {
                while !send_copy(end, piece) {
                    end.flush();
                    pause(end, &mut spinner)?;
                    end.reclaim();
                }
            }
            end.flush();
            end.reclaim();
            bytes += write as u64;
        }
    }
    // The end of the stream: the other side answers when it has everything.
    let mut slot = Slot::new();
    slot.inline_mut(64).expect("room for 64 bytes").fill(b'e');
    while end.transmit(&slot).is_err() {
        pause(end, &mut spinner)?;
        end.reclaim();
    }
    end.flush();
    wait_for_frame(end, &mut frame)?;
    Ok((bytes, start.elapsed()))
}

/// Sends `data`, at most [`BLOCKS`] blocks of it; `false` without room or blocks.
fn send_copy(end: &mut End, data: &[u8]) -> bool {
    let block_bytes = end.pool.block_bytes() as usize;
    let under_way = end.pool.blocks() - end.pool.free_blocks();
    if under_way + BLOCKS > WINDOW || end.driver.room() == 0 {
        return false;
    }
    let mut slot = Slot::new();
    slot.inline_mut(1).expect("room for a byte").fill(b'd');
    for piece in data.chunks(block_bytes) {
        let block = end.pool.alloc().expect("free blocks, counted above");
        let range = end.pool.range(block, 0, piece.len() as u32);
        let to = end.pool.bytes_mut(range).expect("a range of our own");
        to.copy_from_slice(piece);
        assert!(slot.push_range(range));
    }
    let sent = end.transmit(&slot).is_ok();
    for index in 0..slot.range_count() {
        let (offset, _) = slot.raw_range(index);
        let block = end.pool.range(end.pool.block_of(at(offset)), 0, 0);
        end.pool.release(block);
    }
    sent
}

fn at(offset: u32) -> gannet_link::Range {
    gannet_link::Range {
        offset,
        len: 0,
        space: gannet_link::Space::Own,
    }
}

/// Waits for the next frame; its ranges stay owed.
fn wait_for_frame(end: &mut End, frame: &mut Frame) -> io::Result<()> {
    let mut spinner = Spinner::default();
    loop {
        if end.receive(frame, &mut 64) {
            return Ok(());
        }
        end.reclaim();
        pause(end, &mut spinner)?;
    }
}

/// Spins, then sleeps until the other side rings or dies.
fn pause(end: &mut End, spinner: &mut Spinner) -> io::Result<()> {
    if spinner.spin() {
        return Ok(());
    }
    if end.driver.arm() {
        spinner.sleep(&[end.driver.wake_fd(), end.driver.control_fd()], None)?;
    }
    end.driver.disarm();
    end.driver.drain_wake();
    if end.driver.check_peer() == LinkState::Gone {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    spinner.news();
    Ok(())
}

/// The other process: answers pings and ends of streams, copies out everything else.
fn serve(network: &str) -> io::Result<()> {
    let directory = Directory::open(network)?;
    let mut listener = Listener::bind(&directory, "server", &Options::default())?;
    let start = Instant::now();
    let mut end = loop {
        let now = gannet_base::Instant::from_nanos(start.elapsed().as_nanos() as u64);
        if let Some(end) = listener.accept_ready(now)? {
            break end;
        }
        std::thread::yield_now();
    };
    drop(listener);
    let mut frame = Frame::new();
    let mut out = vec![0; 128 * 1024];
    while wait_for_frame(&mut end, &mut frame).is_ok() {
        if frame.ranges().is_empty() {
            let mut slot = Slot::new();
            slot.inline_mut(64).expect("room for 64 bytes").fill(b'a');
            while end.transmit(&slot).is_err() {
                std::hint::spin_loop();
            }
        }
        let mut n = 0;
        for &range in frame.ranges() {
            n += end.read(range, out.get_mut(n..).unwrap_or(&mut []));
            end.release(range);
        }
        end.flush();
    }
    Ok(())
}
