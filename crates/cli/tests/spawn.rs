//! `posix_spawn` under `gannet run`: the child has what the file actions give it.

mod running;

use running::wire::Wire;
use running::{Running, network, run};

/// Listeners that close over `exec` are given to children under other numbers, with and without the
/// old one being closed. The child, a program of its own, accepts.
const SPAWNS: &str = "
import os, socket, sys
CHILD = '''
import socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
listener.settimeout(20)
listener.accept()[0].sendall(listener.getsockname()[0].encode())
'''
for address in sys.argv[1:]:
    for number in (0, 9):
        for closes in (False, True):
            listener = socket.create_server((address, 0))
            assert not listener.get_inheritable()
            name, own = listener.getsockname(), listener.fileno()
            actions = [(os.POSIX_SPAWN_DUP2, own, number)]
            if closes:
                actions.append((os.POSIX_SPAWN_CLOSE, own))
            words = [sys.executable, '-c', CHILD, str(number)]
            child = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
            listener.close()
            client = socket.create_connection(name, 20)
            print(number, closes, client.recv(99).decode(), flush=True)
            assert os.waitpid(child, 0)[1] == 0
";

#[test]
fn a_child_has_a_listener_under_another_number() {
    let Some(wire) = Wire::new() else { return };
    for intercept in ["sites", "traps"] {
        let Some(plain) = run(&network("spawn")) else {
            return;
        };
        let mut command = Wire::inside(&wire.ours, &plain);
        if intercept == "traps" {
            command.env("GANNET_INTERCEPT", intercept);
        }
        command.args(["--require", "--addr", "10.86.2.5"]);
        let addresses = ["127.0.0.1", "10.86.2.5"];
        let (lines, output) = Running::python(command, SPAWNS, &addresses).end();
        let ways = ["0 False", "0 True", "9 False", "9 True"];
        let expected: Vec<String> = addresses
            .iter()
            .flat_map(|address| ways.map(|way| format!("{way} {address}")))
            .collect();
        assert_eq!(lines, expected, "{intercept}: {output:?}");
    }
}
