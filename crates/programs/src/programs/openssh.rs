//! OpenSSH: a session with its streams and status, a terminal, files both ways. The server has a
//! configuration and keys of its own; as root it separates privileges, as it does on any machine.

use crate::case::{Case, Checked, Fault, Program, expect, fine};
use crate::command::Running;
use crate::place::is_root;
use crate::programs::peers::large_file;
use crate::stage::Stage;
use std::path::Path;

pub(crate) const PROGRAM: Program = Program {
    name: "openssh",
    version: &["ssh", "-V"],
    needs: &[("sshd", "openssh-server"), ("ssh", "openssh-client")],
    cases: &[
        Case::new("session", 30, session),
        Case::new("terminal", 30, terminal),
        Case::new("scp of 1 GiB", 90, scp),
        Case::new("scp back", 60, scp_back),
    ],
};

/// Where a server as root locks up its unprivileged half.
const EMPTY: &str = "/run/sshd";

struct Server {
    _running: Running,
    _empty: Empty,
    /// Options of every client.
    options: Vec<String>,
    port: String,
    user: String,
}

/// The folder is made where it lacks, and removed again.
struct Empty(bool);

impl Drop for Empty {
    fn drop(&mut self) {
        if self.0 {
            let _ = std::fs::remove_dir(EMPTY);
        }
    }
}

impl Server {
    fn start(stage: &Stage) -> Result<Self, Fault> {
        let port = stage.port()?;
        let empty = Empty(is_root() && !Path::new(EMPTY).exists());
        if empty.0 {
            std::fs::create_dir(EMPTY)?;
        }
        for name in ["host_key", "key"] {
            let path = stage.path(name);
            let words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &path];
            stage.plain(&words).ok()?;
        }
        let config = stage.write("sshd_config", &configuration(stage, &port))?;
        let sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", &config];
        let running = stage.server(&sshd).start()?.ready("Server listening")?;
        let user = stage.plain(&["id", "-un"]).ok()?.trim().to_owned();
        let options = [
            ("-F", "none".to_owned()),
            ("-i", stage.path("key")),
            ("-o", format!("UserKnownHostsFile={}", stage.path("known"))),
            ("-o", "StrictHostKeyChecking=accept-new".to_owned()),
            ("-o", "BatchMode=yes".to_owned()),
            ("-o", "IdentityAgent=none".to_owned()),
        ];
        let options = options
            .into_iter()
            .flat_map(|(a, b)| [a.to_owned(), b])
            .collect();
        Ok(Self {
            _running: running,
            _empty: empty,
            options,
            port,
            user,
        })
    }

    /// The options as words.
    fn options(&self) -> Vec<&str> {
        self.options.iter().map(String::as_str).collect()
    }

    /// The words of a client before the remote command.
    fn ssh<'a>(&'a self, stage: &Stage) -> Vec<&'a str> {
        let mut words = vec!["ssh"];
        words.extend(self.options());
        words.extend(["-p", &self.port, "-l", &self.user, stage.host()]);
        words
    }

    fn copy(&self, stage: &Stage, from: &str, to: &str) -> Result<(), Fault> {
        let mut words = vec!["scp"];
        words.extend(self.options());
        words.extend(["-P", &self.port, "-c", "aes128-gcm@openssh.com", from, to]);
        stage.client(&words).ok()?;
        Ok(())
    }
}

fn configuration(stage: &Stage, port: &str) -> String {
    let lines = [
        format!("Port {port}"),
        format!("ListenAddress {}", stage.host()),
        format!("HostKey {}", stage.path("host_key")),
        format!("AuthorizedKeysFile {}", stage.path("key.pub")),
        "PidFile none".to_owned(),
        "StrictModes no".to_owned(),
        "PermitRootLogin yes".to_owned(),
        "PasswordAuthentication no".to_owned(),
        "KbdInteractiveAuthentication no".to_owned(),
        "UsePAM no".to_owned(),
        "Subsystem sftp internal-sftp".to_owned(),
        String::new(),
    ];
    lines.join("\n")
}

fn session(stage: &Stage) -> Checked {
    let server = Server::start(stage)?;
    let command = "cat; echo out; echo err >&2; exit 7";
    let words = [server.ssh(stage), vec![command]].concat();
    let finished = stage.client(&words).input("in\n")?.run()?;
    let right = finished.status.code() == Some(7)
        && finished.stdout == "in\nout\n"
        && finished.stderr.ends_with("err\n");
    match right {
        true => fine(),
        false => Err(finished.fault("another end than status 7: ")),
    }
}

fn terminal(stage: &Stage) -> Checked {
    let server = Server::start(stage)?;
    let mut words = server.ssh(stage);
    words.insert(1, "-tt");
    words.push("test -t 0 && stty size && echo terminal");
    let out = stage.client(&words).ok()?;
    expect(out.contains("terminal"), || out.clone())?;
    fine()
}

fn scp(stage: &Stage) -> Checked {
    let server = Server::start(stage)?;
    let (file, _) = large_file(stage)?;
    let copy = stage.path("copy");
    let to = format!("{}@{}:{copy}", server.user, stage.host());
    server.copy(stage, &file, &to)?;
    stage.same(&file, &copy)?;
    fine()
}

fn scp_back(stage: &Stage) -> Checked {
    let server = Server::start(stage)?;
    let (file, _) = large_file(stage)?;
    let part = stage.path("part");
    stage
        .plain(&[
            "dd",
            &format!("if={file}"),
            &format!("of={part}"),
            "bs=1M",
            "count=64",
        ])
        .ok()?;
    let from = format!("{}@{}:{part}", server.user, stage.host());
    let copy = stage.path("copy");
    server.copy(stage, &from, &copy)?;
    stage.same(&part, &copy)?;
    fine()
}
