//! `gannet run` from end to end: what starts, what does not, and the exit statuses. The library is
//! a stand-in: one that every program has anyway.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// The C library of this test, which is loaded without any effect into other programs.
fn stand_in() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").expect("a process has maps");
    let mut paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let libc = paths.find(|path| path.contains("/libc.so") || path.contains("/libc-2"));
    libc.expect("this test is a dynamic program").into()
}

fn gannet(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GANNET_") {
            command.env_remove(name);
        }
    }
    command.env("GANNET_CONFIG", "/dev/null");
    command
        .env("GANNET_PRELOAD", stand_in())
        .stdin(Stdio::null());
    command.arg("run").args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    gannet(arguments).output().expect("it starts")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn sh(script: &str) -> Output {
    output(&["--", "sh", "-c", script])
}

#[test]
fn the_exit_status_is_the_programs() {
    for status in [0, 1, 42, 125, 255] {
        let out = sh(&format!("exit {status}"));
        assert_eq!(out.status.code(), Some(status), "{}", errors(&out));
        assert_eq!(errors(&out), "");
    }
    for (signal, status) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let out = sh(&format!("ulimit -c 0; kill -{signal} $$"));
        assert_eq!(out.status.code(), Some(status));
    }
}

/// A network's directory goes with its last program, and comes again with the next.
#[test]
fn programs_of_a_network_come_and_go_at_once() {
    let network = format!("race-{}", std::process::id());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let out = output(&["--net", &network, "true"]);
                    assert_eq!(out.status.code(), Some(0), "{}", errors(&out));
                }
            });
        }
    });
}

#[test]
fn the_program_gets_its_words_and_its_settings() {
    let out = output(&[
        "--net",
        "lab",
        "--set",
        "spin=0",
        "-v",
        "sh",
        "-c",
        "echo \"$0|$*|$LD_PRELOAD|$GANNET_RUN_SETTINGS|$GANNET_RUN_VERBOSE\"",
        "name",
        "-v",
        "--",
        "x",
    ]);
    let text = String::from_utf8_lossy(&out.stdout);
    let library = fs::canonicalize(stand_in()).unwrap();
    let expected = format!("name|-v -- x|{}|network=lab\nspin=0|1\n", library.display());
    assert_eq!(text, expected, "{}", errors(&out));
    assert!(
        errors(&out).contains("network lab, link channel, address auto"),
        "{}",
        errors(&out)
    );
}

#[test]
fn programs_that_do_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let plain = file("plain", "echo", 0o644);
    let lost = file("lost", "#!/no/such/thing\n", 0o755);
    let noise = file("noise", "\x01\x02\x03\x04", 0o755);
    let here = directory.path().display().to_string();
    for (arguments, status, part) in [
        (
            &["--", "no-such-program-at-all"][..],
            127,
            "no directory of PATH",
        ),
        (&["--", "/no/such/program"], 127, "there is no such file"),
        (&["--", &lost], 127, "its interpreter /no/such/thing"),
        (&["--", &plain], 126, "ermission denied"),
        (&["--", &here], 126, "it is a directory"),
        (&["--", &noise], 126, "no such format of executables"),
        (&["--net", "a/b", "--", "true"], 125, "(option --net)"),
        (&["--addr", "300.1.1.1", "true"], 125, "(option --addr)"),
        (&["--link", "wire", "true"], 125, "(option --link)"),
        (&["--profile", "fast", "true"], 125, "(option --profile)"),
        (&["--set", "spin=1", "true"], 125, "(option --set)"),
        (
            &["--link", "packet:no-such-if", "--addr", "10.0.0.1", "true"],
            125,
            "no interface",
        ),
        (&["--link", "packet:lo", "true"], 125, "without an address"),
        (&["--addr", "dhcp", "true"], 125, "DHCP"),
    ] {
        let out = output(arguments);
        let text = errors(&out);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[0].starts_with("error: ") && lines[2].starts_with("try: "),
            "{text}"
        );
    }
    for arguments in [
        &[][..],
        &["--"],
        &["--no-such-option", "true"],
        &["--set", "spin", "true"],
    ] {
        assert_eq!(output(arguments).status.code(), Some(125), "{arguments:?}");
    }
    assert_eq!(output(&["--help"]).status.code(), Some(0));
}

#[test]
fn without_the_library_nothing_starts() {
    let mut command = gannet(&["--", "true"]);
    let out = command
        .env("GANNET_PRELOAD", "/no/such.so")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert!(
        errors(&out).contains("GANNET_PRELOAD names /no/such.so"),
        "{}",
        errors(&out)
    );
    // a command in another place, without one beside it
    let directory = tempfile::tempdir().unwrap();
    let alone = directory.path().join("gannet");
    fs::copy(env!("CARGO_BIN_EXE_gannet"), &alone).unwrap();
    let out = Command::new(&alone)
        .args(["run", "--", "true"])
        .env_remove("GANNET_PRELOAD")
        .output();
    let out = out.unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert!(
        errors(&out).ends_with("try: cargo build --release\n"),
        "{}",
        errors(&out)
    );
}

/// A program that ends with 7, linked statically, if the compiler can.
fn static_program(directory: &Path) -> Option<PathBuf> {
    let (source, program) = (directory.join("main.c"), directory.join("main"));
    fs::write(&source, "int main(void) { return 7; }\n").unwrap();
    let mut cc = Command::new("cc");
    let out = cc
        .args(["-static", "-o"])
        .args([&program, &source])
        .output();
    out.is_ok_and(|out| out.status.success()).then_some(program)
}

#[test]
fn a_program_that_cannot_be_carried() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = static_program(directory.path()) else {
        return eprintln!("skipped: cc -static does not work here");
    };
    let program = program.display().to_string();
    let out = output(&["--", &program]);
    assert_eq!(out.status.code(), Some(7), "it runs on the kernel");
    let text = errors(&out);
    assert!(
        text.starts_with("warning: ") && text.contains("(static-program)"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 3, "{text}");
    let out = output(&["--require", "--", &program]);
    assert_eq!(out.status.code(), Some(125), "it does not start");
    let text = errors(&out);
    assert!(text.starts_with("error: cannot carry "), "{text}");
    assert!(text.contains("gannet explain static-program"), "{text}");
    assert_eq!(output(&["--require", "--", "true"]).status.code(), Some(0));
}

/// Waits for `done`; a failure after a time that only a hang takes.
fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn signals() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    // what the program gets, and whether this process stays until it has ended
    for (signal, status) in [(Signal::TERM, 3), (Signal::INT, 4), (Signal::HUP, 4)] {
        let _ = fs::remove_file(&ready);
        let script = format!(
            "trap 'exit 3' TERM; trap 'exit 4' USR1; echo $$ > {0}.new; mv {0}.new {0}; \
             while :; do sleep 0.05; done",
            ready.display()
        );
        let mut child = gannet(&["--", "sh", "-c", &script]).spawn().unwrap();
        until("the program starts", || ready.exists());
        let inner: i32 = fs::read_to_string(&ready).unwrap().trim().parse().unwrap();
        let inner = Pid::from_raw(inner).unwrap();
        let outer = Pid::from_raw(child.id() as i32).unwrap();
        kill_process(outer, signal).unwrap();
        if signal != Signal::TERM {
            // it is the terminal that tells the program; we wait
            sleep(Duration::from_millis(50));
            assert!(child.try_wait().unwrap().is_none(), "{signal:?}");
            kill_process(inner, Signal::USR1).unwrap();
        }
        let ended = child.wait().unwrap();
        assert_eq!(
            ended.code(),
            Some(status),
            "{signal:?}: {:?}",
            ended.signal()
        );
        assert!(test_kill_process(inner).is_err(), "nothing is left behind");
    }
}

/// A network namespace, removed at the end.
struct Namespace(String);

impl Namespace {
    /// `None` where this test may not make one.
    fn new() -> Option<Namespace> {
        let name = format!("gannet-run-{}", std::process::id());
        let made = ip(&["netns", "add", &name]);
        made.then_some(Namespace(name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let out = Command::new("ip")
        .args(arguments)
        .stderr(Stdio::null())
        .status();
    out.is_ok_and(|status| status.success())
}

/// What is wrong with an interface is said before the program starts.
#[test]
fn interfaces() {
    let Some(space) = Namespace::new() else {
        return eprintln!("skipped: no network namespace can be made here");
    };
    let made = ["link", "add", "near", "type", "veth", "peer", "name", "far"];
    assert!(
        ip(&[&["-n", &space.0], &made[..]].concat()),
        "a pair of interfaces"
    );
    let run = |link: &str| {
        let command = gannet(&["--link", link, "--addr", "10.1.1.1/24", "--", "true"]);
        let mut inside = Command::new("ip");
        inside
            .args(["netns", "exec", &space.0])
            .arg(command.get_program());
        inside
            .args(command.get_args())
            .env("GANNET_CONFIG", "/dev/null");
        inside.env("GANNET_PRELOAD", stand_in()).output().unwrap()
    };
    for (link, part) in [
        ("packet:near", "try: ip link set near up"),
        ("packet:eth77", "no interface of that name"),
        ("tap:near", "/dev/net/tun"),
    ] {
        let out = run(link);
        let text = errors(&out);
        assert_eq!(out.status.code(), Some(125), "{link}: {text}");
        let no_tap = link.starts_with("tap") && text.contains("no TAP device");
        assert!(text.contains(part) || no_tap, "{link}: {text}");
    }
    assert!(ip(&["-n", &space.0, "link", "set", "near", "up"]));
    let out = run("packet:near");
    assert_eq!(out.status.code(), Some(0), "{}", errors(&out));
}
