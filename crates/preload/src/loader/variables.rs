//! The variables that say to the loader which file to load, and for a script as what the program
//! was executed. The program sees them, as it sees the library's others.

use std::ffi::CStr;

/// The file.
pub(super) const FILE: &str = "GANNET_LOAD=";
/// The name, where it is another one.
pub(super) const NAME: &str = "GANNET_LOAD_NAME=";

/// Whether a string of an environment is such a variable.
pub(crate) fn is_variable(text: &CStr) -> bool {
    let text = text.to_bytes();
    text.starts_with(FILE.as_bytes()) || text.starts_with(NAME.as_bytes())
}
