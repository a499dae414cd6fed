//! The cases on the kernel: the same twice, nothing hangs, nothing could not be set up.

use std::process::Command;

/// What the program prints, line by line.
fn lines(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet-cases"));
    let output = command
        .args(arguments)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn two_runs_observe_the_same() {
    let (first, second) = (lines(&[]), lines(&[]));
    assert!(first.len() >= 500, "{}", first.len());
    assert_eq!(first.len(), second.len());
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(one, other);
        assert!(
            !one.contains("hang") && !one.contains("set-up failed"),
            "{one}"
        );
    }
}

#[test]
fn nothing_hangs_when_a_process_of_two_is_killed_or_changes() {
    let lines = lines(&["faults"]);
    assert!(lines.len() >= 25, "{}", lines.len());
    for line in lines {
        let bad = ["hang", "damaged", "nothing in 3 s", "set-up failed"];
        assert!(!bad.iter().any(|bad| line.contains(bad)), "{line}");
    }
}

#[test]
fn cases_are_chosen_by_name_and_printed_as_json() {
    let listed = lines(&["--list", "--only", "bind/EF", "--only", "listen/EOP"]);
    assert_eq!(listed, ["bind/EFAULT", "listen/EOPNOTSUPP"]);
    let text = lines(&["--json", "--only", "bind/EFAULT"]).join("\n");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["version"], 1);
    assert_eq!(document["cases"][0]["observed"], "bind -1 EFAULT");
}
