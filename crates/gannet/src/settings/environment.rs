//! Variables of the environment that are settings, and which file they lead to.

use super::assignment::{Assignment, Origin};
use super::knob::Knob;
use super::problem::{SettingProblem, closest};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The variable in which `gannet run` hands all settings to the processes it starts: lines of
/// `name=value`. Nothing else is looked at where it is set. Programs and people leave it alone.
pub const HANDOVER: &str = "GANNET_RUN_SETTINGS";

/// The file that everybody has in common.
const SYSTEM: &str = "/etc/gannet/config.toml";

/// What the variables set. Others that begin with `GANNET_` are none of our business, unless they
/// look like a setting.
pub(super) fn assignments(
    environment: &[(OsString, OsString)],
) -> Result<Vec<Assignment>, SettingProblem> {
    let known: Vec<(String, &str)> = Knob::all()
        .map(|knob| (knob.variable(), knob.name()))
        .chain([("GANNET_PROFILE".to_owned(), "profile")])
        .collect();
    let mut all = Vec::new();
    for (variable, value) in environment {
        let Some(variable) = variable.to_str().filter(|v| v.starts_with("GANNET_")) else {
            continue;
        };
        let Some((_, name)) = known.iter().find(|(known, _)| known == variable) else {
            suspect(variable, &known)?;
            continue;
        };
        let Some(value) = value.to_str() else {
            let what = format!("cannot use the variable {variable}");
            let why = "its value is not text in UTF-8";
            return Err(SettingProblem::new(what, why, format!("unset {variable}")));
        };
        all.push(Assignment {
            name: (*name).to_owned(),
            value: value.to_owned(),
            origin: Origin::Variable(variable.to_owned()),
        });
    }
    Ok(all)
}

/// Variables that other parts of Gannet read.
const OTHERS: [&str; 3] = ["GANNET_CONFIG", "GANNET_PRELOAD", HANDOVER];

/// A variable that is no setting but was probably meant to be one.
fn suspect(variable: &str, known: &[(String, &str)]) -> Result<(), SettingProblem> {
    if OTHERS.contains(&variable) || variable.starts_with("GANNET_RUN_") {
        return Ok(());
    }
    let suffix = variable.strip_prefix("GANNET_").unwrap_or(variable);
    let suffixes = known.iter().map(|(known, _)| {
        let suffix = known.strip_prefix("GANNET_");
        suffix.unwrap_or(known.as_str())
    });
    let near = closest(suffix, suffixes);
    let group = ["TCP_", "UDP_", "STREAM_"];
    if near.is_none() && !group.iter().any(|group| suffix.starts_with(group)) {
        return Ok(());
    }
    let what = format!("cannot use the variable {variable}");
    let hint = match near {
        Some(near) => format!("GANNET_{near}, or unset {variable}"),
        None => format!("gannet config show; unset {variable}"),
    };
    Err(SettingProblem::new(what, "no setting has that name", hint))
}

/// The files that may hold settings, in the order in which they are looked for; and whether the
/// first must exist, because somebody named it.
pub(super) fn files(environment: &[(OsString, OsString)]) -> (Vec<PathBuf>, bool) {
    let get = |name: &str| {
        let found = environment.iter().find(|(key, _)| key == OsStr::new(name));
        found.map(|(_, value)| value).filter(|v| !v.is_empty())
    };
    if let Some(path) = get("GANNET_CONFIG") {
        return (vec![PathBuf::from(path)], true);
    }
    let own = get("XDG_CONFIG_HOME").map(PathBuf::from);
    let own = own.filter(|path| path.is_absolute());
    let own = own.or_else(|| get("HOME").map(|home| Path::new(home).join(".config")));
    let own = own.map(|path| path.join("gannet/config.toml"));
    (
        own.into_iter().chain([PathBuf::from(SYSTEM)]).collect(),
        false,
    )
}
