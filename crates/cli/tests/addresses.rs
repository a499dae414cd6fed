//! `gannet run --addr`: addresses that others have are refused before the program starts.

mod running;

use std::process::{Command, Output, Stdio};

use running::wire::Wire;
use running::{Running, gannet, network, run};

/// `gannet run -- true` at `address` on our interface of the wire.
fn tried(wire: &Wire, name: &str, address: &str) -> Option<Output> {
    let mut command = Wire::inside(&wire.ours, &run(&network(name))?);
    let link = format!("packet:{}", wire.near);
    command.args(["--link", &link, "--addr", address, "--", "true"]);
    command.stdin(Stdio::null());
    Some(command.output().expect("it starts"))
}

/// What was said, in its three lines.
fn refused(output: &Output) -> [String; 3] {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{text}");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let [what, why, hint]: [String; 3] = lines.try_into().unwrap_or_else(|_| panic!("{text}"));
    assert!(
        what.starts_with("error: cannot ") && hint.starts_with("try: "),
        "{text}"
    );
    [what, why, hint]
}

/// A connection of the kernel's, asked for each line of the input whether it lives.
const OURS: &str = "
import socket, sys
s = socket.create_connection(('10.56.0.2', 7000))
s.settimeout(20)
for line in sys.stdin:
    s.sendall(b'x')
    print('lives', s.recv(1) == b'x', flush=True)
";

const ECHOES: &str = "
import socket
listener = socket.create_server(('10.56.0.2', 7000))
print('ready', flush=True)
end = listener.accept()[0]
while data := end.recv(100):
    end.sendall(data)
";

#[test]
fn the_kernels_own_address_is_refused_and_its_connections_live() {
    let Some(wire) = Wire::new() else { return };
    wire.address();
    let mut far = wire.kernel();
    far.args(["python3", "-c", ECHOES]);
    let mut far = Running::start(far);
    far.expect(&["ready"]);
    let mut near = Command::new("python3");
    near.args(["-c", OURS]);
    let mut near = Running::start(Wire::inside(&wire.ours, &near));
    near.go_on();
    near.expect(&["lives True"]);
    // One of another interface resets as well.
    for address in ["10.56.0.1/24", "127.0.0.1/8"] {
        let Some(output) = tried(&wire, "own", address) else {
            return;
        };
        let [_, why, _] = refused(&output);
        assert!(why.contains("kernel") || why.contains("loopback"), "{why}");
    }
    near.go_on();
    near.expect(&["lives True"]);
    near.end();
    far.end();
}

#[test]
fn a_neighbours_address_is_refused() {
    let Some(wire) = Wire::new() else { return };
    assert!(wire.far("addr add fd00:56::2/64 nodad dev"));
    for address in ["10.56.0.2/24", "fd00:56::2/64"] {
        let Some(output) = tried(&wire, "neighbour", address) else {
            return;
        };
        let [_, why, _] = refused(&output);
        assert!(why.contains(address.split_once('/').unwrap().0), "{why}");
        assert!(why.contains("station"), "{why}");
    }
}

#[test]
fn the_address_of_another_program_on_the_interface_is_refused() {
    let (Some(plain), Some(wire)) = (run(&network("first")), Wire::new()) else {
        return;
    };
    let waits = "import sys\nprint('here', flush=True)\nsys.stdin.read()";
    let mut first = Running::python(wire.run(&plain), waits, &[]);
    first.expect(&["here"]);
    // Of another network, too: the link is the same.
    let output = tried(&wire, "second", "10.56.0.1/24").expect("it could before");
    let [_, why, _] = refused(&output);
    assert!(
        why.contains(&format!("process {}", first.carrier())),
        "{why}"
    );
    let other = tried(&wire, "second", "10.56.0.3/24").expect("it could before");
    assert!(other.status.success(), "{other:?}");
    first.end();
    let again = tried(&wire, "second", "10.56.0.1/24").expect("it could before");
    assert!(again.status.success(), "{again:?}");
}

#[test]
fn addresses_that_no_host_can_have_are_refused() {
    for (address, part) in [
        ("10.0.0.0/24", "network"),
        ("10.0.0.255/24", "broadcast"),
        ("10.0.0.1/0", "prefix"),
        ("224.0.0.1/24", "multicast"),
        ("255.255.255.255/8", "broadcast"),
        ("fd00::/64", "anycast"),
    ] {
        let output = gannet()
            .args(["run", "--addr", address, "--", "true"])
            .output();
        let [_, why, _] = refused(&output.expect("it starts"));
        assert!(why.contains(part), "{address}: {why}");
    }
}
