//! A network of this user's processes: a directory in which every process has its address for a
//! name, and channels that are made when the first packet wants to go somewhere.

use crate::address::Prefix;
use crate::error::fail;
use crate::shard::Shard;
use crate::waiting::Shared;
use crate::{clock, dialling, driver};
use gannet_base::Instant;
use gannet_drivers::channel::{Channel, Connector, Directory, Listener, Options};
use gannet_link::Endpoint;
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// How long one look at a handshake lasts at most: the other side may need ours meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// Our place in one network.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
    pub(crate) own: Prefix,
    directory: Directory,
    listener: Listener,
    options: Options,
    /// Addresses that some thread is connecting to right now.
    connecting: Vec<IpAddr>,
}

impl Network {
    /// Takes the address `own` in the network `name`.
    pub(crate) fn join(name: &str, own: Prefix, options: Options) -> io::Result<Network> {
        let directory = Directory::open(name)?;
        let listener = Listener::bind(&directory, &own.address.to_string(), &options);
        let listener = listener.map_err(|error| taken(name, own, &error))?;
        Ok(Network {
            name: name.to_owned(),
            own,
            directory,
            listener,
            options,
            connecting: Vec::new(),
        })
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Who tells that somebody knocks.
    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The next channel that somebody else asked for, with the address of its other end.
    pub(crate) fn accept(&mut self, now: Instant) -> Option<(Endpoint<Channel>, IpAddr)> {
        // An error here means that no descriptors are left: those who knock wait.
        let end = self.listener.accept_ready(now).ok().flatten()?;
        let peer = end.driver.peer_name().parse().ok();
        match peer.filter(|&p| self.own.contains(p) && p != self.own.address) {
            Some(peer) => Some((end, peer)),
            // Not of this network's form: dropping it says goodbye. Look for another.
            None => self.accept(now),
        }
    }

    fn start(&self, peer: IpAddr, now: Instant) -> io::Result<Connector> {
        let own = self.own.address.to_string();
        Connector::start(&self.directory, &own, &peer.to_string(), &self.options, now)
    }
}

fn taken(name: &str, own: Prefix, error: &io::Error) -> io::Error {
    let what = format!("join the network {name:?} as {}", own.address);
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "a living process has this address ({error})\ntry: another address, or end that process"
        ),
        _ => error.to_string(),
    };
    let code = match error.kind() {
        io::ErrorKind::AddrInUse => libc::EADDRINUSE,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        _ => error.raw_os_error().unwrap_or(libc::EIO),
    };
    fail(code, what, why)
}

impl Shared {
    /// Makes sure that there is a channel to `to` if it is in a network of processes. Waits for the
    /// handshake, not longer than its time-out.
    pub(crate) fn reach(&self, to: IpAddr) -> io::Result<()> {
        let mut shard = self.lock();
        let Some(index) = shard.unlinked_network(to) else {
            return Ok(());
        };
        let mut now = clock::now();
        while shard.is_connecting(index, to) {
            drop(shard);
            std::thread::sleep(Duration::from_micros(200));
            shard = self.lock();
            // What connections wait for and no call, goes on only so.
            shard.turn_with_look(clock::now());
            if shard.unlinked_network(to).is_none() {
                return Ok(());
            }
        }
        let connector = shard.start_connecting(index, to, now);
        drop(shard);
        let mut connector = connector?;
        let result = loop {
            now = clock::now();
            match connector.progress(now) {
                Ok(None) => {}
                Ok(Some(end)) => break Ok(end),
                Err(error) => break Err(unreachable(to, &error)),
            }
            // The other side may be connecting to us at the same time, and wait for our answer.
            self.lock().turn_with_look(now);
            let left = (connector.next_deadline() - now).min(LOOK);
            let mut fds = [
                PollFd::new(&connector, PollFlags::IN),
                PollFd::from_borrowed_fd(self.watch.as_fd(), PollFlags::IN),
            ];
            // Interrupted or not: look again.
            let _ = poll(&mut fds, Some(&clock::timespec(left)));
        };
        let mut shard = self.lock();
        shard.connecting_ends(index, to);
        let added = result.and_then(|end| {
            let end = driver::any(end, driver::AnyDriver::Channel);
            shard.add_channel(index, end, to)
        });
        shard.dialled(to, added.as_ref().err().map(dialling::reason), now);
        added
    }
}

impl Shard {
    pub(crate) fn is_connecting(&self, index: usize, to: IpAddr) -> bool {
        let network = self.networks.get(index);
        network.is_some_and(|n| n.connecting.contains(&to))
    }

    pub(crate) fn start_connecting(
        &mut self,
        index: usize,
        to: IpAddr,
        now: Instant,
    ) -> io::Result<Connector> {
        let network = self.networks.get_mut(index);
        let network = network.ok_or_else(|| fail(libc::ENETUNREACH, format!("reach {to}"), "-"))?;
        let started = network.start(to, now).map_err(|e| unreachable(to, &e))?;
        network.connecting.push(to);
        Ok(started)
    }

    pub(crate) fn connecting_ends(&mut self, index: usize, to: IpAddr) {
        if let Some(network) = self.networks.get_mut(index) {
            network.connecting.retain(|&a| a != to);
        }
    }
}

fn unreachable(to: IpAddr, error: &io::Error) -> io::Error {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        _ => error.raw_os_error().unwrap_or(libc::EHOSTUNREACH),
    };
    fail(code, format!("reach {to}"), error.to_string())
}
