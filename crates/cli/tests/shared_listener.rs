//! Many processes that sleep in `accept` of one listener: each connection wakes one of them.

mod running;

use running::{Running, network, run};
use std::process::Stdio;

/// Children that accept one after the other; says the port, and at the end of its input how often
/// they slept in all.
const SERVER: &str = "
import os, socket, sys
server = socket.create_server(('127.0.0.1', 0), backlog=4096)
children = []
for _ in range(64):
    pid = os.fork()
    if pid == 0:
        while True:
            one = server.accept()[0]
            one.sendall(one.recv(100))
            one.close()
    children.append(pid)
print(server.getsockname()[1], flush=True)
sys.stdin.readline()
slept = 0
for pid in children:
    for line in open(f'/proc/{pid}/status'):
        if line.startswith('voluntary'):
            slept += int(line.split()[1])
    os.kill(pid, 9)
    os.waitpid(pid, 0)
print(slept, flush=True)
";

const CLIENT: &str = "
import socket, sys
for n in range(200):
    one = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    one.sendall(b'word')
    assert one.recv(100) == b'word', n
    one.close()
print('done', flush=True)
";

#[test]
fn each_connection_wakes_one_of_many_that_accept() {
    let network = network("herd");
    let start = |text: &str, words: &[&str]| {
        let mut command = run(&network)?;
        command.stdin(Stdio::piped());
        Some(Running::python(command, text, words))
    };
    let Some(mut server) = start(SERVER, &[]) else {
        return;
    };
    let port = server.line();
    start(CLIENT, &[&port]).unwrap().expect(&["done"]);
    server.go_on();
    let slept: u32 = server.line().parse().expect("a number");
    // Each child sleeps where it begins, and some times for each connection that it serves; if all
    // woke for each connection it would be 12,800 times.
    assert!(slept < 64 * 20 + 200 * 8, "{slept}");
    assert!(server.end().1.status.success());
}
