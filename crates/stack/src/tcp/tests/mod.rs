//! Tests of whole connections. Crafted segments go into a [`crate::Stack`], what it sends is read
//! back; or two stacks talk in virtual time. Tables are named after the sections of the RFCs.
//!
//! | file | what |
//! |---|---|
//! | `bottleneck.rs`, `paced.rs`, `bbr.rs` | congestion controls on one slow place |
//! | `flow.rs` | a peer that acknowledges after a round trip |
//! | `peer.rs` | the harness: one stack, and the tests as its peer |
//! | `partial_answers.rs` | recoveries that last more than one answer |
//! | `recorder.rs` | a driver that keeps every slot |
//! | `resent.rs` | how soon one may be sent again what was sent again before |
//! | `transfer.rs` | the harness for two stacks: a stream each way, and what must always hold |

mod bbr;
mod black_hole;
mod flow;
mod marks;
mod mtu_search;
mod peer;
mod recorder;
mod resent;
mod transfer;

mod attack;
mod bottleneck;
mod close;
mod closed;
mod configured;
mod d_sack;
mod dormant;
mod fast_open;
mod icmp;
mod keep_alive;
mod limits;
mod listen;
mod loss;
mod paced;
mod partial_answers;
mod rack_tlp;
mod random_loss;
mod recovery;
mod retransmit;
mod rfc_9293;
mod robustness;
mod scale;
mod scans;
mod silent_neighbour;
mod sizes;
mod spurious;
mod straight_line;
mod syn_flood;
mod syn_received;
mod syn_sent;
mod synchronised;
mod time_wait;
mod unresolved;
mod unsent;
mod urgent;
mod user_timeout;
mod windows;
mod zero_copy;
