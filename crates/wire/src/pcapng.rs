//! pcapng capture files (draft-ietf-opsawg-pcapng): section header, interface description, enhanced
//! packet.
//! Little-endian, time stamps in nanoseconds. Bytes go into anything that can be extended; a block
//! is written whole.

use core::iter::repeat_n;

/// What an interface's packets begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum LinkType {
    /// An Ethernet header (LINKTYPE_ETHERNET).
    Ethernet = 1,
    /// An IP header (LINKTYPE_RAW).
    RawIp = 101,
}

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Index of its interface: the how manieth interface description of the section, from 0.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub timestamp_ns: u64,
    /// The captured bytes, in pieces (headers and payload are apart).
    pub pieces: &'a [&'a [u8]],
    /// Bytes that the packet had on the link; more than were captured when it was cut.
    pub original_len: u32,
    /// A remark for the reader, such as the reason of a drop; empty for none. Cut to 65,535 bytes.
    pub comment: &'a str,
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_USER_APPLICATION: u16 = 4;

/// Nanoseconds: 10^-9.
const NANOSECONDS: u8 = 9;

/// Type and two lengths.
const BLOCK_OVERHEAD: usize = 12;

/// Begins a section (and the file). `application` names the writer.
pub fn section_header(out: &mut impl Extend<u8>, application: &str) {
    let application = cut(application);
    let len = 16 + option_len(application.len()) + option_len(0);
    block_start(out, SECTION_HEADER, len);
    put(out, &0x1a2b_3c4d_u32.to_le_bytes());
    put(out, &1_u16.to_le_bytes());
    put(out, &0_u16.to_le_bytes());
    put(out, &u64::MAX.to_le_bytes()); // section length: not said
    option(out, OPTION_USER_APPLICATION, application);
    option(out, OPTION_END, &[]);
    block_end(out, len);
}

/// Describes an interface: packets refer to it by its place among the descriptions. `snap_len` is
/// the most
/// bytes captured of a packet, 0 for no limit.
pub fn interface(out: &mut impl Extend<u8>, link: LinkType, snap_len: u32, name: &str) {
    let name = cut(name);
    let len = 8 + option_len(name.len()) + option_len(1) + option_len(0);
    block_start(out, INTERFACE_DESCRIPTION, len);
    put(out, &(link as u16).to_le_bytes());
    put(out, &0_u16.to_le_bytes());
    put(out, &snap_len.to_le_bytes());
    option(out, OPTION_IF_NAME, name);
    option(out, OPTION_IF_TSRESOL, &[NANOSECONDS]);
    option(out, OPTION_END, &[]);
    block_end(out, len);
}

/// Writes one packet.
pub fn packet(out: &mut impl Extend<u8>, packet: &Packet<'_>) {
    let Packet {
        interface,
        timestamp_ns,
        pieces,
        original_len,
        comment,
    } = *packet;
    let comment = cut(comment);
    let captured: usize = pieces.iter().map(|piece| piece.len()).sum();
    let options = match comment.len() {
        0 => 0,
        len => option_len(len) + option_len(0),
    };
    let len = 20 + padded(captured) + options;
    block_start(out, ENHANCED_PACKET, len);
    put(out, &interface.to_le_bytes());
    put(out, &((timestamp_ns >> 32) as u32).to_le_bytes());
    put(out, &(timestamp_ns as u32).to_le_bytes());
    put(out, &(captured as u32).to_le_bytes());
    put(out, &original_len.to_le_bytes());
    for piece in pieces {
        put(out, piece);
    }
    pad(out, captured);
    if !comment.is_empty() {
        option(out, OPTION_COMMENT, comment);
        option(out, OPTION_END, &[]);
    }
    block_end(out, len);
}

fn block_start(out: &mut impl Extend<u8>, kind: u32, len: usize) {
    put(out, &kind.to_le_bytes());
    put(out, &((BLOCK_OVERHEAD + len) as u32).to_le_bytes());
}

fn block_end(out: &mut impl Extend<u8>, len: usize) {
    put(out, &((BLOCK_OVERHEAD + len) as u32).to_le_bytes());
}

fn option(out: &mut impl Extend<u8>, code: u16, value: &[u8]) {
    put(out, &code.to_le_bytes());
    put(out, &(value.len() as u16).to_le_bytes());
    put(out, value);
    pad(out, value.len());
}

fn option_len(value_len: usize) -> usize {
    4 + padded(value_len)
}

/// An option's length has 16 bits. Cut between characters: the text stays UTF-8.
fn cut(text: &str) -> &[u8] {
    let end = text.floor_char_boundary(usize::from(u16::MAX));
    text.as_bytes().get(..end).unwrap_or_default()
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn pad(out: &mut impl Extend<u8>, len: usize) {
    out.extend(repeat_n(0, padded(len) - len));
}

fn put(out: &mut impl Extend<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().copied());
}
