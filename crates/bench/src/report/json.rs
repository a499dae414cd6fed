//! The schema `gannet/compare/1`: one row for a link, a workload, a size and, over a virtual
//! Ethernet, a direction.
//!
//! A missing key means that there is no such figure, never zero.

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::role::{Library, Limit, PeerKind, Workload};
use crate::run::compare::{Comparison, Failure, Measured, Options, Skipped};
use crate::run::pair::Outcome;
use crate::run::plan::{Column, Direction, Link};
use crate::statistics::Summary;

/// The name of the schema.
pub const SCHEMA: &str = "gannet/compare/1";

/// A whole comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine and the programs.
    pub environment: Environment,
    /// How it was measured.
    pub method: Method,
    /// The figures.
    pub results: Vec<Row>,
    /// Links that could not be measured.
    pub skipped: Vec<Skipped>,
    /// Runs that failed.
    pub failures: Vec<Failure>,
}

/// How it was measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Method {
    /// Interleaved runs of each contender.
    pub pairs: usize,
    /// Measured seconds of the shortest run.
    pub seconds_per_run: f64,
    /// Seconds of everything.
    pub elapsed_seconds: f64,
    /// Fewer sizes, less time.
    pub quick: bool,
    /// Every byte checked (which costs speed).
    pub verified: bool,
}

/// One comparison of Gannet with one reference.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What joins the two ends.
    pub link: Link,
    /// The conversation.
    pub workload: Workload,
    /// Over a virtual Ethernet: which end is the kernel's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub direction: Option<Direction>,
    /// Bytes in a write, request or datagram; the number of connections when they are idle.
    pub size_bytes: usize,
    /// `bit/s`, `datagram/s`, `s` or `core`.
    pub unit: String,
    /// What `cpu_seconds` is for: `s/GB`, `s/datagram` or `s/round trip`; both sides.
    pub cpu_unit: String,
    /// The kernel at its best: blocking for round trips, the better of one by one and batches for
    /// datagrams.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kernel: Option<Figure>,
    /// The kernel, never sleeping.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kernel_busy: Option<Figure>,
    /// The kernel, the slower of one by one and batches.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kernel_other: Option<Figure>,
    /// smoltcp over 65,535-byte packets, in place of the kernel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub smoltcp: Option<Figure>,
    /// smoltcp over 1,500-byte packets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub smoltcp_mtu_1500: Option<Figure>,
    /// Gannet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gannet: Option<Figure>,
    /// smoltcp over 65,535-byte packets, written and read in its sockets' buffers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub smoltcp_in_place: Option<Figure>,
    /// Gannet in one process, blocks written and read in place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gannet_in_place: Option<Figure>,
    /// How many times better Gannet is than `kernel` (or `smoltcp`): more a second, or less time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio: Option<Summary>,
    /// The same against `kernel_busy`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio_busy: Option<Summary>,
    /// How many times better `gannet_in_place` is than `smoltcp_in_place`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio_in_place: Option<Summary>,
    /// What the machine can do: the raw ring, the cache-line round trip, or (in one process) a copy
    /// in and a copy out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<Figure>,
    /// Gannet's share of the limit: 1 is the limit itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit_share: Option<f64>,
    /// The kernel's share of the limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kernel_limit_share: Option<f64>,
}

/// One contender's figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// In the row's unit. For round trips: of the medians of the runs.
    #[serde(flatten)]
    pub value: Summary,
    /// Median, in the row's `cpu_unit`.
    pub cpu_seconds: f64,
    /// How the sockets were used, where there is a choice.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub way: Option<String>,
    /// Median of the runs' 99th percentiles.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99: Option<f64>,
    /// Median of the runs' 99.9th percentiles.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p999: Option<f64>,
    /// Datagrams sent in all runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent: Option<u64>,
    /// Datagrams delivered in all runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivered: Option<u64>,
    /// Datagrams lost in all runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<u64>,
    /// Memory of the larger process: the largest of all runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
    /// Bytes checked in all runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verified_bytes: Option<u64>,
}

impl Document {
    /// The document of a comparison.
    pub fn new(environment: Environment, options: &Options, comparison: &Comparison) -> Self {
        let method = Method {
            pairs: options.pairs,
            seconds_per_run: comparison.shortest_run,
            elapsed_seconds: comparison.elapsed,
            quick: options.quick,
            verified: options.verify,
        };
        Self {
            schema: SCHEMA.to_owned(),
            environment,
            method,
            results: comparison.measured.iter().flat_map(rows).collect(),
            skipped: comparison.skipped.clone(),
            failures: comparison.failures.clone(),
        }
    }
}

/// A scenario gives one row for each direction of Gannet's, or one without Gannet.
fn rows(measured: &Measured) -> Vec<Row> {
    let subjects = measured
        .outcomes
        .iter()
        .filter_map(|(column, _)| match column {
            Column::Subject(direction) => Some(Some(*direction)),
            _ => None,
        });
    let mut directions: Vec<Option<Option<Direction>>> = subjects.collect();
    if directions.is_empty() {
        directions.push(None);
    }
    directions
        .into_iter()
        .map(|subject| row(measured, subject))
        .collect()
}

fn row(measured: &Measured, subject: Option<Option<Direction>>) -> Row {
    let workload = measured.scenario.workload;
    let find = |wanted: Column| {
        let mut all = measured.outcomes.iter();
        all.find(|(column, _)| *column == wanted)
            .map(|(column, outcomes)| (*column, &**outcomes))
    };
    let (kernel, other) = better_kernel(workload, &find);
    let busy = find(Column::Kernel(PeerKind::KernelBusy));
    let smoltcp = find(Column::Library(Library::Smoltcp));
    let smoltcp_mtu_1500 = find(Column::Library(Library::SmoltcpSmallPackets));
    let smoltcp_in_place = find(Column::Library(Library::SmoltcpInPlace));
    let in_place = find(Column::Library(Library::GannetInPlace));
    let limit = find(Column::Limit(Limit::RawRing))
        .or(find(Column::Limit(Limit::CacheLine)))
        .or(find(Column::Library(Library::TwoCopies)));
    let gannet = subject.and_then(|direction| find(Column::Subject(direction)));
    let better = |than: Option<Samples<'_>>| times_better(workload, gannet, than);
    let share = |of| times_better(workload, of, limit).map(|share| share.median);
    let (unit, cpu_unit) = units(workload);
    Row {
        link: measured.scenario.link,
        workload,
        direction: subject.flatten(),
        size_bytes: measured.scenario.size,
        unit: unit.to_owned(),
        cpu_unit: cpu_unit.to_owned(),
        kernel: kernel.and_then(figure),
        kernel_busy: busy.and_then(figure),
        kernel_other: other.and_then(figure),
        smoltcp: smoltcp.and_then(figure),
        smoltcp_mtu_1500: smoltcp_mtu_1500.and_then(figure),
        gannet: gannet.and_then(figure),
        smoltcp_in_place: smoltcp_in_place.and_then(figure),
        gannet_in_place: in_place.and_then(figure),
        ratio: better(kernel.or(smoltcp)),
        ratio_busy: better(busy),
        ratio_in_place: times_better(workload, in_place, smoltcp_in_place),
        limit: limit.and_then(figure),
        limit_share: share(gannet),
        kernel_limit_share: share(kernel),
    }
}

type Samples<'a> = (Column, &'a [Outcome]);

/// For datagrams the faster way of the kernel's counts; the other is shown beside it.
fn better_kernel<'a>(
    workload: Workload,
    find: &impl Fn(Column) -> Option<Samples<'a>>,
) -> (Option<Samples<'a>>, Option<Samples<'a>>) {
    let plain = find(Column::Kernel(PeerKind::Kernel));
    let batch = find(Column::Kernel(PeerKind::KernelBatch));
    let median = |samples: Option<Samples<'_>>| {
        samples
            .and_then(|(_, outcomes)| Summary::of(values(outcomes)))
            .map(|s| s.median)
    };
    if workload == Workload::UdpStream && median(batch) > median(plain) {
        return (batch, plain);
    }
    (plain, batch)
}

fn values(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.value).collect()
}

/// More a second, or less time: always better when larger.
fn times_better(
    workload: Workload,
    ours: Option<Samples<'_>>,
    theirs: Option<Samples<'_>>,
) -> Option<Summary> {
    let (ours, theirs) = (values(ours?.1), values(theirs?.1));
    match workload.is_cost() {
        true => Summary::of_ratios(&theirs, &ours),
        false => Summary::of_ratios(&ours, &theirs),
    }
}

fn figure((column, outcomes): Samples<'_>) -> Option<Figure> {
    let median = |of: &dyn Fn(&Outcome) -> Option<f64>| {
        Summary::of(outcomes.iter().filter_map(of)).map(|summary| summary.median)
    };
    let datagrams = |of: &dyn Fn(&crate::run::pair::Datagrams) -> u64| {
        let mut all = outcomes
            .iter()
            .filter_map(|o| o.datagrams.as_ref())
            .map(of)
            .peekable();
        all.peek().is_some().then(|| all.sum())
    };
    let verified = outcomes.iter().map(|outcome| outcome.verified_bytes).sum();
    let way = match column {
        Column::Kernel(PeerKind::Kernel) => Some("plain"),
        Column::Kernel(PeerKind::KernelBatch) => Some("batch"),
        Column::Kernel(PeerKind::KernelBusy) => Some("busy"),
        Column::Kernel(PeerKind::Gannet)
        | Column::Library(_)
        | Column::Subject(_)
        | Column::Limit(_) => None,
    };
    Some(Figure {
        value: Summary::of(values(outcomes))?,
        cpu_seconds: median(&|outcome| Some(outcome.cpu_seconds))?,
        way: way.map(str::to_owned),
        p99: median(&|outcome| Some(outcome.times?.p99)),
        p999: median(&|outcome| Some(outcome.times?.p999)),
        sent: datagrams(&|datagrams| datagrams.sent),
        delivered: datagrams(&|datagrams| datagrams.delivered),
        lost: datagrams(&|datagrams| datagrams.lost),
        memory_bytes: outcomes
            .iter()
            .filter_map(|outcome| outcome.memory_bytes)
            .max(),
        verified_bytes: (verified > 0).then_some(verified),
    })
}

fn units(workload: Workload) -> (&'static str, &'static str) {
    match workload {
        Workload::TcpStream => ("bit/s", "s/GB"),
        Workload::UdpStream => ("datagram/s", "s/datagram"),
        Workload::TcpRoundTrip | Workload::UdpRoundTrip => ("s", "s/round trip"),
        Workload::TcpIdle => ("core", "s/s"),
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
