//! Connections that are being opened while their way is still being made: a host can begin one to
//! a peer whose link does not exist yet. Until the first SYN was answered nothing of a connection
//! depends on its link, so it can begin anew over another.

use gannet_base::Instant;
use gannet_link::Driver;

use super::connection::State;
use super::engine::Tcp;
use super::error::TcpError;
use super::handshake::{self, Opening};
use super::socket::TcpId;
use crate::ip::{Ip, Path};

impl Tcp {
    /// A link to the peer of a connection in SYN-SENT has come: the SYN leaves anew, by the best
    /// link there is. Whether it was in that state, and a link leads there.
    pub fn start_over<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: TcpId) -> bool {
        let mut started = false;
        if self.table.get(id).is_none() {
            return started;
        }
        self.with(ip, now, id.index, |conn, cx| {
            let State::SynSent(opening) = &mut conn.state else {
                return;
            };
            // Data that would go with the SYN lies in the memory of the link that was.
            if opening.early.is_some() {
                return;
            }
            let old = conn.path;
            let Ok(new) = cx.ip.path(Some(old.source), old.destination) else {
                return;
            };
            conn.path = Path {
                ttl: old.ttl,
                tos: old.tos,
                flow_label: old.flow_label,
                ..new
            };
            conn.state = State::SynSent(Opening::active(cx, conn));
            handshake::send_syn(conn, cx);
            started = true;
        });
        started
    }

    /// No link to the peer of a connection in SYN-SENT will come: it fails for this reason.
    pub fn give_up<D: Driver>(&mut self, ip: &mut Ip<D>, now: Instant, id: TcpId, error: TcpError) {
        if self.table.get(id).is_none() {
            return;
        }
        self.with(ip, now, id.index, |conn, cx| {
            if matches!(conn.state, State::SynSent(_)) {
                conn.fail(cx.ip, Some(error));
            }
        });
    }
}
