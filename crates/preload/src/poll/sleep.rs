//! What a poll that sleeps holds meanwhile: of each of its streams that it sleeps, and the lead.

use crate::lead::{self, Lead, SLICE};
use crate::object::{Asleep, Found, Kind};
use crate::state::State;
use crate::wait;
use libc::{c_int, pollfd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;
use std::time::Duration;

/// How long a poll sleeps that has a stream in it which nothing wakes.
const DEAF_SLICE: Duration = Duration::from_millis(1);

/// See the module.
pub(super) struct Sleep<'a> {
    state: &'a State,
    ours: &'a [Option<Found>],
    leads: Vec<Lead<'a>>,
    asleep: Vec<Asleep<'a>>,
    most: Option<Duration>,
}

fn has_wakes(object: &&Found) -> bool {
    matches!(object.kind(), Kind::Stream | Kind::Datagrams)
}

impl<'a> Sleep<'a> {
    /// From here on the other ends wake this one. What may have happened before is to be looked for
    /// after this.
    pub(super) fn begin(state: &'a State, fds: &[pollfd], ours: &'a [Option<Found>]) -> Sleep<'a> {
        let mut sleep = Sleep {
            state,
            ours,
            leads: Vec::new(),
            asleep: Vec::new(),
            most: None,
        };
        for (entry, object) in fds.iter().zip(ours) {
            if let Some(object) = object.as_ref().filter(has_wakes) {
                sleep.add(entry, object);
            }
        }
        fence(SeqCst);
        sleep
    }

    fn add(&mut self, entry: &pollfd, object: &'a Found) {
        let slot = self.state.arena().own(object.slot());
        slot.arm_reader();
        slot.arm_writer();
        match Lead::take(object) {
            Some(lead) => self.leads.push(lead),
            // Another thread has it, who may take the byte that is to wake this one.
            None if !has_lead(&self.leads, object) => self.at_most(SLICE),
            None => {}
        }
        if object.kind() != Kind::Stream {
            return;
        }
        self.asleep.extend(Asleep::on(object, entry.fd));
        if entry.events & libc::POLLOUT != 0 {
            // Nothing tells of a direction that another thread ends.
            self.at_most(SLICE);
        }
        if wait::is_deaf(self.state, object) {
            self.at_most(DEAF_SLICE);
        }
    }

    fn at_most(&mut self, most: Duration) {
        self.most = Some(self.most.map_or(most, |before| before.min(most)));
    }

    /// How long to sleep, of the time `left`.
    pub(super) fn length(&self, left: Option<Duration>) -> Option<Duration> {
        match (self.most, left) {
            (Some(most), Some(left)) => Some(most.min(left)),
            (most, left) => most.or(left),
        }
    }

    /// The leads it has.
    pub(super) fn leads(&self) -> &[Lead<'a>] {
        &self.leads
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        for object in self.ours.iter().flatten().filter(has_wakes) {
            let slot = self.state.arena().own(object.slot());
            slot.disarm_reader();
            slot.disarm_writer();
        }
    }
}

fn has_lead(leads: &[Lead<'_>], object: &Found) -> bool {
    leads.iter().any(|lead| lead.is_of(object))
}

/// Takes out what has woken the poll, if that is its to do.
pub(super) fn take_wakes(state: &State, object: &Found, fd: c_int, leads: &[Lead<'_>]) {
    match has_lead(leads, object) {
        true => wait::take_wakes(state, object, fd),
        false => wait::take_wakes_alone(state, object, fd),
    }
    lead::tell_sets(state, object);
}
