//! The two queues of an informer: [`DeltaFifo`] in front of the store, a [`Backlog`] behind it
//! for each handler.
//!
//! ```text
//! reflector --Delta--> Sender [ DeltaFifo ] Receiver --batch--> store --Event--> [ Backlog ] --> handler
//!                                                                         \----> [ Backlog ] --> handler
//! ```
//!
//! In front of the store nothing may be merged or reordered: the version of the last delta
//! applied says what the cache has seen, which is true only if everything before it was applied
//! too. A full queue makes the reflector wait ([`channel`]), so the API server is read no faster
//! than the store is written.
//!
//! Behind the store a slow handler must slow neither the store nor another handler: its
//! [`Backlog`] shares the store's batches up to a mark and merges the changes of each object past
//! it. A handler that has to be shown each state gets a mark that is never reached, and whoever
//! writes the store waits while it is far behind.
//!
//! [`DeltaFifo`] and [`Backlog`] are plain data that a test or a simulation drives step by step;
//! only [`Sender`] and [`Receiver`] know of tasks. Nothing here does I/O, spawns, sleeps, or
//! knows the store.
//!
//! # Invariants
//! - Deltas leave a [`DeltaFifo`] exactly as they came: each once, in arrival order.
//! - A batch is a prefix of the queue in which each key appears once; `Begin`, each `Page`, `End`
//!   and `Clear` are batches of their own.
//! - The deltas of a [`DeltaFifo`] weigh no more than its bound, or there is only one of them.
//! - For each key, what a [`Backlog`] hands out is a history that leads from what the handler has
//!   seen to the newest state pushed: an Add where it knows nothing, an Update from the very
//!   state it was given last, a Delete of what it was given.
//! - Only what waits past the mark is merged, never what was handed out.
//! - A [`Backlog`] holds at most its mark, one batch, and one change for each key that is alive
//!   or that the handler has seen; with a mark that is never reached, whatever is pushed.
//! - A resync is never older than anything pushed for its key before it or after it.

mod backlog;
mod channel;
mod fifo;
mod merge;
mod merged;
#[cfg(test)]
mod testing;

pub use backlog::{Backlog, DEFAULT_MARK, Delivery};
pub use channel::{Closed, Receiver, Sender, channel};
pub use fifo::{DEFAULT_BOUND, DeltaFifo};
