//! What a comparison says.
//!
//! * [`json`] is `gannet/compare/1`
//! * [`table`]: the same for people
//! * [`wire`]: the marks over an impaired wire
//! * [`marks`]: the marks to reach, and whether they are

pub mod json;
pub mod marks;
pub mod table;
pub mod wire;
