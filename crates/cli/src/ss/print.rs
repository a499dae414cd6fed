//! Sockets as a table, with the columns of `ss`, or as JSON.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use gannet_bench::Problem;
use serde::Serialize;

use super::command::Arguments;
use super::gone::Gone;
use super::socket::Socket;
use crate::compare::print_json;

/// The schema `gannet/ss/1`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    sockets: &'a [Socket],
    /// Programs whose carrier has ended before them.
    #[serde(skip_serializing_if = "<[Gone]>::is_empty")]
    without_carrier: &'a [Gone],
}

pub(super) fn json(sockets: &[Socket], gone: &[Gone]) -> Result<ExitCode, Problem> {
    print_json(&Document {
        schema: "gannet/ss/1",
        sockets,
        without_carrier: gone,
    })
    .map(|()| ExitCode::SUCCESS)
}

pub(super) fn table(
    (arguments, one_state): (&Arguments, bool),
    sockets: &[Socket],
    gone: &[Gone],
) -> Result<ExitCode, Problem> {
    for program in gone {
        eprintln!("warning: {}", program.problem());
    }
    let text = text(arguments, one_state, sockets);
    // Whoever reads may have seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn text(arguments: &Arguments, one_state: bool, sockets: &[Socket]) -> String {
    let mut rows: Vec<[String; 7]> = Vec::new();
    if !arguments.no_header {
        let titles = [
            "Netid",
            "State",
            "Recv-Q",
            "Send-Q",
            "Local Address:Port",
            "Peer Address:Port",
            if arguments.processes { "Process" } else { "" },
        ];
        rows.push(titles.map(str::to_owned));
    }
    rows.extend(sockets.iter().map(|socket| row(arguments, socket)));
    // What is the same in every line has no column, as ss has it.
    let same = [(0, arguments.tcp != arguments.udp), (1, one_state)];
    for column in same.iter().filter(|same| same.1).map(|same| same.0) {
        rows.iter_mut()
            .filter_map(|row| row.get_mut(column))
            .for_each(String::clear);
    }
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    let mut below = sockets.iter();
    for (n, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .filter(|(_, width)| *width > 0)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        let _ = writeln!(text, "{}", cells.join(" ").trim_end());
        if n > 0 || arguments.no_header {
            let details = below.next().map(|socket| details(arguments, socket));
            text += &details.unwrap_or_default();
        }
    }
    text
}

fn row(arguments: &Arguments, socket: &Socket) -> [String; 7] {
    let each = |process: &super::socket::Process| {
        let fd = process.fd.map_or(String::new(), |fd| format!(",fd={fd}"));
        format!("(\"{}\",pid={}{fd})", process.name, process.pid)
    };
    let processes: Vec<String> = match arguments.processes {
        true => socket.processes.iter().map(each).collect(),
        false => Vec::new(),
    };
    let processes = match processes.is_empty() {
        true => String::new(),
        false => format!("users:({})", processes.join(",")),
    };
    [
        socket.kind.clone(),
        socket.state.clone(),
        socket.recv_q.to_string(),
        socket.send_q.to_string(),
        place(socket.local, socket.both_families),
        place(
            socket.peer,
            socket.both_families && socket.peer.ip().is_unspecified(),
        ),
        processes,
    ]
}

/// As ss writes it: `*` for any port, and for any address of both families.
fn place(address: SocketAddr, both_families: bool) -> String {
    let ip = match address.ip() {
        _ if both_families => "*".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    match address.port() {
        0 => format!("{ip}:*"),
        port => format!("{ip}:{port}"),
    }
}

/// The line below a socket, if one is asked for.
fn details(arguments: &Arguments, socket: &Socket) -> String {
    let mut parts = Vec::new();
    if arguments.memory {
        parts.push(format!("mem:(r{},w{})", socket.recv_q, socket.send_q));
    }
    if arguments.info {
        parts.push(socket.way.clone());
        parts.extend(figures(socket));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("\t {}\n", parts.join(" ")),
    }
}

/// As ss has them: times in milliseconds, the windows in segments.
fn figures(socket: &Socket) -> Option<String> {
    let of = |name: &str| socket.figures.get(name).copied().unwrap_or(0);
    let milliseconds = |name| of(name) as f64 / 1000.0;
    let mss = of("mss");
    if mss == 0 {
        return None;
    }
    let mut text = format!(
        "rtt:{:.3}/{:.3} rto:{} mss:{mss} cwnd:{}",
        milliseconds("rtt"),
        milliseconds("rttvar"),
        of("rto") / 1000,
        of("cwnd") / mss,
    );
    for (name, key) in [("ssthresh", "ssthresh"), ("unacked", "unacked")] {
        let segments = of(key) / mss;
        if segments > 0 && of(key) < u64::from(u32::MAX) {
            let _ = write!(text, " {name}:{segments}");
        }
    }
    if of("retrans") > 0 {
        let _ = write!(text, " retrans:0/{}", of("retrans"));
    }
    for name in ["segs_out", "segs_in", "notsent"] {
        if of(name) > 0 {
            let _ = write!(text, " {name}:{}", of(name));
        }
    }
    if of("minrtt") > 0 {
        let _ = write!(text, " minrtt:{:.3}", milliseconds("minrtt"));
    }
    for window in ["snd_wnd", "rcv_wnd"] {
        let _ = write!(text, " {window}:{}", of(window));
    }
    Some(text)
}
