//! Any bytes as a frame from the wire: every layer that fits is read and printed.
#![no_main]

use core::fmt::Write;
use gannet_wire::{ethernet, pretty, virtio_net};
use libfuzzer_sys::fuzz_target;

/// Takes text and drops it, so that printing is run without its cost in memory.
struct Sink;

impl Write for Sink {
    fn write_str(&mut self, _: &str) -> core::fmt::Result {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    if let Ok((header, len)) = ethernet::Header::parse(data) {
        let mut out = [0; ethernet::HEADER_LEN];
        assert_eq!(header.emit(&mut out), Some(len));
        assert_eq!(out, data[..len]);
    }
    if let Ok((header, len)) = virtio_net::Header::parse(data) {
        let mut out = [0; virtio_net::HEADER_LEN];
        assert_eq!(header.emit(&mut out), Some(len));
        assert_eq!(out, data[..len]);
        let _ = header.check(data.len() - len);
    }
    write!(Sink, "{} {}", pretty::ethernet(data), pretty::ipv4(data)).unwrap();
});
