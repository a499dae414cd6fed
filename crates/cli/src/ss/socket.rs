//! One socket, as its carrier describes it: see `listing.rs` of `gannet-carrier`. A carrier may be
//! of another version: what is not known is left out.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

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

/// The sockets of a listing; none when it is of another version.
pub(super) fn read(listing: &str) -> Vec<Socket> {
    let mut lines = listing.lines();
    if lines.next() != Some("gannet-listing 1") {
        return Vec::new();
    }
    let host = lines.next().unwrap_or("");
    let network = words(host).remove("network").unwrap_or_default();
    let sockets = lines.filter(|line| line.starts_with("socket "));
    sockets.filter_map(|line| socket(&network, line)).collect()
}

/// The words of a line that have a value.
fn words(line: &str) -> BTreeMap<String, String> {
    let pairs = line.split(' ').filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn socket(network: &str, line: &str) -> Option<Socket> {
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
        processes: pids.map(|pid| Process::with_socket(pid, inode)).collect(),
        figures: words
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect(),
    })
}

impl Process {
    pub(super) fn of(pid: u32) -> Process {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = name.trim_end().to_owned();
        let fd = None;
        Process { pid, fd, name }
    }

    /// The one that has the socket `inode`.
    fn with_socket(pid: u32, inode: u64) -> Process {
        let target = format!("socket:[{inode}]");
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
        let mut entries = entries.into_iter().flatten().flatten();
        let is_it = |path| std::fs::read_link(path).is_ok_and(|to| to.as_os_str() == &*target);
        let found = entries.find(|entry| inode != 0 && is_it(entry.path()));
        Process {
            fd: found.and_then(|entry| entry.file_name().to_str()?.parse().ok()),
            ..Process::of(pid)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_and_another_version_is_not() {
        let text = "gannet-listing 1\n\
            host number=0000000000000007 network=n carrier=9 connections=1 dropped=0\n\
            socket kind=tcp state=LISTEN recvq=0 sendq=0 local=0.0.0.0:80 peer=0.0.0.0:0 inode=5 \
            pids= way=listener\n\
            socket kind=tcp state=ESTAB recvq=1 sendq=2 local=[fd00::1]:80 peer=[fd00::2]:9 \
            inode=6 pids=0 way=carried rtt=123 cwnd=14600\n\
            socket nonsense\n";
        let all = read(text);
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].state.as_str(), all[0].network.as_str()),
            ("LISTEN", "n")
        );
        assert_eq!((all[1].recv_q, all[1].send_q), (1, 2));
        assert_eq!(all[1].figures.get("rtt"), Some(&123));
        assert_eq!(all[1].processes[0].name, "", "no such process");
        assert_eq!(read(&text.replace("listing 1", "listing 2")), []);
    }
}
