//! The kernel as a lesser peer: without offloads, without options, with tiny buffers.

use crate::lan::{Join, KERNEL, Lan, not_root};
use crate::stream::{drain, drain_some, pour};
use gannet::TcpStream as Ours;
use rustix::net::sockopt;
use std::net::{Shutdown, TcpListener, TcpStream as Theirs};
use std::thread::scope;
use std::time::Duration;

/// Each way one after the other, then the end of the stream each way.
fn there_and_back(ours: &mut Ours, theirs: &mut Theirs, len: u64) {
    scope(|threads| {
        let sent = threads.spawn(|| {
            let sent = pour(ours, len, 3);
            ours.shutdown(Shutdown::Write).unwrap();
            sent
        });
        assert_eq!(drain(theirs, 3), sent.join().unwrap());
    });
    scope(|threads| {
        let sent = threads.spawn(|| {
            let sent = pour(theirs, len, 4);
            theirs.shutdown(Shutdown::Write).unwrap();
            sent
        });
        assert_eq!(drain(ours, 4), sent.join().unwrap());
    });
}

/// Every segment is a frame, every checksum is computed and checked in software.
#[test]
fn without_offloads() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        lan.kernel.switch_offloads_off("far");
        if let Some(near) = &lan.near {
            near.switch_offloads_off("near");
        }
        let (mut ours, mut theirs) = lan.pair();
        there_and_back(&mut ours, &mut theirs, 64 << 20);
        let passed = lan.host.counts().passed.tcp;
        let mean = passed.bytes_in / passed.packets_in.max(1);
        assert!(
            mean <= 1500,
            "frames of {mean} bytes came in: not switched off"
        );
        println!("{join:?} without offloads: {:?}", ours.info());
    }
}

/// Each option of the kernel's TCP off, alone and all together.
#[test]
fn without_options() {
    if not_root() {
        return;
    }
    const OPTIONS: [&str; 3] = [
        "ipv4/tcp_timestamps",
        "ipv4/tcp_sack",
        "ipv4/tcp_window_scaling",
    ];
    let lan = Lan::new(Join::Veth, 1500);
    for off in [1, 2, 4, 7] {
        for (bit, option) in OPTIONS.iter().enumerate() {
            let on = off & (1 << bit) == 0;
            assert!(
                lan.kernel.set(option, if on { "1" } else { "0" }),
                "{option}"
            );
        }
        let (mut ours, mut theirs) = lan.pair();
        let info = ours.info().unwrap();
        let found = (info.timestamps, info.sack, info.window_scale.is_some());
        assert_eq!(found, (off & 1 == 0, off & 2 == 0, off & 4 == 0));
        there_and_back(&mut ours, &mut theirs, 16 << 20);
        // The other role.
        let listener = lan.gannet_listener(7);
        let mut theirs = lan.kernel_connect(7).unwrap();
        let (mut ours, _) = listener.accept().unwrap();
        let info = ours.info().unwrap();
        let found = (info.timestamps, info.sack, info.window_scale.is_some());
        assert_eq!(found, (off & 1 == 0, off & 2 == 0, off & 4 == 0));
        there_and_back(&mut ours, &mut theirs, 16 << 20);
    }
}

/// A peer that offers a few kilobytes at a time, and nothing at all while it does not read.
#[test]
fn tiny_buffers() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        let listener = lan.kernel.run(|| {
            let listener = TcpListener::bind((KERNEL, 0)).unwrap();
            sockopt::set_socket_recv_buffer_size(&listener, 2048).unwrap();
            sockopt::set_socket_send_buffer_size(&listener, 4096).unwrap();
            listener
        });
        let mut ours = Ours::connect(&lan.host, listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        // A zero window for longer than a retransmission time-out: probes open it again.
        scope(|threads| {
            let sent = threads.spawn(|| pour(&mut ours, 200_000, 5));
            std::thread::sleep(Duration::from_millis(700));
            assert_eq!(drain_some(&mut theirs, 200_000, 5), sent.join().unwrap());
        });
        there_and_back(&mut ours, &mut theirs, 2 << 20);
    }
}

/// The same on our side.
#[test]
fn our_buffers_are_tiny() {
    if not_root() {
        return;
    }
    let lan = Lan::with(Join::Veth, 1500, |builder| {
        builder.tcp(gannet::TcpConfig {
            send_buffer: 4096,
            send_buffer_max: 4096,
            receive_buffer: 4096,
            receive_buffer_max: 4096,
            ..gannet::TcpConfig::default()
        })
    });
    let (mut ours, mut theirs) = lan.pair();
    scope(|threads| {
        let sent = threads.spawn(|| pour(&mut theirs, 200_000, 5));
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(drain_some(&mut ours, 200_000, 5), sent.join().unwrap());
    });
    there_and_back(&mut ours, &mut theirs, 2 << 20);
}
