//! What happens next: every entity of a world has at most one appointment; the earliest comes
//! first, and among equals the one that was made first.

use gannet_base::Instant;

/// Appointments by time. Entities are numbers from 0.
///
/// A list that is looked through: a world has a few tens of entities at most, and four out of five
/// calls are [`Schedule::wake`], for which a heap or a tree does more than a list.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The appointment of each.
    due: Vec<Appointment>,
    made: u64,
}

/// When, and how many were made before it.
type Appointment = (Instant, u64);

const NONE: Appointment = (Instant::FAR_FUTURE, 0);

impl Schedule {
    /// For `entities` entities, none with an appointment.
    pub fn new(entities: usize) -> Self {
        Schedule {
            due: vec![NONE; entities],
            made: 0,
        }
    }

    /// Wakes `entity` at `when` at the latest. An earlier appointment stays: who is woken early
    /// looks at its own watch and makes a new one.
    #[inline]
    pub fn wake(&mut self, entity: usize, when: Instant) {
        if let Some(due) = self.due.get_mut(entity).filter(|due| when < due.0) {
            self.made += 1;
            *due = (when, self.made);
        }
    }

    /// Takes the next appointment.
    pub fn take(&mut self) -> Option<(Instant, usize)> {
        let (mut first, mut entity) = (NONE, 0);
        for (number, due) in self.due.iter().enumerate() {
            if *due < first {
                (first, entity) = (*due, number);
            }
        }
        *self.due.get_mut(entity)? = NONE;
        (first != NONE).then_some((first.0, entity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_and_each_once() {
        let at = Instant::from_millis;
        let mut schedule = Schedule::new(3);
        schedule.wake(0, at(5));
        schedule.wake(1, at(5));
        schedule.wake(2, at(9));
        schedule.wake(2, at(1));
        schedule.wake(0, at(7));
        assert_eq!(schedule.take(), Some((at(1), 2)));
        assert_eq!(schedule.take(), Some((at(5), 0)));
        assert_eq!(schedule.take(), Some((at(5), 1)));
        assert_eq!(schedule.take(), None);
        schedule.wake(2, at(9));
        assert_eq!(schedule.take(), Some((at(9), 2)));
        assert_eq!(schedule.take(), None);
    }

    #[test]
    fn as_a_naive_list() {
        const SEED: u64 = 5;
        let mut rng = gannet_base::Rng::new(SEED);
        for entities in 1..20_usize {
            let (mut schedule, mut naive) = (Schedule::new(entities), Vec::new());
            for made in 0..500 {
                let entity = rng.below(entities as u64) as usize;
                let when = Instant::from_millis(rng.below(100));
                schedule.wake(entity, when);
                match naive.iter().position(|(_, _, other)| *other == entity) {
                    Some(at) if naive[at].0 <= when => {}
                    Some(at) => naive[at] = (when, made, entity),
                    None => naive.push((when, made, entity)),
                }
                if rng.below(3) > 0 {
                    let first = naive.iter().min().copied();
                    naive.retain(|other| Some(*other) != first);
                    let first = first.map(|(when, _, entity)| (when, entity));
                    assert_eq!(schedule.take(), first, "seed {SEED}");
                }
            }
        }
    }
}
