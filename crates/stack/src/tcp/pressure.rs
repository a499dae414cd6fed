//! What happens when a link's memory runs short: everybody may go on, nobody may hold much.
//!
//! A connection's receive buffer is a promise, not memory: thousands of them may promise more than
//! a link's segment has. Unread and out-of-order bytes of a few readers that have stopped would
//! then take the blocks that every other connection's segments arrive in. So, as Linux does with
//! `tcp_mem`: when memory is short, windows stop opening beyond what a lively reader needs, and
//! when it is all but gone, what arrived out of order is let go; the peer sends it again (RFC 2018
//! section 8 allows that). What has been promised is still taken: the right edge never moves back.

use gannet_link::{Driver, Pool};

use super::connection::State;
use super::counters::TcpEvent;
use super::engine::Tcp;
use crate::ip::Ip;
use crate::link::{LinkId, Pressure};

impl Tcp {
    /// Looks at the memory of the link at `index`, and tells its connections when that has changed.
    #[inline]
    pub(crate) fn look_at_memory<D: Driver>(&mut self, ip: &mut Ip<D>, index: usize) {
        let Some((id, link)) = ip.links.at_mut(index) else {
            return;
        };
        // (on a channel what arrives lies in the peer's memory)
        let now = Pressure::of(&link.endpoint.pool, link.pressure);
        if now != link.pressure && link.config.peer.is_none() {
            link.pressure = now;
            self.tell(ip, id, now);
        }
    }

    #[cold]
    fn tell<D: Driver>(&mut self, ip: &mut Ip<D>, link: LinkId, pressure: Pressure) {
        let Some(endpoint) = ip.endpoint(link) else {
            return;
        };
        let connections = self.on_link(link);
        let share = share(&endpoint.pool, pressure, connections.len());
        for index in connections {
            let Some(entry) = self.table.at_mut(index) else {
                continue;
            };
            let open = match &mut entry.conn.state {
                State::Open(open) => open,
                State::Dormant(dormant) => {
                    dormant.share = share;
                    continue;
                }
                _ => continue,
            };
            open.recv.share = share;
            if pressure == Pressure::Critical && !open.recv.assembler.is_empty() {
                open.recv.let_go_of_islands(endpoint);
                self.counters.add(TcpEvent::Pruned);
            }
            let reopens = open.recv.shut && !open.recv.refuses_text();
            if reopens {
                open.recv.ack_now();
            }
            open.refresh();
            if reopens {
                self.owe(index);
            }
        }
    }
}

/// What each of so many connections may hold: together no more than the quarter that is left when
/// memory becomes short; nothing unread at all when it is all but gone.
fn share(pool: &Pool, pressure: Pressure, connections: usize) -> u32 {
    let quarter = pool.blocks() / 4 * pool.block_bytes() as usize;
    match pressure {
        Pressure::None => u32::MAX,
        Pressure::Short => (quarter / connections.max(1)).min(1 << 30) as u32,
        Pressure::Critical => 0,
    }
}
