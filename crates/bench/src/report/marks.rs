//! The marks to reach: floors, not goals. One list; each mark finds its figure in a comparison.

use std::fmt::Write as _;

use serde::Serialize;

use super::json::{Document, Row};
use crate::role::Workload;
use crate::run::plan::{Direction, Link};

/// A mark and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// What is measured, and in what.
    pub what: &'static str,
    /// The figure; `None` when it was not measured.
    pub figure: Option<f64>,
    /// The mark.
    pub mark: f64,
    /// Whether the figure must be at least the mark, or at most.
    pub bound: Bound,
    /// What this machine allowed in the same runs, in the same unit; where a limit is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Which limit that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<&'static str>,
}

/// Which side of the mark is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Larger is better.
    AtLeast,
    /// Smaller is better.
    AtMost,
}

impl Mark {
    /// The same mark, with the limit measured beside it.
    fn within(self, limited_by: &'static str, limit: Option<f64>) -> Self {
        Self {
            limit,
            limited_by: limit.map(|_| limited_by),
            ..self
        }
    }

    /// Whether it is reached; what was not measured is not.
    pub fn is_reached(&self) -> bool {
        self.figure.is_some_and(|figure| match self.bound {
            Bound::AtLeast => figure >= self.mark,
            Bound::AtMost => figure <= self.mark,
        })
    }
}

const KIB: usize = 1024;
const RING: &str = "the raw ring";

/// All marks with their figures from this comparison.
pub fn marks(document: &Document) -> Vec<Mark> {
    let find = Find(document);
    let mut marks = streams(&find);
    marks.extend(round_trips(&find));
    marks.extend(the_rest(&find));
    marks
}

fn streams(find: &Find<'_>) -> Vec<Mark> {
    let channel = |size| find.channel(Workload::TcpStream, size);
    let to = find.veth(Direction::ToKernel);
    let from = find.veth(Direction::FromKernel);
    let library = find.row(Link::InProcess, Workload::TcpStream, 64 * KIB, None);
    vec![
        at_least(
            "TCP stream 16 KiB, channel: times the kernel",
            ratio(channel(16 * KIB)),
            5.0,
        )
        .within(RING, limit_ratio(channel(16 * KIB))),
        at_least(
            "TCP stream 128 KiB, channel: times the kernel",
            ratio(channel(128 * KIB)),
            2.5,
        )
        .within(RING, limit_ratio(channel(128 * KIB))),
        at_least(
            "TCP stream 1 MiB, channel: times the kernel",
            ratio(channel(KIB * KIB)),
            2.0,
        )
        .within(RING, limit_ratio(channel(KIB * KIB))),
        at_least(
            "TCP stream 64 KiB, channel: of the raw ring",
            share(channel(64 * KIB)),
            0.5,
        ),
        at_least(
            "TCP stream, veth, to the kernel: of kernel to kernel",
            ratio(to),
            0.8,
        ),
        at_least(
            "TCP stream, veth, from the kernel: of kernel to kernel",
            ratio(from),
            0.8,
        ),
        at_least(
            "TCP stream, one process, one core, copied in and out: times smoltcp",
            ratio(library),
            3.0,
        )
        .within("a copy in and a copy out, no stack", limit_ratio(library)),
        at_least(
            "TCP stream, one process, one core, in place: times smoltcp in place",
            library.and_then(|row| Some(row.ratio_in_place?.median)),
            3.0,
        ),
    ]
}

fn round_trips(find: &Find<'_>) -> Vec<Mark> {
    let row = find.channel(Workload::TcpRoundTrip, 1);
    let lines = share(row).map(|share| 1.0 / share);
    vec![
        at_least(
            "TCP round trip 1 B, channel: kernel blocking / Gannet",
            ratio(row),
            60.0,
        )
        .within("one cache-line round trip", limit_ratio(row)),
        at_most(
            "TCP round trip 1 B, channel: cache-line round trips",
            lines,
            12.0,
        ),
    ]
}

fn the_rest(find: &Find<'_>) -> Vec<Mark> {
    let datagrams = find.channel(Workload::UdpStream, 128);
    let idle = |count| find.channel(Workload::TcpIdle, count);
    vec![
        at_least(
            "UDP 128 B, channel: times the kernel's delivered rate",
            ratio(datagrams),
            30.0,
        )
        .within(RING, limit_ratio(datagrams)),
        at_most("UDP 128 B, channel: datagrams lost", lost(datagrams), 0.0),
        at_most(
            "10,000 idle connections: MiB in one process",
            memory(idle(10_000)),
            64.0,
        ),
        at_most(
            "two connected idle processes: % of a core",
            cores(idle(1)),
            0.1,
        ),
    ]
}

/// Looks for rows.
struct Find<'a>(&'a Document);

impl<'a> Find<'a> {
    fn channel(&self, workload: Workload, size: usize) -> Option<&'a Row> {
        self.row(Link::Channel, workload, size, None)
    }

    fn veth(&self, direction: Direction) -> Option<&'a Row> {
        self.row(Link::Veth, Workload::TcpStream, 64 * KIB, Some(direction))
    }

    fn row(
        &self,
        link: Link,
        workload: Workload,
        size: usize,
        direction: Option<Direction>,
    ) -> Option<&'a Row> {
        self.0.results.iter().find(|row| {
            let found = (row.link, row.workload, row.size_bytes, row.direction);
            found == (link, workload, size, direction)
        })
    }
}

fn at_least(what: &'static str, figure: Option<f64>, mark: f64) -> Mark {
    Mark {
        what,
        figure,
        mark,
        bound: Bound::AtLeast,
        limit: None,
        limited_by: None,
    }
}

fn at_most(what: &'static str, figure: Option<f64>, mark: f64) -> Mark {
    Mark {
        what,
        figure,
        mark,
        bound: Bound::AtMost,
        limit: None,
        limited_by: None,
    }
}

fn ratio(row: Option<&Row>) -> Option<f64> {
    row?.ratio.map(|ratio| ratio.median)
}

/// The limit against the kernel or smoltcp, as `ratio` is.
fn limit_ratio(row: Option<&Row>) -> Option<f64> {
    let row = row?;
    let limit = row.limit.as_ref()?.value.median;
    let other = row.kernel.as_ref().or(row.smoltcp.as_ref())?.value.median;
    Some(match row.workload.is_cost() {
        true => other / limit,
        false => limit / other,
    })
}

fn share(row: Option<&Row>) -> Option<f64> {
    row?.limit_share
}

fn lost(row: Option<&Row>) -> Option<f64> {
    row?.gannet.as_ref()?.lost.map(|lost| lost as f64)
}

fn memory(row: Option<&Row>) -> Option<f64> {
    let bytes = row?.gannet.as_ref()?.memory_bytes?;
    Some(bytes as f64 / f64::from(1 << 20))
}

fn cores(row: Option<&Row>) -> Option<f64> {
    Some(row?.gannet.as_ref()?.value.median * 100.0)
}

/// The marks as a table.
pub fn render(marks: &[Mark]) -> String {
    let mut out = String::new();
    let width = marks
        .iter()
        .map(|mark| mark.what.chars().count())
        .max()
        .unwrap_or(0);
    let _ = writeln!(out, "{:width$}  {:>12}  {:>7}", "what", "measured", "mark");
    for mark in marks {
        let figure = mark
            .figure
            .map_or("not measured".to_owned(), |f| format!("{f:.2}"));
        let sign = if mark.bound == Bound::AtLeast {
            ">="
        } else {
            "<="
        };
        let reached = if mark.is_reached() {
            "reached"
        } else {
            "missed"
        };
        let bound = format!("{sign} {}", mark.mark);
        let beside = match (mark.limit, mark.limited_by) {
            (Some(limit), Some(by)) => format!("; {by}: {limit:.1}"),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "{:width$}  {figure:>12}  {bound:>7}  {reached}{beside}",
            mark.what
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_reached() {
        let at = |figure, bound| {
            Mark {
                what: "x",
                figure,
                mark: 2.0,
                bound,
                limit: None,
                limited_by: None,
            }
            .is_reached()
        };
        assert!(at(Some(2.0), Bound::AtLeast) && at(Some(2.0), Bound::AtMost));
        assert!(!at(Some(1.9), Bound::AtLeast) && !at(Some(2.1), Bound::AtMost));
        assert!(!at(None, Bound::AtLeast) && !at(None, Bound::AtMost));
    }
}
