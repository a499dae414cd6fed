//! What the machine itself can do between two processes: the floor and the ceiling for every stack.
//!
//! * [`cache_line`]: one cache line to the other core and back
//! * [`ring`]: copy into shared memory on one core, copy out on the other
//! * [`sys`]: shared memory and system calls; the only `unsafe`

pub mod cache_line;
mod memory;
pub mod ring;
pub mod sys;
mod wait;

pub use memory::memory_file;
