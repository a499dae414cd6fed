//! What TCP counts.

use gannet_base::{Counters, reasons};

reasons! {
    /// Why a segment was dropped, or what else happened that is worth a count.
    pub enum TcpEvent {
        /// Shorter than its header says, or than any header is.
        BadHeader => "bad_header",
        /// The checksum is wrong.
        BadChecksum => "bad_checksum",
        /// A port of 0, or an address no connection can have.
        BadAddress => "bad_address",
        /// No connection and no listener: answered with a reset, unless it was one.
        NoSocket => "no_socket",
        /// A listener's backlog was full.
        BacklogFull => "backlog_full",
        /// As many connections as allowed exist.
        TooManyConnections => "too_many_connections",
        /// Outside the receive window.
        OutOfWindow => "out_of_window",
        /// PAWS: its time stamp is older than what came before (RFC 7323).
        OldTimestamp => "old_timestamp",
        /// A time stamp was agreed and is missing.
        MissingTimestamp => "missing_timestamp",
        /// It acknowledges what was never sent, or what is too old to be true (RFC 5961).
        BadAck => "bad_ack",
        /// No ACK where every segment must have one.
        NoAck => "no_ack",
        /// Large segments vanished on a path without a word: smaller ones from now on.
        BlackHole => "black_hole",
        /// A probe of the path's MTU was lost, and nothing else.
        MtuProbeFailed => "mtu_probe_failed",
        /// A SYN on an open connection (RFC 5961).
        UnexpectedSyn => "unexpected_syn",
        /// A reset that does not fit exactly (RFC 5961).
        InexactReset => "inexact_reset",
        /// A reset in LISTEN, or a segment that opens nothing in SYN-SENT.
        Ignored => "ignored",
        /// Text after the peer's FIN, or after both sides closed.
        UnexpectedText => "unexpected_text",
        /// No memory for its text.
        NoMemory => "no_memory",
        /// What had arrived out of order, let go because memory was all but gone.
        Pruned => "pruned",
        /// Answers not sent because one had just been (challenge ACKs, resets).
        Suppressed => "suppressed",
        /// Resets sent.
        ResetSent => "reset_sent",
        /// Resets that ended a connection.
        ResetReceived => "reset_received",
        /// Connections opened by us.
        ActiveOpen => "active_open",
        /// Connections opened by peers.
        PassiveOpen => "passive_open",
        /// Segments received.
        Received => "received",
        /// Segments sent.
        Sent => "sent",
        /// Segments that took the straight-line path on arrival.
        Straight => "straight",
        /// Data segments that left through the header template.
        FromTemplate => "from_template",
        /// ICMP errors about segments outside what is in flight (RFC 5927).
        IcmpOutOfWindow => "icmp_out_of_window",
        /// The last acknowledgement of a handshake, while the listener's accept queue was full.
        AcceptQueueFull => "accept_queue_full",
        /// SYNs answered with a cookie because too many others were half open (RFC 4987).
        CookieSent => "cookie_sent",
        /// Connections opened by a cookie that came back.
        CookieTaken => "cookie_taken",
        /// SYNs whose data was taken (RFC 7413).
        FastOpen => "fast_open",
        /// SYNs with data and a Fast Open cookie that is not ours, or too old.
        FastOpenBadCookie => "fast_open_bad_cookie",
        /// SYNs with data and a good cookie, while too many others had yet to acknowledge.
        FastOpenFull => "fast_open_full",
        /// SYNs sent with data, and those of them whose data the answer acknowledged.
        FastOpenSent => "fast_open_sent",
        /// See `FastOpenSent`.
        FastOpenTaken => "fast_open_taken",
        /// Connections reset when their application let go, because too many others had been.
        TooManyOrphans => "too_many_orphans",
        /// Connections in TIME-WAIT forgotten early, because there were too many.
        TimeWaitRecycled => "time_wait_recycled",
        /// Times that a connection had nothing to do for so long that its memory was given back.
        Rested => "rested",
    }
}

/// Counts by event.
pub type TcpCounters = Counters<TcpEvent, { TcpEvent::COUNT }>;
