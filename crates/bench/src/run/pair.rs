//! One run of one contender: workers start, meet, go together and report; their reports become one
//! outcome.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::namespaces::{INTERFACES, Namespaces, gannet_address, kernel_address};
use super::plan::{Link, Scenario, Way};
use super::workers::{Launcher, Spot, Worker};
use crate::error::Problem;
use crate::limits::{cache_line, memory_file, ring};
use crate::role::{
    Attachment, InProcessJob, Job, Library, Limit, LimitJob, Load, PeerKind, Percentiles, Report,
    Side, Traffic, Workload,
};

/// Where runs take place.
#[derive(Debug)]
pub struct Ground {
    /// How workers are started.
    pub launcher: Launcher,
    /// The client's core and the server's.
    pub cpus: [Option<usize>; 2],
    /// The two ends of the virtual Ethernet, when there is one.
    pub namespaces: Option<Namespaces>,
}

/// What one run of one contender gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Bits a second, datagrams a second, seconds of a round trip, or cores in use (both sides).
    pub value: f64,
    /// CPU seconds of both sides for 10^9 bytes of a TCP stream, for one round trip, or for one
    /// datagram delivered.
    pub cpu_seconds: f64,
    /// Round-trip times.
    pub times: Option<Percentiles>,
    /// Datagrams sent and lost.
    pub datagrams: Option<Datagrams>,
    /// Bytes that were checked.
    pub verified_bytes: u64,
    /// Memory of the larger process, where it is measured.
    pub memory_bytes: Option<u64>,
}

/// What became of datagrams in one run, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Given to the stack.
    pub sent: u64,
    /// Arrived, counted once.
    pub delivered: u64,
    /// The difference.
    pub lost: u64,
}

/// Seconds that everything around the measured seconds may take before a worker is given up.
const SLACK: f64 = 10.0;

impl Ground {
    /// Runs one contender once.
    ///
    /// # Errors
    /// What a worker says, or what became of it.
    pub fn run(&self, scenario: &Scenario, way: Way, load: Load) -> Result<Outcome, Problem> {
        match way {
            Way::Sockets(client, server) => self.sockets(scenario, [client, server], load),
            Way::Limit(limit) => self.limit(scenario, limit, load),
            Way::Library(library) => self.library(library, load),
        }
    }

    fn sockets(
        &self,
        scenario: &Scenario,
        peers: [PeerKind; 2],
        load: Load,
    ) -> Result<Outcome, Problem> {
        let workload = scenario.workload;
        let start = |side: Side, remote| {
            let index = side as usize;
            let [client, server] = peers;
            let peer = if side == Side::Client { client } else { server };
            let (local, attachment) = place(scenario.link, index, peer);
            let job = Job::Traffic(Traffic {
                peer,
                workload,
                side,
                local,
                attachment,
                remote,
                load,
                tcp: None,
                cut_off: false,
            });
            self.start(self.spot(scenario.link, index), load, job)
        };
        let mut server = start(Side::Server, None)?;
        let remote = server.listening()?;
        let client = start(Side::Client, Some(remote))?;
        let [client, server] = finish(client, server)?;
        check(workload, &load, &client, &server)?;
        outcome(workload, &client, &server)
    }

    fn limit(&self, scenario: &Scenario, limit: Limit, load: Load) -> Result<Outcome, Problem> {
        let length = match limit {
            Limit::CacheLine => cache_line::MEMORY,
            Limit::RawRing => ring::MEMORY,
        };
        let file = memory_file(length).map_err(|error| {
            let hint = "look at the limits on memory of this user or container";
            Problem::new("cannot make shared memory", error, hint)
        })?;
        let memory = path_for_others(&file);
        let start = |side: Side| {
            let job = Job::Limit(LimitJob {
                limit,
                side,
                memory: memory.clone(),
                load,
            });
            self.start(self.spot(Link::Channel, side as usize), load, job)
        };
        let [client, server] = finish(start(Side::Client)?, start(Side::Server)?)?;
        outcome(scenario.workload, &client, &server)
    }

    fn library(&self, library: Library, load: Load) -> Result<Outcome, Problem> {
        let job = Job::InProcess(InProcessJob { library, load });
        let mut worker = self.start(self.spot(Link::InProcess, 0), load, job)?;
        worker.ready()?;
        worker.go()?;
        let report = worker.report()?;
        // One process: its CPU seconds are those of both ends.
        outcome(Workload::TcpStream, &Report::default(), &report)
    }

    fn start(&self, spot: Spot, load: Load, job: Job) -> Result<Worker, Problem> {
        self.launcher
            .start(spot, load.warm_up + load.seconds + SLACK, job)
    }

    fn spot(&self, link: Link, index: usize) -> Spot {
        let holders = self.namespaces.as_ref().map(Namespaces::processes);
        let namespace = holders.and_then(|holders| holders.get(index).copied());
        Spot {
            cpu: self.cpus.get(index).copied().flatten(),
            namespace: namespace.filter(|_| link == Link::Veth),
            urgent: false,
        }
    }
}

/// Both are ready; both go; both report: the client first.
fn finish(mut client: Worker, mut server: Worker) -> Result<[Report; 2], Problem> {
    client.ready()?;
    server.ready()?;
    server.go()?;
    client.go()?;
    let first = client.report().map_err(|problem| match server.report() {
        // One side often fails because the other did: both reasons are wanted.
        Err(other) if other.what != problem.what => Problem {
            why: format!("{}; the server: {}: {}", problem.why, other.what, other.why),
            ..problem
        },
        _ => problem,
    })?;
    Ok([first, server.report()?])
}

/// A side's address, and what a host of Gannet's is attached to.
fn place(link: Link, index: usize, peer: PeerKind) -> (IpAddr, Option<Attachment>) {
    let is_gannet = peer == PeerKind::Gannet;
    match link {
        Link::Veth if is_gannet => {
            let interface = INTERFACES.get(index).copied().unwrap_or_default();
            (
                gannet_address(index),
                Some(Attachment::Interface(interface.to_owned())),
            )
        }
        Link::Veth => (kernel_address(index), None),
        Link::Channel | Link::InProcess if is_gannet => {
            // Nobody else's network: the name has this process in it.
            let network = format!("gannet-compare-{}", std::process::id());
            let address = Ipv4Addr::new(10, 77, 0, if index == 0 { 1 } else { 2 });
            (address.into(), Some(Attachment::Channel(network)))
        }
        Link::Channel | Link::InProcess => (Ipv4Addr::LOCALHOST.into(), None),
    }
}

/// A memory file has no name; a process of the same user can open it through its owner.
fn path_for_others(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// What one side sent is what the other side got.
fn check(workload: Workload, load: &Load, client: &Report, server: &Report) -> Result<(), Problem> {
    if workload != Workload::TcpStream {
        return Ok(());
    }
    let what = "a stream did not arrive as it was sent";
    let hint = "this is a serious mistake; report it with the environment record";
    if client.all_bytes != server.all_bytes {
        let why = format!(
            "{} bytes sent, {} received",
            client.all_bytes, server.all_bytes
        );
        return Err(Problem::new(what, why, hint));
    }
    if client.hash != server.hash || load.verify != client.hash.is_some() {
        return Err(Problem::new(
            what,
            "the hashes of the two sides differ",
            hint,
        ));
    }
    Ok(())
}

fn outcome(workload: Workload, client: &Report, server: &Report) -> Result<Outcome, Problem> {
    let cpu = client.cpu_seconds + server.cpu_seconds;
    let (value, units) = match workload {
        Workload::TcpStream => (
            server.bytes as f64 * 8.0 / server.seconds,
            server.all_bytes as f64 / 1e9,
        ),
        Workload::UdpStream => (
            server.operations as f64 / server.seconds,
            server.all_operations as f64,
        ),
        Workload::TcpIdle => (cpu / client.seconds, client.seconds),
        Workload::TcpRoundTrip | Workload::UdpRoundTrip => (
            client.times.map_or(f64::NAN, |times| times.p50),
            client.all_operations as f64,
        ),
    };
    if !value.is_finite() || value <= 0.0 {
        let hint = "measure longer: --seconds 1";
        return Err(Problem::new(
            "a run gave no figure",
            "nothing was measured in it",
            hint,
        ));
    }
    let (sent, delivered) = (client.all_operations, server.all_operations);
    let datagrams = Datagrams {
        sent,
        delivered,
        lost: sent.saturating_sub(delivered),
    };
    Ok(Outcome {
        value,
        cpu_seconds: cpu / units,
        times: client.times,
        datagrams: (workload == Workload::UdpStream).then_some(datagrams),
        verified_bytes: client.verified_bytes.max(server.verified_bytes),
        memory_bytes: client.memory_bytes.max(server.memory_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(bytes: u64, operations: u64, cpu_seconds: f64) -> Report {
        Report {
            bytes,
            operations,
            seconds: 2.0,
            cpu_seconds,
            all_bytes: bytes * 2,
            all_operations: operations * 2,
            ..Report::default()
        }
    }

    #[test]
    fn goodput_is_what_the_server_saw() {
        let client = report(10_000, 10, 1.0);
        let server = report(1_000_000_000, 5, 3.0);
        let outcome = outcome(Workload::TcpStream, &client, &server).unwrap();
        assert_eq!(outcome.value, 4e9);
        assert_eq!(outcome.cpu_seconds, 2.0, "4 CPU seconds for 2 GB");
    }

    #[test]
    fn lost_is_sent_less_delivered() {
        let (client, server) = (report(0, 100, 0.5), report(0, 80, 0.3));
        let outcome = outcome(Workload::UdpStream, &client, &server).unwrap();
        assert_eq!(
            outcome.datagrams,
            Some(Datagrams {
                sent: 200,
                delivered: 160,
                lost: 40
            })
        );
        assert_eq!(outcome.value, 40.0);
        assert_eq!(outcome.cpu_seconds, 0.8 / 160.0);
    }

    #[test]
    fn damage_is_not_a_figure() {
        let load = Load {
            size: 1,
            seconds: 1.0,
            warm_up: 0.0,
            verify: true,
            bytes: None,
        };
        let one = |bytes, hash| Report {
            all_bytes: bytes,
            hash,
            ..Report::default()
        };
        let check = |a, b| check(Workload::TcpStream, &load, &a, &b).is_ok();
        assert!(check(one(5, Some(1)), one(5, Some(1))));
        assert!(!check(one(5, Some(1)), one(4, Some(1))));
        assert!(!check(one(5, Some(1)), one(5, Some(2))));
        assert!(!check(one(5, None), one(5, None)));
        assert!(outcome(Workload::TcpStream, &Report::default(), &Report::default()).is_err());
    }
}
