//! Programs whose calls have no name that a library could take: the C library's own streams on a
//! socket (inetd's services, git daemon), bash's redirections, event loops on libuv.

use crate::case::{Case, Checked, Program, expect, fine};
use crate::programs::peers::write_pseudo_random;
use crate::stage::{Stage, peer};

/// Debian's, whatever else is on the path.
const PYTHON: &str = "/usr/bin/python3";

pub(crate) const GIT: Program = Program {
    name: "git",
    version: &["git", "--version"],
    needs: &[("git", "git")],
    cases: &[Case::new("daemon, clone and fetch", 60, clone)],
};

pub(crate) const BASH: Program = Program {
    name: "bash",
    version: &["bash", "--version"],
    needs: &[("bash", "bash"), (PYTHON, "python3")],
    cases: &[Case::new("/dev/tcp", 30, redirections)],
};

pub(crate) const SOCAT: Program = Program {
    name: "socat",
    version: &["socat", "-V"],
    needs: &[("socat", "socat")],
    cases: &[Case::new("service on a socket", 30, service)],
};

pub(crate) const UVICORN: Program = Program {
    name: "uvicorn",
    version: &[PYTHON, "-c", "import uvicorn; print(uvicorn.__version__)"],
    needs: &[
        ("/usr/lib/python3/dist-packages/uvicorn", "python3-uvicorn"),
        ("/usr/lib/python3/dist-packages/uvloop", "python3-uvloop"),
        ("curl", "curl"),
    ],
    cases: &[Case::new("HTTP with uvloop", 60, uvloop)],
};

/// A commit more after the clone, so that both ways of asking are seen.
fn clone(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let (base, source, copy) = (stage.path("base"), stage.path("source"), stage.path("copy"));
    let git = |words: &[&str]| stage.plain(&["git"]).args(words).ok();
    let identity = ["-c", "user.name=check", "-c", "user.email=check@localhost"];
    let bare = format!("{base}/it.git");
    git(&["init", "-q", "--bare", &bare])?;
    git(&["init", "-q", &source])?;
    let commit = |name: &str| -> Checked {
        write_pseudo_random(&format!("{source}/{name}"), 3 << 20)?;
        git(&["-C", &source, "add", "."])?;
        let commit = stage.plain(&["git", "-C", &source]).args(&identity);
        commit.args(&["commit", "-q", "-m", name]).ok()?;
        git(&["-C", &source, "push", "-q", &bare, "HEAD:refs/heads/main"])
    };
    commit("first")?;
    let listen = format!("--listen={host}");
    let port_option = format!("--port={port}");
    let serve = ["git", "daemon", "--verbose", "--export-all", "--reuseaddr"];
    let base_option = format!("--base-path={base}");
    let server = stage
        .server(&serve)
        .args(&[&base_option, &listen, &port_option, &base]);
    let server = server.start()?;
    stage.wait_for("git daemon", || {
        server.errors().contains("Ready to rumble").then_some(())
    })?;
    let url = format!("git://{host}:{port}/it.git");
    stage
        .client(&["git", "clone", "-q", "-b", "main", &url, &copy])
        .ok()?;
    stage.same(&format!("{source}/first"), &format!("{copy}/first"))?;
    commit("second")?;
    stage.client(&["git", "-C", &copy, "pull", "-q"]).ok()?;
    stage.same(&format!("{source}/second"), &format!("{copy}/second"))?;
    fine()
}

/// The shell is the client, and reads and writes with its own words.
fn redirections(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let file = stage.write("text", "one\ntwo\nthree\n")?;
    let serve = [PYTHON, "-u", "-m", "http.server", &port, "--bind", host];
    let server = stage.server(&serve).start()?.ready("Serving HTTP")?;
    let script = format!(
        "exec 3<>/dev/tcp/{host}/{port} && printf 'GET /text HTTP/1.0\\r\\n\\r\\n' >&3 && \
         while read -r line <&3; do last=$line; done; echo \"$last\""
    );
    let said = stage.client(&["bash", "-c", &script]).ok()?;
    expect(said.trim() == "three", || format!("said {said}, of {file}"))?;
    drop(server);
    fine()
}

/// As inetd starts one: the socket is standard input and output, and only the C library's streams
/// are used.
fn service(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let listen = format!("TCP-LISTEN:{port},bind={host},reuseaddr,fork");
    let program = "EXEC:sed -u s/question/answer/,nofork";
    let server = stage
        .server(&["socat", "-d", "-d", &listen, program])
        .start()?;
    stage.wait_for("socat", || {
        server.errors().contains("listening on").then_some(())
    })?;
    for _ in 0..20 {
        let call = format!("TCP:{host}:{port}");
        let client = stage.client(&["socat", "-t", "10", "-", &call]);
        let said = client.input("question 1\nquestion 2\n")?.ok()?;
        expect(said == "answer 1\nanswer 2\n", || format!("said {said}"))?;
    }
    fine()
}

fn uvloop(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let folder = peer("");
    let serve = [
        PYTHON,
        "-m",
        "uvicorn",
        "--loop",
        "uvloop",
        "--host",
        host,
        "--port",
        &port,
        "--app-dir",
        &folder,
        "asgi:application",
    ];
    let server = stage.server(&serve).start()?;
    stage.wait_for("uvicorn", || {
        server.errors().contains("Uvicorn running").then_some(())
    })?;
    let url = format!("http://{host}:{port}/[1-50]");
    let said = stage.client(&["curl", "-sS", &url]).ok()?;
    expect(said == "hello\n".repeat(50), || format!("said {said}"))?;
    fine()
}
