//! Long transfers between Gannet and the kernel.

use crate::lan::{Join, Lan, not_root};
use crate::stream::{LONG, drain, pour};
use gannet::TcpStream as Ours;
use std::io::Read;
use std::net::{Shutdown, TcpStream as Theirs};
use std::thread::scope;
use std::time::Instant;

const MTUS: [u32; 4] = [576, 1500, 9000, 65_535];

/// What the report says of one transfer.
fn report(what: &str, join: Join, mtu: u32, len: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let mebibytes = len >> 20;
    let rate = len as f64 / seconds / 1e9;
    println!("{what} {join:?} mtu {mtu}: {mebibytes} MiB in {seconds:.2} s, {rate:.2} GB/s");
}

/// Packets in and out so far.
fn packets(lan: &Lan) -> (u64, u64) {
    let tcp = lan.host.counts().passed.tcp;
    (tcp.packets_in, tcp.packets_out)
}

/// `len` bytes from Gannet to the kernel, then half-closed.
fn to_kernel((ours, theirs): (&mut Ours, &mut Theirs), len: u64, seed: u64) {
    scope(|threads| {
        let received = threads.spawn(|| drain(theirs, seed));
        let sent = pour(ours, len, seed);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(received.join().unwrap(), sent);
        assert_eq!(sent.len, len);
    });
}

/// `len` bytes from the kernel to Gannet, then half-closed.
fn from_kernel((ours, theirs): (&mut Ours, &mut Theirs), len: u64, seed: u64) {
    scope(|threads| {
        let sent = threads.spawn(|| {
            let sent = pour(theirs, len, seed);
            theirs.shutdown(Shutdown::Write).unwrap();
            sent
        });
        let received = drain(ours, seed);
        assert_eq!(received, sent.join().unwrap());
        assert_eq!(received.len, len);
    });
}

/// One direction, the half-close, then the other direction over the half-closed connection; both
/// ends see the end of the stream.
fn each_way(join: Join, mtu: u32) {
    let mtu = mtu.min(join.mtu_max());
    let lan = Lan::new(join, mtu);
    let (mut ours, mut theirs) = lan.pair();
    let start = Instant::now();
    to_kernel((&mut ours, &mut theirs), LONG, u64::from(mtu));
    report("to the kernel  ", join, mtu, LONG, start);
    let before = packets(&lan);
    let start = Instant::now();
    from_kernel((&mut ours, &mut theirs), LONG, u64::from(mtu) + 1);
    report("from the kernel", join, mtu, LONG, start);
    assert_eq!(ours.read(&mut [0; 9]).unwrap(), 0, "the end stays the end");
    assert_eq!(
        theirs.read(&mut [0; 9]).unwrap(),
        0,
        "the end stays the end"
    );
    let after = packets(&lan);
    let [(data_in, acks_out), (acks_in, data_out)] =
        [(after.0 - before.0, after.1 - before.1), before];
    println!(
        "    {data_out} out, {acks_in} acknowledgements; {data_in} in, {acks_out} acknowledged"
    );
    println!(
        "    {:?} retransmissions",
        ours.info().ok().map(|info| info.retransmissions)
    );
}

#[test]
fn each_way_over_a_virtual_ethernet() {
    if !not_root() {
        MTUS.into_iter().for_each(|mtu| each_way(Join::Veth, mtu));
    }
}

#[test]
fn each_way_over_tap() {
    if !not_root() {
        MTUS.into_iter().for_each(|mtu| each_way(Join::Tap, mtu));
    }
}

/// Both directions of one connection at once, on four threads.
#[test]
fn both_ways_at_once() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        let (ours, theirs) = lan.pair();
        let len = LONG / 4;
        let start = Instant::now();
        scope(|threads| {
            let out = threads.spawn(|| {
                let mut ours = ours.try_clone().unwrap();
                let sent = pour(&mut ours, len, 1);
                ours.shutdown(Shutdown::Write).unwrap();
                sent
            });
            let back = threads.spawn(|| {
                let mut theirs = theirs.try_clone().unwrap();
                let sent = pour(&mut theirs, len, 2);
                theirs.shutdown(Shutdown::Write).unwrap();
                sent
            });
            let there = threads.spawn(|| drain(&mut theirs.try_clone().unwrap(), 1));
            let here = drain(&mut ours.try_clone().unwrap(), 2);
            assert_eq!(here, back.join().unwrap());
            assert_eq!(there.join().unwrap(), out.join().unwrap());
        });
        report("both at once   ", join, 1500, 2 * len, start);
    }
}
