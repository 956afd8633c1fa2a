//! All that the lock of a queue protects, and who has to be woken after a change of it. Plain data; the
//! interleavings that this must survive are written out in `queue` (on `Shared`).

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::core::{Core, Taken};
use crate::delay::Delayed;
use crate::priority::Priority;
use crate::status::Status;

/// For a delay that the clock cannot express: about thirty years, which no queue outlives.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// What a getter does besides waiting for keys. At most one getter of a queue is its timekeeper, which is what
/// lets a deadline wake one getter and not all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sleeps until it is woken.
    Follower,
    /// Sleeps until it is woken or the earliest deadline has come.
    Timekeeper,
}

/// What a getter found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look<Taken> {
    /// A key, which runs from now on.
    Take(Taken),
    /// The queue is shut down and will hand out nothing more.
    End,
    /// Nothing yet: wait to be woken.
    Follow,
    /// Nothing yet: wait to be woken or for this deadline.
    KeepTime(Instant),
}

/// Who has to be woken after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wake {
    /// One getter, whichever has waited longest.
    pub(crate) getter: bool,
    /// The getter that sleeps until a deadline which is no longer the earliest.
    pub(crate) timekeeper: bool,
    /// All that wait for the end of a drain.
    pub(crate) drains: bool,
}

/// A queue without its lock.
#[derive(Debug)]
pub(crate) struct State<T> {
    core: Core<T>,
    /// Empty unless the queue is open.
    delayed: Delayed<T>,
    /// Keys are accepted.
    is_open: bool,
    /// How often a shutdown was asked for that waits for nothing. Each ends the drains that have begun before it.
    shutdowns: u64,
    /// Exactly one getter has the role `Timekeeper`; otherwise none has it.
    time_is_kept: bool,
    /// How many runs were asked for since the queue was made, and how many of them after a failure.
    adds: u64,
    retries: u64,
}

/// What `wake_since` compares with.
struct Before {
    waiting: usize,
    deadline: Option<Instant>,
    ended: bool,
    shutdowns: u64,
}

impl<T> State<T> {
    pub(crate) fn new(now: Instant) -> Self {
        State {
            core: Core::new(now),
            delayed: Delayed::new(),
            is_open: true,
            shutdowns: 0,
            time_is_kept: false,
            adds: 0,
            retries: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// A drain has nothing left to wait for, or was told not to wait; `begun` is what `drain` has said.
    pub(crate) fn is_drained(&self, begun: u64) -> bool {
        self.core.is_idle() || self.shutdowns != begun
    }

    /// Some getter should look at the queue. Whoever leaves while this holds wakes the next one.
    pub(crate) fn wants_a_look(&self) -> bool {
        self.core.waiting() > 0
            || self.is_ended()
            || (self.delayed.next_deadline().is_some() && !self.time_is_kept)
    }

    /// Takes the timekeeper's role away from the getter that has `role`.
    pub(crate) fn resign(&mut self, role: &mut Role) {
        if std::mem::replace(role, Role::Follower) == Role::Timekeeper {
            self.time_is_kept = false;
        }
    }

    /// Getters end. A key that is to run again holds this up: somebody has to be there to take it.
    fn is_ended(&self) -> bool {
        !self.is_open && self.core.is_exhausted()
    }

    fn before(&self) -> Before {
        Before {
            waiting: self.core.waiting(),
            deadline: self.delayed.next_deadline(),
            ended: self.is_ended(),
            shutdowns: self.shutdowns,
        }
    }

    fn wake_since(&self, before: &Before) -> Wake {
        let earlier = match (self.delayed.next_deadline(), before.deadline) {
            (Some(now), Some(then)) => now < then,
            (now, _) => now.is_some(),
        };
        let more = self.core.waiting() > before.waiting || self.is_ended() != before.ended;
        Wake {
            getter: more || (earlier && !self.time_is_kept),
            timekeeper: earlier && self.time_is_kept,
            drains: !self.is_open && self.is_drained(before.shutdowns),
        }
    }
}

impl<T: Eq + Hash + Clone> State<T> {
    /// Makes one change at `now`. What came due before it goes first, so that the order is the same as if a
    /// clock had moved each key at its deadline.
    pub(crate) fn change<R>(&mut self, now: Instant, change: impl FnOnce(&mut Self) -> R) -> (Wake, R) {
        let before = self.before();
        self.advance(now);
        let result = change(self);
        (self.wake_since(&before), result)
    }

    /// A getter's look at `now`, and whether the next getter must look too. With anything but `KeepTime` the
    /// role is given up.
    pub(crate) fn look(&mut self, role: &mut Role, now: Instant) -> (Look<Taken<T>>, bool) {
        self.advance(now);
        let look = self.find(*role, now);
        if let Look::KeepTime(_) = look {
            self.time_is_kept = true;
            *role = Role::Timekeeper;
        } else {
            self.resign(role);
        }
        (look, self.wants_a_look())
    }

    pub(crate) fn add(&mut self, key: T, priority: Priority, now: Instant) {
        if self.is_open() && self.core.add(key, priority, now) {
            self.adds += 1;
        }
    }

    pub(crate) fn add_after(&mut self, key: T, priority: Priority, delay: Duration, now: Instant) {
        if delay.is_zero() {
            self.add(key, priority, now);
        } else if self.is_open() {
            let deadline = now.checked_add(delay).unwrap_or_else(|| now + FAR_FUTURE);
            self.delayed.set(key, priority, deadline);
        }
    }

    /// As `add_after`, for a key that has failed.
    pub(crate) fn retry(&mut self, key: T, priority: Priority, delay: Duration, now: Instant) {
        self.retries += u64::from(self.is_open());
        self.add_after(key, priority, delay, now);
    }

    /// The run of `key` is over; says how long it was.
    pub(crate) fn done(&mut self, key: &T, now: Instant) -> Option<Duration> {
        self.core.done(key, now)
    }

    pub(crate) fn status(&self, now: Instant) -> Status<T> {
        let mut running: Vec<(T, Duration)> =
            self.core.running().map(|(key, since)| (key.clone(), now.duration_since(since))).collect();
        running.sort_by_key(|(_, so_long)| std::cmp::Reverse(*so_long));
        Status {
            waiting: self.core.waiting(),
            delayed: self.delayed.len(),
            running,
            adds: self.adds,
            retries: self.retries,
        }
    }

    /// How many keys wait for a worker.
    pub(crate) fn waiting(&self) -> usize {
        self.core.waiting()
    }

    /// Ends the queue, and the wait of all drains that have begun.
    pub(crate) fn shutdown(&mut self) {
        self.shutdowns += 1;
        self.close();
    }

    /// Ends the queue; somebody waits until it `is_drained`.
    pub(crate) fn drain(&mut self) -> u64 {
        self.close();
        self.shutdowns
    }

    fn close(&mut self) {
        self.is_open = false;
        self.delayed.clear();
    }

    fn find(&mut self, role: Role, now: Instant) -> Look<Taken<T>> {
        if let Some(taken) = self.core.take(now) {
            return Look::Take(taken);
        }
        if self.is_ended() {
            return Look::End;
        }
        match self.delayed.next_deadline() {
            Some(deadline) if role == Role::Timekeeper || !self.time_is_kept => Look::KeepTime(deadline),
            _ => Look::Follow,
        }
    }

    fn advance(&mut self, now: Instant) {
        while let Some((key, priority, due)) = self.delayed.pop_due(now) {
            self.add(key, priority, due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOBODY: Wake = Wake { getter: false, timekeeper: false, drains: false };
    const GETTER: Wake = Wake { getter: true, ..NOBODY };
    const TIMEKEEPER: Wake = Wake { timekeeper: true, ..NOBODY };

    fn state() -> (State<&'static str>, Instant) {
        let now = Instant::now();
        (State::new(now), now)
    }

    fn look(state: &mut State<&'static str>, role: &mut Role, now: Instant) -> (Look<&'static str>, bool) {
        let (look, next_must_look) = state.look(role, now);
        let look = match look {
            Look::Take(taken) => Look::Take(taken.key),
            Look::End => Look::End,
            Look::Follow => Look::Follow,
            Look::KeepTime(deadline) => Look::KeepTime(deadline),
        };
        (look, next_must_look)
    }

    fn done(state: &mut State<&'static str>, key: &'static str, now: Instant) -> Wake {
        state.change(now, |state| state.done(&key, now)).0
    }

    fn add(state: &mut State<&'static str>, key: &'static str, now: Instant) -> Wake {
        state.change(now, |state| state.add(key, Priority::NORMAL, now)).0
    }

    fn add_after(state: &mut State<&'static str>, key: &'static str, delay: Duration, now: Instant) -> Wake {
        state.change(now, |state| state.add_after(key, Priority::NORMAL, delay, now)).0
    }

    #[test]
    fn only_an_add_that_lengthens_the_line_wakes_a_getter() {
        let (mut state, now) = state();
        assert_eq!(add(&mut state, "a", now), GETTER);
        assert_eq!(add(&mut state, "a", now), NOBODY);
        assert_eq!(look(&mut state, &mut Role::Follower, now), (Look::Take("a"), false));
        assert_eq!(add(&mut state, "a", now), NOBODY, "it runs");
        assert_eq!(done(&mut state, "a", now), GETTER, "it is to run again");
    }

    #[test]
    fn who_takes_a_key_and_leaves_others_behind_wakes_the_next() {
        let (mut state, now) = state();
        add(&mut state, "a", now);
        add(&mut state, "b", now);
        assert_eq!(look(&mut state, &mut Role::Follower, now), (Look::Take("a"), true));
        assert_eq!(look(&mut state, &mut Role::Follower, now), (Look::Take("b"), false));
    }

    #[test]
    fn one_getter_keeps_the_time_and_the_others_follow() {
        let (mut state, now) = state();
        let (mut first, mut second) = (Role::Follower, Role::Follower);
        assert_eq!(add_after(&mut state, "a", SECOND, now), GETTER, "somebody must become the timekeeper");
        assert_eq!(look(&mut state, &mut first, now), (Look::KeepTime(now + SECOND), false));
        assert_eq!(look(&mut state, &mut second, now), (Look::Follow, false));
        assert_eq!((first, second), (Role::Timekeeper, Role::Follower));
        assert_eq!(add_after(&mut state, "b", SECOND * 2, now), NOBODY, "not the earliest");
        assert_eq!(add_after(&mut state, "c", SECOND / 2, now), TIMEKEEPER);
        assert_eq!(look(&mut state, &mut first, now), (Look::KeepTime(now + SECOND / 2), false));
    }

    #[test]
    fn a_timekeeper_that_leaves_has_a_follower_take_over() {
        let (mut state, now) = state();
        let (mut first, mut second) = (Role::Follower, Role::Follower);
        add_after(&mut state, "a", SECOND, now);
        add_after(&mut state, "b", SECOND * 2, now);
        look(&mut state, &mut first, now);
        assert_eq!(look(&mut state, &mut first, now + SECOND), (Look::Take("a"), true));
        assert_eq!(look(&mut state, &mut second, now + SECOND), (Look::KeepTime(now + SECOND * 2), false));
        state.resign(&mut second);
        assert!(state.wants_a_look(), "a cancelled timekeeper leaves a deadline that nobody keeps");
    }

    #[test]
    fn a_key_that_came_due_goes_before_one_added_later() {
        let (mut state, now) = state();
        add_after(&mut state, "due", SECOND, now);
        add(&mut state, "later", now + SECOND);
        assert_eq!(look(&mut state, &mut Role::Follower, now + SECOND).0, Look::Take("due"));
        assert_eq!(look(&mut state, &mut Role::Follower, now + SECOND).0, Look::Take("later"));
    }

    #[test]
    fn an_immediate_add_leaves_the_timer() {
        let (mut state, now) = state();
        add_after(&mut state, "a", SECOND, now);
        add(&mut state, "a", now);
        assert_eq!(look(&mut state, &mut Role::Follower, now).0, Look::Take("a"));
        done(&mut state, "a", now);
        assert_eq!(look(&mut state, &mut Role::Follower, now + SECOND).0, Look::Take("a"));
    }

    #[test]
    fn a_delay_beyond_the_clock_is_kept_as_far_away() {
        let (mut state, now) = state();
        add_after(&mut state, "a", Duration::MAX, now);
        assert_eq!(look(&mut state, &mut Role::Follower, now).0, Look::KeepTime(now + FAR_FUTURE));
    }

    #[test]
    fn getters_end_when_the_line_is_empty_and_nothing_is_to_run_again() {
        let (mut state, now) = state();
        for key in ["a", "b"] {
            add(&mut state, key, now);
            look(&mut state, &mut Role::Follower, now);
        }
        add(&mut state, "a", now);
        assert_eq!(state.change(now, |state| state.drain()).0, NOBODY);
        add(&mut state, "b", now);
        add_after(&mut state, "c", SECOND, now);
        assert_eq!(look(&mut state, &mut Role::Follower, now), (Look::Follow, false), "a is to run again");
        assert_eq!(done(&mut state, "a", now), GETTER);
        assert_eq!(look(&mut state, &mut Role::Follower, now), (Look::Take("a"), true));
        assert_eq!(look(&mut state, &mut Role::Follower, now), (Look::End, true));
        assert_eq!(done(&mut state, "a", now), NOBODY, "b still runs");
        assert_eq!(done(&mut state, "b", now), Wake { drains: true, ..NOBODY });
    }
}
