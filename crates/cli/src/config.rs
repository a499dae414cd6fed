//! `gannet config`: what is set, who set it, and what could be.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use gannet::settings::{Knob, Origin, PROFILES, Settings, closest};
use gannet_bench::Problem;
use serde::Serialize;

use crate::compare::print_json;
use crate::knobs::Knobs;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Every setting: its value and who decided
    Show(Show),
    /// The profiles, what they set and why
    Profiles(Profiles),
}

#[derive(Debug, Args)]
#[command(after_help = PLACES)]
struct Show {
    /// Only these, with all that there is to know; `tcp` stands for all of TCP
    names: Vec<String>,
    #[command(flatten)]
    knobs: Knobs,
    /// Print JSON (schema gannet/config/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Profiles {
    /// Print JSON (schema gannet/profiles/1)
    #[arg(long)]
    json: bool,
}

const PLACES: &str = "\
Values come from, the later the stronger: the built-in default; the profile; a file ($GANNET_CONFIG,
else $XDG_CONFIG_HOME/gannet/config.toml, else /etc/gannet/config.toml) of lines like
  profile = \"latency\"
  tcp.min_rto = \"50ms\"
variables like GANNET_TCP_MIN_RTO=50ms; --profile and --set.";

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    match &arguments.what {
        What::Show(arguments) => show(arguments)?,
        What::Profiles(arguments) => profiles(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The schema `gannet/config/1`.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    profile: Profile,
    settings: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Profile {
    name: &'static str,
    origin: Place,
}

/// Who said so.
#[derive(Debug, Serialize)]
struct Place {
    kind: &'static str,
    text: String,
}

impl Place {
    fn of(origin: &Origin) -> Place {
        Place {
            kind: origin.kind(),
            text: origin.to_string(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    value: String,
    /// Bytes, nanoseconds, a count; nothing for texts.
    number: u64,
    unit: &'static str,
    origin: Place,
    default: &'static str,
    range: String,
    variable: String,
    about: &'static str,
    source: &'static str,
}

impl Row {
    fn of(settings: &Settings, knob: Knob) -> Row {
        let row = knob.row();
        Row {
            name: row.name,
            value: settings.text(knob),
            number: settings.number(knob),
            unit: row.kind.unit(),
            origin: Place::of(&settings.origin(knob)),
            default: row.default,
            range: row.kind.range(),
            variable: knob.variable(),
            about: row.about,
            source: row.source,
        }
    }
}

fn show(arguments: &Show) -> Result<(), Problem> {
    let settings = arguments.knobs.load()?;
    let chosen = chosen(&arguments.names)?;
    let rows: Vec<Row> = chosen.iter().map(|k| Row::of(&settings, *k)).collect();
    let (profile, origin) = settings.profile();
    if arguments.json {
        return print_json(&Document {
            schema: "gannet/config/1",
            profile: Profile {
                name: profile.name,
                origin: Place::of(origin),
            },
            settings: rows,
        });
    }
    match arguments.names.is_empty() {
        true => {
            println!("profile {} ({origin})", profile.name);
            table(&rows);
        }
        false => rows.iter().for_each(detail),
    }
    Ok(())
}

/// The settings with these names, or in these groups; all when there are none.
fn chosen(names: &[String]) -> Result<Vec<Knob>, Problem> {
    if names.is_empty() {
        return Ok(Knob::all().collect());
    }
    let mut all = Vec::new();
    for name in names {
        let group = format!("{name}.");
        let fits = |k: &Knob| k.name() == name || k.name().starts_with(&group);
        let before = all.len();
        all.extend(Knob::all().filter(fits));
        if all.len() == before {
            let near = closest(name, Knob::all().map(Knob::name));
            return Err(Problem::new(
                format!("cannot show {name:?}"),
                "no setting has that name",
                near.unwrap_or("gannet config show, which has every name"),
            ));
        }
    }
    Ok(all)
}

fn table(rows: &[Row]) {
    let widest = |cell: fn(&Row) -> usize| rows.iter().map(cell).max().unwrap_or(0);
    let name = widest(|row| row.name.len());
    let value = widest(|row| row.value.len());
    let origin = widest(|row| row.origin.text.len());
    for row in rows {
        println!(
            "{:name$}  {:value$}  {:origin$}  {}",
            row.name, row.value, row.origin.text, row.about
        );
    }
}

fn detail(row: &Row) {
    println!("{} = {}  ({})", row.name, row.value, row.origin.text);
    println!("    {}", row.about);
    println!("    values    {}; default {}", row.range, row.default);
    println!("    variable  {}", row.variable);
    if !row.source.is_empty() {
        println!("    see       {}", row.source);
    }
}

/// The schema `gannet/profiles/1`.
#[derive(Debug, Serialize)]
struct ProfilesDocument {
    schema: &'static str,
    profiles: Vec<ProfileRow>,
}

#[derive(Debug, Serialize)]
struct ProfileRow {
    name: &'static str,
    about: &'static str,
    settings: Vec<ProfileValue>,
}

#[derive(Debug, Serialize)]
struct ProfileValue {
    name: &'static str,
    value: &'static str,
    why: &'static str,
}

fn profiles(arguments: &Profiles) -> Result<(), Problem> {
    let rows: Vec<ProfileRow> = PROFILES
        .iter()
        .map(|profile| ProfileRow {
            name: profile.name,
            about: profile.about,
            settings: profile
                .values
                .iter()
                .map(|&(knob, value, why)| ProfileValue {
                    name: knob.name(),
                    value,
                    why,
                })
                .collect(),
        })
        .collect();
    if arguments.json {
        return print_json(&ProfilesDocument {
            schema: "gannet/profiles/1",
            profiles: rows,
        });
    }
    for row in rows {
        println!("{}: {}", row.name, row.about);
        for ProfileValue { name, value, why } in row.settings {
            println!("    {name:24} {value:8} {why}");
        }
    }
    Ok(())
}
