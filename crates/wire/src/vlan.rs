//! VLAN tags (IEEE 802.1Q; stacked: IEEE 802.1ad). A tag stands behind the Ethernet addresses:
//! [`EtherType::VLAN`] or [`EtherType::SERVICE_VLAN`] in the place of the frame's type announces
//! it, and the frame's own type follows it.

use crate::EtherType;

/// Bytes between the announcing type and what follows the tag: tag control information and type.
pub const TAG_LEN: usize = 4;

/// The largest VLAN identifier that names a VLAN (0 only carries a priority, 4095 is reserved).
pub const MAX_ID: u16 = 4094;

/// A tag, and the type behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// PCP: priority, 0 to 7.
    pub priority: u8,
    /// DEI: may be dropped first.
    pub drop_eligible: bool,
    /// VID: which VLAN (12 bits).
    pub id: u16,
    /// What follows: the payload's protocol, or another tag.
    pub ethertype: EtherType,
}

/// Why a frame has no usable tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Fewer than 4 bytes.
    Truncated,
}

impl Tag {
    /// Reads the tag behind an Ethernet header (or another tag) whose type announces it; what
    /// follows begins at the returned offset (always 4).
    ///
    /// # Errors
    /// `Truncated` below 4 bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let b = bytes
            .first_chunk::<TAG_LEN>()
            .ok_or(ParseError::Truncated)?;
        let control = u16::from_be_bytes([b[0], b[1]]);
        let tag = Self {
            priority: b[0] >> 5,
            drop_eligible: control & 0x1000 != 0,
            id: control & 0x0fff,
            ethertype: EtherType(u16::from_be_bytes([b[2], b[3]])),
        };
        Ok((tag, TAG_LEN))
    }

    /// Writes the tag; `None` (nothing written) when `out` is shorter than 4 bytes. `priority` is
    /// cut to 3 bits, `id` to 12.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let b = out.first_chunk_mut::<TAG_LEN>()?;
        let control = u16::from(self.priority & 7) << 13
            | u16::from(self.drop_eligible) << 12
            | self.id & 0x0fff;
        b[..2].copy_from_slice(&control.to_be_bytes());
        b[2..].copy_from_slice(&self.ethertype.0.to_be_bytes());
        Some(TAG_LEN)
    }
}
