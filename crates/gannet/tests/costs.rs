//! What idle connections, idle processes and finished hosts cost.

mod processes;

use gannet::{Host, TcpListener, TcpStream};
use processes::{Other, listen, network, role as my_role, say};
use rustix::time::{ClockId, clock_gettime};
use std::io::{Read, Write};
use std::time::Duration;

const IDLE_CONNECTIONS: usize = 10_000;

fn host(network: &str, address: &str) -> Host {
    let host = Host::builder().channel(network, address);
    host.build().unwrap()
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Resident memory of this process in KiB, pages shared with others included.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

fn entries(directory: &str) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// The entry of the other processes: see `processes`. In the first one it has nothing to do.
#[test]
fn role() {
    let Some((role, network)) = my_role() else {
        return;
    };
    match role.as_str() {
        "idle_server" => idle_server(&network),
        "idle_client" => idle_client(&network),
        "holding_server" => holding_server(&network),
        "holding_client" => holding_client(&network),
        "comes_and_goes" => comes_and_goes(&network),
        other => panic!("no role {other:?}"),
    }
}

/// Says how much CPU time three seconds of doing nothing took, in microseconds.
fn say_idle_cost() {
    // The grace period in which the background thread still expects calls.
    std::thread::sleep(Duration::from_millis(100));
    let before = cpu();
    std::thread::sleep(Duration::from_secs(3));
    say((cpu() - before).as_micros());
}

fn idle_server(network: &str) {
    let host = host(network, "10.0.0.1/24");
    let listener = TcpListener::bind(&host, "10.0.0.1:80").unwrap();
    say("ready");
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0]).unwrap();
    // A thread that waits for bytes that do not come.
    let waiting = stream.try_clone().unwrap();
    std::thread::spawn(move || (&waiting).read(&mut [0]));
    say_idle_cost();
    listen();
    std::process::exit(0);
}

fn idle_client(network: &str) {
    let host = host(network, "10.0.0.2/24");
    let mut stream = TcpStream::connect(&host, "10.0.0.1:80").unwrap();
    stream.write_all(b"x").unwrap();
    say("ready");
    say_idle_cost();
    listen();
}

#[test]
fn two_connected_idle_processes_use_no_cpu() {
    let network = network("idle");
    let mut server = Other::start("idle_server", &network);
    let mut client = Other::start("idle_client", &network);
    for (who, other) in [("server", &mut server), ("client", &mut client)] {
        let micros: u64 = other.hear().parse().unwrap();
        println!("{who}: {micros} us in 3 s");
        // The mark is 0.1 % of a core, 3,000 us; other processes' noise is left room for.
        assert!(micros < 30_000, "{who} used {micros} us in 3 s of idleness");
    }
    client.end();
    server.end();
}

fn holding_server(network: &str) {
    let host = host(network, "10.0.0.1/24");
    let listener = TcpListener::bind(&host, "10.0.0.1:80").unwrap();
    say("ready");
    let before = resident_kib();
    let held: Vec<_> = (0..IDLE_CONNECTIONS)
        .map(|_| listener.accept().unwrap())
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    say(resident_kib() - before);
    listen();
    drop(held);
}

fn holding_client(network: &str) {
    let host = host(network, "10.0.0.2/24");
    say("ready");
    let before = resident_kib();
    let held: Vec<_> = (0..IDLE_CONNECTIONS)
        .map(|_| TcpStream::connect(&host, "10.0.0.1:80").unwrap())
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    say(resident_kib() - before);
    listen();
    drop(held);
}

#[test]
fn ten_thousand_idle_connections_fit_in_64_mib() {
    let network = network("memory");
    let mut server = Other::start("holding_server", &network);
    let mut client = Other::start("holding_client", &network);
    for (who, other) in [("client", &mut client), ("server", &mut server)] {
        let kib: usize = other.hear().parse().unwrap();
        println!("{who}: {kib} KiB for {IDLE_CONNECTIONS} connections");
        assert!(kib < 64 << 10, "{who}: {kib} KiB");
    }
    client.end();
    server.end();
}

/// Makes and drops hosts, and looks for what they leave behind.
fn comes_and_goes(network: &str) {
    say("ready");
    let mut left = Vec::new();
    for _ in 0..5 {
        {
            let (a, b) = (host(network, "10.0.0.1/24"), host(network, "10.0.0.2/24"));
            let listener = TcpListener::bind(&a, "10.0.0.1:80").unwrap();
            let mut near = TcpStream::connect(&b, "10.0.0.1:80").unwrap();
            let (mut far, _) = listener.accept().unwrap();
            near.write_all(b"hello").unwrap();
            far.read_exact(&mut [0; 5]).unwrap();
        }
        left.push((entries("/proc/self/task"), entries("/proc/self/fd")));
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let segments = maps.lines().filter(|l| l.contains("memfd:")).count();
    assert!(left.iter().all(|l| *l == left[0]), "{left:?}");
    assert_eq!(segments, 0, "{maps}");
    say("clean");
}

#[test]
fn nothing_is_left_of_a_host_that_was_dropped() {
    let network = network("leftovers");
    let mut other = Other::start("comes_and_goes", &network);
    assert_eq!(other.hear(), "clean");
    other.end();
}
