//! Tests of whole connections. Crafted segments go into a [`crate::Stack`], what it sends is read
//! back; or two stacks talk in virtual time. Tables are named after the sections of the RFCs.
//!
//! | file | what |
//! |---|---|
//! | `peer.rs` | the harness: one stack, and the tests as its peer |

mod peer;

mod close;
mod closed;
mod icmp;
mod keep_alive;
mod listen;
mod recovery;
mod retransmit;
mod syn_received;
mod syn_sent;
mod synchronised;
mod time_wait;
mod urgent;
mod windows;
mod zero_copy;
