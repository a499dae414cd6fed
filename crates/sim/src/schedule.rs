//! What happens next: every entity of a world has at most one appointment; the earliest comes
//! first, and among equals the one that was made first.

use gannet_base::Instant;

/// Appointments by time. Entities are numbers from 0.
///
/// A tournament: the entities are the leaves of a binary tree, and every inner node holds the
/// earlier appointment of the two below it. So the root is the earliest of all, and an appointment
/// that is made or taken changes the nodes between its leaf and the root and no other: with the few
/// entities of a world less work than a heap in which changed appointments stay behind.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The root at 1, the nodes below `n` at `2n` and `2n + 1`, the leaves in the second half.
    tree: Vec<Appointment>,
    made: u64,
}

/// When, how many were made before it, and whose.
type Appointment = (Instant, u64, usize);

impl Schedule {
    /// For `entities` entities, none with an appointment.
    pub fn new(entities: usize) -> Self {
        let leaves = entities.next_power_of_two();
        Schedule {
            tree: vec![(Instant::FAR_FUTURE, 0, 0); 2 * leaves],
            made: 0,
        }
    }

    /// Wakes `entity` at `when` at the latest. An earlier appointment stays: who is woken early
    /// looks at its own watch and makes a new one.
    pub fn wake(&mut self, entity: usize, when: Instant) {
        let leaf = self.tree.len() / 2 + entity;
        if self.tree.get(leaf).is_some_and(|(due, ..)| when < *due) {
            self.made += 1;
            self.set(leaf, (when, self.made, entity));
        }
    }

    /// Takes the next appointment.
    pub fn take(&mut self) -> Option<(Instant, usize)> {
        let (when, _, entity) = *self.tree.get(1)?;
        if when == Instant::FAR_FUTURE {
            return None;
        }
        let leaf = self.tree.len() / 2 + entity;
        self.set(leaf, (Instant::FAR_FUTURE, 0, entity));
        Some((when, entity))
    }

    fn set(&mut self, leaf: usize, appointment: Appointment) {
        let mut at = leaf;
        let mut earliest = appointment;
        while let Some(node) = self.tree.get_mut(at) {
            *node = earliest;
            if at <= 1 {
                return;
            }
            let other = self.tree.get(at ^ 1).copied().unwrap_or(earliest);
            earliest = earliest.min(other);
            at /= 2;
        }
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
