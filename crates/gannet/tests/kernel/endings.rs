//! How connections begin and end between Gannet and the kernel.

use crate::lan::{GANNET, Join, KERNEL, Lan, PATIENCE, not_root, wait};
use crate::stream::{drain, drain_some, pour};
use gannet::{TcpState, TcpStream as Ours};
use rustix::net::{SendFlags, send, sockopt};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream as Theirs};
use std::time::{Duration, Instant};

/// Runs `test` over both kinds of links, as root.
fn on_every_link(test: impl Fn(&Lan)) {
    if !not_root() {
        for join in Join::ALL {
            test(&Lan::new(join, 1500));
        }
    }
}

/// A connection that the kernel opened: Gannet's end, and the kernel's.
fn accepted(lan: &Lan, port: u16) -> (Ours, Theirs) {
    let listener = lan.gannet_listener(port);
    let theirs = lan.kernel_connect(port).unwrap();
    let (ours, from) = listener.accept().unwrap();
    assert_eq!(from, theirs.local_addr().unwrap());
    assert_eq!(ours.local_addr().unwrap(), theirs.peer_addr().unwrap());
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    (ours, theirs)
}

/// Waits until nothing is left of any connection but TIME-WAIT.
fn wait_until_over(ours: &Ours) {
    wait("the end of the connection", || match ours.info() {
        Ok(info) => matches!(info.state, TcpState::TimeWait | TcpState::Closed),
        Err(_) => true,
    });
}

#[test]
fn half_closed_by_us_then_by_the_kernel() {
    on_every_link(|lan| {
        let (mut ours, mut theirs) = lan.pair();
        let sent = pour(&mut ours, 300_000, 1);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(ours.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(drain(&mut theirs, 1), sent);
        // The other direction is open yet.
        let back = std::thread::scope(|threads| {
            let back = threads.spawn(|| drain(&mut ours, 2));
            let sent = pour(&mut theirs, 3_000_000, 2);
            drop(theirs);
            (back.join().unwrap(), sent)
        });
        assert_eq!(back.0, back.1);
        wait_until_over(&ours);
    });
}

#[test]
fn half_closed_by_the_kernel_then_by_us() {
    on_every_link(|lan| {
        let (mut ours, mut theirs) = accepted(lan, 7);
        theirs.write_all(b"request").unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, "request");
        ours.write_all(b"answer").unwrap();
        drop(ours);
        text.clear();
        theirs.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answer");
        wait("the connection to go", || lan.host.connections() == 0);
    });
}

/// RFC 9293 section 3.6, case 3: both close at once. Often one is sooner; the end is the same.
#[test]
fn closed_by_both_at_once() {
    on_every_link(|lan| {
        for _ in 0..20 {
            let (ours, theirs) = lan.pair();
            std::thread::scope(|threads| {
                threads.spawn(|| theirs.shutdown(Shutdown::Write).unwrap());
                ours.shutdown(Shutdown::Write).unwrap();
            });
            assert_eq!((&ours).read(&mut [0]).unwrap(), 0);
            assert_eq!((&theirs).read(&mut [0]).unwrap(), 0);
            wait_until_over(&ours);
        }
    });
}

#[test]
fn refused_in_both_directions() {
    on_every_link(|lan| {
        let start = Instant::now();
        let (listener, address) = lan.kernel_listener();
        drop(listener);
        let error = Ours::connect(&lan.host, address.as_str()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        assert!(error.to_string().contains(&address), "{error}");
        let error = lan.kernel_connect(4711).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(start.elapsed() < PATIENCE, "refused, not timed out");
    });
}

/// Closing with a linger time of 0 is a reset, in both directions.
#[test]
fn reset_in_both_directions() {
    on_every_link(|lan| {
        let (mut ours, theirs) = lan.pair();
        sockopt::set_socket_linger(&theirs, Some(Duration::ZERO)).unwrap();
        drop(theirs);
        let error = ours.read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        let error = ours.write(&[0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");

        drop(ours);
        let (ours, mut theirs) = lan.pair();
        ours.set_linger(Some(Duration::ZERO)).unwrap();
        drop(ours);
        let error = theirs.read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(lan.host.connections(), 0, "no TIME-WAIT after a reset");
    });
}

/// A writer that waits for room learns of the reset, too.
#[test]
fn reset_while_writing() {
    on_every_link(|lan| {
        let (mut ours, theirs) = lan.pair();
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                loop {
                    if let Err(error) = ours.write(&[7; 65_536]) {
                        return error;
                    }
                }
            });
            let mut some = [0; 4096];
            (&theirs).read_exact(&mut some).unwrap();
            sockopt::set_socket_linger(&theirs, Some(Duration::ZERO)).unwrap();
            drop(theirs);
            let error = writer.join().unwrap();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        });
    });
}

/// RFC 9293 section 3.6.1: an end that closes with unread data says with a reset that it is lost.
#[test]
fn closed_with_unread_data() {
    on_every_link(|lan| {
        let (mut ours, theirs) = lan.pair();
        ours.write_all(&[1; 10_000]).unwrap();
        wait("the data", || {
            theirs.peek(&mut [0; 10_000]).unwrap() == 10_000
        });
        drop(theirs);
        let error = ours.read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");

        let (ours, mut theirs) = lan.pair();
        theirs.write_all(&[1; 10_000]).unwrap();
        wait("the data", || ours.info().unwrap().unread == 10_000);
        drop(ours);
        let error = theirs.read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

/// RFC 6093: urgent data is read in line. The kernel sends it with `MSG_OOB`.
#[test]
fn urgent_data_is_in_line() {
    on_every_link(|lan| {
        let (mut ours, mut theirs) = lan.pair();
        theirs.write_all(b"before").unwrap();
        send(&theirs, b"!", SendFlags::OOB).unwrap();
        theirs.write_all(b"after").unwrap();
        send(&theirs, b"?", SendFlags::OOB).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before!after?");
    });
}

/// The kernel probes us, we probe the kernel, and both sides are found alive.
#[test]
fn keep_alive_probes_are_answered() {
    on_every_link(|lan| {
        let (mut ours, mut theirs) = lan.pair();
        sockopt::set_socket_keepalive(&theirs, true).unwrap();
        sockopt::set_tcp_keepidle(&theirs, Duration::from_secs(1)).unwrap();
        sockopt::set_tcp_keepintvl(&theirs, Duration::from_secs(1)).unwrap();
        sockopt::set_tcp_keepcnt(&theirs, 1).unwrap();
        ours.set_keepalive(Some(Duration::from_millis(600)))
            .unwrap();
        let before = ours.info().unwrap();
        // The kernel answers two probes a second at most (tcp_invalid_ratelimit).
        wait("probes in both directions", || {
            let now = ours.info().unwrap();
            now.segments_received >= before.segments_received + 4
        });
        theirs.write_all(b"still here").unwrap();
        let mut text = [0; 10];
        ours.read_exact(&mut text).unwrap();
        ours.write_all(&text).unwrap();
        theirs.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"still here");
        assert_eq!(ours.info().unwrap().retransmissions, 0);
    });
}

/// A peer that is silent for ever is given up after the probes.
#[test]
fn keep_alive_finds_a_dead_kernel() {
    if not_root() {
        return;
    }
    let lan = Lan::with(Join::Veth, 1500, |builder| {
        builder.tcp(gannet::TcpConfig {
            keep_alive_interval: Duration::from_millis(50),
            keep_alive_probes: 3,
            ..gannet::TcpConfig::default()
        })
    });
    let (mut ours, _theirs) = lan.pair();
    ours.set_keepalive(Some(Duration::from_millis(100)))
        .unwrap();
    lan.kernel.ip(&format!("addr del {KERNEL}/24 dev far"));
    let start = Instant::now();
    let error = ours.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    // The sleeper is told when it happens, not when its own patience ends.
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
}

/// A reader that stops closes the window; one that goes on opens it again. Both roles.
#[test]
fn a_closed_window_opens_again() {
    on_every_link(|lan| {
        let (mut ours, mut theirs) = lan.pair();
        for (seed, pause) in [(1, 300), (2, 900)] {
            std::thread::scope(|threads| {
                let sent = threads.spawn(|| pour(&mut ours, 20_000_000, seed));
                std::thread::sleep(Duration::from_millis(pause));
                let received = drain_some(&mut theirs, 20_000_000, seed);
                assert_eq!(received, sent.join().unwrap());
            });
            std::thread::scope(|threads| {
                let sent = threads.spawn(|| pour(&mut theirs, 40_000_000, seed));
                std::thread::sleep(Duration::from_millis(pause));
                let received = drain_some(&mut ours, 40_000_000, seed);
                assert_eq!(received, sent.join().unwrap());
            });
        }
    });
}

#[test]
fn nothing_leads_elsewhere() {
    on_every_link(|lan| {
        let error = Ours::connect(&lan.host, "192.0.2.1:80").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
        let nobody: SocketAddr = "10.90.0.77:80".parse().unwrap();
        let error = Ours::connect_timeout(&lan.host, &nobody, PATIENCE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
        // And the kernel finds nobody there, while it finds us.
        let other = lan.kernel.run(|| {
            let nobody = "10.90.0.78:80".parse().unwrap();
            Theirs::connect_timeout(&nobody, PATIENCE).unwrap_err()
        });
        assert_eq!(other.kind(), ErrorKind::HostUnreachable);
        assert!(lan.kernel.run(|| Theirs::connect((GANNET, 9)).is_err()));
    });
}

/// Dropping a stream that lingers waits for the last acknowledgement, or for the time to pass.
#[test]
fn closing_lingers() {
    on_every_link(|lan| {
        let (mut ours, mut theirs) = lan.pair();
        ours.set_linger(Some(PATIENCE)).unwrap();
        let sent = pour(&mut ours, 3_000_000, 3);
        let reader = std::thread::spawn(move || drain(&mut theirs, 3));
        drop(ours);
        // Everything was acknowledged: nothing of it waits to be sent any more.
        assert_eq!(lan.host.undelivered(), 0);
        assert_eq!(reader.join().unwrap(), sent);

        let (mut ours, theirs) = lan.pair();
        let time = Duration::from_millis(300);
        ours.set_linger(Some(time)).unwrap();
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[5; 65_536]).is_ok() {}
        let begin = Instant::now();
        drop(ours);
        assert!(begin.elapsed() >= time);
        drop(theirs);
    });
}
