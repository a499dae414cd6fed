//! Choices with names, all from one generator.

use core::time::Duration;

use gannet_base::Rng;

/// A generator of choices.
#[derive(Clone, Debug)]
pub struct Choice(Rng);

impl Choice {
    /// The choices of a seed.
    pub fn new(seed: u64) -> Self {
        Choice(Rng::new(seed))
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most.saturating_sub(least).saturating_add(1))
    }

    /// A number from `least` to `most` whose magnitude is evenly spread: small ones are as likely
    /// as large ones.
    pub fn magnitude(&mut self, least: u64, most: u64) -> u64 {
        let bits = |n: u64| u64::from(64 - n.leading_zeros());
        let size = self.between(bits(least), bits(most));
        let high = (1_u64 << size.min(63)).saturating_sub(1);
        let low = high >> 1;
        self.between(low.max(least), high.min(most).max(least))
    }

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// One of them; the default for none.
    pub fn of<T: Copy + Default>(&mut self, choices: &[T]) -> T {
        let index = self.0.below(choices.len() as u64) as usize;
        choices.get(index).copied().unwrap_or_default()
    }

    /// A duration from `least` to `most` milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.between(least * 1000, most * 1000))
    }

    /// Another seed.
    pub fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }
}
