//! The name of each setting in code, and what the table says about one.

use super::table::TABLE;

/// A setting, by its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Knob {
    /// The name of the network that is joined.
    Network,
    /// This host's address in it.
    Address,
    /// What the host is attached to.
    Link,
    /// What leads to everything else.
    Gateway,
    /// The largest packet of links that are made.
    Mtu,
    /// The ring of a direct stream.
    StreamBuffer,
    /// Most streams of a program.
    Streams,
    /// How long a waiting call spins.
    Spin,
    /// Congestion control.
    Congestion,
    /// Sending at a rate.
    Pacing,
    /// Explicit congestion notification.
    Ecn,
    /// Time stamps.
    Timestamps,
    /// Selective acknowledgements.
    Sack,
    /// Windows beyond 64 KiB.
    WindowScaling,
    /// Nagle's algorithm off.
    NoDelay,
    /// Send buffer at first.
    SendBuffer,
    /// Limit of its growth.
    SendBufferMax,
    /// Receive buffer at first.
    ReceiveBuffer,
    /// Limit of its growth.
    ReceiveBufferMax,
    /// Segments before the first acknowledgement.
    InitialWindow,
    /// Largest segment.
    MaxSegment,
    /// Search for the path's MTU.
    MtuProbing,
    /// First retransmission time-out.
    InitialRto,
    /// Least retransmission time-out.
    MinRto,
    /// How long an acknowledgement waits.
    DelayedAck,
    /// Retransmissions of a SYN.
    SynRetries,
    /// Retransmissions of a SYN-ACK.
    SynAckRetries,
    /// Retransmissions of data.
    DataRetries,
    /// SYN cookies.
    SynCookies,
    /// Half-open connections of a listener.
    SynBacklog,
    /// TIME-WAIT.
    TimeWait,
    /// FIN-WAIT-2 of orphans.
    FinWait2,
    /// Time between challenge ACKs.
    ChallengeInterval,
    /// Idle time before a connection rests.
    RestAfter,
    /// Idle time before a keep-alive probe.
    KeepAliveIdle,
    /// Time between keep-alive probes.
    KeepAliveInterval,
    /// Keep-alive probes before giving up.
    KeepAliveProbes,
    /// Datagrams waiting to be read.
    UdpReceiveBuffer,
    /// Datagrams waiting to leave.
    UdpSendBuffer,
}

impl Knob {
    /// How many settings there are.
    pub const COUNT: usize = Knob::UdpSendBuffer as usize + 1;

    /// Every setting, in the order of the table.
    pub fn all() -> impl Iterator<Item = Knob> {
        TABLE.iter().map(|row| row.knob)
    }

    /// Its row in the table.
    #[must_use]
    pub fn row(self) -> &'static Setting {
        let [first, ..] = &TABLE;
        TABLE.get(self as usize).unwrap_or(first)
    }

    /// Its name, as files and `--set` have it (`tcp.congestion`).
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The setting with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Knob> {
        Knob::all().find(|knob| knob.name() == name)
    }

    /// The environment variable that sets it (`GANNET_TCP_CONGESTION`).
    #[must_use]
    pub fn variable(self) -> String {
        let upper = self.name().to_ascii_uppercase().replace('.', "_");
        format!("GANNET_{upper}")
    }
}

/// What the table says about a setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Which one.
    pub knob: Knob,
    /// Its name.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value without any source, as text.
    pub default: &'static str,
    /// What it does, for people.
    pub about: &'static str,
    /// Where it is specified, or who has the same ("RFC 6298", "Linux tcp_syn_retries").
    pub source: &'static str,
}

/// What values a setting takes; bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false` (`on`, `off`, `yes`, `no`, `1`, `0`).
    Flag,
    /// A number.
    Number {
        /// Least.
        least: u64,
        /// Most.
        most: u64,
    },
    /// Bytes (`4096`, `64K`, `4M`).
    Bytes {
        /// Least.
        least: u64,
        /// Most.
        most: u64,
        /// Only powers of two.
        power_of_two: bool,
        /// The word `auto` is allowed: the number is then 0.
        auto: bool,
    },
    /// A time (`50us`, `40ms`, `1s`, `2min`); bounds in nanoseconds.
    Time {
        /// Least.
        least: u64,
        /// Most.
        most: u64,
    },
    /// One of some words; the number is its place.
    Word(&'static [&'static str]),
    /// The name of a network.
    NetworkName,
    /// `auto`, `dhcp`, or an address with or without the length of its prefix.
    Address,
    /// `channel`, `packet:IF` or `tap:IF`.
    Link,
    /// `auto`, `none`, `link`, or an address.
    Gateway,
}

impl Kind {
    /// The unit of its number, for people and for JSON; empty where there is none.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        match self {
            Kind::Bytes { .. } => "bytes",
            Kind::Time { .. } => "ns",
            _ => "",
        }
    }

    /// What is allowed, in words.
    #[must_use]
    pub fn range(&self) -> String {
        use super::value::{bytes_text, time_text};
        match *self {
            Kind::Flag => "true, false".to_owned(),
            Kind::Number { least, most } => format!("{least} to {most}"),
            Kind::Time { least, most } => {
                format!("{} to {}", time_text(least), time_text(most))
            }
            Kind::Bytes {
                least,
                most,
                power_of_two,
                auto,
            } => {
                let (least, most) = (bytes_text(least), bytes_text(most));
                let power = if power_of_two { "a power of two, " } else { "" };
                let auto = if auto { ", or auto" } else { "" };
                format!("{power}{least} to {most}{auto}")
            }
            Kind::Word(words) => words.join(", "),
            Kind::NetworkName => "1 to 64 bytes, no '/', no '.' in front".to_owned(),
            Kind::Address => "auto, dhcp, or an address like 10.0.0.1/24".to_owned(),
            Kind::Link => "channel, packet:IF, tap:IF".to_owned(),
            Kind::Gateway => "auto, none, link, or an address like 10.0.0.254".to_owned(),
        }
    }
}
