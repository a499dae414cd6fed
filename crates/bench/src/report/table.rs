//! The comparison for people: one aligned table a conversation and link, a line for each contender
//! (side by side they are twice as wide as a terminal), and where Gannet loses.

use std::fmt::Write as _;

use super::json::{Document, Figure, Row};
use crate::role::Workload;
use crate::run::plan::{Direction, Link};
use crate::statistics::Summary;

/// The whole comparison as text.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    head(&mut out, document);
    let mut rows = document.results.as_slice();
    while let Some(first) = rows.first() {
        let same = |row: &Row| (row.link, row.workload) == (first.link, first.workload);
        let count = rows.iter().take_while(|row| same(row)).count();
        let (group, rest) = rows.split_at(count);
        table(&mut out, group);
        rows = rest;
    }
    notes(&mut out, document);
    losses(&mut out, document);
    out
}

fn head(out: &mut String, document: &Document) {
    let environment = &document.environment;
    let method = &document.method;
    let _ = writeln!(
        out,
        "{} · {} cores · {} · {} · gannet {} ({}, {})",
        environment.cpu,
        environment.cores,
        environment.kernel,
        environment.congestion_control,
        environment.gannet,
        environment.commit.get(..12).unwrap_or(&environment.commit),
        environment.build,
    );
    let _ = writeln!(
        out,
        "{} interleaved runs of {:.2} s or more each after a warm-up, {:.0} s in all; \
         median [min .. max]{}",
        method.pairs,
        method.seconds_per_run,
        method.elapsed_seconds,
        if method.verified {
            "; every byte checked, which costs speed"
        } else {
            ""
        },
    );
}

fn title(row: &Row) -> String {
    let link = match row.link {
        Link::Channel => "same host (kernel: loopback, Gannet: channel)",
        Link::Veth => "virtual Ethernet, MTU 1,500",
        Link::InProcess => "both ends in one process, one core",
    };
    let what = match row.workload {
        Workload::TcpStream => "TCP stream, Gbit/s",
        Workload::TcpRoundTrip => "TCP round trip, p50 in µs",
        Workload::UdpStream => "UDP stream, 1,000 datagrams/s delivered",
        Workload::UdpRoundTrip => "UDP round trip, p50 in µs",
        Workload::TcpIdle => "idle TCP connections, cores in use by both sides",
    };
    format!("{what} · {link}")
}

/// One contender of one row.
struct Line<'a> {
    row: &'a Row,
    who: &'static str,
    figure: &'a Figure,
    /// How Gannet compares with it.
    compared: Option<String>,
    first: bool,
}

/// One table: a line for each contender, the columns that have a figure in some line.
fn table(out: &mut String, rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let lines: Vec<Line<'_>> = rows.iter().flat_map(lines).collect();
    let cpu = match first.workload {
        Workload::TcpStream => "CPU s/GB",
        Workload::TcpIdle => "CPU s/s",
        _ => "CPU µs/op",
    };
    let mut columns: Vec<(&str, Vec<String>)> = Vec::new();
    let mut add = |name, cell: &dyn Fn(&Line<'_>) -> Option<String>| {
        let cells: Vec<_> = lines.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            columns.push((
                name,
                cells.into_iter().map(Option::unwrap_or_default).collect(),
            ));
        }
    };
    match first.workload {
        Workload::TcpIdle => add("number", &|l| l.first.then(|| l.row.size_bytes.to_string())),
        _ => add("bytes", &|l| l.first.then(|| size(l.row.size_bytes))),
    }
    add("direction", &|l| {
        let direction = l.row.direction.filter(|_| l.first);
        direction.map(|direction| self::direction(direction).to_owned())
    });
    add("who", &|l| Some(l.who.to_owned()));
    let scale = scale(first.workload);
    add("median", &|l| Some(number(l.figure.value.median * scale)));
    add("min", &|l| Some(number(l.figure.value.min * scale)));
    add("max", &|l| Some(number(l.figure.value.max * scale)));
    add("p99", &|l| l.figure.p99.map(|time| number(time * 1e6)));
    add("p99.9", &|l| l.figure.p999.map(|time| number(time * 1e6)));
    add("lost", &|l| {
        Some(percent(
            l.figure.lost? as f64 / l.figure.sent?.max(1) as f64,
        ))
    });
    add("MiB", &|l| {
        let bytes = l.figure.memory_bytes?;
        Some(number(bytes as f64 / f64::from(1 << 20)))
    });
    add(cpu, &|l| {
        let unit = match l.row.workload {
            Workload::TcpStream | Workload::TcpIdle => 1.0,
            _ => 1e6,
        };
        Some(number(l.figure.cpu_seconds * unit))
    });
    add("Gannet is", &|l| l.compared.clone());
    let _ = writeln!(out, "\n{}", title(first));
    align(out, &columns);
}

/// The contenders of a row, Gannet last.
fn lines(row: &Row) -> Vec<Line<'_>> {
    let times = |ratio: &Option<Summary>| ratio.as_ref().map(ratio_text);
    let share = |share: Option<f64>| share.map(|share| format!("{} of it", percent(share)));
    let limit = match (row.link, row.workload.is_round_trip()) {
        (Link::InProcess, _) => "two copies",
        (_, true) => "cache line",
        (_, false) => "raw ring",
    };
    let kernel = match row.kernel.as_ref().and_then(|figure| figure.way.as_deref()) {
        Some("batch") => "kernel, batches",
        _ => "kernel",
    };
    let all = [
        (kernel, &row.kernel, times(&row.ratio)),
        ("busy kernel", &row.kernel_busy, times(&row.ratio_busy)),
        ("smoltcp", &row.smoltcp, times(&row.ratio)),
        ("smoltcp, MTU 1500", &row.smoltcp_mtu_1500, None),
        (limit, &row.limit, share(row.limit_share)),
        (
            "smoltcp, in place",
            &row.smoltcp_in_place,
            times(&row.ratio_in_place),
        ),
        ("Gannet, in place", &row.gannet_in_place, None),
        ("Gannet", &row.gannet, None),
    ];
    let present = all.into_iter().filter_map(|(who, figure, compared)| {
        let figure = figure.as_ref()?;
        Some((who, figure, compared))
    });
    present
        .enumerate()
        .map(|(index, (who, figure, compared))| Line {
            row,
            who,
            figure,
            compared,
            first: index == 0,
        })
        .collect()
}

fn align(out: &mut String, columns: &[(&str, Vec<String>)]) {
    let wide = |text: &str| text.chars().count();
    let width = |(name, cells): &(&str, Vec<String>)| {
        cells
            .iter()
            .map(|cell| wide(cell))
            .fold(wide(name), usize::max)
    };
    let widths: Vec<usize> = columns.iter().map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:>width$}"));
        let _ = writeln!(out, "  {}", padded.collect::<Vec<_>>().join("  "));
    };
    line(&mut columns.iter().map(|(name, _)| *name));
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    for index in 0..rows {
        let cells = columns.iter().filter_map(|(_, cells)| cells.get(index));
        line(&mut cells.map(String::as_str));
    }
}

/// From the figure's unit to the table's.
fn scale(workload: Workload) -> f64 {
    match workload {
        Workload::TcpStream => 1e-9,
        Workload::UdpStream => 1e-3,
        Workload::TcpIdle => 1.0,
        Workload::TcpRoundTrip | Workload::UdpRoundTrip => 1e6,
    }
}

fn ratio_text(ratio: &Summary) -> String {
    let [median, min, max] = [ratio.median, ratio.min, ratio.max].map(number);
    format!("{median} times as good [{min} .. {max}]")
}

/// Three digits that matter.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 || size == 0.0 => 3,
        size if size >= 0.001 => 5,
        _ => 7,
    };
    format!("{value:.digits$}")
}

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1024 && bytes % 1024 == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::ToKernel => "gannet > kernel",
        Direction::FromKernel => "kernel > gannet",
        Direction::GannetToGannet => "gannet > gannet",
    }
}

fn notes(out: &mut String, document: &Document) {
    let _ = writeln!(
        out,
        "\nCPU: both sides, polling included. Limits: a raw ring that copies in and out, or one\n\
         cache line there and back, between the same two cores. Ratios are taken in pairs."
    );
    for skipped in &document.skipped {
        let _ = writeln!(
            out,
            "\nLeft out: {}\n{}",
            skipped.link.name(),
            skipped.problem
        );
    }
    for failure in &document.failures {
        let (link, workload, size) = (
            failure.link.name(),
            failure.workload.name(),
            failure.size_bytes,
        );
        let column = failure.column;
        let _ = writeln!(
            out,
            "\nFailed: {link} {workload} {size} B ({column:?})\n{}",
            failure.problem
        );
    }
}

/// Every comparison that Gannet does not win, with the reason one can see in the figures.
fn losses(out: &mut String, document: &Document) {
    let _ = writeln!(out, "\nWhere Gannet loses");
    let compared: Vec<&Row> = document
        .results
        .iter()
        .filter(|row| row.ratio.is_some())
        .collect();
    let before = out.len();
    for row in &compared {
        let name = format!(
            "{} {} {}",
            row.link.name(),
            row.workload.name(),
            size(row.size_bytes)
        );
        let direction = row
            .direction
            .map(|d| format!(" ({})", direction(d)))
            .unwrap_or_default();
        let mut lose = |what: &str, than: f64| {
            let _ = writeln!(
                out,
                "  {name}{direction}: {what} {} times the other's",
                number(than)
            );
        };
        if let Some(ratio) = row.ratio.filter(|ratio| ratio.median < 1.0) {
            let (what, than) = speed(row, ratio.median);
            lose(what, than);
        }
        if let Some(ratio) = row.ratio_busy.filter(|ratio| ratio.median < 1.0) {
            lose("against the busy kernel, time", 1.0 / ratio.median);
        }
        let other = row.kernel.as_ref().or(row.smoltcp.as_ref());
        if let (Some(ours), Some(theirs)) = (&row.gannet, other)
            && ours.cpu_seconds > theirs.cpu_seconds
        {
            lose("CPU time", ours.cpu_seconds / theirs.cpu_seconds);
        }
    }
    if compared.is_empty() {
        let _ = writeln!(out, "  nothing of Gannet's was measured");
    } else if out.len() == before {
        let _ = writeln!(out, "  nowhere in these runs");
    }
}

fn speed(row: &Row, ratio: f64) -> (&'static str, f64) {
    match row.workload.is_cost() {
        true => ("cost", 1.0 / ratio),
        false => ("rate", ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes() {
        let numbers = [
            (123.4, "123"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (0.1234, "0.123"),
            (0.01234, "0.01234"),
            (0.000_092, "0.0000920"),
        ];
        for (value, text) in numbers {
            assert_eq!(number(value), text);
        }
        let sizes = [
            (1, "1 B"),
            (1000, "1000 B"),
            (65_536, "64 KiB"),
            (1 << 20, "1 MiB"),
        ];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let column = |name: &'static str, cells: [&str; 2]| (name, cells.map(str::to_owned).into());
        let mut out = String::new();
        align(
            &mut out,
            &[column("µs", ["1", "22"]), column("b", ["333", "4"])],
        );
        assert_eq!(out, "  µs    b\n   1  333\n  22    4\n");
    }
}
