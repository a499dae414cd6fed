//! What a check is: a named piece of a program's work that either happens or does not.

use crate::mode::Mode;
use crate::stage::Stage;

/// A program of Debian, or a language of which Debian has the interpreter or compiler.
pub(crate) struct Program {
    /// Its name in the matrix and on the command line.
    pub(crate) name: &'static str,
    /// The command that prints its version.
    pub(crate) version: &'static [&'static str],
    /// What must be on the machine: (file or program on the path, package that holds it).
    pub(crate) needs: &'static [(&'static str, &'static str)],
    /// What is checked, in order.
    pub(crate) cases: &'static [Case],
}

/// One check.
pub(crate) struct Case {
    /// Its name in the matrix.
    pub(crate) name: &'static str,
    /// Seconds after which it hangs.
    pub(crate) limit: u64,
    /// Where it means something.
    pub(crate) modes: &'static [Mode],
    /// The check: a remark, or what went wrong.
    pub(crate) run: fn(&Stage) -> Checked,
}

impl Case {
    /// A check of every mode.
    pub(crate) const fn new(name: &'static str, limit: u64, run: fn(&Stage) -> Checked) -> Self {
        Self {
            name,
            limit,
            modes: &Mode::ALL,
            run,
        }
    }

    /// A check that means something in some modes only.
    pub(crate) const fn only(self, modes: &'static [Mode]) -> Self {
        Self { modes, ..self }
    }
}

/// What a check finds: a remark for the matrix (often empty), or why not.
pub(crate) type Checked = Result<String, Fault>;

/// Why a check did not come out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It ran and something was wrong.
    Failed(String),
    /// It could not run here.
    LeftOut(String),
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Fault::Failed(reason)
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Fault::Failed(reason.to_owned())
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Fault::Failed(error.to_string())
    }
}

/// Nothing to remark.
pub(crate) fn fine() -> Checked {
    Ok(String::new())
}

/// A failure with this reason unless `held`.
pub(crate) fn expect(held: bool, reason: impl FnOnce() -> String) -> Result<(), Fault> {
    match held {
        true => Ok(()),
        false => Err(Fault::Failed(reason())),
    }
}
