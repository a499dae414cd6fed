//! What is sent, packet by packet.

use gannet_link::Medium;
use gannet_wire::ipv4::IpProtocol;
use gannet_wire::{MacAddr, udp};
use serde::Serialize;

use super::victim::{PORTS, Victim, packet, question};

/// Octets that random text falls into, behind what comes next: less than any window.
const WINDOW: u32 = 60_000;
/// Holes.
const HOLES: u32 = 1000;
/// Octets from one hole to the next at a sender, and at a receiver.
const STRIDE: u32 = 4;
/// Octets in flight before a sender is attacked.
const FLIGHT: u32 = 100_000;
/// Payload of a datagram in fragments.
const DATAGRAM: u16 = 65_000;

/// A kind of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// 1,448 bytes of text in order, read at once.
    Text,
    /// One byte of text in order, read at once.
    SmallText,
    /// An acknowledgement of one segment, and the write and the segment that it acknowledges.
    Answer,
    /// A datagram of 1,472 bytes, read at once.
    Datagram,
    /// Datagrams of 65,000 bytes in fragments of 1,480 in order, read at once.
    Fragments,
    /// A request for our hardware address, the same asker again and again.
    Arp,
    /// One byte of text anywhere in the window but where it is waited for (SegmentSmack).
    RandomText,
    /// 1,000 holes of one byte, filled at random, then made anew.
    FilledHoles,
    /// Acknowledgements with four blocks at a sender with 1,000 holes; the last one new.
    Holes,
    /// The same, four blocks of one byte anywhere in flight.
    RandomBlocks,
    /// The same; every other one reports a duplicate.
    Duplicates,
    /// Blocks that are taken back by the next acknowledgement.
    Reneging,
    /// Fragments of 8 bytes at random, of datagrams that are never whole (FragmentSmack).
    TinyFragments,
    /// Requests for our hardware address, each from somebody else.
    ArpFlood,
    /// SYNs, each from somebody else.
    SynFlood,
}

impl Kind {
    /// All, the ordinary ones first.
    pub const ALL: [Kind; 15] = [
        Kind::Text,
        Kind::SmallText,
        Kind::Answer,
        Kind::Datagram,
        Kind::Fragments,
        Kind::Arp,
        Kind::RandomText,
        Kind::FilledHoles,
        Kind::Holes,
        Kind::RandomBlocks,
        Kind::Duplicates,
        Kind::Reneging,
        Kind::TinyFragments,
        Kind::ArpFlood,
        Kind::SynFlood,
    ];

    /// Its name on the command line and in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::SmallText => "small-text",
            Kind::Answer => "answer",
            Kind::Datagram => "datagram",
            Kind::Fragments => "fragments",
            Kind::Arp => "arp",
            Kind::RandomText => "random-text",
            Kind::FilledHoles => "filled-holes",
            Kind::Holes => "holes",
            Kind::RandomBlocks => "random-blocks",
            Kind::Duplicates => "duplicates",
            Kind::Reneging => "reneging",
            Kind::TinyFragments => "tiny-fragments",
            Kind::ArpFlood => "arp-flood",
            Kind::SynFlood => "syn-flood",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The ordinary packets that a hostile one is compared with; none: it is ordinary itself.
    #[must_use]
    pub fn ordinary(self) -> Option<Kind> {
        match self {
            Kind::RandomText | Kind::FilledHoles | Kind::SynFlood => Some(Kind::Text),
            Kind::Holes | Kind::RandomBlocks | Kind::Duplicates | Kind::Reneging => {
                Some(Kind::Answer)
            }
            Kind::TinyFragments => Some(Kind::Fragments),
            Kind::ArpFlood => Some(Kind::Arp),
            _ => None,
        }
    }

    /// A host, and everything that comes before the packets that are counted.
    pub(super) fn prepare(self) -> Option<Victim> {
        match self {
            Kind::Arp | Kind::ArpFlood => Victim::new(Medium::Ethernet),
            Kind::Datagram | Kind::Fragments | Kind::TinyFragments | Kind::SynFlood => {
                Victim::new(Medium::Ip)
            }
            Kind::Holes | Kind::RandomBlocks | Kind::Duplicates | Kind::Reneging => {
                let mut v = Victim::connected()?;
                under_way(&mut v)?;
                holes(&mut v);
                Some(v)
            }
            Kind::RandomText => {
                let mut v = Victim::connected()?;
                (0..4 * HOLES).for_each(|_| self.packet(&mut v));
                Some(v)
            }
            _ => Victim::connected(),
        }
    }

    /// One packet.
    pub(super) fn packet(self, v: &mut Victim) {
        v.step = v.step.wrapping_add(1);
        match self {
            Kind::Text => in_order(v, 1448),
            Kind::SmallText => in_order(v, 1),
            Kind::Answer => {
                v.write(1460);
                v.acknowledge(1460, &[]);
            }
            Kind::Datagram => datagram(v),
            Kind::Fragments => fragments(v),
            Kind::Arp => ask(v, 7),
            Kind::ArpFlood => ask(v, v.step),
            Kind::RandomText => {
                let offset = 1 + below(v, WINDOW);
                v.text(offset, 1);
            }
            Kind::FilledHoles => fill(v),
            Kind::Holes => {
                let old = [0; 3].map(|_| old_block(v));
                v.acknowledge(STRIDE, &[new_block(), old[0], old[1], old[2]]);
            }
            Kind::RandomBlocks => {
                let blocks = [0; 4].map(|_| {
                    let left = 2 + below(v, FLIGHT - 10);
                    (left, left + 1)
                });
                v.acknowledge(0, &blocks);
            }
            Kind::Duplicates => match v.step % 2 {
                0 => v.acknowledge(STRIDE, &[new_block()]),
                _ => {
                    let old = [0; 3].map(|_| old_block(v));
                    v.acknowledge(0, &[(u32::MAX - 2, u32::MAX), old[0], old[1], old[2]]);
                }
            },
            Kind::Reneging => match v.step % 2 {
                0 => v.acknowledge(2, &[]),
                _ => {
                    let old = [0; 3].map(|_| old_block(v));
                    v.acknowledge(2, &[(1, 4), old[0], old[1], old[2]]);
                }
            },
            Kind::TinyFragments => tiny_fragment(v),
            Kind::SynFlood => v.syn(v.step),
        }
    }
}

fn below(v: &mut Victim, most: u32) -> u32 {
    v.rng.below(u64::from(most)) as u32
}

fn in_order(v: &mut Victim, len: usize) {
    v.text(0, len);
    v.seq = v.seq.wrapping_add(len as u32);
    v.read();
}

/// Much is sent and nothing acknowledged.
fn under_way(v: &mut Victim) -> Option<()> {
    // the window opens: everything is acknowledged, again and again
    for _ in 0..200 {
        (0..4).for_each(|_| v.write(60_000));
        let flight = v.in_flight();
        if flight >= FLIGHT {
            return Some(());
        }
        v.acknowledge(flight, &[]);
    }
    None
}

/// 1,000 blocks of one byte, and so many holes.
fn holes(v: &mut Victim) {
    for n in (0..HOLES).step_by(4) {
        let blocks = [0, 1, 2, 3].map(|k| block(n + k));
        v.acknowledge(0, &blocks);
    }
}

/// The block of a number: the first lies behind what is acknowledged and a hole.
fn block(n: u32) -> (u32, u32) {
    let left = 2 + STRIDE * n;
    (left, left + 1)
}

fn old_block(v: &mut Victim) -> (u32, u32) {
    let n = below(v, HOLES);
    block(n)
}

fn new_block() -> (u32, u32) {
    block(HOLES)
}

/// Bytes at every other place, then those between in a random order, the first last.
fn fill(v: &mut Victim) {
    let at = v.step % (2 * HOLES);
    match at {
        0 => {
            // the first: everything is in order
            v.text(0, 1);
            v.seq = v.seq.wrapping_add(2 * HOLES);
            v.read();
        }
        1..=HOLES => v.text(2 * at - 1, 1),
        // (a step that has no divisor in common with their number visits all)
        _ => v.text(2 * (1 + at * 617 % (HOLES - 1)), 1),
    }
}

fn datagram(v: &mut Victim) {
    let mut bytes = [0; 1480];
    header(&mut bytes, 1480);
    let packet = packet(IpProtocol::UDP, (1, 0, false), &bytes);
    v.arrives(&packet);
    v.read_datagram();
}

fn header(bytes: &mut [u8], length: u16) {
    let header = udp::Header {
        src_port: PORTS[1],
        dst_port: PORTS[0],
        length,
        checksum: 0,
    };
    let _ = header.emit(bytes);
}

fn fragments(v: &mut Victim) {
    const EACH: u32 = 1480;
    let count = u32::from(DATAGRAM).div_ceil(EACH);
    let (number, at) = (v.step / count, v.step % count);
    let len = EACH.min(u32::from(DATAGRAM) - at * EACH);
    let mut bytes = [0; EACH as usize];
    if at == 0 {
        header(&mut bytes, DATAGRAM);
    }
    let place = (number as u16, (at * EACH / 8) as u16, at + 1 < count);
    let packet = packet(IpProtocol::UDP, place, &bytes[..len as usize]);
    v.arrives(&packet);
    if at + 1 == count {
        v.read_datagram();
    }
}

fn tiny_fragment(v: &mut Victim) {
    let offset = 1 + below(v, 8000) as u16;
    let ident = (v.step / 2000) as u16;
    let packet = packet(IpProtocol::UDP, (ident, offset, true), &[1; 8]);
    v.arrives(&packet);
}

fn ask(v: &mut Victim, number: u32) {
    let [_, a, b, c] = number.to_be_bytes();
    let frame = question(MacAddr([2, 1, 0, a, b, c]), 0xc000_0300 + number);
    v.arrives(&frame);
}
