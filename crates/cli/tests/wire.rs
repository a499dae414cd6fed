//! `gannet sim wire` and `gannet bench wire`: real workers, real namespaces, a bad path between
//! them. Without root there is only what needs none.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn output(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(arguments.split(' ')).stdin(Stdio::null());
    command.output().expect("the command starts")
}

fn may_make_namespaces() -> bool {
    rustix::process::geteuid().is_root() && Command::new("ip").arg("-V").output().is_ok()
}

#[test]
fn streams_arrive_whole_over_a_wire_that_loses_one_packet_in_a_hundred() {
    if !may_make_namespaces() {
        return;
    }
    let output = output("bench wire --quick --transfer --json");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], "gannet/bench-wire/1");
    let transfers = document["transfers"].as_array().unwrap();
    assert_eq!(transfers.len(), 2, "{document}");
    for transfer in transfers {
        assert_eq!(transfer["verified_bytes"], 1 << 25, "{transfer}");
        assert!(transfer["lost"].as_u64().unwrap() > 100, "{transfer}");
    }
}

#[test]
fn a_wire_that_cannot_be_says_why_in_three_lines() {
    for (arguments, word) in [
        (
            "--left gannet-none --right gannet-none --model loss=1",
            "loss=1",
        ),
        ("--left gannet-none --right gannet-none", "gannet-none"),
        ("--left netns:gannet-none/x --right y", "gannet-none"),
    ] {
        let output = output(&format!("sim wire {arguments}"));
        assert!(!output.status.success(), "{arguments}");
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), 3, "{errors}");
        assert!(lines[0].contains(word), "{errors}");
        assert!(
            lines[1].starts_with("why: ") && lines[2].starts_with("try: "),
            "{errors}"
        );
    }
}
