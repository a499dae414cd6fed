//! PostgreSQL: pgbench, copies in and out, a query that is cancelled. The server accepts, forks,
//! and the child goes on with the connection.

use crate::case::{Case, Checked, Fault, Program, expect, fine};
use crate::command::{Cmd, Running};
use crate::place::is_root;
use crate::stage::Stage;
use std::fmt::Write as _;
use std::io::Write as _;

pub(crate) const PROGRAM: Program = Program {
    name: "postgresql",
    version: &["psql", "--version"],
    needs: &[
        ("/usr/lib/postgresql/*/bin/postgres", "postgresql"),
        ("/usr/lib/postgresql/*/bin/initdb", "postgresql"),
        ("psql", "postgresql-client"),
        ("pgbench", "postgresql-client"),
        ("setpriv", "util-linux"),
    ],
    cases: &[
        Case::new("pgbench", 60, |stage| bench(stage, &["-c", "4"])),
        Case::new("prepared statements", 60, |stage| {
            bench(stage, &["-c", "4", "-M", "prepared"])
        }),
        Case::new("50 clients", 60, |stage| {
            bench(stage, &["-c", "50", "-j", "2", "-M", "prepared"])
        }),
        Case::new("new connection each", 60, |stage| {
            bench(stage, &["-c", "4", "-C", "-S"])
        }),
        Case::new("COPY in and out", 60, copy),
        Case::new("cancel", 40, cancel),
    ],
};

/// Words in front of what must not run as root.
fn as_user() -> &'static [&'static str] {
    match is_root() {
        true => &[
            "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--init-groups",
        ],
        false => &[],
    }
}

struct Server {
    _running: Running,
    host: &'static str,
    port: String,
}

impl Server {
    fn start(stage: &Stage) -> Result<Self, Fault> {
        let (host, port) = (stage.host(), stage.port()?);
        let data = stage.once("database", |path| initialise(stage, path))?;
        let sockets = format!("unix_socket_directories={data}");
        let listen = format!("listen_addresses={host}");
        let mut words = as_user().to_vec();
        let postgres = binary("postgres")?;
        words.extend([postgres.as_str(), "-D", &data, "-p", &port, "-F"]);
        words.extend(["-c", &listen, "-c", &sockets]);
        words.extend(["-c", "max_connections=100", "-c", "shared_buffers=32MB"]);
        let running = stage.server(&words).start()?;
        let running = running.ready("ready to accept connections")?;
        Ok(Self {
            _running: running,
            host,
            port,
        })
    }

    /// A client's command, with the server's address in its environment.
    fn client(&self, stage: &Stage, words: &[&str]) -> Cmd {
        let command = stage
            .client(words)
            .env("PGHOST", self.host)
            .env("PGPORT", &self.port);
        command
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
    }

    fn psql(&self, stage: &Stage, query: &str) -> Result<String, Fault> {
        let words = [
            "psql",
            "-X",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            query,
        ];
        self.client(stage, &words).ok()
    }
}

fn binary(name: &str) -> Result<String, Fault> {
    let found = crate::install::find(&format!("/usr/lib/postgresql/*/bin/{name}"));
    let path = found.ok_or_else(|| Fault::LeftOut(format!("no {name}")))?;
    Ok(path.display().to_string())
}

fn initialise(stage: &Stage, path: &str) -> Result<(), Fault> {
    if is_root() {
        stage
            .plain(&["install", "-d", "-o", "postgres", "-g", "postgres", path])
            .ok()?;
    }
    let mut words = as_user().to_vec();
    let initdb = binary("initdb")?;
    words.extend([
        initdb.as_str(),
        "-D",
        path,
        "-U",
        "postgres",
        "-A",
        "trust",
        "--no-sync",
    ]);
    words.extend(["--locale=C", "--encoding=UTF8"]);
    stage.plain(&words).ok()?;
    let mut rules = std::fs::OpenOptions::new()
        .append(true)
        .open(format!("{path}/pg_hba.conf"))?;
    Ok(writeln!(rules, "host all all 10.66.0.0/24 trust")?)
}

fn bench(stage: &Stage, options: &[&str]) -> Checked {
    let server = Server::start(stage)?;
    let fill = ["pgbench", "-i", "-q", "-s", "2"];
    server.client(stage, &fill).ok()?;
    let run = server
        .client(stage, &["pgbench", "-n", "-t", "100"])
        .args(options);
    let out = run.ok()?;
    let value = |name: &str| {
        let line = out.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    // `400/400`: as many as were asked for, however busy the machine is.
    let done = out.lines().any(|line| {
        let counts = line.strip_prefix("number of transactions actually processed: ");
        let counts = counts.and_then(|counts| counts.split_once('/'));
        counts.is_some_and(|(done, asked)| done == asked && done != "0")
    });
    let failed = value("number of failed transactions: ").unwrap_or(1.0);
    expect(done && failed == 0.0, || out.clone())?;
    Ok(format!(
        "{:.0} transactions/s",
        value("tps = ").unwrap_or(0.0)
    ))
}

fn copy(stage: &Stage) -> Checked {
    let server = Server::start(stage)?;
    let mut text = String::new();
    for number in 0..200_000_u64 {
        // Multiplicative hash: lines that do not repeat.
        let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let _ = writeln!(text, "{number}\t{word:016x}{word:064b}");
    }
    let from = stage.write("from", &text)?;
    let to = stage.path("to");
    server.psql(stage, "drop table if exists t")?;
    server.psql(stage, "create table t (id int primary key, word text)")?;
    server.psql(stage, &format!("\\copy t from '{from}'"))?;
    server.psql(
        stage,
        &format!("\\copy (select * from t order by id) to '{to}'"),
    )?;
    stage.same(&from, &to)?;
    Ok(format!(
        "{:.1} MiB each way",
        text.len() as f64 / 1_048_576.0
    ))
}

/// A cancel request comes over a connection of its own. `timeout` gives the signal, because what
/// was started here need not be psql itself.
fn cancel(stage: &Stage) -> Checked {
    let server = Server::start(stage)?;
    let query = [
        "timeout",
        "-s",
        "INT",
        "1",
        "psql",
        "-X",
        "-c",
        "select pg_sleep(30)",
    ];
    let finished = server.client(stage, &query).run()?;
    let cancelled = finished
        .stderr
        .contains("canceling statement due to user request");
    expect(cancelled, || {
        format!("psql said {} {}", finished.stdout, finished.stderr)
    })?;
    let active = server.psql(
        stage,
        "select count(*) from pg_stat_activity where query like 'select pg_sleep%'",
    )?;
    expect(active.trim() == "0", || {
        format!("{} queries sleep on", active.trim())
    })?;
    fine()
}
