//! Passive observers: they parse what every host sends and gets, and know RFC 9293's rules of what
//! may be said. What a host was handed and then lost for lack of memory counts as handed, so every
//! rule is of the form "not more than it can know".
//!
//! * [`watch`]: [`Judge`]: who watches.
//! * [`numbers`]: sequence numbers without the wrap; ranges of them.
//! * [`side`]: what is known of one end of one connection.
//! * [`sent`]: the rules for what it sends.
//! * [`silence`]: the rules for when it had better say nothing.
//! * [`held`]: what it holds back without a reason.
//! * [`delivered`]: what it learns.
//! * [`window`]: what a loss does to its congestion window.
//! * [`routers`]: what a router tells it.
//! * [`naive`]: the plainest reading of packets, to compare with what a host makes of them.

pub mod delivered;
pub mod held;
pub mod naive;
pub mod numbers;
pub mod routers;
pub mod sent;
pub mod side;
pub mod silence;
pub mod watch;
pub mod window;

pub use watch::Judge;
