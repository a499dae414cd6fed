//! Whether the interface is switched on, as the kernel tells everybody who listens (rtnetlink(7)).
//! Programs read it in their memory: what is to leave by an interface that is off fails at once, as
//! the kernel's sockets have it, and not after TCP has tried in vain.

use gannet::settings::LinkChoice;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netdevice, netlink, recv, socket,
    socket_with,
};

/// `RTMGRP_LINK`.
const LINKS: u32 = 1;
const NEW_LINK: u16 = 16;
const DELETED_LINK: u16 = 17;
/// `struct nlmsghdr`, in front of every message; then `struct ifinfomsg`.
const HEADER: usize = 16;

/// The interface of the carrier's link.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    pub(crate) socket: OwnedFd,
    index: u32,
}

/// What became of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Up,
    Down,
    Deleted,
}

impl LinkWatch {
    /// None of a channel, which has no interface.
    ///
    /// # Errors
    /// When the kernel has no such sockets, or no interface of that name.
    pub(crate) fn new(link: &LinkChoice) -> Result<Option<LinkWatch>, Errno> {
        let (LinkChoice::Packet(name) | LinkChoice::Tap(name)) = link else {
            return Ok(None);
        };
        let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let index = netdevice::name_to_index(any, name)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &netlink::SocketAddrNetlink::new(0, LINKS))?;
        Ok(Some(LinkWatch { socket, index }))
    }

    /// Reads what the kernel told: whether the interface can be used now, if it said so.
    pub(crate) fn read(&self) -> Option<bool> {
        let mut bytes = [0u8; 16 << 10];
        let mut last = None;
        loop {
            match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((_, n)) => {
                    let text = bytes.get(..n).unwrap_or_default();
                    last = news(text, self.index).or(last);
                }
                // Something was lost: the next message tells.
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        last.map(|news| news == News::Up)
    }
}

/// The last that a datagram says of the interface `index`.
fn news(mut bytes: &[u8], index: u32) -> Option<News> {
    let mut last = None;
    while let Some((length, kind)) = word(bytes, 0).zip(word(bytes, 4)) {
        let length = length as usize;
        let message = bytes.get(HEADER..length).unwrap_or_default();
        let (about, flags) = (word(message, 4), word(message, 8));
        if about == Some(index) {
            let up = flags.is_some_and(|flags| flags & libc::IFF_UP as u32 != 0);
            last = match (kind as u16, up) {
                (NEW_LINK, true) => Some(News::Up),
                (NEW_LINK, false) => Some(News::Down),
                (DELETED_LINK, _) => Some(News::Deleted),
                _ => last,
            };
        }
        let next = length.max(HEADER).next_multiple_of(4);
        bytes = bytes.get(next..).unwrap_or_default();
    }
    last
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, index: u32, flags: u32) -> Vec<u8> {
        let words = [32, u32::from(kind), 0, 0, 0, index, flags, 0];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn messages_of_the_kernel() {
        let up = libc::IFF_UP as u32;
        for (messages, expected) in [
            (vec![message(NEW_LINK, 7, up)], Some(News::Up)),
            (vec![message(NEW_LINK, 7, 0)], Some(News::Down)),
            (vec![message(NEW_LINK, 8, 0)], None),
            (vec![message(DELETED_LINK, 7, up)], Some(News::Deleted)),
            (vec![message(20, 7, up)], None),
            (
                vec![
                    message(NEW_LINK, 7, 0),
                    message(NEW_LINK, 7, up),
                    message(NEW_LINK, 8, 0),
                ],
                Some(News::Up),
            ),
            (vec![vec![0; 40]], None),
            (vec![vec![0xff; 40]], None),
            (vec![message(NEW_LINK, 7, up)[..20].to_vec()], None),
        ] {
            assert_eq!(news(&messages.concat(), 7), expected, "{messages:?}");
        }
    }
}
