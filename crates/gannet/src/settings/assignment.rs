//! A name, a value, and who said so.

use std::fmt;
use std::sync::Arc;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// The profile of that name.
    Profile(&'static str),
    /// A line of a file, counted from 1.
    File(Arc<str>, u32),
    /// The environment variable of that name.
    Variable(String),
    /// An option of the command line, as it was written.
    Option(String),
    /// The process that started this one.
    Parent,
}

impl Origin {
    /// One word for the kind of source, for JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Profile(_) => "profile",
            Origin::File(..) => "file",
            Origin::Variable(_) => "variable",
            Origin::Option(_) => "option",
            Origin::Parent => "parent",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Profile(name) => write!(f, "profile {name}"),
            Origin::File(path, line) => write!(f, "{path} line {line}"),
            Origin::Variable(name) => write!(f, "variable {name}"),
            Origin::Option(option) => write!(f, "option {option}"),
            Origin::Parent => f.write_str("gannet run"),
        }
    }
}

/// One source's word about one setting: unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The setting, or `profile`.
    pub name: String,
    /// The value, as text.
    pub value: String,
    /// Who said so.
    pub origin: Origin,
}

impl Assignment {
    /// An option of a command line: `name` set to `value` by `option` (`--net`, `--set`).
    pub fn option(option: &str, name: &str, value: &str) -> Assignment {
        Assignment {
            name: name.to_owned(),
            value: value.to_owned(),
            origin: Origin::Option(option.to_owned()),
        }
    }
}
