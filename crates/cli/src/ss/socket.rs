//! One socket, as its carrier describes it: see `listing.rs` of `gannet-carrier`. A carrier may be
//! of another version: what is not known is left out.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use serde::Serialize;

use crate::printable::printable;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Its descriptor, if it can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fd: Option<u32>,
    /// As in `/proc/PID/comm`.
    pub(super) name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Socket {
    pub(super) network: String,
    /// tcp or udp.
    pub(super) kind: String,
    /// As ss names it.
    pub(super) state: String,
    pub(super) recv_q: u64,
    pub(super) send_q: u64,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) inode: u64,
    /// At a wildcard, of IPv4 and IPv6.
    #[serde(skip)]
    pub(super) both_families: bool,
    /// direct, carried or listener.
    pub(super) way: String,
    pub(super) processes: Vec<Process>,
    /// Of carried connections: microseconds, bytes, segments.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) figures: BTreeMap<String, u64>,
}

/// The sockets of all listings.
pub(super) fn read_all<'a>(listings: impl Iterator<Item = &'a str>) -> Vec<Socket> {
    let mut descriptors = Descriptors::default();
    listings
        .flat_map(|text| read(text, &mut descriptors))
        .collect()
}

/// The sockets of a listing; none when it is of another version.
fn read(listing: &str, descriptors: &mut Descriptors) -> Vec<Socket> {
    let mut lines = listing.lines();
    if lines.next() != Some("gannet-listing 1") {
        return Vec::new();
    }
    let host = lines.next().unwrap_or("");
    let network = words(host).remove("network").unwrap_or_default();
    let sockets = lines.filter(|line| line.starts_with("socket "));
    sockets
        .filter_map(|line| socket(&network, line, descriptors))
        .collect()
}

/// The words of a line that have a value.
fn words(line: &str) -> BTreeMap<String, String> {
    let pairs = line.split(' ').filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| (printable(name), printable(value)))
        .collect()
}

fn socket(network: &str, line: &str, descriptors: &mut Descriptors) -> Option<Socket> {
    let mut words = words(line);
    let mut take = |name: &str| words.remove(name).unwrap_or_default();
    let pids = take("pids");
    let inode = take("inode").parse().unwrap_or(0);
    let pids = pids.split(',').filter_map(|pid| pid.parse().ok());
    Some(Socket {
        network: network.to_owned(),
        kind: take("kind"),
        state: take("state"),
        recv_q: take("recvq").parse().unwrap_or(0),
        send_q: take("sendq").parse().unwrap_or(0),
        local: take("local").parse().ok()?,
        peer: take("peer").parse().ok()?,
        inode,
        both_families: take("both") == "yes",
        way: take("way"),
        processes: pids.map(|pid| descriptors.holder(pid, inode)).collect(),
        figures: words
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect(),
    })
}

impl Process {
    pub(super) fn of(pid: u32) -> Process {
        let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = printable(String::from_utf8_lossy(&name).trim_end());
        let fd = None;
        Process { pid, fd, name }
    }
}

/// The sockets of processes and their descriptors: each process is looked at once.
#[derive(Debug, Default)]
struct Descriptors(HashMap<u32, HashMap<u64, u32>>);

impl Descriptors {
    /// The process `pid`, with its descriptor of the socket `inode`.
    fn holder(&mut self, pid: u32, inode: u64) -> Process {
        let known = self.0.entry(pid).or_insert_with(|| sockets_of(pid));
        Process {
            fd: known.get(&inode).copied(),
            ..Process::of(pid)
        }
    }
}

fn sockets_of(pid: u32) -> HashMap<u64, u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let mut found = HashMap::new();
    for entry in entries.into_iter().flatten().flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let inode = target.to_str().and_then(|target| {
            let number = target.strip_prefix("socket:[")?.strip_suffix(']')?;
            number.parse().ok()
        });
        let fd = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let (Some(inode), Some(fd)) = (inode, fd) {
            let lowest: &mut u32 = found.entry(inode).or_insert(fd);
            *lowest = fd.min(*lowest);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_listing_is_read_and_another_version_is_not() {
        let text = "gannet-listing 1\n\
            host number=0000000000000007 network=n carrier=9 connections=1 dropped=0\n\
            socket kind=tcp state=LISTEN recvq=0 sendq=0 local=0.0.0.0:80 peer=0.0.0.0:0 inode=5 \
            pids= way=listener\n\
            socket kind=tcp state=ESTAB recvq=1 sendq=2 local=[fd00::1]:80 peer=[fd00::2]:9 \
            inode=6 pids=0 way=carried rtt=123 cwnd=14600\n\
            socket nonsense\n";
        let all = read_all([text].into_iter());
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].state.as_str(), all[0].network.as_str()),
            ("LISTEN", "n")
        );
        assert_eq!((all[1].recv_q, all[1].send_q), (1, 2));
        assert_eq!(all[1].figures.get("rtt"), Some(&123));
        assert_eq!(all[1].processes[0].name, "", "no such process");
        let later = text.replace("listing 1", "listing 2");
        assert_eq!(read_all([&*later].into_iter()), []);
    }

    #[test]
    fn what_strangers_list_is_shown_and_not_obeyed() {
        let text = "gannet-listing 1\n\
            host number=1 network=\u{1b}[2J carrier=9\n\
            socket kind=\u{1b}c state=\u{9b}1m local=0.0.0.0:80 peer=0.0.0.0:0 \
            way=\u{7} \u{1b}=1\n";
        let [socket] = &read_all([text].into_iter())[..] else {
            panic!("one socket");
        };
        for text in [&socket.network, &socket.kind, &socket.state, &socket.way] {
            assert!(!text.contains(char::is_control), "{text:?}");
        }
        assert!(
            socket
                .figures
                .keys()
                .all(|name| !name.contains(char::is_control))
        );
        assert_eq!((&*socket.kind, &*socket.way), ("\\u{1b}c", "\\u{7}"));
    }

    #[test]
    fn a_process_is_found_with_its_descriptor() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let inode = rustix::fs::fstat(&one).unwrap().st_ino;
        let mut descriptors = Descriptors::default();
        let holder = descriptors.holder(std::process::id(), inode);
        assert_eq!(holder.fd, Some(one.as_raw_fd() as u32));
        assert_eq!(descriptors.holder(std::process::id(), u64::MAX).fd, None);
    }
}
