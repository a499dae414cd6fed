//! Two hosts in virtual time over links that lose, duplicate, reorder, corrupt: every byte arrives,
//! in bounded time, and no rule is broken on the way. A failure prints its seed.

use core::time::Duration;
use std::format;
use std::string::String;

use gannet_base::Instant;
use gannet_link::{Checksum, Medium};

use super::recorder::Loss;
use super::transfer::Transfer;
use crate::testing::{Faults, WireConfig};

const START: Instant = Instant::from_millis(1000);

fn wire(delay_ms: u64, faults: Faults) -> WireConfig {
    WireConfig {
        medium: Medium::Ip,
        checksum: Checksum::Software,
        delay: Duration::from_millis(delay_ms),
        faults,
        ..WireConfig::default()
    }
}

fn lossy(loss: u32) -> Faults {
    Faults {
        loss,
        ..Faults::default()
    }
}

#[test]
fn faults_of_every_kind() {
    let reorder = |chance, ms| Faults {
        reorder: chance,
        reorder_by: Duration::from_millis(ms),
        ..Faults::default()
    };
    let duplicates = Faults {
        duplication: 500_000,
        ..Faults::default()
    };
    let corrupt = Faults {
        corruption: 10_000,
        ..Faults::default()
    };
    let all = Faults {
        loss: 50_000,
        duplication: 100_000,
        reorder: 200_000,
        reorder_by: Duration::from_millis(30),
        corruption: 10_000,
        ..Faults::default()
    };
    let kinds = [
        lossy(10_000),
        lossy(50_000),
        lossy(150_000),
        lossy(300_000),
        reorder(300_000, 5),
        reorder(300_000, 200),
        duplicates,
        corrupt,
        all,
    ];
    for (kind, faults) in kinds.into_iter().enumerate() {
        for n in 0..30 {
            let seed = kind as u64 * 100 + n;
            let mut wire = wire([0, 1, 10][n as usize % 3], faults);
            // with three frames in ten lost a neighbour may rightly be given up
            let ethernet = n % 2 == 1 && faults.loss < 100_000;
            wire.medium = if ethernet {
                Medium::Ethernet
            } else {
                Medium::Ip
            };
            let lens = ([150_000, 0, 1][n as usize % 3], 40_000);
            let mut t = Transfer::new(seed, &wire, lens, START);
            t.run();
            t.finish();
        }
    }
}

#[test]
fn lost_acknowledgements_and_bursts() {
    for seed in 0..10 {
        let mut t = Transfer::new(seed, &wire(5, Faults::default()), (200_000, 20_000), START);
        t.lose(Loss::None, Loss::Acks(300_000 + 30_000 * seed as u32));
        t.run();
        t.finish();
        let bursts = || Loss::Bursts {
            begin: 20_000,
            end: 250_000,
        };
        let mut t = Transfer::new(seed, &wire(5, Faults::default()), (200_000, 20_000), START);
        t.lose(bursts(), bursts());
        t.run();
        t.finish();
    }
}

/// Sequence numbers and time stamps that pass zero on the way, of either side.
#[test]
fn numbers_around_zero() {
    for (side, seed) in [(0, 1), (1, 2), (0, 3), (1, 4)] {
        let wire = wire(1, lossy(30_000));
        let mut probe = Transfer::new(seed, &wire, (1, 1), START);
        probe.run();
        let iss = probe.iss(side);
        // the clock of ISNs steps every 4 us
        let ahead = 0u32.wrapping_sub(iss).wrapping_sub(100_000);
        let start = START + Duration::from_micros(4) * ahead;
        let mut t = Transfer::new(seed, &wire, (300_000, 300_000), start);
        t.run();
        let before = t.iss(side);
        assert!(
            before > u32::MAX - 300_000,
            "begins just below zero: {before}"
        );
        t.finish();
    }
}

/// Without loss nothing is sent twice, whatever the delay.
#[test]
fn nothing_is_sent_again_without_loss() {
    for delay in [0, 1, 20, 90, 300] {
        let mut t = Transfer::new(
            delay,
            &wire(delay, Faults::default()),
            (500_000, 100_000),
            START,
        );
        t.run();
        let a = t.pair.a.tcp_info(t.client).expect("open");
        let b = t.pair.b.tcp_info(t.server.expect("open")).expect("open");
        assert_eq!((a.retransmissions, b.retransmissions), (0, 0), "{delay} ms");
        t.finish();
    }
}

/// Kilobytes per second by loss (per cent, down) and round-trip time (ms, across), 400 kB one way.
/// Virtual time: the numbers are exact, and a change in behaviour shows here.
#[test]
fn throughput_by_loss_and_round_trip() {
    let mut table = String::from("\n");
    for loss in [0, 1, 3, 10] {
        table += &format!("{loss:3}:");
        for rtt in [2, 20, 100] {
            let mut total = 0;
            for seed in 0..5 {
                let wire = wire(rtt / 2, lossy(loss * 10_000));
                let mut t = Transfer::new(seed, &wire, (400_000, 0), START);
                total += t.run().as_millis() as u64;
            }
            table += &format!(" {:6}", 5 * 400_000 / total.max(1));
        }
        table += "\n";
    }
    let expected = include_str!("throughput.txt");
    assert_eq!(table, expected, "\n{table}");
}

/// A long fat path of 100 ms and 1 Gbit/s: windows grow until they carry more than 80 % of that.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
//= type=test
//# The window size MUST be treated as an unsigned number, or else large window sizes will appear
//# like negative windows and TCP will not work (MUST-1).
#[test]
fn windows_grow_with_the_path() {
    let mut wire = wire(50, Faults::default());
    wire.checksum = Checksum::Partial;
    wire.whole = true;
    wire.mtu = 9000;
    wire.blocks = (16 * 1024, 8192);
    let mut t = Transfer::with(1, &wire, (600_000_000, 0), START, |config| {
        config.tcp.send_buffer = 40 << 20;
    });
    t.rate(8);
    t.run_until_read(400_000_000);
    let took = t.run_until_read(500_000_000);
    let client = t.pair.a.tcp_info(t.client).expect("open");
    let server = t.pair.b.tcp_info(t.server.expect("open")).expect("open");
    let mbit = 800_000 / took.as_millis();
    assert!(mbit >= 800, "{mbit} Mbit/s {client:#?} {server:#?}");
    assert!(server.receive_buffer >= 12_500_000, "{server:#?}");
}
