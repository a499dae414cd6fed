//! Every reason that `gannet run -v` has for a socket that was not carried, made to happen.

mod running;

use running::{Running, children, network, run};

/// What Python does, and the code that the account has then.
fn has(name: &str, options: &[&str], text: &str, code: &str) {
    let Some(mut command) = run(&network(name)) else {
        return;
    };
    command.args(options);
    tells(command, text, code);
}

/// The same under a command that was made ready.
fn tells(mut command: std::process::Command, text: &str, code: &str) {
    command.arg("-v");
    let program = Running::python(command, text, &[]);
    let (lines, output) = program.end();
    if lines.iter().any(|line| line == "cannot") {
        return eprintln!("skipped: {code}: not on this machine");
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = errors
        .lines()
        .find(|line| line.ends_with(&format!("  {code}")));
    assert!(line.is_some(), "{code}: {errors}");
    let explained = format!("(gannet explain {code})");
    assert!(
        errors.lines().any(|line| line.ends_with(&explained)),
        "{errors}"
    );
}

#[test]
fn calls_by_name_only() {
    let Some(mut command) = run(&network("symbols")) else {
        return;
    };
    command.env("GANNET_INTERCEPT", "symbols");
    tells(command, "pass", "names-only");
}

#[test]
fn kinds_of_sockets() {
    for (name, socket, code) in [
        ("unix", "AF_UNIX, socket.SOCK_STREAM", "unix-socket"),
        ("netlink", "AF_NETLINK, socket.SOCK_RAW", "other-family"),
        ("raw", "AF_INET, socket.SOCK_RAW, 1", "raw-socket"),
        (
            "udplite",
            "AF_INET, socket.SOCK_DGRAM, 136",
            "other-protocol",
        ),
    ] {
        let text = format!(
            "import socket\ntry: socket.socket(socket.{socket})\nexcept OSError: print('cannot')"
        );
        has(name, &[], &text, code);
    }
}

#[test]
fn places() {
    for (name, text, code) in [
        (
            "elsewhere",
            "s.settimeout(0.01); s.connect_ex(('192.0.2.1', 9))",
            "address-not-ours",
        ),
        ("nobody", "s.connect_ex(('127.0.0.1', 1))", "no-listener"),
        (
            "names",
            "u.sendto(b'x', ('127.0.0.1', 9))",
            "loopback-datagrams",
        ),
    ] {
        let text = format!(
            "import socket\ns = socket.socket()\n\
             u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             try: {text}\nexcept OSError: pass"
        );
        has(name, &[], &text, code);
    }
}

#[test]
fn too_many_streams() {
    let text = "
import resource, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
ends = []
try:
    for n in range(3000):
        ends += [socket.create_connection(listener.getsockname()), listener.accept()[0]]
except OSError as error:
    print(error)
";
    has(
        "many",
        &["--set", "streams=1024"],
        text,
        "streams-exhausted",
    );
}

#[test]
fn too_high_a_descriptor() {
    let text = "
import fcntl, resource, socket
listener = socket.socket()
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1100000, 1100000))
    high = socket.socket(fileno=fcntl.fcntl(listener, fcntl.F_DUPFD, 1050000))
    high.bind(('127.0.0.1', 0))
    high.listen()
except (OSError, ValueError):
    print('cannot')
";
    has("high", &[], text, "descriptor-too-high");
}

#[test]
fn no_carrier() {
    let Some(mut command) = run(&network("alone")) else {
        return;
    };
    command.args(["-v", "--addr", "10.84.0.1/24"]);
    command.stdin(std::process::Stdio::piped());
    let text = "
import socket, sys
print('ready', flush=True)
sys.stdin.readline()
print(socket.socket().connect_ex(('10.84.0.2', 9)))
";
    let mut program = Running::python(command, text, &[]);
    program.expect(&["ready"]);
    let carrier = program.carrier();
    let pid = rustix::process::Pid::from_raw(carrier as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let runner = program.child.id();
    running::until("it is noticed", || !children(runner).contains(&carrier));
    program.go_on();
    let (_, output) = program.end();
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = errors.lines().find(|line| line.contains("10.84.0.2:9"));
    assert!(
        line.is_some_and(|line| line.ends_with("  no-carrier")),
        "{errors}"
    );
}
