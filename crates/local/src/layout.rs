//! Where everything lies in an arena. All offsets in bytes.
//!
//! ```text
//! header | processes | sleepers | news rings | log | slots       every program maps these
//! allocated slots | holders                                      only the own program's processes
//! byte rings                                                     mapped when a slot is used
//! ```
//! The memory is sparse: what no process touched costs nothing.

/// Tells an arena of this layout from anything else.
pub(crate) const MAGIC: u64 = 0x6761_6e6e_6574_0007;

/// Processes of one program at a time.
pub const PROCESSES: usize = 4096;
/// Things that sleep on many streams at once (epoll sets), of one program.
pub(crate) const SLEEPERS: usize = 8192;
/// Other programs that one program has streams with, before news stops being sorted.
pub(crate) const NEWS_RINGS: usize = 64;
/// Entries of a news ring.
pub(crate) const NEWS_ENTRIES: usize = 4096;

/// Different sockets of which the log tells.
pub(crate) const LOG_ENTRIES: usize = 512;

const HEADER: usize = 4096;
const PROCESS_BYTES: usize = 64;
const SLEEPER_BYTES: usize = 64;
const NEWS_BYTES: usize = 128 + NEWS_ENTRIES * 8;
const LOG_ENTRY_BYTES: usize = 64;
/// Bytes of one slot: what is known of one socket.
pub(crate) const SLOT_BYTES: usize = 512;

/// How large an arena is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Most sockets at a time: a power of two.
    pub slots: u32,
    /// Bytes of a stream's ring, each way: a power of two.
    pub ring: u32,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry {
            slots: 16_384,
            ring: 512 << 10,
        }
    }
}

/// Fewest and most of [`Geometry::slots`].
const SLOTS: std::ops::RangeInclusive<u32> = 64..=1 << 18;
/// Smallest and largest [`Geometry::ring`].
const RING: std::ops::RangeInclusive<u32> = 4096..=16 << 20;

impl Geometry {
    /// The nearest geometry that can be had.
    pub fn clamped(self) -> Geometry {
        let slots = self.slots.clamp(*SLOTS.start(), *SLOTS.end());
        let ring = self.ring.clamp(*RING.start(), *RING.end());
        Geometry {
            slots: slots.next_power_of_two(),
            ring: ring.next_power_of_two(),
        }
    }

    /// Whether an arena may claim to be like this.
    pub(crate) fn is_sane(self) -> bool {
        self.clamped() == self
    }

    fn slots(self) -> usize {
        self.slots as usize
    }

    pub(crate) fn ring_len(self) -> usize {
        self.ring as usize
    }

    pub(crate) fn process(self, n: usize) -> usize {
        HEADER + (n % PROCESSES) * PROCESS_BYTES
    }

    /// Words of a bitmap of slots.
    pub(crate) fn bitmap_words(self) -> usize {
        self.slots() / 64
    }

    pub(crate) fn allocated(self) -> usize {
        self.shared_len()
    }

    /// The slots which process `n` holds.
    pub(crate) fn held_by(self, n: usize) -> usize {
        self.allocated() + (1 + n % PROCESSES) * self.bitmap_words() * 8
    }

    pub(crate) fn sleeper(self, n: usize) -> usize {
        HEADER + PROCESSES * PROCESS_BYTES + (n % SLEEPERS) * SLEEPER_BYTES
    }

    fn first_news(self) -> usize {
        self.sleeper(0) + SLEEPERS * SLEEPER_BYTES
    }

    pub(crate) fn news(self, n: usize) -> usize {
        self.first_news() + (n % NEWS_RINGS) * NEWS_BYTES
    }

    pub(crate) fn news_entry(self, ring: usize, turn: u64) -> usize {
        self.news(ring) + 128 + (turn as usize % NEWS_ENTRIES) * 8
    }

    /// Where it stands that sleeper `watch` was woken, of those whom ring `ring` is for.
    pub(crate) fn rung(self, ring: usize, watch: u32) -> usize {
        self.news(ring) + news::RUNG + (watch as usize % news::RUNG_WORDS) * 4
    }

    pub(crate) fn log_entry(self, n: usize) -> usize {
        let first = (self.first_news() + NEWS_RINGS * NEWS_BYTES).next_multiple_of(64);
        first + (n % LOG_ENTRIES) * LOG_ENTRY_BYTES
    }

    pub(crate) fn slot(self, n: u32) -> usize {
        let log_end = self.log_entry(0) + LOG_ENTRIES * LOG_ENTRY_BYTES;
        let first = log_end.next_multiple_of(4096);
        first + (n & (self.slots - 1)) as usize * SLOT_BYTES
    }

    /// Length of what every program maps that has a stream with this one.
    pub(crate) fn shared_len(self) -> usize {
        (self.slot(0) + self.slots() * SLOT_BYTES).next_multiple_of(4096)
    }

    /// Length of all but the rings.
    pub(crate) fn head_len(self) -> usize {
        let bitmaps = (1 + PROCESSES) * self.bitmap_words() * 8;
        (self.allocated() + bitmaps).next_multiple_of(4096)
    }

    pub(crate) fn bytes_of(self, n: u32) -> usize {
        self.head_len() + (n & (self.slots - 1)) as usize * self.ring_len()
    }

    /// The same with fewer slots, as many as `bytes` are enough for.
    pub fn within(self, bytes: u64) -> Geometry {
        let mut fitting = self.clamped();
        while fitting.len() > bytes && fitting.slots > *SLOTS.start() {
            fitting.slots /= 2;
        }
        fitting
    }

    /// Length of the whole arena.
    pub fn len(self) -> u64 {
        (self.bytes_of(0) + self.slots() * self.ring_len()) as u64
    }

    /// Never: an arena has a header.
    pub fn is_empty(self) -> bool {
        false
    }
}

/// Words of the header.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const HOST: usize = 8;
    pub(crate) const SLOTS: usize = 16;
    pub(crate) const RING: usize = 20;
    pub(crate) const NEXT_PORT: usize = 24;
    /// Grows with every news ring that is opened.
    pub(crate) const NEWS_OPENED: usize = 28;
    /// Grows whenever a process enters itself.
    pub(crate) const ENTERED: usize = 32;
    /// Set while the carrier lives.
    pub(crate) const CARRIER: usize = 36;
    /// Grows with all news for which there was no ring.
    pub(crate) const UNSORTED: usize = 40;
    /// Numbers the sleeps of all sleepers.
    pub(crate) const SLEEPS: usize = 44;
    /// Entries of processes that were ever used, counted from the first.
    pub(crate) const ENTRIES: usize = 48;
    /// Sleepers that were ever used, counted from the first.
    pub(crate) const SLEEPERS: usize = 52;
    /// Set while the carrier looks for slots that no process holds.
    pub(crate) const SWEEPING: usize = 56;
    /// Held while a news ring is opened.
    pub(crate) const NEWS_LOCK: usize = 64;
    // The log's line.
    /// Set when somebody wants to know which sockets are carried.
    pub(crate) const LOG_WANTED: usize = 128;
    /// Entries of the log that were taken.
    pub(crate) const LOG_TAKEN: usize = 132;
    /// Sockets that the log had no room for.
    pub(crate) const LOG_MISSED: usize = 136;
}

/// Words of an entry of the log.
pub(crate) mod log {
    /// Set when all of the entry is written.
    pub(crate) const READY: usize = 0;
    /// What became of the socket, the role in which, its protocol: a byte each.
    pub(crate) const WHAT: usize = 4;
    /// Port and family, as in a slot; then 16 bytes.
    pub(crate) const ADDRESS: usize = 8;
    pub(crate) const COUNT: usize = 32;
    pub(crate) const PID: usize = 36;
}

/// Words of a process's entry.
pub(crate) mod process {
    /// Which process, and how many there were before, see `arena/processes.rs`.
    pub(crate) const OWNER: usize = 0;
    /// The PID namespace of its number.
    pub(crate) const NAMESPACE: usize = 8;
}

/// Words of a sleeper.
pub(crate) mod sleeper {
    /// 0: awake; else the number of this sleep.
    pub(crate) const ARMED: usize = 0;
    /// Process entry that uses it, plus one; 0: free.
    pub(crate) const OWNER: usize = 4;
    /// 1 when it has a bell.
    pub(crate) const BELL: usize = 8;
}

/// Words of a news ring.
pub(crate) mod news {
    /// For whom: the number of a host, 0 while free.
    pub(crate) const FOR: usize = 0;
    /// The sleeps that were ended by a bell, several sleepers to a word.
    pub(crate) const RUNG: usize = 8;
    pub(crate) const RUNG_WORDS: usize = 14;
    pub(crate) const TAIL: usize = 64;

    const _: () = assert!(RUNG + 4 * RUNG_WORDS <= TAIL);
}

/// Words of a slot, sorted by who writes them: one cache line each.
pub(crate) mod slot {
    // The sender's line.
    pub(crate) const PRODUCED: usize = 0;
    pub(crate) const BASE: usize = 8;
    pub(crate) const SENT: usize = 16;
    pub(crate) const WOKEN_READER: usize = 20;
    pub(crate) const WOKEN_SET: usize = 24;
    pub(crate) const URGENT: usize = 32;
    // Of a listener: which processes accept, see `turns.rs`.
    pub(crate) const COMERS: usize = 40;
    pub(crate) const TAKERS: usize = 48;
    /// Where its holder writes anyway, and not on a line that the other end has to fetch for more.
    pub(crate) const WRITE_LOCK: usize = 56;
    // The receiver's line.
    pub(crate) const CONSUMED: usize = 64;
    pub(crate) const RECEIVER: usize = 72;
    pub(crate) const WOKEN_WRITER: usize = 76;
    pub(crate) const URGENT_READ: usize = 80;
    pub(crate) const READ_LOCK: usize = 88;
    /// Of what is not a stream: the inode of the Unix socket that keeps it reachable.
    pub(crate) const BACKING: usize = 96;
    /// Of a stream: the inode of the other end's socket.
    pub(crate) const PEER_INODE: usize = 104;
    /// Of a listener, see `turns.rs`.
    pub(crate) const TAKEN_AT: usize = 112;
    // Who waits.
    pub(crate) const READER_ARMED: usize = 128;
    pub(crate) const WRITER_ARMED: usize = 132;
    pub(crate) const WATCH: usize = 136;
    // Of a carrier's slot: figures of the connection behind it, see `figures.rs`.
    pub(crate) const FIGURES: usize = 144;
    // What this is.
    pub(crate) const GENERATION: usize = 192;
    pub(crate) const STATE: usize = 196;
    pub(crate) const PEER_HOST: usize = 200;
    pub(crate) const PEER_SLOT: usize = 208;
    pub(crate) const PEER_GENERATION: usize = 212;
    pub(crate) const INODE: usize = 216;
    pub(crate) const KIND: usize = 224;
    pub(crate) const ERROR: usize = 228;
    pub(crate) const OPENED: usize = 232;
    /// Why the stream was broken off, an errno; 0: no particular reason.
    pub(crate) const REASON: usize = 240;
    /// Groups of processes of which one may hold it, see `arena/holders.rs`.
    pub(crate) const HOLDERS: usize = 248;
    // Addresses: a word of port and family, then 16 bytes.
    pub(crate) const LOCAL: usize = 256;
    pub(crate) const REMOTE: usize = 280;
    /// Random: part of the name with which an opening end connects.
    pub(crate) const NONCE: usize = 304;
    /// Which process begins or ends a use, see `arena/claims.rs`.
    pub(crate) const CLAIM: usize = 312;
    // What all holders share, and the other end reads often: nothing that changes with each call.
    pub(crate) const FLAGS: usize = 328;
    pub(crate) const OPTION_TURN: usize = 332;
    // Socket options, a word each.
    pub(crate) const OPTIONS: usize = 336;
    pub(crate) const OPTION_COUNT: usize = 44;

    const _: () = assert!(FIGURES + crate::figures::WORDS * 4 <= GENERATION);
    const _: () = assert!(OPTIONS + OPTION_COUNT * 4 <= super::SLOT_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for geometry in [
            Geometry::default(),
            Geometry {
                slots: 64,
                ring: 4096,
            },
            Geometry {
                slots: 128,
                ring: 16 << 20,
            },
        ] {
            assert!(geometry.is_sane());
            let bitmap = geometry.bitmap_words() * 8;
            let places = [
                (0, header::NEWS_LOCK + 8),
                (geometry.process(0), PROCESS_BYTES),
                (geometry.process(PROCESSES - 1), PROCESS_BYTES),
                (geometry.sleeper(0), SLEEPER_BYTES),
                (geometry.sleeper(SLEEPERS - 1), SLEEPER_BYTES),
                (geometry.news(0), 128),
                (geometry.news_entry(0, 0), NEWS_ENTRIES * 8),
                (geometry.news(1), 128),
                (geometry.news(NEWS_RINGS - 1), NEWS_BYTES),
                (geometry.slot(0), SLOT_BYTES),
                (geometry.slot(geometry.slots - 1), SLOT_BYTES),
                (geometry.shared_len(), 0),
                (geometry.allocated(), bitmap),
                (geometry.held_by(0), bitmap),
                (geometry.held_by(PROCESSES - 1), bitmap),
                (geometry.head_len(), 0),
                (geometry.bytes_of(0), geometry.ring_len()),
                (geometry.bytes_of(geometry.slots - 1), geometry.ring_len()),
            ];
            for pair in places.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
            }
            let (at, len) = places[places.len() - 1];
            assert_eq!((at + len) as u64, geometry.len());
        }
    }

    #[test]
    fn numbers_of_any_size_stay_inside() {
        let geometry = Geometry {
            slots: 64,
            ring: 4096,
        };
        assert_eq!(geometry.slot(64), geometry.slot(0));
        assert_eq!(geometry.bytes_of(u32::MAX), geometry.bytes_of(63));
        assert_eq!(geometry.process(PROCESSES), geometry.process(0));
        assert_eq!(geometry.sleeper(usize::MAX), geometry.sleeper(SLEEPERS - 1));
        let last = geometry.news_entry(NEWS_RINGS - 1, u64::MAX);
        assert_eq!(
            last,
            geometry.news_entry(NEWS_RINGS - 1, NEWS_ENTRIES as u64 - 1)
        );
    }

    #[test]
    fn geometries_are_made_sane() {
        for (slots, ring) in [
            (0, 0),
            (65, 5000),
            (u32::MAX, u32::MAX),
            (1 << 18, 16 << 20),
        ] {
            let asked = Geometry { slots, ring };
            assert!(asked.clamped().is_sane());
        }
        assert!(
            !Geometry {
                slots: 65,
                ring: 4096
            }
            .is_sane()
        );
        assert!(
            !Geometry {
                slots: 64,
                ring: 4097
            }
            .is_sane()
        );
    }
}
