//! How calls wait. There is no thread that everything passes through: whoever waits does the work.
//!
//! A call locks the shard, tries, and if it would block polls the stack itself: first *spinning*
//! (news then costs one cache-line transfer), then asleep. Of all sleepers one is the *leader*: it
//! sleeps on the kernel's descriptors, with the links told to ring; the others *follow*, each on
//! its own condition variable, and are woken by whoever polls and finds their socket ready.
//!
//! ```text
//!   call -> try -> spin --+- nobody leads, nobody else is busy -> lead (epoll, links armed)
//!                         +- else -> follow (condition variable)
//! ```
//! When no application thread is inside, acknowledgements and timers still have to be seen to: that
//! is the background thread's job. It must cost nothing beside a busy application, so it *dozes*
//! (a look every few milliseconds) while calls come in, *parks* (no timer at all) while an
//! application thread leads, and *leads* itself when the application has been away for a doze.
//! Links are not told to ring while anybody spins or dozes, so a busy peer makes no system call for
//! us; the price is that a process that stops polling answers up to one doze late, once.
//!
//! An alternative would be one event-loop thread per host: simpler, and two thread switches dearer
//! for every round trip, which is most of its time.

use crate::clock;
use crate::error::would_block;
use crate::shard::{Shard, Socket};
use crate::watch::Watch;
use gannet_base::Instant;
use gannet_drivers::wait::{Spinner, WaitPolicy};
use hashbrown::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// Looks at the links between two times of letting other threads in and reading the clock.
const LOOKS: u32 = 16;
/// How long the background thread leaves a busy application alone: the longer it has been busy, the
/// longer, up to `DOZE`.
const DOZE: Duration = Duration::from_millis(10);
/// At first, and while other threads wait for their sockets and nobody leads.
const SHORT_DOZE: Duration = Duration::from_millis(1);
/// Longest absence that is told from longer ones, in nanoseconds.
const AWAY_MAX: u64 = DOZE.as_nanos() as u64;
/// An application that comes back within so many nanoseconds need not appoint a leader when it
/// leaves.
const QUICK: u64 = 50_000;
/// Calls in a row that may do without the clock: the links must have their turn.
const BRIEF_MAX: u32 = 16;
/// Arming fails when there is work; so often in a row it fails for work that cannot be done now.
const VAIN_ARMS: u32 = 4;
/// Then sleep unarmed, but not for long.
const NAP: Duration = Duration::from_millis(1);
/// Time between looks while the host ends.
const LAST_LOOKS: Duration = Duration::from_micros(50);

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// Until then, [`Instant::FAR_FUTURE`] for ever.
    Until(Instant),
}

/// What one kind of wait on one socket has taught: how long it is worth while to spin. Where news
/// comes every millisecond, over a slow network or from a slow peer, a spin before each sleep would
/// be processor time for nothing.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// Nanoseconds of the longest spin that are left out.
    spared: AtomicU32,
}

impl Habit {
    /// Sleeps at once.
    pub(crate) fn never_looks() -> Habit {
        Habit {
            spared: AtomicU32::new(u32::MAX),
        }
    }

    fn spinner(&self, policy: WaitPolicy) -> Spinner {
        let spared = Duration::from_nanos(self.spared.load(Ordering::Relaxed).into());
        Spinner::with_window(policy, policy.spin_max.saturating_sub(spared))
    }

    fn learn(&self, policy: WaitPolicy, spinner: &Spinner) {
        let spared = policy.spin_max.saturating_sub(spinner.window()).as_nanos();
        let spared = u32::try_from(spared).unwrap_or(u32::MAX);
        self.spared.store(spared, Ordering::Relaxed);
    }
}

/// Who waits for what; a part of the shard, under its lock.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    leader: Option<Leader>,
    /// By number; numbers are used again.
    sleepers: Vec<Option<Sleeper>>,
    by_socket: HashMap<Socket, Vec<usize>>,
    asleep: usize,
    /// Threads that poll in a loop right now.
    spinners: u32,
    /// Calls made so far: how the background thread sees that the application is busy.
    calls: u64,
    /// Calls in a row that did without the clock.
    brief: u32,
    /// When the last call ended, and how many nanoseconds the application stays away between two,
    /// smoothed.
    ended: Instant,
    away: u64,
    vain_arms: u32,
    parked: bool,
    closing: bool,
}

#[derive(Debug)]
struct Leader {
    /// What it waits for itself; `None` for the background thread.
    socket: Option<Socket>,
    /// When it wakes up by itself.
    until: Instant,
    kicked: bool,
}

#[derive(Debug)]
struct Sleeper {
    bell: Arc<Condvar>,
    woken: bool,
    /// Woken to lead rather than by news.
    promoted: bool,
}

impl Waiting {
    /// `socket` may be ready: wakes those who wait for it.
    pub(crate) fn tell(&mut self, socket: Socket, watch: &Watch) {
        if self
            .leader
            .as_ref()
            .is_some_and(|l| l.socket == Some(socket))
        {
            self.kick_leader(watch);
        }
        if self.asleep == 0 {
            return;
        }
        for &number in self.by_socket.get(&socket).map_or(&[][..], Vec::as_slice) {
            if let Some(Some(sleeper)) = self.sleepers.get_mut(number) {
                sleeper.woken = true;
                sleeper.bell.notify_one();
            }
        }
    }

    /// Whether somebody sleeps on the kernel's descriptors.
    pub(crate) fn has_leader(&self) -> bool {
        self.leader.is_some()
    }

    /// Makes whoever sleeps on the kernel's descriptors look around.
    pub(crate) fn kick_leader(&mut self, watch: &Watch) {
        if let Some(leader) = self.leader.as_mut().filter(|l| !l.kicked) {
            leader.kicked = true;
            watch.kick();
        }
    }

    fn enter(&mut self, socket: Socket) -> (usize, Arc<Condvar>) {
        let bell = Arc::new(Condvar::new());
        let sleeper = Some(Sleeper {
            bell: bell.clone(),
            woken: false,
            promoted: false,
        });
        let number = match self.sleepers.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.sleepers.push(None);
                self.sleepers.len() - 1
            }
        };
        if let Some(place) = self.sleepers.get_mut(number) {
            *place = sleeper;
        }
        self.by_socket.entry(socket).or_default().push(number);
        self.asleep += 1;
        (number, bell)
    }

    /// Whether the sleeper was promoted.
    fn leave(&mut self, socket: Socket, number: usize) -> bool {
        if let Some(list) = self.by_socket.get_mut(&socket) {
            list.retain(|&n| n != number);
            if list.is_empty() {
                self.by_socket.remove(&socket);
            }
        }
        self.asleep = self.asleep.saturating_sub(1);
        let place = self.sleepers.get_mut(number).and_then(Option::take);
        place.is_some_and(|s| s.promoted)
    }

    fn is_woken(&self, number: usize) -> bool {
        let place = self.sleepers.get(number).and_then(Option::as_ref);
        place.is_none_or(|s| s.woken || s.promoted)
    }

    /// Makes one of the sleepers the leader; `false` without any.
    fn promote(&mut self) -> bool {
        let mut waiting = self.sleepers.iter_mut().flatten();
        let Some(sleeper) = waiting.find(|s| !s.woken && !s.promoted) else {
            return false;
        };
        sleeper.promoted = true;
        sleeper.bell.notify_one();
        true
    }

    fn call_begins(&mut self, now: Instant) {
        self.calls = self.calls.wrapping_add(1);
        let away = now.as_nanos().saturating_sub(self.ended.as_nanos());
        self.away = (self.away * 3 + away.min(AWAY_MAX)) / 4;
    }
}

/// What the handles of one host share.
#[derive(Debug)]
pub(crate) struct Shared {
    shard: Mutex<Shard>,
    /// Threads that want the lock: a spinner lets them in.
    contenders: AtomicU32,
    /// Where the background thread dozes and parks.
    background: Condvar,
    pub(crate) watch: Arc<Watch>,
    policy: WaitPolicy,
}

impl Shared {
    pub(crate) fn new(shard: Shard, watch: Arc<Watch>, policy: WaitPolicy) -> Shared {
        Shared {
            shard: Mutex::new(shard),
            contenders: AtomicU32::new(0),
            background: Condvar::new(),
            watch,
            policy,
        }
    }

    /// The shard, for this thread alone.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Shard> {
        #[cfg(test)]
        tests::lock_is_open();
        if let Ok(shard) = self.shard.try_lock() {
            return shard;
        }
        self.contenders.fetch_add(1, Ordering::Relaxed);
        let shard = self.shard.lock().unwrap_or_else(PoisonError::into_inner);
        self.contenders.fetch_sub(1, Ordering::Relaxed);
        shard
    }

    /// One call that leads to nothing but what it does itself: nothing is to be sent, nobody is to
    /// be told, so not even the clock is needed. `None`: `work` said that this is not such a case,
    /// or there were many of them; make an ordinary call.
    #[inline]
    pub(crate) fn brief<T>(&self, work: impl FnOnce(&mut Shard) -> Option<T>) -> Option<T> {
        let mut shard = self.lock();
        if shard.waiting.brief >= BRIEF_MAX {
            shard.waiting.brief = 0;
            return None;
        }
        let done = work(&mut shard)?;
        shard.waiting.brief += 1;
        shard.waiting.calls = shard.waiting.calls.wrapping_add(1);
        Some(done)
    }

    /// One call on a socket that never waits.
    pub(crate) fn call<T>(&self, work: impl FnOnce(&mut Shard, Instant) -> T) -> T {
        let mut shard = self.lock();
        let now = shard.time_of_call();
        shard.waiting.call_begins(now);
        let done = work(&mut shard, now);
        self.call_ends(&mut shard, now);
        done
    }

    /// One call on `socket`: `attempt` until it is ready, or patience ends with `WouldBlock`.
    #[inline]
    pub(crate) fn wait<T>(
        &self,
        socket: Socket,
        (patience, habit): (Patience, &Habit),
        mut attempt: impl FnMut(&mut Shard, Instant) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        let mut shard = self.lock();
        let now = shard.time_of_call();
        shard.waiting.call_begins(now);
        shard.turn_if_due(now);
        let mut done = attempt(&mut shard, now);
        if done.is_pending() {
            shard.turn(now);
            done = attempt(&mut shard, now);
        }
        let deadline = match (done, patience) {
            (Poll::Ready(done), _) => {
                self.call_ends(&mut shard, now);
                return done;
            }
            (Poll::Pending, Patience::None) => {
                self.call_ends(&mut shard, now);
                return Err(would_block());
            }
            (Poll::Pending, Patience::Until(deadline)) => deadline,
        };
        shard.waiting.spinners += 1;
        let wait = (socket, deadline, habit);
        let (mut shard, done) = self.spin(shard, wait, &mut attempt);
        shard.waiting.spinners -= 1;
        let now = shard.turned();
        self.call_ends(&mut shard, now);
        done
    }

    /// Looks, and looks again, and sleeps when that has been in vain for a while.
    fn spin<'s, T>(
        &'s self,
        mut shard: MutexGuard<'s, Shard>,
        (socket, deadline, habit): (Socket, Instant, &Habit),
        attempt: &mut impl FnMut(&mut Shard, Instant) -> Poll<io::Result<T>>,
    ) -> (MutexGuard<'s, Shard>, io::Result<T>) {
        let mut spinner = habit.spinner(self.policy);
        let (mut tired, mut crowded, mut promoted) = (false, false, false);
        loop {
            let now = clock::now();
            let looks = if spinner.window().is_zero() { 1 } else { LOOKS };
            for look in 0..looks {
                let news = shard.turn(now);
                // Other threads poll too, so at the first look there may be news without news.
                if (news || look == 0)
                    && let Poll::Ready(done) = attempt(&mut shard, now)
                {
                    return (shard, done);
                }
                if news {
                    spinner.news();
                }
                if self.contenders.load(Ordering::Relaxed) > 0 {
                    break;
                }
                std::hint::spin_loop();
            }
            if now >= deadline {
                return (shard, Err(would_block()));
            }
            // Between the last look and sleep the lock is held: whoever finds the socket ready
            // after that look finds a sleeper to wake.
            if !tired && !promoted {
                drop(shard);
                tired = !spinner.spin();
                shard = self.lock();
                continue;
            }
            shard.waiting.spinners -= 1;
            let alone = shard.waiting.spinners == 0 && shard.waiting.leader.is_none();
            (shard, crowded, promoted) = if promoted || (alone && !crowded) {
                let (shard, crowded) = self.lead(shard, Some(socket), deadline);
                (shard, crowded, false)
            } else {
                let (shard, promoted) = self.follow(shard, socket, deadline);
                (shard, false, promoted)
            };
            shard.waiting.spinners += 1;
            spinner.slept(clock::now() - now);
            habit.learn(self.policy, &spinner);
            tired = false;
        }
    }

    /// Sleeps on the kernel's descriptors. Says whether other threads were busy meanwhile: then it
    /// is no use to sleep armed, since their traffic would ring.
    fn lead<'s>(
        &'s self,
        mut shard: MutexGuard<'s, Shard>,
        socket: Option<Socket>,
        deadline: Instant,
    ) -> (MutexGuard<'s, Shard>, bool) {
        if shard.waiting.leader.is_some() {
            return (shard, true);
        }
        let now = clock::now();
        shard.stack.flush();
        let mut until = deadline.min(shard.next_timeout());
        if shard.is_blocked() {
            until = until.min(now + NAP);
        }
        let armed = shard.stack.arm();
        if armed {
            shard.waiting.vain_arms = 0;
        } else {
            shard.waiting.vain_arms += 1;
            if shard.waiting.vain_arms < VAIN_ARMS {
                return (shard, false);
            }
            until = until.min(now + NAP);
        }
        // What came since the last look is seen at once: the descriptors are readable.
        if !shard.watch_interfaces(true) {
            until = until.min(now + NAP);
        }
        let calls = shard.waiting.calls;
        shard.waiting.leader = Some(Leader {
            socket,
            until,
            kicked: false,
        });
        let mut signals = std::mem::take(&mut shard.signals);
        drop(shard);
        let timeout = (until != Instant::FAR_FUTURE).then(|| until - now);
        self.watch.wait(&mut signals, timeout);
        let mut shard = self.lock();
        let kicked = shard.waiting.leader.take().is_some_and(|l| l.kicked);
        if kicked {
            self.watch.unkick();
        }
        shard.watch_interfaces(false);
        if armed {
            shard.stack.disarm();
        }
        shard.heed(&signals, clock::now());
        shard.signals = signals;
        let crowded = kicked || calls != shard.waiting.calls || shard.waiting.spinners > 0;
        (shard, crowded)
    }

    /// Sleeps until somebody else finds `socket` ready. Says whether it woke up to lead instead.
    fn follow<'s>(
        &'s self,
        mut shard: MutexGuard<'s, Shard>,
        socket: Socket,
        deadline: Instant,
    ) -> (MutexGuard<'s, Shard>, bool) {
        let (number, bell) = shard.waiting.enter(socket);
        shard.stack.flush();
        if !self.mind_the_leader(&mut shard) {
            self.unpark(&mut shard);
        }
        while !shard.waiting.is_woken(number) {
            if deadline == Instant::FAR_FUTURE {
                shard = bell.wait(shard).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = clock::now();
            if now >= deadline {
                break;
            }
            let slept = bell.wait_timeout(shard, deadline - now);
            shard = slept.unwrap_or_else(PoisonError::into_inner).0;
        }
        let promoted = shard.waiting.leave(socket, number);
        (shard, promoted)
    }

    /// Everything said is sent, somebody watches, and the sleeper knows of new timers.
    #[inline]
    fn call_ends(&self, shard: &mut Shard, now: Instant) {
        if shard.gathering > 0 {
            return;
        }
        shard.stack.flush();
        if shard.talks_to_itself() {
            shard.listen_to_itself(now);
        }
        shard.waiting.ended = now;
        if self.mind_the_leader(shard) {
            return;
        }
        if shard.waiting.spinners > 0 {
            return;
        }
        if shard.waiting.asleep > 0 && shard.waiting.away > QUICK && shard.waiting.promote() {
            return;
        }
        self.unpark(shard);
    }

    /// The leader, if there is one, must not sleep past a timer that was set after it lay down.
    /// Says whether there is one.
    #[inline]
    fn mind_the_leader(&self, shard: &mut Shard) -> bool {
        let Some(until) = shard.waiting.leader.as_ref().map(|l| l.until) else {
            return false;
        };
        if shard.next_timeout() < until {
            shard.waiting.kick_leader(&self.watch);
        }
        true
    }

    fn unpark(&self, shard: &mut Shard) {
        if shard.waiting.parked && shard.waiting.leader.is_none() {
            shard.waiting.parked = false;
            self.background.notify_one();
        }
    }

    /// The background thread: see the module's description.
    pub(crate) fn attend(&self) {
        let mut shard = self.lock();
        let (mut calls, mut turns, mut doze) = (0, 0, SHORT_DOZE);
        while !shard.waiting.closing {
            let busy = shard.waiting.spinners > 0 || shard.waiting.calls != calls;
            calls = shard.waiting.calls;
            if !busy && shard.waiting.leader.is_none() {
                shard.turn(clock::now());
                shard.stack.flush();
                shard = self.lead(shard, None, Instant::FAR_FUTURE).0;
                doze = SHORT_DOZE;
                continue;
            }
            shard = if busy {
                let late = shard.waiting.asleep > 0 && shard.waiting.leader.is_none();
                let tick = if late { SHORT_DOZE } else { doze };
                doze = (doze * 2).min(DOZE);
                let dozed = self.background.wait_timeout(shard, tick);
                dozed.unwrap_or_else(PoisonError::into_inner).0
            } else {
                shard.waiting.parked = true;
                let parked = self.background.wait(shard);
                parked.unwrap_or_else(PoisonError::into_inner)
            };
            shard.waiting.parked = false;
            if turns == shard.turns() {
                // The application calls but never waits: nobody else looks at the links.
                shard.turn(clock::now());
                shard.stack.flush();
            }
            turns = shard.turns();
        }
    }

    /// Works on until closed connections have delivered what was written, or `deadline` has passed.
    pub(crate) fn finish(&self, deadline: Instant) {
        loop {
            let mut shard = self.lock();
            let now = clock::now();
            shard.turn(now);
            shard.stack.flush();
            if shard.stack.tcp_undelivered() == 0 || now >= deadline {
                return;
            }
            drop(shard);
            std::thread::sleep(LAST_LOOKS);
        }
    }

    /// Ends [`Shared::attend`].
    pub(crate) fn close(&self) {
        let mut shard = self.lock();
        shard.waiting.closing = true;
        shard.waiting.kick_leader(&self.watch);
        self.background.notify_all();
    }
}

#[cfg(test)]
mod tests;
