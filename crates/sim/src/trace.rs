//! What passed, for people and for packet analysers.

use core::fmt::Write as _;
use std::io;

use gannet_base::Instant;
use gannet_link::Medium;
use gannet_wire::pcapng::{self, LinkType};

use crate::packet::line;
use crate::world::witness::{Way, Witness};

/// Writes a line for every event, in the manner of tcpdump, as it happens.
#[derive(Debug)]
pub struct Lines<W>(pub W);

impl<W: io::Write> Witness for Lines<W> {
    fn frame(&mut self, now: Instant, host: usize, way: Way, medium: Medium, frame: &[u8]) {
        let way = match way {
            Way::Out => ">",
            Way::In => "<",
            Way::Missed => "x",
        };
        // (a reader that has gone needs no more lines)
        let _ = writeln!(self.0, "{now} {host}{way} {}", line(frame, medium));
    }

    fn note(&mut self, now: Instant, text: &str) {
        let _ = writeln!(self.0, "{now} {text}");
    }
}

/// Collects the frames of one host's interface as a pcapng file with virtual time.
#[derive(Debug)]
pub struct Capture {
    host: usize,
    begun: bool,
    note: String,
    /// The file.
    pub bytes: Vec<u8>,
}

impl Capture {
    /// Of the interface of `host`.
    pub fn of(host: usize) -> Self {
        let mut bytes = Vec::new();
        pcapng::section_header(&mut bytes, "gannet sim");
        Capture {
            host,
            begun: false,
            note: String::new(),
            bytes,
        }
    }
}

impl Witness for Capture {
    fn frame(&mut self, now: Instant, host: usize, way: Way, medium: Medium, frame: &[u8]) {
        if host != self.host {
            return;
        }
        if !core::mem::replace(&mut self.begun, true) {
            let link = match medium {
                Medium::Ethernet => LinkType::Ethernet,
                Medium::Ip => LinkType::RawIp,
            };
            pcapng::interface(&mut self.bytes, link, 0, &format!("host{host}"));
        }
        if way == Way::Missed {
            self.note.push_str("not taken by the host; ");
        }
        let packet = pcapng::Packet {
            interface: 0,
            timestamp_ns: now.as_nanos(),
            pieces: &[frame],
            original_len: frame.len() as u32,
            comment: &core::mem::take(&mut self.note),
        };
        pcapng::packet(&mut self.bytes, &packet);
    }

    fn note(&mut self, _: Instant, text: &str) {
        let _ = write!(self.note, "before this: {text}; ");
    }
}

/// Two who look on.
#[derive(Debug)]
pub struct Both<A, B>(pub Option<A>, pub Option<B>);

impl<A: Witness, B: Witness> Witness for Both<A, B> {
    fn frame(&mut self, now: Instant, host: usize, way: Way, medium: Medium, frame: &[u8]) {
        let Both(a, b) = self;
        if let Some(a) = a {
            a.frame(now, host, way, medium, frame);
        }
        if let Some(b) = b {
            b.frame(now, host, way, medium, frame);
        }
    }

    fn note(&mut self, now: Instant, text: &str) {
        let Both(a, b) = self;
        if let Some(a) = a {
            a.note(now, text);
        }
        if let Some(b) = b {
            b.note(now, text);
        }
    }
}
