//! ICMP (RFC 792, RFC 1122 section 3.2.2): echo answered, errors sent and understood.
//!
//! Not here: redirects, source quench (RFC 6633), time stamp, address mask and information
//! requests; all are ignored and counted. What an error means to a connection is TCP's and UDP's
//! business.
//!
//! | file | job |
//! |---|---|
//! | `input.rs` | messages that arrive: requests answered, errors turned into a [`Report`] |
//! | `echo.rs` | the echo server |
//! | `error.rs` | errors that we send |
//! | `v6.rs` | the same for IPv6 |
//! | `limit.rs` | how many of them |

mod echo;
mod error;
mod input;
mod limit;
mod v6;

pub use input::{Icmp, Report, ReportKind};

#[cfg(test)]
mod tests;
