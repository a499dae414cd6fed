//! The process that carries a program, as its user sees it: what happens when it fails, is stopped,
//! and what it does not keep open.

mod running;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use gannet::{Host, TcpListener, UdpSocket};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use running::{Running, children, gannet, network, run, stat, until};

/// A native host in the program's network, where connections lead through the carrier.
fn native(network: &str) -> Host {
    Host::builder()
        .channel(network, "10.81.0.2/24")
        .build()
        .unwrap()
}

/// Of a process that may have ended already.
fn kill(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), signal);
}

/// Two connections to the native host, one to itself, datagrams, listeners; then the carrier goes.
const EVERYTHING: &str = "
import errno, select, socket, sys, threading, time
def told(name, call):
    begun = time.monotonic()
    try:
        what = call()
        what = repr(what) if isinstance(what, (bytes, int)) else 'ok'
    except OSError as error:
        what = errno.errorcode[error.errno]
    slow = time.monotonic() - begun > 3
    print(name, what + ' slowly' * slow, flush=True)
far = ('10.81.0.2', 9)
one = socket.create_connection(far)
two = socket.create_connection(far)
two.setblocking(False)
near = socket.socket()
near.bind(('127.0.0.1', 0))
near.listen()
three = socket.create_connection(near.getsockname())
four = near.accept()[0]
door = socket.socket()
door.bind(('10.81.0.1', 80))
door.listen()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.connect(('10.81.0.2', 53))
udp.send(b'x')
waiting = threading.Thread(target=lambda: told('blocked read', lambda: one.recv(1)))
waiting.start()
poll = select.poll()
poll.register(two, select.POLLIN)
print('ready', flush=True)
events = poll.poll()
waiting.join()
print('poll', hex(events[0][1] & select.POLLIN), flush=True)
told('read', lambda: two.recv(1))
told('write', lambda: two.send(b'x'))
sys.stdin.readline()
told('connect', lambda: socket.create_connection(far))
# (the first may go where nobody reads it any more)
told('datagrams', lambda: [udp.send(bytes(1000)) for n in range(10000)])
new = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
told('new datagram', lambda: new.sendto(b'x', ('10.81.0.2', 53)))
def listens():
    other = socket.socket()
    other.bind(('10.81.0.1', 81))
    other.listen()
told('listen', listens)
told('near', lambda: three.send(b'x') and four.recv(1))
def again():
    four = socket.create_connection(near.getsockname())
    four.send(b'y')
    return near.accept()[0].recv(1)
told('near again', again)
door.close(); one.close(); two.close(); udp.close()
print('all', flush=True)
sys.stdin.readline()
sys.exit(7)
";

const AFTERWARDS: [&str; 10] = [
    "blocked read ECONNRESET",
    "poll 0x1",
    "read ECONNRESET",
    "write EPIPE",
    "connect ENETUNREACH",
    "datagrams ENETDOWN",
    "new datagram ENETUNREACH",
    "listen ok",
    "near b'x'",
    "near again b'y'",
];

#[test]
fn a_carrier_that_is_killed_is_told_of_and_nothing_hangs() {
    for (signal, name) in [(Signal::SEGV, "SIGSEGV"), (Signal::KILL, "SIGKILL")] {
        let network = network("killed");
        let Some(mut command) = run(&network) else {
            return;
        };
        command.args(["--addr", "10.81.0.1/24"]);
        command.stdin(Stdio::piped());
        let host = native(&network);
        let listener = TcpListener::bind(&host, "10.81.0.2:9").unwrap();
        let _names = UdpSocket::bind(&host, "10.81.0.2:53").unwrap();
        let mut program = Running::python(command, EVERYTHING, &[]);
        let _ends = [listener.accept().unwrap(), listener.accept().unwrap()];
        let first = program.line();
        assert_eq!(first, "ready");
        let carrier = program.carrier();
        // Rust's handler takes the first SIGSEGV, and waits for it to come again.
        until("the carrier ends", || {
            let runs = stat(carrier, 0).is_some_and(|state| state != "Z");
            if runs {
                kill(carrier, signal);
            }
            !runs
        });
        program.go_on();
        let lines: Vec<String> = std::iter::repeat_with(|| program.line())
            .take_while(|line| !matches!(line.as_str(), "all" | ""))
            .collect();
        its_carrier_is_missed(&children(program.child.id()));
        let (_, output) = program.end();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(lines, AFTERWARDS, "{errors}");
        assert_eq!(output.status.code(), Some(7), "{lines:?} {errors}");
        let told: Vec<&str> = errors.lines().collect();
        assert_eq!(told.len(), 3, "{errors}");
        assert!(told[0].ends_with("has ended (no-carrier)"), "{errors}");
        assert!(told[1].starts_with("why: it was ended by "), "{errors}");
        assert!(told[1].contains(name), "{errors}");
        assert!(told[2].ends_with("gannet explain no-carrier"), "{errors}");
    }
}

/// `gannet ss` names the program.
fn its_carrier_is_missed(processes: &[u32]) {
    let [process] = processes else {
        panic!("the program has one process, not {processes:?}");
    };
    let table = gannet().arg("ss").output().unwrap();
    let errors = String::from_utf8_lossy(&table.stderr);
    let what = format!("warning: the carrier of {process} (python3) has ended (no-carrier)");
    assert!(errors.lines().any(|line| line == what), "{errors}");
    let json = gannet().args(["ss", "--json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let gone = json["without_carrier"].as_array().unwrap();
    let ours = |gone: &&serde_json::Value| gone["processes"][0]["pid"] == *process;
    assert_eq!(gone.iter().filter(ours).count(), 1, "{json}");
}

/// The program closes what it was given; the carrier and `gannet run` live on, and nobody who reads
/// the other end waits for them.
#[test]
fn pipes_that_were_inherited_end_when_the_program_lets_go() {
    let network = network("inherited");
    let Some(mut command) = run(&network) else {
        return;
    };
    // Descriptor 9 is a pipe, the standard output another.
    let script = "exec 9>&1; exec \"$@\" 3>&1";
    let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(command.get_program());
    shell.args(words).args(["--", "sh", "-c"]);
    shell.arg("echo open >&3; exec 3>&- 9>&- 1>&-; read line; echo $line >&2");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    command = shell;
    command.stdin(Stdio::piped());
    let mut program = Running::start(command);
    assert_eq!(program.line(), "open");
    let carrier = program.carrier();
    // This comes when nobody has the pipe any more.
    assert_eq!(program.line(), "", "the end");
    assert!(stat(carrier, 0).is_some_and(|state| state != "Z"));
    let names = std::fs::read_dir(format!("/proc/{carrier}/fd")).unwrap();
    let targets = names.map(|name| std::fs::read_link(name.unwrap().path()).unwrap());
    let pipes = targets.filter(|target| target.to_string_lossy().starts_with("pipe:"));
    assert_eq!(pipes.count(), 0);
    let stdin = program.child.stdin.as_mut().unwrap();
    stdin.write_all(b"bye\n").unwrap();
    let (_, output) = program.end();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "bye\n");
}

const STOPPED: &str = "
import errno, select, socket, sys
one = socket.create_connection(('10.82.0.2', 9))
one.sendall(b'1')
one.settimeout(0.2)
print('ready', flush=True)
sys.stdin.readline()
def told(name, call):
    try:
        print(name, call(), flush=True)
    except OSError as error:
        print(name, 'timed out' if isinstance(error, TimeoutError) else error.errno, flush=True)
told('read', lambda: one.recv(1))
two = socket.socket()
two.settimeout(0.2)
told('connect', lambda: two.connect(('10.82.0.2', 9)))
near = socket.socket()
near.bind(('127.0.0.1', 0))
near.listen()
three = socket.create_connection(near.getsockname())
three.send(b'x')
told('near', lambda: near.accept()[0].recv(1))
sent = 0
try:
    while True:
        sent += one.send(bytes(65536))
except TimeoutError:
    print('full', flush=True)
sys.stdin.readline()
one.settimeout(None)
one.sendall(b'end')
one.shutdown(socket.SHUT_WR)
print('echo', one.recv(1), flush=True)
print('sent', sent + 4, flush=True)
three.close()
";

#[test]
fn a_carrier_that_is_stopped_delays_and_loses_nothing() {
    let network = network("stopped");
    let Some(mut command) = run(&network) else {
        return;
    };
    command
        .args(["--addr", "10.82.0.1/24"])
        .stdin(Stdio::piped());
    let host = Host::builder().channel(&network, "10.82.0.2/24");
    let host = host.build().unwrap();
    let listener = TcpListener::bind(&host, "10.82.0.2:9").unwrap();
    let mut program = Running::python(command, STOPPED, &[]);
    let (mut far, _) = listener.accept().unwrap();
    assert_eq!(program.line(), "ready");
    let carrier = program.carrier();
    kill(carrier, Signal::STOP);
    until("it stops", || stat(carrier, 0).as_deref() == Some("T"));
    program.go_on();
    for line in ["read timed out", "connect timed out", "near b'x'", "full"] {
        assert_eq!(program.line(), line);
    }
    kill(carrier, Signal::CONT);
    program.go_on();
    let mut all = Vec::new();
    far.read_to_end(&mut all).unwrap();
    assert_eq!(all.last_chunk(), Some(b"end"));
    far.write_all(b"y").unwrap();
    assert_eq!(program.line(), "echo b'y'");
    assert_eq!(program.line(), format!("sent {}", all.len()));
    let (_, output) = program.end();
    assert!(output.status.success(), "{output:?}");
}

const ASKED_TO_END: &str = "
import os, signal, socket, sys, time
one = socket.create_connection(('10.83.0.2', 9))
def last_words(number, frame):
    time.sleep(0.2)
    one.sendall(b'good bye')
    one.close()
    two = socket.create_connection(('10.83.0.2', 9))
    two.sendall(signal.Signals(number).name.encode())
    two.close()
    os._exit(7)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, last_words)
print('ready', flush=True)
while True:
    time.sleep(1)
";

#[test]
fn a_program_that_is_asked_to_end_says_its_last_words() {
    let network = network("last-words");
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::HUP, "SIGHUP"),
        (Signal::TERM, "SIGTERM"),
    ] {
        let Some(mut command) = run(&network) else {
            return;
        };
        // As a shell does with a job of the terminal.
        command.args(["--addr", "10.83.0.1/24"]).process_group(0);
        let host = Host::builder().channel(&network, "10.83.0.2/24");
        let host = host.build().unwrap();
        let listener = TcpListener::bind(&host, "10.83.0.2:9").unwrap();
        let mut program = Running::python(command, ASKED_TO_END, &[]);
        let (mut far, _) = listener.accept().unwrap();
        assert_eq!(program.line(), "ready");
        let pid = Pid::from_raw(program.child.id() as i32).unwrap();
        match signal {
            // The terminal tells everybody; others tell the one they know.
            Signal::TERM => kill_process(pid, signal).unwrap(),
            _ => kill_process_group(pid, signal).unwrap(),
        }
        let mut text = String::new();
        far.read_to_string(&mut text).unwrap();
        assert_eq!(text, "good bye");
        let (mut last, _) = listener.accept().unwrap();
        text.clear();
        last.read_to_string(&mut text).unwrap();
        assert_eq!(text, name);
        let (_, output) = program.end();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

const READS_LATE: &str = "
import socket
one = socket.create_connection(('10.85.0.2', 9))
print('ready', flush=True)
got = 0
while text := one.recv(65536):
    got += len(text)
print(got, flush=True)
";

/// Its peer sends until the window is closed, and all of it arrives when it goes on.
#[test]
fn a_program_that_is_stopped_holds_up_its_peer_and_loses_nothing() {
    let network = network("asleep");
    let Some(mut command) = run(&network) else {
        return;
    };
    command.args(["--addr", "10.85.0.1/24"]);
    let host = Host::builder().channel(&network, "10.85.0.2/24");
    let host = host.build().unwrap();
    let listener = TcpListener::bind(&host, "10.85.0.2:9").unwrap();
    let mut program = Running::python(command, READS_LATE, &[]);
    let (mut far, _) = listener.accept().unwrap();
    program.expect(&["ready"]);
    let runner = program.child.id();
    let carrier = program.carrier();
    let python = children(runner).into_iter().find(|pid| *pid != carrier);
    let python = python.expect("the program runs");
    kill(python, Signal::STOP);
    until("it stops", || stat(python, 0).as_deref() == Some("T"));
    far.set_nonblocking(true).unwrap();
    let (bytes, mut sent) = (vec![7; 1 << 20], 0);
    until("the window is closed", || match far.write(&bytes) {
        Ok(n) => {
            sent += n;
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            let info = far.info().unwrap();
            info.in_flight == 0 && info.unsent > 0
        }
    });
    assert!(sent < 64 << 20, "{sent} bytes");
    kill(python, Signal::CONT);
    far.set_nonblocking(false).unwrap();
    far.write_all(b"the end").unwrap();
    drop(far);
    let (lines, output) = program.end();
    assert_eq!(lines, [(sent + 7).to_string()], "{output:?}");
}
