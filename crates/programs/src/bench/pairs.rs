//! Runs in turns on the kernel and on Gannet. A machine that others use too changes its pace; two
//! runs next to each other meet about the same, so that their ratio says more than their figures.

use super::subjects::{Figure, Subject};
use crate::case::Fault;
use crate::family;
use crate::interrupt;
use crate::mode::Mode;
use crate::place::{Place, Traffic};
use crate::stage::Stage;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where the two sides of a pair run.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Pair {
    pub(super) name: &'static str,
    kernel: Mode,
    gannet: Mode,
}

/// The pairs: within a machine, and over an interface.
pub(super) const PAIRS: [Pair; 2] = [
    Pair {
        name: "loopback",
        kernel: Mode::Kernel,
        gannet: Mode::Gannet,
    },
    Pair {
        name: "veth",
        kernel: Mode::KernelVeth,
        gannet: Mode::Veth,
    },
];

/// How it is measured.
pub(super) struct Plan {
    pub(super) runs: usize,
    pub(super) seconds: u32,
    pub(super) gannet: PathBuf,
    pub(super) directory: PathBuf,
}

/// What came out for one figure of one pair.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    pub(super) program: &'static str,
    pub(super) what: &'static str,
    pub(super) pair: &'static str,
    pub(super) unit: &'static str,
    /// The ratio that is asked for.
    pub(super) mark: f64,
    /// Gannet to the kernel, run by run.
    pub(super) ratios: Vec<f64>,
    /// The same for the time within which 99 of 100 are answered.
    pub(super) p99_ratios: Vec<f64>,
    pub(super) kernel: Vec<Figure>,
    pub(super) gannet: Vec<Figure>,
}

impl Plan {
    /// Measures one subject over one pair.
    pub(super) fn compare(&self, subject: &Subject, pair: Pair) -> Result<Vec<Compared>, Fault> {
        let mut found: Vec<Compared> = subject
            .figures
            .iter()
            .map(|it| empty(subject, pair, it))
            .collect();
        for run in 0..self.runs {
            let order = [pair.kernel, pair.gannet];
            let order = if run % 2 == 0 {
                order
            } else {
                [order[1], order[0]]
            };
            for mode in order {
                let figures = self.once(subject, mode)?;
                for (compared, figure) in found.iter_mut().zip(figures) {
                    match mode == pair.kernel {
                        true => compared.kernel.push(figure),
                        false => compared.gannet.push(figure),
                    }
                }
            }
        }
        found.iter_mut().for_each(Compared::divide);
        Ok(found)
    }

    fn once(&self, subject: &Subject, mode: Mode) -> Result<Vec<Figure>, Fault> {
        if interrupt::came() {
            return Err("interrupted".into());
        }
        let limit = Duration::from_secs(60 + 10 * u64::from(self.seconds));
        let outcome = self.on_stage(mode, limit, |stage| (subject.run)(stage, self.seconds));
        outcome.map_err(|fault| match fault {
            Fault::Failed(why) => Fault::Failed(format!("{mode}: {why}")),
            other => other,
        })
    }

    /// A stage of a mode, in which nothing may go over a kernel that should not.
    pub(super) fn on_stage<T>(
        &self,
        mode: Mode,
        limit: Duration,
        run: impl FnOnce(&Stage) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let place = Place::new(mode, self.gannet.clone())?;
        let directory = self.directory.join("run");
        let outcome = {
            let deadline = Instant::now() + limit;
            let shared = self.directory.join("shared");
            let stage = Stage::new(&place, directory.clone(), &shared, deadline, false)?;
            run(&stage)
        };
        let left = family::end_all(Duration::from_secs(4));
        let found = outcome?;
        crate::check::remove(&directory);
        if !left.is_empty() {
            return Err(format!("left behind: {}", left.join(" ")).into());
        }
        if let (Mode::Gannet, Some(traffic)) = (mode, place.traffic()) {
            traffic.nothing_since(Traffic::default())?;
        }
        Ok(found)
    }
}

fn empty(
    subject: &Subject,
    pair: Pair,
    (what, unit, loopback, veth): &(&'static str, &'static str, f64, f64),
) -> Compared {
    Compared {
        program: subject.name,
        what,
        pair: pair.name,
        unit,
        mark: if pair.gannet == Mode::Gannet {
            *loopback
        } else {
            *veth
        },
        ratios: Vec::new(),
        p99_ratios: Vec::new(),
        kernel: Vec::new(),
        gannet: Vec::new(),
    }
}

impl Compared {
    fn divide(&mut self) {
        let pairs = || self.kernel.iter().zip(&self.gannet);
        self.ratios = pairs()
            .map(|(kernel, gannet)| gannet.rate / kernel.rate)
            .collect();
        let p99 = |(kernel, gannet): (&Figure, &Figure)| Some(gannet.p99_ms? / kernel.p99_ms?);
        self.p99_ratios = pairs().filter_map(p99).collect();
    }

    /// Lines for people.
    pub(super) fn lines(&self) -> String {
        let rate = |figures: &[Figure]| median(figures.iter().map(|it| it.rate).collect());
        let (kernel, gannet) = (rate(&self.kernel), rate(&self.gannet));
        let ratio = median(self.ratios.clone());
        let word = if ratio >= self.mark { "met" } else { "MISSED" };
        let places = if kernel < 1000.0 { 1 } else { 0 };
        let mut text = format!(
            "{} {}, {}: {ratio:.2} ({}) times the kernel, mark {} {word}\n  \
             kernel {kernel:.places$}, gannet {gannet:.places$} {}\n",
            self.program,
            self.what,
            self.pair,
            spread(&self.ratios),
            self.mark,
            self.unit,
        );
        if !self.p99_ratios.is_empty() {
            let p99 = |of: &[Figure]| median(of.iter().filter_map(|it| it.p99_ms).collect());
            text.push_str(&format!(
                "  p99: kernel {:.3} ms, gannet {:.3} ms, ratio {:.2} ({})\n",
                p99(&self.kernel),
                p99(&self.gannet),
                median(self.p99_ratios.clone()),
                spread(&self.p99_ratios)
            ));
        }
        for (name, figures) in [("kernel", &self.kernel), ("gannet", &self.gannet)] {
            let client = median(figures.iter().map(|it| it.client_seconds).collect());
            let server = median(figures.iter().map(|it| it.server_seconds).collect());
            let control = figures.iter().find_map(|it| it.congestion.as_deref());
            text.push_str(&format!(
                "  {name}: processor time client {client:.2} s, server {server:.2} s{}\n",
                control.map_or(String::new(), |control| format!(", congestion {control}"))
            ));
        }
        text
    }
}

/// The middle value; of an even number the mean of the two.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied().unwrap_or(f64::NAN);
    match values.len() % 2 {
        1 => upper,
        _ => {
            let lower = values.get(middle.wrapping_sub(1)).copied();
            (lower.unwrap_or(f64::NAN) + upper) / 2.0
        }
    }
}

/// The smallest and the largest.
fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.2}..{most:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_few() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
        assert_eq!(spread(&[2.0, 1.0]), "1.00..2.00");
    }

    #[test]
    fn ratios_are_of_neighbours() {
        let figure = |rate: f64| Figure {
            rate,
            p99_ms: Some(1.0 / rate),
            client_seconds: 0.0,
            server_seconds: 0.0,
            congestion: None,
        };
        let subject = super::super::subjects::ALL.first().expect("a subject");
        let names = subject.figures.first().expect("a figure");
        let mut compared = empty(subject, PAIRS[0], names);
        compared.kernel = [1.0, 10.0, 2.0].map(figure).to_vec();
        compared.gannet = [2.0, 10.0, 6.0].map(figure).to_vec();
        compared.divide();
        assert_eq!(compared.ratios, [2.0, 1.0, 3.0]);
        assert!(compared.lines().contains("2.00 (1.00..3.00)"));
        assert!(compared.lines().contains("ratio 0.50"));
    }
}
