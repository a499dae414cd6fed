//! `cargo xtask header`: `include/gannet.h`, made of the source of `crates/capi` by cbindgen, and
//! the check that the one in the repository is what would be made now.

use crate::explain::Explained;
use crate::only_known;
use cbindgen::{Builder, Config, DocumentationStyle, ExportConfig, Language, SortKey, Style};
use std::path::Path;

/// Where it lies.
pub(crate) const PATH: &str = "include/gannet.h";
const SOURCE: &str = "crates/capi/src";

/// The files that say something to C, in the order in which a reader of the header wants them.
const FILES: [&str; 13] = [
    "error.rs",
    "address.rs",
    "builder.rs",
    "host.rs",
    "listener.rs",
    "tcp.rs",
    "tcp_info.rs",
    "blocks.rs",
    "udp.rs",
    "batch.rs",
    "groups.rs",
    "option.rs",
    "poller.rs",
];

/// What stands above everything else.
const TOP: &str = "\
/*
 * Gannet: TCP/IP in user space, for C. See examples/c/echo.c for a program.
 *
 *   cc program.c $(pkg-config --cflags --libs gannet)
 *
 * Made from crates/capi by `cargo xtask header`: do not change it here.
 *
 * Handles (gannet_host *, gannet_tcp * and so on) look like pointers and are none: they cannot be
 * followed. One that is NULL, closed, of another kind or made up is recognised: EINVAL for NULL,
 * EBADF for the others. All may be used by several threads at a time.
 *
 * Errors: functions that return an int or a size return -1, those that return a pointer NULL;
 * errno has the number that the kernel's sockets give in the same place (EAGAIN, ECONNREFUSED,
 * ...), and gannet_last_error() says in three lines what could not be done, why, and what to try.
 * EIO is a mistake in the library. Where nothing else is said 0 is success.
 *
 * What a function asks of its pointers is what C asks everywhere: a pointer that is not NULL leads
 * to as much memory as its description says, texts end with a zero and are UTF-8, and nobody else
 * changes either during the call. Pointers are not kept when a call is over.
 *
 * fork(2): a child must not use its parent's handles; it makes a host of its own. No signal is
 * raised, and no signal handler ends a wait.
 */";

/// Makes the header, or with `--check` says whether it is up to date.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<bool, Explained> {
    only_known(options, &["--check"])?;
    let made = generate(root)?;
    let path = root.join(PATH);
    if options.contains(&"--check") {
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        if kept != made {
            println!("header: {PATH} is not what crates/capi says\n    try: cargo xtask header");
        }
        return Ok(kept == made);
    }
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = written.and_then(|()| std::fs::write(&path, made));
    written
        .map_err(|error| Explained::new(format!("cannot write {PATH}"), error.to_string(), "-"))?;
    Ok(true)
}

/// The text of the header.
pub(crate) fn generate(root: &Path) -> Result<String, Explained> {
    let mut builder = Builder::new().with_config(config());
    for file in FILES {
        builder = builder.with_src(root.join(SOURCE).join(file));
    }
    let bindings = builder.generate().map_err(|error| {
        let what = format!("cannot make {PATH} of {SOURCE}");
        Explained::new(what, error.to_string(), "cargo check -p gannet-capi")
    })?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(for_c(&String::from_utf8_lossy(&text)))
}

fn config() -> Config {
    let includes = [
        "stddef.h",
        "stdint.h",
        "sys/socket.h",
        "sys/types.h",
        "sys/uio.h",
    ];
    let mut config = Config {
        language: Language::C,
        header: Some(TOP.to_owned()),
        include_guard: Some("GANNET_H".to_owned()),
        sys_includes: includes.map(str::to_owned).into(),
        no_includes: true,
        cpp_compat: true,
        style: Style::Type,
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::Doxy,
        line_length: 100,
        tab_width: 4,
        ..Config::default()
    };
    config.function.sort_by = Some(SortKey::None);
    config.constant.sort_by = Some(SortKey::None);
    let renamed = ["sockaddr", "sockaddr_storage", "iovec"];
    config.export = ExportConfig {
        rename: renamed
            .map(|name| (name.to_owned(), format!("struct {name}")))
            .into(),
        ..ExportConfig::default()
    };
    config
}

/// Leaves out what is said to readers of Rust alone: the sections on safety.
fn for_c(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut safety = false;
    for line in text.lines() {
        let words = line.trim_start().trim_start_matches('*').trim();
        if words == "# Safety" {
            safety = true;
            while lines.last().is_some_and(|l| l.trim() == "*") {
                lines.pop();
            }
        }
        if line.trim_end().ends_with("*/") {
            safety = false;
        }
        if !safety {
            lines.push(line.trim_end());
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let made = generate(&root).unwrap();
        let kept = std::fs::read_to_string(root.join(PATH)).unwrap();
        assert!(made == kept, "try: cargo xtask header");
        assert!(!made.contains("# Safety"));
        for needed in [
            "gannet_last_error",
            "gannet_tcp_connect",
            "typedef struct gannet_tcp",
        ] {
            assert!(made.contains(needed), "{needed}");
        }
    }

    #[test]
    fn safety_is_left_out() {
        let text = "/*\n * Reads.\n *\n * # Safety\n * None.\n */\nint f(void);\n";
        assert_eq!(for_c(text), "/*\n * Reads.\n */\nint f(void);\n");
    }
}
