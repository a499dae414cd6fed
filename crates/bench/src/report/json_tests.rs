//! The shape of `gannet/compare/1`.

use super::*;
use crate::role::Percentiles;
use crate::run::pair::Datagrams;
use crate::run::plan::Scenario;

fn outcome(value: f64) -> Outcome {
    Outcome {
        value,
        cpu_seconds: value / 10.0,
        times: None,
        datagrams: None,
        verified_bytes: 0,
        memory_bytes: None,
    }
}

fn measured(link: Link, workload: Workload, columns: &[(Column, [f64; 3])]) -> Measured {
    let outcomes = columns
        .iter()
        .map(|(column, values)| (*column, values.map(outcome).into()));
    Measured {
        scenario: Scenario::new(link, workload, 65_536),
        outcomes: outcomes.collect(),
    }
}

const KERNEL: Column = Column::Kernel(PeerKind::Kernel);
const BUSY: Column = Column::Kernel(PeerKind::KernelBusy);
const BATCH: Column = Column::Kernel(PeerKind::KernelBatch);
const RING: Column = Column::Limit(Limit::RawRing);
const LINE: Column = Column::Limit(Limit::CacheLine);

fn json(measured: &Measured) -> Vec<serde_json::Value> {
    rows(measured)
        .iter()
        .map(|row| serde_json::to_value(row).unwrap())
        .collect()
}

#[test]
fn a_stream_row() {
    let columns = [
        (KERNEL, [10.0, 5.0, 10.0]),
        (Column::Subject(None), [40.0, 20.0, 50.0]),
        (RING, [80.0, 40.0, 100.0]),
    ];
    let rows = json(&measured(Link::Channel, Workload::TcpStream, &columns));
    let [row] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(row["link"], "channel");
    assert_eq!(row["workload"], "tcp_stream");
    assert_eq!(row["size_bytes"], 65_536);
    assert_eq!(row["unit"], "bit/s");
    assert_eq!(row["kernel"]["median"], 10.0);
    assert_eq!(row["kernel"]["min"], 5.0);
    assert_eq!(row["kernel"]["max"], 10.0);
    assert_eq!(row["kernel"]["cpu_seconds"], 1.0);
    assert_eq!(row["gannet"]["median"], 40.0);
    assert_eq!(row["ratio"]["median"], 4.0);
    assert_eq!(row["ratio"]["max"], 5.0);
    assert_eq!(row["limit_share"], 0.5);
    assert!(row.get("direction").is_none() && row.get("smoltcp").is_none());
}

#[test]
fn a_round_trip_is_better_when_shorter() {
    let columns = [
        (KERNEL, [60.0, 66.0, 54.0]),
        (BUSY, [20.0, 22.0, 18.0]),
        (Column::Subject(None), [2.0, 2.2, 1.8]),
        (LINE, [1.0, 1.1, 0.9]),
    ];
    let rows = json(&measured(Link::Channel, Workload::TcpRoundTrip, &columns));
    let [row] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(row["unit"], "s");
    let near = |value: &serde_json::Value, to: f64| (value.as_f64().unwrap() - to).abs() < 1e-9;
    assert!(near(&row["ratio"]["median"], 30.0));
    assert!(near(&row["ratio_busy"]["median"], 10.0));
    assert!(near(&row["limit_share"], 0.5));
}

#[test]
fn each_direction_is_a_row() {
    let columns = [
        (KERNEL, [10.0; 3]),
        (Column::Subject(Some(Direction::ToKernel)), [9.0; 3]),
        (Column::Subject(Some(Direction::FromKernel)), [8.0; 3]),
        (Column::Subject(Some(Direction::GannetToGannet)), [30.0; 3]),
    ];
    let rows = json(&measured(Link::Veth, Workload::TcpStream, &columns));
    let found: Vec<_> = rows
        .iter()
        .map(|row| (&row["direction"], &row["ratio"]["median"]))
        .collect();
    let expected = [
        ("to_kernel", 0.9),
        ("from_kernel", 0.8),
        ("gannet_to_gannet", 3.0),
    ];
    assert_eq!(found.len(), 3);
    for ((direction, ratio), (should, times)) in found.into_iter().zip(expected) {
        assert_eq!(
            (direction.as_str(), ratio.as_f64()),
            (Some(should), Some(times))
        );
    }
}

#[test]
fn the_better_kernel_counts() {
    let columns = [
        (KERNEL, [10.0; 3]),
        (BATCH, [20.0; 3]),
        (Column::Subject(None), [60.0; 3]),
    ];
    let mut measured = measured(Link::Channel, Workload::UdpStream, &columns);
    for outcome in &mut measured.outcomes[2].1 {
        outcome.datagrams = Some(Datagrams {
            sent: 100,
            delivered: 99,
            lost: 1,
        });
    }
    let rows = json(&measured);
    let row = &rows[0];
    assert_eq!(row["kernel"]["way"], "batch");
    assert_eq!(row["kernel_other"]["way"], "plain");
    assert_eq!(row["ratio"]["median"], 3.0);
    let gannet = &row["gannet"];
    let counts = [&gannet["sent"], &gannet["delivered"], &gannet["lost"]];
    assert_eq!(
        counts.map(serde_json::Value::as_u64),
        [Some(300), Some(297), Some(3)]
    );
}

#[test]
fn without_gannet_there_is_no_ratio() {
    let columns = [
        (Column::Library(Library::Smoltcp), [10.0; 3]),
        (Column::Library(Library::SmoltcpSmallPackets), [5.0; 3]),
    ];
    let rows = json(&measured(Link::InProcess, Workload::TcpStream, &columns));
    let row = &rows[0];
    assert_eq!(
        (&row["link"], &row["smoltcp"]["median"]),
        (&"in_process".into(), &10.0.into())
    );
    for key in ["gannet", "ratio", "kernel", "limit_share"] {
        assert!(row.get(key).is_none(), "{key}");
    }
}

#[test]
fn percentiles_are_medians_of_runs() {
    let mut measured = measured(
        Link::Channel,
        Workload::TcpRoundTrip,
        &[(KERNEL, [1.0, 2.0, 3.0])],
    );
    for (index, outcome) in measured.outcomes[0].1.iter_mut().enumerate() {
        let p99 = 10.0 + index as f64;
        outcome.times = Some(Percentiles {
            p50: 1.0,
            p99,
            p999: p99 * 2.0,
        });
    }
    let rows = json(&measured);
    assert_eq!(
        (&rows[0]["kernel"]["p99"], &rows[0]["kernel"]["p999"]),
        (&11.0.into(), &22.0.into())
    );
}

#[test]
fn a_document_can_be_read_back() {
    let comparison = Comparison {
        measured: vec![measured(
            Link::Channel,
            Workload::TcpStream,
            &[(KERNEL, [1.0; 3])],
        )],
        skipped: vec![Skipped {
            link: Link::Veth,
            problem: crate::Problem::new("cannot", "not root", "sudo"),
        }],
        ..Comparison::default()
    };
    let options = Options {
        links: vec![Link::Channel],
        workloads: vec![Workload::TcpStream],
        sizes: vec![],
        contenders: vec![],
        quick: true,
        verify: false,
        pairs: 3,
        budget: 1.0,
        seconds: None,
    };
    let document = Document::new(Environment::record(), &options, &comparison);
    let value = serde_json::to_value(&document).unwrap();
    assert_eq!(value["schema"], "gannet/compare/1");
    assert!(value["environment"]["cpu"].is_string());
    assert_eq!(value["skipped"][0]["link"], "veth");
    assert_eq!(value["skipped"][0]["try"], "sudo");
    let back: Document = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&back).unwrap(), value);
}
