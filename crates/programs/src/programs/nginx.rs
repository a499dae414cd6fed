//! nginx with four workers: files, TLS, HTTP/2, a second server behind it, new configurations and
//! new programs while it serves. Its clients are curl and wrk.

use crate::case::{Case, Checked, Fault, Program, expect, fine};
use crate::command::Running;
use crate::family;
use crate::programs::peers::{large_file, write_pseudo_random};
use crate::stage::Stage;
use rustix::process::Signal;
use std::time::Duration;

pub(crate) const PROGRAM: Program = Program {
    name: "nginx",
    version: &["nginx", "-v"],
    needs: &[
        ("nginx", "nginx-light"),
        ("curl", "curl"),
        ("wrk", "wrk"),
        ("openssl", "openssl"),
    ],
    cases: &[
        Case::new("files of 0 B to 1 MiB", 30, small_files),
        Case::new("file of 1 GiB", 60, large),
        Case::new("keep-alive", 20, keep_alive),
        Case::new("wrk, 64 connections", 30, |stage| wrk(stage, "")),
        Case::new("wrk, listener per worker", 30, |stage| {
            wrk(stage, "reuseport")
        }),
        Case::new("TLS", 30, tls),
        Case::new("HTTP/2 over TLS", 30, http2),
        Case::new("upstream proxying", 30, proxy),
        Case::new("reload under load", 30, reload),
        Case::new("binary upgrade under load", 40, upgrade),
    ],
};

/// Files that are served: (name, bytes).
const FILES: [(&str, u64); 4] = [("0B", 0), ("1B", 1), ("1K", 1024), ("1M", 1 << 20)];

/// A server that is ready.
pub(crate) struct Server {
    /// None of one in the background.
    _running: Option<Running>,
    host: String,
    port: String,
    tls_port: String,
    /// File with the number of the master process.
    pid: String,
}

/// What differs between servers.
#[derive(Default)]
pub(crate) struct Options<'a> {
    /// Words behind the address of `listen`.
    pub(crate) listen: &'a str,
    /// Address and port of the server behind it.
    pub(crate) upstream: Option<&'a str>,
    /// Whether it is who stands behind: in the client's place.
    pub(crate) is_behind: bool,
    /// Whether it goes into the background: only then it takes part in a binary upgrade.
    pub(crate) is_daemon: bool,
}

impl Server {
    /// Starts it, with its files.
    pub(crate) fn start(stage: &Stage, options: &Options) -> Result<Self, Fault> {
        let name = if options.is_behind { "behind" } else { "front" };
        let host = match options.is_behind {
            true => stage.client_host(),
            false => stage.host(),
        };
        let root = stage.path(name);
        std::fs::create_dir_all(format!("{root}/files"))?;
        for (name, size) in FILES {
            write_pseudo_random(&format!("{root}/files/{name}"), size)?;
        }
        certificate(stage, &root, host)?;
        let (port, tls_port) = (stage.port()?, stage.port()?);
        let listen = format!("{host}:{port} {}", options.listen);
        let tls_listen = format!("{host}:{tls_port} {}", options.listen);
        let text = configuration(&root, &listen, &tls_listen, options.upstream);
        let config = stage.write(&format!("{name}.conf"), &text)?;
        let daemon = if options.is_daemon {
            "daemon on;"
        } else {
            "daemon off;"
        };
        // The path is absolute, because a binary upgrade starts it again by that name.
        let words = ["/usr/sbin/nginx", "-p", &root, "-c", &config, "-g", daemon];
        let command = match options.is_behind {
            true => stage.client(&words),
            false => stage.server(&words),
        };
        let started = command.start()?;
        let pid = format!("{root}/nginx.pid");
        let running = match options.is_daemon {
            true => {
                started.finish()?.ok()?;
                stage.wait_for("the daemon", || read_pid(&pid).ok())?;
                None
            }
            false => Some(started.ready("start worker processes")?),
        };
        let host = host.to_owned();
        Ok(Self {
            _running: running,
            host,
            port,
            tls_port,
            pid,
        })
    }

    /// The address of a file.
    pub(crate) fn url(&self, file: &str) -> String {
        format!("http://{}:{}/{file}", self.host, self.port)
    }

    fn tls_url(&self, file: &str) -> String {
        format!("https://{}:{}/{file}", self.host, self.tls_port)
    }
}

/// The number in a file, once it is there.
fn read_pid(path: &str) -> Result<i32, Fault> {
    let text = std::fs::read_to_string(path)?;
    text.trim()
        .parse()
        .map_err(|_| Fault::Failed(format!("no number in {path}: {text}")))
}

fn certificate(stage: &Stage, root: &str, host: &str) -> Result<(), Fault> {
    let (key, cert) = (format!("{root}/key.pem"), format!("{root}/cert.pem"));
    let name = format!("subjectAltName=IP:{host}");
    let request = [
        "openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2",
    ];
    let curve = [
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-subj",
        "/CN=gannet",
    ];
    let files = ["-addext", &name, "-keyout", &key, "-out", &cert];
    stage.plain(&request).args(&curve).args(&files).ok()?;
    Ok(())
}

fn configuration(root: &str, listen: &str, tls: &str, upstream: Option<&str>) -> String {
    let upstream_block = upstream.map_or(String::new(), |address| {
        format!("upstream behind {{ server {address}; keepalive 8; }}")
    });
    let proxied = upstream.map_or("", |_| {
        "location /behind/ { proxy_pass http://behind/; proxy_http_version 1.1; \
         proxy_set_header Connection ''; }"
    });
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("  {name}_temp_path {root}/{name};\n"))
        .collect();
    format!(
        "worker_processes 4;\npid {root}/nginx.pid;\nerror_log stderr notice;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  tcp_nopush on;\n\
         keepalive_requests 10000000;\n{folders}  {upstream_block}\n\
         ssl_certificate {root}/cert.pem;\n  ssl_certificate_key {root}/key.pem;\n\
         server {{\n  listen {listen};\n  listen {tls} ssl http2;\n\
         root {root}/files;\n  {proxied}\n  }}\n}}\n"
    )
}

/// Gets a file and compares it.
fn get(stage: &Stage, server: &Server, url: &str, file: &str, options: &[&str]) -> Checked {
    let copy = stage.path("copy");
    let words = [
        "curl",
        "-sS",
        "--fail",
        "-o",
        &copy,
        "-w",
        "%{http_version}",
        url,
    ];
    let version = stage.client(&words).args(options).ok()?;
    let root = server.pid.trim_end_matches("nginx.pid");
    stage.same(&format!("{root}files/{file}"), &copy)?;
    std::fs::remove_file(copy)?;
    Ok(version)
}

fn small_files(stage: &Stage) -> Checked {
    let server = Server::start(stage, &Options::default())?;
    for (file, _) in FILES {
        get(stage, &server, &server.url(file), file, &[])?;
    }
    let words = [
        "curl",
        "-s",
        "-o",
        "none",
        "-w",
        "%{http_code}",
        &server.url("none"),
    ];
    let code = stage.client(&words).ok()?;
    expect(code == "404", || {
        format!("status {code} for a file that is not there")
    })?;
    fine()
}

fn large(stage: &Stage) -> Checked {
    let server = Server::start(stage, &Options::default())?;
    let (file, size) = large_file(stage)?;
    let link = format!("{}/large", stage.path("front/files"));
    std::fs::hard_link(&file, link)?;
    let words = ["sh", "-c", "curl -sS --fail \"$1\" | cmp - \"$2\"", "sh"];
    let pipe = stage.client(&words).args(&[&server.url("large"), &file]);
    pipe.ok()?;
    Ok(format!("{} MiB compared", size >> 20))
}

fn keep_alive(stage: &Stage) -> Checked {
    let server = Server::start(stage, &Options::default())?;
    let urls: Vec<String> = FILES.iter().map(|(file, _)| server.url(file)).collect();
    let mut words = vec!["curl", "-sS", "--fail", "-w", "%{num_connects}"];
    for url in &urls {
        words.extend(["-o", "/dev/null", url]);
    }
    let connects = stage.client(&words).ok()?;
    expect(connects == "1000", || {
        format!("connections made for each of four files: {connects}")
    })?;
    fine()
}

fn wrk(stage: &Stage, listen: &str) -> Checked {
    let server = Server::start(
        stage,
        &Options {
            listen,
            ..Options::default()
        },
    )?;
    let words = ["wrk", "-t", "2", "-c", "64", "-d", "1", &server.url("1K")];
    let rate = wrk_rate(&stage.client(&words).ok()?)?;
    Ok(format!("{rate} requests/s"))
}

/// The rate in what wrk prints, which must not have seen an error.
pub(crate) fn wrk_rate(out: &str) -> Result<f64, Fault> {
    let wrong = ["Socket errors", "Non-2xx"]
        .iter()
        .find(|word| out.contains(**word));
    if let Some(line) = wrong.and_then(|word| out.lines().find(|line| line.contains(word))) {
        return Err(format!("wrk: {}", line.trim()).into());
    }
    let rate = out
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    let rate = rate.and_then(|rate| rate.trim().parse::<f64>().ok());
    let rate = rate.filter(|rate| *rate > 0.0);
    rate.ok_or_else(|| Fault::Failed(format!("no requests: {out}")))
}

fn tls(stage: &Stage) -> Checked {
    let server = Server::start(stage, &Options::default())?;
    let trust = ["--cacert", &stage.path("front/cert.pem"), "--http1.1"];
    for (file, _) in FILES {
        get(stage, &server, &server.tls_url(file), file, &trust)?;
    }
    fine()
}

/// One file, then twenty at once in one connection.
fn http2(stage: &Stage) -> Checked {
    let server = Server::start(stage, &Options::default())?;
    let trust = ["--cacert", &stage.path("front/cert.pem"), "--http2"];
    let version = get(stage, &server, &server.tls_url("1M"), "1M", &trust)?;
    expect(version == "2", || format!("HTTP version {version}"))?;
    let url = server.tls_url("1M");
    let mut words = vec![
        "curl",
        "-sS",
        "--fail",
        "--parallel",
        "-w",
        "%{size_download}\\n",
    ];
    words.extend(trust);
    for _ in 0..20 {
        words.extend(["-o", "/dev/null", &url]);
    }
    let sizes = stage.client(&words).ok()?;
    let whole = sizes.lines().filter(|line| *line == "1048576").count();
    expect(whole == 20, || {
        format!("{whole} of 20 files came whole: {sizes}")
    })?;
    fine()
}

/// nginx in front of nginx. In mode `veth` the one behind is on the kernel.
fn proxy(stage: &Stage) -> Checked {
    let is_behind = true;
    let behind = Server::start(
        stage,
        &Options {
            is_behind,
            ..Options::default()
        },
    )?;
    let address = format!("{}:{}", behind.host, behind.port);
    let upstream = Some(address.as_str());
    let front = Server::start(
        stage,
        &Options {
            upstream,
            ..Options::default()
        },
    )?;
    for (file, _) in FILES {
        get(
            stage,
            &front,
            &front.url(&format!("behind/{file}")),
            file,
            &[],
        )?;
    }
    let words = [
        "wrk",
        "-t",
        "1",
        "-c",
        "16",
        "-d",
        "1",
        &front.url("behind/1K"),
    ];
    let rate = wrk_rate(&stage.client(&words).ok()?)?;
    Ok(format!("{rate} requests/s"))
}

/// Calls with a new connection for each request, so that none is lost by a server that closes
/// connections which have nothing to do.
fn load(stage: &Stage, server: &Server) -> Result<Running, Fault> {
    let words = [
        "wrk",
        "-t",
        "1",
        "-c",
        "8",
        "-d",
        "3",
        "-H",
        "Connection: close",
    ];
    let load = stage.client(&words).args(&[&server.url("1K")]).start()?;
    std::thread::sleep(Duration::from_millis(500));
    Ok(load)
}

fn reload(stage: &Stage) -> Checked {
    let server = Server::start(stage, &Options::default())?;
    let load = load(stage, &server)?;
    let master = read_pid(&server.pid)?;
    let workers = workers_of(master);
    for _ in 0..3 {
        family::signal(master, Signal::HUP);
        std::thread::sleep(Duration::from_millis(500));
    }
    let rate = wrk_rate(&load.finish()?.ok()?)?;
    let is_new = |now: &Vec<i32>| now.len() == 4 && !now.iter().any(|pid| workers.contains(pid));
    stage.wait_for("four new workers and no others", || {
        Some(workers_of(master)).filter(is_new)
    })?;
    Ok(format!("{rate} requests/s meanwhile, none failed"))
}

fn workers_of(master: i32) -> Vec<i32> {
    family::descendants(master)
        .iter()
        .map(|member| member.pid)
        .collect()
}

/// USR2 starts a new master with the inherited listeners, WINCH ends the old workers, QUIT the old
/// master.
fn upgrade(stage: &Stage) -> Checked {
    let server = Server::start(
        stage,
        &Options {
            is_daemon: true,
            ..Options::default()
        },
    )?;
    let load = load(stage, &server)?;
    let old = read_pid(&server.pid)?;
    family::signal(old, Signal::USR2);
    let changed = || read_pid(&server.pid).ok().filter(|pid| *pid != old);
    let new = stage.wait_for("a new master", changed)?;
    std::thread::sleep(Duration::from_millis(300));
    family::signal(old, Signal::WINCH);
    std::thread::sleep(Duration::from_millis(300));
    family::signal(old, Signal::QUIT);
    let rate = wrk_rate(&load.finish()?.ok()?)?;
    stage.wait_for("the end of the old master", || {
        family::is_gone(old).then_some(())
    })?;
    stage.wait_for("four new workers", || {
        (workers_of(new).len() == 4).then_some(())
    })?;
    get(stage, &server, &server.url("1M"), "1M", &[])?;
    family::signal(new, Signal::QUIT);
    Ok(format!("{rate} requests/s meanwhile, none failed"))
}
