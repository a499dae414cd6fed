//! Values: from text and back. A value is one number (bytes, nanoseconds, a count, 0 or 1, the
//! place of a word), except for names and addresses, which stay text.

use super::knob::Kind;
use super::place;
use super::problem::closest;

/// Bytes in the longest value that is read.
pub(super) const VALUE_MAX: usize = 256;

/// A value of some setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    Text(String),
}

/// Why a text is no value: the cause, and what would be one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadValue {
    pub(super) why: String,
    pub(super) hint: String,
}

const UNITS_OF_TIME: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
const UNITS_OF_BYTES: [(&str, u64); 4] = [("", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];

impl Value {
    /// Reads `text`.
    pub(super) fn parse(kind: &Kind, text: &str) -> Result<Value, BadValue> {
        if text.len() > VALUE_MAX {
            let why = format!("it is longer than {VALUE_MAX} bytes");
            return Err(bad(why, kind.range()));
        }
        match *kind {
            Kind::Flag => flag(text).map(Value::Number),
            Kind::Number { least, most } => {
                let number = text.replace('_', "").parse().ok();
                within(number, least, most, kind)
            }
            Kind::Bytes { auto: true, .. } if text == "auto" => Ok(Value::Number(0)),
            Kind::Bytes {
                least,
                most,
                power_of_two,
                ..
            } => match within(bytes(text), least, most, kind)? {
                Value::Number(n) if power_of_two && !n.is_power_of_two() => {
                    Err(bad("it is no power of two", kind.range()))
                }
                value => Ok(value),
            },
            Kind::Time { least, most } => within(time(text), least, most, kind),
            Kind::Word(words) => word(words, text).map(Value::Number),
            Kind::NetworkName => match place::is_network_name(text) {
                true => Ok(Value::Text(text.to_owned())),
                false => Err(bad("it cannot be a name", kind.range())),
            },
            Kind::Address => place::check_address(text).map(|()| Value::Text(text.to_owned())),
            Kind::Gateway => place::check_gateway(text).map(|()| Value::Text(text.to_owned())),
            Kind::Link => place::check_link(text).map(|()| Value::Text(text.to_owned())),
        }
    }

    /// As text that [`Value::parse`] reads as the same value.
    pub(super) fn text(&self, kind: &Kind) -> String {
        let number = match self {
            Value::Text(text) => return text.clone(),
            Value::Number(number) => *number,
        };
        match *kind {
            Kind::Flag => if number != 0 { "true" } else { "false" }.to_owned(),
            Kind::Bytes { auto: true, .. } if number == 0 => "auto".to_owned(),
            Kind::Bytes { .. } => bytes_text(number),
            Kind::Time { .. } => time_text(number),
            Kind::Word(words) => {
                let word = usize::try_from(number).ok().and_then(|n| words.get(n));
                word.copied().unwrap_or("").to_owned()
            }
            _ => number.to_string(),
        }
    }
}

pub(super) fn bad(why: impl Into<String>, hint: impl Into<String>) -> BadValue {
    BadValue {
        why: why.into(),
        hint: hint.into(),
    }
}

fn flag(text: &str) -> Result<u64, BadValue> {
    match text {
        "true" | "on" | "yes" | "1" => Ok(1),
        "false" | "off" | "no" | "0" => Ok(0),
        _ => Err(bad("it is neither true nor false", Kind::Flag.range())),
    }
}

fn word(words: &[&str], text: &str) -> Result<u64, BadValue> {
    if let Some(at) = words.iter().position(|word| *word == text) {
        return Ok(at as u64);
    }
    let why = format!("there are {}", words.join(", "));
    let near = closest(text, words.iter().copied());
    let first = words.first().copied().unwrap_or("");
    Err(bad(why, near.unwrap_or(first)))
}

fn within(number: Option<u64>, least: u64, most: u64, kind: &Kind) -> Result<Value, BadValue> {
    let Some(number) = number else {
        let (why, example) = match kind {
            Kind::Time { .. } => ("it is no number with a unit of time", "us, ms, s, min, h"),
            Kind::Bytes { .. } => ("it is no number of bytes", "4096, 64K, 4M"),
            _ => ("it is no number", ""),
        };
        let such = if example.is_empty() { "" } else { ", like " };
        return Err(bad(format!("{why}{such}{example}"), kind.range()));
    };
    if number < least || number > most {
        return Err(bad("it is out of range", kind.range()));
    }
    Ok(Value::Number(number))
}

/// Digits, and what is behind them.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    if digits.starts_with('_') {
        return None;
    }
    let number = digits.replace('_', "").parse().ok()?;
    Some((number, unit.trim_start()))
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let suffixes = ["iB", "B"];
    let bare = suffixes.iter().find_map(|s| unit.strip_suffix(s));
    let unit = bare.unwrap_or(unit).to_ascii_uppercase();
    let (_, factor) = UNITS_OF_BYTES.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// Nanoseconds. Zero needs no unit.
fn time(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    if number == 0 && unit.is_empty() {
        return Some(0);
    }
    let (_, factor) = UNITS_OF_TIME.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// Bytes in the largest unit that needs no fraction.
pub(super) fn bytes_text(number: u64) -> String {
    in_units(number, &UNITS_OF_BYTES)
}

/// Nanoseconds in the largest unit that needs no fraction.
pub(super) fn time_text(number: u64) -> String {
    match number {
        0 => "0".to_owned(),
        _ => in_units(number, &UNITS_OF_TIME),
    }
}

fn in_units(number: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, factor): &&(&str, u64)| number != 0 && number.is_multiple_of(*factor);
    let (name, factor) = units.iter().rev().find(fits).copied().unwrap_or(("", 1));
    format!("{}{name}", number / factor)
}
