//! A connection with a known round trip of 40 ms, numbered in segments.

use core::time::Duration;
use std::vec::Vec;

use super::peer::{ACK, Peer, Seg, seg};
use crate::tcp::TcpInfo;
use gannet_wire::tcp::Options;

/// Milliseconds there and back.
pub(super) const RTT: u64 = 40;

pub(super) struct Flow {
    pub(super) p: Peer,
    /// Payload of a full segment.
    mss: u32,
    /// Sequence number of segment 0.
    base: u32,
    /// Our TSval, and the TSval of the segment that is to be echoed.
    stamps: Option<(u32, u32)>,
}

impl Flow {
    /// Some round trips have been measured; nothing is under way.
    pub(super) fn new(options: Options) -> Self {
        let mut flow = Flow {
            p: Peer::active(options),
            mss: if options.timestamps.is_some() {
                1448
            } else {
                1460
            },
            base: 1,
            stamps: options.timestamps.map(|(value, _)| (value, 0)),
        };
        for _ in 0..50 {
            let sent = flow.write(1);
            flow.echo(&sent);
            flow.wait(RTT);
            flow.ack(1);
            flow.base += flow.mss;
        }
        flow
    }

    /// Sequence number of a segment.
    pub(super) fn at(&self, n: u32) -> u32 {
        self.base + n * self.mss
    }

    /// Which segments these are.
    pub(super) fn numbers(&self, sent: &[Seg]) -> Vec<u32> {
        let number = |s: &Seg| s.seq.wrapping_sub(self.base) / self.mss;
        sent.iter().filter(|s| s.len() > 0).map(number).collect()
    }

    /// The application writes so many segments; what leaves.
    pub(super) fn write(&mut self, segments: u32) -> Vec<Seg> {
        let data = std::vec![7; (segments * self.mss) as usize];
        self.p.write(&data)
    }

    /// The peer's acknowledgements will echo the last of these.
    pub(super) fn echo(&mut self, sent: &[Seg]) {
        let last = sent.last().and_then(|s| s.options.timestamps);
        if let (Some(stamps), Some((value, _))) = (&mut self.stamps, last) {
            stamps.1 = value;
        }
    }

    /// Time passes; which segments leave, and after how many milliseconds.
    pub(super) fn wait(&mut self, ms: u64) -> Vec<(u64, u32)> {
        let sent = self.p.pass(Duration::from_millis(ms));
        let text = sent.iter().filter(|(_, s)| s.len() > 0);
        text.map(|(after, s)| {
            let number = self.numbers(core::slice::from_ref(s))[0];
            (after.as_millis() as u64, number)
        })
        .collect()
    }

    /// Everything below a segment is acknowledged; which segments leave.
    pub(super) fn ack(&mut self, n: u32) -> Vec<u32> {
        self.sack(n, &[])
    }

    /// And these ranges of segments are reported; the first may be a duplicate.
    pub(super) fn sack(&mut self, n: u32, blocks: &[(u32, u32)]) -> Vec<u32> {
        let out = self.report(n, blocks);
        self.numbers(&out)
    }

    /// The same; the segments themselves.
    pub(super) fn report(&mut self, n: u32, blocks: &[(u32, u32)]) -> Vec<Seg> {
        let blocks: Vec<_> = blocks
            .iter()
            .map(|b| (self.at(b.0), self.at(b.1)))
            .collect();
        let mut ack = seg(ACK, 1, self.at(n)).sack(&blocks);
        if let Some((value, echo)) = &mut self.stamps {
            *value += 1;
            ack = ack.stamp(*value, *echo);
        }
        self.p.send(&ack)
    }

    pub(super) fn info(&self) -> TcpInfo {
        self.p.host.tcp_info(self.p.id()).expect("open")
    }
}
