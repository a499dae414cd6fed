//! Redis: its benchmark, pipelines, a fork under load, publishing, transactions, many connections.

use crate::case::{Case, Checked, Fault, Program, expect, fine};
use crate::command::Running;
use crate::family;
use crate::stage::{Stage, peer};
use std::time::Duration;

pub(crate) const PROGRAM: Program = Program {
    name: "redis",
    version: &["redis-server", "--version"],
    needs: &[
        ("redis-server", "redis-server"),
        ("redis-benchmark", "redis-tools"),
        ("redis-cli", "redis-tools"),
        ("redis-check-rdb", "redis-tools"),
        ("/usr/bin/python3", "python3"),
    ],
    cases: &[
        Case::new("GET and SET", 30, |stage| benchmark(stage, "20000", &[])),
        Case::new("pipelines of 16", 30, |stage| {
            benchmark(stage, "100000", &["-P", "16"])
        }),
        Case::new("threads", 30, threads),
        Case::new("BGSAVE under load", 60, bgsave),
        Case::new("CONFIG", 20, config),
        Case::new("publish and subscribe", 20, publish),
        Case::new("MULTI and EXEC", 20, multi),
        Case::new("10,000 idle connections", 60, idle),
    ],
};

/// A server that is ready, and the words that name it to its clients.
pub(crate) struct Server {
    _running: Running,
    host: &'static str,
    port: String,
}

impl Server {
    /// Starts it in the folder of the check.
    pub(crate) fn start(stage: &Stage, options: &[&str]) -> Result<Self, Fault> {
        let (host, port) = (stage.host(), stage.port()?);
        let directory = stage.path("");
        let words = [
            "redis-server",
            "--bind",
            host,
            "--port",
            &port,
            "--save",
            "",
        ];
        let more = [
            "--dir",
            &directory,
            "--protected-mode",
            "no",
            "--daemonize",
            "no",
        ];
        let running = stage
            .server(&words)
            .args(&more)
            .args(options)
            .start()?
            .ready("Ready to accept connections")?;
        Ok(Self {
            _running: running,
            host,
            port,
        })
    }

    /// `-h HOST -p PORT`
    pub(crate) fn at(&self) -> [&str; 4] {
        ["-h", self.host, "-p", &self.port]
    }

    /// What redis-cli prints for a command.
    fn cli(&self, stage: &Stage, words: &[&str]) -> Result<String, Fault> {
        stage
            .client(&["redis-cli"])
            .args(&self.at())
            .args(words)
            .ok()
    }
}

fn benchmark(stage: &Stage, count: &str, options: &[&str]) -> Checked {
    let server = Server::start(stage, &[])?;
    run_benchmark(stage, &server, &[&["-n", count], options].concat())
}

fn threads(stage: &Stage) -> Checked {
    let server = Server::start(
        stage,
        &["--io-threads", "2", "--io-threads-do-reads", "yes"],
    )?;
    run_benchmark(stage, &server, &["-n", "20000", "--threads", "2"])
}

fn run_benchmark(stage: &Stage, server: &Server, options: &[&str]) -> Checked {
    let words = ["redis-benchmark", "-t", "get,set", "-c", "50", "--csv"];
    let out = stage.client(&words).args(&server.at()).args(options).ok()?;
    let (get, set) = (column(&out, "GET", RATE)?, column(&out, "SET", RATE)?);
    expect(get > 0.0 && set > 0.0, || format!("no rates: {out}"))?;
    Ok(format!("GET {get:.0}/s, SET {set:.0}/s"))
}

/// The column with requests per second of redis-benchmark's table.
pub(crate) const RATE: usize = 1;
/// The column with the time within which 99 of 100 were answered, in milliseconds.
pub(crate) const P99: usize = 6;

/// A figure of a test in redis-benchmark's table (`--csv`).
pub(crate) fn column(out: &str, test: &str, column: usize) -> Result<f64, Fault> {
    let line = out
        .lines()
        .find(|line| line.starts_with(&format!("\"{test}\"")));
    let value = line.and_then(|line| line.split(',').nth(column));
    let value = value.and_then(|value| value.trim_matches('"').parse().ok());
    value.ok_or_else(|| Fault::Failed(format!("no figure of {test}: {out}")))
}

/// The child that writes the dump must not end its parent's connections.
fn bgsave(stage: &Stage) -> Checked {
    let server = Server::start(stage, &["--dbfilename", "dump.rdb"])?;
    let fill = [
        "-t", "set", "-r", "200000", "-n", "200000", "-d", "100", "-P", "16", "-q",
    ];
    stage
        .client(&["redis-benchmark"])
        .args(&server.at())
        .args(&fill)
        .ok()?;
    let mut held = stage
        .client(&["redis-cli"])
        .args(&server.at())
        .interactive()
        .start()?;
    held.feed("SET held before\nCLIENT ID\n")?;
    held.said("OK\n")?;
    // Until it is ended; it ends by itself when a connection breaks or an answer is an error.
    let load = [
        "-t", "set", "-r", "200000", "-d", "100", "-c", "50", "-q", "-l",
    ];
    let mut load = stage
        .client(&["redis-benchmark"])
        .args(&server.at())
        .args(&load)
        .start()?;
    std::thread::sleep(Duration::from_millis(100));
    load.goes_on()?;
    let said = server.cli(stage, &["BGSAVE"])?;
    expect(said.contains("Background saving started"), || said.clone())?;
    let mut info = String::new();
    stage.wait_for("the end of the fork", || {
        info = server
            .cli(stage, &["INFO", "persistence"])
            .unwrap_or_default();
        info.contains("rdb_bgsave_in_progress:0").then_some(())
    })?;
    expect(info.contains("rdb_last_bgsave_status:ok"), || info.clone())?;
    load.goes_on()?;
    drop(load);
    held.feed("GET held\nCLIENT ID\n")?;
    let said = held.finish()?.ok()?;
    let words: Vec<&str> = said.split_whitespace().collect();
    match words.as_slice() {
        ["OK", before, "before", after] if before == after => {}
        _ => return Err(format!("the held connection said {words:?}").into()),
    }
    stage
        .plain(&["redis-check-rdb", &stage.path("dump.rdb")])
        .ok()?;
    fine()
}

fn config(stage: &Stage) -> Checked {
    let server = Server::start(stage, &[])?;
    let set = server.cli(stage, &["CONFIG", "SET", "maxmemory", "123mb"])?;
    let get = server.cli(stage, &["CONFIG", "GET", "maxmemory"])?;
    expect(set == "OK\n" && get == "maxmemory\n128974848\n", || {
        format!("{set}{get}")
    })?;
    fine()
}

fn publish(stage: &Stage) -> Checked {
    let server = Server::start(stage, &[])?;
    let subscribe = ["SUBSCRIBE", "news"];
    let subscriber = stage
        .client(&["redis-cli"])
        .args(&server.at())
        .args(&subscribe)
        .start()?;
    subscriber.said("news")?;
    let heard = server.cli(stage, &["PUBLISH", "news", "something-new"])?;
    expect(heard.trim() == "1", || format!("{heard} subscribers"))?;
    subscriber.said("something-new")?;
    fine()
}

fn multi(stage: &Stage) -> Checked {
    let server = Server::start(stage, &[])?;
    let commands = "MULTI\nSET a 5\nINCR a\nINCRBY a 10\nEXEC\nGET a\n";
    let said = stage
        .client(&["redis-cli"])
        .args(&server.at())
        .input(commands)?
        .ok()?;
    let words: Vec<&str> = said.split_whitespace().collect();
    let expected = ["OK", "QUEUED", "QUEUED", "QUEUED", "OK", "6", "16", "16"];
    expect(words == expected, || format!("{words:?}"))?;
    fine()
}

fn idle(stage: &Stage) -> Checked {
    let (count, seconds) = if stage.quick { (1000, 1) } else { (10_000, 2) };
    let idle = hold_idle(stage, count, Duration::from_secs(seconds))?;
    Ok(format!(
        "{:.1} MiB more, {:.0} ms of processor time in {seconds} s",
        idle.after.saturating_sub(idle.before) as f64 / 1_048_576.0,
        idle.seconds * 1000.0
    ))
}

/// What connections that do nothing cost everything on the server's side.
pub(crate) struct Idle {
    /// Bytes of memory before the first of them.
    pub(crate) before: u64,
    /// Bytes with all of them.
    pub(crate) after: u64,
    /// Processor time used while nothing was done.
    pub(crate) seconds: f64,
}

/// Opens connections, leaves them alone for a while, and uses each once more.
pub(crate) fn hold_idle(stage: &Stage, count: u64, time: Duration) -> Result<Idle, Fault> {
    let enough = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if enough.current.is_some_and(|limit| limit < count + 200) {
        let why = format!("more than {count} descriptors are needed");
        return Err(Fault::LeftOut(why));
    }
    let server = Server::start(stage, &["--maxclients", "10100"])?;
    let before = family::usage(None);
    let (script, number) = (peer("idle.py"), count.to_string());
    let python = ["/usr/bin/python3", &script];
    let command = stage
        .client(&python)
        .args(&[server.host, &server.port, &number]);
    let mut client = command.interactive().start()?;
    client.said("open\n")?;
    let open = family::usage(Some(client.pid()));
    std::thread::sleep(time);
    let later = family::usage(Some(client.pid()));
    client.feed("once more\n")?;
    let said = client.finish()?.ok()?;
    expect(said.contains("all answered"), || said.clone())?;
    Ok(Idle {
        before: before.memory,
        after: open.memory,
        seconds: later.seconds - open.seconds,
    })
}
