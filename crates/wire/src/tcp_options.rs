//! TCP options (RFC 9293 section 3.2; RFC 7323 window scale and time stamps; RFC 2018 SACK;
//! RFC 7413 Fast Open; RFC 5482 user time-out).
//!
//! Reading is forgiving: an unknown option is skipped, a known one with a wrong length is skipped,
//! and an
//! impossible length ends the walk and sets `malformed`. Writing uses the layouts that Linux uses,
//! so that
//! the receiver's fast path matches:
//!
//! ```text
//! SYN    MSS(4) SACK-permitted(2) time stamps(10) NOP window scale(3)        20 bytes
//!        and NOP NOP Fast Open(2 + n)                                    4 + n bytes
//! data   NOP NOP time stamps(10)                                             12 bytes
//! SACK   NOP NOP time stamps(10) NOP NOP SACK(2 + 8n)                 12 + 4 + 8n bytes
//! ```

use core::num::NonZero;
use core::time::Duration;

/// Bytes that options can take at most: the data offset has 4 bits.
pub const MAX_OPTIONS_LEN: usize = 40;

/// SACK blocks that fit in the option space at most.
pub const MAX_SACK_BLOCKS: usize = 4;

/// Length of the layout NOP NOP time stamps.
pub const TIMESTAMPS_ONLY_LEN: usize = 12;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
//= https://www.rfc-editor.org/rfc/rfc5482#section-3.3
//# This MUST be 28, i.e., the TCP option number [RFC0793] that has been assigned by IANA (see
//# Section 7).
const USER_TIMEOUT: u8 = 28;
const FAST_OPEN: u8 = 34;

/// RFC 7323 section 2.3.
const MAX_WINDOW_SCALE: u8 = 14;

/// The options that we know. What a received value means, and whether it may stand in this kind of
/// segment, is the connection's business.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Maximum segment size in bytes as on the wire: any value, 0 included.
    pub mss: Option<u16>,
    /// Window scale as a shift count, at most 14.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// An option length of 0 or 1 or beyond the option space: what follows was ignored. Not
    /// written.
    pub malformed: bool,
}

/// Up to four SACK blocks: left edge, and right edge (one past the end), unchecked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    // Beyond `len` all zero, so that the derived equality is right.
    blocks: [(u32, u32); MAX_SACK_BLOCKS],
    len: u8,
    // A SYN has no blocks: its Fast Open cookie stands in their place, so that other segments carry
    // no more than before. 0: none; else its length and one more.
    cookie: u8,
    // Nor has any other segment room to spare: the user time-out as on the wire; 0: none.
    timeout: u16,
}

impl SackBlocks {
    /// No blocks.
    pub const NONE: Self = Self {
        blocks: [(0, 0); MAX_SACK_BLOCKS],
        len: 0,
        cookie: 0,
        timeout: 0,
    };

    /// Appends a block; returns whether there was room.
    pub fn push(&mut self, left: u32, right: u32) -> bool {
        if self.cookie > 0 {
            return false;
        }
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(block) => {
                *block = (left, right);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The blocks in the order of the option.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `count` blocks at most.
    fn first(&self, count: usize) -> &[(u32, u32)] {
        self.blocks
            .get(..count.min(usize::from(self.len)))
            .unwrap_or_default()
    }
}

/// The content of a Fast Open option (RFC 7413 section 4.1.1): a cookie, or the request for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FastOpenCookie {
    // Beyond `len` all zero.
    bytes: [u8; MAX_COOKIE],
    len: u8,
}

/// Most bytes in a Fast Open cookie.
const MAX_COOKIE: usize = 16;

impl FastOpenCookie {
    /// Nothing: a cookie is asked for.
    pub const REQUEST: Self = Self {
        bytes: [0; MAX_COOKIE],
        len: 0,
    };

    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.1
    //# The number MUST be even.
    /// A cookie of 4 to 16 bytes, an even number, or of none; `None` for any other.
    pub fn new(cookie: &[u8]) -> Option<Self> {
        //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.1
        //# Options with invalid Length values or without the SYN flag set MUST
        //# be ignored.
        let len = cookie.len();
        if !len.is_multiple_of(2) || (1..4).contains(&len) {
            return None;
        }
        let mut bytes = [0; MAX_COOKIE];
        bytes.get_mut(..len)?.copy_from_slice(cookie);
        Some(Self {
            bytes,
            len: len as u8,
        })
    }

    /// The cookie; empty when one is asked for.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Bytes of the option with the padding before it.
    fn option_len(&self) -> usize {
        (2 + usize::from(self.len)).next_multiple_of(4)
    }

    fn put(&self, rest: &mut &mut [u8]) -> Option<()> {
        for _ in 2 + usize::from(self.len)..self.option_len() {
            put(rest, [NOP])?;
        }
        put(rest, [FAST_OPEN, 2 + self.len])?;
        self.as_slice().iter().try_for_each(|b| put(rest, [*b]))
    }
}

/// A user time-out as a peer is told it (RFC 5482 section 3.3): 1 to 32,767 seconds, or minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserTimeout(NonZero<u16>);

impl UserTimeout {
    const MINUTES: u16 = 0x8000;

    /// The time-out, rounded up to seconds, or beyond nine hours to minutes, of which there are at
    /// most 32,767; `None` for no time at all.
    pub const fn new(time: Duration) -> Option<Self> {
        const MOST: u64 = 0x7fff;
        let seconds = time.as_secs() + if time.subsec_nanos() > 0 { 1 } else { 0 };
        let minutes = seconds.div_ceil(60);
        let wire = if seconds <= MOST {
            seconds as u16
        } else if minutes <= MOST {
            minutes as u16 | Self::MINUTES
        } else {
            u16::MAX
        };
        Self::from_wire(wire)
    }

    /// The last two bytes of the option; `None` for a reserved value.
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3.4
    //# Current TCP implementations MUST NOT send it and MUST ignore it upon reception.
    pub const fn from_wire(wire: u16) -> Option<Self> {
        match NonZero::new(wire) {
            Some(wire) if wire.get() != Self::MINUTES => Some(Self(wire)),
            _ => None,
        }
    }

    /// The last two bytes of the option.
    pub const fn to_wire(self) -> u16 {
        self.0.get()
    }

    /// The time-out.
    pub const fn duration(self) -> Duration {
        let value = (self.0.get() & !Self::MINUTES) as u64;
        //= https://www.rfc-editor.org/rfc/rfc5482#section-3.3
        //# When set (G = 1), the time interval in the "User Timeout" field MUST be interpreted as
        //# minutes.
        //= https://www.rfc-editor.org/rfc/rfc5482#section-3.3
        //# Otherwise (G = 0), the time interval in the "User Timeout" field MUST be interpreted as
        //# seconds.
        if self.0.get() & Self::MINUTES != 0 {
            Duration::from_secs(value * 60)
        } else {
            Duration::from_secs(value)
        }
    }
}

impl FromIterator<(u32, u32)> for SackBlocks {
    /// The first four blocks.
    fn from_iter<I: IntoIterator<Item = (u32, u32)>>(blocks: I) -> Self {
        let mut sack = Self::NONE;
        for (left, right) in blocks.into_iter().take(MAX_SACK_BLOCKS) {
            sack.push(left, right);
        }
        sack
    }
}

impl Options {
    /// No options.
    pub const NONE: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        sack: SackBlocks::NONE,
        timestamps: None,
        malformed: false,
    };

    /// Time stamps only: the options of ordinary data segments and acknowledgments.
    pub const fn timestamps(value: u32, echo: u32) -> Self {
        Self {
            timestamps: Some((value, echo)),
            ..Self::NONE
        }
    }

    /// The Fast Open option (RFC 7413). Only a SYN may have one.
    pub fn fast_open(&self) -> Option<FastOpenCookie> {
        let len = self.sack.cookie.checked_sub(1)?;
        let mut bytes = [0; MAX_COOKIE];
        let words = self.sack.blocks.iter().flat_map(|(a, b)| [*a, *b]);
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
        Some(FastOpenCookie { bytes, len })
    }

    /// Sets the Fast Open option; SACK blocks go.
    pub fn set_fast_open(&mut self, cookie: &FastOpenCookie) {
        let mut sack = SackBlocks::NONE;
        for (block, bytes) in sack.blocks.iter_mut().zip(cookie.bytes.as_chunks::<8>().0) {
            *block = split_pair(*bytes);
        }
        sack.cookie = cookie.len + 1;
        sack.timeout = self.sack.timeout;
        self.sack = sack;
    }

    /// The user time-out option (RFC 5482).
    pub const fn user_timeout(&self) -> Option<UserTimeout> {
        UserTimeout::from_wire(self.sack.timeout)
    }

    /// Sets the user time-out option. Beside it there is room for one SACK block less.
    pub const fn set_user_timeout(&mut self, timeout: UserTimeout) {
        self.sack.timeout = timeout.to_wire();
    }

    /// Reads the option bytes of a header (see [`options`](crate::tcp::options)). Of an option that
    /// comes twice, the last counts, as in Linux.
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Self::NONE;
        // Each turn takes at least one byte. Option by option, so they may begin on any byte.
        while let [kind, rest @ ..] = bytes {
            match *kind {
                END => break,
                NOP => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
            //# TCP implementations MUST be prepared to handle an illegal option length (e.g.,
            //# zero);
            let len = rest.first().map_or(0, |len| usize::from(*len));
            let Some((option, after)) = bytes.split_at_checked(len).filter(|_| len >= 2) else {
                options.malformed = true;
                break;
            };
            options.take(option);
            bytes = after;
        }
        options
    }

    /// Takes one option, kind and length included; one that is unknown or of wrong length is
    /// ignored.
    fn take(&mut self, option: &[u8]) {
        match *option {
            [MSS, 4, a, b] => self.mss = Some(u16::from_be_bytes([a, b])),
            //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
            //# If a Window Scale option is received with a shift.cnt value larger than 14, the TCP
            //# SHOULD log the error but MUST use 14 instead of the specified value.
            [WINDOW_SCALE, 3, shift] => self.window_scale = Some(shift.min(MAX_WINDOW_SCALE)),
            [SACK_PERMITTED, 2] => self.sack_permitted = true,
            [SACK, _, ref blocks @ ..] => {
                if let (blocks @ [_, ..], []) = blocks.as_chunks::<8>() {
                    let timeout = self.sack.timeout;
                    self.sack = blocks.iter().map(|block| split_pair(*block)).collect();
                    self.sack.timeout = timeout;
                }
            }
            [TIMESTAMPS, 10, ref pair @ ..] => {
                self.timestamps = pair.first_chunk().map(|pair| split_pair(*pair));
            }
            //= https://www.rfc-editor.org/rfc/rfc5482#section-3.3
            //# Length of the TCP option in octets [RFC0793]; its value MUST be 4.
            [USER_TIMEOUT, 4, a, b] => {
                let timeout = UserTimeout::from_wire(u16::from_be_bytes([a, b]));
                self.sack.timeout = timeout.map_or(0, UserTimeout::to_wire);
            }
            [FAST_OPEN, _, ref cookie @ ..] => {
                if let Some(cookie) = FastOpenCookie::new(cookie) {
                    self.set_fast_open(&cookie);
                }
            }
            _ => {}
        }
    }

    /// Bytes that [`Options::emit`] writes: a multiple of 4, at most 40.
    pub fn encoded_len(&self) -> usize {
        let blocks = self.blocks_that_fit();
        self.len_without_sack() + if blocks > 0 { 4 + 8 * blocks } else { 0 }
    }

    /// Writes the options, padded with NOPs to a multiple of 4, and returns their length; `None`
    /// (nothing
    /// written) when `out` is too short. Of the SACK blocks, only as many as fit in 40 bytes (3
    /// beside
    /// time stamps).
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let len = self.encoded_len();
        let mut rest = out.get_mut(..len)?;
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            put(&mut rest, [MSS, 4, a, b])?;
        }
        if let Some((value, echo)) = self.timestamps {
            let lead = if self.sack_permitted {
                [SACK_PERMITTED, 2]
            } else {
                [NOP, NOP]
            };
            put(&mut rest, [lead[0], lead[1], TIMESTAMPS, 10])?;
            put(&mut rest, join_pair(value, echo))?;
        } else if self.sack_permitted {
            put(&mut rest, [NOP, NOP, SACK_PERMITTED, 2])?;
        }
        if let Some(shift) = self.window_scale {
            put(
                &mut rest,
                [NOP, WINDOW_SCALE, 3, shift.min(MAX_WINDOW_SCALE)],
            )?;
        }
        if let Some(cookie) = self.fast_open() {
            cookie.put(&mut rest)?;
        }
        // (the last before the blocks: written when there is room)
        let blocks = self.sack.first(self.blocks_that_fit());
        let blocks_len = if blocks.is_empty() {
            0
        } else {
            4 + 8 * blocks.len()
        };
        if let Some(timeout) = self.user_timeout().filter(|_| rest.len() > blocks_len) {
            let [a, b] = timeout.to_wire().to_be_bytes();
            put(&mut rest, [USER_TIMEOUT, 4, a, b])?;
        }
        if !blocks.is_empty() {
            put(&mut rest, [NOP, NOP, SACK, 2 + 8 * blocks.len() as u8])?;
            for (left, right) in blocks {
                put(&mut rest, join_pair(*left, *right))?;
            }
        }
        Some(len)
    }

    fn len_without_sack(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let permitted_and_timestamps = match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => 12,
            (None, true) => 4,
            (None, false) => 0,
        };
        let window_scale = if self.window_scale.is_some() { 4 } else { 0 };
        let cookie = match self.sack.cookie {
            0 => 0,
            _ => self.fast_open().map_or(0, |c| c.option_len()),
        };
        let others = mss + permitted_and_timestamps + window_scale + cookie;
        match self.sack.timeout {
            0 => others,
            _ if others + 4 > MAX_OPTIONS_LEN => others,
            _ => others + 4,
        }
    }

    fn blocks_that_fit(&self) -> usize {
        let room = MAX_OPTIONS_LEN.saturating_sub(self.len_without_sack() + 4) / 8;
        room.min(usize::from(self.sack.len))
    }
}

/// TSval and TSecr when `options` is exactly NOP NOP time stamps: one comparison on the
/// straight-line path.
/// `None` for any other layout, which [`Options::parse`] reads.
#[inline]
pub fn parse_timestamps_only(options: &[u8]) -> Option<(u32, u32)> {
    let options: &[u8; TIMESTAMPS_ONLY_LEN] = options.try_into().ok()?;
    let (lead, pair) = options.split_first_chunk::<4>()?;
    if *lead != [NOP, NOP, TIMESTAMPS, 10] {
        return None;
    }
    pair.first_chunk().map(|pair| split_pair(*pair))
}

/// Writes NOP NOP time stamps.
#[inline]
pub fn emit_timestamps_only(value: u32, echo: u32, out: &mut [u8; TIMESTAMPS_ONLY_LEN]) {
    out[..4].copy_from_slice(&[NOP, NOP, TIMESTAMPS, 10]);
    out[4..].copy_from_slice(&join_pair(value, echo));
}

fn put<const N: usize>(rest: &mut &mut [u8], bytes: [u8; N]) -> Option<()> {
    let (to, after) = core::mem::take(rest).split_first_chunk_mut::<N>()?;
    *to = bytes;
    *rest = after;
    Some(())
}

fn split_pair([a, b, c, d, e, f, g, h]: [u8; 8]) -> (u32, u32) {
    (
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    )
}

fn join_pair(first: u32, second: u32) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_be_bytes(), second.to_be_bytes());
    [a, b, c, d, e, f, g, h]
}
