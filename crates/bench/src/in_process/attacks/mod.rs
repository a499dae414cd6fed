//! What hostile packets cost: a host that gets one crafted packet after the other, against the same
//! host that gets ordinary ones.
//!
//! * `device.rs`: an interface that holds one packet
//! * `victim.rs`: a host behind it, and who writes its packets
//! * `kinds.rs`: what is sent: ordinary and hostile, packet by packet
//! * `measure.rs`: instructions and processor time of one packet, and the ratios

mod device;
mod kinds;
mod measure;
mod victim;

pub use kinds::Kind;
pub use measure::{Cost, Row, count, run};
