//! Go: programs with C's library in them (cgo), whose system calls are taken over where Go makes
//! them, and one without, which `gannet run` refuses.

use crate::case::{Case, Checked, Fault, Program, expect, fine};
use crate::mode::Mode;
use crate::programs::peers::{echo, http};
use crate::stage::{Stage, peer};

pub(crate) const PROGRAM: Program = Program {
    name: "go",
    version: &["go", "version"],
    needs: &[("go", "golang-go"), ("gcc", "gcc")],
    cases: &[
        Case::new("echo, with cgo", 120, |stage| {
            echo(stage, &[&build(stage, "peer.go", "1")?])
        }),
        Case::new("HTTP, with cgo", 120, |stage| {
            http(stage, &[&build(stage, "peer.go", "1")?])
        }),
        Case::new("HTTP, 200 connections", 120, http_together),
        Case::new("many connections, little memory", 120, many),
        Case::new("deadlines", 120, deadlines),
        Case::new("children", 180, children),
        // Between loopback addresses they are the kernel's.
        Case::new("datagrams", 120, datagrams).only(&[Mode::Kernel, Mode::Veth, Mode::KernelVeth]),
        Case::new("echo, without cgo", 120, |stage| {
            echo(stage, &[&build(stage, "peer.go", "0")?])
        }),
        Case::new("refused by --require", 120, refused).only(&[Mode::Gannet, Mode::Veth]),
    ],
};

fn build(stage: &Stage, source: &str, cgo: &str) -> Result<String, Fault> {
    stage.once(&format!("go-{source}-cgo{cgo}"), |path| {
        // Beside the builds of cargo: the second run is fast, and none of the user's is touched.
        let own = std::env::current_exe()?;
        let cache = own.with_file_name("go-cache").display().to_string();
        let source = peer(source);
        let words = ["go", "build", "-tags", "netcgo", "-o", path, &source];
        let build = stage
            .plain(&words)
            .env("CGO_ENABLED", cgo)
            .env("GO111MODULE", "off");
        build.env("GOCACHE", &cache).env("GOFLAGS", "").ok()?;
        Ok(())
    })
}

/// A server and a client of `many.go`: words of each before and after the server's address.
fn pair(stage: &Stage, serve: &str, call: &[&str]) -> Checked {
    let program = build(stage, "many.go", "1")?;
    let address = format!("{}:{}", stage.host(), stage.port()?);
    let server = stage.server(&[&program, serve, &address]).start()?;
    server.said("listening")?;
    let (what, amount) = call.split_first().unwrap_or((&"", &[]));
    let client = stage.client(&[&program, what, &address]).args(amount);
    let said = client.ok()?;
    expect(said.trim() == "ok", || format!("said {said}"))?;
    fine()
}

/// A request of each connection is answered when all have come; then the next, on the same.
fn http_together(stage: &Stage) -> Checked {
    let rounds = if stage.quick { "5" } else { "50" };
    pair(stage, "http-serve", &["http-call", "200", rounds])
}

/// All open at once. The collector runs all the time, which interrupts every thread all the time.
fn many(stage: &Stage) -> Checked {
    let program = build(stage, "many.go", "1")?;
    let address = format!("{}:{}", stage.host(), stage.port()?);
    let server = stage.server(&[&program, "serve", &address]);
    let server = server.env("GOGC", "1").start()?;
    server.said("listening")?;
    let (count, rounds) = if stage.quick {
        ("200", "20")
    } else {
        ("1000", "100")
    };
    let client = stage.client(&[&program, "hold", &address, count, rounds]);
    let said = client.env("GOGC", "1").ok()?;
    expect(said.trim() == "ok", || format!("said {said}"))?;
    fine()
}

fn deadlines(stage: &Stage) -> Checked {
    let closed = format!("{}:{}", stage.host(), stage.port()?);
    pair(stage, "serve", &["deadlines", &closed])
}

/// A server that starts children all the time, and one of them, which has its listener from it.
/// Both are spoken to.
fn children(stage: &Stage) -> Checked {
    let program = build(stage, "many.go", "1")?;
    let address = || Ok::<_, Fault>(format!("{}:{}", stage.host(), stage.port()?));
    let (own, handed) = (address()?, address()?);
    let server = stage.server(&[&program, "exec-serve", &own, &handed]);
    let server = server.start()?;
    server.said("listening")?;
    let rounds = if stage.quick { "20" } else { "200" };
    for address in [&own, &handed] {
        let client = stage.client(&[&program, "hold", address, "200", rounds]);
        let said = client.ok()?;
        expect(said.trim() == "ok", || format!("said {said}"))?;
    }
    fine()
}

fn datagrams(stage: &Stage) -> Checked {
    let count = if stage.quick { "20" } else { "500" };
    pair(stage, "datagram-serve", &["datagram-call", count])
}

/// It is not started: status 125 and three lines.
fn refused(stage: &Stage) -> Checked {
    if !stage.is_carried() {
        return Err(Fault::LeftOut("nothing here runs on Gannet".to_owned()));
    }
    let program = build(stage, "peer.go", "0")?;
    let (host, port) = (stage.host(), stage.port()?);
    let finished = stage.server(&[&program, "echo-serve", host, &port]).run()?;
    let said = &finished.stderr;
    expect(finished.status.code() == Some(125), || {
        format!("{} instead of status 125: {said}", finished.status)
    })?;
    let has_remedy = said.lines().any(|line| line.contains("try:"));
    expect(
        has_remedy && said.lines().count() == 3 && said.contains("Go's runtime"),
        || said.clone(),
    )?;
    fine()
}
