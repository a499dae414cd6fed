//! The table, the sources and their precedence, and what is said about mistakes.

use super::environment::files;
use super::file::parse;
use super::place::is_network_name;
use super::value::Value;
use super::*;
use gannet_base::Rng;
use gannet_drivers::channel::directory::Name;
use gannet_stack::{CongestionControl, EcnMode, SynCookies, TcpConfig, UdpConfig};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

fn variables(all: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    all.iter().map(|(k, v)| (k.into(), v.into())).collect()
}

fn options(all: &[(&str, &str)]) -> Sources {
    let all = all.iter().map(|(n, v)| Assignment::option("--set", n, v));
    Sources {
        options: all.collect(),
        environment: variables(&[("GANNET_CONFIG", "/dev/null")]),
        ..Sources::default()
    }
}

fn problem(sources: &Sources) -> String {
    let text = Settings::load(sources).unwrap_err().to_string();
    assert_eq!(text.lines().count(), 3, "{text}");
    text
}

#[test]
fn every_default_can_be_read_and_is_written_in_the_same_way() {
    for knob in Knob::all() {
        let row = knob.row();
        let value = Value::parse(&row.kind, row.default).expect(row.name);
        assert_eq!(value.text(&row.kind), row.default, "{}", row.name);
        assert!(
            !row.about.is_empty() && row.about.len() < 100,
            "{}",
            row.name
        );
        assert_eq!(Knob::named(row.name), Some(knob));
    }
}

#[test]
fn the_table_and_the_stack_have_the_same_defaults() {
    let settings = Settings::defaults();
    let (table, stack) = (settings.tcp(), TcpConfig::default());
    assert_eq!(format!("{table:?}"), format!("{stack:?}"));
    let (table, stack) = (settings.udp(), UdpConfig::default());
    assert_eq!(format!("{table:?}"), format!("{stack:?}"));
    assert_eq!(settings.time(Knob::Spin), Duration::from_micros(50));
}

/// A value other than the default reaches the stack, for each setting of the stack.
#[test]
fn every_setting_of_tcp_and_udp_is_heard() {
    let plain = Settings::defaults();
    for knob in Knob::all().filter(|k| k.name().contains("p.")) {
        let other = match knob.row().kind {
            Kind::Flag if plain.flag(knob) => "false".to_owned(),
            Kind::Flag => "true".to_owned(),
            Kind::Number { least, .. } => (least + 1).to_string(),
            Kind::Bytes { least, .. } => (least * 2).to_string(),
            Kind::Time { least, .. } => format!("{}ns", least + 1_000_000),
            Kind::Word(words) => words[words.len() - 1].to_owned(),
            _ => unreachable!("{}", knob.name()),
        };
        let changed = Settings::load(&options(&[(knob.name(), &other)])).unwrap();
        let all = |s: &Settings| format!("{:?}{:?}", s.tcp(), s.udp());
        assert_ne!(all(&changed), all(&plain), "{} {other}", knob.name());
    }
}

#[test]
fn values() {
    let rows: &[(&str, &str, Result<&str, &str>)] = &[
        ("tcp.nodelay", "on", Ok("true")),
        ("tcp.nodelay", "0", Ok("false")),
        ("tcp.nodelay", "maybe", Err("neither true nor false")),
        ("tcp.initial_window", "10", Ok("10")),
        ("tcp.initial_window", "0", Err("out of range")),
        ("tcp.initial_window", "-1", Err("no number")),
        ("tcp.initial_window", "", Err("no number")),
        ("stream.buffer", "65536", Ok("64K")),
        ("stream.buffer", "1 MiB", Ok("1M")),
        ("stream.buffer", "4m", Ok("4M")),
        ("stream.buffer", "100K", Err("no power of two")),
        ("stream.buffer", "32K", Err("out of range")),
        ("stream.buffer", "8M", Err("out of range")),
        ("tcp.send_buffer", "65_536", Ok("64K")),
        (
            "tcp.send_buffer",
            "99999999999999999999",
            Err("no number of bytes"),
        ),
        (
            "tcp.send_buffer",
            "18446744073709551615G",
            Err("no number of bytes"),
        ),
        ("tcp.send_buffer", "64X", Err("no number of bytes")),
        ("mtu", "auto", Ok("auto")),
        ("mtu", "9000", Ok("9000")),
        ("mtu", "68", Err("out of range")),
        ("tcp.min_rto", "20ms", Ok("20ms")),
        ("tcp.min_rto", "1000ms", Ok("1s")),
        ("tcp.min_rto", "20", Err("no number with a unit of time")),
        ("tcp.min_rto", "0", Err("out of range")),
        ("spin", "0", Ok("0")),
        ("spin", "1500us", Ok("1500us")),
        ("tcp.time_wait", "120s", Ok("2min")),
        ("tcp.congestion", "bbr", Ok("bbr")),
        ("tcp.congestion", "cubik", Err("try: cubic")),
        ("tcp.congestion", "", Err("there are cubic, reno")),
        ("network", "lab 1", Ok("lab 1")),
        ("network", "", Err("cannot be a name")),
        ("network", "../x", Err("cannot be a name")),
        ("link", "channel", Ok("channel")),
        ("link", "packet:eth0", Ok("packet:eth0")),
        ("link", "tap:", Err("no name of an interface")),
        (
            "link",
            "tap:0123456789abcdef",
            Err("no name of an interface"),
        ),
        ("link", "wire", Err("there are channel, packet:IF")),
        ("address", "fd00::1/64", Ok("fd00::1/64")),
        ("address", "dhcp", Ok("dhcp")),
        ("address", "10.0.0.256", Err("out of range")),
        ("address", "10.0.0.1/33", Err("out of range")),
        ("address", "127.0.0.1", Err("loopback")),
        ("address", "localhost", Err("it is a name")),
        ("address", "10.0.0.0/24", Err("network's own")),
    ];
    for (name, text, expected) in rows {
        let found = Settings::load(&options(&[(name, text)]));
        match (found, expected) {
            (Ok(settings), Ok(value)) => {
                assert_eq!(settings.text(Knob::named(name).unwrap()), *value, "{name}");
            }
            (Err(problem), Err(part)) => {
                let text = problem.to_string();
                assert!(text.contains(part), "{name} {text}");
                assert!(text.contains("(option --set)"), "{text}");
                assert_eq!(text.lines().count(), 3, "{text}");
            }
            (found, _) => panic!("{name} = {text:?}: {found:?}"),
        }
    }
    let long = "9".repeat(10_000);
    assert!(problem(&options(&[("tcp.min_rto", &long)])).len() < 300);
}

#[test]
fn later_sources_count() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let text = "profile = \"latency\"\ntcp.nodelay = false\n[tcp]\nmin_rto = '30ms' # why\n\
                delayed_ack = \"5ms\"\n";
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let mut sources = options(&[("tcp.delayed_ack", "7ms")]);
    sources.environment = variables(&[
        ("GANNET_CONFIG", path),
        ("GANNET_TCP_MIN_RTO", "90ms"),
        ("GANNET_TCP_DELAYED_ACK", "6ms"),
        ("GANNETRY", "no business of ours"),
        ("GANNET_LICENCE_SERVER", "nor this"),
    ]);
    let settings = Settings::load(&sources).unwrap();
    let rows = [
        (Knob::Congestion, "cubic", "default".to_owned()),
        (Knob::StreamBuffer, "128K", "profile latency".to_owned()),
        (Knob::NoDelay, "false", format!("{path} line 2")),
        (
            Knob::MinRto,
            "90ms",
            "variable GANNET_TCP_MIN_RTO".to_owned(),
        ),
        (Knob::DelayedAck, "7ms", "option --set".to_owned()),
    ];
    for (knob, value, origin) in rows {
        assert_eq!(settings.text(knob), value);
        assert_eq!(settings.origin(knob).to_string(), origin);
    }
    let (profile, origin) = settings.profile();
    assert_eq!((profile.name, origin.kind()), ("latency", "file"));

    // the profile of a later source replaces that of the file, not the file's own values
    sources
        .environment
        .push(("GANNET_PROFILE".into(), "many".into()));
    let settings = Settings::load(&sources).unwrap();
    assert_eq!(settings.text(Knob::StreamBuffer), "64K");
    assert_eq!(settings.text(Knob::NoDelay), "false");
    sources
        .options
        .push(Assignment::option("--profile", "profile", "default"));
    let settings = Settings::load(&sources).unwrap();
    assert_eq!(settings.text(Knob::StreamBuffer), "512K");
}

#[test]
fn what_is_handed_over_arrives() {
    let all = [
        ("network", "a=b"),
        ("address", "10.9.0.1"),
        ("link", "tap:t0"),
        ("tcp.congestion", "bbr"),
        ("tcp.ecn", "active"),
        ("tcp.syn_cookies", "always"),
        ("tcp.max_segment", "1200"),
        ("profile", "many"),
    ];
    let settings = Settings::load(&options(&all)).unwrap();
    let again = Settings::from_handover(&settings.handover()).unwrap();
    for knob in Knob::all() {
        assert_eq!(again.text(knob), settings.text(knob));
    }
    assert_eq!(again.network(), "a=b");
    assert_eq!(again.link(), LinkChoice::Tap("t0".to_owned()));
    let address: IpAddr = "10.9.0.1".parse().unwrap();
    assert_eq!(again.place(), Place::Fixed(address, 24));
    let tcp = again.tcp();
    assert_eq!(tcp.congestion, CongestionControl::Bbr);
    assert_eq!(tcp.ecn, EcnMode::Active);
    assert_eq!(tcp.syn_cookies, SynCookies::Always);
    assert_eq!(tcp.max_segment, Some(1200));
    assert_eq!(Settings::defaults().handover(), "");
    assert!(Settings::from_handover("tcp.congestion").is_err());
}

#[test]
fn profiles_can_be_read_and_change_what_they_name() {
    let plain = Settings::defaults();
    for profile in &PROFILES {
        let settings = Settings::load(&options(&[("profile", profile.name)])).unwrap();
        for (knob, _, why) in profile.values {
            assert_ne!(settings.text(*knob), plain.text(*knob), "{}", profile.name);
            assert!(!why.is_empty());
        }
    }
}

#[test]
fn unknown_names_are_named_with_their_place_and_the_closest() {
    let text = problem(&options(&[("tcp.congestoin", "bbr")]));
    assert!(
        text.starts_with("cannot set \"tcp.congestoin\" (option --set)\n"),
        "{text}"
    );
    assert!(text.ends_with("try: tcp.congestion"), "{text}");
    for (name, near) in [
        ("nodelay", "tcp.nodelay"),
        ("tcp.NoDelay", "tcp.nodelay"),
        ("TCP-MIN-RTO", "tcp.min_rto"),
        ("streem.buffer", "stream.buffer"),
        ("profil", "profile"),
    ] {
        assert!(problem(&options(&[(name, "1")])).ends_with(near), "{name}");
    }
    assert!(problem(&options(&[("xyzzy", "1")])).contains("gannet config show"));
    assert!(problem(&options(&[("profile", "lan_kernel")])).ends_with("try: lan-kernel"));

    let mut sources = options(&[]);
    for (variable, hint) in [
        (
            "GANNET_TCP_CONGESTON",
            "try: GANNET_TCP_CONGESTION, or unset",
        ),
        (
            "GANNET_TCP_WHATEVER_THIS_IS",
            "try: gannet config show; unset",
        ),
        ("GANNET_PROFIL", "try: GANNET_PROFILE, or unset"),
    ] {
        sources.environment.push((variable.into(), "x".into()));
        let text = problem(&sources);
        assert!(text.contains(variable) && text.contains(hint), "{text}");
        sources.environment.pop();
    }
}

#[test]
fn lines_of_a_file() {
    let good = "\n# c\n a.b = \"x # y\"  # c\n'' \n";
    assert!(parse("f", good).is_err(), "an empty name");
    let rows: &[(&str, Result<&str, &str>)] = &[
        ("a = \"x # y\" # c", Ok("x # y")),
        ("a = 'C:\\x'", Ok("C:\\x")),
        ("  a=65_536", Ok("65_536")),
        ("a = true#c", Ok("true")),
        ("a = bbr", Err("stand in quotes")),
        ("a = ", Err("stand in quotes")),
        ("a = \"x", Err("closing quote")),
        ("a = \"x\" y", Err("something behind")),
        ("a = \"\\n\"", Err("no meaning")),
        ("a = [1]", Err("lists")),
        ("a", Err("neither a table")),
        ("= 1", Err("no name of a setting")),
        ("a b = 1", Err("no name of a setting")),
        ("a. = 1", Err("no name of a setting")),
        ("[a", Err("']' is missing")),
        ("[[a]]", Err("no name of a table")),
        ("a = 1\na = 2", Err("twice")),
    ];
    for (text, expected) in rows {
        match (parse("f", text), expected) {
            (Ok(all), Ok(value)) => assert_eq!((&*all[0].name, &*all[0].value), ("a", *value)),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{text}: {error}");
                assert!(error.what.contains("cannot read f line"), "{error}");
            }
            (found, _) => panic!("{text:?}: {found:?}"),
        }
    }
    let tables = parse("f", "x = 1\n[t]\r\ny = 2\r\n[u.v]\nz = 3").unwrap();
    let names: Vec<&str> = tables.iter().map(|a| &*a.name).collect();
    assert_eq!(names, ["x", "t.y", "u.v.z"]);
}

#[test]
fn files_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let missing = directory.path().join("missing.toml");
    for (path, part) in [
        (missing, "there is no such file"),
        (directory.path().to_path_buf(), "directory"),
        (file("binary", &[0xff, 0xfe]), "not text in UTF-8"),
        (
            file("long", &vec![b'\n'; 70_000]),
            "longer than 65536 bytes",
        ),
        (file("typo", b"\n\ntcp.sak = true\n"), "typo line 3"),
    ] {
        let sources = Sources {
            file: Some(path),
            ..Sources::default()
        };
        let text = problem(&sources);
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn which_files_are_looked_for() {
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], bool);
    let rows: &[Row<'_>] = &[
        (&[("GANNET_CONFIG", "/a")], &["/a"], true),
        (
            &[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")],
            &["/x/gannet/config.toml", "/etc/gannet/config.toml"],
            false,
        ),
        (
            &[
                ("XDG_CONFIG_HOME", "relative"),
                ("HOME", "/h"),
                ("GANNET_CONFIG", ""),
            ],
            &["/h/.config/gannet/config.toml", "/etc/gannet/config.toml"],
            false,
        ),
        (&[], &["/etc/gannet/config.toml"], false),
    ];
    for (environment, expected, named) in rows {
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(files(&variables(environment)), (expected, *named));
    }
}

/// Names are checked here as where they are used.
#[test]
fn names_of_networks() {
    let long = "x".repeat(65);
    for name in [
        "a",
        "a b",
        "",
        ".",
        ".a",
        "a/b",
        "a\nb",
        "ä",
        &long,
        &long[1..],
    ] {
        assert_eq!(is_network_name(name), Name::new(name).is_ok(), "{name:?}");
    }
}

/// Texts that were good once, with bytes changed: every one is read or refused.
#[test]
fn no_text_makes_it_panic() {
    let seeds = [
        "[tcp]\ncongestion = \"bbr\" # x\nmin_rto='1ms'\nsyn_retries = 3\n",
        "profile = \"many\"\nstream.buffer = \"1M\"\naddress = \"fd00::1/64\"\n",
    ];
    let mut rng = Rng::new(7);
    let mut read = 0;
    for round in 0..20_000 {
        let mut bytes = seeds[round % 2].as_bytes().to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] = rng.below(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"[]'\"=#.\n\\_0"[rng.below(11) as usize]),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let Ok(assignments) = parse("f", &text) else {
            continue;
        };
        for assignment in assignments {
            read += usize::from(Settings::defaults().set(&assignment).is_ok());
        }
    }
    assert!(read > 1000, "{read}");
}

#[test]
fn a_host_takes_them() {
    let network = format!("settings-{}", std::process::id());
    let settings = Settings::load(&options(&[("profile", "many"), ("mtu", "1400")])).unwrap();
    let builder = crate::Host::builder().channel(&network, "10.0.0.1/24");
    let text = format!("{:?}", settings.apply(builder));
    for part in [
        "spin_max: 0ns",
        "mtu: Some(1400)",
        "syn_backlog: 16384",
        "nodelay: false",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let builder = crate::Host::builder().channel(&network, "10.0.0.1/24");
    let host = settings.apply(builder).build().unwrap();
    assert!(host.addresses().contains(&"10.0.0.1".parse().unwrap()));
}
