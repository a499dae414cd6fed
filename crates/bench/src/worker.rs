//! The process that plays one [`Role`]. It lives no longer than its parent, its input, its job or
//! its deadline.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Stdin, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CpuSet, LinkNameSpaceType};

use crate::error::Problem;
use crate::in_process;
use crate::limits::{cache_line, ring, sys};
use crate::peer::gannet::Gannet;
use crate::peer::kernel::Kernel;
use crate::peer::{DatagramPeer, StreamPeer};
use crate::role::{
    Event, Job, Limit, LimitJob, PeerKind, Report, Role, Side, Traffic, WireJob, Workload,
};
use crate::wire::{Joint, Models, Trace};
use crate::workload::{tcp_flow, tcp_idle, tcp_round_trip, tcp_stream, udp_round_trip, udp_stream};

/// The niceness of a worker that goes before ordinary programs.
const MOST_URGENT: i32 = -20;
/// Exit status of a worker that outlived its deadline.
const LATE: i32 = 124;
/// Exit status of a worker whose parent closed the pipe.
const ABANDONED: i32 = 3;

/// The whole life of a worker: role in, events out.
pub fn main() -> ExitCode {
    match play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = say(&Event::Failed(problem));
            ExitCode::FAILURE
        }
    }
}

fn play() -> Result<(), Problem> {
    // Before anything else, so that there is no moment in which this process could be left behind.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| broken("tie a worker to its parent", error))?;
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input
        .read_line(&mut line)
        .map_err(|error| broken("read a worker's role", error))?;
    let role: Role = serde_json::from_str(&line).map_err(|error| {
        let hint = "use `gannet compare` or `gannet bench`, which start workers themselves";
        Problem::new("this is not a role", error, hint)
    })?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if parent != i32::try_from(role.parent).ok() {
        return Err(Problem::new(
            "a worker lost its parent",
            "it ended",
            "run it again",
        ));
    }
    let (sender, receiver) = sync_channel(1);
    let until = Instant::now() + Duration::from_secs_f64(role.deadline.clamp(0.0, 86_400.0));
    std::thread::spawn(move || listen_to_parent(input, &sender, until));
    settle(&role)?;
    match run(&role.job, &receiver)? {
        Some(report) => say(&Event::Report(report)),
        None => Ok(()),
    }
}

/// Passes `go` on; ends the process when the parent goes away or the deadline passes.
fn listen_to_parent(mut input: BufReader<Stdin>, go: &SyncSender<()>, until: Instant) {
    loop {
        if input.buffer().is_empty() && !readable(&input, until) {
            std::process::exit(LATE);
        }
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(count) if count > 0 => {
                let _ = go.try_send(());
            }
            _ => std::process::exit(ABANDONED),
        }
    }
}

fn readable(input: &BufReader<Stdin>, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else {
            return false;
        };
        let mut descriptors = [PollFd::from_borrowed_fd(
            input.get_ref().as_fd(),
            PollFlags::IN,
        )];
        match rustix::event::poll(&mut descriptors, Some(&timeout)) {
            Ok(0) => return false,
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

/// Takes its place: the namespace first, then the core.
fn settle(role: &Role) -> Result<(), Problem> {
    if let Some(holder) = role.namespace {
        File::open(format!("/proc/{holder}/ns/net"))
            .and_then(|file| {
                let kind = Some(LinkNameSpaceType::Network);
                Ok(rustix::thread::move_into_link_name_space(
                    file.as_fd(),
                    kind,
                )?)
            })
            .map_err(|error| broken("enter a network namespace", error))?;
    }
    if role.urgent {
        go_first().map_err(|error| broken("run before other programs", error))?;
    }
    if let Some(cpu) = role.cpu {
        let mut set = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            set.set(cpu);
        }
        rustix::thread::sched_setaffinity(None, &set)
            .map_err(|error| broken(&format!("run on core {cpu}"), error))?;
    }
    Ok(())
}

/// Goes before ordinary programs. Not in real time: of a core that waits by looking, as Gannet's
/// does, the kernel would take 50 ms in each second for others, and the path would stand still.
fn go_first() -> io::Result<()> {
    rustix::process::setpriority_process(None, MOST_URGENT)?;
    // Niceness counts only within a session's group, where the kernel makes such groups: a session
    // of its own, and the group as nice. (The leader of a process group cannot begin a session.)
    let parents = rustix::process::getpgid(rustix::process::getppid())?;
    rustix::process::setpgid(None, Some(parents))?;
    rustix::process::setsid()?;
    match std::fs::write("/proc/self/autogroup", MOST_URGENT.to_string()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn run(job: &Job, go: &Receiver<()>) -> Result<Option<Report>, Problem> {
    match job {
        Job::Traffic(traffic) => converse(traffic, go).map(Some),
        Job::Limit(job) => measure_limit(job, go).map(Some),
        Job::Wire(job) => carry(job, go).map(|()| None),
        Job::InProcess(job) => {
            ready(go)?;
            in_process::run(job).map(Some)
        }
        Job::HoldNamespace => {
            sys::new_network_namespace()
                .map_err(|error| broken("make a network namespace", error))?;
            stop_forwarding()?;
            command(&["ip", "link", "set", "lo", "up"].map(str::to_owned))?;
            ready(go)?;
            Ok(None)
        }
        Job::Commands(commands) => {
            commands.iter().try_for_each(|words| command(words))?;
            ready(go)?;
            Ok(None)
        }
    }
}

/// One side of a conversation over the stack that the role names.
fn converse(traffic: &Traffic, go: &Receiver<()>) -> Result<Report, Problem> {
    let kernel = |busy, batch| {
        let peer = Kernel {
            busy,
            batch,
            congestion: traffic.tcp.as_ref().map(|tcp| tcp.congestion.clone()),
        };
        talk(&peer, traffic, go)
    };
    match traffic.peer {
        PeerKind::Kernel => kernel(false, false),
        PeerKind::KernelBusy => kernel(true, false),
        PeerKind::KernelBatch => kernel(false, true),
        PeerKind::Gannet => {
            let hint = "this is a mistake in the benchmark; report it";
            let nowhere = || Problem::new("cannot start a host", "it is attached to nothing", hint);
            let attachment = traffic.attachment.as_ref().ok_or_else(nowhere)?;
            let gannet = Gannet::new(attachment, traffic.local, traffic.tcp.as_ref())
                .map_err(|error| broken("start a host", error))?;
            talk(&gannet, traffic, go)
        }
    }
}

/// One side of a conversation over any stack.
fn talk<P: StreamPeer + DatagramPeer>(
    peer: &P,
    traffic: &Traffic,
    go: &Receiver<()>,
) -> Result<Report, Problem> {
    let what = format!("{} as {:?}", traffic.workload.name(), traffic.side).to_lowercase();
    match traffic.workload {
        Workload::TcpStream | Workload::TcpRoundTrip => talk_stream(peer, traffic, go, &what),
        Workload::TcpIdle => stay_idle(peer, traffic, go),
        Workload::UdpStream | Workload::UdpRoundTrip => talk_datagrams(peer, traffic, go, &what),
    }
}

fn talk_stream<P: StreamPeer>(
    peer: &P,
    traffic: &Traffic,
    go: &Receiver<()>,
    what: &str,
) -> Result<Report, Problem> {
    let mut stream = match traffic.side {
        Side::Server => accept(peer, &mut listen(peer, traffic)?)?,
        Side::Client => connect(peer, traffic)?,
    };
    ready(go)?;
    let (stream, load) = (&mut stream, &traffic.load);
    match (traffic.workload.is_round_trip(), traffic.side) {
        (false, Side::Client) if traffic.cut_off => tcp_flow::pour(stream, load),
        (false, Side::Server) if traffic.cut_off => tcp_flow::gauge(stream, load),
        (false, Side::Client) => tcp_stream::send(stream, load),
        (false, Side::Server) => tcp_stream::receive(stream, load),
        (true, Side::Client) => tcp_round_trip::ask(stream, load),
        (true, Side::Server) => tcp_round_trip::answer(stream, load),
    }
    .map_err(|error| broken(&format!("run {what}"), error))
}

fn stay_idle<P: StreamPeer>(
    peer: &P,
    traffic: &Traffic,
    go: &Receiver<()>,
) -> Result<Report, Problem> {
    allow_many_descriptors()?;
    let count = 0..traffic.load.size;
    let connections: Vec<P::Stream> = match traffic.side {
        Side::Server => {
            let mut listener = listen(peer, traffic)?;
            count
                .map(|_| accept(peer, &mut listener))
                .collect::<Result<_, _>>()?
        }
        Side::Client => count
            .map(|_| connect(peer, traffic))
            .collect::<Result<_, _>>()?,
    };
    ready(go)?;
    tcp_idle::hold(&connections, &traffic.load).map_err(|error| broken("stay idle", error))
}

/// A new namespace inherits forwarding. With it the kernel would send on what is meant for another
/// stack on its interface.
fn stop_forwarding() -> Result<(), Problem> {
    const SETTING: &str = "/proc/sys/net/ipv4/ip_forward";
    let is_off = std::fs::read_to_string(SETTING).is_ok_and(|text| text.trim() == "0");
    if is_off {
        return Ok(());
    }
    std::fs::write(SETTING, "0").map_err(|error| broken("stop forwarding in a namespace", error))
}

/// The kernel wants a descriptor for each connection.
fn allow_many_descriptors() -> Result<(), Problem> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: limit.maximum,
        ..limit
    };
    rustix::process::setrlimit(Resource::Nofile, limit)
        .map_err(|error| broken("raise the number of descriptors", error))
}

fn listen<P: StreamPeer>(peer: &P, traffic: &Traffic) -> Result<P::Listener, Problem> {
    let at = SocketAddr::new(traffic.local, 0);
    let (listener, at) = peer
        .listen(at)
        .map_err(|error| broken(&format!("listen at {at}"), error))?;
    say(&Event::Listening(at))?;
    Ok(listener)
}

fn accept<P: StreamPeer>(peer: &P, listener: &mut P::Listener) -> Result<P::Stream, Problem> {
    peer.accept(listener)
        .map_err(|error| broken("accept a connection", error))
}

fn connect<P: StreamPeer>(peer: &P, traffic: &Traffic) -> Result<P::Stream, Problem> {
    let to = destination(traffic)?;
    peer.connect(to)
        .map_err(|error| broken(&format!("connect to {to}"), error))
}

fn talk_datagrams<P: DatagramPeer>(
    peer: &P,
    traffic: &Traffic,
    go: &Receiver<()>,
    what: &str,
) -> Result<Report, Problem> {
    let at = SocketAddr::new(traffic.local, 0);
    let (mut socket, at) = peer
        .bind(at)
        .map_err(|error| broken(&format!("bind to {at}"), error))?;
    match traffic.side {
        Side::Server => {
            say(&Event::Listening(at))?;
            udp_stream::accept(&mut socket)
        }
        Side::Client => udp_stream::open(&mut socket, destination(traffic)?),
    }
    .map_err(|error| broken(&format!("open {what}"), error))?;
    ready(go)?;
    let (socket, load) = (&mut socket, &traffic.load);
    match (traffic.workload.is_round_trip(), traffic.side) {
        (false, Side::Client) => udp_stream::send(socket, load),
        (false, Side::Server) => udp_stream::receive(socket, load),
        (true, Side::Client) => udp_round_trip::ask(socket, load),
        (true, Side::Server) => udp_round_trip::answer(socket, load),
    }
    .map_err(|error| broken(&format!("run {what}"), error))
}

fn destination(traffic: &Traffic) -> Result<SocketAddr, Problem> {
    let hint = "this is a mistake in the benchmark; report it";
    traffic
        .remote
        .ok_or_else(|| Problem::new("cannot connect", "a client has no address", hint))
}

fn measure_limit(job: &LimitJob, go: &Receiver<()>) -> Result<Report, Problem> {
    let length = match job.limit {
        Limit::CacheLine => cache_line::MEMORY,
        Limit::RawRing => ring::MEMORY,
    };
    let memory = File::options()
        .read(true)
        .write(true)
        .open(&job.memory)
        .and_then(|file| sys::SharedMemory::map(&file, length))
        .map_err(|error| broken("share memory with the other process", error))?;
    ready(go)?;
    match job.limit {
        Limit::CacheLine => cache_line::run(&memory, job.side, &job.load),
        Limit::RawRing => ring::run(&memory, job.side, &job.load),
    }
    .map_err(|error| broken("measure a limit", error))
}

/// An impaired wire: there from the first `go` to the second.
fn carry(job: &WireJob, go: &Receiver<()>) -> Result<(), Problem> {
    let WireJob {
        interfaces: [left, right],
        models: [there, back],
        seed,
        trace,
    } = job;
    let place = |text: &String| text.parse().map_err(|error| broken("open a wire", error));
    let model = |text: &String| text.parse().map_err(|error| broken("make a wire", error));
    let models = Models {
        left_to_right: model(there)?,
        ..Models::both(model(back)?, *seed)
    };
    let (left, right) = (place(left)?, place(right)?);
    ready(go)?;
    let trace = trace.as_deref().map(Trace::create).transpose()?;
    let mut joint = Joint::new(&left, &right, models)?.with_trace(trace);
    say(&Event::Ready)?;
    joint.run(|| !matches!(go.try_recv(), Err(TryRecvError::Empty)))?;
    say(&Event::Wire(Box::new(joint.report())))
}

fn ready(go: &Receiver<()>) -> Result<(), Problem> {
    say(&Event::Ready)?;
    go.recv()
        .map_err(|error| broken("wait for the start", error))
}

fn say(event: &Event) -> Result<(), Problem> {
    let mut line = serde_json::to_string(event).map_err(|error| broken("write", error))?;
    line.push('\n');
    let mut output = io::stdout().lock();
    output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| broken("answer the parent", error))
}

fn command(words: &[String]) -> Result<(), Problem> {
    let text = words.join(" ");
    let hint = "run as root, with iproute2 installed";
    let Some((program, arguments)) = words.split_first() else {
        return Ok(());
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Problem::new(format!("cannot run `{text}`"), error, hint))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr)
        .trim()
        .replace('\n', "; ");
    Err(Problem::new(format!("`{text}` failed"), why, hint))
}

fn broken(what: &str, error: impl std::fmt::Display) -> Problem {
    let hint = "run it again with fewer other programs; if it stays, report it with this text";
    Problem::new(format!("cannot {what}"), error, hint)
}
