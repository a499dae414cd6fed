//! smoltcp (<https://docs.rs/smoltcp>) as both ends of a TCP stream.
//!
//! At its best: Internet packets without Ethernet, no checksums (the device says it has them), no
//! delayed acknowledgement, no congestion control, buffers that fit in a second-level cache, and
//! packet memory that is used again and again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::time::Instant as Clocktime;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use super::tally::{self, Tally};
use crate::error::Problem;
use crate::pattern;
use crate::role::{Load, Report};

const BUFFER: usize = 128 * 1024;
const PORT: u16 = 7_000;

/// Sends a stream from one socket to another over packets of at most `mtu` bytes.
///
/// # Errors
/// When the stack refuses, stands still or delivers a wrong byte.
pub fn stream(load: &Load, mtu: usize) -> Result<Report, Problem> {
    let mut host = Pair::connect(mtu)?;
    let mut message = vec![0; load.size.max(1)];
    let mut buffer = vec![0; load.size.max(64 * 1024)];
    pattern::fill(0, &mut message);
    let (mut written, mut offset) = (0u64, 0);
    let mut tally = Tally::start(load);
    loop {
        while host.client().can_send() {
            if load.verify && offset == 0 {
                pattern::fill(written, &mut message);
            }
            let rest = message.get(offset..).unwrap_or_default();
            let count = host.client().send_slice(rest).map_err(broken)?;
            written += count as u64;
            offset = (offset + count) % message.len();
        }
        host.poll();
        while host.server().can_recv() {
            let count = host.server().recv_slice(&mut buffer).map_err(broken)?;
            tally.received(count, &buffer).map_err(broken)?;
        }
        if tally.is_over().map_err(broken)? {
            return Ok(tally.report());
        }
    }
}

/// The same with the bytes written and read where the sockets keep them (the first of each piece
/// only, or all when they are verified): what the stack itself copies on the way is left.
///
/// # Errors
/// As [`stream`].
pub fn stream_in_place(load: &Load) -> Result<Report, Problem> {
    let mut host = Pair::connect(65_535)?;
    let mut written = 0u64;
    let looked_at = if load.verify { usize::MAX } else { 64 };
    let mut seen = vec![0; BUFFER];
    let mut tally = Tally::start(load);
    loop {
        while host.client().can_send() {
            let fill = |room: &mut [u8]| {
                let len = room.len().min(load.size.max(1));
                let place = room.get_mut(..len.min(looked_at)).unwrap_or_default();
                pattern::fill(written, place);
                (len, len)
            };
            written += host.client().send(fill).map_err(broken)? as u64;
        }
        host.poll();
        while host.server().can_recv() {
            let look = |bytes: &mut [u8]| {
                let head = bytes.get(..bytes.len().min(looked_at)).unwrap_or_default();
                if let Some(space) = seen.get_mut(..head.len()) {
                    space.copy_from_slice(head);
                }
                (bytes.len(), bytes.len())
            };
            let count = host.server().recv(look).map_err(broken)?;
            tally.received(count, &seen).map_err(broken)?;
        }
        if tally.is_over().map_err(broken)? {
            return Ok(tally.report());
        }
    }
}

fn broken(why: impl fmt::Display) -> Problem {
    tally::broken("smoltcp", why, "leave it out: --link channel")
}

/// One interface with two sockets that are connected with each other.
struct Pair {
    interface: Interface,
    device: Memory,
    sockets: SocketSet<'static>,
    client: SocketHandle,
    server: SocketHandle,
    started: Clocktime,
}

impl Pair {
    fn connect(mtu: usize) -> Result<Self, Problem> {
        let mut device = Memory {
            mtu,
            packets: RefCell::default(),
        };
        let config = Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        let address = IpAddress::v4(127, 0, 0, 1);
        interface.update_ip_addrs(|addresses| {
            // There is room for two; this is the first.
            let _ = addresses.push(IpCidr::new(address, 8));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let server = sockets.add(socket());
        let client = sockets.add(socket());
        sockets
            .get_mut::<tcp::Socket>(server)
            .listen(PORT)
            .map_err(broken)?;
        sockets
            .get_mut::<tcp::Socket>(client)
            .connect(interface.context(), (address, PORT), 49_152)
            .map_err(broken)?;
        let started = Clocktime::now();
        let mut pair = Self {
            interface,
            device,
            sockets,
            client,
            server,
            started,
        };
        for _ in 0..1_000 {
            pair.poll();
            if pair.client().may_send() && pair.server().may_recv() {
                return Ok(pair);
            }
        }
        Err(broken("no connection came about"))
    }

    fn client(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.client)
    }

    fn server(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.server)
    }

    fn poll(&mut self) {
        let micros = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        let now = Instant::from_micros(micros);
        self.interface
            .poll(now, &mut self.device, &mut self.sockets);
    }
}

fn socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
}

/// A device whose packets come back to itself. Their memory is used again: both tokens borrow the
/// same pool, one after the other, through a cell.
struct Memory {
    mtu: usize,
    packets: RefCell<Packets>,
}

#[derive(Default)]
struct Packets {
    queue: VecDeque<Packet>,
    spare: Vec<Packet>,
}

/// Memory of the largest size, of which a part is in use: to cut and grow it would clear it again
/// and again.
struct Packet {
    memory: Vec<u8>,
    length: usize,
}

struct Arrived<'a> {
    packet: Packet,
    packets: &'a RefCell<Packets>,
}

struct Leaving<'a> {
    mtu: usize,
    packets: &'a RefCell<Packets>,
}

impl Device for Memory {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Leaving<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }

    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Leaving<'_>)> {
        let packet = self.packets.get_mut().queue.pop_front()?;
        let packets = &self.packets;
        Some((
            Arrived { packet, packets },
            Leaving {
                mtu: self.mtu,
                packets,
            },
        ))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        Some(Leaving {
            mtu: self.mtu,
            packets: &self.packets,
        })
    }
}

impl phy::RxToken for Arrived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        let result = look(
            self.packet
                .memory
                .get(..self.packet.length)
                .unwrap_or_default(),
        );
        self.packets.borrow_mut().spare.push(self.packet);
        result
    }
}

impl phy::TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let spare = self.packets.borrow_mut().spare.pop();
        let mut packet = spare.unwrap_or_else(|| Packet {
            memory: vec![0; self.mtu],
            length: 0,
        });
        packet.length = length.min(self.mtu);
        let result = write(packet.memory.get_mut(..packet.length).unwrap_or_default());
        self.packets.borrow_mut().queue.push_back(packet);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives() {
        for (size, mtu) in [(64, 65_535), (65_536, 65_535), (1 << 20, 1_500)] {
            let load = Load {
                size,
                seconds: 0.05,
                warm_up: 0.0,
                verify: true,
                bytes: None,
            };
            for report in [stream(&load, mtu).unwrap(), stream_in_place(&load).unwrap()] {
                assert!(report.all_bytes > 0);
                assert_eq!(report.verified_bytes, report.all_bytes);
            }
        }
    }
}
