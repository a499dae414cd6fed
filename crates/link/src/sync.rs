//! The atomics of this crate. Under loom they are loom's, so that its model checker can run every
//! interleaving of the same source.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
