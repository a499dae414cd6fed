//! Python: its event loop, its threaded HTTP server, and the requests library.

use crate::case::{Case, Checked, Program, expect, fine};
use crate::programs::peers::{echo, write_pseudo_random};
use crate::stage::{Stage, peer};

/// Debian's, whatever else is on the path.
const PYTHON: &str = "/usr/bin/python3";

pub(crate) const PROGRAM: Program = Program {
    name: "python",
    version: &[PYTHON, "--version"],
    needs: &[
        (PYTHON, "python3"),
        (
            "/usr/lib/python3/dist-packages/requests",
            "python3-requests",
        ),
    ],
    cases: &[
        Case::new("asyncio echo", 30, |stage| {
            echo(stage, &[PYTHON, &peer("asyncio_echo.py")])
        }),
        Case::new("threads echo", 30, |stage| {
            echo(stage, &[PYTHON, &peer("threads_echo.py")])
        }),
        Case::new("http.server, requests", 30, requests),
    ],
};

fn requests(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let file = stage.path("file");
    write_pseudo_random(&file, 3 << 20)?;
    let serve = [PYTHON, "-u", "-m", "http.server", &port, "--bind", host];
    let server = stage.server(&serve).start()?.ready("Serving HTTP")?;
    let url = format!("http://{host}:{port}/file");
    let copy = stage.path("copy");
    let script = peer("requests_get.py");
    let said = stage.client(&[PYTHON, &script, &url, &copy]).ok()?;
    expect(said.contains("ok"), || said.clone())?;
    stage.same(&file, &copy)?;
    drop(server);
    fine()
}
