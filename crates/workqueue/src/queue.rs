//! `WorkQueue`: the state under one lock, and getters that sleep until a key is ready or a deadline
//! is reached. The documentation of `Shared` explains why wake-ups are not lost.

use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::item::Item;
use crate::observer::{NoObserver, Observer};
use crate::priority::Priority;
use crate::queue_state::{GetterStep, QueueState, Role, Wakeups};
use crate::rate_limiter::{RateLimiter, default_rate_limiter};
use crate::state_machine::TakenKey;
use crate::status::QueueStatus;
use crate::sync::{Mutex, Notify, now, sleep_until};

/// Queues each key at most once, and passes a key to only one worker at a time. The [crate page](crate)
/// lists the guarantees and the memory bounds.
///
/// A `WorkQueue` is a handle: all clones share one queue. The methods may be called from any
/// thread. [`WorkQueue::get`] needs a Tokio runtime with a timer if keys are delayed. The other
/// methods do not need a runtime.
pub struct WorkQueue<T> {
    shared: Arc<Shared<T>>,
}

/// The part that all handles of a queue share.
///
/// # Wake-ups are not lost
///
/// `work_available` is used only with `notify_one`. If no task waits, [`Notify`] stores the
/// notification as a permit (at most one). If a waiter is dropped after its notification, it passes
/// the notification on. This invariant holds:
///
/// While `QueueState::needs_wakeup` holds, at least one of these statements is true.
///
/// - `work_available` stores a permit.
/// - A notified getter has not inspected the state yet.
/// - The caller that changed the state is about to notify.
///
/// Each change after which `needs_wakeup` newly holds is followed by `notify_one`. A getter
/// consumes a notification and inspects the state in the same poll. If `needs_wakeup` still holds
/// after that, it notifies the next getter. One permit that two adds left behind therefore serves
/// two getters:
///
/// | producer                 | getter 1                               | getter 2                     |
/// |--------------------------|----------------------------------------|------------------------------|
/// |                          | finds no key, sleeps                   | finds no key, sleeps         |
/// | adds a, stores a permit  |                                        |                              |
/// | adds b, a permit exists  |                                        |                              |
/// |                          | consumes it, takes a, finds b, notifies |                             |
/// |                          |                                        | consumes it, takes b         |
///
/// In the same way, each getter wakes the next getter after the queue is closed and empty. A
/// follower becomes the timekeeper when the timekeeper returns a key or is cancelled (`Drop` of
/// `Getter`). `earlier_deadline` notifies the timekeeper of an earlier deadline. The timekeeper
/// inspects the state first and waits afterwards, so it finds a permit that was stored in between.
///
/// `drained` is used only with `notify_waiters`. A drain creates its waiter *before* it inspects
/// the state, and `notify_waiters` reaches every existing waiter, even if the waiter was not polled
/// yet. `completed` follows the same rule, for removals that wait for a worker.
///
/// The module `interleavings` tests all of this in every order of operations.
struct Shared<T> {
    state: Mutex<QueueState<T>>,
    limiter: Box<dyn RateLimiter<T>>,
    observer: Box<dyn Observer>,
    work_available: Notify,
    earlier_deadline: Notify,
    drained: Notify,
    completed: Notify,
}

impl<T: Eq + Hash + Clone + Send + Sync + 'static> WorkQueue<T> {
    /// Creates an empty queue that delays retries by [`default_rate_limiter`].
    pub fn new() -> Self {
        WorkQueue::with_rate_limiter(default_rate_limiter())
    }
}

impl<T: Eq + Hash + Clone + Send + Sync + 'static> Default for WorkQueue<T> {
    fn default() -> Self {
        WorkQueue::new()
    }
}

impl<T: Eq + Hash + Clone + 'static> WorkQueue<T> {
    /// Creates an empty queue that delays retries by `limiter`.
    pub fn with_rate_limiter(limiter: impl RateLimiter<T>) -> Self {
        WorkQueue::with_observer(limiter, NoObserver)
    }

    /// Creates an empty queue that delays retries by `limiter` and reports durations to `observer`.
    pub fn with_observer(limiter: impl RateLimiter<T>, observer: impl Observer) -> Self {
        let shared = Shared {
            state: Mutex::new(QueueState::new(now())),
            limiter: Box::new(limiter),
            observer: Box::new(observer),
            work_available: Notify::new(),
            earlier_deadline: Notify::new(),
            drained: Notify::new(),
            completed: Notify::new(),
        };
        WorkQueue { shared: Arc::new(shared) }
    }

    /// Adds `key`.
    ///
    /// If the key is already queued, the queue does not add it a second time. If a worker processes
    /// the key, the queue adds the key again when the worker completes it. After a shutdown, the
    /// call has no effect.
    pub fn add(&self, key: T) {
        self.add_with_priority(key, Priority::NORMAL);
    }

    /// Adds `key` with a priority.
    ///
    /// If the key is already queued, the queue keeps the higher of the two priorities. A key that moves to
    /// the normal lane is ordered by the time of its first add.
    pub fn add_with_priority(&self, key: T, priority: Priority) {
        self.change(|state, now| state.add(key, priority, now));
    }

    /// Adds `key` after `delay`.
    ///
    /// If the key is already delayed, the queue keeps the earlier deadline. A delay of zero is
    /// equivalent to [`WorkQueue::add`]. After a shutdown, the call has no effect.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.add_after_with_priority(key, delay, Priority::NORMAL);
    }

    /// Adds `key` after `delay`, with a priority.
    ///
    /// If the key is already delayed, the queue keeps the earlier deadline and the higher priority.
    pub fn add_after_with_priority(&self, key: T, delay: Duration, priority: Priority) {
        self.change(|state, now| state.add_after(key, priority, delay, now));
    }

    /// Counts a failure of `key`, and adds the key after the delay that the rate limiter returns.
    /// After a shutdown, the queue does not add the key.
    pub fn add_rate_limited(&self, key: T) {
        self.retry(key, Priority::NORMAL);
    }

    pub(crate) fn retry(&self, key: T, priority: Priority) {
        if self.is_shutting_down() {
            return;
        }
        let delay = self.shared.limiter.when(&key, now());
        self.change(|state, now| state.retry(key, priority, delay, now));
    }

    /// Resets the number of failures of `key` in the rate limiter. The key stays in the queue.
    pub fn forget(&self, key: &T) {
        self.shared.limiter.forget(key);
    }

    /// Removes the keys for which `is_selected` returns true, also delayed keys, and resets their numbers of
    /// failures. If a worker processes such a key, the method waits until the worker completes it, and then
    /// removes the adds of the meantime.
    ///
    /// The method calls `is_selected` for each key, under the lock of the queue. Do not add selected keys
    /// during the call. A worker must not wait for this method while it holds the item of a selected key.
    ///
    /// # Cancel safety
    /// If you drop the future, some of the selected keys may still be queued.
    pub async fn remove_where(&self, is_selected: impl Fn(&T) -> bool) {
        loop {
            let completed = self.shared.completed.notified();
            let (removed, is_processing) = self.change(|state, _| state.remove_where(&is_selected));
            removed.iter().for_each(|key| self.forget(key));
            if !is_processing {
                return;
            }
            completed.await;
        }
    }

    /// Returns the number of failures of `key` that the rate limiter remembers.
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.shared.limiter.num_requeues(key)
    }

    /// Returns the number of keys that are ready for a worker. Delayed keys, and keys that a worker
    /// processes, do not count.
    pub fn len(&self) -> usize {
        self.change(|state, _| state.ready_len())
    }

    /// Returns true if no key is ready for a worker. Keys may still be delayed, or a worker may still
    /// process a key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a snapshot of the state of the queue.
    ///
    /// The method holds the lock of the queue while it visits each key that a worker processes. During
    /// this time, all other methods of the queue wait.
    pub fn status(&self) -> QueueStatus<T> {
        self.change(|state, now| state.status(now))
    }

    /// Returns the key whose processing has taken the longest, with its duration. Returns `None` if no
    /// worker processes a key. The cost does not depend on the number of keys.
    pub fn longest_processing(&self) -> Option<(T, Duration)> {
        self.change(|state, now| state.longest_processing(now))
    }

    /// Waits for the next key, in the order of adds and priorities. Returns `None` after a shutdown,
    /// when no key is queued.
    ///
    /// A key that was added while a worker processes it is queued when the worker drops its item.
    /// After a shutdown, `get` still waits for such keys. If a task holds the item of such a key and
    /// calls `get`, `get` can wait indefinitely. The task must drop the item before it calls `get`.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it returns a key, the key stays in
    /// the queue. If the dropped future was already woken, it wakes another pending `get`. If it
    /// waited for the next deadline, another pending `get` waits for this deadline instead.
    ///
    /// # Panics
    ///
    /// Panics if keys are delayed and the Tokio runtime has no timer (`enable_time`), or if the
    /// observer panics.
    pub async fn get(&self) -> Option<Item<T>> {
        let mut getter = Getter { shared: &self.shared, role: Role::Follower };
        loop {
            match getter.step() {
                GetterStep::Return(taken) => {
                    let item = Item::new(taken.key, taken.priority, self.clone());
                    let observe =
                        AssertUnwindSafe(|| self.shared.observer.observe_queue_duration(taken.queued_for));
                    if let Err(panic) = catch_unwind(observe) {
                        // Dropping the item calls the observer again. A second panic during
                        // unwinding would abort the process, so the item is dropped first.
                        drop(item);
                        resume_unwind(panic);
                    }
                    return Some(item);
                }
                GetterStep::End => return None,
                GetterStep::Sleep => self.shared.work_available.notified().await,
                GetterStep::SleepUntil(deadline) => self.shared.sleep_as_timekeeper(deadline).await,
            }
        }
    }

    /// Shuts the queue down. The queue ignores further adds and drops delayed keys.
    ///
    /// [`WorkQueue::get`] still returns the queued keys, and then `None`. Each pending call of
    /// [`WorkQueue::shutdown_with_drain`] returns immediately.
    pub fn shutdown(&self) {
        self.change(|state, _| state.shutdown());
    }

    /// Shuts the queue down like [`WorkQueue::shutdown`]. Then waits until no key is queued and no
    /// worker processes a key.
    ///
    /// Workers must continue to call [`WorkQueue::get`]. Otherwise the queued keys remain, and this
    /// method waits until [`WorkQueue::shutdown`] is called.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. The first poll shuts the queue down. If the future is dropped
    /// later, the queue remains shut down.
    pub async fn shutdown_with_drain(&self) {
        let begun = self.change(|state, _| state.drain());
        loop {
            let drained = self.shared.drained.notified();
            if self.shared.state.lock().is_drained(begun) {
                return;
            }
            drained.await;
        }
    }

    /// Returns true if a shutdown has started.
    pub fn is_shutting_down(&self) -> bool {
        !self.shared.state.lock().is_open()
    }

    /// Completes the processing of `key`.
    pub(crate) fn done(&self, key: &T) {
        if let Some(duration) = self.change(|state, now| state.done(key, now)) {
            self.shared.observer.observe_work_duration(duration);
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut QueueState<T>, Instant) -> R) -> R {
        let (wakeups, result) = {
            let mut state = self.shared.state.lock();
            let now = now();
            state.change(now, |state| change(state, now))
        };
        self.shared.wake(wakeups);
        result
    }
}

impl<T> Shared<T> {
    /// Must be called without the lock: a waker may drop a task with a getter, and dropping a
    /// getter takes the lock.
    fn wake(&self, wakeups: Wakeups) {
        if wakeups.getter {
            self.work_available.notify_one();
        }
        if wakeups.timekeeper {
            self.earlier_deadline.notify_one();
        }
        if wakeups.drains {
            self.drained.notify_waiters();
        }
        if wakeups.removals {
            self.completed.notify_waiters();
        }
    }

    /// Waits for `deadline`, for an earlier deadline, or for a notification.
    async fn sleep_as_timekeeper(&self, deadline: Instant) {
        tokio::select! {
            biased;
            () = self.work_available.notified() => {}
            () = self.earlier_deadline.notified() => {}
            () = sleep_until(deadline) => {}
        }
    }
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        WorkQueue { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

/// Holds the role of a pending `get`.
struct Getter<'a, T> {
    shared: &'a Shared<T>,
    role: Role,
}

impl<T: Eq + Hash + Clone> Getter<'_, T> {
    fn step(&mut self) -> GetterStep<TakenKey<T>> {
        let (step, wake_next) = {
            let mut state = self.shared.state.lock();
            let now = now();
            state.step(&mut self.role, now)
        };
        if wake_next {
            self.shared.work_available.notify_one();
        }
        step
    }
}

impl<T> Drop for Getter<'_, T> {
    /// Releases the timekeeper role of a cancelled getter and wakes the next getter. All other
    /// getters have resigned in their last step.
    fn drop(&mut self) {
        if self.role == Role::Timekeeper {
            let wake_next = {
                let mut state = self.shared.state.lock();
                state.resign(&mut self.role);
                state.needs_wakeup()
            };
            if wake_next {
                self.shared.work_available.notify_one();
            }
        }
    }
}
