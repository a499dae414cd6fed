//! What is wrong with a setting, in three lines; and which known name was meant.

use std::fmt;
use std::io;

/// A setting that cannot be used: what, why, and what to try. Shown as three lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingProblem {
    /// What cannot be used, and where it stands.
    pub what: String,
    /// The cause.
    pub why: String,
    /// What would do.
    pub hint: String,
}

impl SettingProblem {
    pub(super) fn new(
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        SettingProblem {
            what: what.into(),
            why: why.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingProblem { what, why, hint } = self;
        write!(f, "{what}\nwhy: {why}\ntry: {hint}")
    }
}

impl std::error::Error for SettingProblem {}

impl From<SettingProblem> for io::Error {
    fn from(problem: SettingProblem) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, problem)
    }
}

/// A text of unknown origin as part of a message: quoted, without control characters, cut.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or("")),
        None => format!("{text:?}"),
    }
}

/// Bytes of a name that are compared.
const LONGEST: usize = 64;

/// The one of `known` that `text` was probably meant to be: few letters of difference, or the same
/// last part of a dotted name.
pub fn closest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if text.len() > LONGEST {
        return None;
    }
    let tail = |text: &'a str| text.rsplit_once('.').map_or(text, |(_, tail)| tail);
    let word = text.rsplit_once('.').map_or(text, |(_, tail)| tail);
    let mut best: Option<(usize, &str)> = None;
    for name in known {
        let mut far = distance(text, name).min(distance(text, tail(name)) + 1);
        if word.len() >= 3 && tail(name).contains(word) {
            far = far.min(2);
        }
        if best.is_none_or(|(least, _)| far < least) {
            best = Some((far, name));
        }
    }
    let bearable = (text.len() / 3).max(1) + 1;
    best.filter(|(far, _)| *far <= bearable)
        .map(|(_, name)| name)
}

/// How many letters are to be changed, added, taken away or swapped with their neighbour; case and
/// the kind of dash do not count. One row of the matrix at a time, and the one before it.
fn distance(a: &str, b: &str) -> usize {
    let plain = |c: u8| match c.to_ascii_lowercase() {
        b'-' | b'_' | b'.' => b'_',
        c => c,
    };
    let a = a.as_bytes().get(..a.len().min(LONGEST)).unwrap_or(&[]);
    let b = b.as_bytes().get(..b.len().min(LONGEST)).unwrap_or(&[]);
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last = None;
    for (row, x) in a.iter().map(|&c| plain(c)).enumerate() {
        let mut current = vec![row + 1];
        let mut left = row + 1;
        let mut previous = None;
        for (column, y) in b.iter().map(|&c| plain(c)).enumerate() {
            let at = |row: &[usize], n: usize| row.get(n).copied().unwrap_or(usize::MAX / 2);
            let mut cost = at(&above, column) + usize::from(x != y);
            cost = cost.min(left + 1).min(at(&above, column + 1) + 1);
            if last == Some(y) && previous == Some(x) && column > 0 {
                cost = cost.min(at(&before, column - 1) + 1);
            }
            current.push(cost);
            (left, previous) = (cost, Some(y));
        }
        before = std::mem::replace(&mut above, current);
        last = Some(x);
    }
    above.last().copied().unwrap_or(a.len())
}
