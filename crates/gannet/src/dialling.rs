//! Channels that are made while no call waits for them. A connection that was begun without waiting
//! ([`crate::Connect::begin`]) sends its SYN into the network as a whole, where nobody hears it;
//! meanwhile the event loop makes the channel, and then the connection starts over.

use crate::driver::{self, AnyDriver};
use crate::shard::Shard;
use crate::watch::Signal;
use gannet_base::Instant;
use gannet_drivers::channel::Connector;
use gannet_stack::tcp::{TcpError, TcpId};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// One channel in the making.
#[derive(Debug)]
pub(crate) struct Dialling {
    network: usize,
    to: IpAddr,
    /// `None`: a call is making the channel.
    connector: Option<Connector>,
    /// Connections that start over when it is there.
    waiting: Vec<TcpId>,
}

impl Dialling {
    /// When to look at it even if nothing arrived.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.connector.as_ref().map(Connector::next_deadline)
    }
}

/// Why connections fail for which there is no channel.
pub(crate) fn reason(error: &io::Error) -> TcpError {
    match error.kind() {
        io::ErrorKind::TimedOut => TcpError::TimedOut,
        _ => TcpError::HostUnreachable,
    }
}

impl Shard {
    /// Begins to make the channel that `id`, a connection to `to`, needs, if it needs one.
    pub(crate) fn dial(&mut self, id: TcpId, to: IpAddr, now: Instant) -> io::Result<()> {
        let Some(network) = self.unlinked_network(to) else {
            return Ok(());
        };
        if let Some(dialling) = self.dialling.iter_mut().find(|d| d.to == to) {
            dialling.waiting.push(id);
            return Ok(());
        }
        let connector = match self.is_connecting(network, to) {
            true => None,
            false => Some(self.start_connecting(network, to, now)?),
        };
        if let Some(connector) = &connector {
            let watched = self.watch.add(connector.as_fd(), Signal::Dial);
            if let Err(error) = watched {
                self.connecting_ends(network, to);
                return Err(error);
            }
        }
        self.dialling.push(Dialling {
            network,
            to,
            connector,
            waiting: vec![id],
        });
        // Whoever sleeps knows nothing of its deadline.
        self.waiting.kick_leader(&self.watch);
        Ok(())
    }

    /// Looks whether any channel has come, or will not.
    #[inline]
    pub(crate) fn go_on_dialling(&mut self, now: Instant) {
        if !self.dialling.is_empty() {
            self.look_at_dialling(now);
        }
    }

    #[cold]
    fn look_at_dialling(&mut self, now: Instant) {
        let mut over = Vec::new();
        for dialling in &mut self.dialling {
            let Some(connector) = &mut dialling.connector else {
                continue;
            };
            match connector.progress(now) {
                Ok(None) => {}
                Ok(Some(end)) => over.push((dialling.network, dialling.to, Ok(end))),
                Err(error) => over.push((dialling.network, dialling.to, Err(reason(&error)))),
            }
        }
        for (network, to, end) in over {
            self.connecting_ends(network, to);
            let failed = match end {
                Ok(end) => {
                    let end = driver::any(end, AnyDriver::Channel);
                    // The channel watches the same descriptor for its own reasons.
                    if let Some(fd) = end.driver.hang_up_fd() {
                        self.watch.remove(fd);
                    }
                    let added = self.add_channel(network, end, to);
                    added.err().map(|error| reason(&error))
                }
                Err(reason) => Some(reason),
            };
            self.dialled(to, failed, now);
        }
    }

    /// The channel to `to` is there, or will not come for this reason: tells who waits for it.
    pub(crate) fn dialled(&mut self, to: IpAddr, failed: Option<TcpError>, now: Instant) {
        let Some(at) = self.dialling.iter().position(|d| d.to == to) else {
            return;
        };
        for id in self.dialling.swap_remove(at).waiting {
            match failed {
                None => {
                    if !self.stack.tcp_start_over(now, id) {
                        self.stack.tcp_give_up(now, id, TcpError::HostUnreachable);
                    }
                }
                Some(error) => self.stack.tcp_give_up(now, id, error),
            }
        }
        // Who waits for them hears of it at the end of this turn, or of the call.
        self.tell_ready();
    }
}
