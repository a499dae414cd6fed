//! Three network namespaces in a row: two hosts with an impaired wire between them.
//!
//! ```text
//! first: kernel .1, Gannet .11 -- veth -- middle: the wire's process -- veth -- second: .2, .12
//! ```
//!
//! As in [`super::namespaces`], each namespace lives as long as a worker that holds it. Kernel and
//! Gannet share the interface at each end, so that both can be sent through one bottleneck.

use std::path::PathBuf;

use super::namespaces::{INTERFACES, gannet_address, kernel_address};
use super::workers::{Launcher, Spot, Worker};
use crate::error::Problem;
use crate::role::{Attachment, Job, Load, PeerKind, Report, Side, Tcp, Traffic, WireJob, Workload};
use crate::wire::WireReport;

/// Seconds that the namespaces may live: longer than any run of the whole table.
const LIFETIME: f64 = 4.0 * 3600.0;
/// Seconds that connecting and stalls may take on a bad path before a worker is given up.
const SLACK: f64 = 90.0;
/// The wire's interfaces, in the middle.
const MIDDLE: [&str; 2] = ["left", "right"];

/// The three namespaces. Dropping them removes them.
#[derive(Debug)]
pub struct Impaired {
    launcher: Launcher,
    hosts: [Worker; 2],
    middle: Worker,
}

/// What a run over the wire gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Bits a second that the server read.
    pub goodput: f64,
    /// What the server says.
    pub server: Report,
}

/// A stream from a host in the first namespace to one in the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peers {
    /// The sender's stack.
    pub client: PeerKind,
    /// The receiver's stack.
    pub server: PeerKind,
}

impl Peers {
    /// The same stack at both ends.
    pub const fn both(peer: PeerKind) -> Self {
        Peers {
            client: peer,
            server: peer,
        }
    }
}

impl Impaired {
    /// Makes the namespaces, with an Ethernet MTU of 1,500, all offloads on, no IPv6, and the
    /// kernel's buffers as in `tcp`.
    ///
    /// # Errors
    /// Without the privilege or `ip`.
    pub fn make(launcher: &Launcher, tcp: &Tcp) -> Result<Self, Problem> {
        if !rustix::process::geteuid().is_root() {
            let (what, why) = (
                "cannot make namespaces and a wire between them",
                "this needs root",
            );
            return Err(Problem::new(what, why, "sudo gannet bench wire"));
        }
        let hold = || {
            let mut holder = launcher.start(Spot::default(), LIFETIME, Job::HoldNamespace)?;
            holder.ready()?;
            Ok::<Worker, Problem>(holder)
        };
        let made = Self {
            launcher: launcher.clone(),
            hosts: [hold()?, hold()?],
            middle: hold()?,
        };
        let middle = made.middle.id();
        made.configure(middle, &[write("net/ipv6/conf/default/disable_ipv6", "1")])?;
        for (index, host) in made.hosts.iter().enumerate() {
            let (Some(near), Some(far)) = (INTERFACES.get(index), MIDDLE.get(index)) else {
                continue;
            };
            let mut commands = kernel_settings(tcp);
            commands.extend([
                words(&format!(
                    "ip link add name {near} type veth peer name {far} netns {middle}"
                )),
                words(&format!(
                    "ip address add {}/24 dev {near}",
                    kernel_address(index)
                )),
                words(&format!("ip link set {near} up")),
            ]);
            made.configure(host.id(), &commands)?;
            made.configure(middle, &[words(&format!("ip link set {far} up"))])?;
        }
        Ok(made)
    }

    /// Puts the wire in its place.
    ///
    /// # Errors
    /// What its worker says.
    pub fn wire(
        &self,
        models: [String; 2],
        seed: u64,
        seconds: f64,
        trace: Option<PathBuf>,
    ) -> Result<Wire, Problem> {
        let spot = Spot {
            namespace: Some(self.middle.id()),
            ..Spot::default()
        };
        let job = Job::Wire(WireJob {
            interfaces: MIDDLE.map(str::to_owned),
            models,
            seed,
            trace,
        });
        let mut worker = self.launcher.start(spot, seconds + 3.0 * SLACK, job)?;
        worker.ready()?;
        worker.go()?;
        worker.ready()?;
        Ok(Wire(worker))
    }

    /// Runs streams side by side over the wire that is there.
    ///
    /// # Errors
    /// What a worker says.
    pub fn flows(
        &self,
        peers: &[Peers],
        tcp: &Tcp,
        load: Load,
        cut_off: bool,
    ) -> Result<Vec<Flow>, Problem> {
        let mut pairs = Vec::new();
        for peers in peers {
            let start = |side: Side, remote| {
                let index = side as usize;
                let peer = match side {
                    Side::Client => peers.client,
                    Side::Server => peers.server,
                };
                let job = Job::Traffic(traffic(peer, side, remote, tcp, load, cut_off));
                let spot = Spot {
                    namespace: self.hosts.get(index).map(Worker::id),
                    urgent: true,
                    cpu: None,
                };
                let deadline = load.warm_up + load.seconds + SLACK;
                self.launcher.start(spot, deadline, job)
            };
            let mut server = start(Side::Server, None)?;
            let at = server.listening()?;
            pairs.push((start(Side::Client, Some(at))?, server));
        }
        for (client, server) in &mut pairs {
            client.ready()?;
            server.ready()?;
        }
        for (client, server) in &mut pairs {
            server.go()?;
            client.go()?;
        }
        let mut flows = Vec::new();
        for (client, server) in &mut pairs {
            if !cut_off {
                let sent = client.report()?;
                let flow = Flow::of(server.report()?);
                same(&sent, &flow.server)?;
                flows.push(flow);
                continue;
            }
            flows.push(Flow::of(server.report()?));
        }
        Ok(flows)
    }

    fn configure(&self, namespace: u32, commands: &[Vec<String>]) -> Result<(), Problem> {
        let spot = Spot {
            namespace: Some(namespace),
            ..Spot::default()
        };
        let job = Job::Commands(commands.to_vec());
        self.launcher.start(spot, 10.0, job)?.ready()
    }
}

impl Flow {
    fn of(server: Report) -> Self {
        Flow {
            goodput: server.bytes as f64 * 8.0 / server.seconds,
            server,
        }
    }
}

/// A wire at work. Dropping it ends it.
#[derive(Debug)]
pub struct Wire(Worker);

impl Wire {
    /// Takes it away: what happened on it.
    ///
    /// # Errors
    /// When its worker is gone.
    pub fn end(mut self) -> Result<WireReport, Problem> {
        self.0.go()?;
        self.0.wire_report()
    }
}

fn traffic(
    peer: PeerKind,
    side: Side,
    remote: Option<std::net::SocketAddr>,
    tcp: &Tcp,
    load: Load,
    cut_off: bool,
) -> Traffic {
    let index = side as usize;
    let gannet = peer == PeerKind::Gannet;
    let interface = INTERFACES.get(index).copied().unwrap_or_default();
    Traffic {
        peer,
        workload: Workload::TcpStream,
        side,
        local: match gannet {
            true => gannet_address(index),
            false => kernel_address(index),
        },
        attachment: gannet.then(|| Attachment::Interface(interface.to_owned())),
        remote,
        load,
        tcp: Some(tcp.clone()),
        cut_off,
    }
}

/// What one side sent is what the other side got.
fn same(client: &Report, server: &Report) -> Result<(), Problem> {
    if (client.all_bytes, client.hash) == (server.all_bytes, server.hash) {
        return Ok(());
    }
    let why = format!(
        "{} bytes sent, {} received, or their hashes differ",
        client.all_bytes, server.all_bytes
    );
    let hint = "this is a serious mistake; report it with the environment record";
    Err(Problem::new(
        "a stream did not arrive as it was sent",
        why,
        hint,
    ))
}

fn kernel_settings(tcp: &Tcp) -> Vec<Vec<String>> {
    let Tcp { buffer, .. } = tcp;
    vec![
        // Allowed everywhere, and without traces (pacing) in what is chosen for a connection.
        write("net/ipv4/tcp_congestion_control", "reno"),
        write("net/ipv4/tcp_rmem", &format!("4096 131072 {buffer}")),
        write("net/ipv4/tcp_wmem", &format!("4096 16384 {buffer}")),
        // What one run learned of the path must not help the next one.
        write("net/ipv4/tcp_no_metrics_save", "1"),
        write("net/ipv6/conf/default/disable_ipv6", "1"),
    ]
}

/// Sets a kernel setting of the namespace.
fn write(setting: &str, value: &str) -> Vec<String> {
    let script = format!("echo '{value}' > /proc/sys/{setting}");
    ["sh".to_owned(), "-c".to_owned(), script].into()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}
