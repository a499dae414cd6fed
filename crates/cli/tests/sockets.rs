//! `gannet ss` of a program on an interface, in every state that its connections can be held in,
//! beside the kernel's `ss` of the same program.

mod running;

use std::process::Command;

use running::wire::Wire;
use running::{Running, gannet, network, run, until};

/// A socket in each state; the peer helps.
const STATES: &str = "
import errno, socket, sys, time
def connected():
    end = socket.create_connection(('10.56.0.2', 7000))
    return end
def near(port):
    end = socket.socket()
    end.bind(('10.56.0.1', port))
    end.connect(('10.56.0.2', 7000))
    return end
listener = socket.socket()
listener.bind(('10.56.0.1', 80))
listener.listen()
both = socket.socket(socket.AF_INET6)
both.bind(('::', 81))
both.listen()
open_ = near(5001)
open_.sendall(b'k')
left = near(5002)
left.sendall(b'c')
assert left.recv(1) == b''
half = near(5003)
half.sendall(b'k')
half.shutdown(socket.SHUT_WR)
over = near(5004)
over.sendall(b'e')
over.close()
trying = socket.socket()
trying.setblocking(False)
trying.bind(('10.56.0.1', 5005))
assert trying.connect_ex(('10.56.0.77', 9)) == errno.EINPROGRESS
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('10.56.0.1', 53))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.bind(('10.56.0.1', 5006))
sender.connect(('10.56.0.2', 53))
print('ready', flush=True)
sys.stdin.readline()
";

/// Keeps, closes, or closes at the end, as its peer says.
const HELPS: &str = "
import socket, sys, threading
listener = socket.socket()
listener.bind(('10.56.0.2', 7000))
listener.listen()
kept = []
def serve(end):
    word = end.recv(1)
    if word == b'e':
        assert end.recv(1) == b''
    if word == b'k':
        kept.append(end)
    else:
        end.close()
def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
print('ready', flush=True)
sys.stdin.readline()
";

/// Words of each line, those of the program's own addresses, sorted.
fn rows(command: &mut Command) -> Vec<String> {
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ours = |line: &&str| line.contains("10.56.0.1:") || line.contains("*:81 ");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rows: Vec<_> = text.lines().filter(ours).map(words).collect();
    rows.sort();
    rows
}

/// Both programs' tables; the number of the process and of descriptors is replaced.
fn plain(rows: &[String]) -> Vec<String> {
    let plain = |row: &String| {
        let mut text = String::new();
        let mut rest = row.as_str();
        while let Some((before, after)) = rest.split_once('=') {
            text = format!("{text}{before}=N");
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        }
        text + rest
    };
    rows.iter().map(plain).collect()
}

#[test]
fn every_state_is_shown_as_the_kernel_shows_it() {
    let (Some(run), Some(wire)) = (run(&network("states")), Wire::new()) else {
        return;
    };
    if Command::new("ss").arg("-V").output().is_err() {
        return eprintln!("skipped: there is no ss");
    }
    let mut far = wire.kernel();
    far.args(["python3", "-c", HELPS]);
    let mut far = Running::start(far);
    assert_eq!(far.line(), "ready");
    let mut program = Running::python(wire.run(&run), STATES, &[]);
    program.expect(&["ready"]);
    let ask = |options: &[&str]| {
        let mut command = gannet();
        command.arg("ss").args(options);
        rows(&mut Wire::inside(&wire.ours, &command))
    };
    let steady = |rows: &[String]| {
        let states = ["TIME-WAIT", "FIN-WAIT-2", "SYN-SENT", "CLOSE-WAIT"];
        states
            .iter()
            .all(|state| rows.iter().any(|row| row.starts_with(state)))
    };
    until("its connections reach their states", || {
        steady(&ask(&["-tan"]))
    });
    let carried: Vec<_> = OPTIONS.map(|options| plain(&ask(options))).into();
    let json = Wire::inside(&wire.ours, gannet().args(["ss", "--json", "-a"])).output();
    let json: serde_json::Value = serde_json::from_slice(&json.unwrap().stdout).unwrap();
    let sockets = json["sockets"].as_array().unwrap();
    let waits = sockets.iter().filter(|one| one["state"] == "TIME-WAIT");
    assert_eq!(waits.count(), 1, "{json}");
    let (_, output) = program.end();
    assert!(output.status.success(), "{output:?}");
    drop(wire);
    drop(far);
    compare_with_the_kernel(&carried);
}

const OPTIONS: [&[&str]; 8] = [
    &["-tanp"],
    &["-tn"],
    &["-tln"],
    &["-uanp"],
    &["-an", "state", "time-wait"],
    &["-tn", "state", "connected"],
    &[
        "-tan",
        "exclude",
        "established",
        "and",
        "sport",
        "<",
        ":5005",
    ],
    &["-n4H"],
];

fn compare_with_the_kernel(carried: &[Vec<String>]) {
    let Some(wire) = Wire::new() else { return };
    wire.address();
    let mut far = wire.kernel();
    far.args(["python3", "-c", HELPS]);
    let mut far = Running::start(far);
    assert_eq!(far.line(), "ready");
    let mut command = Wire::inside(&wire.ours, &Command::new("env"));
    command.args(["python3", "-c", STATES]);
    let mut program = Running::start(command);
    program.expect(&["ready"]);
    let ask = |options: &[&str]| {
        let mut command = Command::new("ss");
        command.args(options);
        plain(&rows(&mut Wire::inside(&wire.ours, &command)))
    };
    until("the kernel gets there", || {
        let rows = ask(&["-tan"]);
        rows.iter().any(|row| row.starts_with("FIN-WAIT-2"))
    });
    for (options, carried) in OPTIONS.iter().zip(carried) {
        assert_eq!(carried, &ask(options), "gannet ss and ss {options:?}");
    }
    program.end();
}
