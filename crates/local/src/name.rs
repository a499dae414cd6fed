//! Names: how the processes of a network find each other.
//!
//! Abstract Unix socket names, so that nothing is left behind by a process that dies:
//! ```text
//! gannet/NETWORK/h/HOST                     the carrier of a program answers its processes here
//! gannet/NETWORK/g/HOST                     streams to the carrier: its way to everywhere else
//! gannet/NETWORK/l/FAMILY/ADDRESS/PORT/N    a listener; FAMILY is 4, 6 or d for both
//! gannet/NETWORK/c/HOST/SLOT/GENERATION     a stream's opening end: which slot is behind it
//! gannet/b/HOST/SLEEPER                     the bell of somebody who sleeps on many streams
//! ```

use crate::slot::SlotName;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::fmt::Write;
use std::net::IpAddr;

/// A network: those who know its name and have the same user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub u64);

impl Network {
    /// The network `name` of user `uid`.
    pub fn new(name: &str, uid: u32) -> Network {
        // FNV-1a, 64 bits: spreads, needs no secret.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in uid.to_le_bytes().iter().chain(name.as_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Network(hash)
    }
}

/// Which families a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4 only.
    Four,
    /// IPv6 only.
    Six,
    /// Both.
    Both,
}

impl Family {
    fn letter(self) -> &'static str {
        match self {
            Family::Four => "4",
            Family::Six => "6",
            Family::Both => "d",
        }
    }
}

/// Where a listener listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The loopback address, which all programs of the network have in common.
    Loopback,
    /// One address.
    At(IpAddr),
    /// All addresses of the program whose number this is.
    All(u64),
}

/// Listeners that share one port (`SO_REUSEPORT`), besides the first.
pub const SHARERS: u32 = 32;

/// Their numbers, in an order that `turn` chooses: of those that exist each is the first about
/// equally often, wherever in the row they stand. (From a place on in order, the first of four had
/// nine tenths of all connections: the gap behind the last led to it.)
pub fn sharers(turn: u32) -> impl Iterator<Item = u32> {
    // Multiplicative hash: ports follow each other.
    let hash = turn.wrapping_mul(0x9E37_79B1);
    let (start, stride) = (hash >> 27, hash >> 21 | 1);
    (0..SHARERS).map(move |n| 1 + n.wrapping_mul(stride).wrapping_add(start) % SHARERS)
}

/// A name while it is written: each connection needs some, so it is done without the allocator.
struct Text {
    bytes: [u8; LONGEST],
    len: usize,
}

/// Bytes of an abstract name.
const LONGEST: usize = 107;

impl Text {
    fn new() -> Text {
        Text {
            bytes: [0; LONGEST],
            len: 0,
        }
        .with("gannet")
    }

    fn of(network: Network) -> Text {
        Text::new().hex(network.0)
    }

    fn push(&mut self, text: &str) {
        let end = self.len.saturating_add(text.len());
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(text.as_bytes());
        }
        self.len = end;
    }

    fn with(mut self, text: &str) -> Text {
        self.push(text);
        self
    }

    /// One more part: text.
    fn part(self, text: &str) -> Text {
        self.with("/").with(text)
    }

    /// One more part: 16 digits.
    fn hex(self, number: u64) -> Text {
        let digit = |at: usize| b"0123456789abcdef"[(number >> (60 - 4 * at) & 15) as usize];
        let digits: [u8; 16] = std::array::from_fn(digit);
        self.part(std::str::from_utf8(&digits).unwrap_or_default())
    }

    /// One more part: a number as people write it.
    fn number(self, number: u32) -> Text {
        let mut digits = [b'0'; 10];
        let (mut at, mut left) = (digits.len(), number);
        while let Some(before) = at.checked_sub(1)
            && (left > 0 || at == digits.len())
        {
            digits[before] = b'0' + (left % 10) as u8;
            (at, left) = (before, left / 10);
        }
        self.part(std::str::from_utf8(&digits[at..]).unwrap_or_default())
    }

    fn name(&self) -> Result<SocketAddrUnix, Errno> {
        let text = self.bytes.get(..self.len).ok_or(Errno::NAMETOOLONG)?;
        SocketAddrUnix::new_abstract_name(text)
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.push(text);
        Ok(())
    }
}

/// Where the carrier of `host` answers.
///
/// # Errors
/// Never in practice: a name that is too long.
pub fn carrier(network: Network, host: u64) -> Result<SocketAddrUnix, Errno> {
    Text::of(network).part("h").hex(host).name()
}

/// Where the carrier of `host` takes streams.
///
/// # Errors
/// As [`carrier`].
pub fn gateway(network: Network, host: u64) -> Result<SocketAddrUnix, Errno> {
    Text::of(network).part("g").hex(host).name()
}

/// The bell of sleeper `watch` of the program `host`.
///
/// # Errors
/// As [`carrier`].
pub fn bell(host: u64, watch: u32) -> Result<SocketAddrUnix, Errno> {
    Text::new().part("b").hex(host).number(watch).name()
}

/// A listener, the `n`th of those who share the port.
///
/// # Errors
/// As [`carrier`].
pub fn listener(
    network: Network,
    family: Family,
    place: Place,
    port: u16,
    n: u32,
) -> Result<SocketAddrUnix, Errno> {
    let mut text = Text::of(network).part("l").part(family.letter()).part("");
    match place {
        Place::Loopback => text.push("lo"),
        // (of a few bytes at most: no error)
        Place::At(ip) => drop(write!(text, "{ip}")),
        Place::All(host) => drop(write!(text, "all-{host:016x}")),
    }
    text.number(port.into()).number(n).name()
}

/// The opening end of a stream.
///
/// # Errors
/// As [`carrier`].
pub fn connector(network: Network, slot: SlotName) -> Result<SocketAddrUnix, Errno> {
    Text::of(network)
        .part("c")
        .hex(slot.host)
        .number(slot.slot)
        .number(slot.generation)
        .name()
}

/// Reads what [`connector`] wrote; `None` for anything else.
pub fn read_connector(network: Network, name: &SocketAddrUnix) -> Option<SlotName> {
    let text = std::str::from_utf8(name.abstract_name()?).ok()?;
    let mut parts = text.split('/');
    let fits =
        parts.next() == Some("gannet") && parts.next().is_some() && parts.next() == Some("c");
    if !fits {
        return None;
    }
    let host = u64::from_str_radix(parts.next()?, 16).ok()?;
    let slot = parts.next()?.parse().ok()?;
    let generation = parts.next()?.parse().ok()?;
    let slot = SlotName {
        host,
        slot,
        generation,
    };
    // Spelt in one way only: the kernel lets nobody else have a name that is taken.
    let same = connector(network, slot).ok()?;
    (same.abstract_name() == name.abstract_name()).then_some(slot)
}

/// Whether `name` is a listener of this network.
pub fn is_listener(network: Network, name: &SocketAddrUnix) -> bool {
    let start = format!("gannet/{:016x}/l/", network.0);
    name.abstract_name()
        .is_some_and(|bytes| bytes.starts_with(start.as_bytes()))
}

/// The port of a listener's name.
pub fn listener_port(name: &SocketAddrUnix) -> Option<u16> {
    let text = std::str::from_utf8(name.abstract_name()?).ok()?;
    let mut parts = text.split('/').skip(2);
    let is_listener = parts.next() == Some("l");
    parts.nth(2)?.parse().ok().filter(|_| is_listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Network = Network(0xabc);

    #[test]
    fn sharers_have_about_as_many_connections_each() {
        for existing in [vec![1, 2], vec![1, 2, 3, 4], vec![2, 3, 9, 30]] {
            let mut first = [0; SHARERS as usize + 1];
            for port in 32_768..48_768 {
                let mut all: Vec<u32> = sharers(port).collect();
                let found = all.iter().find(|n| existing.contains(n)).unwrap();
                first[*found as usize] += 1;
                all.sort_unstable();
                assert!(all.into_iter().eq(1..=SHARERS), "each once");
            }
            let fair = 16_000 / existing.len();
            for n in &existing {
                let share = first[*n as usize];
                assert!(
                    (fair / 2..fair * 2).contains(&share),
                    "{n}: {share} of {fair}"
                );
            }
        }
    }

    #[test]
    fn names_are_as_the_table_says() {
        let network = Network(0xfedc_ba98_7654_3210);
        let slot = SlotName {
            host: u64::MAX,
            slot: 0,
            generation: u32::MAX,
        };
        let six = Place::At("fd00::1".parse().unwrap());
        let longest = Place::At("2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap());
        for (name, text) in [
            (carrier(network, 0x1f), "/h/000000000000001f"),
            (gateway(network, 0), "/g/0000000000000000"),
            (connector(network, slot), "/c/ffffffffffffffff/0/4294967295"),
            (
                listener(network, Family::Four, Place::Loopback, 80, 0),
                "/l/4/lo/80/0",
            ),
            (
                listener(network, Family::Six, six, 65535, 10),
                "/l/6/fd00::1/65535/10",
            ),
            (
                listener(network, Family::Both, Place::All(0xabc), 1, 32),
                "/l/d/all-0000000000000abc/1/32",
            ),
            (
                listener(network, Family::Six, longest, 65535, 32),
                "/l/6/2001:db8:1111:2222:3333:4444:5555:6666/65535/32",
            ),
        ] {
            let expected = format!("gannet/fedcba9876543210{text}");
            assert_eq!(name.unwrap().abstract_name(), Some(expected.as_bytes()));
        }
        let bell = bell(0x1f, 1023).unwrap();
        assert_eq!(
            bell.abstract_name(),
            Some(&b"gannet/b/000000000000001f/1023"[..])
        );
    }

    #[test]
    fn a_name_that_is_too_long_is_none() {
        let long = Text::new().part(&"x".repeat(LONGEST - 7));
        assert!(long.name().is_ok());
        let longer = Text::new().part(&"x".repeat(LONGEST - 6));
        assert_eq!(longer.part("y").name().err(), Some(Errno::NAMETOOLONG));
    }

    #[test]
    fn s4_a_stream_has_one_name() {
        let slot = SlotName {
            host: 0x1f,
            slot: 7,
            generation: 3,
        };
        let good = connector(NETWORK, slot).unwrap();
        assert_eq!(read_connector(NETWORK, &good), Some(slot));
        assert_eq!(read_connector(Network(1), &good), None);
        let n = "gannet/0000000000000abc";
        for bad in [
            format!("{n}/c/000000000000001f/+7/3"),
            format!("{n}/c/000000000000001f/07/3"),
            format!("{n}/c/+00000000000001f/7/3"),
            format!("{n}/c/1f/7/3"),
            format!("{n}/c/000000000000001F/7/3"),
            format!("{n}/c/000000000000001f/7/3/"),
            format!("{n}/c/000000000000001f/7/3/4"),
            format!("{n}/c/000000000000001f/7"),
            format!("{n}/c/000000000000001f/7/4294967296"),
            format!("{n}/c/000000000000001f/-7/3"),
            format!("{n}/h/000000000000001f/7/3"),
            format!("{n}/c"),
            "gannet".to_string(),
            "/".repeat(100),
            String::new(),
        ] {
            let name = SocketAddrUnix::new_abstract_name(bad.as_bytes()).unwrap();
            assert_eq!(read_connector(NETWORK, &name), None, "{bad}");
            assert_eq!(listener_port(&name), None, "{bad}");
        }
        let binary = SocketAddrUnix::new_abstract_name(b"gannet/\xff\0/l/4/lo/80/0").unwrap();
        assert_eq!(read_connector(NETWORK, &binary), None);
        assert!(!is_listener(NETWORK, &binary));
        let path = SocketAddrUnix::new("gannet/l").unwrap();
        assert_eq!(read_connector(NETWORK, &path), None);
        assert!(!is_listener(NETWORK, &path));
        assert_eq!(listener_port(&path), None);
    }

    #[test]
    fn the_port_of_a_listener_is_in_its_name() {
        let places = [
            Place::Loopback,
            Place::At("fd00::1".parse().unwrap()),
            Place::All(9),
        ];
        for place in places {
            for family in [Family::Four, Family::Six, Family::Both] {
                let name = listener(NETWORK, family, place, 8080, 32).unwrap();
                assert!(is_listener(NETWORK, &name));
                assert_eq!(listener_port(&name), Some(8080));
                assert_eq!(read_connector(NETWORK, &name), None);
            }
        }
    }
}
