//! Which frame is struck by which fault. One seed, one sequence of throws: a frame's fate depends
//! on the frames before it and on nothing else.

use core::time::Duration;

use gannet_base::Rng;

use super::counters::Event;
use super::model::Faults;

/// The generator and the state of burst loss.
#[derive(Clone, Debug)]
pub struct Dice {
    rng: Rng,
    bad: bool,
}

/// What becomes of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It vanishes, for this reason.
    Vanishes(Event),
    /// It arrives.
    Arrives {
        /// Twice.
        twice: bool,
        /// After this much more time than others, which pass it.
        late: Option<Duration>,
        /// With a wrong bit.
        corrupt: bool,
        /// With a wrong bit and a right checksum.
        unseen: bool,
    },
}

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Self {
        Dice {
            rng: Rng::new(seed),
            bad: false,
        }
    }

    /// The generator, for what else is random.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The fate of the next frame.
    pub fn throw(&mut self, faults: &Faults, bare_ack: bool) -> Fate {
        let &Faults {
            loss,
            burst,
            ack_loss,
            duplicate,
            reorder,
            reorder_by,
            corrupt,
            corrupt_unseen,
        } = faults;
        if let Some(burst) = burst {
            let turn = if self.bad { burst.leave } else { burst.enter };
            self.bad ^= self.chance(turn);
            if self.bad && self.chance(burst.loss) {
                return Fate::Vanishes(Event::LostInBurst);
            }
        }
        if self.chance(loss) {
            return Fate::Vanishes(Event::Lost);
        }
        if bare_ack && self.chance(ack_loss) {
            return Fate::Vanishes(Event::AckLost);
        }
        Fate::Arrives {
            twice: self.chance(duplicate),
            late: self.chance(reorder).then(|| self.up_to(reorder_by)),
            corrupt: self.chance(corrupt),
            unseen: self.chance(corrupt_unseen),
        }
    }

    /// A time up to `most`, evenly spread; nothing is thrown for zero.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        match u64::try_from(most.as_nanos()).unwrap_or(u64::MAX) {
            0 => Duration::ZERO,
            most => Duration::from_nanos(self.rng.below(most) + 1),
        }
    }

    /// Nothing is thrown for what never happens, so that a fault that is switched off leaves the
    /// others as they were.
    fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.rng.chance(per_million)
    }
}
