//! Java: channels with a selector, and its HTTP server and client.

use crate::case::{Case, Fault, Program};
use crate::programs::peers::{echo, http};
use crate::stage::{Stage, peer};

pub(crate) const PROGRAM: Program = Program {
    name: "java",
    version: &["java", "-version"],
    needs: &[
        ("java", "default-jdk-headless"),
        ("javac", "default-jdk-headless"),
    ],
    cases: &[
        Case::new("NIO echo", 60, |stage| {
            echo(stage, &["java", "-cp", &classes(stage)?, "Peer"])
        }),
        Case::new("HTTP", 60, |stage| {
            http(stage, &["java", "-cp", &classes(stage)?, "Peer"])
        }),
    ],
};

fn classes(stage: &Stage) -> Result<String, Fault> {
    stage.once("java-classes", |path| {
        stage
            .plain(&["javac", "-d", path, &peer("Peer.java")])
            .ok()?;
        Ok(())
    })
}
