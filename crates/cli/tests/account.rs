//! What `gannet run -v` says at the end, of a program in Python that is carried. Needs the library
//! beside the command: `cargo build -p gannet-preload`, which `cargo xtask test` does first.

mod running;

use running::wire::Wire;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

/// `gannet run` in a network of the test's own, or none if it cannot carry anything here.
fn gannet(name: &str) -> Option<Command> {
    running::run(&running::network(&format!("account-{name}")))
}

/// What a program in Python wrote and how it ended; its words are behind the text.
fn python(mut command: Command, options: &[&str], text: &str, words: &[String]) -> Output {
    command.args(options).args(["--", "python3", "-c", text]);
    command.args(words).output().expect("it starts")
}

/// The lines of an account, words with one space between them, without what each code means.
fn account(output: &Output) -> Vec<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = errors.lines().map(plain);
    let begun = lines.skip_while(|line| line != "gannet: carried");
    begun
        .filter(|line| !line.contains("(gannet explain "))
        .collect()
}

fn address(output: &Output) -> SocketAddr {
    let text = String::from_utf8_lossy(&output.stdout);
    let port = text.lines().next().and_then(|port| port.parse().ok());
    let errors = String::from_utf8_lossy(&output.stderr);
    SocketAddr::from(([127, 0, 0, 1], port.unwrap_or_else(|| panic!("{errors}"))))
}

/// The C library asks for a user by Unix sockets of its own: they are not in the account.
const STREAMS: &str = "
import pwd, socket, sys
pwd.getpwuid(0)
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
print(listener.getsockname()[1])
ends = []
for _ in range(3):
    ends.append(socket.create_connection(listener.getsockname()))
    ends.append(listener.accept()[0])
    ends[-2].send(b'x')
    assert ends[-1].recv(1) == b'x'
kernel = ('127.0.0.1', int(sys.argv[1]))
ends += [socket.create_connection(kernel) for _ in range(2)]
pair = [socket.socket(socket.AF_UNIX) for _ in range(2)]
sys.exit(7)
";

#[test]
fn streams_of_the_program_and_of_the_kernel() {
    let Some(command) = gannet("streams") else {
        return;
    };
    let kernel = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = kernel.local_addr().unwrap().port();
    let output = python(command, &["-v", "--require"], STREAMS, &[port.to_string()]);
    let own = address(&output);
    let expected = [
        "gannet: carried".to_owned(),
        format!("listener tcp {own} 1"),
        format!("stream from a program tcp {own} 3"),
        format!("stream to a program tcp {own} 3"),
        "gannet: left to the kernel".to_owned(),
        format!("connection tcp 127.0.0.1:{port} 2 no-listener"),
        "socket - 2 unix-socket".to_owned(),
    ];
    assert_eq!(account(&output), expected);
    assert_eq!(output.status.code(), Some(7), "the program's own status");
    let errors = String::from_utf8_lossy(&output.stderr);
    for code in ["no-listener", "unix-socket"] {
        let line = errors.lines().find(|line| line.starts_with(code));
        let hint = format!("(gannet explain {code})");
        assert!(line.is_some_and(|line| line.ends_with(&hint)), "{errors}");
    }
}

const SERVER: &str = "
import socket, sys
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
listener.accept()[0].sendall(b'x')
";

#[test]
fn a_connection_from_the_kernel() {
    let Some(mut command) = gannet("kernel") else {
        return;
    };
    command.args(["-v", "--", "python3", "-c", SERVER]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let own = SocketAddr::from(([127, 0, 0, 1], line.trim().parse().unwrap()));
    let _stream = TcpStream::connect(own).unwrap();
    let output = child.wait_with_output().unwrap();
    let expected = [
        "gannet: carried".to_owned(),
        format!("listener tcp {own} 1"),
        "gannet: left to the kernel".to_owned(),
        format!("accepted connection tcp {own} 1 kernel-peer"),
    ];
    assert_eq!(account(&output), expected);
}

const DATAGRAMS: &str = "
import socket
def udp():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
local = udp()
local.bind(('127.0.0.1', 0))
print(local.getsockname()[1])
to = udp()
for _ in range(3):
    to.sendto(b'x', local.getsockname())
far = udp()
try:
    far.connect(('192.0.2.1', 9))
except OSError:
    pass
ours = udp()
ours.bind(('10.77.0.1', 4000))
listener = socket.socket()
listener.bind(('10.77.0.1', 4000))
listener.listen()
end = socket.create_connection(('10.77.0.1', 4000))
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
except OSError:
    pass
";

#[test]
fn datagrams_and_an_address_of_the_network() {
    let Some(command) = gannet("datagrams") else {
        return;
    };
    let options = ["-v", "--addr", "10.77.0.1/24"];
    let output = python(command, &options, DATAGRAMS, &[]);
    let local = address(&output);
    let expected = [
        "gannet: carried".to_owned(),
        "listener tcp 10.77.0.1:4000 1".to_owned(),
        "stream to a program tcp 10.77.0.1:4000 1".to_owned(),
        "datagrams at udp 10.77.0.1:4000 1".to_owned(),
        "gannet: left to the kernel".to_owned(),
        "datagrams to udp 192.0.2.1:9 1 address-not-ours".to_owned(),
        format!("datagrams at udp {local} 1 loopback-datagrams"),
        format!("datagrams to udp {local} 1 loopback-datagrams"),
        "socket - 1 other-family".to_owned(),
    ];
    assert_eq!(account(&output), expected);
}

#[test]
fn without_being_asked_nothing_is_said() {
    let Some(command) = gannet("silent") else {
        return;
    };
    let kernel = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = kernel.local_addr().unwrap().port();
    let output = python(command, &[], STREAMS, &[port.to_string()]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(7));
}

const DAEMON: &str = "
import os, socket, sys, time
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
if os.fork() == 0:
    for n in range(3):
        os.close(n)
    listener.accept()
    os._exit(0)
";

#[test]
fn a_program_that_goes_on() {
    let Some(command) = gannet("daemon") else {
        return;
    };
    let output = python(command, &["-v"], DAEMON, &[]);
    let own = address(&output);
    // Its end.
    let _ = TcpStream::connect(own).unwrap();
    let expected = [
        "gannet: carried".to_owned(),
        format!("listener tcp {own} 1"),
        "gannet: 1 process is still running; gannet ss lists its sockets".to_owned(),
    ];
    assert_eq!(account(&output), expected);
}

const FAR: &str = "
import socket
listener = socket.socket()
listener.bind(('10.56.0.2', 7000))
listener.listen()
print('ready', flush=True)
stream = listener.accept()[0]
port = int(stream.recv(10))
stream = socket.create_connection(('10.56.0.1', port))
stream.sendall(b'y')
stream.recv(1)
";

const NEAR: &str = "
import socket
listener = socket.socket()
listener.bind(('0.0.0.0', 4000))
listener.listen()
stream = socket.create_connection(('10.56.0.2', 7000))
stream.sendall(b'4000')
assert listener.accept()[0].recv(1) == b'y'
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(2):
    to.sendto(b'x', ('10.56.0.2', 53))
";

#[test]
fn over_an_interface() {
    let Some(command) = gannet("wire") else {
        return;
    };
    let Some(wire) = Wire::new() else {
        return;
    };
    let mut far = wire.kernel();
    far.args(["python3", "-c", FAR]).stdout(Stdio::piped());
    let mut far = far.spawn().unwrap();
    let mut line = String::new();
    let out = far.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let output = python(wire.run(&command), &["-v"], NEAR, &[]);
    if !output.status.success() {
        // It would wait for ever.
        far.kill().unwrap();
    }
    let expected = [
        "gannet: carried",
        "listener tcp 0.0.0.0:4000 1",
        "stream accepted over the carrier tcp 10.56.0.1:4000 1",
        "stream over the carrier tcp 10.56.0.2:7000 1",
        "datagrams to udp 10.56.0.2:53 1",
    ];
    assert_eq!(account(&output), expected, "{output:?}");
    assert_eq!(output.status.code(), Some(0));
    assert!(far.wait().unwrap().success());
}
