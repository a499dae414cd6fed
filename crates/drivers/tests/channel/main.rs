//! Channels between real processes: this test program starts itself again as the other process.
//!
//! * [`support`]: starting the other process, waiting, sending and receiving.
//! * [`roles`]: what the other process does.
//! * [`meeting`]: finding each other, data both ways, simultaneous connects.
//! * [`death`]: SIGKILL at any moment, and what is left.
//! * [`abuse`]: handshakes that break the rules.
//! * [`hostile`]: peers that turn bad after the handshake.
//! * [`raw`]: a side that keeps to no rule.

mod abuse;
mod death;
mod hostile;
mod meeting;
mod raw;
mod roles;
mod support;
