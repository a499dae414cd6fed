//! Counts by reason: a drop is a count, not an error.

use core::marker::PhantomData;

/// An enum whose values index a [`Counters`].
pub trait Reason: Copy + 'static {
    /// Every value, in the order of [`Reason::index`].
    const ALL: &'static [Self];
    /// Position of this value in [`Reason::ALL`].
    fn index(self) -> usize;
    /// Stable name in snake case, for people and for `--json`.
    fn name(self) -> &'static str;
    /// What it means: the description of the value in the source, for people.
    fn about(self) -> &'static str;
}

/// One count per value of `R`; at most `N` values are kept, `N` being `R::ALL.len()`.
#[derive(Clone, Debug)]
pub struct Counters<R, const N: usize> {
    counts: [u64; N],
    reason: PhantomData<R>,
}

impl<R: Reason, const N: usize> Counters<R, N> {
    /// All zero.
    pub const fn new() -> Self {
        assert!(N == R::ALL.len(), "one count per reason");
        Counters {
            counts: [0; N],
            reason: PhantomData,
        }
    }

    /// One more of `reason`.
    pub fn add(&mut self, reason: R) {
        self.add_many(reason, 1);
    }

    /// `n` more of `reason`.
    pub fn add_many(&mut self, reason: R, n: u64) {
        if let Some(count) = self.counts.get_mut(reason.index()) {
            *count = count.wrapping_add(n);
        }
    }

    /// How often `reason` was counted.
    pub fn get(&self, reason: R) -> u64 {
        self.counts.get(reason.index()).copied().unwrap_or(0)
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (R, u64)> + '_ {
        R::ALL.iter().copied().map(|r| (r, self.get(r)))
    }

    /// The sum over all reasons.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }
}

impl<R: Reason, const N: usize> Default for Counters<R, N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Declares an enum of reasons with its names and implements [`Reason`] for it.
#[macro_export]
macro_rules! reasons {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[doc = $about:literal])+ $variant:ident => $text:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[doc = $about])+ $variant,)+ }

        impl $crate::Reason for $name {
            const ALL: &'static [Self] = &[$($name::$variant,)+];
            fn index(self) -> usize { self as usize }
            fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
            fn about(self) -> &'static str {
                match self { $($name::$variant => concat!($($about,)+).trim_ascii(),)+ }
            }
        }

        impl $name {
            /// How many reasons there are.
            pub const COUNT: usize = <$name as $crate::Reason>::ALL.len();
        }
    };
}

#[cfg(test)]
mod tests {
    // The macro is made for public enums; here nobody else can see one.
    #![allow(unreachable_pub)]

    use super::*;

    reasons! {
        /// For the test.
        pub enum Why {
            /// First.
            Late => "late",
            /// Second.
            Broken => "broken",
        }
    }

    #[test]
    fn counts_by_reason() {
        let mut c: Counters<Why, { Why::COUNT }> = Counters::new();
        c.add(Why::Broken);
        c.add_many(Why::Late, 3);
        assert_eq!((c.get(Why::Late), c.get(Why::Broken), c.total()), (3, 1, 4));
        assert!(c.iter().map(|(r, _)| r.name()).eq(["late", "broken"]));
        assert_eq!(Why::Late.about(), "First.");
    }
}
