//! What happens next: every entity of a world has at most one appointment; the earliest comes
//! first, and among equals the one that was made first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gannet_base::Instant;

/// Appointments by time. Entities are numbers from 0.
#[derive(Debug, Default)]
pub struct Schedule {
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    /// The earliest entry of each entity in the heap.
    due: Vec<Instant>,
    made: u64,
}

impl Schedule {
    /// For `entities` entities, none with an appointment.
    pub fn new(entities: usize) -> Self {
        Schedule {
            heap: BinaryHeap::new(),
            due: vec![Instant::FAR_FUTURE; entities],
            made: 0,
        }
    }

    /// Wakes `entity` at `when` at the latest. An earlier appointment stays: who is woken early
    /// looks at its own watch and makes a new one.
    pub fn wake(&mut self, entity: usize, when: Instant) {
        let Some(due) = self.due.get_mut(entity).filter(|due| when < **due) else {
            return;
        };
        *due = when;
        self.made += 1;
        self.heap.push(Reverse((when, self.made, entity)));
    }

    /// Takes the next appointment.
    pub fn take(&mut self) -> Option<(Instant, usize)> {
        while let Some(Reverse((when, _, entity))) = self.heap.pop() {
            let due = self.due.get_mut(entity).filter(|due| **due == when);
            if let Some(due) = due {
                *due = Instant::FAR_FUTURE;
                return Some((when, entity));
            }
        }
        None
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
    }
}
