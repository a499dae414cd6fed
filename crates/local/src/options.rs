//! Socket options: which word of a slot is which. The program's library sets them, getsockopt reads
//! them back, and the carrier heeds those that concern the connections it carries.
//!
//! A word holds the value plus one, so that 0 says "never set" and every default stays a default.

use crate::slot::{Kind, OwnSlot, PeerSlot, flags};

/// A socket option of one word. The values are those of setsockopt, an `int` each, unless it says
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Opt {
    /// `TCP_NODELAY`.
    NoDelay = 0,
    /// `SO_KEEPALIVE`.
    KeepAlive,
    /// `TCP_KEEPIDLE`, seconds.
    KeepIdle,
    /// `TCP_KEEPINTVL`, seconds.
    KeepInterval,
    /// `TCP_KEEPCNT`.
    KeepCount,
    /// `SO_LINGER`'s `l_onoff`.
    LingerOn,
    /// `SO_LINGER`'s `l_linger`, seconds.
    LingerSeconds,
    /// `TCP_USER_TIMEOUT`, milliseconds.
    UserTimeout,
    /// `SO_RCVTIMEO`: seconds.
    ReceiveTimeout,
    /// `SO_RCVTIMEO`: microseconds.
    ReceiveTimeoutMicros,
    /// `SO_SNDTIMEO`: seconds.
    SendTimeout,
    /// `SO_SNDTIMEO`: microseconds.
    SendTimeoutMicros,
    /// `SO_SNDBUF`.
    SendBuffer,
    /// `SO_RCVBUF`.
    ReceiveBuffer,
    /// `SO_REUSEADDR`.
    ReuseAddr,
    /// `SO_REUSEPORT`.
    ReusePort,
    /// `IP_TOS`, `IPV6_TCLASS`.
    Tos,
    /// `IP_TTL`, `IPV6_UNICAST_HOPS`.
    Ttl,
    /// `TCP_CONGESTION`: the place of the name among [`CONGESTION`].
    Congestion,
    /// `TCP_MAXSEG`.
    MaxSegment,
    /// `TCP_CORK`.
    Cork,
    /// `TCP_QUICKACK`.
    QuickAck,
    /// `TCP_DEFER_ACCEPT`.
    DeferAccept,
    /// `TCP_SYNCNT`.
    SynCount,
    /// `TCP_LINGER2`.
    Linger2,
    /// `TCP_WINDOW_CLAMP`.
    WindowClamp,
    /// `TCP_FASTOPEN`.
    FastOpen,
    /// `SO_BROADCAST`.
    Broadcast,
    /// `SO_DONTROUTE`.
    DontRoute,
    /// `SO_OOBINLINE`.
    OobInline,
    /// `SO_PRIORITY`.
    Priority,
    /// `SO_MARK`.
    Mark,
    /// `IPV6_V6ONLY`.
    V6Only,
    /// `IP_MULTICAST_TTL`, `IPV6_MULTICAST_HOPS`.
    MulticastTtl,
    /// `IP_MULTICAST_LOOP`, `IPV6_MULTICAST_LOOP`.
    MulticastLoop,
    /// `IP_RECVTTL`, `IPV6_RECVHOPLIMIT`.
    RecvTtl,
    /// `IP_PKTINFO`, `IPV6_RECVPKTINFO`.
    PktInfo,
    /// `IP_RECVERR`, `IPV6_RECVERR`.
    RecvError,
    /// `IP_RECVTOS`, `IPV6_RECVTCLASS`.
    RecvTos,
    /// `SO_TIMESTAMP` (1), `SO_TIMESTAMPNS` (2).
    Timestamp,
    /// `TCP_CORK` was on at some time: the program says itself what belongs together, and what it
    /// sets free must not wait for Nagle's algorithm. Another number each time that `TCP_NODELAY`
    /// sets free what waits under the cork.
    Corked,
    /// `SO_RCVLOWAT`. Above 1 there is a flag too, which every look at a stream sees.
    LowWater,
    /// Which buffers the program has set itself: bits of [`buffers`].
    BuffersSet,
    /// What `listen` was given: for people.
    Backlog,
}

/// A socket is of TCP or of UDP: in the slots of streams, the words of options that only datagrams
/// have stand for others.
impl Opt {
    /// `TCP_NOTSENT_LOWAT`, bytes.
    pub const NOT_SENT_LOW_WATER: Opt = Opt::MulticastTtl;
    /// `SO_TIMESTAMPING`, its flags.
    pub const TIMESTAMPING: Opt = Opt::MulticastLoop;
    /// `TCP_INQ`.
    pub const INQ: Opt = Opt::RecvTos;
    /// `SO_ZEROCOPY`.
    pub const ZERO_COPY: Opt = Opt::RecvError;
    /// Sends with `MSG_ZEROCOPY`, as a counter: see [`OwnSlot::count_zero_copy`].
    const ZERO_COPY_SENT: Opt = Opt::RecvTtl;
    /// Those whose completion was read.
    const ZERO_COPY_TOLD: Opt = Opt::PktInfo;
}

/// Bits of [`Opt::BuffersSet`], as those of `SO_BUF_LOCK`.
pub mod buffers {
    /// `SO_SNDBUF`.
    pub const SEND: u32 = 1;
    /// `SO_RCVBUF`.
    pub const RECEIVE: u32 = 2;
}

const _: () = assert!((Opt::Backlog as usize) < crate::layout::slot::OPTION_COUNT);

/// All options of a socket, as its slot has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options([u32; crate::layout::slot::OPTION_COUNT]);

/// The names that [`Opt::Congestion`] counts, as `TCP_CONGESTION` has them.
pub const CONGESTION: [&str; 4] = ["cubic", "reno", "dctcp", "bbr"];

impl PeerSlot<'_> {
    /// An option, `None` while it was never set.
    pub fn get(&self, option: Opt) -> Option<u32> {
        self.option(option as usize).checked_sub(1)
    }

    /// All of them.
    pub fn options(&self) -> Options {
        Options(std::array::from_fn(|n| self.option(n)))
    }

    /// Whether an option is set to something other than 0.
    pub fn is_on(&self, option: Opt) -> bool {
        self.get(option).is_some_and(|value| value != 0)
    }

    /// Whether the end of this one is a reset (`SO_LINGER` with a time of 0).
    pub fn aborts(&self) -> bool {
        self.is_on(Opt::LingerOn) && !self.is_on(Opt::LingerSeconds)
    }

    /// `TCP_NOTSENT_LOWAT` of a stream over TCP, if one is set. Between two programs nothing waits
    /// to be sent. (The flag alone says less: datagrams have another option in the same word.)
    pub fn not_sent_low_water(&self) -> Option<u32> {
        let known = self.flags();
        let may = known & flags::UNSENT_MAX != 0 && known & flags::CARRIED != 0;
        let set = self.get(Opt::NOT_SENT_LOW_WATER);
        set.filter(|bytes| may && *bytes > 0 && self.kind() == Some(Kind::Stream))
    }

    /// Changes whenever an option is set.
    pub fn options_turn(&self) -> u32 {
        self.option_turn()
    }
}

impl OwnSlot<'_> {
    /// Sets an option. `u32::MAX` takes it back. The carrier hears of it when it looks at the
    /// stream the next time: see [`crate::Stream::tell`].
    pub fn set(&self, option: Opt, value: u32) {
        self.set_option(option as usize, value.wrapping_add(1));
        if option == Opt::LowWater || option == Opt::NOT_SENT_LOW_WATER {
            self.note_low_water();
        }
        // A cork changes twice for each response of a server, and is looked at with the bytes.
        if option != Opt::Cork {
            self.turn_options();
        }
    }

    /// A send with `MSG_ZEROCOPY` is complete: what it had was copied.
    pub fn count_zero_copy(&self) {
        self.add_to_option(Opt::ZERO_COPY_SENT as usize);
        self.set_flags(flags::ERROR_QUEUE);
    }

    /// The numbers of the first and the last complete send that no call has read of yet.
    pub fn take_zero_copy(&self) -> Option<(u32, u32)> {
        self.clear_flags(flags::ERROR_QUEUE);
        let (told, sent) = (Opt::ZERO_COPY_TOLD as usize, Opt::ZERO_COPY_SENT as usize);
        let (first, end) = (self.option(told), self.option(sent));
        // (of two threads that read at once one has them all)
        let mine = first != end && self.change_option(told, first, end);
        mine.then(|| (first, end.wrapping_sub(1)))
    }

    /// Takes over all options of another slot, a listener's for what it accepted.
    pub fn inherit_options(&self, of: PeerSlot<'_>) {
        self.set_options(&of.options());
    }

    /// Sets all options, and those that were never set to that.
    pub fn set_options(&self, to: &Options) {
        for (n, value) in to.0.iter().enumerate() {
            self.set_option(n, *value);
        }
        self.note_low_water();
        self.turn_options();
    }

    fn note_low_water(&self) {
        match self.get(Opt::LowWater) {
            Some(2..) => {
                self.set_flags(flags::LOW_WATER);
            }
            _ => self.clear_flags(flags::LOW_WATER),
        }
        match self.is_on(Opt::NOT_SENT_LOW_WATER) {
            true => {
                self.set_flags(flags::UNSENT_MAX);
            }
            false => self.clear_flags(flags::UNSENT_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Geometry};

    #[test]
    fn a_low_water_mark_shows_among_the_flags() {
        let (_file, arena) = Arena::create(7, Geometry::default()).unwrap();
        let holder = arena.enter(1).unwrap();
        let listener = arena.own(arena.allocate(holder, 0).unwrap());
        let child = arena.own(arena.allocate(holder, 0).unwrap());
        for (value, shows) in [(5, true), (1, false), (2, true)] {
            listener.set(Opt::LowWater, value);
            child.inherit_options(*listener);
            for slot in [listener, child] {
                assert_eq!(slot.flags() & flags::LOW_WATER != 0, shows, "{value}");
            }
        }
    }

    #[test]
    fn completions_are_read_once_and_together() {
        let (_file, arena) = Arena::create(7, Geometry::default()).unwrap();
        let holder = arena.enter(1).unwrap();
        let slot = arena.own(arena.allocate(holder, 0).unwrap());
        let queued = || slot.flags() & flags::ERROR_QUEUE != 0;
        assert_eq!((slot.take_zero_copy(), queued()), (None, false));
        slot.count_zero_copy();
        slot.count_zero_copy();
        assert!(queued());
        assert_eq!((slot.take_zero_copy(), queued()), (Some((0, 1)), false));
        assert_eq!(slot.take_zero_copy(), None);
        slot.count_zero_copy();
        assert_eq!(slot.take_zero_copy(), Some((2, 2)));
    }

    #[test]
    fn what_was_never_set_is_told_from_zero() {
        let (_file, arena) = Arena::create(7, Geometry::default()).unwrap();
        let holder = arena.enter(1).unwrap();
        let listener = arena.own(arena.allocate(holder, 0).unwrap());
        assert_eq!(listener.get(Opt::NoDelay), None);
        let before = listener.options_turn();
        listener.set(Opt::NoDelay, 0);
        listener.set(Opt::Ttl, 255);
        assert_ne!(listener.options_turn(), before);
        assert_eq!(listener.get(Opt::NoDelay), Some(0));
        assert!(!listener.is_on(Opt::NoDelay) && listener.is_on(Opt::Ttl));
        let child = arena.own(arena.allocate(holder, 0).unwrap());
        child.inherit_options(*listener);
        assert_eq!(child.get(Opt::Ttl), Some(255));
        child.set(Opt::Ttl, u32::MAX);
        assert_eq!(child.get(Opt::Ttl), None);
        assert_eq!(listener.get(Opt::Ttl), Some(255));
    }
}
