//! A stream of records joined to a UDP socket: see [`gannet_local::datagram`].

use crate::flow::{Around, End, Next};
use gannet::{Host, Interest, Poller, UdpSocket, os_code};
use gannet_local::datagram::{HEADER, Header, LONGEST, What};
use gannet_local::slot::PeerSlot;
use gannet_local::{Hindrance, Opt, meet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Most datagrams one way in one look.
const BUDGET: usize = 256;
/// Bytes that a look at a flow needs room for.
pub(crate) const SCRATCH: usize = HEADER + LONGEST;

/// See the module.
#[derive(Debug)]
pub(crate) struct Udp {
    udp: UdpSocket,
    token: u64,
    interest: Option<Interest>,
    /// The poller says that there is something to read.
    readable: bool,
    /// The socket has no room for what the program sends.
    blocked: bool,
    options: u32,
}

impl Udp {
    /// Binds a socket for the program's; welcomes it.
    pub(crate) fn open(host: &Host, end: &End, around: &mut Around<'_>) -> Result<Udp, i32> {
        let own = around.own.own(end.slot);
        // The other end's: see `meet::accept`.
        let (wanted, peer) = (own.remote(), own.local());
        let shares = |peer: PeerSlot<'_>| peer.is_on(Opt::ReuseAddr) || peer.is_on(Opt::ReusePort);
        let only_six = |peer: PeerSlot<'_>| peer.is_on(Opt::V6Only);
        let shared = end.peer(around).is_some_and(shares);
        let bound = match (shared, end.peer(around).is_some_and(only_six)) {
            (false, false) => UdpSocket::bind(host, wanted),
            (false, true) => UdpSocket::bind_only_v6(host, wanted),
            (true, false) => UdpSocket::bind_shared(host, wanted),
            (true, true) => UdpSocket::bind_shared_only_v6(host, wanted),
        };
        let opened = bound.and_then(|udp| {
            udp.set_nonblocking(true)?;
            if peer.port() != 0 {
                udp.connect(peer)?;
            }
            let local = udp.local_addr()?;
            Ok((udp, local))
        });
        let (udp, local) = opened.map_err(|error| code(&error))?;
        own.set_remote(meet::plain(local));
        let _ = meet::say_yes(&end.fd, own.name());
        Ok(Udp {
            udp,
            token: u64::from(end.slot),
            interest: None,
            readable: false,
            blocked: false,
            options: 0,
        })
    }

    /// The poller says that there is something to read.
    pub(crate) fn is_readable(&mut self) {
        self.readable = true;
    }

    /// Moves what can be moved.
    pub(crate) fn look(&mut self, end: &End, around: &mut Around<'_>) -> Next {
        self.heed_options(end, around);
        let more_in = self.inward(end, around);
        let more_out = match self.outward(end, around) {
            Ok(more) => more,
            Err(abort) => {
                end.stream(around).close(abort);
                return Next::Over;
            }
        };
        let blocked = self.blocked.then_some(Interest::WRITABLE);
        let interest = blocked.map_or(Interest::READABLE, |also| also | Interest::READABLE);
        self.want(around.poller, interest);
        match more_in | more_out {
            true => Next::Again,
            false => Next::Wait,
        }
    }

    /// From the network to the program. What it has no room for is dropped, as the kernel does.
    fn inward(&mut self, end: &End, around: &mut Around<'_>) -> bool {
        if !self.readable {
            return false;
        }
        for _ in 0..BUDGET {
            let record = match self.udp.recv_from(around.scratch) {
                Ok((len, from)) => {
                    let head = Header::data(meet::plain(from), len).pack();
                    let body = around.scratch.get(..len).unwrap_or_default();
                    end.stream(around).send_record(&head, body)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return false;
                }
                Err(error) => {
                    let peer = self.udp.peer_addr().unwrap_or(nobody());
                    let head = Header::error(meet::plain(peer), code(&error)).pack();
                    end.stream(around).send_record(&head, &[])
                }
            };
            if record == Err(Hindrance::Wait) {
                *around.dropped += 1;
            }
        }
        true
    }

    /// From the program to the network. The stream's end as an error: whether it breaks off.
    fn outward(&mut self, end: &End, around: &mut Around<'_>) -> Result<bool, bool> {
        let stream = end.stream(around);
        self.blocked = false;
        for _ in 0..BUDGET {
            let there = match stream.receive_slice(around.scratch, true) {
                Ok(there) => there,
                Err(Hindrance::Wait) => return Ok(false),
                Err(Hindrance::End) => return Err(false),
                Err(Hindrance::Reset | Hindrance::File(_)) => return Err(true),
            };
            let bytes = around.scratch.get(..there).unwrap_or_default();
            let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else {
                // Records are sent whole: half a header is nonsense.
                return Err(true);
            };
            let header = Header::unpack(head).ok_or(true)?;
            let body = rest.get(..header.len as usize).ok_or(true)?;
            match self.act(header, body) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(false);
                }
                Err(error) => {
                    let head = Header::error(header.address, code(&error)).pack();
                    let _ = stream.send_record(&head, &[]);
                }
                Ok(()) => {}
            }
            let _ = stream.skip(HEADER + header.len as usize);
        }
        Ok(true)
    }

    fn act(&self, header: Header, body: &[u8]) -> io::Result<()> {
        let to = header.address;
        match header.what {
            What::Data if to.port() == 0 => self.udp.send(body).map(drop),
            What::Data => self.udp.send_to(body, to).map(drop),
            What::Connect if to.port() == 0 => self.udp.disconnect(),
            What::Connect => self.udp.connect(to),
            What::Join => match to.ip() {
                IpAddr::V4(group) => self.udp.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(group) => self.udp.join_multicast_v6(&group, header.code),
            },
            What::Leave => match to.ip() {
                IpAddr::V4(group) => self.udp.leave_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(group) => self.udp.leave_multicast_v6(&group, header.code),
            },
            // Programs do not tell of errors.
            What::Error => Ok(()),
        }
    }

    fn want(&mut self, poller: &Poller, interest: Interest) {
        if self.interest == Some(interest) {
            return;
        }
        // These fail only for sockets of other hosts, and as `interest` rules out.
        let _ = match self.interest {
            None => poller.add(&self.udp, self.token, interest),
            Some(_) => poller.modify(&self.udp, self.token, interest),
        };
        self.interest = Some(interest);
    }

    fn heed_options(&mut self, end: &End, around: &Around<'_>) {
        let Some(peer) = end.peer(around) else {
            return;
        };
        let turn = peer.options_turn();
        if turn == self.options {
            return;
        }
        self.options = turn;
        // A value out of range is the program's business: the option stays as it was.
        let _ = set_options(&self.udp, peer);
    }
}

fn set_options(udp: &UdpSocket, peer: PeerSlot<'_>) -> io::Result<()> {
    if let Some(on) = peer.get(Opt::Broadcast) {
        udp.set_broadcast(on != 0)?;
    }
    if let Some(ttl) = peer.get(Opt::Ttl).filter(|ttl| (1..=255).contains(ttl)) {
        udp.set_ttl(ttl)?;
    }
    if let Some(tos) = peer.get(Opt::Tos) {
        udp.set_tos(tos as u8)?;
    }
    if let Some(bytes) = peer.get(Opt::ReceiveBuffer) {
        udp.set_receive_buffer(bytes)?;
    }
    if let Some(bytes) = peer.get(Opt::SendBuffer) {
        udp.set_send_buffer(bytes)?;
    }
    Ok(())
}

fn nobody() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)
}

fn code(error: &io::Error) -> i32 {
    os_code(error).unwrap_or(libc::EIO)
}
