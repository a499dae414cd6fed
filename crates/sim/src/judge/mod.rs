//! Passive observers: they parse what every host sends and gets, and know RFC 9293's rules of what
//! may be said. What a host was handed and then lost for lack of memory counts as handed, so every
//! rule is of the form "not more than it can know".
//!
//! * [`watch`]: [`Judge`]: who watches.
//! * [`numbers`]: sequence numbers without the wrap; ranges of them.
//! * [`side`]: what is known of one end of one connection.
//! * [`sent`]: the rules for what it sends.
//! * [`delivered`]: what it learns.

pub mod delivered;
pub mod numbers;
pub mod sent;
pub mod side;
pub mod watch;

pub use watch::Judge;
