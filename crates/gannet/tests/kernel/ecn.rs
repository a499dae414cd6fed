//! Explicit congestion notification with the kernel (RFC 3168): between the two a wire of the
//! test's own sets marks as a router with a long queue does, and notes what it carries.

use crate::faults::{Wire, lan, put, take};
use crate::lan::{Lan, Over, PATIENCE, not_root};
use crate::stream::{drain_some, pour};
use gannet::{CongestionControl, EcnMode, TcpConfig, TcpStream as Ours};
use std::io::{Read, Write};
use std::net::TcpStream as Theirs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::Duration;

const SYN: u8 = 0x02;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;
const ECT_0: u8 = 0b10;
const CE: u8 = 0b11;
/// Bytes of each stream: 1449 segments.
const LEN: u64 = 2 << 20;
/// Most bytes outstanding, 91 segments: no queue on the way overflows.
const WINDOW: u32 = 128 << 10;
/// Which ECN-capable segments of each direction are marked, from 0. They are more than a window
/// apart, and more than one from the end: each is answered by itself.
const MARKS: [usize; 3] = [150, 500, 900];

/// A TCP segment that the wire carried.
#[derive(Clone, Copy, Debug)]
struct Segment {
    to_kernel: bool,
    flags: u8,
    /// Bytes of payload.
    len: usize,
    /// The ECN field as it came.
    ecn: u8,
    /// The wire made it CE.
    marked: bool,
}

impl Segment {
    /// `None` for what is no TCP over IPv4.
    fn read(to_kernel: bool, frame: &[u8]) -> Option<Segment> {
        if frame.len() < 54 || frame[12..14] != [8, 0] || frame[14] != 0x45 || frame[23] != 6 {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        Some(Segment {
            to_kernel,
            flags: frame[47],
            len: total - 20 - usize::from(frame[46] >> 4) * 4,
            ecn: frame[15] & 0b11,
            marked: false,
        })
    }

    /// Has the flag, not as part of the handshake.
    fn tells(&self, flag: u8) -> bool {
        self.flags & (SYN | flag) == flag
    }
}

/// Sets the mark in a frame of IPv4, whose header has no options.
fn mark(frame: &mut [u8]) {
    frame[15] |= CE;
    frame[24..26].fill(0);
    let words = frame[14..34].chunks_exact(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Carries frames both ways until `over`; notes the segments, in the order in which they passed.
fn carry(wire: &mut Wire, over: &AtomicBool) -> Vec<Segment> {
    let (mut log, mut capable) = (Vec::new(), [0; 2]);
    while !over.load(Ordering::Relaxed) {
        let mut idle = true;
        for to_kernel in [true, false] {
            let (from, to) = match to_kernel {
                true => (&mut wire.near, &mut wire.far),
                false => (&mut wire.far, &mut wire.near),
            };
            let Some(mut frame) = take(from) else {
                continue;
            };
            idle = false;
            if let Some(mut segment) = Segment::read(to_kernel, &frame) {
                if segment.ecn == ECT_0 {
                    let number = &mut capable[usize::from(to_kernel)];
                    segment.marked = MARKS.contains(number);
                    *number += 1;
                }
                if segment.marked {
                    mark(&mut frame);
                }
                log.push(segment);
            }
            put(to, &frame);
        }
        if idle {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    log
}

/// What the wire saw of the stream in one direction.
fn judge(log: &[Segment], to_kernel: bool) {
    let there = |s: &&Segment| s.to_kernel == to_kernel;
    let back = |s: &&Segment| s.to_kernel != to_kernel;
    let data = log.iter().filter(there).filter(|s| s.len > 0);
    assert!(data.clone().any(|s| s.ecn == ECT_0), "data is ECN-capable");
    let misplaced = data.clone().find(|s| s.tells(CWR) && s.ecn != ECT_0);
    assert!(misplaced.is_none(), "CWR in what is not new: {misplaced:?}");
    let mut marks = 0;
    let mut from = 0;
    while let Some(at) = log[from..].iter().position(|s| there(&s) && s.marked) {
        // nothing is told of marks that nobody set
        if marks == 0 {
            let early = log[..at].iter().filter(back).find(|s| s.tells(ECE));
            assert!(early.is_none(), "{early:?} before the first mark");
        }
        marks += 1;
        let rest = &log[from + at + 1..];
        let echo = rest.iter().position(|s| back(&s) && s.tells(ECE));
        let echo = echo.unwrap_or_else(|| panic!("mark {marks} was not echoed"));
        let reduced = rest[echo..].iter().position(|s| there(&s) && s.tells(CWR));
        let reduced = reduced.unwrap_or_else(|| panic!("echo {marks} was not answered"));
        // the receiver tells it until it hears the answer, and then no more
        let next = &rest[echo + reduced..];
        let end = next.iter().position(|s| there(&s) && s.marked);
        let quiet = next[..end.unwrap_or(next.len())].iter().rfind(back);
        assert!(!quiet.unwrap().tells(ECE), "echo {marks} did not end");
        from += at + 1;
    }
    assert_eq!(marks, MARKS.len());
    let answers = data.filter(|s| s.tells(CWR)).count();
    // the kernel may have reduced for reasons of its own, too: a timer on a busy machine
    assert!(
        answers == marks || !to_kernel,
        "{answers} answers to {marks} marks"
    );
    let bare = log.iter().filter(|s| s.len == 0);
    assert!(
        !bare.clone().any(|s| s.ecn != 0),
        "an acknowledgement is not ECN-capable"
    );
}

/// The kernel's view of its established connection.
fn kernel_info(lan: &Lan) -> String {
    let shown = lan
        .kernel
        .run(|| Command::new("ss").args(["-tinoH"]).output().unwrap());
    String::from_utf8(shown.stdout).unwrap()
}

/// A number in what `ss` shows; 0 when it says nothing of it.
fn number(info: &str, name: &str) -> u64 {
    let found = info.split_whitespace().find_map(|w| w.strip_prefix(name));
    found.map_or(0, |value| value.parse().unwrap())
}

fn stream(mut from: impl Write + Send, mut to: impl Read + Send) {
    scope(|threads| {
        let received = threads.spawn(move || drain_some(&mut to, LEN, 8));
        let sent = pour(&mut from, LEN, 8);
        assert_eq!(received.join().unwrap(), sent);
    });
}

/// Both streams over a connection, with what both ends say of it.
fn converse(lan: &Lan, ours: &Ours, theirs: &Theirs) {
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let (info, kernel) = (ours.info().unwrap(), kernel_info(lan));
    assert!(info.ecn, "{info:?}");
    assert!(kernel.split_whitespace().any(|w| w == "ecn"), "{kernel}");
    assert_eq!(info.slow_start_threshold, u32::MAX);
    stream(ours.try_clone().unwrap(), theirs);
    let info = ours.info().unwrap();
    assert_eq!((info.timeouts, info.fast_recoveries), (0, 0), "{info:?}");
    assert!(info.slow_start_threshold < WINDOW, "{info:?}");

    let kernel = kernel_info(lan);
    let before = (
        number(&kernel, "delivered_ce:"),
        number(&kernel, "ssthresh:"),
    );
    assert_eq!(before, (0, 0), "{kernel}");
    stream(theirs, ours.try_clone().unwrap());
    let kernel = kernel_info(lan);
    let marked = number(&kernel, "delivered_ce:");
    assert!(marked >= MARKS.len() as u64, "{kernel}");
    assert!(number(&kernel, "ssthresh:") > 0, "{kernel}");
}

fn with_marks(kernel_opens: bool) {
    if not_root() {
        return;
    }
    let (lan, mut wire) = lan(1500, |builder| {
        builder.tcp(TcpConfig {
            ecn: match kernel_opens {
                true => EcnMode::Passive,
                false => EcnMode::Active,
            },
            // only losses and marks end its slow start
            congestion: CongestionControl::NewReno,
            send_buffer: WINDOW,
            send_buffer_max: WINDOW,
            receive_buffer: WINDOW,
            receive_buffer_max: WINDOW,
            // a machine that is busy elsewhere loses nothing
            min_rto: Duration::from_secs(5),
            ..TcpConfig::default()
        })
    });
    assert!(lan.kernel.set("ipv4/tcp_ecn", "1"));
    assert!(lan.kernel.set("ipv4/tcp_congestion_control", "reno"));
    let over = AtomicBool::new(false);
    let log = scope(|threads| {
        let carrier = threads.spawn(|| carry(&mut wire, &over));
        let end = Over(&over);
        let (ours, theirs) = match kernel_opens {
            true => {
                let listener = lan.gannet_listener(80);
                let theirs = lan.kernel_connect(80).unwrap();
                (listener.accept().unwrap().0, theirs)
            }
            false => lan.pair(),
        };
        converse(&lan, &ours, &theirs);
        drop(end);
        carrier.join().unwrap()
    });
    let mut handshake = log.iter().filter(|s| s.flags & SYN != 0);
    let [asks, agrees] = [(); 2].map(|()| handshake.next().unwrap());
    assert_eq!(asks.to_kernel, !kernel_opens);
    assert_eq!(asks.flags & (ECE | CWR), ECE | CWR, "the SYN asks");
    assert_eq!(agrees.to_kernel, kernel_opens);
    assert_eq!(agrees.flags & (ECE | CWR), ECE, "the SYN-ACK agrees");
    judge(&log, true);
    judge(&log, false);
}

//= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.4
//= type=test
//# For the current generation of TCP congestion control algorithms, pure acknowledgement
//# packets (e.g., packets that do not contain any accompanying data) MUST be sent with the
//# not-ECT codepoint.
#[test]
fn marks_are_echoed_and_answered_both_ways_when_gannet_opens() {
    with_marks(false);
}

#[test]
fn marks_are_echoed_and_answered_both_ways_when_the_kernel_opens() {
    with_marks(true);
}
