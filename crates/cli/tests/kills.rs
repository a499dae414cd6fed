//! Processes of servers and clients that are killed at any instruction, again and again: the others
//! hang nowhere and lose nothing, and in the end no socket of the killed ones is left.
//!
//! `GANNET_TEST_KILLS` says how many; without it, as many as take some seconds.

mod running;

use running::{Running, children, gannet, network, run, stat, until};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;

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
";

fn kills() -> u32 {
    let wanted = std::env::var("GANNET_TEST_KILLS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(600)
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

#[test]
fn s8_processes_that_are_killed_leave_the_others_whole() {
    let net = network("kills");
    let Some(command) = run(&net) else { return };
    let mut server = Running::python(command, SERVER, &[]);
    let port = server.line();
    let parent: u32 = server.line().parse().expect("a number");
    let mut command = run(&net).expect("as before");
    command.stdin(Stdio::piped());
    let mut client = Running::python(command, CLIENT, &[&port]);
    let asking: u32 = client.line().parse().expect("a number");
    let mut numbers = Numbers(0x5eed);
    for _ in 0..kills() {
        let of = [parent, asking][numbers.below(2)];
        let all = children(of);
        if !all.is_empty() {
            kill(all[numbers.below(all.len())]);
        }
        std::thread::sleep(Duration::from_micros(numbers.below(6_000) as u64));
    }
    client.go_on();
    let (said, output) = client.end();
    assert_eq!(said, ["over"], "{output:?}");
    // What a killed process leaves is looked for four times a second, and less often later.
    until("nothing but the listener", || {
        sockets(&port) == [format!("LISTEN 127.0.0.1:{port}")]
    });
    // One that is stopped makes no more children.
    signal(parent, Signal::STOP);
    until("it is stopped", || stat(parent, 0).as_deref() == Some("T"));
    children(parent).into_iter().for_each(kill);
    kill(parent);
    let _ = server.end();
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
