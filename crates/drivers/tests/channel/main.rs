//! Channels between real processes: this test program starts itself again as the other process.
//!
//! * [`support`]: starting the other process, waiting, sending and receiving.
//! * [`roles`]: what the other process does.
//! * [`meeting`]: finding each other, data both ways, simultaneous connects.

mod meeting;
mod roles;
mod support;
