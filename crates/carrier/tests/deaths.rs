//! What becomes of connections and memory when processes die: a process of the program is this test
//! file once more, told by its environment to be one.

mod carried;

use carried::{Program, carry, config, native, network, until};
use gannet::{TcpListener, TcpStream};
use gannet_carrier::Config;
use gannet_local::slot::Kind;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "GANNET_RUN_TEST_ROLE";

/// Starts a process that does what `role` says in [`be_a_process`].
fn process(role: &str, network: &str, config: &Config) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "be_a_process", "--nocapture"])
        .env(ROLE, format!("{role} {network} {:x}", config.host))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let ready = out.lines().any(|line| line.unwrap().contains("role-ready"));
    assert!(ready, "the process got as far as it should");
    child
}

/// The process. Without a role there is nothing to do, and nothing to find out.
#[test]
fn be_a_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let words: Vec<&str> = role.split(' ').collect();
    let [what, network, host] = words[..] else {
        panic!("a role of three words, not {role:?}");
    };
    let mut config = config(network, "auto");
    config.host = u64::from_str_radix(host, 16).unwrap();
    let program = Program::attach(&config);
    let local = "10.2.0.1:40000".parse().unwrap();
    let (listener, socket) = match what {
        "listens" => (Some(program.listen("10.2.0.1:80".parse().unwrap())), None),
        "connects" => {
            let to = "10.2.0.2:9".parse().unwrap();
            let socket = program.open(Kind::Stream, local, to).unwrap();
            socket.send(b"last words").unwrap();
            (None, Some(socket))
        }
        _ => (None, None),
    };
    println!("role-ready");
    if what == "makes" {
        make_children(&program);
    }
    let mut rest = String::new();
    std::io::stdin().read_line(&mut rest).unwrap();
    drop((listener, socket));
}

/// What a process does around its forks, again and again until it is killed; of every four children
/// one never is, as if the kill had come before the fork.
fn make_children(program: &Program) -> ! {
    let arena = program.arena();
    let slot = arena.allocate(program.holder, 0).unwrap();
    arena.own(slot).set_kind(Kind::Stream);
    for n in 0u64.. {
        let Some(made) = arena.enter_unborn(program.holder) else {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        };
        arena.hold(made.entry, slot);
        match n % 4 {
            0 if n < 200 => continue,
            0 | 1 => arena.name_born(made, std::process::id()),
            _ => {}
        }
        arena.leave(made.entry);
    }
    unreachable!("it is killed")
}

#[test]
fn two_hundred_makers_killed_at_any_instant_leave_nothing() {
    let network = network("makers");
    let config = config(&network, "10.2.0.1/24");
    carry(config.clone());
    let watcher = Program::attach(&config);
    let before: Vec<_> = watcher.arena().entries().collect();
    for n in 0..200u64 {
        let mut child = process("makes", &network, &config);
        std::thread::sleep(std::time::Duration::from_micros(n * 37 % 500));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    until("the table is as before", || {
        watcher.arena().entries().eq(before.iter().copied())
    });
    until("nothing is left", || watcher.slots() == 0);
}

#[test]
fn a_killed_process_ends_its_connections_and_leaves_nothing() {
    let network = network("killed");
    let config = config(&network, "10.2.0.1/24");
    carry(config.clone());
    let watcher = Program::attach(&config);
    let host = native(&network, "10.2.0.2/24");
    let listener = TcpListener::bind(&host, "10.2.0.2:9").unwrap();

    let mut child = process("connects", &network, &config);
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = [0; 10];
    stream.read_exact(&mut text).unwrap();
    assert_eq!(watcher.slots(), 1);
    child.kill().unwrap();
    assert_eq!(stream.read(&mut text).unwrap(), 0, "the end of the stream");
    child.wait().unwrap();
    drop(stream);
    until("nothing is left", || watcher.slots() == 0);

    let mut child = process("listens", &network, &config);
    drop(TcpStream::connect(&host, "10.2.0.1:80").unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    until("the door is closed", || {
        let outcome = TcpStream::connect(&host, "10.2.0.1:80");
        outcome.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    });
    until("nothing is left", || watcher.slots() == 0);
}

#[test]
fn the_carrier_ends_with_the_last_process() {
    let network = network("last");
    let mut config = config(&network, "10.2.0.1/24");
    config.guardian = None;
    let carrier = carry(config.clone());
    let host = native(&network, "10.2.0.2/24");
    let listener = TcpListener::bind(&host, "10.2.0.2:9").unwrap();
    let mut idle = process("idles", &network, &config);
    let mut child = process("connects", &network, &config);
    assert!(!carrier.is_finished());
    child.stdin.take().unwrap().write_all(b"end\n").unwrap();
    child.wait().unwrap();
    assert!(!carrier.is_finished(), "one is left");
    idle.kill().unwrap();
    idle.wait().unwrap();
    carrier.join().unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "last words", "delivered before the end");
}
