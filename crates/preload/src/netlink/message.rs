//! Messages of rtnetlink(7): a request for addresses, and answers to it. All in the order of bytes
//! of this machine; lengths are not rounded up, places are (`NLMSG_ALIGN`).

use crate::interfaces::Own;
use std::net::IpAddr;

/// Ends an answer of several messages (linux/netlink.h).
const NLMSG_DONE: u16 = 3;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of a request that say what is asked for: with a whole `struct ifaddrmsg`.
pub(super) const REQUEST: usize = HEADER + 8;
/// As long as the kernel makes a datagram at least, where it needs several.
const USUAL: usize = 3776;

/// A request for all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) sequence: u32,
    /// 0 for all.
    pub(super) family: u8,
    /// 0 for all.
    pub(super) interface: u32,
}

/// An address to add, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) own: Own,
    pub(super) index: u32,
    pub(super) name: Vec<u8>,
    /// The interface has broadcasts.
    pub(super) broadcasts: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl Request {
    /// From the first message of what a program sends.
    pub(super) fn read(bytes: &[u8]) -> Option<Request> {
        let len = u32_at(bytes, 0)? as usize;
        let dumps = i32::from(u16_at(bytes, 6)?) & libc::NLM_F_DUMP != 0;
        let asks = dumps && u16_at(bytes, 4)? == libc::RTM_GETADDR;
        if !asks || len <= HEADER {
            return None;
        }
        Some(Request {
            sequence: u32_at(bytes, 8)?,
            family: *bytes.get(HEADER)?,
            // (shorter with a `struct rtgenmsg`)
            interface: match len >= REQUEST {
                true => u32_at(bytes, HEADER + 4)?,
                false => 0,
            },
        })
    }
}

/// The last datagram of an answer with addresses of the program before its end, as one or more.
#[derive(Debug)]
pub(super) struct Datagrams {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Datagrams {
    /// From the `kernel`'s datagram; `None` when the answer does not end in it, or there is nothing
    /// to add.
    pub(super) fn of(kernel: &[u8], request: &Request, own: &[Entry]) -> Option<Datagrams> {
        let (end, port) = end_of(kernel, request.sequence)?;
        if own.is_empty() {
            return None;
        }
        let (before, end) = kernel.split_at(end);
        let limit = kernel.len().max(USUAL);
        let mut all = Datagrams {
            bytes: before.to_vec(),
            ends: Vec::new(),
        };
        let added = own.iter().map(|own| message(own, request.sequence, port));
        for message in added.chain([end.to_vec()]) {
            let begun = all.bytes.len() - all.ends.last().unwrap_or(&0);
            if begun > 0 && begun + message.len() > limit {
                all.ends.push(all.bytes.len());
            }
            all.bytes.extend(message);
        }
        all.ends.push(all.bytes.len());
        Some(all)
    }

    /// One of them, and whether it is the last.
    pub(super) fn piece(&self, n: usize) -> Option<(&[u8], bool)> {
        let first = n.checked_sub(1).map_or(Some(&0), |n| self.ends.get(n))?;
        let bytes = self.bytes.get(*first..*self.ends.get(n)?)?;
        Some((bytes, n + 1 == self.ends.len()))
    }
}

/// Where the message stands that ends the answer, and the port that it names.
fn end_of(bytes: &[u8], sequence: u32) -> Option<(usize, u32)> {
    let mut at = 0;
    loop {
        let message = bytes.get(at..)?;
        let len = u32_at(message, 0)? as usize;
        let ends = u16_at(message, 4)? == NLMSG_DONE;
        if ends && u32_at(message, 8)? == sequence {
            return Some((at, u32_at(message, 12)?));
        }
        if len < HEADER {
            return None;
        }
        at = at.checked_add(len)?.checked_next_multiple_of(4)?;
    }
}

/// `RTM_NEWADDR`, as the kernel says it of an address that does not expire.
fn message(entry: &Entry, sequence: u32, port: u32) -> Vec<u8> {
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    const IFA_LABEL: u16 = 3;
    const IFA_BROADCAST: u16 = 4;
    const IFA_CACHEINFO: u16 = 6;
    const IFA_FLAGS: u16 = 8;
    const PERMANENT: u8 = 0x80;
    const RT_SCOPE_LINK: u8 = 253;
    let (own, mut bytes) = (entry.own, vec![0; HEADER]);
    let (family, scope) = match own.address {
        IpAddr::V4(_) => (libc::AF_INET, 0),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => (libc::AF_INET6, RT_SCOPE_LINK),
        IpAddr::V6(_) => (libc::AF_INET6, 0),
    };
    bytes.extend([family as u8, own.bits, PERMANENT, scope]);
    bytes.extend(entry.index.to_ne_bytes());
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    attribute(&mut bytes, IFA_ADDRESS, &octets(own.address));
    if own.address.is_ipv4() {
        attribute(&mut bytes, IFA_LOCAL, &octets(own.address));
        if let Some(broadcast) = own.broadcast().filter(|_| entry.broadcasts) {
            attribute(&mut bytes, IFA_BROADCAST, &octets(broadcast));
        }
        let name = [&entry.name[..], &[0]].concat();
        attribute(&mut bytes, IFA_LABEL, &name);
    }
    attribute(&mut bytes, IFA_FLAGS, &u32::from(PERMANENT).to_ne_bytes());
    // How long it is preferred and valid: for ever; made and changed: not known.
    let forever = [u32::MAX, u32::MAX, 0, 0].map(u32::to_ne_bytes);
    attribute(&mut bytes, IFA_CACHEINFO, forever.as_flattened());
    let len = bytes.len() as u32;
    let flags = libc::NLM_F_MULTI as u16;
    let header = [
        &len.to_ne_bytes()[..],
        &libc::RTM_NEWADDR.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &sequence.to_ne_bytes(),
        &port.to_ne_bytes(),
    ];
    if let Some(place) = bytes.get_mut(..HEADER) {
        place.copy_from_slice(&header.concat());
    }
    bytes
}

/// `struct rtattr` and its value, up to where the next one may begin.
fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = (4 + value.len()) as u16;
    to.extend(len.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Request = Request {
        sequence: 7,
        family: 0,
        interface: 0,
    };

    /// A message of `kind` and `len` bytes.
    fn plain(kind: u16, sequence: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len.next_multiple_of(4)];
        bytes[..4].copy_from_slice(&(len as u32).to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        bytes[12..16].copy_from_slice(&99u32.to_ne_bytes());
        bytes
    }

    fn entry(address: &str) -> Entry {
        Entry {
            own: Own {
                address: address.parse().unwrap(),
                bits: 24,
            },
            index: 3,
            name: b"veth0".to_vec(),
            broadcasts: true,
        }
    }

    /// Kinds and lengths of the messages of a datagram.
    fn messages(mut bytes: &[u8]) -> Vec<(u16, usize)> {
        let mut all = Vec::new();
        while let (Some(len), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
            assert!(len as usize >= HEADER && len as usize <= bytes.len());
            all.push((kind, len as usize));
            bytes = bytes
                .get((len as usize).next_multiple_of(4)..)
                .unwrap_or_default();
        }
        assert!(bytes.is_empty());
        all
    }

    const DONE: u16 = NLMSG_DONE;

    #[test]
    fn requests() {
        let mut bytes = plain(libc::RTM_GETADDR, 7, REQUEST);
        bytes[16] = libc::AF_INET as u8;
        bytes[20..].copy_from_slice(&5u32.to_ne_bytes());
        assert_eq!(Request::read(&bytes), None, "of one address");
        bytes[6..8].copy_from_slice(&(libc::NLM_F_DUMP as u16 | 1).to_ne_bytes());
        let asked = Request::read(&bytes).unwrap();
        assert_eq!((asked.sequence, asked.family, asked.interface), (7, 2, 5));
        // `struct rtgenmsg` has the family alone
        bytes[..4].copy_from_slice(&17u32.to_ne_bytes());
        assert_eq!(Request::read(&bytes[..17]).unwrap().interface, 0);
        for cut in 0..17 {
            assert_eq!(Request::read(&bytes[..cut]), None, "{cut}");
        }
        bytes[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
        assert_eq!(Request::read(&bytes), None);
    }

    #[test]
    fn addresses_stand_before_the_end() {
        let kernel = [plain(20, 7, 30), plain(DONE, 7, 20)].concat();
        let own = [entry("10.1.2.3"), entry("fd00::1")];
        let all = Datagrams::of(&kernel, &ASKED, &own).unwrap();
        let (piece, is_last) = all.piece(0).unwrap();
        assert!(is_last && all.piece(1).is_none());
        assert_eq!(messages(piece), [(20, 30), (20, 88), (20, 72), (3, 20)]);
        let of_four = &piece[32..];
        assert_eq!(of_four[16..20], [2, 24, 0x80, 0]);
        assert_eq!(u32_at(of_four, 12), Some(99), "the end's port");
        assert_eq!(of_four[24..32], [8, 0, 1, 0, 10, 1, 2, 3]);
    }

    #[test]
    fn many_make_several_datagrams() {
        let kernel = [plain(20, 7, 3000), plain(DONE, 7, 20)].concat();
        let own = vec![entry("10.1.2.3"); 60];
        let all = Datagrams::of(&kernel, &ASKED, &own).unwrap();
        let pieces: Vec<_> = (0..).map_while(|n| all.piece(n)).collect();
        assert_eq!(pieces.len(), 3);
        assert!(pieces.iter().all(|(piece, _)| piece.len() <= USUAL));
        let last: Vec<_> = pieces.iter().map(|piece| piece.1).collect();
        assert_eq!(last, [false, false, true]);
        let whole: Vec<_> = pieces.iter().flat_map(|piece| messages(piece.0)).collect();
        assert_eq!((whole.len(), whole.last()), (62, Some(&(3, 20))));
    }

    #[test]
    fn answers_that_are_others_or_nonsense_stay_as_they_are() {
        let own = [entry("10.1.2.3")];
        let of = |bytes: &[u8]| Datagrams::of(bytes, &ASKED, &own).is_some();
        assert!(!of(&plain(DONE, 8, 20)), "another request's");
        assert!(!of(&plain(20, 7, 40)), "goes on");
        let good = plain(DONE, 7, 20);
        assert!(of(&good) && Datagrams::of(&good, &ASKED, &[]).is_none());
        for cut in 0..16 {
            assert!(!of(&good[..cut]), "{cut}");
        }
        for len in [0u32, 3, 15, u32::MAX] {
            let mut bytes = [plain(20, 7, 40), good.clone()].concat();
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            assert!(!of(&bytes), "{len}");
        }
    }
}
