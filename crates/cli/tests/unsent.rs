//! `TCP_NOTSENT_LOWAT` of a carried program over an interface: what waits to be sent stays little.

mod running;

use running::wire::Wire;
use running::{Running, network, run};

/// Reads nothing until it is told to.
const WAITS: &str = "
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
listener.bind(('10.56.0.2', 7000))
listener.listen()
print('ready', flush=True)
end = listener.accept()[0]
sys.stdin.readline()
while end.recv(1 << 16):
    pass
";

const WRITES: &str = "
import select, socket, struct, sys, threading, time
LOW = 16384
s = socket.create_connection(('10.56.0.2', 7000))
s.setblocking(False)
def low(bytes):
    s.setsockopt(socket.IPPROTO_TCP, 25, bytes)
def fill():
    sent, last = 0, time.monotonic()
    while time.monotonic() < last + 0.5:
        if select.select([], [s], [], 0.1)[1]:
            try:
                sent, last = sent + s.send(bytes(3000)), time.monotonic()
            except BlockingIOError:
                pass
    return sent
def told(what, *words):
    print(what, *words, flush=True)
def writable(wait):
    p, e = select.poll(), select.epoll()
    p.register(s, select.POLLOUT)
    e.register(s, select.EPOLLOUT)
    answers = bool(select.select([], [s], [], wait)[1]), bool(p.poll(0)), bool(e.poll(0))
    return set(answers)
low(LOW)
sent = fill()
info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 248)
unsent, = struct.unpack_from('I', info, 144)
told('little', sent < 400000, LOW // 4 <= unsent <= LOW, writable(0))
woken = []
sleeper = threading.Thread(target=lambda: woken.extend(select.select([], [s], [], 10)[1]))
sleeper.start()
time.sleep(0.1)
low(0)
sleeper.join()
told('raised', bool(woken), fill() > 400000)
low(LOW)
told('again', writable(0))
edges = select.epoll()
edges.register(s, select.EPOLLOUT | select.EPOLLET)
assert not edges.poll(0)
sys.stdin.readline()
told('room', len(edges.poll(10)), writable(0))
";

#[test]
fn a_program_is_writable_when_little_waits() {
    let (Some(plain), Some(wire)) = (run(&network("unsent")), Wire::new()) else {
        return;
    };
    let mut far = wire.kernel();
    far.args(["python3", "-c", WAITS]);
    let mut far = Running::start(far);
    far.expect(&["ready"]);
    let mut near = Running::python(wire.run(&plain), WRITES, &[]);
    near.expect(&[
        "little True True {False}",
        "raised True True",
        "again {False}",
    ]);
    far.go_on();
    near.go_on();
    near.expect(&["room 1 {True}"]);
    near.end();
    far.end();
}
