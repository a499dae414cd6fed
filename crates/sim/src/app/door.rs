//! Listeners and callers: where connections begin.

use std::net::SocketAddr;

use gannet_base::Instant;
use gannet_stack::tcp::{ConnectError, ListenerId};

use super::cx::{Cx, LATER};
use super::plan::Talk;
use super::talker::Talker;
use crate::address;

/// Connections that may wait to be accepted.
const BACKLOG: usize = 16;

/// A listener of a conversation.
#[derive(Debug)]
pub struct Door {
    /// Which conversation.
    pub talk: usize,
    /// The socket.
    pub id: ListenerId,
    /// There may be somebody.
    pub awake: bool,
}

impl Door {
    /// Listens for a conversation.
    pub fn open(cx: &mut Cx<'_>, talk: usize, plan: &Talk) -> Option<Door> {
        let local = plan.family.any(plan.port);
        match cx.stack.tcp_listen(local, BACKLOG) {
            Ok(id) => Some(Door {
                talk,
                id,
                awake: true,
            }),
            Err(error) => {
                cx.ledger.fail(format!("cannot listen: {error:?}"));
                None
            }
        }
    }

    /// Accepts whoever waits.
    pub fn step(&mut self, cx: &mut Cx<'_>, plan: &Talk, talkers: &mut Vec<Talker>) -> bool {
        let mut any = false;
        while let (true, Some(id)) = (self.awake, cx.stack.tcp_accept(self.id)) {
            any = true;
            let Some((local, remote)) = cx.stack.tcp_addresses(id) else {
                cx.ledger
                    .fail("an accepted connection without addresses".to_owned());
                continue;
            };

            let Some(conn) = cx.ledger.accept([remote, local]) else {
                // a SYN that was delayed beyond its connection's life opens one that nobody wants
                cx.stack.tcp_abort(cx.host_now, id);
                continue;
            };
            let side = plan.down.clone();
            talkers.push(Talker::new(cx, (conn, 1), id, (local, remote), side));
        }
        self.awake = false;
        any
    }
}

/// The caller of a conversation.
#[derive(Debug)]
pub struct Caller {
    /// Which conversation.
    pub talk: usize,
    /// Connections still to be made.
    pub left: u32,
    /// Not before.
    pub at: Instant,
}

impl Caller {
    /// Connects, if it is time and nobody of the conversation talks.
    pub fn step(
        &mut self,
        cx: &mut Cx<'_>,
        (plan, server): (&Talk, address::Host),
        talkers: &mut Vec<Talker>,
    ) -> bool {
        if self.left == 0 || cx.now < self.at {
            return false;
        }
        let talk = self.talk;
        let ledger = &cx.ledger;
        let busy = talkers.iter().any(|talker| {
            let same = ledger
                .conns
                .get(talker.conn)
                .is_some_and(|c| c.talk == talk);
            talker.end == 0 && talker.over.is_none() && same
        });
        if busy {
            return false;
        }
        if cx.is_unsettled(plan.family) {
            self.at = cx.now + LATER;
            return false;
        }
        let remote = SocketAddr::new(server, plan.port);
        let local = plan.client_port.map(|port| plan.family.any(port));
        let id = match cx.stack.tcp_connect(cx.host_now, local, remote) {
            Ok(id) => id,
            Err(ConnectError::AddressInUse) => {
                self.at = cx.now + LATER;
                return false;
            }
            Err(error) => {
                cx.ledger.fail(format!("cannot connect: {error:?}"));
                self.left = 0;
                return true;
            }
        };
        self.left -= 1;
        if let Some((local, remote)) = cx.stack.tcp_addresses(id) {
            let no_delay = [plan.up.no_delay, plan.down.no_delay];
            let conn = cx.ledger.begin(talk, [local, remote], no_delay);
            let side = plan.up.clone();
            talkers.push(Talker::new(cx, (conn, 0), id, (local, remote), side));
        }
        true
    }
}
