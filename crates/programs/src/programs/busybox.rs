//! Busybox, linked statically: a shell, and servers and clients that it runs as itself.

use crate::case::{Case, Checked, Program, expect, fine};
use crate::programs::peers::write_pseudo_random;
use crate::stage::Stage;

const BUSYBOX: &str = "/bin/busybox";

pub(crate) const PROGRAM: Program = Program {
    name: "busybox",
    version: &[BUSYBOX],
    needs: &[(BUSYBOX, "busybox-static")],
    cases: &[
        Case::new("httpd, wget", 60, files),
        Case::new("nc", 60, pipe),
        Case::new("sh runs its applets", 60, applets),
    ],
};

/// Each request has a child of its own.
fn files(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let base = stage.path("www");
    std::fs::create_dir_all(&base)?;
    let file = format!("{base}/file");
    write_pseudo_random(&file, 5 << 20)?;
    let at = format!("{host}:{port}");
    let server = stage.server(&[BUSYBOX, "httpd", "-f", "-p", &at, "-h", &base]);
    let _server = server.start()?;
    let url = format!("http://{at}/file");
    for n in 0..if stage.quick { 3 } else { 20 } {
        let copy = stage.path(&format!("copy{n}"));
        let get = stage.client(&[
            "sh", "-c", TRIES, "sh", BUSYBOX, "wget", "-q", "-O", &copy, &url,
        ]);
        get.ok()?;
        stage.same(&file, &copy)?;
    }
    fine()
}

/// The server may not listen yet.
const TRIES: &str = "for n in 1 2 3 4 5 6 7 8 9; do \"$@\" && exit; sleep 0.2; done; exit 1";

/// To a server that says nothing, and ends when the client has.
fn pipe(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let (text, copy) = (stage.path("text"), stage.path("copy"));
    write_pseudo_random(&text, 1 << 20)?;
    let serve = "mkfifo $0.fifo; exec 3<>$0.fifo; exec /bin/busybox nc -l -p $1 <&3 >$0";
    let server = stage.server(&[BUSYBOX, "sh", "-c", serve, &copy, &port]);
    let _server = server.start()?;
    let call = "for n in 1 2 3 4 5 6 7 8 9; do \
        /bin/busybox nc $1 $2 <$0 >/dev/null && exit; sleep 0.2; done; exit 1";
    let client = stage.client(&[BUSYBOX, "sh", "-c", call, &text, host, &port]);
    client.ok()?;
    stage.same(&text, &copy)?;
    fine()
}

/// `/proc/self/exe` is what it executes for each.
fn applets(stage: &Stage) -> Checked {
    let script = stage.write(
        "script",
        "#!/bin/busybox sh\n\
        seq 1 5 | while read n; do expr $n \\* $n; done | sort -rn | tr '\\n' ' '\n",
    )?;
    stage.plain(&["chmod", "+x", &script]).ok()?;
    let said = stage.server(&[&script]).run()?.stdout;
    expect(said.trim() == "25 16 9 4 1", || format!("said {said}"))?;
    fine()
}
