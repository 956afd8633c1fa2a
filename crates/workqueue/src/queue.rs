//! The queue as tasks see it: one lock around the state, and getters that sleep until a key or a deadline comes.
//! Why no wake-up is lost stands on `Shared`.

use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::core::Taken;
use crate::item::Item;
use crate::limiter::{RateLimiter, default_rate_limiter};
use crate::observer::{NoObserver, Observer};
use crate::priority::Priority;
use crate::state::{Look, Role, State, Wake};
use crate::status::Status;
use crate::sync::{Mutex, Notify, now, sleep_until};

/// A deduplicating queue of keys; the [crate page](crate) has its promises and bounds.
///
/// A handle: clones are the same queue. Methods may be called from any thread; only [`WorkQueue::get`] needs a
/// Tokio runtime with its timer, and only while keys are delayed.
pub struct WorkQueue<T> {
    shared: Arc<Shared<T>>,
}

/// What the handles of a queue share.
///
/// # Why no wake-up is lost
///
/// `ready` is a [`Notify`] used only through `notify_one`: a notification without a waiter is kept as a permit
/// (one at most), and a waiter that is dropped after it was notified passes the notification on. The rule:
///
/// > While the state wants a look (`State::wants_a_look`: a key waits, the queue has ended, or there is a
/// > deadline and no timekeeper), `ready` holds a permit, or a notified getter has not looked yet, or the call
/// > that brought this about is on its way to `notify_one`.
///
/// Every change that makes the state want a look notifies. A getter spends a notification and looks in the same
/// poll, and after each look it notifies again if the state still wants one. So two adds that leave one permit
/// serve two getters:
///
/// | producer                | getter 1                            | getter 2                    |
/// |-------------------------|-------------------------------------|-----------------------------|
/// |                         | looks: nothing                      | looks: nothing              |
/// | adds a, leaves a permit |                                     |                             |
/// | adds b, permit is there |                                     |                             |
/// |                         | spends the permit, takes a, sees b: notifies |                    |
/// |                         |                                     | spends that permit, takes b |
///
/// The same rule hands the end of the queue from getter to getter, and the timekeeper's role to a follower when
/// the timekeeper leaves with a key or is cancelled (`Drop` of `Getter`). An earlier deadline reaches the
/// timekeeper through `clock`: it looks, and only then waits, so a permit left between the two is found.
///
/// `drained` is used only through `notify_waiters`. Its waiter is created *before* the look at the state, and
/// `notify_waiters` reaches every waiter that exists, polled or not.
///
/// `interleavings` tries all this in every order.
struct Shared<T> {
    state: Mutex<State<T>>,
    limiter: Box<dyn RateLimiter<T>>,
    observer: Box<dyn Observer>,
    ready: Notify,
    clock: Notify,
    drained: Notify,
}

impl<T: Eq + Hash + Clone + Send + Sync + 'static> WorkQueue<T> {
    /// An empty queue whose retries wait as [`default_rate_limiter`] says.
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
    /// An empty queue whose retries wait as `limiter` says.
    pub fn with_rate_limiter(limiter: impl RateLimiter<T>) -> Self {
        WorkQueue::observed(limiter, NoObserver)
    }

    /// The same, and `observer` is told how long keys wait and how long they are worked on.
    pub fn observed(limiter: impl RateLimiter<T>, observer: impl Observer) -> Self {
        let shared = Shared {
            state: Mutex::new(State::new(now())),
            limiter: Box::new(limiter),
            observer: Box::new(observer),
            ready: Notify::new(),
            clock: Notify::new(),
            drained: Notify::new(),
        };
        WorkQueue { shared: Arc::new(shared) }
    }

    /// Asks for a run of `key`. If it waits already nothing changes; if it runs it runs again afterwards. Ignored
    /// after a shutdown.
    pub fn add(&self, key: T) {
        self.add_with_priority(key, Priority::NORMAL);
    }

    /// The same with a priority. A key that waits already keeps its place, unless the new one is before it.
    pub fn add_with_priority(&self, key: T, priority: Priority) {
        self.change(|state, now| state.add(key, priority, now));
    }

    /// Asks for a run of `key` after `delay`. An earlier timer of the key stays, a later one is replaced; a delay
    /// of zero is [`WorkQueue::add`]. Ignored after a shutdown.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.add_after_with_priority(key, delay, Priority::NORMAL);
    }

    /// The same with a priority, which counts once the delay is over. Of several the highest counts.
    pub fn add_after_with_priority(&self, key: T, delay: Duration, priority: Priority) {
        self.change(|state, now| state.add_after(key, priority, delay, now));
    }

    /// Asks for a run of `key` when the rate limiter says, and counts a failure of it. Ignored after a shutdown.
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

    /// Forgets the failures of `key`. What waits and what is delayed stays.
    pub fn forget(&self, key: &T) {
        self.shared.limiter.forget(key);
    }

    /// How many failures of `key` the rate limiter remembers.
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.shared.limiter.num_requeues(key)
    }

    /// How many keys wait for a worker: those that came due included, those delayed or running not.
    pub fn len(&self) -> usize {
        self.change(|state, _| state.waiting())
    }

    /// No key waits for a worker; some may be running or delayed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the queue is doing. It looks at each key once, and nobody adds or takes one meanwhile.
    pub fn status(&self) -> Status<T> {
        self.change(|state, now| state.status(now))
    }

    /// The next key, in the order of adding, as far as priorities leave it; waits for one. `None` once the queue is shut down and will hand out
    /// nothing more.
    ///
    /// After a shutdown a key that runs and was added again still has its last run to come: getters wait for it,
    /// so a task that holds such an item must drop it before it calls `get`.
    ///
    /// # Cancel safety
    ///
    /// Safe: a key is taken in the very poll that returns it. A future that is dropped after it was woken passes
    /// the wake-up on, and one that was keeping the time for the delayed keys hands that over.
    ///
    /// # Panics
    ///
    /// If keys are delayed and the runtime has no timer (`enable_time`).
    pub async fn get(&self) -> Option<Item<T>> {
        let mut getter = Getter { shared: &self.shared, role: Role::Follower };
        loop {
            match getter.look() {
                Look::Take(taken) => {
                    let item = Item::new(taken.key, taken.priority, self.clone());
                    let tell = AssertUnwindSafe(|| self.shared.observer.waited(taken.waited));
                    if let Err(panicked) = catch_unwind(tell) {
                        // The key is with nobody any more. Not while it unwinds: the observer is told of that, too.
                        drop(item);
                        resume_unwind(panicked);
                    }
                    return Some(item);
                }
                Look::End => return None,
                Look::Follow => self.shared.ready.notified().await,
                Look::KeepTime(deadline) => self.shared.keep_time(deadline).await,
            }
        }
    }

    /// From now on nothing is accepted and delayed keys are dropped. What waits is still handed out, then all
    /// getters end. Also ends the wait of every [`WorkQueue::shutdown_with_drain`] that has begun.
    pub fn shutdown(&self) {
        self.change(|state, _| state.shutdown());
    }

    /// Shuts down as [`WorkQueue::shutdown`] does and waits until nothing waits and nothing runs: also for the
    /// further run of a key that was added while it ran, before the shutdown. Without workers that go on calling
    /// [`WorkQueue::get`] this waits until somebody calls [`WorkQueue::shutdown`].
    ///
    /// # Cancel safety
    ///
    /// The first poll shuts the queue down for good; dropping the future afterwards only stops the waiting.
    pub async fn shutdown_with_drain(&self) {
        let begun = self.change(|state, _| state.drain());
        loop {
            let changed = self.shared.drained.notified();
            if self.shared.state.lock().is_drained(begun) {
                return;
            }
            changed.await;
        }
    }

    /// A shutdown has begun: adds are ignored.
    pub fn is_shutting_down(&self) -> bool {
        !self.shared.state.lock().is_open()
    }

    /// The run of `key` is over.
    pub(crate) fn done(&self, key: &T) {
        if let Some(worked) = self.change(|state, now| state.done(key, now)) {
            self.shared.observer.worked(worked);
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut State<T>, Instant) -> R) -> R {
        let (wake, result) = {
            let mut state = self.shared.state.lock();
            let now = now();
            state.change(now, |state| change(state, now))
        };
        self.shared.wake(wake);
        result
    }
}

impl<T> Shared<T> {
    /// Called without the lock: a waker may drop a task, and with it a getter that needs the lock.
    fn wake(&self, wake: Wake) {
        if wake.getter {
            self.ready.notify_one();
        }
        if wake.timekeeper {
            self.clock.notify_one();
        }
        if wake.drains {
            self.drained.notify_waiters();
        }
    }

    /// Waits until `deadline`, for an earlier one, or for a notification as any follower does.
    async fn keep_time(&self, deadline: Instant) {
        tokio::select! {
            biased;
            () = self.ready.notified() => {}
            () = self.clock.notified() => {}
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

/// One call of `get`, with the role it has in the queue.
struct Getter<'a, T> {
    shared: &'a Shared<T>,
    role: Role,
}

impl<T: Eq + Hash + Clone> Getter<'_, T> {
    fn look(&mut self) -> Look<Taken<T>> {
        let (look, next_must_look) = {
            let mut state = self.shared.state.lock();
            let now = now();
            state.look(&mut self.role, now)
        };
        if next_must_look {
            self.shared.ready.notify_one();
        }
        look
    }
}

impl<T> Drop for Getter<'_, T> {
    /// Only a timekeeper that is cancelled has anything to give up: all others have resigned in their last look.
    fn drop(&mut self) {
        if self.role == Role::Timekeeper {
            let next_must_look = {
                let mut state = self.shared.state.lock();
                state.resign(&mut self.role);
                state.wants_a_look()
            };
            if next_must_look {
                self.shared.ready.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod interleavings;
