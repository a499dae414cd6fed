//! The command line.

use crate::far::{self, Peer, Side};
use crate::runner;
use crate::table::{self, Case};
use crate::talk::Addresses;
use crate::{faults, show};
use serde::Serialize;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;

const USAGE: &str = "\
gannet-cases: the socket calls of the Linux manual pages, one observation a line

usage: gannet-cases [faults] [--v4 ADDRESS] [--v6 ADDRESS] [--only PATTERN] [--list] [--json]
                    [--peer NAME --peer-v4 ADDRESS --peer-side accepts|connects]
       gannet-cases peer NAME

  faults          two processes, and something bad that happens to one of them
  --v4 ADDRESS    address of the IPv4 cases; default 127.0.0.1
  --v6 ADDRESS    address of the IPv6 cases; default ::1
  --only PATTERN  cases whose name contains PATTERN; may be given more than once
  --list          names only
  --peer NAME     one end of each connection in the program that is `gannet-cases peer NAME`,
                  at the address --peer-v4; only cases that are possible so
  peer NAME       makes the calls that cases elsewhere ask for, until standard input ends
  --json          one object: {\"version\":1,\"cases\":[{\"name\":..,\"observed\":..}]}";

/// What a case observes that found out too late that it needs one process.
const NO_CASE: &str = "set-up failed";

/// What the command line asks for.
pub(crate) enum Wish {
    Run(Request),
    /// Make the calls that cases elsewhere ask for, under this name.
    Peer(String),
    /// The program was executed by one of its own cases.
    Stage(Vec<String>),
}

/// Which cases are run, and how they are printed.
pub(crate) struct Request {
    faults: bool,
    /// One end of the connections is in another program.
    far: bool,
    only: Vec<String>,
    list: bool,
    json: bool,
    at: Addresses,
}

/// One line of the output.
#[derive(Serialize)]
struct Row {
    name: String,
    observed: String,
}

/// The output with `--json`.
#[derive(Serialize)]
struct Document {
    version: u32,
    cases: Vec<Row>,
}

/// Reads the command line; what is wrong with it, and what would be right, if it is wrong.
pub(crate) fn parse(words: Vec<String>) -> Result<Wish, String> {
    if words.first().is_some_and(|word| word == "--stage") {
        return Ok(Wish::Stage(words[1..].to_vec()));
    }
    if words.first().is_some_and(|word| word == "peer") {
        return Ok(Wish::Peer(value("peer", words.get(1).cloned())?));
    }
    let mut request = Request {
        faults: false,
        far: false,
        only: Vec::new(),
        list: false,
        json: false,
        at: Addresses {
            v4: Ipv4Addr::LOCALHOST,
            v6: Ipv6Addr::LOCALHOST,
            peer: None,
        },
    };
    let mut peer = Peer {
        side: Side::Accepts,
        v4: Ipv4Addr::LOCALHOST,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "faults" => request.faults = true,
            "--list" => request.list = true,
            "--json" => request.json = true,
            "--only" => request.only.push(value(&word, words.next())?),
            "--v4" => request.at.v4 = address(&word, words.next())?,
            "--v6" => request.at.v6 = address(&word, words.next())?,
            "--peer" => request.far = far::is_far(Some(value(&word, words.next())?)),
            "--peer-v4" => peer.v4 = address(&word, words.next())?,
            "--peer-side" => peer.side = side(&value(&word, words.next())?)?,
            _ => return Err(format!("gannet-cases: `{word}` is not known\n\n{USAGE}")),
        }
    }
    request.at.peer = request.far.then_some(peer);
    Ok(Wish::Run(request))
}

fn side(text: &str) -> Result<Side, String> {
    match text {
        "accepts" => Ok(Side::Accepts),
        "connects" => Ok(Side::Connects),
        _ => Err(format!(
            "gannet-cases: `{text}` is neither accepts nor connects\n\n{USAGE}"
        )),
    }
}

fn value(option: &str, value: Option<String>) -> Result<String, String> {
    value.ok_or_else(|| format!("gannet-cases: nothing after {option}\n\n{USAGE}"))
}

fn address<T: std::str::FromStr>(option: &str, text: Option<String>) -> Result<T, String> {
    let text = value(option, text)?;
    let wrong = |_| format!("gannet-cases: {option} `{text}` is no such address\n\n{USAGE}");
    text.parse().map_err(wrong)
}

impl Request {
    /// Runs the cases, or lists them.
    pub(crate) fn serve(&self) -> ExitCode {
        let (cases, limit) = if self.faults {
            (faults::all(), faults::LIMIT)
        } else {
            (table::all(self.far), runner::LIMIT)
        };
        let chosen: Vec<Case> = cases
            .into_iter()
            .filter(|case| self.only.is_empty() || self.chooses(case.name))
            .filter(|case| !(self.far && case.is_of_one_program()))
            .collect();
        if chosen.is_empty() {
            eprintln!("gannet-cases: no case has such a name\ntry: gannet-cases --list");
            return ExitCode::from(2);
        }
        let mut rows = Vec::new();
        for case in &chosen {
            let observed = if self.list {
                String::new()
            } else {
                runner::observe(case, self.at, limit)
            };
            if observed.contains(far::ONE_PROCESS) || self.far && observed.contains(NO_CASE) {
                continue;
            }
            if self.json {
                let name = case.name.to_owned();
                rows.push(Row { name, observed });
            } else {
                show::line(case.name, &observed);
            }
        }
        if self.json {
            let cases = rows;
            show::document(&Document { version: 1, cases });
        }
        ExitCode::SUCCESS
    }

    fn chooses(&self, name: &str) -> bool {
        self.only.iter().any(|part| name.contains(part.as_str()))
    }
}
