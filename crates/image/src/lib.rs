//! What the beginning of an executable file says: the memory that a static program wants, or the
//! interpreter of a script. Pure functions of bytes that may be damaged or hostile.
//!
//! * `segments.rs`: the ELF headers of a static program, checked
//! * `script.rs`: the first line of a script, as the kernel reads it
#![forbid(unsafe_code)]

mod script;
mod segments;

pub use script::{Script, script};
pub use segments::{Image, Refusal, SEGMENTS_MAX, Segment};

/// Bytes at the beginning of a file that hold all that is read of it.
pub const HEAD: usize = 4096;
