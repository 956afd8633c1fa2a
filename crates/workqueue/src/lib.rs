//! A deduplicating work queue for controllers.
//!
//! The queue contains each key at most once, and only one worker at a time processes a key. If a key
//! is added several times before a worker takes it, the worker processes it once. Workers call
//! [`WorkQueue::get`] and keep the returned [`Item`] while they work. Dropping the item completes
//! the work. [`Item::retry`] also schedules the key again after a backoff. The design follows
//! client-go's `workqueue`. A key is any `Eq + Hash + Clone` value.
//!
//! ```
//! use kube_workqueue::WorkQueue;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let queue = WorkQueue::new();
//! queue.add("shop/web-0");
//! queue.add("shop/web-0"); // already queued: the key is processed once
//! queue.shutdown();
//! while let Some(item) = queue.get().await {
//!     match reconcile(&item) {
//!         Ok(()) => item.forget(), // resets the backoff of this key
//!         Err(_) => item.retry(),
//!     }
//! }
//! # }
//! # fn reconcile(_: &str) -> Result<(), ()> { Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! 1. **Only one worker processes a key.** While an [`Item`] exists, the queue returns no other
//!    item with an equal key.
//! 2. **No add before a shutdown is lost.** After each add, a worker receives the key at least once.
//!    If the key is already queued, the queue does not add it a second time. If a worker processes the
//!    key, the queue adds the key again when the worker drops its item. The only exception is
//!    [`WorkQueue::remove_where`].
//! 3. **The order is first in, first out.** If a key is added several times before a worker takes
//!    it, the first of these adds determines its position. A [`Priority`] moves the key ahead or
//!    back by a fixed number of seconds. A key with a low priority therefore never starves.
//! 4. **The earliest deadline applies.** If a key is added with several delays, the queue keeps only
//!    the earliest deadline. An add without a delay does not cancel a delayed add. A program can
//!    therefore use [`WorkQueue::add_after`] to process a key periodically.
//! 5. **A shutdown drains the queue.** After a shutdown, the queue ignores adds and drops delayed
//!    keys. Workers still receive the queued keys, and the keys that were added again during their
//!    processing. Then every `get` returns `None`.
//! 6. **`get` is cancel safe.** If its future is dropped, no key is lost, and another pending `get`
//!    continues instead.
//!
//! # Memory
//!
//! The queue has no size limit. Its memory grows with the number of distinct keys, which is the number
//! of cached objects in a controller. The queue stores each distinct key at most three times: as a
//! queued or processed key, as a delayed key, and with its number of failures. [`WorkQueue::forget`]
//! removes the number of failures. The queue has no task, no channel and no timer
//! for a single key.
//!
//! # Invariants
//!
//! - The modules `state_machine` (queued and processed keys), `delayed` and `rate_limiter` never
//!   read a clock. The caller passes the time as the argument `now`.
//! - `queue_state` combines `state_machine` and `delayed`, and computes which tasks must be woken.
//! - Only `queue` takes the lock of the queue, sleeps, and wakes tasks, with the primitives of
//!   `sync`. It never holds the lock across an await.
#![forbid(unsafe_code)]

mod delayed;
#[cfg(test)]
mod interleavings;
mod item;
mod lanes;
mod observer;
mod priority;
mod queue;
mod queue_state;
mod rate_limiter;
mod slots;
mod state_machine;
mod status;
mod sync;

pub use item::Item;
pub use observer::Observer;
pub use priority::Priority;
pub use queue::WorkQueue;
pub use rate_limiter::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter,
    RateLimiter, default_rate_limiter,
};
pub use status::QueueStatus;
