//! Mistakes that are made on purpose, one at a time, so that the simulator can show that its judges
//! find them. Only with the feature `planted-bugs`, which nothing but the simulator turns on;
//! without it `planted!` is `false` when the code is compiled, and nothing of this is left.

/// Whether this mistake is the one that is made.
#[cfg(feature = "planted-bugs")]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is($crate::planted::Bug::$bug)
    };
}

/// Whether this mistake is the one that is made: never.
#[cfg(not(feature = "planted-bugs"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

#[cfg(feature = "planted-bugs")]
pub use list::{Bug, is, plant};

#[cfg(feature = "planted-bugs")]
mod list {
    use core::sync::atomic::{AtomicU32, Ordering};

    macro_rules! bugs {
        ($($name:ident: $words:literal,)+) => {
            /// A mistake.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum Bug {
                $(#[doc = $words] $name,)+
            }

            impl Bug {
                /// All of them.
                pub const ALL: &[Bug] = &[$(Bug::$name,)+];

                /// What goes wrong, in words.
                pub const fn words(self) -> &'static str {
                    match self {
                        $(Bug::$name => $words,)+
                    }
                }
            }
        };
    }

    bugs! {
        SendsBeyondWindow: "one byte more than the window allows is sent",
        AcksUnreceived: "a byte is acknowledged that has not come, while others wait behind a hole",
        WrongBytesAgain: "what is sent again begins one byte too far on",
        FinForgotten: "the FIN is not sent again after a time-out",
        FinTwice: "the peer's FIN is counted twice",
        FinEarly: "the peer's FIN counts before what lies in front of it",
        FinAckedByData: "our FIN counts as acknowledged when only the data is",
        NoWindowProbe: "a closed window is never probed",
        NoRetransmissionTimer: "the retransmission timer never expires",
        NoBackOff: "the retransmission time-out is never doubled",
        ShortTimeout: "the retransmission time-out is an eighth of what it should be",
        SynTooSoon: "SYNs are sent again after a tenth of a second",
        SackTooLong: "SACK blocks end one byte too far on",
        DsackWrong: "a duplicate is reported with one byte that never came",
        EchoMissing: "time stamps are not echoed",
        StampMissingAgain: "what is sent again has no time stamp",
        StampBackwards: "the clock of time stamps wraps every second",
        PawsReversed: "new time stamps are taken for old",
        PawsWithoutWrap: "time stamps are compared without regard to their wrap",
        OverlapTwice: "what overlaps is kept twice",
        IslandLeaked: "a piece that is there already is never released",
        SentLeaked: "blocks that are acknowledged are not released",
        SentReleasedTwice: "blocks that are acknowledged are released twice",
        ReadLeaked: "blocks that are read are not released",
        DatagramLeaked: "blocks of datagrams are not released",
        NoTcpChecksum: "the checksum of segments is not looked at",
        NoUdpChecksum: "the checksum of datagrams is not looked at",
        NoIpChecksum: "the checksum of IP headers is not looked at",
        PaddingTaken: "what lies behind the IP packet is taken for a part of it",
        ResetAnswered: "a reset is answered by a reset",
        NoTimeWait: "there is no TIME-WAIT",
        TimeWaitSilent: "TIME-WAIT answers nothing",
        TimeWaitAckOld: "TIME-WAIT acknowledges all but the FIN",
        WindowShrinks: "half of the offered window is taken back",
        WindowScaledTwice: "the peer's window is taken for twice as large",
        MssWithoutOptions: "segments leave no room for time stamps",
        MssOfCutting: "interfaces are told to cut pieces that are one byte too long",
        NeverAcks: "delayed acknowledgements never leave",
        AckStorm: "acknowledgements are acknowledged",
        NoWindowUpdate: "nobody is told that a window has opened",
        TextLost: "what fills a hole is acknowledged and forgotten",
        SmallPieceWrong: "small pieces are copied from one byte too far on",
        SumOfWhole: "the sum of a whole piece is used for a part of it",
        WokenOnce: "an application is told of news the first time only",
        LostMiscounted: "what is lost stays lost when it is acknowledged",
        RunsMiscounted: "runs of SACKed octets are counted wrongly",
        NagleForEver: "a small segment waits for ever",
        ArpReplyIgnored: "answers of neighbours are ignored",
        ArpSilent: "questions of neighbours are not answered",
        WindowAfterTimeout: "a time-out does not reduce the congestion window",
        WindowAfterLoss: "a loss does not reduce the congestion window",
        InitialWindow: "the first flight has a hundred segments",
        SlowStartTriples: "slow start grows by three bytes for each acknowledged",
        RecoveryNeverLeft: "fast recovery never ends",
        MtuIgnored: "routers that say that a packet is too large are ignored",
        FragmentsShifted: "fragments are put together one unit of eight bytes too far on",
        FragmentUnmarked: "no fragment says that more follow",
    }

    static PLANTED: AtomicU32 = AtomicU32::new(u32::MAX);

    /// From now on every stack of this process makes this mistake, and no other.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(u32::MAX, |bug| bug as u32), Ordering::SeqCst);
    }

    /// Whether this mistake is the one that is made.
    #[inline]
    pub fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u32
    }
}
