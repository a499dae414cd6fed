//! Carried programs that reach hosts behind a router, and the addresses that they see of
//! themselves.

mod running;

use std::process::Command;

use running::wire::Wire;
use running::{Running, network, run, until};

/// A network behind the kernel's side of the wire, which leads there: 10.57.0.2 and fd00:57::2.
struct Beyond(String);

impl Beyond {
    fn new(wire: &Wire) -> Beyond {
        let name = wire.theirs.replace("gwt", "gwb");
        let (router, inner, outer) = (&wire.theirs, format!("i{name}"), format!("o{name}"));
        for words in [
            format!("netns add {name}"),
            format!("link add {inner} netns {router} type veth peer name {outer} netns {name}"),
            format!("-n {router} addr add 10.57.0.1/24 dev {inner}"),
            format!("-n {router} addr add fd00:57::1/64 nodad dev {inner}"),
            format!("-n {router} addr add fd00:56::2/64 nodad dev {}", wire.far),
            format!("-n {router} link set {inner} up"),
            format!("-n {name} addr add 10.57.0.2/24 dev {outer}"),
            format!("-n {name} addr add fd00:57::2/64 nodad dev {outer}"),
            format!("-n {name} link set {outer} up"),
            format!("-n {name} route add default via 10.57.0.1"),
            format!("-n {name} -6 route add default via fd00:57::1"),
        ] {
            assert!(running::wire::ip(&words), "{words}");
        }
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            let write = format!("echo 1 > /proc/sys/net/{setting}");
            let mut command = wire.kernel();
            assert!(
                command
                    .args(["sh", "-c", &write])
                    .status()
                    .unwrap()
                    .success()
            );
        }
        Beyond(name)
    }

    /// Answers one connection with the address that it comes from.
    fn serve(&self) -> Running {
        let mut server = Command::new("python3");
        server.args(["-c", NAMES]);
        let mut server = Running::start(Wire::inside(&self.0, &server));
        server.expect(&["ready"]);
        server
    }
}

impl Drop for Beyond {
    fn drop(&mut self) {
        running::wire::ip(&format!("netns del {}", self.0));
    }
}

const NAMES: &str = "
import socket
listener = socket.socket(socket.AF_INET6)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('::', 7000))
listener.listen()
print('ready', flush=True)
end, peer = listener.accept()
end.sendall(peer[0].replace('::ffff:', '').encode())
end.close()
";

const ASKS: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], 7000), 20)
print(s.recv(100).decode(), flush=True)
";

/// `gannet run` with these words over the wire.
fn over(wire: &Wire, name: &str, words: &[&str]) -> Option<Command> {
    let mut command = Wire::inside(&wire.ours, &run(&network(name))?);
    let link = format!("packet:{}", wire.near);
    command.args(["--link", &link]).args(words);
    Some(command)
}

fn told(command: Command, to: &str) -> Vec<String> {
    let (lines, output) = Running::python(command, ASKS, &[to]).end();
    assert!(output.status.success(), "{output:?}");
    lines
}

#[test]
fn a_gateway_leads_to_other_networks() {
    let Some(wire) = Wire::new() else { return };
    let beyond = Beyond::new(&wire);
    for (address, gateway, to) in [
        ("10.56.0.1/24", "10.56.0.2", "10.57.0.2"),
        ("fd00:56::1/64", "fd00:56::2", "fd00:57::2"),
    ] {
        let words = ["--addr", address, "--gateway", gateway];
        let Some(command) = over(&wire, "gateway", &words) else {
            return;
        };
        let server = beyond.serve();
        let own = address.split_once('/').unwrap().0;
        assert_eq!(told(command, to), [own]);
        server.end();
    }
}

#[test]
fn the_gateway_of_the_kernel_is_taken_if_it_is_asked_for() {
    let Some(wire) = Wire::new() else { return };
    let beyond = Beyond::new(&wire);
    for words in [
        "addr add 10.56.0.9/24 dev",
        "route add default via 10.56.0.2 dev",
    ] {
        assert!(wire.near(words), "{words}");
    }
    let words = ["--addr", "10.56.0.1/24", "--gateway", "link"];
    let Some(command) = over(&wire, "kernels", &words) else {
        return;
    };
    let server = beyond.serve();
    assert_eq!(told(command, "10.57.0.2"), ["10.56.0.1"]);
    server.end();
    // Otherwise the kernel leads there.
    let command = over(&wire, "kernels", &["--addr", "10.56.0.1/24"]).expect("it could before");
    let server = beyond.serve();
    assert_eq!(told(command, "10.57.0.2"), ["10.56.0.9"]);
    server.end();
}

/// The kernel's own addresses stay the kernel's, whatever the default route says.
#[test]
fn a_default_route_does_not_lead_to_the_kernels_own_addresses() {
    let Some(wire) = Wire::new() else { return };
    assert!(running::wire::ip(&format!(
        "-n {} addr add 10.58.0.1/24 dev lo",
        wire.ours
    )));
    let mut server = Command::new("python3");
    server.args(["-c", NAMES]);
    let mut server = Running::start(Wire::inside(&wire.ours, &server));
    server.expect(&["ready"]);
    let words = ["--addr", "10.56.0.1/24", "--gateway", "10.56.0.2"];
    let Some(command) = over(&wire, "own", &words) else {
        return;
    };
    assert_eq!(told(command, "10.58.0.1"), ["10.58.0.1"]);
    server.end();
}

/// A router's advertisement (RFC 4861), each second.
const ADVERTISES: &str = "
import socket, struct, sys, time
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
index = socket.if_nametoindex(sys.argv[1])
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
print('ready', flush=True)
while True:
    s.sendto(struct.pack('!BBHBBHII', 134, 0, 0, 64, 0, 1800, 0, 0), ('ff02::1', 0, 0, index))
    time.sleep(0.5)
";

#[test]
fn a_router_that_advertises_itself_is_taken() {
    let Some(wire) = Wire::new() else { return };
    let beyond = Beyond::new(&wire);
    let words = ["--addr", "fd00:56::1/64", "--gateway", "link"];
    let Some(command) = over(&wire, "advertised", &words) else {
        return;
    };
    let mut router = wire.kernel();
    router.args(["python3", "-c", ADVERTISES, &wire.far]);
    let mut router = Running::start(router);
    router.expect(&["ready"]);
    let server = beyond.serve();
    let lines = told(command, "fd00:57::2");
    router.child.kill().expect("it runs");
    assert_eq!(lines, ["fd00:56::1"]);
    router.end();
    server.end();
}

/// dnsmasq gives addresses on the wire, and the kernel of our side has one of them.
#[test]
fn programs_and_the_kernel_get_leases_of_their_own_and_a_gateway() {
    let Some(wire) = Wire::new() else { return };
    let beyond = Beyond::new(&wire);
    let directory = tempfile::tempdir().expect("a directory");
    let leases = directory.path().join("leases");
    // The kernel's side got the first address by its hardware address, without an identifier.
    let mac = wire.mac();
    std::fs::write(&leases, format!("4000000000 {mac} 10.56.0.100 * *\n")).unwrap();
    assert!(wire.near("addr add 10.56.0.100/24 dev"));
    let mut server = wire.kernel();
    server.args([
        "/usr/sbin/dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
    ]);
    server.args([
        "--port=0",
        "--bind-interfaces",
        "--user=root",
        "--pid-file=",
    ]);
    server.args(["--dhcp-range=10.56.0.100,10.56.0.110,255.255.255.0,1h"]);
    server.args([
        "--dhcp-option=option:router,10.56.0.2",
        "--dhcp-authoritative",
        "--no-ping",
    ]);
    server.arg(format!("--interface={}", wire.far));
    server.arg(format!("--dhcp-leasefile={}", leases.display()));
    if !std::path::Path::new("/usr/sbin/dnsmasq").exists() {
        eprintln!("skipped: no dnsmasq");
        return;
    }
    let mut server = Running::start(server);
    let waits = "import sys\nprint('here', flush=True)\nsys.stdin.readline()";
    let start = || {
        let command = over(&wire, "lease", &["--addr", "dhcp"])?;
        let mut program = Running::python(command, waits, &[]);
        program.expect(&["here"]);
        Some(program)
    };
    let Some(first) = start() else { return };
    let second = start().expect("it could before");
    let given = || {
        let text = std::fs::read_to_string(&leases).unwrap_or_default();
        let words = text
            .lines()
            .filter_map(|line| line.split(' ').nth(2).map(str::to_owned));
        words.collect::<Vec<_>>()
    };
    until("three leases", || given().len() == 3);
    let before = given();
    assert_eq!(
        before.iter().filter(|ip| *ip == "10.56.0.100").count(),
        1,
        "{before:?}"
    );
    first.end();
    second.end();
    // The same address again, and the router that leads on.
    let far = beyond.serve();
    let command = over(&wire, "lease", &["--addr", "dhcp"]).expect("it could before");
    let own = told(command, "10.57.0.2");
    assert!(
        before.contains(&own[0]) && own[0] != "10.56.0.100",
        "{own:?} {before:?}"
    );
    assert_eq!(given().len(), 3, "no fourth");
    far.end();
    server.child.kill().expect("it runs");
    server.end();
}

/// `getifaddrs` through ctypes, and the requests of netdevice(7).
const LISTS: &str = "
import ctypes, fcntl, socket, struct, sys
class Entry(ctypes.Structure):
    pass
Entry._fields_ = [('next', ctypes.POINTER(Entry)), ('name', ctypes.c_char_p),
    ('flags', ctypes.c_uint), ('address', ctypes.c_void_p), ('mask', ctypes.c_void_p),
    ('other', ctypes.c_void_p), ('data', ctypes.c_void_p)]
c = ctypes.CDLL(None)
def text(place):
    if not place:
        return '-'
    family, = struct.unpack('H', ctypes.string_at(place, 2))
    if family == socket.AF_INET:
        return socket.inet_ntop(family, ctypes.string_at(place + 4, 4))
    if family == socket.AF_INET6:
        return socket.inet_ntop(family, ctypes.string_at(place + 8, 16))
    return '-'
for _ in range(100):
    first = ctypes.POINTER(Entry)()
    assert c.getifaddrs(ctypes.byref(first)) == 0
    found, at = [], first
    while at:
        found.append((at[0].name.decode(), text(at[0].address), text(at[0].mask),
            text(at[0].other) if at[0].flags & 2 else '-', at[0].flags & 1))
        at = at[0].next
    c.freeifaddrs(first)
c.freeifaddrs(None)
name, own = sys.argv[1:3]
print(*[entry for entry in found if entry[1] == own], flush=True)
print('127.0.0.1' in [entry[1] for entry in found], flush=True)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def configured(room):
    space = ctypes.create_string_buffer(room)
    conf = struct.pack('iP', room, ctypes.addressof(space) if room else 0)
    n, _ = struct.unpack('iP', fcntl.ioctl(s, 0x8912, conf))
    return n, [(space[i:i+16].rstrip(b'\\0').decode(), socket.inet_ntoa(space[i+20:i+24]))
        for i in range(0, n, 40)] if room else []
n, all = configured(40 * 64)
print((name, own) in all, configured(0)[0] == n, len(configured(40)[1]), flush=True)
try:
    for request in (0x8915, 0x891b):
        answer = fcntl.ioctl(s, request, struct.pack('16s24x', name.encode()))
        print(socket.inet_ntoa(answer[20:24]), flush=True)
except OSError as error:
    print(error.errno, flush=True)
t = socket.socket()
t.bind((own, 0))
print(t.getsockname()[0], flush=True)
";

#[test]
fn a_program_finds_its_address_among_the_interfaces() {
    let Some(wire) = Wire::new() else { return };
    let Some(command) = over(&wire, "listed", &["--addr", "10.56.0.1/24"]) else {
        return;
    };
    let mut program = Running::python(command, LISTS, &[&wire.near, "10.56.0.1"]);
    let entry = format!(
        "('{}', '10.56.0.1', '255.255.255.0', '10.56.0.255', 1)",
        wire.near
    );
    program.expect(&[&entry, "True", "True True 1"]);
    program.expect(&["10.56.0.1", "255.255.255.0", "10.56.0.1"]);
    program.end();
    // In a network of programs it stands beside the loopback addresses.
    let mut command = Wire::inside(
        &wire.ours,
        &run(&network("listed")).expect("it could before"),
    );
    command.args(["--addr", "10.59.0.1/16"]);
    let mut program = Running::python(command, LISTS, &["lo", "10.59.0.1"]);
    program.expect(&[
        "('lo', '10.59.0.1', '255.255.0.0', '-', 1)",
        "True",
        "True True 1",
    ]);
    program.expect(&["127.0.0.1", "255.0.0.0", "10.59.0.1"]);
    program.end();
}

/// Asks the kernel over netlink for all addresses, for those of IPv4, and in pieces; with a look at
/// the length of each answer before it is taken.
const DUMPS: &str = "
import select, socket, struct
def dump(family, peek):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.sendto(struct.pack('IHHIIB3x', 17, 22, 0x301, 77, 0, family), (0, 0))
    found = []
    while True:
        assert select.select([s], [], [], 9)[0], 'the end is missing'
        if peek:
            n = len(s.recv(1 << 16, socket.MSG_PEEK))
            data, who = s.recvfrom(1 << 16)
            assert n == len(data) and who == (0, 0), (n, len(data), who)
        else:
            data, _, flags, who = s.recvmsg(1 << 16)
            assert flags == 0 and who == (0, 0)
        while data:
            n, kind, flags, seq, pid = struct.unpack_from('IHHII', data)
            assert (seq, pid) == (77, s.getsockname()[0])
            if kind == 3:
                s.setblocking(False)
                try:
                    print('more', s.recv(99))
                except BlockingIOError:
                    return found
            rest = data[24:n]
            while rest:
                m, what = struct.unpack_from('HH', rest)
                if what == 1:
                    found.append(socket.inet_ntop(data[16], rest[4:m]))
                rest = rest[(m + 3) & ~3:]
            data = data[(n + 3) & ~3:]
for family in (0, 2, 10):
    print(dump(family, family != 2), flush=True)
";

#[test]
fn a_program_that_asks_the_kernel_for_addresses_has_its_own_among_them() {
    let Some(wire) = Wire::new() else { return };
    let Some(command) = over(&wire, "asks", &["--addr", "10.56.0.1/24"]) else {
        return;
    };
    let (lines, output) = Running::python(command, DUMPS, &[]).end();
    let [all, four, six] = &lines[..] else {
        panic!("{output:?}");
    };
    let has = |line: &str, address: &str| line.contains(&format!("'{address}'"));
    assert!(has(all, "10.56.0.1") && has(all, "127.0.0.1"), "{all}");
    assert_eq!(four, "['127.0.0.1', '10.56.0.1']");
    assert!(has(six, "::1") && !has(six, "10.56.0.1"), "{six}");
}
