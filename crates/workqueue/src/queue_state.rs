//! The data under the lock of a queue, and the wake-ups that each change requires. Plain data.
//! `queue` documents (on `Shared`) the interleavings that this data must support.

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::delayed::Delayed;
use crate::priority::Priority;
use crate::state_machine::{StateMachine, TakenKey};
use crate::status::QueueStatus;

/// Replaces a delay that the clock cannot represent: about thirty years.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The role of a getter. At most one getter of a queue is its timekeeper, so a deadline wakes one
/// getter, not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sleeps until it is woken.
    Follower,
    /// Sleeps until it is woken or the earliest deadline is reached.
    Timekeeper,
}

/// The next step of a getter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GetterStep<Taken> {
    /// Return this key, which is now processing.
    Return(Taken),
    /// Return `None`: the queue is shut down and empty.
    End,
    /// Sleep until a notification.
    Sleep,
    /// Sleep until a notification or this deadline.
    SleepUntil(Instant),
}

/// The tasks that must be woken after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wakeups {
    /// The getter that has waited longest.
    pub(crate) getter: bool,
    /// The timekeeper, because it sleeps until a deadline that is no longer the earliest.
    pub(crate) timekeeper: bool,
    /// All callers that wait for the end of a drain.
    pub(crate) drains: bool,
    /// All callers that wait for workers to complete removed keys.
    pub(crate) removals: bool,
}

/// A queue without its lock.
#[derive(Debug)]
pub(crate) struct QueueState<T> {
    machine: StateMachine<T>,
    /// Empty after a shutdown.
    delayed: Delayed<T>,
    /// The queue accepts keys.
    is_open: bool,
    /// The number of shutdowns that do not drain. Each of these shutdowns stops all earlier drains.
    shutdowns: u64,
    /// Exactly one getter has the role `Timekeeper`. Otherwise all getters are followers.
    has_timekeeper: bool,
    /// A removal waits until a worker completes a key.
    removal_waits: bool,
    /// The change has completed a key for which a removal waits.
    wakes_removals: bool,
    /// The number of accepted adds since the queue was created.
    adds: u64,
    /// The number of rate-limited adds since the queue was created.
    retries: u64,
}

/// The part of the state that `wakeups_since` compares.
struct Before {
    ready: usize,
    deadline: Option<Instant>,
    is_ended: bool,
    shutdowns: u64,
}

impl<T> QueueState<T> {
    pub(crate) fn new(now: Instant) -> Self {
        QueueState {
            machine: StateMachine::new(now),
            delayed: Delayed::new(),
            is_open: true,
            shutdowns: 0,
            has_timekeeper: false,
            removal_waits: false,
            wakes_removals: false,
            adds: 0,
            retries: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns true if a drain must stop waiting: the queue is idle, or a shutdown followed.
    /// `begun` is the result of `drain`.
    pub(crate) fn is_drained(&self, begun: u64) -> bool {
        self.machine.is_idle() || self.shutdowns != begun
    }

    /// Returns true if a getter must inspect the queue: a key is ready, the queue is closed and
    /// empty, or a deadline has no timekeeper. A getter that leaves in this state wakes the next
    /// getter.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.machine.ready_len() > 0
            || self.is_ended()
            || (self.delayed.next_deadline().is_some() && !self.has_timekeeper)
    }

    /// Releases the timekeeper role of the getter that has `role`.
    pub(crate) fn resign(&mut self, role: &mut Role) {
        if std::mem::replace(role, Role::Follower) == Role::Timekeeper {
            self.has_timekeeper = false;
        }
    }

    /// Returns true if getters must return `None`. A dirty key prevents this, because a getter must
    /// still take it.
    fn is_ended(&self) -> bool {
        !self.is_open && self.machine.is_exhausted()
    }

    fn before(&self) -> Before {
        Before {
            ready: self.machine.ready_len(),
            deadline: self.delayed.next_deadline(),
            is_ended: self.is_ended(),
            shutdowns: self.shutdowns,
        }
    }

    fn wakeups_since(&mut self, before: &Before) -> Wakeups {
        let is_earlier = match (self.delayed.next_deadline(), before.deadline) {
            (Some(now), Some(then)) => now < then,
            (now, _) => now.is_some(),
        };
        let has_more = self.machine.ready_len() > before.ready || self.is_ended() != before.is_ended;
        Wakeups {
            getter: has_more || (is_earlier && !self.has_timekeeper),
            timekeeper: is_earlier && self.has_timekeeper,
            drains: !self.is_open && self.is_drained(before.shutdowns),
            removals: std::mem::take(&mut self.wakes_removals),
        }
    }
}

impl<T: Eq + Hash + Clone> QueueState<T> {
    /// Applies `change` at `now`. Due keys become ready before the change. The order is therefore
    /// the same as if a timer had moved each key at its deadline.
    pub(crate) fn change<R>(&mut self, now: Instant, change: impl FnOnce(&mut Self) -> R) -> (Wakeups, R) {
        let before = self.before();
        self.advance(now);
        let result = change(self);
        (self.wakeups_since(&before), result)
    }

    /// Decides the next step of a getter at `now`. The boolean is true if the next getter must be
    /// woken.
    ///
    /// The getter keeps or receives the timekeeper role only with `SleepUntil`.
    pub(crate) fn step(&mut self, role: &mut Role, now: Instant) -> (GetterStep<TakenKey<T>>, bool) {
        self.advance(now);
        let step = self.next_step(*role, now);
        if let GetterStep::SleepUntil(_) = step {
            self.has_timekeeper = true;
            *role = Role::Timekeeper;
        } else {
            self.resign(role);
        }
        (step, self.needs_wakeup())
    }

    pub(crate) fn add(&mut self, key: T, priority: Priority, now: Instant) {
        if self.is_open() && self.machine.add(key, priority, now) {
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

    /// Like `add_after`, for a key that failed.
    pub(crate) fn retry(&mut self, key: T, priority: Priority, delay: Duration, now: Instant) {
        self.retries += u64::from(self.is_open());
        self.add_after(key, priority, delay, now);
    }

    /// Completes the processing of `key` and returns its duration.
    pub(crate) fn done(&mut self, key: &T, now: Instant) -> Option<Duration> {
        let duration = self.machine.done(key, now);
        self.wakes_removals |= std::mem::take(&mut self.removal_waits);
        duration
    }

    /// Removes the selected keys that no worker processes, also delayed keys, and the adds of the selected
    /// keys that a worker processes. Returns the removed keys, and true if a worker processes a selected key.
    /// The next completed key then wakes the removals.
    pub(crate) fn remove_where(&mut self, is_selected: impl Fn(&T) -> bool) -> (Vec<T>, bool) {
        let (mut removed, is_processing) = self.machine.remove_where(&is_selected);
        removed.extend(self.delayed.remove_where(is_selected));
        self.removal_waits |= is_processing;
        (removed, is_processing)
    }

    pub(crate) fn status(&self, now: Instant) -> QueueStatus<T> {
        let processing =
            self.machine.processing().map(|(key, since)| (key.clone(), now.duration_since(since))).collect();
        QueueStatus {
            ready: self.machine.ready_len(),
            ready_background: self.machine.ready_background_len(),
            delayed: self.delayed.len(),
            processing,
            adds: self.adds,
            retries: self.retries,
        }
    }

    /// Returns the key whose processing has taken the longest, with its duration.
    pub(crate) fn longest_processing(&self, now: Instant) -> Option<(T, Duration)> {
        self.machine.processing().next().map(|(key, since)| (key.clone(), now.duration_since(since)))
    }

    /// Returns the number of ready keys.
    pub(crate) fn ready_len(&self) -> usize {
        self.machine.ready_len()
    }

    /// Closes the queue and stops all pending drains.
    pub(crate) fn shutdown(&mut self) {
        self.shutdowns += 1;
        self.close();
    }

    /// Closes the queue. The result is the argument of `is_drained`.
    pub(crate) fn drain(&mut self) -> u64 {
        self.close();
        self.shutdowns
    }

    fn close(&mut self) {
        self.is_open = false;
        self.delayed.clear();
    }

    fn next_step(&mut self, role: Role, now: Instant) -> GetterStep<TakenKey<T>> {
        if let Some(taken) = self.machine.take(now) {
            return GetterStep::Return(taken);
        }
        if self.is_ended() {
            return GetterStep::End;
        }
        match self.delayed.next_deadline() {
            Some(deadline) if role == Role::Timekeeper || !self.has_timekeeper => {
                GetterStep::SleepUntil(deadline)
            }
            _ => GetterStep::Sleep,
        }
    }

    /// Makes due keys ready, each at its deadline.
    fn advance(&mut self, now: Instant) {
        while let Some((key, priority, deadline)) = self.delayed.pop_due(now) {
            self.add(key, priority, deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NONE: Wakeups = Wakeups { getter: false, timekeeper: false, drains: false, removals: false };
    const GETTER: Wakeups = Wakeups { getter: true, ..NONE };
    const TIMEKEEPER: Wakeups = Wakeups { timekeeper: true, ..NONE };

    fn state() -> (QueueState<&'static str>, Instant) {
        let now = Instant::now();
        (QueueState::new(now), now)
    }

    /// Calls `QueueState::step`, and keeps only the key of a taken key.
    fn step(
        state: &mut QueueState<&'static str>,
        role: &mut Role,
        now: Instant,
    ) -> (GetterStep<&'static str>, bool) {
        let (step, wake_next) = state.step(role, now);
        let step = match step {
            GetterStep::Return(taken) => GetterStep::Return(taken.key),
            GetterStep::End => GetterStep::End,
            GetterStep::Sleep => GetterStep::Sleep,
            GetterStep::SleepUntil(deadline) => GetterStep::SleepUntil(deadline),
        };
        (step, wake_next)
    }

    fn done(state: &mut QueueState<&'static str>, key: &'static str, now: Instant) -> Wakeups {
        state.change(now, |state| state.done(&key, now)).0
    }

    fn add(state: &mut QueueState<&'static str>, key: &'static str, now: Instant) -> Wakeups {
        state.change(now, |state| state.add(key, Priority::NORMAL, now)).0
    }

    fn add_after(
        state: &mut QueueState<&'static str>,
        key: &'static str,
        delay: Duration,
        now: Instant,
    ) -> Wakeups {
        state.change(now, |state| state.add_after(key, Priority::NORMAL, delay, now)).0
    }

    #[test]
    fn only_add_of_new_ready_key_wakes_getter() {
        let (mut state, now) = state();
        assert_eq!(add(&mut state, "a", now), GETTER);
        assert_eq!(add(&mut state, "a", now), NONE);
        assert_eq!(step(&mut state, &mut Role::Follower, now), (GetterStep::Return("a"), false));
        assert_eq!(add(&mut state, "a", now), NONE, "the key is processing");
        assert_eq!(done(&mut state, "a", now), GETTER, "the key was added again");
    }

    #[test]
    fn getter_wakes_next_getter_if_ready_keys_remain() {
        let (mut state, now) = state();
        add(&mut state, "a", now);
        add(&mut state, "b", now);
        assert_eq!(step(&mut state, &mut Role::Follower, now), (GetterStep::Return("a"), true));
        assert_eq!(step(&mut state, &mut Role::Follower, now), (GetterStep::Return("b"), false));
    }

    #[test]
    fn only_first_getter_becomes_timekeeper() {
        let (mut state, now) = state();
        let (mut first, mut second) = (Role::Follower, Role::Follower);
        assert_eq!(add_after(&mut state, "a", SECOND, now), GETTER, "a getter must become the timekeeper");
        assert_eq!(step(&mut state, &mut first, now), (GetterStep::SleepUntil(now + SECOND), false));
        assert_eq!(step(&mut state, &mut second, now), (GetterStep::Sleep, false));
        assert_eq!((first, second), (Role::Timekeeper, Role::Follower));
        assert_eq!(add_after(&mut state, "b", SECOND * 2, now), NONE, "not the earliest");
        assert_eq!(add_after(&mut state, "c", SECOND / 2, now), TIMEKEEPER);
        assert_eq!(step(&mut state, &mut first, now), (GetterStep::SleepUntil(now + SECOND / 2), false));
    }

    #[test]
    fn follower_takes_over_from_leaving_timekeeper() {
        let (mut state, now) = state();
        let (mut first, mut second) = (Role::Follower, Role::Follower);
        add_after(&mut state, "a", SECOND, now);
        add_after(&mut state, "b", SECOND * 2, now);
        step(&mut state, &mut first, now);
        assert_eq!(step(&mut state, &mut first, now + SECOND), (GetterStep::Return("a"), true));
        assert_eq!(
            step(&mut state, &mut second, now + SECOND),
            (GetterStep::SleepUntil(now + SECOND * 2), false)
        );
        state.resign(&mut second);
        assert!(state.needs_wakeup(), "a deadline remains without a timekeeper");
    }

    #[test]
    fn removal_spares_other_keys_and_is_woken_by_completed_key() {
        let (mut state, now) = state();
        add(&mut state, "a1", now);
        step(&mut state, &mut Role::Follower, now);
        for key in ["a1", "a2", "b1"] {
            add(&mut state, key, now);
        }
        for key in ["a3", "b2"] {
            add_after(&mut state, key, SECOND, now);
        }
        let remove = |state: &mut QueueState<&'static str>| {
            let (wakeups, (mut removed, is_processing)) =
                state.change(now, |state| state.remove_where(|key| key.starts_with('a')));
            removed.sort_unstable();
            (wakeups, removed, is_processing)
        };
        assert_eq!(remove(&mut state), (NONE, vec!["a2", "a3"], true), "a worker processes a1");
        assert_eq!(done(&mut state, "a1", now), Wakeups { removals: true, ..NONE }, "a1 is not queued again");
        assert_eq!(remove(&mut state), (NONE, vec![], false));
        assert_eq!(step(&mut state, &mut Role::Follower, now).0, GetterStep::Return("b1"));
        assert_eq!(done(&mut state, "b1", now), NONE, "no removal waits");
        assert_eq!(step(&mut state, &mut Role::Follower, now + SECOND).0, GetterStep::Return("b2"));
    }

    #[test]
    fn due_key_precedes_key_added_later() {
        let (mut state, now) = state();
        add_after(&mut state, "due", SECOND, now);
        add(&mut state, "later", now + SECOND);
        assert_eq!(step(&mut state, &mut Role::Follower, now + SECOND).0, GetterStep::Return("due"));
        assert_eq!(step(&mut state, &mut Role::Follower, now + SECOND).0, GetterStep::Return("later"));
    }

    #[test]
    fn immediate_add_keeps_delayed_add() {
        let (mut state, now) = state();
        add_after(&mut state, "a", SECOND, now);
        add(&mut state, "a", now);
        assert_eq!(step(&mut state, &mut Role::Follower, now).0, GetterStep::Return("a"));
        done(&mut state, "a", now);
        assert_eq!(step(&mut state, &mut Role::Follower, now + SECOND).0, GetterStep::Return("a"));
    }

    #[test]
    fn delay_beyond_clock_range_becomes_far_future() {
        let (mut state, now) = state();
        add_after(&mut state, "a", Duration::MAX, now);
        assert_eq!(step(&mut state, &mut Role::Follower, now).0, GetterStep::SleepUntil(now + FAR_FUTURE));
    }

    #[test]
    fn getters_stop_when_no_key_is_ready_or_dirty() {
        let (mut state, now) = state();
        for key in ["a", "b"] {
            add(&mut state, key, now);
            step(&mut state, &mut Role::Follower, now);
        }
        add(&mut state, "a", now);
        assert_eq!(state.change(now, |state| state.drain()).0, NONE);
        add(&mut state, "b", now);
        add_after(&mut state, "c", SECOND, now);
        assert_eq!(
            step(&mut state, &mut Role::Follower, now),
            (GetterStep::Sleep, false),
            "a was added again"
        );
        assert_eq!(done(&mut state, "a", now), GETTER);
        assert_eq!(step(&mut state, &mut Role::Follower, now), (GetterStep::Return("a"), true));
        assert_eq!(step(&mut state, &mut Role::Follower, now), (GetterStep::End, true));
        assert_eq!(done(&mut state, "a", now), NONE, "b is still processing");
        assert_eq!(done(&mut state, "b", now), Wakeups { drains: true, ..NONE });
    }
}
