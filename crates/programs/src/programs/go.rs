//! Go: programs with C's library in them (cgo), whose system calls are taken over where Go makes
//! them, and without it: static ones, which are loaded beside the library.

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
            echo(stage, &[&build(stage, "peer.go", true)?])
        }),
        Case::new("HTTP, with cgo", 120, |stage| {
            http(stage, &[&build(stage, "peer.go", true)?])
        }),
        Case::new("HTTP, 200 connections", 120, http_together::<true>),
        Case::new("many connections, little memory", 120, many::<true>),
        Case::new("deadlines", 120, deadlines::<true>),
        Case::new("children", 180, children::<true>),
        // Between loopback addresses they are the kernel's.
        Case::new("datagrams", 120, datagrams::<true>).only(DATAGRAMS),
        Case::new("echo, without cgo", 120, |stage| {
            echo(stage, &[&build(stage, "peer.go", false)?])
        }),
        Case::new("HTTP, without cgo", 120, |stage| {
            http(stage, &[&build(stage, "peer.go", false)?])
        }),
        Case::new(
            "HTTP, 200 connections, without cgo",
            120,
            http_together::<false>,
        ),
        Case::new(
            "many connections, little memory, without cgo",
            120,
            many::<false>,
        ),
        Case::new("deadlines, without cgo", 120, deadlines::<false>),
        Case::new("children, without cgo", 180, children::<false>),
        Case::new("datagrams, without cgo", 120, datagrams::<false>).only(DATAGRAMS),
    ],
};

const DATAGRAMS: &[Mode] = &[Mode::Kernel, Mode::Veth, Mode::KernelVeth];

fn build(stage: &Stage, source: &str, cgo: bool) -> Result<String, Fault> {
    let cgo = if cgo { "1" } else { "0" };
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
fn pair<const CGO: bool>(stage: &Stage, serve: &str, call: &[&str]) -> Checked {
    let program = build(stage, "many.go", CGO)?;
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
fn http_together<const CGO: bool>(stage: &Stage) -> Checked {
    let rounds = if stage.quick { "5" } else { "50" };
    pair::<CGO>(stage, "http-serve", &["http-call", "200", rounds])
}

/// All open at once. The collector runs all the time, which interrupts every thread all the time.
fn many<const CGO: bool>(stage: &Stage) -> Checked {
    let program = build(stage, "many.go", CGO)?;
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

fn deadlines<const CGO: bool>(stage: &Stage) -> Checked {
    let closed = format!("{}:{}", stage.host(), stage.port()?);
    pair::<CGO>(stage, "serve", &["deadlines", &closed])
}

/// A server that starts children all the time, and one of them, which has its listener from it.
/// Both are spoken to.
fn children<const CGO: bool>(stage: &Stage) -> Checked {
    let program = build(stage, "many.go", CGO)?;
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

fn datagrams<const CGO: bool>(stage: &Stage) -> Checked {
    let count = if stage.quick { "20" } else { "500" };
    pair::<CGO>(stage, "datagram-serve", &["datagram-call", count])
}
