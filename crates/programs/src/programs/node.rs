//! Node: its `net` and `http` modules.

use crate::case::{Case, Program};
use crate::programs::peers::{echo, http};
use crate::stage::peer;

pub(crate) const PROGRAM: Program = Program {
    name: "node",
    version: &["node", "--version"],
    needs: &[("node", "nodejs")],
    cases: &[
        Case::new("net echo", 30, |stage| {
            echo(stage, &["node", &peer("node.js")])
        }),
        Case::new("http", 30, |stage| http(stage, &["node", &peer("node.js")])),
    ],
};
