//! How fast packet drivers are: super-segments over a virtual Ethernet, with a window of credit as
//! TCP would have one, beside the kernel's own TCP over the same wire.
//!
//! `cargo run --release -p gannet-drivers --example packet_rate [rounds] [bypass]`, as root.

use gannet_drivers::packet::{Options, PacketDriver};
use gannet_drivers::wait;
use gannet_link::slot::flags;
use gannet_link::{Arena, Driver, Endpoint, Frame, Slot};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

const PAYLOAD: usize = 45 * 1448;
const TIME: Duration = Duration::from_millis(700);

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(5);
    let pid = std::process::id();
    let names = [
        format!("gannet-rate-{pid}-a"),
        format!("gannet-rate-{pid}-b"),
    ];
    for name in &names {
        ip(&["netns", "add", name]);
    }
    let [a, b] = &names;
    ip(&[
        "-n", a, "link", "add", "left", "type", "veth", "peer", "name", "right", "netns", b,
    ]);
    for (name, link, address) in [(a, "left", "10.79.0.1/24"), (b, "right", "10.79.0.2/24")] {
        ip(&["-n", name, "link", "set", link, "up"]);
        ip(&["-n", name, "addr", "add", address, "dev", link]);
    }
    println!("GB/s and CPU seconds per GB (both sides)");
    for _ in 0..rounds {
        let kernel = measure(|| kernel(a, b));
        print!("kernel TCP {:6.2} {:5.3}", kernel.0, kernel.1);
        for window in [4, 16, 64, 256] {
            let ours = measure(|| packets(a, b, window, PAYLOAD));
            print!(" | {window} frames {:6.2} {:5.3}", ours.0, ours.1);
        }
        let small = measure(|| packets(a, b, 256, 1400));
        println!(" | 1400 B {:5.0} kframes/s", small.0 * 1e3 / 1.4);
    }
    for name in &names {
        ip(&["netns", "del", name]);
    }
}

/// Bytes per second in GB/s, and CPU seconds per GB.
fn measure(run: impl FnOnce() -> u64) -> (f64, f64) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let bytes = run() as f64 / 1e9;
    (
        bytes / start.elapsed().as_secs_f64(),
        (cpu_seconds() - cpu) / bytes,
    )
}

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .flat_map(str::parse::<u64>)
        .sum();
    ticks as f64 / 100.0
}

fn ip(args: &[&str]) {
    assert!(
        Command::new("ip")
            .args(args)
            .status()
            .is_ok_and(|s| s.success()),
        "ip {args:?}"
    );
}

/// Runs `f` inside namespace `name`, in a thread of its own.
fn inside<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{name}")).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            f()
        });
        thread.join().unwrap()
    })
}

fn kernel(a: &str, b: &str) -> u64 {
    let listener = inside(b, || TcpListener::bind("10.79.0.2:0").unwrap());
    let address = listener.local_addr().unwrap();
    let mut out = inside(a, || TcpStream::connect(address).unwrap());
    let (mut into, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 128 << 10];
        let mut sum = 0;
        while let Ok(n @ 1..) = into.read(&mut buffer) {
            sum += n as u64;
        }
        sum
    });
    let data = vec![7; 128 << 10];
    let start = Instant::now();
    while start.elapsed() < TIME {
        out.write_all(&data).unwrap();
    }
    drop(out);
    reader.join().unwrap()
}

type Packet = Endpoint<PacketDriver>;

fn packets(a: &str, b: &str, window: u64, payload: usize) -> u64 {
    let open = |name, link| {
        inside(name, || {
            PacketDriver::open(link, Options::default()).unwrap()
        })
    };
    let (mut left, mut right) = (open(a, "left"), open(b, "right"));
    let head = head(&left, &right, payload);
    touch(&mut left);
    let receiver = std::thread::spawn(move || receiver(&mut right));
    let (mut sent, mut credit, mut looks) = (0, window, 0);
    let mut frame = Frame::new();
    let start = Instant::now();
    let mut idle = Instant::now();
    while start.elapsed() < TIME {
        while credit > 0 && transmit(&mut left, &head, payload) {
            (sent, credit) = (sent + 1, credit - 1);
        }
        left.flush();
        let mut budget = 64;
        let before = credit;
        while left.receive(&mut frame, &mut budget) {
            credit += frame.head().get(14).map_or(0, |&n| u64::from(n));
            left.release_frame(&frame);
        }
        if credit > before {
            (idle, looks) = (Instant::now(), 0);
        } else if idle.elapsed() > Duration::from_millis(50) {
            credit = window; // frames were lost
        } else if credit == 0 {
            rest(&mut left, &mut looks);
        }
    }
    let stop = [&head[..12], &[0x88, 0xb6]].concat();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(2));
        send_inline(&mut left, &stop);
    }
    let bytes = receiver.join().unwrap();
    if bytes < sent * payload as u64 {
        print!(" (lost {})", sent - bytes / payload as u64);
    }
    bytes
}

/// Writes to the blocks that will be sent from: memory that was never written is one shared page of
/// zeros, which is faster to read than any real payload.
fn touch(endpoint: &mut Packet) {
    let blocks: Vec<_> = std::iter::from_fn(|| endpoint.pool.alloc())
        .take(64)
        .collect();
    for block in blocks {
        let range = endpoint.pool.range(block, 0, endpoint.pool.block_bytes());
        if let Some(bytes) = endpoint.pool.bytes_mut(range) {
            bytes.fill(7);
        }
        endpoint.pool.release(range);
    }
}

/// Counts payload until told to stop; grants a credit per frame, in batches as they come.
fn receiver(right: &mut Packet) -> u64 {
    let (mut sum, mut owed, mut looks) = (0, 0_u8, 0);
    let mut frame = Frame::new();
    loop {
        let mut budget = 8;
        while right.receive(&mut frame, &mut budget) {
            let head = frame.head();
            let (kind, source) = (head.get(12..14), head.get(6..12).map(<[u8]>::to_vec));
            match (kind, source) {
                (Some([0x88, 0xb6]), _) => return sum,
                (Some([8, 0]), Some(_)) if frame.len() > 1000 => {
                    sum += frame.len() as u64 - 54;
                    owed += 1;
                }
                _ => {}
            }
            right.release_frame(&frame);
        }
        if owed > 0 {
            let grant = [&[0xff; 12][..], &[0x88, 0xb5, owed]].concat();
            send_inline(right, &grant);
            (owed, looks) = (0, 0);
        } else {
            rest(right, &mut looks);
        }
    }
}

/// Looks a number of times in vain, then sleeps, as a host does: the other side may need the core.
fn rest(endpoint: &mut Packet, looks: &mut u32) {
    *looks += 1;
    if *looks > 50 && endpoint.driver.arm() {
        let _ = wait::sleep(
            &[endpoint.driver.wake_fd()],
            Some(Duration::from_millis(10)),
        );
        endpoint.driver.disarm();
        *looks = 0;
    }
}

fn send_inline(endpoint: &mut Packet, bytes: &[u8]) {
    let mut slot = Slot::new();
    if let Some(to) = slot.inline_mut(bytes.len()) {
        to.copy_from_slice(bytes);
    }
    let _ = endpoint.transmit(&slot);
    endpoint.flush();
}

/// Headers of a TCP segment that nobody has a socket for. The addresses are not the interfaces', so
/// that the kernel's stack leaves the frames alone.
fn head(left: &Packet, right: &Packet, payload: usize) -> Vec<u8> {
    let mut head = Vec::new();
    head.extend(right.capabilities().hardware_address);
    head.extend(left.capabilities().hardware_address);
    head.extend([8, 0, 0x45, 0]);
    head.extend(((40 + payload) as u16).to_be_bytes());
    head.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    head.extend([0; 12]);
    head.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    head
}

fn transmit(endpoint: &mut Packet, head: &[u8], payload: usize) -> bool {
    let mut slot = Slot::new();
    if let Some(to) = slot.inline_mut(head.len()) {
        to.copy_from_slice(head);
    }
    slot.set_flags(flags::CSUM_PARTIAL);
    slot.set_checksum_place(34, 16);
    slot.set_gso_size(if payload > 1448 { 1448 } else { 0 });
    let mut arena = Arena::new();
    let mut left = payload;
    let mut sent = true;
    while left > 0 && sent {
        let Some(range) = endpoint.pool.reserve_in(&mut arena, left) else {
            return false;
        };
        sent = slot.push_range(range);
        left -= range.len as usize;
    }
    sent = sent && endpoint.transmit(&slot).is_ok();
    for index in 0..slot.range_count() {
        let (offset, len) = slot.raw_range(index);
        let space = gannet_link::Space::Own;
        endpoint
            .pool
            .release(gannet_link::Range { offset, len, space });
    }
    endpoint.pool.close(&mut arena);
    sent
}
