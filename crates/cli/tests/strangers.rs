//! Programs that meet for the first time while a carrier is stopped; many that come and go.

mod running;

use running::{Running, network, run};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Accepts without blocking, by an epoll set with edges. Says what it was sent, and whether any
/// call took as long as a question to a carrier that does not answer.
const SERVER: &str = "
import select, socket, sys, time
server = socket.create_server(('127.0.0.1', 0), backlog=4096)
server.setblocking(False)
print(server.getsockname()[1], flush=True)
events, streams, longest = select.epoll(), {}, 0
events.register(server, select.EPOLLIN)
events.register(0, select.EPOLLIN)
while True:
    for fd, _ in events.poll():
        begun = time.monotonic()
        if fd == 0:
            sys.exit()
        if fd == server.fileno():
            try:
                one, _ = server.accept()
                one.setblocking(False)
                events.register(one, select.EPOLLIN)
                streams[one.fileno()] = one
            except BlockingIOError:
                pass
        else:
            word = streams[fd].recv(100)
            if word:
                streams[fd].sendall(b'+' + word)
            else:
                events.unregister(fd)
                streams.pop(fd).close()
        took = time.monotonic() - begun
        if took > 1:
            print('slow', took, flush=True)
";

/// Connects each time it is told to, and says what it got.
const CLIENT: &str = "
import socket, sys
print('ready', flush=True)
for line in sys.stdin:
    one = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    print('open', flush=True)
    one.sendall(b'word')
    print(one.recv(100).decode(), flush=True)
    one.close()
";

fn start(network: &str, text: &str, words: &[&str]) -> Option<Running> {
    let mut command = run(network)?;
    command.stdin(Stdio::piped());
    Some(Running::python(command, text, words))
}

#[test]
fn s4_a_client_whose_carrier_is_stopped_delays_no_other() {
    no_other_is_delayed(&network("mute-client"), SERVER);
}

/// Any of them may take what the carrier brings.
#[test]
fn s4_nor_where_processes_share_the_listener() {
    let workers = "import os\nos.fork() and os.fork()\nevents, streams";
    let server = SERVER.replace("events, streams", workers);
    no_other_is_delayed(&network("mute-workers"), &server);
}

/// It does not reach the network's directory, and asks its carrier elsewhere.
#[test]
fn s4_nor_where_the_server_has_given_up_its_privileges() {
    let drops = "import os\nif os.getuid() == 0:\n    os.chroot('/proc')\n    os.setuid(65534)\n";
    let server = SERVER.replace("events, streams", &format!("{drops}events, streams"));
    no_other_is_delayed(&network("mute-dropped"), &server);
}

fn no_other_is_delayed(network: &str, server: &str) {
    let Some(mut server) = start(network, server, &[]) else {
        return;
    };
    let port = server.line();
    let [mut mute, mut other] = [(); 2].map(|()| start(network, CLIENT, &[&port]).unwrap());
    mute.expect(&["ready"]);
    other.expect(&["ready"]);
    kill(mute.carrier(), Signal::STOP);
    mute.go_on();
    mute.expect(&["open"]);
    for _ in 0..100 {
        other.go_on();
        other.expect(&["open", "+word"]);
    }
    kill(mute.carrier(), Signal::CONT);
    mute.expect(&["+word"]);
    mute.go_on();
    mute.expect(&["open", "+word"]);
    assert_eq!(server.end().0, Vec::<String>::new(), "no call was slow");
}

#[test]
fn s4_a_server_whose_carrier_is_stopped_serves_whom_it_knows() {
    let network = network("mute-server");
    let Some(mut server) = start(&network, SERVER, &[]) else {
        return;
    };
    let port = server.line();
    let [mut known, mut other] = [(); 2].map(|()| start(&network, CLIENT, &[&port]).unwrap());
    known.expect(&["ready"]);
    other.expect(&["ready"]);
    known.go_on();
    known.expect(&["open", "+word"]);
    kill(server.carrier(), Signal::STOP);
    other.go_on();
    other.expect(&["open"]);
    for _ in 0..100 {
        known.go_on();
        known.expect(&["open", "+word"]);
    }
    kill(server.carrier(), Signal::CONT);
    other.expect(&["+word"]);
    assert_eq!(server.end().0, Vec::<String>::new(), "no call was slow");
}

/// A process that learns of the server's program while its own carrier is stopped: it goes on with
/// what else it has to do, and sees the answer when it can.
const HALF_OPEN: &str = "
import os, select, socket, sys, time
to = ('127.0.0.1', int(sys.argv[1]))
go, child_goes = os.pipe()
if os.fork() == 0:
    os.read(go, 1)
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(to)
    one.send(b'word')
    events = select.epoll()
    events.register(one, select.EPOLLIN | select.EPOLLET)
    longest, said, polled = 0, False, 0
    while True:
        begun = time.monotonic()
        if events.poll(0.02):
            try:
                print(one.recv(100).decode(), flush=True)
                break
            except BlockingIOError:
                pass
        longest = max(longest, time.monotonic() - begun)
        polled += 1
        if not said and polled == 20:
            said = True
            print('waits', longest < 1, flush=True)
    os._exit(0)
first = socket.create_connection(to)
first.sendall(b'first')
print(first.recv(100).decode(), flush=True)
sys.stdin.readline()
os.write(child_goes, b'x')
os.wait()
";

#[test]
fn s4_an_opener_whose_carrier_is_stopped_is_not_held_up() {
    let network = network("half-open");
    let Some(mut server) = start(&network, SERVER, &[]) else {
        return;
    };
    let port = server.line();
    let mut client = start(&network, HALF_OPEN, &[&port]).unwrap();
    client.expect(&["+first"]);
    kill(client.carrier(), Signal::STOP);
    client.go_on();
    client.expect(&["waits True"]);
    kill(client.carrier(), Signal::CONT);
    client.expect(&["+word"]);
    assert!(client.end().1.status.success());
    assert!(server.end().1.status.success());
}

const CROWD: &str = "
import resource, socket, sys
count = int(sys.argv[2])
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
if most < count + 100:
    count = most - 100
all = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(count)]
print('open', flush=True)
sys.stdin.readline()
for one in all:
    one.sendall(b'x')
print(sum(one.recv(10) == b'+x' for one in all) == count, flush=True)
";

/// They wait before the first of them is accepted.
#[test]
fn s9_a_full_queue_of_a_program_that_is_not_known_is_served() {
    let network = network("queue");
    let wait = format!(
        "import resource, sys\n\
         most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
         resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n\
         {}",
        SERVER.replace("events, streams", "sys.stdin.readline()\nevents, streams")
    );
    let Some(mut server) = start(&network, &wait, &[]) else {
        return;
    };
    let port = server.line();
    let mut crowd = start(&network, CROWD, &[&port, "4000"]).unwrap();
    crowd.expect(&["open"]);
    // They are accepted faster than the carrier takes them.
    kill(server.carrier(), Signal::STOP);
    server.go_on();
    std::thread::sleep(Duration::from_millis(200));
    kill(server.carrier(), Signal::CONT);
    crowd.go_on();
    crowd.expect(&["True"]);
    assert!(server.end().1.status.success());
}

const STORM: &str = "
import select, socket, sys
print('ready', flush=True)
while not select.select([0], [], [], 0)[0]:
    try:
        socket.create_connection(('127.0.0.1', int(sys.argv[1]))).close()
    except OSError:
        pass
";

#[test]
fn s9_a_storm_of_connections_that_close_leaves_others_their_turn() {
    let network = network("storm");
    let Some(mut server) = start(&network, SERVER, &[]) else {
        return;
    };
    let port = server.line();
    let mut storms = [(); 2].map(|()| start(&network, STORM, &[&port]).unwrap());
    for storm in &mut storms {
        storm.expect(&["ready"]);
    }
    let mut client = start(&network, CLIENT, &[&port]).unwrap();
    client.expect(&["ready"]);
    for _ in 0..50 {
        client.go_on();
        client.expect(&["open", "+word"]);
    }
    for storm in storms {
        assert!(storm.end().1.status.success());
    }
    assert_eq!(server.end().0, Vec::<String>::new(), "no call was slow");
}

/// Descriptors and address space of a process.
fn cost(pid: u32) -> (usize, u64) {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count();
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages = statm.split(' ').next().unwrap().parse::<u64>().unwrap();
    (open, pages * 4096)
}

/// A shell that connects, says a word and hears the answer.
fn shell(network: &str, port: &str, then: &str) -> Command {
    let mut command = run(network).unwrap();
    let text = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf word >&3; read -rn5 word <&3\n\
         echo \"$word\"; {then}"
    );
    command.args(["--", "bash", "-c", &text]);
    command
}

#[test]
fn s6_three_hundred_programs_that_came_cost_nothing() {
    let network = network("passers-by");
    let Some(mut server) = start(&network, SERVER, &[]) else {
        return;
    };
    let port = server.line();
    let carrier = server.carrier();
    let python = running::children(server.child.id());
    let python = python.into_iter().find(|pid| *pid != carrier).unwrap();
    let visit = || {
        let output = shell(&network, &port, "").output().unwrap();
        assert_eq!(output.stdout, b"+word\n", "{output:?}");
    };
    // The last few programs stay known.
    (0..10).for_each(|_| visit());
    let before = (cost(python), cost(carrier));
    (0..300).for_each(|_| visit());
    let same = |now: (usize, u64), before: (usize, u64)| {
        now.0 <= before.0 && now.1 <= before.1 + (64 << 20)
    };
    until("it is as before", || {
        same(cost(python), before.0) && same(cost(carrier), before.1)
    });
    assert!(server.end().1.status.success());
}

/// Clients that are killed together with the carrier that would have said so. The server's program
/// has room for a few of them only.
#[test]
fn s8_two_hundred_programs_killed_with_their_carriers_leave_nothing() {
    let network = network("killed-both");
    let Some(mut command) = run(&network) else {
        return;
    };
    command.args(["--set", "streams=64"]).stdin(Stdio::piped());
    let mut server = Running::python(command, SERVER, &[]);
    let port = server.line();
    for _ in 0..200 {
        let mut client = Running::start(shell(&network, &port, "sleep 100"));
        client.expect(&["+word"]);
        let all = running::children(client.child.id());
        assert_eq!(all.len(), 2, "the program and its carrier");
        all.into_iter().for_each(|pid| kill(pid, Signal::KILL));
        client.child.wait().unwrap();
    }
    assert_eq!(server.end().0, Vec::<String>::new(), "no call was slow");
}
