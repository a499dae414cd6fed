//! The sink that writes a pcapng file.

use super::watch::{Direction, Seen, Sink, Watched};
use gannet_link::{Driver, Endpoint, Medium};
use gannet_wire::pcapng::{self, LinkType, Packet};
use std::io::Write;

/// A driver whose frames go to a pcapng file too. `W` takes the bytes (buffered, if it is a file),
/// `C` tells the time: nanoseconds since 1970.
pub type Capture<D, W, C> = Watched<D, FileSink<W, C>>;

/// Writes frames as pcapng.
///
/// Super-segments are written whole, before they are cut or after they were merged. Every packet
/// has a comment: the direction, the segment size of a super-segment, and whether the checksum
/// field is filled in. Errors of the output are counted; after one, nothing more is written, since
/// a block may have been torn.
pub struct FileSink<W: Write, C> {
    output: W,
    clock: C,
    /// Most bytes kept of a frame; 0 for all.
    snap_len: u32,
    block: Vec<u8>,
    comment: String,
    written: u64,
    errors: u64,
}

impl<W: Write, C: FnMut() -> u64> FileSink<W, C> {
    /// A file for the frames of `medium` on the link `name`, of which `snap_len` bytes are kept (0:
    /// all).
    pub fn new(mut output: W, medium: Medium, name: &str, snap_len: u32, clock: C) -> Self {
        let link = match medium {
            Medium::Ethernet => LinkType::Ethernet,
            Medium::Ip => LinkType::RawIp,
        };
        let mut block = Vec::new();
        pcapng::section_header(&mut block, "Gannet");
        pcapng::interface(&mut block, link, snap_len, name);
        let errors = u64::from(output.write_all(&block).is_err());
        FileSink {
            output,
            clock,
            snap_len,
            block,
            comment: String::with_capacity(COMMENT),
            written: 0,
            errors,
        }
    }

    /// Where the bytes go.
    pub fn output(&self) -> &W {
        &self.output
    }

    /// Frames written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Frames not written because of an error of the output.
    pub fn errors(&self) -> u64 {
        self.errors
    }
}

impl<D: Driver, W: Write, C: FnMut() -> u64> Capture<D, W, C> {
    /// Captures what passes `endpoint`, called `name` in the file; `snap_len` bytes of each frame
    /// (0: all).
    pub fn start(
        endpoint: Endpoint<D>,
        output: W,
        name: &str,
        snap_len: u32,
        clock: C,
    ) -> Endpoint<Self> {
        let medium = endpoint.capabilities().medium;
        let sink = FileSink::new(output, medium, name, snap_len, clock);
        Watched::endpoint(endpoint, sink)
    }
}

/// Says what the bytes alone do not show. At most four words: nothing is formatted but one number.
fn comment(seen: &Seen<'_>, text: &mut String) {
    use std::fmt::Write as _;
    text.clear();
    text.push_str(match seen.direction {
        Direction::In => "in",
        Direction::Out => "out",
    });
    if seen.gso_size > 0 {
        let _ = write!(text, ", in segments of {}", seen.gso_size); // a String never refuses
    }
    if seen.checksum_open {
        text.push_str(", checksum not filled in");
    }
}

impl<W: Write, C: FnMut() -> u64> Sink for FileSink<W, C> {
    fn frame(&mut self, seen: &Seen<'_>) {
        let timestamp_ns = (self.clock)();
        if self.errors > 0 {
            self.errors = self.errors.wrapping_add(1);
            return;
        }
        let kept = match self.snap_len {
            0 => seen.bytes.len(),
            most => seen.bytes.len().min(most as usize),
        };
        comment(seen, &mut self.comment);
        self.block.clear();
        let packet = Packet {
            interface: 0,
            timestamp_ns,
            pieces: &[seen.bytes.get(..kept).unwrap_or(&[])],
            original_len: seen.bytes.len() as u32,
            comment: &self.comment,
        };
        pcapng::packet(&mut self.block, &packet);
        match self.output.write_all(&self.block) {
            Ok(()) => self.written += 1,
            Err(_) => self.errors += 1,
        }
    }
}

/// Room for the longest comment.
const COMMENT: usize = 64;

impl<W: Write, C> Drop for FileSink<W, C> {
    /// What is buffered gets out; an error now can be told to nobody.
    fn drop(&mut self) {
        let _ = self.output.flush();
    }
}
