//! Options that choose settings, the same for every subcommand that has settings.

use clap::Args;
use gannet::settings::{Assignment, SettingProblem, Settings, Sources};
use gannet_bench::Problem;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Knobs {
    /// A profile: values that go together (`gannet config profiles`)
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// A setting (`gannet config show`); may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

/// `name=value`.
fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("it has no '='; try: --set tcp.congestion=bbr")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl Knobs {
    /// What they say, each under its option's name.
    pub(crate) fn assignments(&self) -> Vec<Assignment> {
        let profile = self.profile.iter();
        let profile = profile.map(|name| Assignment::option("--profile", "profile", name));
        let set = self.set.iter();
        let set = set.map(|(name, value)| Assignment::option("--set", name, value));
        profile.chain(set).collect()
    }

    /// All settings, with these on top.
    pub(crate) fn load(&self) -> Result<Settings, Problem> {
        load(self.assignments())
    }
}

/// All settings, with `options` on top.
pub(crate) fn load(options: Vec<Assignment>) -> Result<Settings, Problem> {
    let sources = Sources {
        environment: std::env::vars_os().collect(),
        options,
        file: None,
    };
    Settings::load(&sources).map_err(problem)
}

fn problem(problem: SettingProblem) -> Problem {
    let SettingProblem { what, why, hint } = problem;
    Problem { what, why, hint }
}
