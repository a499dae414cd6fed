//! Sequence numbers (RFC 9293 section 3.4): a circle of 2^32 numbers, so there is no `Ord`.
//!
//! "Before" means: reached by going backwards fewer than 2^31 steps. Two numbers exactly 2^31
//! apart are each before the other; windows end at 2^30 (RFC 7323 section 2.3), so that distance
//! only comes from a hostile or broken peer, and both answers are then equally (in)valid.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number. Compare with [`before`](Self::before) and its relatives only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Signed distance: how many steps `self` lies after `other` (negative: before it).
    #[inline]
    #[must_use]
    pub const fn since(self, other: SeqNum) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// `self < other` on the circle.
    #[inline]
    #[must_use]
    pub const fn before(self, other: SeqNum) -> bool {
        self.since(other) < 0
    }

    /// `self <= other` on the circle.
    #[inline]
    #[must_use]
    pub const fn before_eq(self, other: SeqNum) -> bool {
        self.0 == other.0 || self.before(other)
    }

    /// `self > other` on the circle.
    #[inline]
    #[must_use]
    pub const fn after(self, other: SeqNum) -> bool {
        other.before(self)
    }

    /// `self >= other` on the circle.
    #[inline]
    #[must_use]
    pub const fn after_eq(self, other: SeqNum) -> bool {
        other.before_eq(self)
    }

    /// `start <= self < start + len`, exact for every `len` (unlike two comparisons).
    #[inline]
    #[must_use]
    pub const fn in_range(self, start: SeqNum, len: u32) -> bool {
        self.0.wrapping_sub(start.0) < len
    }

    /// The one that comes first on the circle.
    #[inline]
    #[must_use]
    pub const fn min(self, other: SeqNum) -> SeqNum {
        if other.before(self) { other } else { self }
    }

    /// The one that comes last on the circle.
    #[inline]
    #[must_use]
    pub const fn max(self, other: SeqNum) -> SeqNum {
        if other.after(self) { other } else { self }
    }
}

impl Add<u32> for SeqNum {
    type Output = SeqNum;

    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4
    //# Since the space is finite, all arithmetic dealing with sequence
    //# numbers must be performed modulo 2^32.
    #[inline]
    fn add(self, steps: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(steps))
    }
}

impl AddAssign<u32> for SeqNum {
    #[inline]
    fn add_assign(&mut self, steps: u32) {
        *self = *self + steps;
    }
}

impl Sub<u32> for SeqNum {
    type Output = SeqNum;

    #[inline]
    fn sub(self, steps: u32) -> SeqNum {
        SeqNum(self.0.wrapping_sub(steps))
    }
}

impl Sub for SeqNum {
    type Output = u32;

    /// Steps from `start` forward to `self`, modulo 2^32.
    #[inline]
    fn sub(self, start: SeqNum) -> u32 {
        self.0.wrapping_sub(start.0)
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests;
