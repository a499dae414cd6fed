//! Settings as text: one table of what can be set, and where each value came from.
//!
//! Sources in rising precedence: the built-in default, a profile, a file, the environment, options
//! of a command line. All of them become a list of assignments; the last one of a name counts, and
//! is remembered together with its place, so that `gannet config show` can say who decided.
//!
//! This code runs in other people's processes: it needs nothing but the standard library, every
//! text is bounded, and nothing in one can make it panic.
//!
//! | file | job |
//! |---|---|
//! | `knob.rs` | the name of each setting in code; what a row of the table says |
//! | `table.rs` | the table: name, kind and range, default, description, source |
//! | `value.rs` | values as text and as numbers |
//! | `assignment.rs` | a name, a value and its origin |
//! | `file.rs` | a file of settings: a subset of TOML |
//! | `environment.rs` | variables, and which files they lead to |
//! | `profile.rs` | named sets of values, each with its reason |
//! | `loaded.rs` | everything put together: [`Settings`] |
//! | `apply.rs` | what a host is told of it |
//! | `place.rs` | link and address: where a host is |
//! | `problem.rs` | errors in three lines; the closest name |

mod apply;
mod assignment;
mod environment;
mod file;
mod knob;
mod loaded;
mod place;
mod problem;
mod profile;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use assignment::{Assignment, Origin};
pub use environment::HANDOVER;
pub use knob::{Kind, Knob, Setting};
pub use loaded::{Settings, Sources};
pub use place::{Gateway, LinkChoice, Place};
pub use problem::{SettingProblem, closest};
pub use profile::{PROFILES, Profile};
