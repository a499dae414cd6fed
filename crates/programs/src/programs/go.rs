//! Go: a program linked with C's library, and one without. Neither calls it for its sockets, so
//! that no library can be put under them: `gannet run` says so.

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
            echo(stage, &[&build(stage, "1")?])
        }),
        Case::new("HTTP, with cgo", 120, |stage| {
            http(stage, &[&build(stage, "1")?])
        }),
        Case::new("echo, without cgo", 120, |stage| {
            echo(stage, &[&build(stage, "0")?])
        }),
        Case::new("refused by --require", 120, refused).only(&[Mode::Gannet, Mode::Veth]),
    ],
};

fn build(stage: &Stage, cgo: &str) -> Result<String, Fault> {
    stage.once(&format!("go-cgo{cgo}"), |path| {
        // Beside the builds of cargo: the second run is fast, and none of the user's is touched.
        let own = std::env::current_exe()?;
        let cache = own.with_file_name("go-cache").display().to_string();
        let source = peer("peer.go");
        let words = ["go", "build", "-tags", "netcgo", "-o", path, &source];
        let build = stage
            .plain(&words)
            .env("CGO_ENABLED", cgo)
            .env("GO111MODULE", "off");
        build.env("GOCACHE", &cache).env("GOFLAGS", "").ok()?;
        Ok(())
    })
}

/// Neither is started: status 125 and three lines.
fn refused(stage: &Stage) -> Checked {
    if !stage.is_carried() {
        return Err(Fault::LeftOut("nothing here runs on Gannet".to_owned()));
    }
    for cgo in ["0", "1"] {
        let program = build(stage, cgo)?;
        let (host, port) = (stage.host(), stage.port()?);
        let finished = stage.server(&[&program, "echo-serve", host, &port]).run()?;
        let said = &finished.stderr;
        expect(finished.status.code() == Some(125), || {
            format!("{} instead of status 125: {said}", finished.status)
        })?;
        let has_remedy = said.lines().any(|line| line.contains("try:"));
        expect(has_remedy && said.contains("Go's runtime"), || said.clone())?;
    }
    fine()
}
