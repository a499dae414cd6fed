//! Both ends of an exchange over UDP. A datagram carries its number and the bytes that belong to
//! it, so that each can be judged alone.

use std::net::SocketAddr;

use gannet_base::Instant;
use gannet_stack::udp::{UdpError, UdpId};

use super::cx::{Cx, LATER};
use super::plan::Datagrams;
use crate::address;
use crate::pattern::Pattern;

/// Bytes of the number in front.
const NUMBER: usize = 8;

/// The end that sends.
#[derive(Debug)]
pub struct Speaker {
    /// Which exchange.
    pub exchange: usize,
    /// When the next datagram is due.
    pub at: Instant,
    /// Sent so far.
    pub sent: u64,
    id: Option<UdpId>,
}

/// The end that receives.
#[derive(Debug)]
pub struct Hearer {
    exchange: usize,
    id: UdpId,
    buffer: Vec<u8>,
}

impl Speaker {
    /// Of an exchange.
    pub fn new(exchange: usize, begins: Instant) -> Self {
        Speaker {
            exchange,
            at: begins,
            sent: 0,
            id: None,
        }
    }

    /// Sends what is due.
    pub fn step(&mut self, cx: &mut Cx<'_>, plan: &Datagrams, to: address::Host) -> bool {
        let mut any = false;
        if cx.now >= self.at && cx.is_unsettled(plan.family) {
            self.at = cx.now + LATER;
            return false;
        }
        while self.sent < plan.count && cx.now >= self.at {
            let id = match self.id {
                Some(id) => id,
                None => match cx.stack.udp_bind(plan.family.any(0)) {
                    Ok(id) => *self.id.insert(id),
                    Err(error) => {
                        cx.ledger.fail(format!("cannot bind: {error:?}"));
                        self.sent = plan.count;
                        return true;
                    }
                },
            };
            let data = contents(self.exchange, self.sent, plan.size);
            let to = Some(SocketAddr::new(to, plan.port));
            match cx.stack.udp_send_to(cx.host_now, id, &data, to) {
                Ok(_) | Err(UdpError::WouldBlock) => {}
                Err(_) if cx.ledger.outages => {}
                // more fragments than the path or the memory allows
                Err(UdpError::TooLarge) if plan.size > 500 => {}
                Err(error) => cx.ledger.fail(format!("cannot send a datagram: {error:?}")),
            }
            (self.sent, self.at, any) = (self.sent + 1, self.at + plan.gap, true);
            cx.ledger.datagrams.0 += 1;
        }
        if self.sent >= plan.count
            && let Some(id) = self.id.take()
        {
            cx.stack.udp_close(id);
        }
        any
    }
}

impl Hearer {
    /// Of an exchange.
    pub fn open(cx: &mut Cx<'_>, exchange: usize, plan: &Datagrams) -> Option<Hearer> {
        match cx.stack.udp_bind(plan.family.any(plan.port)) {
            Ok(id) => Some(Hearer {
                exchange,
                id,
                buffer: vec![0; 65_536],
            }),
            Err(error) => {
                cx.ledger.fail(format!("cannot bind: {error:?}"));
                None
            }
        }
    }

    /// Reads and judges what arrived.
    pub fn step(&mut self, cx: &mut Cx<'_>, plan: &Datagrams) -> bool {
        let mut any = false;
        while let Ok((copied, len, _)) = cx.stack.udp_recv_from(self.id, &mut self.buffer) {
            any = true;
            cx.ledger.datagrams.1 += 1;
            cx.ledger.heard.insert(plan.port);
            let got = self.buffer.get(..copied).unwrap_or_default();
            let number = got.first_chunk::<NUMBER>().map(|n| u64::from_le_bytes(*n));
            let number = number.filter(|number| *number < plan.count && len == plan.size);
            let right = number.is_some_and(|n| got == contents(self.exchange, n, plan.size));
            let excused = cx.ledger.unseen || (cx.ledger.corrupts && plan.size > 500);
            if !right && !excused {
                let text = format!("{}: a datagram of {len} bytes that nobody sent", cx.now);
                cx.ledger.fail(text);
            }
        }
        any
    }

    /// Closes the socket.
    pub fn close(&self, cx: &mut Cx<'_>) {
        cx.stack.udp_close(self.id);
    }
}

fn contents(exchange: usize, number: u64, size: usize) -> Vec<u8> {
    let mut data = number.to_le_bytes().to_vec();
    data.resize(size.max(NUMBER), 0);
    let pattern = Pattern::new((exchange as u64) << 32 | number);
    pattern.fill(0, data.get_mut(NUMBER..).unwrap_or_default());
    data
}
