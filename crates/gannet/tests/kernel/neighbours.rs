//! ARP against the kernel's, and links that fail.

use crate::lan::{GANNET, Join, KERNEL, Lan, Namespace, Over, PATIENCE, not_root, wait};
use crate::stream::{drain, pour};
use gannet::{TcpStream as Ours, UdpSocket};
use rustix::time::{ClockId, clock_gettime};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream as Theirs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Transfers that are disturbed: long enough to be hit often, and paced by their reader.
const BYTES: u64 = 24 << 20;

/// A reader that takes its time, so that the transfer is still on when something happens to it.
struct Slow<R>(R);

impl<R: Read> Read for Slow<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        sleep(Duration::from_micros(2500));
        self.0.read(out)
    }
}

/// Both directions at once, while `disturb` is called again and again.
fn transfer_during(ours: &Ours, theirs: &Theirs, mut disturb: impl FnMut() + Send) {
    let over = AtomicBool::new(false);
    scope(|threads| {
        let troublemaker = threads.spawn(|| {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) {
                disturb();
                times += 1;
            }
            times
        });
        let end = Over(&over);
        let out = threads.spawn(|| {
            let sent = pour(&mut ours.try_clone().unwrap(), BYTES, 1);
            ours.shutdown(Shutdown::Write).unwrap();
            sent
        });
        let back = threads.spawn(|| {
            let sent = pour(&mut theirs.try_clone().unwrap(), BYTES, 2);
            theirs.shutdown(Shutdown::Write).unwrap();
            sent
        });
        let there = threads.spawn(|| drain(&mut Slow(theirs), 1));
        let here = drain(&mut Slow(ours.try_clone().unwrap()), 2);
        assert_eq!(here, back.join().unwrap());
        assert_eq!(there.join().unwrap(), out.join().unwrap());
        drop(end);
        println!("disturbed {} times", troublemaker.join().unwrap());
    });
}

/// The kernel forgets us, again and again, and asks anew.
#[test]
fn a_flushed_neighbour_table() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        let (ours, theirs) = lan.pair();
        transfer_during(&ours, &theirs, || {
            lan.kernel.ip("neigh flush all");
            sleep(Duration::from_millis(20));
        });
    }
}

/// RFC 1122 section 2.3.2.1: a neighbour whose hardware address changes is found again.
#[test]
fn the_kernel_changes_its_hardware_address() {
    if not_root() {
        return;
    }
    let lan = Lan::new(Join::Veth, 1500);
    let (ours, theirs) = lan.pair();
    let mut number = 0;
    transfer_during(&ours, &theirs, || {
        sleep(Duration::from_millis(150));
        if number < 3 {
            number += 1;
            lan.kernel
                .ip(&format!("link set far address 02:00:00:00:00:0{number}"));
        }
    });
    assert_eq!(number, 3);
}

/// One direction only: the side that has to find out is the one that sends.
#[test]
fn the_kernel_moves_while_we_send() {
    if not_root() {
        return;
    }
    let lan = Lan::new(Join::Veth, 1500);
    let (mut ours, mut theirs) = lan.pair();
    ours.write_all(b"before").unwrap();
    theirs.read_exact(&mut [0; 6]).unwrap();
    lan.kernel.ip("link set far address 02:00:00:00:00:77");
    ours.write_all(b"after").unwrap();
    let mut text = [0; 5];
    theirs.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"after");
}

/// Takes `interface` down and up again a few times during a transfer.
fn down_and_up(lan: &Lan, place: &Namespace, interface: &str) {
    let (ours, theirs) = lan.pair();
    let mut times = 0;
    transfer_during(&ours, &theirs, || {
        sleep(Duration::from_millis(100));
        if times < 2 {
            times += 1;
            place.ip(&format!("link set {interface} down"));
            sleep(Duration::from_millis(100));
            place.ip(&format!("link set {interface} up"));
            place.wait_for_carrier(interface);
        }
    });
    assert_eq!(times, 2);
}

#[test]
fn an_interface_goes_down_and_up() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        down_and_up(&lan, &lan.kernel, "far");
        if let Some(near) = &lan.near {
            down_and_up(&lan, near, "near");
        }
    }
}

/// Calls that wait fail soon, and so do later ones.
#[test]
fn an_interface_is_removed() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        let (ours, theirs) = lan.pair();
        let (full, _unread) = lan.pair();
        let listener = lan.gannet_listener(7);
        let datagrams = UdpSocket::bind(&lan.host, (GANNET, 0)).unwrap();
        datagrams.set_read_timeout(Some(PATIENCE)).unwrap();
        datagrams.connect((KERNEL, 9)).unwrap();
        let start = Instant::now();
        scope(|threads| {
            let reader = threads.spawn(|| (&ours).read(&mut [0]).unwrap_err());
            let writer = threads.spawn(|| {
                loop {
                    if let Err(error) = (&full).write(&[7; 65_536]) {
                        return error;
                    }
                }
            });
            sleep(Duration::from_millis(100));
            lan.kernel.ip("link del far");
            for (what, error) in [("read", reader.join()), ("write", writer.join())] {
                let error = error.unwrap();
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{what}: {error}");
                assert!(error.to_string().contains("gone"), "{what}: {error}");
            }
        });
        // The time to notice: a look at the interface, not a retransmission time-out.
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert_eq!((&ours).read(&mut [0; 9]).unwrap(), 0);
        let error = Ours::connect(&lan.host, (KERNEL, 9)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
        let mut told = None;
        wait("an error", || {
            told = datagrams.send(b"x").err();
            told.is_some()
        });
        let error = told.unwrap();
        let kinds = [ErrorKind::NetworkUnreachable, ErrorKind::ConnectionRefused];
        assert!(kinds.contains(&error.kind()), "{error}");
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(theirs);
    }
}

/// A link that is kept for its unread bytes has nothing more to tell, and keeps nobody awake.
#[test]
fn a_removed_interface_with_unread_bytes() {
    if not_root() {
        return;
    }
    for join in Join::ALL {
        let lan = Lan::new(join, 1500);
        let (ours, mut theirs) = lan.pair();
        theirs.write_all(b"unread").unwrap();
        wait("the bytes", || ours.peek(&mut [0; 9]).unwrap() == 6);
        let datagrams = UdpSocket::bind(&lan.host, (GANNET, 0)).unwrap();
        let whole = Duration::from_millis(1500);
        datagrams.set_read_timeout(Some(whole)).unwrap();
        let used = scope(|threads| {
            let sleeper = threads.spawn(|| {
                let (start, before) = (Instant::now(), cpu_of_this_thread());
                while start.elapsed() < whole {
                    datagrams.recv_from(&mut [0; 9]).unwrap_err();
                }
                cpu_of_this_thread() - before
            });
            sleep(Duration::from_millis(100));
            lan.kernel.ip("link del far");
            sleeper.join().unwrap()
        });
        assert!(used < whole / 2, "{join:?}: {used:?} of processor time");
        let mut bytes = [0; 9];
        assert_eq!((&ours).read(&mut bytes).unwrap(), 6);
    }
}

fn cpu_of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// RFC 826 both ways: who speaks first asks first.
#[test]
fn each_side_resolves_the_other() {
    if not_root() {
        return;
    }
    let lan = Lan::new(Join::Veth, 1500);
    let listener = lan.gannet_listener(7);
    let theirs = lan.kernel_connect(7).unwrap(); // the kernel asks
    let (ours, _) = listener.accept().unwrap();
    drop((ours, theirs));
    let lan = Lan::new(Join::Veth, 1500);
    drop(lan.pair()); // we ask
    // Asked by the kernel for another's address, we are silent.
    let nobody = "10.90.0.3:7".parse().unwrap();
    let error = lan
        .kernel
        .run(|| Theirs::connect_timeout(&nobody, PATIENCE).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::HostUnreachable);
}
