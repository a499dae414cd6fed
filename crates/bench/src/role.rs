//! What a worker is told (one JSON line on its standard input) and what it answers (JSON lines on
//! its output).
//!
//! ```text
//! parent                         worker
//!   role  ----------------------->
//!         <-----------------------  listening (a server: the port the others connect to)
//!         <-----------------------  ready
//!   go    ----------------------->  (both workers of a run get it together)
//!         <-----------------------  report, or failed
//!   end of input: the worker ends at once
//! ```

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::wire::WireReport;

/// A worker's whole instruction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Role {
    /// The process that must stay alive; the worker dies with it.
    pub parent: u32,
    /// Before ordinary programs (niceness -20, as root): this benchmark measures waits, not work.
    #[serde(default)]
    pub urgent: bool,
    /// The core to run on.
    pub cpu: Option<usize>,
    /// The process whose network namespace to enter before anything else.
    pub namespace: Option<u32>,
    /// After so many seconds the worker ends itself, whatever it is doing.
    pub deadline: f64,
    /// What to do.
    pub job: Job,
}

/// What a worker does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// One side of a conversation over sockets.
    Traffic(Traffic),
    /// One side of a limit measured over shared memory.
    Limit(LimitJob),
    /// Both ends of a conversation in this process.
    InProcess(InProcessJob),
    /// Makes a network namespace and keeps it alive: it goes when this process goes, however that
    /// happens.
    HoldNamespace,
    /// An impaired wire between two interfaces, until told to stop.
    Wire(WireJob),
    /// Runs these programs with their arguments, in order, and ends.
    Commands(Vec<Vec<String>>),
}

/// Which of the two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Connects and sends first.
    Client,
    /// Listens and answers or receives.
    Server,
}

/// Which sockets, and how they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerKind {
    /// Kernel sockets: blocking, one datagram a call.
    Kernel,
    /// Kernel sockets, non-blocking, tried again until they answer.
    KernelBusy,
    /// Kernel sockets, blocking, datagrams in batches (`sendmmsg`, `recvmmsg`).
    KernelBatch,
    /// Gannet's sockets: blocking, datagrams in batches.
    Gannet,
}

/// The four conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// One way, as fast as it goes.
    TcpStream,
    /// One request, one answer of the same size, then the next.
    TcpRoundTrip,
    /// Datagrams one way, as fast as they are taken; counted where they arrive.
    UdpStream,
    /// One datagram, one answer of the same size.
    UdpRoundTrip,
    /// Connections that carry nothing; as many as the size says.
    TcpIdle,
}

impl Workload {
    /// The name in JSON and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::TcpStream => "tcp_stream",
            Self::TcpRoundTrip => "tcp_round_trip",
            Self::UdpStream => "udp_stream",
            Self::UdpRoundTrip => "udp_round_trip",
            Self::TcpIdle => "tcp_idle",
        }
    }

    /// Whether a time is measured.
    pub fn is_round_trip(self) -> bool {
        matches!(self, Self::TcpRoundTrip | Self::UdpRoundTrip)
    }

    /// Whether smaller is better.
    pub fn is_cost(self) -> bool {
        self.is_round_trip() || self == Self::TcpIdle
    }
}

/// One side of a conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// Which sockets.
    pub peer: PeerKind,
    /// Which conversation.
    pub workload: Workload,
    /// Which side of it.
    pub side: Side,
    /// This side's address.
    pub local: IpAddr,
    /// What Gannet's host is attached to; the kernel knows its interfaces.
    pub attachment: Option<Attachment>,
    /// A client's destination.
    pub remote: Option<SocketAddr>,
    /// How much and how long.
    pub load: Load,
    /// What TCP is told; the kernel's buffers follow the settings of its namespace.
    #[serde(default)]
    pub tcp: Option<Tcp>,
    /// A stream ends for the server when its seconds are over, whatever is under way; the client
    /// goes on until it is ended.
    #[serde(default)]
    pub cut_off: bool,
}

/// Settings of TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// Congestion control, by the kernel's name.
    pub congestion: String,
    /// Most bytes of the send buffer, and of the receive buffer.
    pub buffer: u32,
}

/// An impaired wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireJob {
    /// Both interfaces, left and right.
    pub interfaces: [String; 2],
    /// What each way is like, that from left to right first.
    pub models: [String; 2],
    /// Decides every random choice.
    pub seed: u64,
    /// Where to write down what passes.
    pub trace: Option<PathBuf>,
}

/// What a host of Gannet's is attached to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// A network of processes, by its name.
    Channel(String),
    /// An interface of the kernel, by its name.
    Interface(String),
}

/// How much and how long. The same for both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes in one write, request or datagram; the number of connections when they are idle.
    pub size: usize,
    /// Seconds measured.
    pub seconds: f64,
    /// Seconds run before anything is measured.
    pub warm_up: f64,
    /// Whether every byte is generated from its position and checked.
    pub verify: bool,
    /// A stream ends after so many bytes instead, in units of `size`.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// One side of a limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LimitJob {
    /// Which limit.
    pub limit: Limit,
    /// The client sends, the server receives.
    pub side: Side,
    /// The shared memory, as a path both processes can open.
    pub memory: PathBuf,
    /// How much and how long.
    pub load: Load,
}

/// What the machine itself can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// One cache line to the other core and back.
    CacheLine,
    /// Copy into shared memory on one core, copy out on the other.
    RawRing,
}

/// Both ends in one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InProcessJob {
    /// Which library.
    pub library: Library,
    /// How much and how long.
    pub load: Load,
}

/// A TCP/IP stack that is a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// Gannet: two hosts on a channel.
    Gannet,
    /// smoltcp over a device that carries 65,535-byte packets.
    Smoltcp,
    /// smoltcp over a device that carries 1,500-byte packets.
    SmoltcpSmallPackets,
    /// smoltcp over 65,535-byte packets, with the bytes written and read in its sockets' buffers.
    SmoltcpInPlace,
    /// Gannet with blocks that are written and read in place: nothing is copied.
    GannetInPlace,
    /// No stack at all: what a stack that copies in once and out once would reach at best.
    TwoCopies,
}

/// What a worker says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A server waits here.
    Listening(SocketAddr),
    /// Everything is set up; waiting for `go`.
    Ready,
    /// Done.
    Report(Report),
    /// What happened on a wire.
    Wire(Box<WireReport>),
    /// Could not be done.
    Failed(Problem),
}

/// What one side measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Bytes moved in the measured seconds, as this side saw them.
    pub bytes: u64,
    /// Writes, round trips or datagrams in the measured seconds.
    pub operations: u64,
    /// The measured seconds.
    pub seconds: f64,
    /// CPU seconds of all threads of the worker from `go` on, polling and warm-up included.
    pub cpu_seconds: f64,
    /// Bytes moved in those CPU seconds.
    pub all_bytes: u64,
    /// Operations done in those CPU seconds.
    pub all_operations: u64,
    /// Round-trip times, where they are measured.
    pub times: Option<Percentiles>,
    /// The hash of all bytes, in verifying runs over a stream.
    pub hash: Option<u64>,
    /// Bytes compared with the pattern, one by one.
    pub verified_bytes: u64,
    /// Memory resident in the process at the end, shared memory included; where it is measured.
    pub memory_bytes: Option<u64>,
}

/// Round-trip times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of the round trips took at most this.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_survives_the_pipe() {
        let role = Role {
            parent: 1,
            urgent: false,
            cpu: Some(1),
            namespace: None,
            deadline: 2.0,
            job: Job::Traffic(Traffic {
                peer: PeerKind::KernelBusy,
                workload: Workload::TcpRoundTrip,
                side: Side::Client,
                local: [127, 0, 0, 1].into(),
                attachment: Some(Attachment::Channel("x".into())),
                remote: Some(([127, 0, 0, 1], 80).into()),
                load: Load {
                    size: 1,
                    seconds: 0.5,
                    warm_up: 0.1,
                    verify: true,
                    bytes: None,
                },
                tcp: None,
                cut_off: false,
            }),
        };
        let text = serde_json::to_string(&role).unwrap();
        assert!(!text.contains('\n'), "one line");
        let back: Role = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        assert!(text.contains(r#""peer":"kernel_busy""#), "{text}");
    }
}
