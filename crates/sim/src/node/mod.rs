//! What frames pass through, and where they come from and end.
//!
//! * [`host`]: [`Host`]: a stack, its clock, its processes.
//! * [`wrap`]: clocks that make numbers pass 2^32.
//! * [`switch`]: [`Switch`]: learns who is where.
//! * [`router`]: [`Router`]: forwards packets between networks.

pub mod host;
pub mod router;
pub mod switch;
pub mod wrap;

pub use host::Host;
pub use router::Router;
pub use switch::Switch;
