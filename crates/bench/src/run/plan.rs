//! What is compared with what, and with which sizes.
//!
//! A scenario is a link, a workload and a size; its *columns* are the contenders, which run one
//! after the other in every pair. Every column but the limit and the subject is a reference that
//! the subject is compared with.

use serde::{Deserialize, Serialize};

use crate::role::{Library, Limit, PeerKind, Workload};

/// What joins the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Two processes of this machine: the kernel's loopback against Gannet's channel.
    Channel,
    /// Two network namespaces with a virtual Ethernet between them.
    Veth,
    /// Both ends in one process on one core.
    InProcess,
}

impl Link {
    /// The name in JSON and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Veth => "veth",
            Self::InProcess => "in_process",
        }
    }
}

/// Which end is the kernel's, over a virtual Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Gannet sends, the kernel receives.
    ToKernel,
    /// The kernel sends, Gannet receives.
    FromKernel,
    /// Gannet on both ends.
    GannetToGannet,
}

/// One contender of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// Kernel sockets in one of their ways.
    Kernel(PeerKind),
    /// Another library.
    Library(Library),
    /// What is compared: Gannet.
    Subject(Option<Direction>),
    /// What the machine can do.
    Limit(Limit),
}

/// Contenders as one chooses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Kernel sockets, blocking.
    Kernel,
    /// Kernel sockets, never sleeping.
    KernelBusy,
    /// Kernel sockets, datagrams in batches.
    KernelBatch,
    /// smoltcp.
    Smoltcp,
    /// What the machine can do.
    Limit,
    /// Gannet.
    Gannet,
}

impl Column {
    /// Whose column it is.
    pub fn contender(self) -> Contender {
        match self {
            Self::Kernel(PeerKind::Kernel) => Contender::Kernel,
            Self::Kernel(PeerKind::KernelBusy) => Contender::KernelBusy,
            Self::Kernel(PeerKind::KernelBatch) => Contender::KernelBatch,
            Self::Library(
                Library::Smoltcp | Library::SmoltcpSmallPackets | Library::SmoltcpInPlace,
            ) => Contender::Smoltcp,
            Self::Limit(_) | Self::Library(Library::TwoCopies) => Contender::Limit,
            Self::Subject(_)
            | Self::Kernel(PeerKind::Gannet)
            | Self::Library(Library::Gannet | Library::GannetInPlace) => Contender::Gannet,
        }
    }
}

/// How a column is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Two workers with sockets: the client's and the server's.
    Sockets(PeerKind, PeerKind),
    /// Two workers with shared memory.
    Limit(Limit),
    /// One worker.
    Library(Library),
}

/// One line of the comparison (over a virtual Ethernet: one for each direction).
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What joins the two ends.
    pub link: Link,
    /// The conversation.
    pub workload: Workload,
    /// Bytes in a write, request or datagram.
    pub size: usize,
    /// The contenders, in the order in which each pair runs them.
    pub columns: Vec<(Column, Way)>,
}

impl Scenario {
    /// A scenario with all its contenders.
    pub fn new(link: Link, workload: Workload, size: usize) -> Self {
        let mut columns = references(link, workload);
        columns.extend(subjects(link));
        columns.extend(limit(link, workload));
        Self {
            link,
            workload,
            size,
            columns,
        }
    }
}

impl Scenario {
    /// Leaves out all contenders but these; none chosen: all stay.
    pub fn only(&mut self, contenders: &[Contender]) {
        if !contenders.is_empty() {
            self.columns
                .retain(|(column, _)| contenders.contains(&column.contender()));
        }
    }
}

/// What Gannet is compared with: the kernel at its best, or another library.
fn references(link: Link, workload: Workload) -> Vec<(Column, Way)> {
    let kernel = |kind| (Column::Kernel(kind), Way::Sockets(kind, kind));
    match (link, workload) {
        (Link::InProcess, _) => [Library::Smoltcp, Library::SmoltcpSmallPackets]
            .map(|library| (Column::Library(library), Way::Library(library)))
            .into(),
        (_, Workload::TcpStream | Workload::TcpIdle) => vec![kernel(PeerKind::Kernel)],
        (_, Workload::UdpStream) => {
            vec![kernel(PeerKind::Kernel), kernel(PeerKind::KernelBatch)]
        }
        (_, Workload::TcpRoundTrip | Workload::UdpRoundTrip) => {
            vec![kernel(PeerKind::Kernel), kernel(PeerKind::KernelBusy)]
        }
    }
}

/// Gannet's own columns.
fn subjects(link: Link) -> Vec<(Column, Way)> {
    let (gannet, kernel) = (PeerKind::Gannet, PeerKind::Kernel);
    let over_veth = |direction, client, server| {
        (
            Column::Subject(Some(direction)),
            Way::Sockets(client, server),
        )
    };
    match link {
        Link::Channel => vec![(Column::Subject(None), Way::Sockets(gannet, gannet))],
        Link::Veth => vec![
            over_veth(Direction::ToKernel, gannet, kernel),
            over_veth(Direction::FromKernel, kernel, gannet),
            over_veth(Direction::GannetToGannet, gannet, gannet),
        ],
        Link::InProcess => {
            let beside = |library| (Column::Library(library), Way::Library(library));
            vec![
                (Column::Subject(None), Way::Library(Library::Gannet)),
                beside(Library::SmoltcpInPlace),
                beside(Library::GannetInPlace),
                beside(Library::TwoCopies),
            ]
        }
    }
}

/// The limit between two processes of one machine.
fn limit(link: Link, workload: Workload) -> Option<(Column, Way)> {
    let limit = match workload {
        Workload::TcpRoundTrip | Workload::UdpRoundTrip => Limit::CacheLine,
        Workload::TcpStream | Workload::UdpStream => Limit::RawRing,
        Workload::TcpIdle => return None,
    };
    (link == Link::Channel).then_some((Column::Limit(limit), Way::Limit(limit)))
}

const KIB: usize = 1024;
const TCP_SIZES: [usize; 7] = [64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 1024 * KIB];

/// The sizes of a workload over a link.
pub fn sizes(link: Link, workload: Workload, quick: bool) -> Vec<usize> {
    match (link, workload, quick) {
        (Link::InProcess, Workload::TcpStream, true) => vec![16 * KIB, 64 * KIB],
        (Link::InProcess, Workload::TcpStream, false) => TCP_SIZES.into(),
        (Link::InProcess, _, _) => Vec::new(),
        // Numbers of connections: two idle processes, and many in one.
        (Link::Channel, Workload::TcpIdle, _) => vec![1, 10_000],
        (Link::Veth, Workload::TcpIdle, _) => Vec::new(),
        (Link::Channel, Workload::TcpStream, true) => {
            vec![16 * KIB, 64 * KIB, 128 * KIB, 1024 * KIB]
        }
        (Link::Veth, Workload::TcpStream, true) => vec![64 * KIB],
        (_, Workload::TcpStream, false) => TCP_SIZES.into(),
        (_, Workload::TcpRoundTrip, true) => vec![1],
        (_, Workload::TcpRoundTrip, false) => vec![1, 64, KIB],
        (Link::Veth, Workload::UdpStream | Workload::UdpRoundTrip, true) => Vec::new(),
        (_, Workload::UdpStream, true) => vec![128],
        // Over a virtual Ethernet only what fits into a packet: larger ones need fragments.
        (Link::Veth, Workload::UdpStream, false) => vec![128, 512, KIB],
        (_, Workload::UdpStream, false) => vec![128, 512, KIB, 4 * KIB, 8 * KIB],
        (_, Workload::UdpRoundTrip, true) => vec![64],
        (_, Workload::UdpRoundTrip, false) => vec![64, KIB],
    }
}

/// All scenarios over these links with these workloads.
pub fn scenarios(links: &[Link], workloads: &[Workload], quick: bool) -> Vec<Scenario> {
    let mut all = Vec::new();
    for &link in links {
        for &workload in workloads {
            let sizes = sizes(link, workload, quick);
            all.extend(
                sizes
                    .into_iter()
                    .map(|size| Scenario::new(link, workload, size)),
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Workload; 4] = [
        Workload::TcpStream,
        Workload::TcpRoundTrip,
        Workload::UdpStream,
        Workload::UdpRoundTrip,
    ];

    #[test]
    fn the_sizes_of_the_full_run() {
        let full = |workload| sizes(Link::Channel, workload, false);
        assert_eq!(
            full(Workload::TcpStream),
            [64, 1024, 4096, 16384, 65536, 131_072, 1 << 20]
        );
        assert_eq!(full(Workload::TcpRoundTrip), [1, 64, 1024]);
        assert_eq!(full(Workload::UdpStream), [128, 512, 1024, 4096, 8192]);
    }

    #[test]
    fn quick_is_a_part_of_full() {
        for link in [Link::Channel, Link::Veth, Link::InProcess] {
            for workload in ALL {
                let full = sizes(link, workload, false);
                let quick = sizes(link, workload, true);
                assert!(
                    quick.iter().all(|size| full.contains(size)),
                    "{link:?} {workload:?}"
                );
            }
        }
    }

    #[test]
    fn contenders_can_be_chosen() {
        let columns = |contenders: &[Contender]| {
            let mut scenario = Scenario::new(Link::Channel, Workload::TcpRoundTrip, 1);
            scenario.only(contenders);
            scenario
                .columns
                .iter()
                .map(|(column, _)| column.contender())
                .collect::<Vec<_>>()
        };
        let all = [
            Contender::Kernel,
            Contender::KernelBusy,
            Contender::Gannet,
            Contender::Limit,
        ];
        assert_eq!(columns(&[]), all);
        assert_eq!(columns(&[Contender::KernelBusy]), [Contender::KernelBusy]);
        assert_eq!(columns(&[Contender::Smoltcp]), []);
    }

    #[test]
    fn every_scenario_has_a_reference() {
        for scenario in scenarios(&[Link::Channel, Link::Veth, Link::InProcess], &ALL, false) {
            let columns = &scenario.columns;
            let is_reference = |(column, _): &(Column, Way)| {
                matches!(column, Column::Kernel(_) | Column::Library(_))
            };
            assert!(columns.iter().any(is_reference), "{scenario:?}");
        }
    }
}
