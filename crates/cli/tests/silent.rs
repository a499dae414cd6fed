//! Carried programs whose peer on an interface falls silent: when TCP gives up, and what it says.

mod running;

use running::wire::Wire;
use running::{Running, network, run};

/// Takes connections and says nothing.
const LISTENS: &str = "
import socket
listener = socket.socket()
listener.bind(('10.56.0.2', 7000))
listener.listen()
print('ready', flush=True)
ends = [listener.accept()[0] for _ in range(2)]
print('accepted', flush=True)
input()
";

/// Two connections that wait, one with times of its own for keep-alive, one with the settings'.
const WAITS: &str = "
import errno, select, socket, time
TCP = socket.IPPROTO_TCP
own, configured = (socket.create_connection(('10.56.0.2', 7000)) for _ in range(2))
own.setsockopt(TCP, socket.TCP_KEEPIDLE, 2)
own.setsockopt(TCP, socket.TCP_KEEPINTVL, 1)
own.setsockopt(TCP, socket.TCP_KEEPCNT, 2)
for s in (own, configured):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
print('waits', flush=True)
input()
begun = time.monotonic()
def ends(name, s):
    ready = select.select([s], [], [], 20)[0]
    took = time.monotonic() - begun
    try:
        print(name, s.recv(1) if ready else 'nothing', flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], flush=True)
    return took
first, second = ends('configured', configured), ends('own', own)
print('times', first < 8, second < 10, flush=True)
";

#[test]
fn keep_alive_has_the_times_of_the_program_or_else_of_the_settings() {
    let (Some(mut plain), Some(wire)) = (run(&network("silent")), Wire::new()) else {
        return;
    };
    for setting in ["idle=1s", "interval=1s", "probes=2"] {
        plain.args(["--set", &format!("tcp.keep_alive_{setting}")]);
    }
    let mut far = wire.kernel();
    far.args(["python3", "-c", LISTENS]);
    let mut far = Running::start(far);
    far.expect(&["ready"]);
    let mut near = Running::python(wire.run(&plain), WAITS, &[]);
    near.expect(&["waits"]);
    far.expect(&["accepted"]);
    // What comes to the address is for no host any more.
    assert!(wire.far("addr flush dev"));
    near.go_on();
    near.expect(&["configured ETIMEDOUT", "own ETIMEDOUT", "times True True"]);
    near.end();
    far.end();
}
