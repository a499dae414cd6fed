//! Processes that are killed at any instruction, again and again: the others hang nowhere and lose
//! nothing, and in the end the tables of their programs are what they were at first.
//!
//! | role | killed |
//! |---|---|
//! | processes that serve, and that ask | at any time; at each call |
//! | children | at each call after their fork |
//! | carriers, with peers at their links | at any time; at each call |
//! | `gannet run`, the carrier and the program that it starts | at each call after their fork |
//!
//! `GANNET_TEST_KILLS` says how many, for each test; without it, as many as take a few seconds.

mod running;

use gannet::{Host, TcpListener};
use running::steps::Steps;
use running::tables::{Tables, Taken};
use running::{Running, children, gannet, network, run, stat, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Four children accept and answer; those that end are replaced.
const SERVER: &str = "
import os, socket, sys
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen(256)
def serve():
    while True:
        end = listener.accept()[0]
        try:
            while data := end.recv(65536):
                end.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            pass
        end.close()
def child():
    if os.fork() == 0:
        serve()
for _ in range(4):
    child()
print(listener.getsockname()[1], flush=True)
print(os.getpid(), flush=True)
while True:
    os.wait()
    child()
";

/// Four children connect, ask and compare. A server that is killed resets or ends a connection;
/// what it answers is right, and it does answer.
const CLIENT: &str = "
import os, select, signal, socket, sys
port = int(sys.argv[1])
def ask(turn):
    text = b'%d ' % turn * (1 + turn % 3000)
    end = None
    try:
        end = socket.create_connection(('127.0.0.1', port), timeout=30)
        end.sendall(text)
        got = b''
        while len(got) < len(text):
            data = end.recv(65536)
            if not data:
                break
            got += data
        if not text.startswith(got):
            os._exit(4)
    except (ConnectionResetError, BrokenPipeError):
        pass
    except TimeoutError:
        os._exit(3)
    if end:
        end.close()
def work():
    turn = os.getpid()
    while True:
        turn += 7
        try:
            ask(turn)
        except ConnectionRefusedError:
            os._exit(5)
def child():
    pid = os.fork()
    if pid == 0:
        work()
    return pid
workers = [child() for _ in range(4)]
print(os.getpid(), flush=True)
bad = 0
while not select.select([sys.stdin], [], [], 0.002)[0]:
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        workers.remove(pid)
        if os.WIFEXITED(status):
            print('bad', os.WEXITSTATUS(status), flush=True)
        workers.append(child())
for pid in workers:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
ask(1)
print('over', flush=True)
sys.stdin.readline()
sys.stdin.readline()
";

fn kills(usual: u32) -> u32 {
    let wanted = std::env::var("GANNET_TEST_KILLS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Numbers from a seed, so that a run can be repeated as far as the scheduler allows.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

/// A program that serves and one that asks, each of one process and four children.
struct Both {
    server: Running,
    client: Running,
    port: String,
    parents: [u32; 2],
    tables: [Tables; 2],
}

impl Both {
    fn start(name: &str) -> Option<Both> {
        let net = network(name);
        let mut server = Running::python(run(&net)?, SERVER, &[]);
        let port = server.line();
        let serving = server.line().parse().expect("a number");
        let mut command = run(&net)?;
        command.stdin(Stdio::piped());
        let mut client = Running::python(command, CLIENT, &[&port]);
        let asking = client.line().parse().expect("a number");
        let tables = [server.carrier(), client.carrier()].map(Tables::of);
        Some(Both {
            server,
            client,
            port,
            parents: [serving, asking],
            tables,
        })
    }

    /// A child, and its parent.
    fn any(&self, numbers: &mut Numbers) -> (u32, u32) {
        loop {
            let parent = self.parents[numbers.below(2)];
            let all = children(parent);
            if !all.is_empty() {
                return (parent, all[numbers.below(all.len())]);
            }
        }
    }

    /// Nothing was lost, and nothing is left.
    fn end(mut self) {
        self.client.go_on();
        let said = self.client.line();
        assert_eq!(said, "over");
        let [serving, asking] = &self.tables;
        is_left(asking, 0, 1);
        is_left(serving, 1, 5);
        self.client.go_on();
        let (said, output) = self.client.end();
        assert_eq!(said, [""; 0], "{output:?}");
        let listens = format!("LISTEN 127.0.0.1:{}", self.port);
        until("nothing but the listener", || {
            sockets(&self.port) == [listens.as_str()]
        });
        end_server(self.server, self.parents[0]);
    }
}

/// What a killed process leaves is looked for four times a second, and less often later. A stream
/// with bytes in it that may still be accepted is kept for a minute: a long run waits for that.
fn is_left(tables: &Tables, slots: usize, processes: usize) {
    let is_long = std::env::var_os("GANNET_TEST_KILLS").is_some();
    let end = Instant::now() + Duration::from_secs(if is_long { 100 } else { 30 });
    loop {
        let mut taken = tables.taken();
        if !is_long {
            taken.slots -= taken.unknown;
            taken.unheld -= taken.unknown;
            taken.unknown = 0;
        }
        let wanted = Taken {
            slots,
            processes,
            ..Taken::default()
        };
        if taken == wanted {
            return;
        }
        assert!(Instant::now() < end, "{taken:?} {:?}", tables.unheld());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One that is stopped makes no more children.
fn end_server(server: Running, parent: u32) {
    signal(parent, Signal::STOP);
    until("it is stopped", || stat(parent, 0).as_deref() == Some("T"));
    children(parent).into_iter().for_each(kill);
    kill(parent);
    let _ = server.end();
}

#[test]
fn s8_processes_that_are_killed_leave_the_others_whole() {
    let Some(both) = Both::start("kills") else {
        return;
    };
    let mut numbers = Numbers(0x5eed);
    for _ in 0..kills(400) {
        kill(both.any(&mut numbers).1);
        std::thread::sleep(Duration::from_micros(numbers.below(6_000) as u64));
    }
    both.end();
}

#[test]
fn s8_processes_that_are_killed_at_a_system_call_leave_the_others_whole() {
    let Some(mut steps) = Steps::new() else {
        return;
    };
    let Some(both) = Both::start("calls") else {
        return;
    };
    let mut numbers = Numbers(0xca11);
    let mut there = 0;
    for _ in 0..kills(60) {
        let (_, child) = both.any(&mut numbers);
        let how = steps.walk(child, numbers.below(80), numbers.below(200));
        there += u32::from(how == "there");
    }
    both.end();
    assert!(there > 0, "none was killed at a call");
}

#[test]
fn s8_children_that_are_killed_while_they_are_made_leave_the_others_whole() {
    let Some(mut steps) = Steps::new() else {
        return;
    };
    let Some(both) = Both::start("births") else {
        return;
    };
    let mut numbers = Numbers(0xb117);
    let mut there = 0;
    for _ in 0..kills(30) {
        let of = both.any(&mut numbers);
        let how = steps.child(of, numbers.below(80), numbers.below(200));
        there += u32::from(how == "there");
    }
    both.end();
    assert!(there > 0, "none was killed at a call");
}

/// Asks a native host until the carrier is gone; then another program, which needs no carrier.
const CARRIED: &str = "
import os, socket, sys
def ask(where, turn):
    text = b'%d ' % turn * (1 + turn % 3000)
    with socket.create_connection(where, timeout=30) as end:
        end.sendall(text)
        got = b''
        while len(got) < len(text):
            data = end.recv(65536)
            if not data:
                print('ended early', turn, len(got), flush=True)
                os._exit(3)
            got += data
        if got != text:
            os._exit(4)
near = ('127.0.0.1', int(sys.argv[1]))
ask(near, 9)
print('ready', flush=True)
try:
    turn = 0
    while True:
        turn += 7
        ask(('10.81.0.2', 9), turn)
except TimeoutError:
    os._exit(5)
except OSError as error:
    pass
ask(near, 1000)
print('over', flush=True)
";

/// Answers what comes, and says how many connections it has.
fn echo(host: &Host, open: &'static AtomicUsize) {
    let listener = TcpListener::bind(host, "10.81.0.2:9").expect("a listener");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            open.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut bytes = [0; 65536];
                while let Ok(n @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..n]).is_err() {
                        break;
                    }
                }
                drop(stream);
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
}

#[test]
fn s8_carriers_that_are_killed_leave_their_programs_and_peers_whole() {
    static OPEN: AtomicUsize = AtomicUsize::new(0);
    let Some(mut steps) = Steps::new() else {
        return;
    };
    let net = network("carriers");
    let Some(command) = run(&net) else { return };
    let mut server = Running::python(command, SERVER, &[]);
    let port = server.line();
    let parent: u32 = server.line().parse().expect("a number");
    let tables = Tables::of(server.carrier());
    let host = Host::builder().channel(&net, "10.81.0.2/24").build();
    let host = host.expect("a host");
    echo(&host, &OPEN);
    let mut numbers = Numbers(0xca44);
    for _ in 0..kills(5) {
        let mut command = run(&net).expect("as before");
        command.args(["--addr", "10.81.0.1/24"]);
        let mut program = Running::python(command, CARRIED, &[&port]);
        assert_eq!(program.line(), "ready");
        let carrier = program.carrier();
        match numbers.below(3) {
            0 => {
                std::thread::sleep(Duration::from_micros(numbers.below(20_000) as u64));
                kill(carrier);
            }
            _ => drop(steps.walk(carrier, numbers.below(400), numbers.below(300))),
        }
        let (said, output) = program.end();
        assert_eq!(
            (said, output.status.code()),
            (vec!["over".to_owned()], Some(0))
        );
        until("its peers hear of it", || OPEN.load(Ordering::SeqCst) == 0);
    }
    is_left(&tables, 1, 5);
    end_server(server, parent);
}

/// Asks once.
const ONCE: &str = "exec 3<>/dev/tcp/127.0.0.1/$1 || exit 3; echo word >&3; read -r word <&3; \
     [ \"$word\" = word ]";

fn once(net: &str, port: &str) -> Command {
    let mut command = run(net).expect("as before");
    command.args(["--", "bash", "-c", ONCE, "bash", port]);
    command
}

#[test]
fn s8_programs_that_are_killed_while_they_begin_leave_nothing() {
    let Some(mut steps) = Steps::new() else {
        return;
    };
    let net = network("makers");
    let Some(command) = run(&net) else { return };
    let mut server = Running::python(command, SERVER, &[]);
    let port = server.line();
    let parent: u32 = server.line().parse().expect("a number");
    let tables = Tables::of(server.carrier());
    let directory = directory(parent);
    let names = names(&directory);
    let mut numbers = Numbers(0x3a3e);
    for _ in 0..kills(12) {
        let (which, calls) = (numbers.below(3), numbers.below(1200));
        let instructions = numbers.below(200);
        let how = steps.start(&once(&net, &port), which, calls, instructions);
        assert!(
            how.ends_with(" over"),
            "{how}: {which} {calls} {instructions}"
        );
    }
    let last = once(&net, &port).output().expect("it runs");
    assert!(last.status.success(), "{last:?}");
    is_left(&tables, 1, 5);
    until("no names are left", || self::names(&directory) == names);
    end_server(server, parent);
}

/// Where the names of the network lie, of which a process is.
fn directory(pid: u32) -> PathBuf {
    let variables = std::fs::read_to_string(format!("/proc/{pid}/environ")).expect("it runs");
    let mut variables = variables.split('\0');
    let attach = variables.find_map(|text| text.strip_prefix("GANNET_ATTACH="));
    // Program, user, carrier, path.
    PathBuf::from(
        attach
            .and_then(|text| text.splitn(4, ':').nth(3))
            .expect("a path"),
    )
}

fn names(directory: &PathBuf) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a number");
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
}

/// Each socket at a port: its state, and where it is.
fn sockets(port: &str) -> Vec<String> {
    let filter = format!("sport = :{port} or dport = :{port}");
    let output = gannet().args(["ss", "-Hat", &filter]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = |line: &str, n: usize| line.split_whitespace().nth(n).unwrap_or("").to_owned();
    text.lines()
        .map(|line| format!("{} {}", word(line, 0), word(line, 3)))
        .collect()
}
