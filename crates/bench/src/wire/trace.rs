//! What passed the wire, as a pcapng file: each packet where it came in and again where it went
//! out.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use gannet_wire::pcapng::{self, LinkType, Packet};

use crate::error::Problem;

/// Bytes kept of a packet: its headers.
const KEPT: usize = 128;

/// The file, and when the wire's time began.
#[derive(Debug)]
pub struct Trace {
    output: BufWriter<File>,
    began: Duration,
    block: Vec<u8>,
}

impl Trace {
    /// A new file at `path`, for a wire whose time begins now.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> Result<Self, Problem> {
        let cannot = |error| {
            let what = format!("cannot write {}", path.display());
            Problem::new(what, error, "another place for the file")
        };
        let mut block = Vec::new();
        pcapng::section_header(&mut block, "Gannet");
        for name in ["left", "right"] {
            pcapng::interface(&mut block, LinkType::Ethernet, KEPT as u32, name);
        }
        let mut output = BufWriter::new(File::create(path).map_err(cannot)?);
        output.write_all(&block).map_err(cannot)?;
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Ok(Trace {
            output,
            began: began.unwrap_or_default(),
            block,
        })
    }

    /// Writes down a packet that came in (`in`) or went out (`out`) at the interface `index` so
    /// long after the wire's beginning. A full disk ends the trace, not the wire.
    pub fn packet(&mut self, index: usize, word: &str, after: Duration, bytes: &[u8]) {
        let timestamp = self.began.saturating_add(after).as_nanos();
        self.block.clear();
        let packet = Packet {
            interface: index as u32,
            timestamp_ns: u64::try_from(timestamp).unwrap_or(u64::MAX),
            pieces: &[bytes.get(..KEPT).unwrap_or(bytes)],
            original_len: bytes.len() as u32,
            comment: word,
        };
        pcapng::packet(&mut self.block, &packet);
        let _ = self.output.write_all(&self.block);
    }
}
