//! IPv4: where packets go, their headers, and what arrives.
//!
//! | file | job |
//! |---|---|
//! | `path.rs` | [`Path`]: a destination with everything cached to reach it |
//! | `output.rs` | headers written, frames handed to a link |

mod output;
mod path;

pub use output::{Ip, Packet, Resolution};
pub use path::{LinkHeader, NoRoute, Path};
