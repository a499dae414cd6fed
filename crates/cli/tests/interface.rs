//! Carried programs on an interface with the kernel on the other side: which options of their
//! sockets TCP heeds, what it says of itself, and what becomes of them when the interface goes.

mod running;

use std::process::Command;
use std::time::Duration;

use running::wire::Wire;
use running::{Running, network, run, stat};

/// A connection and what was set before it, and what the segments on the wire say.
const SETS: &str = "
import errno, socket, struct, sys
def told(*words):
    print(*words, flush=True)
s = socket.socket()
s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 33)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x48)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 900)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20000)
s.connect(('10.56.0.2', 7000))
s.sendall(b'x' * 5000)
assert s.recv(1) == b'y'
info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 248)
def word(at):
    return struct.unpack_from('I', info, at)[0]
told('state', info[0])
told('mss', word(16) <= 900, 'mtu', word(60) <= 1500)
told('rtt', 0 < word(68) < 5000000, 0 < word(72), word(148) <= word(68))
told('rto', 100000 < word(8) < 5000000)
told('window', word(80) >= 2, word(228) > 1000, 1000 < word(232) <= 20000)
told('segments', word(136) >= 3, word(140) >= 3, word(100))
told('bytes', struct.unpack_from('QQ', info, 120), word(24), word(144))
busy, window, buffer = struct.unpack_from('QQQ', info, 168)
told('busy', 0 < busy < 60000000, window + buffer <= busy)
told('maxseg', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= 900)
s.sendall(b'close')
assert s.recv(1) == b''
told('state', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0])
plain = socket.create_connection(('10.56.0.2', 7000))
for name in ('reno', 'cubic'):
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
plain.shutdown(socket.SHUT_WR)
plain.recv(1)
told('done')
";

/// Answers, and describes what arrives: of each kind of segment once.
const DESCRIBES: &str = "
import socket, struct, sys, threading
raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x800))
listener = socket.socket()
listener.bind(('10.56.0.2', 7000))
listener.listen()
print('ready', flush=True)
end = listener.accept()[0]
got = 0
while got < 5000:
    got += len(end.recv(10000))
end.sendall(b'y')
assert end.recv(5) == b'close'
end.close()
plain = listener.accept()[0]
plain.recv(1)
plain.close()
raw.settimeout(0.2)
try:
    while True:
        packet, (_, _, kind, *_) = raw.recvfrom(2000)
        head = (packet[0] & 15) * 4
        tcp = packet[head:]
        if packet[9] != 6 or kind == socket.PACKET_OUTGOING:
            continue
        text = struct.unpack_from('!H', packet, 2)[0] - head - (tcp[12] >> 4) * 4
        window = struct.unpack_from('!H', tcp, 14)[0]
        mss = '-'
        options = tcp[20:(tcp[12] >> 4) * 4]
        while options and options[0]:
            if options[0] == 1:
                options = options[1:]
                continue
            if options[0] == 2:
                mss = struct.unpack_from('!H', options, 2)[0]
            options = options[options[1]:]
        syn = 'SYN' if tcp[13] & 2 else 'data' if text else 'other'
        print(syn, 'ttl', packet[8], 'tos', packet[1], 'mss', mss, 'window', window, 'text', text)
except TimeoutError:
    pass
";

#[test]
fn options_set_before_connecting_leave_with_the_syn_and_info_is_true() {
    let (Some(plain), Some(wire)) = (run(&network("sets")), Wire::new()) else {
        return;
    };
    let mut far = wire.kernel();
    far.args(["python3", "-c", DESCRIBES]);
    let mut far = Running::start(far);
    assert_eq!(far.line(), "ready");
    let near = Running::python(wire.run(&plain), SETS, &[]);
    let (lines, output) = near.end();
    let expected = [
        "state 1",
        "mss True mtu True",
        "rtt True True True",
        "rto True",
        "window True True True",
        "segments True True 0",
        "bytes (5000, 1) 0 0",
        "busy True True",
        "maxseg True",
        "state 8",
        "done",
    ];
    assert_eq!(lines, expected, "{output:?}");
    let (seen, _) = far.end();
    let of = |kind: &str| {
        seen.iter()
            .filter(|line| line.starts_with(kind))
            .collect::<Vec<_>>()
    };
    let word = |line: &str, name: &str| -> u32 {
        let mut words = line.split(' ').skip_while(|word| *word != name);
        words.nth(1).unwrap().parse().unwrap()
    };
    let [ours, plain] = of("SYN")[..] else {
        panic!("two SYNs: {seen:?}");
    };
    assert!(ours.starts_with("SYN ttl 33 tos 72 mss 900"), "{ours}");
    assert!(word(ours, "window") <= 20_000, "{ours}");
    assert!(plain.starts_with("SYN ttl 64 tos 0 mss 1460"), "{plain}");
    let data = of("data");
    assert!(!data.is_empty(), "{seen:?}");
    // Long ones are cut by the interface (segmentation offload), behind where they are seen.
    for line in data {
        assert!(line.starts_with("data ttl 33 tos 72"), "{line}");
    }
}

/// Which congestion control three connections use, and how much it says of itself (`TCP_CC_INFO`):
/// one whose program says nothing, one that is set to the kernel's default, one that is set to
/// another.
const CHOOSES: &str = "
import socket, struct
def used(wish, when):
    end = socket.socket()
    choose = lambda: end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, wish)
    if wish and when == 'before':
        choose()
    end.connect(('10.56.0.2', 7000))
    if wish and when == 'after':
        choose()
    end.sendall(b'x')
    assert end.recv(1) == b'x'
    name = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    said = end.getsockopt(socket.IPPROTO_TCP, 26, 99)
    if said:
        bandwidth, least, pace, window = struct.unpack('QIII', said)
        # a byte in a round trip, which may be long on a busy machine
        assert bandwidth > 0 or least > 900000, (bandwidth, least)
        assert 0 < least < 5000000, least
        assert 128 <= pace <= 710 and 128 <= window <= 576, (pace, window)
    name = name.rstrip(bytes(1)).decode()
    print(when, wish.decode(), name, len(said), flush=True)
default = socket.socket().getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
print('kernel', default.rstrip(bytes(1)).decode(), flush=True)
for wish in (b'', b'reno', b'cubic'):
    for when in ('before', 'after'):
        used(wish, when)
";

#[test]
fn the_kernels_default_congestion_control_is_not_the_programs_wish() {
    let (Some(mut plain), Some(wire)) = (run(&network("wish")), Wire::new()) else {
        return;
    };
    let mut far = wire.kernel();
    far.args(["python3", "-c", ECHOES]);
    let mut far = Running::start(far);
    assert_eq!(far.line(), "ready");
    let reno = ["-w", "net.ipv4.tcp_congestion_control=reno"];
    let mut sysctl = Command::new("sysctl");
    sysctl.args(reno);
    let output = Wire::inside(&wire.ours, &sysctl).output();
    assert!(output.is_ok_and(|output| output.status.success()));
    plain.args(["--set", "tcp.congestion=bbr"]);
    let (lines, output) = Running::python(wire.run(&plain), CHOOSES, &[]).end();
    let expected = [
        "kernel reno",
        "before  bbr 20",
        "after  bbr 20",
        "before reno reno 0",
        "after reno reno 0",
        "before cubic cubic 0",
        "after cubic cubic 0",
    ];
    assert_eq!(lines, expected, "{output:?}");
    far.go_on();
    far.end();
}

/// What the far side does in both tests of interfaces that go.
const ECHOES: &str = "
import socket, sys, threading
listener = socket.socket()
listener.bind(('10.56.0.2', 7000))
listener.listen()
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(('10.56.0.2', 7001))
def echo(end):
    try:
        while text := end.recv(1000):
            end.sendall(text)
    except OSError:
        pass
def datagrams():
    while True:
        names.sendto(*names.recvfrom(100))
def accept():
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
for each in (datagrams, accept):
    threading.Thread(target=each, daemon=True).start()
print('ready', flush=True)
sys.stdin.readline()
";

/// Connections, datagrams, and a listener; each line of the standard input is the next step.
const GOES: &str = "
import errno, socket, sys
def told(name, call):
    try:
        what = call()
    except OSError as error:
        what = errno.errorcode.get(error.errno, error)
    print(name, what, flush=True)
def next_step(name):
    print(name, flush=True)
    sys.stdin.readline()
far = ('10.56.0.2', 7000)
def connected():
    end = socket.create_connection(far)
    end.settimeout(20)
    end.sendall(b'x')
    assert end.recv(1) == b'x'
    return end
keep, dies = connected(), connected()
dies.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.connect(('10.56.0.2', 7001))
udp.settimeout(20)
def asked():
    udp.send(b'y')
    return udp.recv(1)
told('asked', asked)
next_step('goes')
told('datagram', asked)
told('connect', connected)
if sys.argv[1] == 'down':
    keep.sendall(b'later')
    dies.sendall(b'x')
    told('user time-out', lambda: dies.recv(1))
    next_step('comes')
    told('later', lambda: keep.recv(5))
    told('datagram', asked)
    told('connect', lambda: connected() and 'ok')
else:
    told('write', lambda: keep.sendall(b'later'))
next_step('done')
";

/// Hundredths of a second that a process has worked.
fn worked(pid: u32) -> u64 {
    let words = [11, 12].map(|word| stat(pid, word).expect("it runs"));
    words.iter().map(|word| word.parse::<u64>().unwrap()).sum()
}

/// A packet of 1300 bytes at most, whoever sends it.
const SMALL: &str = "
import socket
s = socket.create_connection(('10.56.0.2', 7000))
s.sendall(b'x' * 5000)
got = 0
while got < 5000:
    got += len(s.recv(10000))
print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), flush=True)
";

/// What the kernel was told, and what it sees.
const MEASURES: &str = "
import socket, sys
listener = socket.socket()
listener.bind(('10.56.0.2', 7000))
listener.listen()
print('ready', flush=True)
end = listener.accept()[0]
got = 0
while got < 5000:
    got += len(end.recv(10000))
end.sendall(b'y' * 5000)
print(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), flush=True)
end.recv(1)
";

#[test]
fn the_setting_of_the_mtu_holds_on_interfaces() {
    for (mtu, mss) in [("1300", "1248"), ("auto", "1448"), ("9000", "1448")] {
        let (Some(mut plain), Some(wire)) = (run(&network("mtu")), Wire::new()) else {
            return;
        };
        plain.args(["--set", &format!("mtu={mtu}")]);
        let mut far = wire.kernel();
        far.args(["python3", "-c", MEASURES]);
        let mut far = Running::start(far);
        far.expect(&["ready"]);
        let (lines, output) = Running::python(wire.run(&plain), SMALL, &[]).end();
        assert_eq!(lines, [mss], "{mtu}: {output:?}");
        far.expect(&[mss]);
        far.end();
    }
}

struct Pair {
    wire: Wire,
    far: Running,
    near: Running,
}

impl Pair {
    fn start(name: &str, how: &str) -> Option<Pair> {
        let (plain, wire) = (run(&network(name))?, Wire::new()?);
        let mut far = wire.kernel();
        far.args(["python3", "-c", ECHOES]);
        let mut far = Running::start(far);
        assert_eq!(far.line(), "ready");
        let mut near = Running::python(wire.run(&plain), GOES, &[how]);
        near.expect(&["asked b'y'", "goes"]);
        Some(Pair { wire, far, near })
    }
}

#[test]
fn an_interface_that_is_switched_off_and_on_again() {
    let Some(mut pair) = Pair::start("switched", "down") else {
        return;
    };
    pair.wire.switch("down");
    until_told();
    let carrier = pair.near.carrier();
    let before = worked(carrier);
    pair.near.go_on();
    pair.near
        .expect(&["datagram ENETUNREACH", "connect ENETUNREACH"]);
    pair.near.expect(&["user time-out ETIMEDOUT", "comes"]);
    // A second and more, in which segments were to be sent again.
    let worked = worked(carrier) - before;
    assert!(worked < 30, "{worked} hundredths of a second");
    pair.wire.switch("up");
    until_told();
    pair.near.go_on();
    pair.near
        .expect(&["later b'later'", "datagram b'y'", "connect ok", "done"]);
    let (_, output) = pair.near.end();
    assert!(output.status.success(), "{output:?}");
    pair.far.end();
}

#[test]
fn an_interface_that_is_deleted() {
    let Some(mut pair) = Pair::start("deleted", "deleted") else {
        return;
    };
    pair.wire.cut();
    until_told();
    let carrier = pair.near.carrier();
    let before = worked(carrier);
    pair.near.go_on();
    pair.near
        .expect(&["datagram ENETUNREACH", "connect ENETUNREACH"]);
    pair.near.expect(&["write ECONNRESET", "done"]);
    std::thread::sleep(Duration::from_millis(500));
    let worked = worked(carrier) - before;
    assert!(worked < 20, "{worked} hundredths of a second");
    let (_, output) = pair.near.end();
    assert!(output.status.success(), "{output:?}");
    pair.far.end();
}

/// What the kernel tells about an interface, it tells the carrier at once; that is to be awake by
/// then.
fn until_told() {
    std::thread::sleep(Duration::from_millis(300));
}
