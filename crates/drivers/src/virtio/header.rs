//! What a slot says, in the words of the virtio-net header, and back.
//!
//! This is the one place where a driver looks into a frame, and only for what the header asks and
//! the slot does not say: IPv4 or IPv6, and whether the TCP header has CWR set.

use gannet_link::slot::{INLINE_MAX, flags};
use gannet_link::{Medium, Slot};
use gannet_wire::virtio_net::{Flags, HEADER_LEN, Header, Segmentation};

/// Bytes of header in front of each frame.
pub(crate) const HEADER: usize = HEADER_LEN;

/// Where a TCP header keeps its flags, and the one that only the first segment may carry.
const TCP_FLAGS_AT: usize = 13;
const TCP_CWR: u8 = 0x80;

/// Bytes of the headers' length in the header: a hint, after which the kernel divides the frame.
const HDR_LEN: std::ops::Range<usize> = 2..4;

/// The header for `slot`, of which the kernel shall keep the first `piece` bytes in one piece;
/// never less than the inline bytes, since headers have to be in it.
#[inline]
pub(crate) fn outgoing(slot: &Slot, medium: Medium, piece: usize) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let hdr_len = piece.clamp(slot.inline_len().min(INLINE_MAX), usize::from(u16::MAX)) as u16;
    if slot.flags() & flags::CSUM_PARTIAL == 0 && slot.gso_size() == 0 {
        bytes[HDR_LEN].copy_from_slice(&hdr_len.to_ne_bytes());
        return bytes;
    }
    let (csum_start, csum_offset) = slot.checksum_place();
    let mut header = Header {
        hdr_len,
        ..Header::default()
    };
    if slot.flags() & flags::CSUM_PARTIAL != 0 {
        header.flags = Flags::NEEDS_CSUM;
        (header.csum_start, header.csum_offset) = (csum_start, csum_offset);
    }
    if slot.gso_size() != 0 {
        header.gso_size = slot.gso_size();
        header.segmentation = segmentation(slot, medium);
        let flags_at = usize::from(csum_start) + TCP_FLAGS_AT;
        header.ecn = header.segmentation != Segmentation::UdpL4
            && slot
                .inline()
                .get(flags_at)
                .is_some_and(|f| f & TCP_CWR != 0);
    }
    let _ = header.emit(&mut bytes); // fails only when there is no room, and there is
    bytes
}

/// Asks for no more than the inline bytes in one piece. Says whether that is a change.
pub(crate) fn divide(bytes: &mut [u8; HEADER], slot: &Slot) -> bool {
    let least = (slot.inline_len().min(INLINE_MAX) as u16).to_ne_bytes();
    let changes = bytes[HDR_LEN] != least;
    bytes[HDR_LEN].copy_from_slice(&least);
    changes
}

fn segmentation(slot: &Slot, medium: Medium) -> Segmentation {
    if slot.flags() & flags::GSO_UDP != 0 {
        return Segmentation::UdpL4;
    }
    let ip_at = match medium {
        Medium::Ethernet => match slot.inline().get(12..14) {
            Some([0x81, 0x00]) => 18, // behind a VLAN tag
            _ => 14,
        },
        Medium::Ip => 0,
    };
    match slot.inline().get(ip_at).map(|first| first >> 4) {
        Some(6) => Segmentation::TcpV6,
        _ => Segmentation::TcpV4,
    }
}

/// What a received header says about its frame of `frame_len` bytes, of which `inline` lie in the
/// slot; `None` when it contradicts the frame.
#[inline]
pub(crate) fn incoming(slot: &mut Slot, bytes: &[u8; HEADER], frame_len: usize) -> Option<()> {
    if bytes[0] == 0 && bytes[1] == 0 {
        return Some(());
    }
    let (header, _) = Header::parse(bytes).ok()?;
    let mut set = 0;
    if header.flags.contains(Flags::NEEDS_CSUM) {
        let end = usize::from(header.csum_start) + usize::from(header.csum_offset) + 2;
        if end > frame_len {
            return None;
        }
        if end <= slot.inline_len() {
            set |= flags::CSUM_PARTIAL;
            slot.set_checksum_place(header.csum_start, header.csum_offset);
        } else {
            // Behind unusually long headers: the sender vouches for the bytes all the same.
            set |= flags::CSUM_VALID;
        }
    } else if header.flags.contains(Flags::DATA_VALID) {
        set |= flags::CSUM_VALID;
    }
    match header.segmentation {
        Segmentation::None => {}
        // IP fragments of a datagram, never cut: the frame is the whole datagram.
        Segmentation::Udp => {}
        Segmentation::TcpV4 | Segmentation::TcpV6 | Segmentation::UdpL4 => {
            if usize::from(header.gso_size) < frame_len {
                slot.set_gso_size(header.gso_size);
                if header.segmentation == Segmentation::UdpL4 {
                    set |= flags::GSO_UDP;
                }
            }
        }
    }
    slot.set_flags(slot.flags() | set);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Segmentation as S;

    fn slot(inline: &[u8], set: u16, gso: u16, place: (u16, u16)) -> Slot {
        let mut slot = Slot::new();
        slot.inline_mut(inline.len())
            .unwrap()
            .copy_from_slice(inline);
        slot.set_flags(set);
        slot.set_gso_size(gso);
        slot.set_checksum_place(place.0, place.1);
        slot
    }

    #[test]
    fn out_says_what_the_kernel_must_do() {
        let mut v4 = [0_u8; 54];
        v4[14] = 0x45;
        let mut cwr = v4;
        cwr[34 + 13] = 0x90;
        let mut v6 = [0_u8; 60];
        v6[0] = 0x60;
        let both = flags::CSUM_PARTIAL;
        // inline, medium, flags, gso, place -> segmentation, ecn
        for (inline, medium, set, gso, place, segmentation, ecn) in [
            (
                &v4[..],
                Medium::Ethernet,
                both,
                1448,
                (34, 16),
                S::TcpV4,
                false,
            ),
            (
                &cwr[..],
                Medium::Ethernet,
                both,
                1448,
                (34, 16),
                S::TcpV4,
                true,
            ),
            (&v6[..], Medium::Ip, both, 1000, (40, 16), S::TcpV6, false),
            (
                &v4[..42],
                Medium::Ethernet,
                both | flags::GSO_UDP,
                512,
                (34, 6),
                S::UdpL4,
                false,
            ),
            (&v4[..], Medium::Ethernet, both, 0, (34, 16), S::None, false),
        ] {
            let bytes = outgoing(&slot(inline, set, gso, place), medium, 0);
            let (header, _) = Header::parse(&bytes).unwrap();
            assert_eq!(header.flags, Flags::NEEDS_CSUM);
            assert_eq!((header.segmentation, header.ecn), (segmentation, ecn));
            assert_eq!((header.csum_start, header.csum_offset), place);
            assert_eq!(usize::from(header.hdr_len), inline.len());
            assert_eq!(header.gso_size, gso);
        }
        let plain = outgoing(&slot(&v4, 0, 0, (0, 0)), Medium::Ethernet, 0);
        let (header, _) = Header::parse(&plain).unwrap();
        assert_eq!(
            header,
            Header {
                hdr_len: 54,
                ..Header::default()
            }
        );
    }

    #[test]
    fn the_kernel_divides_a_frame_behind_its_headers_or_later() {
        for (set, gso) in [(0, 0), (flags::CSUM_PARTIAL, 1448)] {
            let slot = slot(&[0x45; 66], set, gso, (34, 16));
            // piece asked for -> hdr_len
            for (piece, expected) in [(0, 66), (66, 66), (64_512, 64_512), (70_000, 65_535)] {
                let mut bytes = outgoing(&slot, Medium::Ethernet, piece);
                let hdr_len = |bytes: &_| Header::parse(bytes).unwrap().0.hdr_len;
                assert_eq!(hdr_len(&bytes[..]), expected, "{piece}");
                assert_eq!(divide(&mut bytes, &slot), expected > 66, "{piece}");
                assert_eq!(hdr_len(&bytes[..]), 66, "{piece}");
                assert!(
                    !divide(&mut bytes, &slot),
                    "{piece}: nothing left to change"
                );
            }
        }
    }

    #[test]
    fn in_trusts_only_what_fits_the_frame() {
        let head = |flags, segmentation, gso_size, csum_start| {
            let header = Header {
                flags,
                segmentation,
                gso_size,
                csum_start,
                csum_offset: 16,
                ..Header::default()
            };
            let mut bytes = [0; HEADER];
            header.emit(&mut bytes).unwrap();
            bytes
        };
        let (partial, valid) = (flags::CSUM_PARTIAL, flags::CSUM_VALID);
        let needs = Flags::NEEDS_CSUM;
        // header, frame length -> flags, gso_size; None = refused
        for (bytes, len, expected) in [
            (head(Flags::empty(), S::None, 0, 0), 60, Some((0, 0))),
            (head(needs, S::TcpV4, 1448, 34), 9000, Some((partial, 1448))),
            (head(needs, S::TcpV6, 1428, 54), 9000, Some((partial, 1428))),
            (
                head(needs, S::UdpL4, 512, 34),
                9000,
                Some((partial | flags::GSO_UDP, 512)),
            ),
            (
                head(Flags::DATA_VALID, S::None, 0, 0),
                9000,
                Some((valid, 0)),
            ),
            (head(needs, S::None, 0, 200), 9000, Some((valid, 0))), // not in the inline bytes
            (head(needs, S::None, 0, 9000), 9000, None),
            (head(needs, S::None, 0, 65_535), 60, None),
            (head(needs, S::TcpV4, 9000, 34), 9000, Some((partial, 0))), // nothing to cut
            (
                head(Flags::DATA_VALID, S::Udp, 1480, 0),
                9000,
                Some((valid, 0)),
            ),
            ([0, 9, 0, 0, 0, 0, 0, 0, 0, 0], 9000, None), // unknown segmentation
            ([0, 1, 0, 0, 0, 0, 0, 0, 0, 0], 9000, None), // pieces of no bytes
        ] {
            let mut slot = slot(&[0; 80], 0, 0, (0, 0));
            let got = incoming(&mut slot, &bytes, len);
            assert_eq!(
                got.map(|()| (slot.flags(), slot.gso_size())),
                expected,
                "{bytes:?} {len}"
            );
        }
    }
}
