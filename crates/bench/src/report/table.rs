//! The comparison for people: one aligned table a conversation and link, and where Gannet loses.

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

/// One table: the columns that have a figure in some row.
fn table(out: &mut String, rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let cpu = match first.workload {
        Workload::TcpStream => "s/GB",
        Workload::TcpIdle => "s/s",
        _ => "µs/op",
    };
    let mut columns: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |name: &str, cell: &dyn Fn(&Row) -> Option<String>| {
        let cells: Vec<_> = rows.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells
                .into_iter()
                .map(|cell| cell.unwrap_or_else(|| "-".into()));
            columns.push((name.to_owned(), cells.collect()));
        }
    };
    match first.workload {
        Workload::TcpIdle => add("connections", &|row| Some(row.size_bytes.to_string())),
        _ => add("bytes", &|row| Some(size(row.size_bytes))),
    }
    add("direction", &|row| {
        row.direction
            .map(|direction| self::direction(direction).to_owned())
    });
    figure_columns(&mut add, "kernel", cpu, &|row| row.kernel.as_ref());
    figure_columns(&mut add, "busy kernel", cpu, &|row| {
        row.kernel_busy.as_ref()
    });
    figure_columns(&mut add, "smoltcp", cpu, &|row| row.smoltcp.as_ref());
    add("smoltcp, MTU 1500", &|row| {
        row.smoltcp_mtu_1500.as_ref().map(|f| value(row, f))
    });
    figure_columns(&mut add, "gannet", cpu, &|row| row.gannet.as_ref());
    add("times better", &|row| row.ratio.as_ref().map(ratio));
    add("than busy", &|row| row.ratio_busy.as_ref().map(ratio));
    add("limit", &|row| {
        row.limit.as_ref().map(|figure| value(row, figure))
    });
    add("gannet's share", &|row| row.limit_share.map(percent));
    add("kernel's share", &|row| row.kernel_limit_share.map(percent));
    let _ = writeln!(out, "\n{}", title(first));
    align(out, &columns);
}

type Cell<'a> = &'a dyn Fn(&Row) -> Option<String>;

fn figure_columns(
    add: &mut impl FnMut(&str, Cell<'_>),
    name: &str,
    cpu: &str,
    of: &dyn Fn(&Row) -> Option<&Figure>,
) {
    add(name, &|row| of(row).map(|figure| value(row, figure)));
    add("p99", &|row| of(row)?.p99.map(|time| number(time * 1e6)));
    add("p99.9", &|row| of(row)?.p999.map(|time| number(time * 1e6)));
    add("lost", &|row| {
        let figure = of(row)?;
        Some(percent(figure.lost? as f64 / figure.sent?.max(1) as f64))
    });
    add("MiB", &|row| {
        Some(number(of(row)?.memory_bytes? as f64 / f64::from(1 << 20)))
    });
    add(&format!("CPU {cpu}"), &|row| {
        let scale = match row.workload {
            Workload::TcpStream | Workload::TcpIdle => 1.0,
            _ => 1e6,
        };
        of(row).map(|figure| number(figure.cpu_seconds * scale))
    });
}

fn align(out: &mut String, columns: &[(String, Vec<String>)]) {
    let wide = |text: &str| text.chars().count();
    let width = |(name, cells): &(String, Vec<String>)| {
        cells
            .iter()
            .map(|cell| wide(cell))
            .fold(wide(name), usize::max)
    };
    let widths: Vec<usize> = columns.iter().map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &String>| {
        let padded = cells
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:>width$}"));
        let _ = writeln!(out, "  {}", padded.collect::<Vec<_>>().join("  "));
    };
    line(&mut columns.iter().map(|(name, _)| name));
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    for index in 0..rows {
        line(&mut columns.iter().filter_map(|(_, cells)| cells.get(index)));
    }
}

fn value(row: &Row, figure: &Figure) -> String {
    let Summary { median, min, max } = figure.value;
    let scale = match row.workload {
        Workload::TcpStream => 1e-9,
        Workload::UdpStream => 1e-3,
        Workload::TcpIdle => 1.0,
        Workload::TcpRoundTrip | Workload::UdpRoundTrip => 1e6,
    };
    let [median, min, max] = [median, min, max].map(|value| number(value * scale));
    format!("{median} [{min} .. {max}]")
}

fn ratio(ratio: &Summary) -> String {
    let [median, min, max] = [ratio.median, ratio.min, ratio.max].map(number);
    format!("{median} [{min} .. {max}]")
}

/// Three digits that matter.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
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
        "\nCPU: both sides, polling included. Limit: a raw ring that copies in and out, or one\n\
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
        let column =
            |name: &str, cells: [&str; 2]| (name.to_owned(), cells.map(str::to_owned).into());
        let mut out = String::new();
        align(
            &mut out,
            &[column("µs", ["1", "22"]), column("b", ["333", "4"])],
        );
        assert_eq!(out, "  µs    b\n   1  333\n  22    4\n");
    }
}
