//! The marks over an impaired wire: goodput of Gannet beside the kernel's over the same seeded bad
//! paths, two flows through one bottleneck, and a long checked transfer each way.
//!
//! ```text
//! for each point: for each seed: kernel to kernel, Gannet to Gannet      (one wire each)
//! for each shared bottleneck: for each seed: both at once                (one wire)
//! each way: 1 GiB, every byte checked                                    (one wire)
//! ```

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::compare::Progress;
use super::impaired::{Impaired, Peers};
use super::workers::Launcher;
use crate::error::Problem;
use crate::role::{Load, PeerKind, Tcp};
use crate::statistics::Summary;
use crate::wire::WireReport;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Paths for goodput.
    pub points: Vec<Point>,
    /// Bottlenecks for two flows at once.
    pub shared: Vec<Point>,
    /// Bytes of the checked transfers each way; `None`: no transfers.
    pub transfer: Option<u64>,
    /// How many seeds, from 1 on.
    pub seeds: u64,
    /// Seconds of one run.
    pub seconds: f64,
    /// Congestion control and buffers of both stacks.
    pub tcp: Tcp,
    /// The folder for what passed the wires, a file for each run.
    pub traces: Option<PathBuf>,
}

/// A path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Chance of loss on each way, in percent.
    pub loss_percent: f64,
    /// Propagation delay there and back, milliseconds.
    pub round_trip_ms: f64,
    /// Rate of each way, Mbit/s.
    pub rate_mbit: u32,
}

impl Point {
    /// A path of this loss and round-trip time, with a rate that two cores carry in packets of
    /// 1,500 bytes without being busy: 200, 100, 50 Mbit/s for 1, 20, 100 ms.
    pub fn new(loss_percent: f64, round_trip_ms: f64) -> Self {
        let rate_mbit = match round_trip_ms {
            ms if ms <= 5.0 => 200,
            ms if ms <= 50.0 => 100,
            _ => 50,
        };
        Point {
            loss_percent,
            round_trip_ms,
            rate_mbit,
        }
    }

    /// The model of each way. The queue is one bandwidth-delay product.
    pub fn model(&self) -> String {
        let Point {
            loss_percent,
            round_trip_ms,
            rate_mbit,
        } = self;
        let delay = round_trip_ms / 2.0;
        format!("rate={rate_mbit}mbit,delay={delay}ms,queue=bdp,loss={loss_percent}%")
    }

    /// All points of the marks.
    pub fn all() -> Vec<Self> {
        let losses = [0.0, 0.1, 1.0, 3.0];
        let each = |trip: f64| losses.map(|loss| Self::new(loss, trip));
        [1.0, 20.0, 100.0].into_iter().flat_map(each).collect()
    }

    /// A few of them.
    pub fn few() -> Vec<Self> {
        [(0.0, 20.0), (1.0, 1.0), (1.0, 20.0), (0.1, 100.0)]
            .map(|(loss, trip)| Self::new(loss, trip))
            .into()
    }

    /// Bottlenecks that two flows share: nothing is lost but what they lose themselves.
    pub fn shared() -> Vec<Self> {
        [1.0, 20.0, 100.0].map(|trip| Self::new(0.0, trip)).into()
    }
}

/// What one point gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The path.
    #[serde(flatten)]
    pub point: Point,
    /// The model of each way, as text.
    pub model: String,
    /// Bits a second of the kernel, by seed.
    pub kernel: Vec<f64>,
    /// Bits a second of Gannet, by seed.
    pub gannet: Vec<f64>,
    /// Gannet over the kernel (two flows: over the fair share, half of both), seed by seed.
    pub ratio: Summary,
    /// Most that the wire's process used of a core.
    pub wire_cores: f64,
    /// Latest of 99 of 100 packets in the worst run, microseconds.
    pub wire_late_us: u64,
    /// Whether the wire was never the bottleneck itself.
    pub valid: bool,
    /// Whether the mark is reached: at least 1.00 (two flows: 0.8 to 1.25).
    pub reached: bool,
}

/// A checked transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    /// Sender and receiver.
    pub way: String,
    /// The model of each way, as text.
    pub model: String,
    /// Bytes sent, received, compared one by one, and equal in hash.
    pub verified_bytes: u64,
    /// How long.
    pub seconds: f64,
    /// Packets that the wire lost on the way of the data.
    pub lost: u64,
}

/// All results: the schema `gannet/bench-wire/1`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Congestion control of both stacks.
    pub congestion: String,
    /// Most bytes of a send or receive buffer.
    pub buffer: u32,
    /// Seconds of one run.
    pub seconds: f64,
    /// How many seeds.
    pub seeds: u64,
    /// One flow at a time.
    pub points: Vec<PointResult>,
    /// Two flows at once.
    pub shared: Vec<PointResult>,
    /// Checked transfers.
    pub transfers: Vec<TransferResult>,
}

const KERNEL: Peers = Peers::both(PeerKind::Kernel);
const GANNET: Peers = Peers::both(PeerKind::Gannet);
/// Bytes in one write.
const WRITE: usize = 64 * 1024;
/// Most seconds that a checked transfer may take.
const TRANSFER_SECONDS: f64 = 1200.0;
/// The path of the checked transfers.
const TRANSFER_MODEL: &str = "rate=500mbit,delay=200us,queue=256K,loss=1%";
/// How much of the fair share a flow may take.
const FAIR: std::ops::RangeInclusive<f64> = 0.8..=1.25;

struct Runs<'a> {
    ground: Impaired,
    options: &'a Options,
    progress: &'a mut dyn Progress,
}

/// Measures everything that `options` ask for.
///
/// # Errors
/// What the first run says that fails.
pub fn run(
    launcher: &Launcher,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Results, Problem> {
    let ways = if options.transfer.is_some() { 2 } else { 0 };
    let seeds = usize::try_from(options.seeds).unwrap_or(usize::MAX);
    let each = options.points.len() * 2 + options.shared.len();
    progress.total(each.saturating_mul(seeds).saturating_add(ways));
    let ground = Impaired::make(launcher, &options.tcp)?;
    let mut runs = Runs {
        ground,
        options,
        progress,
    };
    let points = options.points.iter().map(|point| runs.apart(point));
    let points = points.collect::<Result<_, _>>()?;
    let shared = options.shared.iter().map(|point| runs.together(point));
    let shared = shared.collect::<Result<_, _>>()?;
    let transfers = match options.transfer {
        Some(bytes) => runs.transfers(bytes)?,
        None => Vec::new(),
    };
    Ok(Results {
        congestion: options.tcp.congestion.clone(),
        buffer: options.tcp.buffer,
        seconds: options.seconds,
        seeds: options.seeds,
        points,
        shared,
        transfers,
    })
}

impl Runs<'_> {
    /// One flow at a time.
    fn apart(&mut self, point: &Point) -> Result<PointResult, Problem> {
        let mut all = Samples::default();
        for seed in 1..=self.options.seeds {
            for (peers, name) in [(KERNEL, "kernel"), (GANNET, "Gannet")] {
                let what = format!("{name}, {}, seed {seed}", point.model());
                let goodput = self.once(&what, point, seed, &[peers], &mut all)?;
                let into = if peers == KERNEL {
                    &mut all.kernel
                } else {
                    &mut all.gannet
                };
                into.extend(goodput);
            }
        }
        let ratio = Summary::of_ratios(&all.gannet, &all.kernel);
        all.result(point, ratio, is_no_slower)
    }

    /// Two flows at once.
    fn together(&mut self, point: &Point) -> Result<PointResult, Problem> {
        let mut all = Samples::default();
        for seed in 1..=self.options.seeds {
            let what = format!("both, {}, seed {seed}", point.model());
            let goodput = self.once(&what, point, seed, &[KERNEL, GANNET], &mut all)?;
            let [kernel, gannet] = goodput.as_slice() else {
                continue;
            };
            all.kernel.push(*kernel);
            all.gannet.push(*gannet);
        }
        let both = all.kernel.iter().zip(&all.gannet);
        let fair: Vec<f64> = both
            .map(|(kernel, gannet)| (kernel + gannet) / 2.0)
            .collect();
        let ratio = Summary::of_ratios(&all.gannet, &fair);
        // What one has too much of, the other has too little of.
        all.result(point, ratio, |ratio| {
            FAIR.contains(&ratio) && FAIR.contains(&(2.0 - ratio))
        })
    }

    fn once(
        &mut self,
        what: &str,
        point: &Point,
        seed: u64,
        peers: &[Peers],
        all: &mut Samples,
    ) -> Result<Vec<f64>, Problem> {
        let Options { seconds, tcp, .. } = self.options;
        self.progress.begin(what);
        let load = Load {
            size: WRITE,
            seconds: *seconds,
            warm_up: 0.0,
            verify: false,
            bytes: None,
        };
        let wire = self.ground.wire(
            [point.model(), point.model()],
            seed,
            *seconds,
            self.trace(what),
        )?;
        let flows = self.ground.flows(peers, tcp, load, true)?;
        all.wires.push(wire.end()?);
        self.progress.done();
        Ok(flows.iter().map(|flow| flow.goodput).collect())
    }

    /// The file for a run of this name.
    fn trace(&self, what: &str) -> Option<PathBuf> {
        let name = what.replace([' ', ',', '%', '='], "-");
        let folder = self.options.traces.as_ref()?;
        Some(folder.join(format!("{name}.pcapng")))
    }

    fn transfers(&mut self, bytes: u64) -> Result<Vec<TransferResult>, Problem> {
        let load = Load {
            size: WRITE,
            seconds: TRANSFER_SECONDS,
            warm_up: 0.0,
            verify: true,
            bytes: Some(bytes),
        };
        let (kernel, gannet) = (PeerKind::Kernel, PeerKind::Gannet);
        let ways = [
            (gannet, kernel, "Gannet to kernel"),
            (kernel, gannet, "kernel to Gannet"),
        ];
        let each = ways.map(|(client, server, way)| {
            self.progress.begin(&format!("{way}, {bytes} bytes"));
            let models = [TRANSFER_MODEL.to_owned(), TRANSFER_MODEL.to_owned()];
            let trace = self.trace(way);
            let wire = self.ground.wire(models, 1, TRANSFER_SECONDS, trace)?;
            let peers = [Peers { client, server }];
            let flows = self.ground.flows(&peers, &self.options.tcp, load, false)?;
            let wire = wire.end()?;
            self.progress.done();
            let server = flows.first().map(|flow| &flow.server);
            Ok(TransferResult {
                way: way.to_owned(),
                model: TRANSFER_MODEL.to_owned(),
                verified_bytes: server.map_or(0, |server| server.verified_bytes),
                seconds: server.map_or(0.0, |server| server.seconds),
                lost: wire.left_to_right.count("lost"),
            })
        });
        each.into_iter().collect()
    }
}

/// In hundredths: on a path that both fill, they differ by thousandths either way.
fn is_no_slower(ratio: f64) -> bool {
    (ratio * 100.0).round() >= 100.0
}

#[derive(Default)]
struct Samples {
    kernel: Vec<f64>,
    gannet: Vec<f64>,
    wires: Vec<WireReport>,
}

impl Samples {
    fn result(
        self,
        point: &Point,
        ratio: Option<Summary>,
        mark: impl FnOnce(f64) -> bool,
    ) -> Result<PointResult, Problem> {
        let ratio = ratio.ok_or_else(|| {
            Problem::new(
                "a run gave no figure",
                "nothing arrived",
                "measure longer: --seconds 10",
            )
        })?;
        let cores = self.wires.iter().map(WireReport::cores);
        let valid = !self.wires.iter().any(WireReport::is_saturated);
        Ok(PointResult {
            point: *point,
            model: point.model(),
            kernel: self.kernel,
            gannet: self.gannet,
            ratio,
            wire_cores: cores.fold(0.0, f64::max),
            wire_late_us: self
                .wires
                .iter()
                .map(|wire| wire.late.p99)
                .max()
                .unwrap_or(0),
            valid,
            reached: valid && mark(ratio.median),
        })
    }
}
