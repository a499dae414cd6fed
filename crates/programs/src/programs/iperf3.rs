//! iperf3: streams in one and both directions, several at once, datagrams.

use crate::case::{Case, Checked, Fault, Program, expect};
use crate::command::{Cmd, Running};
use crate::mode::Mode;
use crate::stage::Stage;
use serde_json::Value;

pub(crate) const PROGRAM: Program = Program {
    name: "iperf3",
    version: &["iperf3", "--version"],
    needs: &[("iperf3", "iperf3"), ("ip", "iproute2")],
    cases: &[
        Case::new("one stream", 20, |stage| tcp(stage, &[])),
        Case::new("one stream -R", 20, |stage| tcp(stage, &["-R"])),
        Case::new("four streams", 20, |stage| tcp(stage, &["-P", "4"])),
        Case::new("four streams -R", 20, |stage| {
            tcp(stage, &["-P", "4", "-R"])
        }),
        Case::new("both at once", 20, |stage| tcp(stage, &["--bidir"])),
        Case::new("datagrams", 20, |stage| udp(stage, &[])),
        Case::new("datagrams -R", 20, |stage| udp(stage, &["-R"])),
        Case::new("server on the kernel", 20, swapped).only(&[Mode::Veth]),
    ],
};

/// A server of one test, that listens.
fn serve(command: Cmd, host: &str, port: &str) -> Result<Running, Fault> {
    let words = ["-s", "-1", "--forceflush", "-B", host, "-p", port];
    command.args(&words).start()?.ready("Server listening")
}

fn tcp(stage: &Stage, options: &[&str]) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let server = serve(stage.server(&["iperf3"]), host, &port)?;
    let client = stage.client(&["iperf3", "-t", "1"]).args(options);
    let end = call(client, host, &port)?;
    let remark = received(&end)?;
    server.finish()?.ok()?;
    Ok(remark)
}

fn swapped(stage: &Stage) -> Checked {
    let (host, port) = (stage.client_host(), stage.port()?);
    let server = serve(stage.client(&["iperf3"]), host, &port)?;
    let end = call(stage.server(&["iperf3", "-t", "1"]), host, &port)?;
    drop(server);
    received(&end)
}

fn udp(stage: &Stage, options: &[&str]) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let server = serve(stage.server(&["iperf3"]), host, &port)?;
    let client = stage
        .client(&["iperf3", "-t", "1", "-u", "-b", "100M"])
        .args(options);
    let end = call(client, host, &port)?;
    server.finish()?.ok()?;
    let number = |name: &str| end.pointer(&format!("/sum/{name}")).and_then(Value::as_f64);
    let lost = number("lost_percent").ok_or("no loss in the report")?;
    let packets = number("packets").unwrap_or(0.0);
    expect(packets > 0.0 && lost < 50.0, || {
        format!("{packets} packets, {lost} % of them lost")
    })?;
    Ok(format!("{packets} packets, {lost:.2} % lost"))
}

/// Runs a client; `end` of its report.
fn call(command: Cmd, host: &str, port: &str) -> Result<Value, Fault> {
    let finished = command.args(&["-c", host, "-p", port, "--json"]).run()?;
    let report: Value = serde_json::from_str(&finished.stdout)
        .map_err(|error| finished.fault(&format!("no JSON ({error}), ")))?;
    if let Some(error) = report.get("error") {
        return Err(format!("iperf3: {error}").into());
    }
    let end = report.get("end").ok_or("no end in the report")?;
    Ok(end.clone())
}

/// What arrived, which must be something, in every direction there was.
fn received(end: &Value) -> Checked {
    let mut remarks = Vec::new();
    for name in ["sum_received", "sum_received_bidir_reverse"] {
        let Some(sum) = end.get(name) else { continue };
        let number = |name: &str| sum.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        expect(number("bytes") > 0.0, || {
            format!("nothing in {name}: {sum}")
        })?;
        remarks.push(format!("{:.1} Gbit/s", number("bits_per_second") / 1e9));
    }
    expect(!remarks.is_empty(), || "no sum in the report".to_owned())?;
    Ok(remarks.join(" and "))
}
