//! Everything put together: for every setting the value that counts, and who said so.

use super::assignment::{Assignment, Origin};
use super::environment::{self, HANDOVER};
use super::file;
use super::knob::Knob;
use super::place::{Gateway, LinkChoice, Place};
use super::problem::{SettingProblem, closest, shown};
use super::profile::{PROFILES, Profile};
use super::value::Value;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where settings are looked for.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The variables, as `std::env::vars_os` has them.
    pub environment: Vec<(OsString, OsString)>,
    /// Options of the command line; `profile` is a name, too.
    pub options: Vec<Assignment>,
    /// A file to be read in place of those that the environment leads to.
    pub file: Option<PathBuf>,
}

/// The value of every setting, and its origin.
#[derive(Clone, Debug)]
pub struct Settings {
    entries: Vec<Entry>,
    profile: (&'static Profile, Origin),
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    origin: Origin,
}

impl Settings {
    /// The built-in defaults.
    #[must_use]
    pub fn defaults() -> Settings {
        let entry = |knob: Knob| Entry {
            // a test shows that every default can be read
            value: Value::parse(&knob.row().kind, knob.row().default).unwrap_or(Value::Number(0)),
            origin: Origin::Default,
        };
        let [first, ..] = &PROFILES;
        Settings {
            entries: Knob::all().map(entry).collect(),
            profile: (first, Origin::Default),
        }
    }

    /// The settings of this process: what `gannet run` handed over, else what its variables and the
    /// file they lead to say.
    ///
    /// # Errors
    /// An unknown name or a value that cannot be, with its place and what was probably meant.
    pub fn from_environment() -> Result<Settings, SettingProblem> {
        let environment: Vec<_> = std::env::vars_os().collect();
        let handed = environment.iter().find(|(name, _)| name == HANDOVER);
        if let Some(text) = handed.and_then(|(_, value)| value.to_str()) {
            return Settings::from_handover(text);
        }
        Settings::load(&Sources {
            environment,
            ..Sources::default()
        })
    }

    /// Reads all sources.
    ///
    /// # Errors
    /// As [`Settings::from_environment`]; a file that was named and does not exist.
    pub fn load(sources: &Sources) -> Result<Settings, SettingProblem> {
        let mut all = read_file(sources)?;
        all.extend(environment::assignments(&sources.environment)?);
        all.extend(sources.options.iter().cloned());
        Settings::of(&all)
    }

    /// What a file with this text says, and nothing else: `path` is its name in messages.
    ///
    /// # Errors
    /// As [`Settings::from_environment`].
    pub fn parse(path: &str, text: &str) -> Result<Settings, SettingProblem> {
        Settings::of(&file::parse(path, text)?)
    }

    /// The defaults with these on top, the later ones over the earlier; `profile` is a name, too.
    /// No file and no variable is looked at.
    ///
    /// # Errors
    /// As [`Settings::set`]; an unknown profile.
    pub fn of(all: &[Assignment]) -> Result<Settings, SettingProblem> {
        let mut settings = Settings::defaults();
        if let Some(chosen) = all.iter().rev().find(|a| a.name == "profile") {
            settings.choose(chosen)?;
        }
        for assignment in all.iter().filter(|a| a.name != "profile") {
            settings.set(assignment)?;
        }
        Ok(settings)
    }

    /// All values of the chosen profile.
    fn choose(&mut self, chosen: &Assignment) -> Result<(), SettingProblem> {
        let Some(profile) = Profile::named(&chosen.value) else {
            let names = || PROFILES.iter().map(|profile| profile.name);
            let value = shown(&chosen.value);
            let what = format!("cannot use the profile {value} ({})", chosen.origin);
            let all: Vec<&str> = names().collect();
            let why = format!("there are {}", all.join(", "));
            let near = closest(&chosen.value, names()).unwrap_or("gannet config profiles");
            return Err(SettingProblem::new(what, why, near));
        };
        self.profile = (profile, chosen.origin.clone());
        for (knob, value, _) in profile.values {
            let origin = Origin::Profile(profile.name);
            let (name, value) = (knob.name().to_owned(), (*value).to_owned());
            self.set(&Assignment {
                name,
                value,
                origin,
            })?;
        }
        Ok(())
    }

    /// One value more, which counts from now on.
    ///
    /// # Errors
    /// An unknown name or a value that cannot be; nothing has changed then.
    pub fn set(&mut self, assignment: &Assignment) -> Result<(), SettingProblem> {
        let Assignment {
            name,
            value,
            origin,
        } = assignment;
        let Some(knob) = Knob::named(name) else {
            let what = format!("cannot set {} ({origin})", shown(name));
            let names = Knob::all().map(Knob::name).chain(["profile"]);
            let near = closest(name, names);
            let hint = near.unwrap_or("gannet config show, which has every name");
            return Err(SettingProblem::new(what, "no setting has that name", hint));
        };
        let value = Value::parse(&knob.row().kind, value).map_err(|bad| {
            let what = format!("cannot set {name} to {} ({origin})", shown(value));
            SettingProblem::new(what, bad.why, bad.hint)
        })?;
        if let Some(entry) = self.entries.get_mut(knob as usize) {
            *entry = Entry {
                value,
                origin: origin.clone(),
            };
        }
        Ok(())
    }

    /// The number behind a setting: bytes, nanoseconds, a count, 0 or 1, the place of a word; 0 for
    /// `auto` and for texts.
    #[must_use]
    pub fn number(&self, knob: Knob) -> u64 {
        match self.entries.get(knob as usize).map(|entry| &entry.value) {
            Some(Value::Number(number)) => *number,
            Some(Value::Text(_)) | None => 0,
        }
    }

    /// The value as text, which every source would read as the same.
    #[must_use]
    pub fn text(&self, knob: Knob) -> String {
        let entry = self.entries.get(knob as usize);
        entry.map_or_else(String::new, |entry| entry.value.text(&knob.row().kind))
    }

    /// Who said so.
    #[must_use]
    pub fn origin(&self, knob: Knob) -> Origin {
        let entry = self.entries.get(knob as usize);
        entry.map_or(Origin::Default, |entry| entry.origin.clone())
    }

    /// The chosen profile, and who chose it.
    #[must_use]
    pub fn profile(&self) -> (&'static Profile, &Origin) {
        (self.profile.0, &self.profile.1)
    }

    /// The name of the network.
    #[must_use]
    pub fn network(&self) -> String {
        self.text(Knob::Network)
    }

    /// This host's address.
    #[must_use]
    pub fn place(&self) -> Place {
        Place::parse(&self.text(Knob::Address)).unwrap_or(Place::Auto)
    }

    /// What leads to everything else.
    #[must_use]
    pub fn gateway(&self) -> Gateway {
        Gateway::parse(&self.text(Knob::Gateway)).unwrap_or(Gateway::Auto)
    }

    /// What the host is attached to.
    #[must_use]
    pub fn link(&self) -> LinkChoice {
        LinkChoice::parse(&self.text(Knob::Link)).unwrap_or(LinkChoice::Channel)
    }

    /// Everything that is no default, as text for [`HANDOVER`].
    #[must_use]
    pub fn handover(&self) -> String {
        let changed = Knob::all().filter(|knob| self.origin(*knob) != Origin::Default);
        let lines: Vec<String> = changed
            .map(|knob| format!("{}={}", knob.name(), self.text(knob)))
            .collect();
        lines.join("\n")
    }

    /// What [`Settings::handover`] wrote.
    ///
    /// # Errors
    /// As [`Settings::set`]: the text stands in the environment, where anybody may have changed it.
    pub fn from_handover(text: &str) -> Result<Settings, SettingProblem> {
        let mut settings = Settings::defaults();
        for line in text.lines().take(2 * Knob::COUNT) {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let (name, value) = (name.to_owned(), value.to_owned());
            settings.set(&Assignment {
                name,
                value,
                origin: Origin::Parent,
            })?;
        }
        Ok(settings)
    }
}

/// What the first file says that exists.
fn read_file(sources: &Sources) -> Result<Vec<Assignment>, SettingProblem> {
    let (files, named) = match &sources.file {
        Some(file) => (vec![file.clone()], true),
        None => environment::files(&sources.environment),
    };
    for path in &files {
        if let Some(all) = file::read(path)? {
            return Ok(all);
        }
        if named {
            let what = format!("cannot read the settings in {}", path.display());
            let hint = "a file that exists, or unset GANNET_CONFIG";
            return Err(SettingProblem::new(
                what,
                "there is no such file, or not for this user",
                hint,
            ));
        }
    }
    Ok(Vec::new())
}
