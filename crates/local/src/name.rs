//! Names: how the processes of a network find each other.
//!
//! What is connected to has a name in the network's directory, which other users cannot enter:
//! ```text
//! h-HOST                          the carrier of a program answers its processes here
//! g-HOST                          streams to the carrier: its way to everywhere else
//! l-FAMILY-ADDRESS-PORT-N         a listener; FAMILY is 4, 6 or d for both
//! s-FAMILY-ADDRESS-PORT           is there while several listeners share a port
//! a-ADDRESS-HOST                  is there while a program has an address
//! ```
//! Others are abstract, so that nothing is left behind; there nothing is believed by its name:
//! ```text
//! gannet/h/HOST                   the same carrier, for processes that do not reach the directory
//! gannet/c/HOST/SLOT/GENERATION/NONCE  a stream's opening end: which slot is behind it
//! gannet/b/HOST/SLEEPER           the bell of a process that sleeps on many streams
//! ```

use crate::network::Network;
use crate::slot::SlotName;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

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
    /// All loopback addresses, which the programs of the network have in common: those of wildcard
    /// listeners.
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
#[derive(Clone, Copy)]
pub(crate) struct Text {
    bytes: [u8; PATH_MAX],
    len: usize,
}

/// Bytes of an address: of an abstract name, or of a path.
pub(crate) const PATH_MAX: usize = 107;
/// Bytes of a name in a network's directory, at most.
pub(crate) const NAME_MAX: usize = 52;

impl Text {
    fn new() -> Text {
        Text::EMPTY.with("gannet")
    }

    const EMPTY: Text = Text {
        bytes: [0; PATH_MAX],
        len: 0,
    };

    /// A name in the directory of `network`.
    fn of(network: &Network, kind: &str) -> Text {
        let mut text = Text::EMPTY;
        text.push_bytes(network.path());
        text.with("/").with(kind)
    }

    fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    fn push_bytes(&mut self, text: &[u8]) {
        let end = self.len.saturating_add(text.len());
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(text);
        }
        self.len = end;
    }

    fn with(mut self, text: &str) -> Text {
        self.push(text);
        self
    }

    /// 16 digits.
    fn hex(self, number: u64) -> Text {
        let digit = |at: usize| b"0123456789abcdef"[(number >> (60 - 4 * at) & 15) as usize];
        let digits: [u8; 16] = std::array::from_fn(digit);
        self.with(std::str::from_utf8(&digits).unwrap_or_default())
    }

    /// A number in decimal.
    fn number(self, number: u32) -> Text {
        let mut digits = [b'0'; 10];
        let (mut at, mut left) = (digits.len(), number);
        while let Some(before) = at.checked_sub(1)
            && (left > 0 || at == digits.len())
        {
            digits[before] = b'0' + (left % 10) as u8;
            (at, left) = (before, left / 10);
        }
        self.with(std::str::from_utf8(&digits[at..]).unwrap_or_default())
    }

    fn bytes(&self) -> Result<&[u8], Errno> {
        self.bytes.get(..self.len).ok_or(Errno::NAMETOOLONG)
    }

    fn name(&self) -> Result<SocketAddrUnix, Errno> {
        SocketAddrUnix::new_abstract_name(self.bytes()?)
    }

    fn path(&self) -> Result<SocketAddrUnix, Errno> {
        SocketAddrUnix::new(self.bytes()?)
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
pub fn carrier(network: &Network, host: u64) -> Result<SocketAddrUnix, Errno> {
    Text::of(network, "h-").hex(host).path()
}

/// Where the carrier of `host` answers processes that do not reach the network's directory.
///
/// # Errors
/// As [`carrier`].
pub fn carrier_for_all(host: u64) -> Result<SocketAddrUnix, Errno> {
    Text::new().with("/h/").hex(host).name()
}

/// Where the carrier of `host` takes streams.
///
/// # Errors
/// As [`carrier`].
pub fn gateway(network: &Network, host: u64) -> Result<SocketAddrUnix, Errno> {
    Text::of(network, "g-").hex(host).path()
}

/// What is there while the program `host` has the address `ip`.
pub(crate) fn claim(network: &Network, ip: IpAddr, host: u64) -> Result<SocketAddrUnix, Errno> {
    let mut text = Text::of(network, "a-");
    // (of a few bytes at most: no error)
    let _ = write!(text, "{:x}", bits(ip));
    text.with("-").hex(host).path()
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

/// The bell of sleeper `watch` of the program `host`.
///
/// # Errors
/// As [`carrier`].
pub fn bell(host: u64, watch: u32) -> Result<SocketAddrUnix, Errno> {
    let text = Text::new().with("/b/").hex(host);
    text.with("/").number(watch).name()
}

/// A listener, the `n`th of those who share the port.
///
/// # Errors
/// As [`carrier`].
pub fn listener(
    network: &Network,
    family: Family,
    place: Place,
    port: u16,
    n: u32,
) -> Result<SocketAddrUnix, Errno> {
    stem(family, place, port).listener(network, n)
}

/// What the names of all listeners at one place begin with.
pub(crate) fn stem(family: Family, place: Place, port: u16) -> Stem {
    let mut text = Text::EMPTY.with("l-").with(family.letter()).with("-");
    match place {
        Place::Loopback => text.push("lo"),
        // (of a few bytes at most: no error)
        Place::At(ip) => {
            let _ = write!(text, "{ip}");
        }
        Place::All(host) => text = text.with("all.").hex(host),
    }
    Stem(text.with("-").number(port.into()))
}

/// See [`stem`].
#[derive(Clone, Copy)]
pub(crate) struct Stem(Text);

impl Stem {
    /// Of the name of a listener.
    pub(crate) fn of(name: &str) -> Option<Stem> {
        let (stem, _) = name.rsplit_once('-').filter(|_| is_listener_name(name))?;
        Some(Stem(Text::EMPTY.with(stem)))
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.0.bytes().unwrap_or_default()).unwrap_or_default()
    }

    /// The name of the `n`th listener.
    pub(crate) fn listener(&self, network: &Network, n: u32) -> Result<SocketAddrUnix, Errno> {
        Text::of(network, self.as_str()).with("-").number(n).path()
    }

    /// The name of the file that is there while listeners share the place.
    pub(crate) fn marker(&self, network: &Network) -> Result<SocketAddrUnix, Errno> {
        let rest = self.as_str().strip_prefix('l').unwrap_or_default();
        Text::of(network, "s").with(rest).path()
    }
}

/// Whether `text` is the name of a listener, as it lies in a network's directory.
pub(crate) fn is_listener_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
    let of_listener = text.starts_with("l-") && text.len() <= NAME_MAX && text.chars().all(plain);
    of_listener && port_of(text).is_some()
}

fn port_of(name: &str) -> Option<u16> {
    let (rest, _) = name.strip_prefix("l-")?.rsplit_once('-')?;
    rest.rsplit_once('-')?.1.parse().ok()
}

/// The names at which listeners share a place, by these numbers: none where no listener does.
fn sharers_at<I: Iterator<Item = u32>>(
    network: Network,
    stem: Stem,
    numbers: impl Fn() -> I,
) -> impl Iterator<Item = SocketAddrUnix> {
    let is_shared = stem.marker(&network).is_ok_and(|marker| exists(&marker));
    let numbers = is_shared.then(numbers).into_iter().flatten();
    numbers.filter_map(move |n| stem.listener(&network, n).ok())
}

/// Whether a name is there; also when this process cannot tell.
pub(crate) fn exists(name: &SocketAddrUnix) -> bool {
    let path = name.path_bytes().unwrap_or_default();
    rustix::fs::stat(path).err() != Some(Errno::NOENT)
}

/// The names at these places, first those of listeners that have a place for themselves, then those
/// that share it, by these numbers.
pub fn names_at<I: Iterator<Item = u32>>(
    network: Network,
    places: impl Iterator<Item = (Family, Place)>,
    port: u16,
    numbers: impl Fn() -> I + Clone,
) -> impl Iterator<Item = SocketAddrUnix> {
    places.flat_map(move |(family, place)| {
        let stem = stem(family, place, port);
        let alone = stem.listener(&network, 0).ok();
        let numbers = numbers.clone();
        // (whether there are others is looked at once this one was tried)
        let shared = std::iter::once_with(move || sharers_at(network, stem, numbers)).flatten();
        alone.into_iter().chain(shared)
    })
}

/// What a stream connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A listener of the network's for connections to this address.
    Listener {
        /// The address.
        to: SocketAddr,
        /// The program whose wildcard listeners come first: it has the address.
        host: u64,
        /// Of several that share the port, others are the first each time.
        turn: u32,
    },
    /// The carrier of this program.
    Gateway(u64),
}

impl Target {
    /// Its names, in the order in which they are to be tried.
    pub fn names(self, network: Network) -> impl Iterator<Item = SocketAddrUnix> {
        let (listener, gateway) = match self {
            Target::Listener { to, host, turn } => {
                (Some((places_of(to, host), to.port(), turn)), None)
            }
            Target::Gateway(host) => (None, gateway(&network, host).ok()),
        };
        let names = listener
            .map(|(places, port, turn)| names_at(network, places, port, move || sharers(turn)));
        names.into_iter().flatten().chain(gateway)
    }
}

/// Where a listener for connections to `to` may be, the narrowest place first, as the kernel looks
/// for them.
fn places_of(to: SocketAddr, host: u64) -> impl Iterator<Item = (Family, Place)> {
    let family = match to {
        SocketAddr::V4(_) => Family::Four,
        SocketAddr::V6(_) => Family::Six,
    };
    let own = (host != 0).then_some(Place::All(host));
    let everywhere = to.ip().is_loopback().then_some(Place::Loopback);
    let wide = own.into_iter().chain(everywhere);
    let wide = wide.flat_map(move |place| [(family, place), (Family::Both, place)]);
    std::iter::once((family, Place::At(to.ip()))).chain(wide)
}

/// The opening end of a stream. `nonce` is random and stands in the slot: so no other process has
/// taken the name before, and only the end that the slot is of has one with it.
///
/// # Errors
/// As [`carrier`].
pub fn connector(slot: SlotName, nonce: u64) -> Result<SocketAddrUnix, Errno> {
    let text = Text::new().with("/c/").hex(slot.host);
    let text = text.with("/").number(slot.slot);
    let text = text.with("/").number(slot.generation);
    text.with("/").hex(nonce).name()
}

/// Reads what [`connector`] wrote; `None` for anything else.
pub fn read_connector(name: &SocketAddrUnix) -> Option<(SlotName, u64)> {
    let text = std::str::from_utf8(name.abstract_name()?).ok()?;
    let mut parts = text.strip_prefix("gannet/c/")?.split('/');
    let host = u64::from_str_radix(parts.next()?, 16).ok()?;
    let slot = parts.next()?.parse().ok()?;
    let generation = parts.next()?.parse().ok()?;
    let nonce = u64::from_str_radix(parts.next()?, 16).ok()?;
    let slot = SlotName {
        host,
        slot,
        generation,
    };
    // Spelt in one way only: the kernel lets no other socket have a name that is taken.
    let same = connector(slot, nonce).ok()?;
    (same.abstract_name() == name.abstract_name()).then_some((slot, nonce))
}

/// What `name` is called in the directory of `network`, if it lies there.
pub(crate) fn name_in<'a>(network: &Network, name: &'a SocketAddrUnix) -> Option<&'a str> {
    let path = name.path_bytes()?;
    let rest = path.strip_prefix(network.path())?.strip_prefix(b"/")?;
    std::str::from_utf8(rest).ok()
}

/// Whether `name` is a listener of this network.
pub fn is_listener(network: &Network, name: &SocketAddrUnix) -> bool {
    name_in(network, name).is_some_and(is_listener_name)
}

/// The port of a listener's name.
pub fn listener_port(name: &SocketAddrUnix) -> Option<u16> {
    let path = std::str::from_utf8(name.path_bytes()?).ok()?;
    port_of(path.rsplit_once('/')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        Network::at(b"/run/user/1000/gannet/.0123456789abcdef", 1000, 0).unwrap()
    }

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
        let slot = SlotName {
            host: u64::MAX,
            slot: 0,
            generation: u32::MAX,
        };
        let network = &network();
        let six = Place::At("fd00::1".parse().unwrap());
        let longest = Place::At("2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap());
        for (name, text) in [
            (carrier(network, 0x1f), "h-000000000000001f"),
            (gateway(network, 0), "g-0000000000000000"),
            (
                listener(network, Family::Four, Place::Loopback, 80, 0),
                "l-4-lo-80-0",
            ),
            (
                listener(network, Family::Six, six, 65535, 10),
                "l-6-fd00::1-65535-10",
            ),
            (
                listener(network, Family::Both, Place::All(0xabc), 1, 32),
                "l-d-all.0000000000000abc-1-32",
            ),
            (
                listener(network, Family::Six, longest, 65535, 32),
                "l-6-2001:db8:1111:2222:3333:4444:5555:6666-65535-32",
            ),
        ] {
            let name = name.unwrap();
            let expected = format!("/run/user/1000/gannet/.0123456789abcdef/{text}");
            assert_eq!(name.path_bytes(), Some(expected.as_bytes()));
            assert_eq!(name_in(network, &name), Some(text));
            assert!(text.len() <= NAME_MAX, "{text}");
        }
        for (name, text) in [
            (carrier_for_all(0x1f), "gannet/h/000000000000001f"),
            (bell(0x1f, 1023), "gannet/b/000000000000001f/1023"),
            (
                connector(slot, 0xab),
                "gannet/c/ffffffffffffffff/0/4294967295/00000000000000ab",
            ),
        ] {
            assert_eq!(name.unwrap().abstract_name(), Some(text.as_bytes()));
        }
    }

    #[test]
    fn the_narrowest_listener_comes_first_and_another_loopback_address_is_another_place() {
        let network = network();
        let names = |to: &str, host| -> Vec<String> {
            let to = to.parse().unwrap();
            let target = Target::Listener { to, host, turn: 3 };
            let names = target.names(network);
            names
                .map(|name| name_in(&network, &name).unwrap().to_owned())
                .collect()
        };
        let two = ["l-4-127.0.0.2-80-0", "l-4-lo-80-0", "l-d-lo-80-0"];
        assert_eq!(names("127.0.0.2:80", 0), two);
        let own = "l-6-all.0000000000000009-80-0";
        let both = "l-d-all.0000000000000009-80-0";
        assert_eq!(names("[fd00::1]:80", 9), ["l-6-fd00::1-80-0", own, both]);
        assert_eq!(names("10.0.0.1:80", 0), ["l-4-10.0.0.1-80-0"]);
    }

    #[test]
    fn a_name_that_is_too_long_is_none() {
        let long = Text::new().with(&"x".repeat(PATH_MAX - 6));
        assert!(long.name().is_ok() && long.path().is_ok());
        let longer = Text::new().with(&"x".repeat(PATH_MAX - 5)).with("y");
        assert_eq!(longer.name().err(), Some(Errno::NAMETOOLONG));
        assert_eq!(longer.path().err(), Some(Errno::NAMETOOLONG));
    }

    #[test]
    fn s4_a_stream_has_one_name() {
        let slot = SlotName {
            host: 0x1f,
            slot: 7,
            generation: 3,
        };
        let good = connector(slot, 5).unwrap();
        assert_eq!(read_connector(&good), Some((slot, 5)));
        let (network, n) = (network(), "gannet");
        let nonce = "0000000000000005";
        for bad in [
            format!("{n}/c/000000000000001f/+7/3/{nonce}"),
            format!("{n}/c/000000000000001f/07/3/{nonce}"),
            format!("{n}/c/+00000000000001f/7/3/{nonce}"),
            format!("{n}/c/1f/7/3/{nonce}"),
            format!("{n}/c/000000000000001F/7/3/{nonce}"),
            format!("{n}/c/000000000000001f/7/3/5"),
            format!("{n}/c/000000000000001f/7/3/{nonce}/"),
            format!("{n}/c/000000000000001f/7/3/{nonce}/4"),
            format!("{n}/c/000000000000001f/7/3"),
            format!("{n}/c/000000000000001f/7/4294967296/{nonce}"),
            format!("{n}/c/000000000000001f/-7/3/{nonce}"),
            format!("{n}/h/000000000000001f/7/3/{nonce}"),
            format!("{n}/c"),
            "gannet".to_string(),
            "/".repeat(100),
            String::new(),
        ] {
            let name = SocketAddrUnix::new_abstract_name(bad.as_bytes()).unwrap();
            assert_eq!(read_connector(&name), None, "{bad}");
            assert_eq!(listener_port(&name), None, "{bad}");
        }
        let binary = SocketAddrUnix::new_abstract_name(b"gannet/\xff\0/l/4/lo/80/0").unwrap();
        assert_eq!(read_connector(&binary), None);
        assert!(!is_listener(&network, &binary));
        let path = SocketAddrUnix::new("gannet/l").unwrap();
        assert_eq!(read_connector(&path), None);
        assert!(!is_listener(&network, &path));
        assert_eq!(listener_port(&path), None);
    }

    #[test]
    fn s4_names_that_lead_elsewhere_are_none_of_a_listeners() {
        for bad in [
            "l-4-lo-80",
            "l-4-lo-80-0/../h-1",
            "l-../../x-80-0",
            "l-4-lo-x-0",
            "h-0000000000000001",
            "",
            &format!("l-{}-80-0", "4".repeat(60)),
        ] {
            assert!(!is_listener_name(bad), "{bad}");
        }
        assert!(is_listener_name("l-6-fd00::1-65535-10"));
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
                let name = listener(&network(), family, place, 8080, 32).unwrap();
                assert!(is_listener(&network(), &name));
                assert_eq!(listener_port(&name), Some(8080));
                assert_eq!(read_connector(&name), None);
            }
        }
    }
}
