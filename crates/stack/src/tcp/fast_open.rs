//! TCP Fast Open (RFC 7413): data in the SYN of a client that has been here before.
//!
//! ```text
//!   first time   SYN, cookie? -->            later   SYN, cookie, data -->  read at once
//!                <-- SYN-ACK, cookie                 <-- SYN-ACK of SYN and data
//!                ACK, data -->                       <-- what the server answers
//!                                                    ACK -->
//! ```
//! | file | job |
//! |---|---|
//! | `cookie.rs` | cookies: made and checked |
//! | `server.rs` | open before the handshake ends |
//! | `client.rs` | data that goes with the SYN, or after it |
//! | `servers.rs` | what a client knows about servers: cookies, and who is not to be tried |

mod client;
mod cookie;
mod server;
mod servers;

pub(super) use client::{Early, News, doubts, news, prepare};
pub(super) use server::{FastOpened, Pending, arrives_before_ack, expired};
pub(super) use servers::Servers;
