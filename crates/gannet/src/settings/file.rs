//! A file of settings: the part of TOML that settings need.
//!
//! ```toml
//! profile = "latency"        # a comment
//! tcp.congestion = "bbr"     # dotted names, or a table:
//! [tcp]
//! nodelay = true             # tcp.nodelay
//! delayed_ack = '10ms'       # strings in either quotes, without escapes
//! syn_retries = 3            # whole numbers, true, false
//! ```
//!
//! No lists, no tables in tables, no text over several lines. Bounded: 64 KiB.

use super::assignment::{Assignment, Origin};
use super::problem::{SettingProblem, shown};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// Bytes of the longest file that is read.
const FILE_MAX: u64 = 64 << 10;

/// The assignments in the file `path`; `None` when there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<Assignment>>, SettingProblem> {
    let name = path.display().to_string();
    let mut text = Vec::new();
    let outcome = File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut text));
    match outcome {
        Err(error) if is_absent(path, &error) => return Ok(None),
        Err(error) => {
            return Err(SettingProblem::new(
                format!("cannot read the settings in {name}"),
                error.to_string(),
                "make it readable, or set GANNET_CONFIG to another file",
            ));
        }
        Ok(_) => {}
    }
    if text.len() as u64 > FILE_MAX {
        let why = format!("it is longer than {FILE_MAX} bytes");
        let hint = "GANNET_CONFIG=/path/to/a/file/of/settings";
        let what = format!("cannot read the settings in {name}");
        return Err(SettingProblem::new(what, why, hint));
    }
    match String::from_utf8(text) {
        Ok(text) => parse(&name, &text).map(Some),
        Err(_) => Err(SettingProblem::new(
            format!("cannot read the settings in {name}"),
            "it is not text in UTF-8",
            "GANNET_CONFIG=/path/to/a/file/of/settings",
        )),
    }
}

/// Whether there is nothing to read, as far as this process may look: a directory of somebody else
/// (a HOME that was inherited) has no settings for us.
fn is_absent(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => path.symlink_metadata().is_err(),
        _ => false,
    }
}

/// The assignments in `text`, which stands in the file `path`.
pub(super) fn parse(path: &str, text: &str) -> Result<Vec<Assignment>, SettingProblem> {
    let path: Arc<str> = path.into();
    let mut table = String::new();
    let mut all: Vec<Assignment> = Vec::new();
    for (number, line) in (1_u32..).zip(text.lines()) {
        let bad = |(why, hint): (&str, &str)| {
            let line = shown(line.trim());
            SettingProblem::new(
                format!("cannot read {path} line {number}: {line}"),
                why,
                hint,
            )
        };
        match self::line(line).map_err(bad)? {
            Line::Nothing => {}
            Line::Table(name) => table = format!("{name}."),
            Line::Value(name, value) => {
                let name = format!("{table}{name}");
                if all.iter().any(|other| other.name == name) {
                    return Err(bad(("the name stands in the file twice", "one of them")));
                }
                all.push(Assignment {
                    name,
                    value: value.to_owned(),
                    origin: Origin::File(path.clone(), number),
                });
            }
        }
    }
    Ok(all)
}

enum Line<'a> {
    Nothing,
    Table(&'a str),
    Value(&'a str, &'a str),
}

/// What one line says; or why it cannot be read, and what can.
fn line(line: &str) -> Result<Line<'_>, (&'static str, &'static str)> {
    const EXAMPLE: &str = "tcp.congestion = \"bbr\"";
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Line::Nothing);
    }
    if let Some(rest) = line.strip_prefix('[') {
        let (name, rest) = rest.split_once(']').ok_or(("a ']' is missing", "[tcp]"))?;
        let name = name.trim();
        return match is_key(name) && is_end(rest) {
            true => Ok(Line::Table(name)),
            false => Err(("it is no name of a table", "[tcp]")),
        };
    }
    let (key, value) = line
        .split_once('=')
        .ok_or(("it is neither a table nor a name, '=' and a value", EXAMPLE))?;
    let key = key.trim();
    if !is_key(key) {
        return Err(("it is no name of a setting", EXAMPLE));
    }
    Ok(Line::Value(key, self::value(value.trim())?))
}

/// A value, with whatever comment is behind it.
fn value(text: &str) -> Result<&str, (&'static str, &'static str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(quote) = quote else {
        let value = text.split_once('#').map_or(text, |(value, _)| value).trim();
        let number = value.starts_with(|c: char| c.is_ascii_digit())
            && value.chars().all(|c| c.is_ascii_digit() || c == '_');
        return match number || matches!(value, "true" | "false") {
            true => Ok(value),
            false if value.starts_with(['[', '{']) => Err((
                "lists and inner tables mean nothing here",
                "one value for a name",
            )),
            false => Err((
                "it is no number, true or false, and other values stand in quotes",
                "\"40ms\"",
            )),
        };
    };
    let inner = text.get(1..).unwrap_or("");
    let Some((value, rest)) = inner.split_once(quote) else {
        return Err(("the closing quote is missing", "\"40ms\""));
    };
    if quote == '"' && value.contains('\\') {
        return Err(("a '\\' has no meaning here", "'...' for a text with one"));
    }
    match is_end(rest) {
        true => Ok(value),
        false => Err((
            "there is something behind the value",
            "a '#' before comments",
        )),
    }
}

fn is_key(name: &str) -> bool {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !part.is_empty() && part.chars().all(plain)
    };
    name.len() <= 64 && name.split('.').all(part)
}

fn is_end(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || rest.starts_with('#')
}
