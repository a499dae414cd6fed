//! What is measured, and how one run of it is done.

use crate::case::Fault;
use crate::command::Cmd;
use crate::family;
use crate::programs::{nginx, redis};
use crate::stage::Stage;
use serde::Serialize;
use serde_json::Value;

/// Something measured in pairs.
pub(super) struct Subject {
    pub(super) name: &'static str,
    /// Names of the figures of one run, with unit and the marks on loopback and over an interface.
    pub(super) figures: &'static [(&'static str, &'static str, f64, f64)],
    /// One run of about so many seconds: a figure for each name.
    pub(super) run: fn(&Stage, u32) -> Result<Vec<Figure>, Fault>,
}

/// One figure of one run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figure {
    /// Work per second.
    pub(super) rate: f64,
    /// 99 of 100 took at most so many milliseconds.
    pub(super) p99_ms: Option<f64>,
    /// Processor time of the client's side, in seconds, during the whole run.
    pub(super) client_seconds: f64,
    /// Processor time of the server's side.
    pub(super) server_seconds: f64,
    /// The congestion control, where the program says it.
    pub(super) congestion: Option<String>,
}

/// Everything that has a mark as a pair.
pub(super) const ALL: &[Subject] = &[
    Subject {
        name: "iperf3",
        figures: &[("one stream", "Gbit/s", 2.0, 0.9)],
        run: stream,
    },
    Subject {
        name: "redis",
        figures: &[
            ("GET, 50 clients", "requests/s", 2.0, 0.9),
            ("SET, 50 clients", "requests/s", 2.0, 0.9),
        ],
        run: get_and_set,
    },
    Subject {
        name: "nginx",
        figures: &[("1 KiB, 64 connections", "requests/s", 1.5, 0.9)],
        run: files,
    },
];

/// Runs a client, and says what the two sides used meanwhile.
fn measured(client: Cmd) -> Result<(String, f64, f64), Fault> {
    let (dead, living) = (family::seconds_of_the_dead(), family::usage(None).seconds);
    let out = client.ok()?;
    // What of the client's side lives on, such as a carrier, counts as the server's.
    let server = family::usage(None).seconds - living;
    Ok((out, family::seconds_of_the_dead() - dead, server))
}

fn stream(stage: &Stage, seconds: u32) -> Result<Vec<Figure>, Fault> {
    let (host, port) = (stage.host(), stage.port()?);
    // A server of more than one test, so that it lives when its time is read.
    let serve = ["iperf3", "-s", "--forceflush", "-B", host, "-p", &port];
    let _server = stage.server(&serve).start()?.ready("Server listening")?;
    let time = seconds.to_string();
    let call = ["iperf3", "-c", host, "-p", &port, "-t", &time, "--json"];
    let (out, client_seconds, server_seconds) = measured(stage.client(&call))?;
    let report: Value = serde_json::from_str(&out).map_err(|error| error.to_string())?;
    let end = report.get("end").ok_or("no end in the report")?;
    let bits = end
        .pointer("/sum_received/bits_per_second")
        .and_then(Value::as_f64);
    let control = end.get("sender_tcp_congestion").and_then(Value::as_str);
    Ok(vec![Figure {
        rate: bits.ok_or("no rate in the report")? / 1e9,
        p99_ms: None,
        client_seconds,
        server_seconds,
        congestion: control.map(str::to_owned),
    }])
}

fn get_and_set(stage: &Stage, seconds: u32) -> Result<Vec<Figure>, Fault> {
    let server = redis::Server::start(stage, &[])?;
    // What a server of one thread answers in a second, about.
    let count = (u64::from(seconds) * 100_000).to_string();
    let mut figures = Vec::new();
    for test in ["GET", "SET"] {
        let words = [
            "redis-benchmark",
            "-t",
            test,
            "-c",
            "50",
            "-n",
            &count,
            "--csv",
        ];
        let client = stage.client(&words).args(&server.at());
        let (out, client_seconds, server_seconds) = measured(client)?;
        figures.push(Figure {
            rate: redis::column(&out, test, redis::RATE)?,
            p99_ms: Some(redis::column(&out, test, redis::P99)?),
            client_seconds,
            server_seconds,
            congestion: None,
        });
    }
    Ok(figures)
}

fn files(stage: &Stage, seconds: u32) -> Result<Vec<Figure>, Fault> {
    let server = nginx::Server::start(stage, &nginx::Options::default())?;
    let time = seconds.to_string();
    let words = ["wrk", "-t", "2", "-c", "64", "-d", &time, "--latency"];
    let client = stage.client(&words).args(&[&server.url("1K")]);
    let (out, client_seconds, server_seconds) = measured(client)?;
    Ok(vec![Figure {
        rate: nginx::wrk_rate(&out)?,
        p99_ms: wrk_p99(&out),
        client_seconds,
        server_seconds,
        congestion: None,
    }])
}

/// The line ` 99%    1.23ms` of wrk, in milliseconds.
fn wrk_p99(out: &str) -> Option<f64> {
    let mut lines = out.lines();
    let text = lines
        .find_map(|line| line.trim().strip_prefix("99%"))?
        .trim();
    let units = [("us", 0.001), ("ms", 1.0), ("s", 1000.0)];
    units.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * factor)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_wrk_writes_them() {
        for (text, expected) in [("620.00us", 0.62), ("1.50ms", 1.5), ("2.00s", 2000.0)] {
            let out = format!("  Latency Distribution\n     90%    1us\n     99%  {text}\n");
            let found = wrk_p99(&out).expect("a time");
            assert!((found - expected).abs() < 1e-9, "{found}");
        }
        assert_eq!(wrk_p99("none"), None);
    }
}
