//! Daemons as a server's owner runs them: a configuration of their own, several processes that give
//! up privileges, pass sockets to each other or start anew while clients come.

use crate::case::{Case, Checked, Fault, Program, expect, fine};
use crate::command::Running;
use crate::family;
use crate::mode::Mode;
use crate::programs::peers::write_pseudo_random;
use crate::stage::Stage;
use rustix::process::Signal;
use std::time::Duration;

pub(crate) const VSFTPD: Program = Program {
    name: "vsftpd",
    version: &["dpkg-query", "-W", "vsftpd"],
    needs: &[("vsftpd", "vsftpd"), ("curl", "curl")],
    cases: &[Case::new("files both ways, passive", 60, transfer)],
};

pub(crate) const DOVECOT: Program = Program {
    name: "dovecot",
    version: &["dovecot", "--version"],
    needs: &[
        ("dovecot", "dovecot-core"),
        ("/usr/lib/dovecot/imap", "dovecot-imapd"),
        ("curl", "curl"),
    ],
    cases: &[Case::new("IMAP, mail in and out", 60, mail)],
};

pub(crate) const BIND: Program = Program {
    name: "bind9",
    version: &["named", "-v"],
    needs: &[("named", "bind9"), ("dig", "bind9-dnsutils")],
    cases: &[Case::new("queries by UDP and TCP, a zone", 60, zone)],
};

pub(crate) const DNSMASQ: Program = Program {
    name: "dnsmasq",
    version: &["dnsmasq", "--version"],
    needs: &[("dnsmasq", "dnsmasq-base"), ("dig", "bind9-dnsutils")],
    cases: &[Case::new("queries by UDP and TCP", 60, names)],
};

pub(crate) const MARIADB: Program = Program {
    name: "mariadb",
    version: &["mariadbd", "--version"],
    needs: &[
        ("mariadbd", "mariadb-server"),
        ("mariadb", "mariadb-client"),
        ("mariadb-slap", "mariadb-client"),
    ],
    cases: &[Case::new("32 clients, large rows", 120, tables)],
};

pub(crate) const FFMPEG: Program = Program {
    name: "ffmpeg",
    version: &["ffmpeg", "-version"],
    needs: &[("ffmpeg", "ffmpeg")],
    cases: &[Case::new("a film over TCP", 60, film)],
};

pub(crate) const HAPROXY: Program = Program {
    name: "haproxy",
    version: &["haproxy", "-v"],
    needs: &[
        ("haproxy", "haproxy"),
        ("nginx", "nginx-light"),
        ("wrk", "wrk"),
    ],
    cases: &[Case::new("reload under load", 60, reload)],
};

pub(crate) const RABBITMQ: Program = Program {
    name: "rabbitmq",
    version: &["dpkg-query", "-W", "rabbitmq-server"],
    needs: &[
        ("rabbitmq-server", "rabbitmq-server"),
        ("amqp-publish", "amqp-tools"),
    ],
    cases: &[Case::new("messages through a durable queue", 120, messages)
        .only(&[Mode::Kernel, Mode::Gannet])],
};

/// The server makes its processes by `clone` itself, and gives up root for each session.
fn transfer(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let (root, empty) = (stage.path("root"), stage.path("empty"));
    for directory in [&root, &empty] {
        std::fs::create_dir_all(directory)?;
    }
    write_pseudo_random(&format!("{root}/file"), 5 << 20)?;
    let upload = format!("{root}/upload");
    std::fs::create_dir_all(&upload)?;
    stage.plain(&["chown", "ftp", &upload]).ok()?;
    // Any user may come as far as this check's folder.
    stage
        .plain(&["chmod", "-R", "a+rX", &stage.path("")])
        .ok()?;
    let text = format!(
        "listen=YES\nlisten_ipv6=NO\nbackground=NO\nlisten_address={host}\nlisten_port={port}\n\
         anonymous_enable=YES\nno_anon_password=YES\nanon_root={root}\nanon_upload_enable=YES\n\
         write_enable=YES\nsecure_chroot_dir={empty}\nanon_umask=022\n"
    );
    let config = stage.write("vsftpd.conf", &text)?;
    let server = stage.server(&["vsftpd", &config]).start()?;
    let url = |path: &str| format!("ftp://{host}:{port}/{path}");
    wait_for_port(stage, server.pid(), host, &port)?;
    let copy = stage.path("copy");
    for _ in 0..3 {
        stage
            .client(&["curl", "-sS", "-o", &copy, &url("file")])
            .ok()?;
        stage.same(&format!("{root}/file"), &copy)?;
    }
    stage
        .client(&["curl", "-sS", "-T", &copy, &url("upload/back")])
        .ok()?;
    stage.same(&copy, &format!("{upload}/back"))?;
    drop(server);
    fine()
}

/// Until a client is answered.
fn wait_for_port(stage: &Stage, pid: i32, host: &str, port: &str) -> Result<(), Fault> {
    stage.wait_for_listener(pid, host, port)?;
    let script = format!("exec 3<>/dev/tcp/{host}/{port}");
    stage.wait_for("the port", || {
        let tried = stage.client(&["bash", "-c", &script]).run().ok()?;
        tried.status.success().then_some(())
    })
}

fn mail(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let (base, home) = (stage.path("base"), stage.path("home"));
    std::fs::create_dir_all(&base)?;
    std::fs::create_dir_all(&home)?;
    stage.plain(&["chown", "-R", "mail:mail", &home]).ok()?;
    stage
        .plain(&["chmod", "-R", "a+rX", &stage.path("")])
        .ok()?;
    let log = stage.path("log");
    let text = format!(
        "base_dir = {base}\nprotocols = imap\nlisten = {host}\nssl = no\nlog_path = {log}\n\
         disable_plaintext_auth = no\nmail_location = maildir:{home}\nmail_uid = mail\n\
         mail_gid = mail\nfirst_valid_uid = 1\nfirst_valid_gid = 1\n\
         service imap-login {{\n inet_listener imap {{\n port = {port}\n }}\n}}\n\
         service stats {{\n unix_listener stats-writer {{\n mode = 0666\n }}\n}}\n\
         passdb {{\n driver = static\n args = password=secret\n}}\n\
         userdb {{\n driver = static\n args = uid=mail gid=mail home={home}\n}}\n"
    );
    let config = stage.write("dovecot.conf", &text)?;
    let server = stage.server(&["dovecot", "-F", "-c", &config]).start()?;
    wait_for_port(stage, server.pid(), host, &port)?;
    let url = format!("imap://{host}:{port}/INBOX");
    let letter = stage.path("letter");
    let mut body = String::from("From: check\r\nSubject: a letter\r\n\r\n");
    (0..40_000).for_each(|n| body.push_str(&format!("line {n}\r\n")));
    std::fs::write(&letter, &body)?;
    let user = ["-u", "person:secret"];
    for _ in 0..3 {
        let put = stage.client(&["curl", "-sS", "-T", &letter, &url]);
        put.args(&user).ok()?;
    }
    let last = format!("{url};UID=3");
    let got = stage.client(&["curl", "-sS", &last]).args(&user).ok()?;
    expect(got.replace('\r', "") == body.replace('\r', ""), || {
        format!("{} bytes came back of {}", got.len(), body.len())
    })?;
    drop(server);
    fine()
}

fn zone(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let directory = stage.path("named");
    std::fs::create_dir_all(&directory)?;
    let mut records = String::from(
        "$TTL 60\n@ IN SOA ns.check. root.check. 1 60 60 60 60\n@ IN NS ns\nns IN A 192.0.2.1\n",
    );
    (0..2_000).for_each(|n| records.push_str(&format!("h{n} IN A 192.0.2.7\n")));
    let file = stage.write("zone", &records)?;
    let text = format!(
        "options {{ directory \"{directory}\"; listen-on port {port} {{ {host}; }};\n\
         listen-on-v6 {{ none; }}; recursion no; allow-transfer {{ any; }};\n\
         pid-file \"{directory}/pid\"; session-keyfile \"{directory}/key\";\n\
         dnssec-validation no; }};\ncontrols {{ }};\n\
         zone \"check\" {{ type master; file \"{file}\"; }};\n"
    );
    let config = stage.write("named.conf", &text)?;
    let server = stage.server(&["named", "-g", "-c", &config]);
    let server = server.start()?.ready(" running\n")?;
    ask(stage, &port, "h7.check", "192.0.2.7")?;
    let at = format!("@{host}");
    let whole = [
        "dig", &at, "-p", &port, "+noall", "+answer", "check", "AXFR",
    ];
    let records = stage.client(&whole).ok()?;
    let hosts = records.lines().filter(|line| line.contains("192.0.2.7"));
    expect(hosts.count() == 2_000, || "a part of the zone".to_owned())?;
    drop(server);
    fine()
}

/// The same question by UDP and by TCP, some times.
fn ask(stage: &Stage, port: &str, name: &str, answer: &str) -> Result<(), Fault> {
    let at = format!("@{}", stage.host());
    for how in ["+notcp", "+tcp", "+notcp", "+tcp"] {
        let words = ["dig", &at, "-p", port, "+short", "+tries=1", how, name, "A"];
        let said = stage.client(&words).ok()?;
        expect(said.trim() == answer, || format!("{how}: said {said}"))?;
    }
    Ok(())
}

fn names(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let listen = format!("--listen-address={host}");
    let words = [
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--bind-interfaces",
        "--pid-file=",
        "--user=root",
        "--log-facility=-",
        "--address=/check/192.0.2.9",
        &listen,
        "--port",
        &port,
    ];
    let server = stage.server(&words).start()?.ready("started")?;
    ask(stage, &port, "any.check", "192.0.2.9")?;
    drop(server);
    fine()
}

fn tables(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let (data, socket) = (stage.path("data"), stage.path("socket"));
    let datadir = format!("--datadir={data}");
    let install = [
        "mariadb-install-db",
        "--no-defaults",
        "--user=root",
        &datadir,
    ];
    let safe = ["--auth-root-authentication-method=normal", "--skip-test-db"];
    stage.plain(&install).args(&safe).ok()?;
    let bind = format!("--bind-address={host}");
    let words = ["mariadbd", "--no-defaults", "--user=root", &datadir, &bind];
    let place = format!("--socket={socket}");
    let port_option = format!("--port={port}");
    let server = stage.server(&words);
    let options = [
        "--skip-networking=0",
        "--skip-name-resolve",
        &place,
        &port_option,
    ];
    let server = server
        .args(&options)
        .start()?
        .ready("ready for connections")?;
    let grant = "create user r@'%'; grant all on *.* to r@'%'; create database d; \
                 create table d.t (a longblob)";
    stage
        .plain(&["mariadb", "-u", "root", "-S", &socket, "-e", grant])
        .ok()?;
    let client = ["-h", host, "-P", &port, "-u", "r", "--protocol=tcp"];
    let sql = |text: &str| {
        stage
            .client(&["mariadb", "-N"])
            .args(&client)
            .args(&["-e", text])
            .ok()
    };
    sql("insert into d.t select repeat('gannet', 1000000)")?;
    let row = sql("select a from d.t")?;
    expect(row.trim() == "gannet".repeat(1_000_000), || {
        format!("a row of {} bytes", row.len())
    })?;
    let slap = [
        "--auto-generate-sql",
        "--concurrency=32",
        "--number-of-queries=2000",
    ];
    stage
        .client(&["mariadb-slap"])
        .args(&client)
        .args(&slap)
        .ok()?;
    drop(server);
    fine()
}

fn film(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let quiet = ["ffmpeg", "-nostdin", "-v", "error"];
    let source = [
        "-f",
        "lavfi",
        "-i",
        "testsrc=d=4:s=320x240",
        "-c:v",
        "mpeg2video",
        "-f",
        "mpegts",
    ];
    let film = stage.path("film");
    stage.plain(&quiet).args(&source).args(&[&film]).ok()?;
    let listen = format!("tcp://{host}:{port}?listen=1");
    let copy = ["-i", &film, "-c", "copy", "-f", "mpegts", &listen];
    let server = stage.server(&quiet).args(&copy).start()?;
    let (url, got) = (format!("tcp://{host}:{port}"), stage.path("got"));
    let take = ["-y", "-i", &url, "-c", "copy", "-f", "mpegts", &got];
    stage.wait_for_listener(server.pid(), host, &port)?;
    // It takes one client only, so that there is no other way to ask whether it listens.
    stage.wait_for("the film", || {
        let taken = stage.client(&quiet).args(&take).run().ok()?;
        taken.status.success().then_some(())
    })?;
    server.finish()?.ok()?;
    let digest = |file: &str| {
        let words = ["-i", file, "-f", "framemd5", "-"];
        stage.plain(&quiet).args(&words).ok()
    };
    let pictures = |text: String| text.lines().filter(|line| line.starts_with("0,")).count();
    let (sent, came) = (pictures(digest(&film)?), pictures(digest(&got)?));
    expect(sent == 100 && came == sent, || {
        format!("{came} pictures of {sent}")
    })?;
    fine()
}

/// The new process fetches the listeners from the old one by a Unix socket.
fn reload(stage: &Stage) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let (host_behind, behind) = (stage.client_host(), stage.port()?);
    let root = stage.path("root");
    std::fs::create_dir_all(&root)?;
    write_pseudo_random(&format!("{root}/1K"), 1024)?;
    stage
        .plain(&["chmod", "-R", "a+rX", &stage.path("")])
        .ok()?;
    let text = format!(
        "worker_processes 1; error_log {root}/err; pid {root}/pid; events {{}}\n\
         http {{ access_log off; server {{ listen {host_behind}:{behind}; root {root}; }} }}\n"
    );
    let config = stage.write("nginx.conf", &text)?;
    let words = ["nginx", "-p", &root, "-c", &config, "-g", "daemon off;"];
    let files = stage.client(&words).start()?;
    wait_for_port(stage, files.pid(), host_behind, &behind)?;
    let control = stage.path("control");
    let text = format!(
        "global\n stats socket {control} expose-fd listeners level admin\n nbthread 2\n\
         defaults\n mode http\n timeout connect 5s\n timeout client 9s\n timeout server 9s\n\
         frontend f\n bind {host}:{port}\n default_backend b\n\
         backend b\n server s {host_behind}:{behind}\n"
    );
    let config = stage.write("haproxy.conf", &text)?;
    let server = stage.server(&["haproxy", "-W", "-f", &config]).start()?;
    wait_for_port(stage, server.pid(), host, &port)?;
    let url = format!("http://{host}:{port}/1K");
    let load = [
        "wrk",
        "-t",
        "1",
        "-c",
        "8",
        "-d",
        "4",
        "-H",
        "Connection: close",
        &url,
    ];
    let load = stage.client(&load).start()?;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(700));
        family::signal(master(&server), Signal::USR2);
    }
    let said = load.finish()?.ok()?;
    expect(
        !said.contains("Socket errors") && !said.contains("Non-2xx"),
        || {
            said.lines()
                .filter(|line| line.contains("rrors") || line.contains("Non"))
                .collect()
        },
    )?;
    drop((server, files));
    fine()
}

/// The program itself, below what put it in its place.
fn master(running: &Running) -> i32 {
    let is_it = |pid: i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "haproxy")
    };
    match is_it(running.pid()) {
        true => running.pid(),
        false => family::descendants(running.pid())
            .iter()
            .map(|member| member.pid)
            .find(|pid| is_it(*pid))
            .unwrap_or(running.pid()),
    }
}

/// Erlang's processes talk to each other over TCP, too: node, name server and the tools.
fn messages(stage: &Stage) -> Checked {
    let (host, port, names, between) = (stage.host(), stage.port()?, stage.port()?, stage.port()?);
    let home = stage.path("rabbit");
    std::fs::create_dir_all(&home)?;
    let environment = [
        ("HOME", home.clone()),
        ("ERL_EPMD_PORT", names.clone()),
        ("RABBITMQ_NODENAME", "check@localhost".to_owned()),
        ("RABBITMQ_NODE_IP_ADDRESS", host.to_owned()),
        ("RABBITMQ_NODE_PORT", port.clone()),
        ("RABBITMQ_DIST_PORT", between),
        ("RABBITMQ_MNESIA_BASE", format!("{home}/mnesia")),
        ("RABBITMQ_LOG_BASE", format!("{home}/log")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", format!("{home}/plugins")),
        ("RABBITMQ_CONFIG_FILE", format!("{home}/none")),
    ];
    // Debian's scripts become another user; these are what they start.
    let bin = "/usr/lib/rabbitmq/bin";
    let with = |command: crate::command::Cmd| {
        environment
            .iter()
            .fold(command, |command, (name, value)| command.env(name, value))
    };
    let server = with(stage.server(&[&format!("{bin}/rabbitmq-server")])).start()?;
    let control = format!("{bin}/rabbitmqctl");
    stage.wait_for("the node", || {
        server.output().contains("completed").then_some(())
    })?;
    with(stage.server(&[&control, "-n", "check@localhost", "status"])).ok()?;
    let url = format!("amqp://{host}:{port}");
    let queue = |words: &[&str]| stage.client(words).args(&["-u", &url]).ok();
    queue(&["amqp-declare-queue", "-q", "check", "-d"])?;
    let body = "gannet".repeat(50_000);
    for _ in 0..20 {
        let put = stage.client(&["amqp-publish", "-u", &url, "-r", "check", "-p"]);
        put.input(&body)?.ok()?;
    }
    let take = ["amqp-consume", "-u", &url, "-q", "check", "-c", "20", "cat"];
    let said = stage.client(&take).ok()?;
    expect(said.len() == 20 * body.len(), || {
        format!("{} bytes", said.len())
    })?;
    drop(server);
    // It refuses while it knows of a node.
    stage.wait_for("the end of the name server", || {
        let ended = stage
            .server(&["epmd", "-port", &names, "-kill"])
            .run()
            .ok()?;
        (ended.stdout.contains("Killed") || ended.stdout.contains("not running")).then_some(())
    })?;
    fine()
}
