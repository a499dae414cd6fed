//! The conversations, written once against the traits of [`crate::peer`].
//!
//! * [`tcp_stream`], [`tcp_round_trip`], [`udp_stream`], [`udp_round_trip`]
//! * [`tcp_flow`]: a stream that is cut off when its seconds are over
//! * [`tcp_idle`]: connections that carry nothing
//! * `clock`: what is measured, and when

mod clock;
pub mod tcp_flow;
pub mod tcp_idle;
pub mod tcp_round_trip;
pub mod tcp_stream;
mod times;
pub mod udp_round_trip;
pub mod udp_stream;

pub use clock::{Clock, cpu_seconds};
pub use times::Times;
