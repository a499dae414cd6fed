//! Words of the command line for the things of the benchmarks.

use clap::ValueEnum;
use gannet_bench::role;
use gannet_bench::run::plan;

/// What joins the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Link {
    /// Two processes of this machine
    Channel,
    /// Two network namespaces with a virtual Ethernet between them (needs root)
    Veth,
    /// Both ends in one process, against another library
    InProcess,
}

impl From<Link> for plan::Link {
    fn from(link: Link) -> Self {
        match link {
            Link::Channel => Self::Channel,
            Link::Veth => Self::Veth,
            Link::InProcess => Self::InProcess,
        }
    }
}

/// The conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// One way, as fast as it goes
    TcpStream,
    /// One request and its answer at a time
    TcpRoundTrip,
    /// Datagrams one way
    UdpStream,
    /// One datagram and its answer at a time
    UdpRoundTrip,
}

impl From<Workload> for role::Workload {
    fn from(workload: Workload) -> Self {
        match workload {
            Workload::TcpStream => Self::TcpStream,
            Workload::TcpRoundTrip => Self::TcpRoundTrip,
            Workload::UdpStream => Self::UdpStream,
            Workload::UdpRoundTrip => Self::UdpRoundTrip,
        }
    }
}

/// The contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// Kernel sockets, blocking
    Kernel,
    /// Kernel sockets, never sleeping
    KernelBusy,
    /// Kernel sockets, datagrams in batches
    KernelBatch,
    /// smoltcp, both ends in one process
    Smoltcp,
    /// The raw ring or the cache-line round trip
    Limit,
    /// Gannet
    Gannet,
}

impl From<Peer> for plan::Contender {
    fn from(peer: Peer) -> Self {
        match peer {
            Peer::Kernel => Self::Kernel,
            Peer::KernelBusy => Self::KernelBusy,
            Peer::KernelBatch => Self::KernelBatch,
            Peer::Smoltcp => Self::Smoltcp,
            Peer::Limit => Self::Limit,
            Peer::Gannet => Self::Gannet,
        }
    }
}

/// All of them when none is chosen.
pub(crate) fn or_all<T: ValueEnum + Clone, U: From<T>>(chosen: &[T]) -> Vec<U> {
    let chosen = if chosen.is_empty() {
        T::value_variants()
    } else {
        chosen
    };
    chosen.iter().cloned().map(U::from).collect()
}

/// A size in bytes: `64`, `16K`, `1M`. At least one byte, at most 16 MiB.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let bad = || "a size is a number from 1 to 16M, with K (1024) or M (1024 K) if you like";
    let upper = text.trim().to_ascii_uppercase();
    let (digits, unit) = match upper.trim_end_matches("IB").trim_end_matches('B') {
        rest if rest.ends_with('K') => (rest.trim_end_matches('K'), 1 << 10),
        rest if rest.ends_with('M') => (rest.trim_end_matches('M'), 1 << 20),
        rest => (rest, 1),
    };
    let number: usize = digits.trim().parse().map_err(|_| bad())?;
    let bytes = number.checked_mul(unit).ok_or_else(bad)?;
    if (1..=16 << 20).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(bad().to_owned())
    }
}

/// Seconds of one run.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "this is not a number of seconds")?;
    let fits = (0.01..=600.0).contains(&seconds);
    if fits {
        Ok(seconds)
    } else {
        Err("a run takes from 0.01 to 600 seconds".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [
            ("1", 1),
            ("64", 64),
            ("16K", 16_384),
            ("64k", 65_536),
            ("1M", 1 << 20),
        ];
        for (text, bytes) in good {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert_eq!(size("128 KiB"), Ok(131_072));
        for text in [
            "",
            "0",
            "K",
            "-1",
            "17M",
            "1G",
            "1.5K",
            "99999999999999999999",
            "9999999999999M",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn run_times() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for text in ["0", "-1", "nan", "inf", "601", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
