//! The private directory in which the processes of one user meet, and everything below it.
//!
//! * `private.rs`: found, entered, checked and locked
//!
//! ```text
//! $XDG_RUNTIME_DIR/gannet     when that is a directory of this user's, closed to others
//! /run/gannet                 root
//! /run/user/UID/gannet
//! $HOME/.gannet
//! TMP/gannet-UID              last: any user can make it first, which is refused then
//! ```
//! Every directory from the base on is opened without following links, then checked through its
//! descriptor: a directory, of this user, mode 0700. No other user can place a name in it, remove
//! one, or connect to one.
#![forbid(unsafe_code)]

mod private;

pub use private::{
    Locked, Private, TRIES_MAX, enter, give_way, lock, open, open_base, open_checked,
};
