//! Profiles: values that go together, each with its reason. What a profile does not name keeps its
//! default.

use super::knob::Knob;

/// A named set of values.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Who wants it.
    pub about: &'static str,
    /// What it sets, to what, and why.
    pub values: &'static [(Knob, &'static str, &'static str)],
}

impl Profile {
    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }
}

/// Every profile.
pub static PROFILES: [Profile; 5] = [
    Profile {
        name: "default",
        about: "the kernel's habits where programs can tell, for unknown paths and peers",
        values: &[],
    },
    Profile {
        name: "latency",
        about: "questions and answers: processor time and memory bandwidth for microseconds",
        values: &[
            (
                Knob::Spin,
                "200us",
                "an answer that comes while we spin costs no wake-up, some microseconds each way",
            ),
            (
                Knob::NoDelay,
                "true",
                "an answer in two writes does not wait for an acknowledgement of the first",
            ),
            (
                Knob::DelayedAck,
                "10ms",
                "peers with Nagle's algorithm wait for it; answers carry it long before",
            ),
            (
                Knob::MinRto,
                "60ms",
                "a lost tail is repaired sooner; still beyond Linux's usual 40 ms of delay",
            ),
            (
                Knob::StreamBuffer,
                "128K",
                "both rings of a connection stay in a core's cache, and queues stay short",
            ),
        ],
    },
    Profile {
        name: "throughput",
        about: "much data over few connections: memory for fewer wake-ups and full paths",
        values: &[
            (
                Knob::StreamBuffer,
                "2M",
                "a reader that is away for a millisecond does not stop its writer",
            ),
            (
                Knob::SendBufferMax,
                "64M",
                "two windows of 10 Gbit/s over 25 ms",
            ),
            (
                Knob::ReceiveBufferMax,
                "64M",
                "the same from the other side; the window scale is decided by it at the start",
            ),
            (
                Knob::ReceiveBuffer,
                "1M",
                "the peer's slow start is not held up by a window that has yet to grow",
            ),
            (
                Knob::UdpReceiveBuffer,
                "16M",
                "a burst waits instead of being lost",
            ),
        ],
    },
    Profile {
        name: "many",
        about: "tens of thousands of connections, most of them idle: little for each",
        values: &[
            (
                Knob::StreamBuffer,
                "64K",
                "the least: memory of a ring that was filled once stays taken",
            ),
            (
                Knob::Streams,
                "262144",
                "address space only; memory is taken when a stream is used",
            ),
            (
                Knob::Spin,
                "0",
                "with many connections there is always work; without work nothing is to run",
            ),
            (
                Knob::SendBuffer,
                "256K",
                "a peer that does not read ties up less; it grows where the path needs it",
            ),
            (
                Knob::ReceiveBuffer,
                "64K",
                "the same for a program that does not read",
            ),
            (
                Knob::RestAfter,
                "1s",
                "an idle connection takes less than a KiB, and sooner",
            ),
            (
                Knob::SynBacklog,
                "16384",
                "everybody comes back at once after a restart",
            ),
            (
                Knob::FinWait2,
                "10s",
                "peers that never close cost memory for a shorter time",
            ),
        ],
    },
    Profile {
        name: "lan-kernel",
        about: "peers on an Ethernet nearby that run the kernel's TCP",
        values: &[
            (
                Knob::ReceiveBuffer,
                "1M",
                "the kernel's sender fills the path from its first round trips",
            ),
            (
                Knob::DelayedAck,
                "20ms",
                "a tenth of the kernel's least time-out (200 ms), half of its own delay",
            ),
            (
                Knob::InitialRto,
                "500ms",
                "a round trip takes under a millisecond, and neighbours are asked for by then",
            ),
            (
                Knob::Ecn,
                "active",
                "the kernel agrees when it is asked, and nothing between swallows such SYNs",
            ),
        ],
    },
];
