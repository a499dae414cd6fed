//! The table of settings: what `gannet config show` prints, and what every source may set.

use super::knob::{Kind, Knob, Setting};

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const S: u64 = 1000 * MS;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Most bytes of a window: what RFC 7323 can express.
const WINDOW_MAX: u64 = 65_535 << 14;

const fn bytes(least: u64, most: u64) -> Kind {
    Kind::Bytes {
        least,
        most,
        power_of_two: false,
        auto: false,
    }
}

const fn bytes_or_auto(least: u64, most: u64) -> Kind {
    Kind::Bytes {
        least,
        most,
        power_of_two: false,
        auto: true,
    }
}

const fn time(least: u64, most: u64) -> Kind {
    Kind::Time { least, most }
}

const fn number(least: u64, most: u64) -> Kind {
    Kind::Number { least, most }
}

const fn row(knob: Knob, name: &'static str, kind: Kind, text: [&'static str; 3]) -> Setting {
    let [default, source, about] = text;
    Setting {
        knob,
        name,
        kind,
        default,
        about,
        source,
    }
}

/// Every setting, in the order of [`Knob`]. Texts: default, source, description.
#[rustfmt::skip]
pub(super) static TABLE: [Setting; Knob::COUNT] = [
    row(Knob::Network, "network", Kind::NetworkName, ["default", "",
        "the network to join; programs of one network meet directly"]),
    row(Knob::Address, "address", Kind::Address, ["auto", "",
        "our address there; auto: a free one, dhcp: asked for (packet and tap links)"]),
    row(Knob::Link, "link", Kind::Link, ["channel", "",
        "what joins us to others: shared memory, a network interface, the kernel"]),
    row(Knob::Gateway, "gateway", Kind::Gateway, ["auto", "RFC 1122 section 3.3.1; RFC 4861",
        "router to everything else; auto: DHCP's; link: the kernel's there, or advertised (IPv6)"]),
    row(Knob::Mtu, "mtu", bytes_or_auto(1280, 65_535), ["auto", "RFC 8200 section 5",
        "largest packet, never more than the link takes; auto: that"]),
    row(Knob::StreamBuffer, "stream.buffer", STREAM_BUFFER, ["512K", "",
        "ring of a direct stream, each way: more keeps a writer going, less stays in the cache"]),
    row(Knob::Streams, "streams", number(64, 256 * KIB), ["16384", "",
        "most streams of a program and everything it starts; rounded up to a multiple of 64"]),
    row(Knob::Spin, "spin", time(0, 10 * MS), ["50us", "Linux net.core.busy_poll",
        "how long a waiting call spins before it sleeps; 0: never"]),
    row(Knob::Congestion, "tcp.congestion", Kind::Word(&["cubic", "reno", "dctcp", "bbr"]),
        ["cubic", "RFC 9438, 5681, 8257; Linux tcp_congestion_control",
        "how fast a path is filled, and what a loss means"]),
    row(Knob::Pacing, "tcp.pacing", Kind::Flag, ["false", "Linux fq",
        "send at a rate instead of in bursts: for paths with short queues; bbr always does"]),
    row(Knob::Ecn, "tcp.ecn", Kind::Word(&["off", "passive", "active"]),
        ["passive", "RFC 3168; Linux tcp_ecn",
        "routers mark instead of dropping; passive: when the peer asks"]),
    row(Knob::Timestamps, "tcp.timestamps", Kind::Flag,
        ["true", "RFC 7323 section 3; Linux tcp_timestamps",
        "12 bytes in each segment, for better round trips and old segments known as such"]),
    row(Knob::Sack, "tcp.sack", Kind::Flag, ["true", "RFC 2018; Linux tcp_sack",
        "tell, and hear, exactly what arrived: several losses are repaired in one round trip"]),
    row(Knob::WindowScaling, "tcp.window_scaling", Kind::Flag,
        ["true", "RFC 7323 section 2; Linux tcp_window_scaling",
        "windows beyond 64 KiB; off only where a box on the path spoils the option"]),
    row(Knob::NoDelay, "tcp.nodelay", Kind::Flag, ["false", "RFC 896; TCP_NODELAY",
        "small segments leave at once on every new connection"]),
    row(Knob::SendBuffer, "tcp.send_buffer", bytes(4 * KIB, WINDOW_MAX),
        ["4M", "Linux tcp_wmem", "written and not yet acknowledged, at first"]),
    row(Knob::SendBufferMax, "tcp.send_buffer_max", bytes(4 * KIB, WINDOW_MAX),
        ["32M", "Linux tcp_wmem", "how far the send buffer grows with the path"]),
    row(Knob::ReceiveBuffer, "tcp.receive_buffer", bytes(4 * KIB, WINDOW_MAX),
        ["256K", "Linux tcp_rmem", "window offered at first"]),
    row(Knob::ReceiveBufferMax, "tcp.receive_buffer_max", bytes(4 * KIB, WINDOW_MAX),
        ["16M", "Linux tcp_rmem",
        "how far it grows with the flow; decides the window scale of new connections"]),
    row(Knob::InitialWindow, "tcp.initial_window", number(1, 100), ["10", "RFC 6928",
        "segments sent before the first acknowledgement, and after idle times"]),
    row(Knob::MaxSegment, "tcp.max_segment", bytes_or_auto(48, 65_535),
        ["auto", "RFC 9293 section 3.7.1; TCP_MAXSEG",
        "most bytes in a segment, both ways: for tunnels that do not say how narrow they are"]),
    row(Knob::MtuProbing, "tcp.mtu_probing", Kind::Word(&["never", "black-hole", "always"]),
        ["black-hole", "RFC 4821; Linux tcp_mtu_probing",
        "search for the path's MTU by probes: when large segments vanish, or always"]),
    row(Knob::InitialRto, "tcp.initial_rto", time(MS, 60 * S), ["1s", "RFC 6298 section 2.1",
        "time-out before the first round trip is known, of SYNs too; doubled each time"]),
    row(Knob::MinRto, "tcp.min_rto", time(MS, 60 * S),
        ["200ms", "RFC 6298 section 2.4; Linux rto_min",
        "least time-out: not below what peers delay acknowledgements by (Linux: 40 ms to 200 ms)"]),
    row(Knob::DelayedAck, "tcp.delayed_ack", time(0, 490 * MS), ["40ms", "RFC 9293 section 3.8.6.3",
        "how long an acknowledgement waits for company"]),
    row(Knob::SynRetries, "tcp.syn_retries", number(0, 20),
        ["7", "RFC 9293 section 3.8.3; Linux tcp_syn_retries",
        "SYNs sent again before connect gives up; 7 take 191 s when the first takes 1 s"]),
    row(Knob::SynAckRetries, "tcp.syn_ack_retries", number(0, 20),
        ["5", "Linux tcp_synack_retries", "answers to a SYN sent again before it is forgotten"]),
    row(Knob::DataRetries, "tcp.data_retries", number(1, 255),
        ["15", "RFC 9293 section 3.8.3; Linux tcp_retries2",
        "times that data is sent again before the connection is given up"]),
    row(Knob::SynCookies, "tcp.syn_cookies", Kind::Word(&["off", "overflow", "always"]),
        ["overflow", "RFC 4987 section 3.6; Linux tcp_syncookies",
        "answer SYNs without remembering them: when the backlog is full, or always"]),
    row(Knob::SynBacklog, "tcp.syn_backlog", number(1, MIB),
        ["2048", "Linux tcp_max_syn_backlog", "half-open connections of each listener"]),
    row(Knob::TimeWait, "tcp.time_wait", time(MS, 3600 * S), ["1min", "RFC 9293 section 3.6.1",
        "how long the ports of a closed connection stay taken (2 MSL)"]),
    row(Knob::FinWait2, "tcp.fin_wait_2", time(MS, 3600 * S), ["1min", "Linux tcp_fin_timeout",
        "how long a closed connection waits for the peer to close too"]),
    row(Knob::ChallengeInterval, "tcp.challenge_interval", time(0, 60 * S),
        ["500ms", "RFC 5961 section 7; Linux tcp_invalid_ratelimit",
        "least time between answers to doubtful segments of one connection (challenge ACKs)"]),
    row(Knob::RestAfter, "tcp.rest_after", time(100 * MS, 86_400 * S), ["5s", "",
        "idle time after which a connection gives back most of its memory"]),
    row(Knob::KeepAliveIdle, "tcp.keep_alive_idle", time(S, 32_767 * S),
        ["2h", "RFC 9293 section 3.8.4; Linux tcp_keepalive_time",
        "idle time before the first probe, where the program switched keep-alive on"]),
    row(Knob::KeepAliveInterval, "tcp.keep_alive_interval", time(S, 32_767 * S),
        ["75s", "Linux tcp_keepalive_intvl", "time between keep-alive probes"]),
    row(Knob::KeepAliveProbes, "tcp.keep_alive_probes", number(1, 127),
        ["9", "Linux tcp_keepalive_probes", "unanswered probes after which a peer is given up"]),
    row(Knob::UdpReceiveBuffer, "udp.receive_buffer", bytes(4 * KIB, WINDOW_MAX),
        ["4M", "Linux net.core.rmem_default", "datagrams waiting to be read, per socket"]),
    row(Knob::UdpSendBuffer, "udp.send_buffer", bytes(4 * KIB, WINDOW_MAX),
        ["2M", "Linux net.core.wmem_default", "datagrams waiting to leave, per socket"]),
];

const STREAM_BUFFER: Kind = Kind::Bytes {
    least: 64 * KIB,
    most: 4 * MIB,
    power_of_two: true,
    auto: false,
};

// The place of a row is its number.
const _: () = {
    let mut at = 0;
    while at < Knob::COUNT {
        assert!(TABLE[at].knob as usize == at);
        at += 1;
    }
};
