//! Network namespaces of the test's own, frames to send, and waiting.
#![allow(dead_code, reason = "each test file uses its part")]

use gannet_drivers::interface::Interface;
use gannet_link::slot::flags;
use gannet_link::{Arena, Driver, Endpoint, Frame, Slot};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Says why and returns true when the test cannot run: namespaces need root.
pub(crate) fn not_root() -> bool {
    let other = !rustix::process::geteuid().is_root();
    if other {
        println!("skipped: namespaces and packet sockets need root; try: sudo");
    }
    other
}

/// A network namespace, removed at the end.
pub(crate) struct Namespace {
    pub(crate) name: String,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Namespace {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gannet-drv-{}-{number}", std::process::id());
        ip(&["netns", "add", &name]);
        let namespace = Namespace { name };
        // No router solicitations and the like between the frames of the test.
        namespace.run(|| {
            std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").ok();
        });
        namespace
    }

    /// Runs `f` in a thread inside the namespace: what it opens belongs there.
    pub(crate) fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.name)).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                f()
            });
            match inside.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// Two namespaces joined by a virtual Ethernet: `left` in the first, `right` in the second.
pub(crate) fn veth(mtu: u32) -> (Namespace, Namespace) {
    let (a, b) = (Namespace::new(), Namespace::new());
    let mtu = mtu.to_string();
    ip(&[
        "-n", &a.name, "link", "add", "left", "mtu", &mtu, "type", "veth", "peer", "name", "right",
        "mtu", &mtu, "netns", &b.name,
    ]);
    ip(&["-n", &a.name, "link", "set", "left", "up"]);
    ip(&["-n", &b.name, "link", "set", "right", "up"]);
    // The carrier comes some time after; until then the kernel throws frames away.
    for (namespace, name) in [(&a, "left"), (&b, "right")] {
        let interface = namespace.run(|| Interface::open(name).unwrap());
        wait("the carrier", || {
            interface.is_running().unwrap().then_some(())
        });
    }
    (a, b)
}

/// Runs the `ip` command.
pub(crate) fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args:?}: {error}");
}

/// Longest wait for anything here; reached only when something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Calls `f` until it gives something.
pub(crate) fn wait<T>(what: &str, mut f: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = f() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// The bytes of a frame and what its slot said.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<u8>,
    pub(crate) gso_size: u16,
    pub(crate) valid: bool,
    pub(crate) ranges: usize,
}

/// The next frame, released again.
pub(crate) fn receive<D: Driver>(endpoint: &mut Endpoint<D>) -> Option<Seen> {
    let mut frame = Frame::new();
    let mut budget = 4;
    if !endpoint.receive(&mut frame, &mut budget) {
        return None;
    }
    let mut bytes = vec![0; frame.len()];
    assert_eq!(endpoint.peek(&frame, &mut bytes), bytes.len());
    let seen = Seen {
        bytes,
        gso_size: frame.gso_size(),
        valid: frame.checksum() == gannet_link::RxChecksum::Valid,
        ranges: frame.ranges().len(),
    };
    // The same bytes once more, the way the stack takes them: headers off, payload in ranges.
    let strip = 14.min(frame.len());
    assert!(frame.strip(strip));
    let mut rest = vec![0; frame.len()];
    assert_eq!(endpoint.peek(&frame, &mut rest), rest.len());
    assert_eq!(rest, seen.bytes[strip..]);
    endpoint.release_frame(&frame);
    Some(seen)
}

/// Waits for the next frame with this EtherType.
pub(crate) fn expect<D: Driver>(endpoint: &mut Endpoint<D>, ether_type: u16) -> Seen {
    wait("a frame", || {
        receive(endpoint).filter(|seen| seen.bytes.get(12..14) == Some(&ether_type.to_be_bytes()))
    })
}

/// What to send beside the bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extra {
    pub(crate) flags: u16,
    pub(crate) gso_size: u16,
    pub(crate) checksum_place: (u16, u16),
}

/// Sends `head` inline and `payload` in ranges; false when there is no room.
pub(crate) fn send<D: Driver>(
    endpoint: &mut Endpoint<D>,
    head: &[u8],
    payload: &[u8],
    extra: Extra,
) -> bool {
    let mut slot = Slot::new();
    slot.inline_mut(head.len()).unwrap().copy_from_slice(head);
    slot.set_flags(extra.flags);
    slot.set_gso_size(extra.gso_size);
    slot.set_checksum_place(extra.checksum_place.0, extra.checksum_place.1);
    let mut arena = Arena::new();
    let mut ranges = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let range = endpoint.pool.append(&mut arena, rest).unwrap();
        rest = &rest[range.len as usize..];
        assert!(slot.push_range(range));
        ranges.push(range);
    }
    let sent = endpoint.transmit(&slot).is_ok();
    for range in ranges {
        endpoint.release(range);
    }
    endpoint.pool.close(&mut arena);
    endpoint.flush();
    endpoint.reclaim();
    sent
}

/// `len` bytes that are different at every position and for every seed.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = gannet_base::Rng::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// An Ethernet header.
pub(crate) fn ethernet(dst: [u8; 6], src: [u8; 6], ether_type: u16) -> Vec<u8> {
    [&dst[..], &src[..], &ether_type.to_be_bytes()[..]].concat()
}

/// An IPv4 header without options, with its checksum, for `payload` bytes of `protocol`.
pub(crate) fn ipv4(src: [u8; 4], dst: [u8; 4], protocol: u8, payload: usize) -> Vec<u8> {
    let total = (20 + payload) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header.extend_from_slice(&src);
    header.extend_from_slice(&dst);
    let sum = internet_checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The Internet checksum as RFC 1071 says it, slow and plain: the field's value for `bytes`.
pub(crate) fn internet_checksum(bytes: &[u8]) -> u16 {
    !fold(bytes)
}

/// The sum without the final inversion: what a partial checksum field holds.
pub(crate) fn fold(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let sum: u64 = words
        .map(|w| u64::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)])))
        .sum();
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The pseudo-header of RFC 9293 section 3.1.
pub(crate) fn pseudo(src: [u8; 4], dst: [u8; 4], protocol: u8, len: usize) -> Vec<u8> {
    let len = (len as u16).to_be_bytes();
    [&src[..], &dst[..], &[0, protocol], &len[..]].concat()
}

/// The checksum flags of a frame whose transport checksum the device completes.
pub(crate) fn partial(start: u16, offset: u16, gso_size: u16) -> Extra {
    Extra {
        flags: flags::CSUM_PARTIAL,
        gso_size,
        checksum_place: (start, offset),
    }
}
