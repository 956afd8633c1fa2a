//! A work queue for controllers: it remembers which keys need work and hands each to one worker at a time.
//!
//! A key that is added often is worked on as often as needed, not as often as added. Workers call
//! [`WorkQueue::get`] and hold an [`Item`] while they work; dropping it says that the work is over, and
//! [`Item::retry`] brings the key back later. Keys are plain values (`Eq + Hash + Clone`): the queue knows
//! nothing about what they name.
//!
//! ```
//! # use kube_workqueue::WorkQueue;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let queue = WorkQueue::new();
//! queue.add("shop/web-0");
//! queue.add("shop/web-0"); // already waiting: one run serves both
//! queue.shutdown();
//! while let Some(item) = queue.get().await {
//!     match reconcile(&item) {
//!         Ok(()) => item.forget(), // the next failure starts at the shortest delay again
//!         Err(_) => item.retry(),
//!     }
//! }
//! # }
//! # fn reconcile(_: &str) -> Result<(), ()> { Ok(()) }
//! ```
//!
//! # Promises
//!
//! 1. One worker per key: while an [`Item`] lives, no other with an equal key does.
//! 2. At least one run *starts* after each add that was accepted. An add of a waiting key changes nothing; an
//!    add of a running key runs it again once its item is dropped.
//! 3. First in, first out, by the first add since the key's last run. A [`Priority`] puts a key ahead as if it had come
//!    so much earlier, so that none starves.
//! 4. Of several delayed adds of a key the earliest counts; an immediate add leaves the timer alone, so that
//!    [`WorkQueue::add_after`] also serves as "look again in ten minutes at the latest".
//! 5. After a shutdown nothing is accepted and delayed keys are dropped; what waits, or is to run again, is still
//!    handed out, then every getter ends.
//! 6. Dropping a [`WorkQueue::get`] future loses neither an item nor a wake-up.
//!
//! # Bounds
//!
//! The queue has no limit of its own. It holds each distinct key at most three times: once as waiting or
//! running, once with a timer and once with its count of failures (until [`WorkQueue::forget`]). Memory is
//! therefore bounded by the number of distinct keys that producers can name; for a controller those are the
//! objects in its cache. There is no task, no channel and no timer per key.
//!
//! # Invariants
//!
//! `core` decides what waits and what runs, `delay` what comes later, `limiter` how much later. All three are
//! plain data that never looks at a clock: `now` is an argument. `state` puts them under one lock and says who
//! has to be woken; `queue` alone locks, sleeps and wakes, with what `sync` has for it, and no lock is held across an
//! await.
#![forbid(unsafe_code)]

mod core;
mod delay;
mod item;
mod limiter;
mod observer;
mod priority;
mod queue;
mod state;
mod status;
mod sync;

pub use item::Item;
pub use limiter::{ExponentialFailure, FastSlow, MaxOf, RateLimiter, TokenBucket, default_rate_limiter};
pub use observer::Observer;
pub use priority::Priority;
pub use queue::WorkQueue;
pub use status::Status;
