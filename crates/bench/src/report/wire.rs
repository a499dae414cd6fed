//! The marks over an impaired wire, for people.

use std::fmt::Write as _;

use crate::run::wire_marks::{PointResult, Results};
use crate::statistics::Summary;

/// The tables.
pub fn render(results: &Results) -> String {
    let mut out = String::new();
    let Results {
        congestion,
        buffer,
        seconds,
        seeds,
        points,
        shared,
        transfers,
    } = results;
    let _ = writeln!(
        out,
        "congestion control {congestion}, buffers up to {} KiB, {seconds} s a run, {seeds} seeds; \
         loss on both ways, queue of one bandwidth-delay product",
        buffer / 1024
    );
    if !points.is_empty() {
        let head = "\none flow: goodput in Mbit/s, median of the seeds (least to most)";
        let _ = writeln!(out, "{head}; mark: Gannet / kernel at least 1.00");
        table(&mut out, points, "Gannet/kernel");
    }
    if !shared.is_empty() {
        let head =
            "\ntwo flows at once: goodput in Mbit/s; mark: each 0.8 to 1.25 of the fair share";
        let _ = writeln!(out, "{head}");
        table(&mut out, shared, "Gannet/fair");
    }
    if !transfers.is_empty() {
        let _ = writeln!(
            out,
            "\nchecked transfers: every byte compared, hashes equal"
        );
    }
    for transfer in transfers {
        let _ = writeln!(
            out,
            "{:17} {} bytes in {:.1} s ({:.1} Mbit/s), {} packets lost; {}",
            transfer.way,
            transfer.verified_bytes,
            transfer.seconds,
            transfer.verified_bytes as f64 * 8e-6 / transfer.seconds,
            transfer.lost,
            transfer.model
        );
    }
    out
}

fn table(out: &mut String, rows: &[PointResult], ratio: &str) {
    let _ = writeln!(
        out,
        "{:>6} {:>7} {:>6}  {:>22}  {:>22}  {ratio:>22}  wire",
        "loss", "trip ms", "rate", "kernel", "Gannet"
    );
    for row in rows {
        let megabits = |samples: &[f64]| {
            Summary::of(samples.iter().map(|bits| bits / 1e6)).map_or_else(String::new, spread)
        };
        let mark = match (row.valid, row.reached) {
            (false, _) => "invalid: the wire was the bottleneck",
            (true, true) => "reached",
            (true, false) => "missed",
        };
        let _ = writeln!(
            out,
            "{:>5}% {:>7} {:>6}  {:>22}  {:>22}  {:>22}  {:.0} % of a core, \
             99 % within {} us; {mark}",
            row.point.loss_percent,
            row.point.round_trip_ms,
            row.point.rate_mbit,
            megabits(&row.kernel),
            megabits(&row.gannet),
            spread(row.ratio),
            row.wire_cores * 100.0,
            row.wire_late_us,
        );
    }
}

fn spread(summary: Summary) -> String {
    let Summary { median, min, max } = summary;
    format!("{median:.2} ({min:.2} to {max:.2})")
}
