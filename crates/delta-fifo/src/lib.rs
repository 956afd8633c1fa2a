//! Provides the two queues of an informer: a [`DeltaFifo`] in front of the store, and a [`Backlog`]
//! behind the store for each handler.
//!
//! ```text
//! reflector --Delta--> Sender [ DeltaFifo ] Receiver --batch--> store --Event--> [ Backlog ] --> handler
//!                                                                         \----> [ Backlog ] --> handler
//! ```
//!
//! In front of the store, deltas are never coalesced or reordered. The resourceVersion of the last
//! applied delta is the watermark of the cache. This watermark is correct because every earlier
//! delta was applied before. If the queue is full, the reflector waits ([`channel`]). The reflector
//! therefore does not read faster than the store is written.
//!
//! Behind the store, a slow handler delays neither the store nor other handlers. While few events are
//! pending, the [`Backlog`] of a handler queues the events unchanged, in batches that all handlers
//! share. When the number of pending events reaches a threshold, the backlog coalesces the further
//! events of each object. For a handler that requires every state, the threshold is `usize::MAX`.
//! The writer of the store must then wait while this handler lags.
//!
//! [`DeltaFifo`] and [`Backlog`] are plain data, so a test or a simulation can drive them step by
//! step. Only [`Sender`] and [`Receiver`] wait. This crate does no I/O, starts no tasks, and does
//! not depend on the store.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kube_delta_fifo::Backlog;
//! use kube_object::{Entry, Event, ObjectId, ObjectKey, Uid};
//!
//! let id = ObjectId { key: ObjectKey::new(Some("shop"), "web"), uid: Uid::new("1"), version: 7.into() };
//! let mut backlog = Backlog::default();
//! backlog.push(Arc::new([Event::Added { object: Entry::new(id, Arc::new(())), initial: true }]));
//!
//! let mut delivery = backlog.take().expect("an event is queued");
//! assert_eq!(delivery.len(), 1);
//! backlog.acknowledge(&mut delivery);
//! assert_eq!(backlog.initial_pending(), 0);
//! ```
//!
//! # Invariants
//! - Each delta is removed from a [`DeltaFifo`] exactly once, unchanged, in the order of the
//!   pushes.
//! - A batch is a prefix of the queue in which each key occurs once. `Begin`, each `Page`, `End`
//!   and `Clear` are separate batches.
//! - The sum of the weights in a [`DeltaFifo`] does not exceed its capacity, except if the queue
//!   holds only one delta.
//! - For each key, a [`Backlog`] delivers adds, updates and deletes in a consistent order. The last
//!   event contains the newest state. The old state of an Update is the most recently delivered
//!   state. A Delete is delivered only after the Add of its object.
//! - A backlog starts to coalesce when the number of pending events reaches the threshold. It stops when
//!   all coalesced changes are delivered. Delivered events never change.
//! - The memory of a [`Backlog`] is bounded by its threshold, the largest batch and the number of
//!   objects. With the threshold `usize::MAX`, the memory has no bound.
//! - A resync never delivers an older state than a previous event of the same key.

mod backlog;
mod channel;
mod fifo;
#[cfg(test)]
mod testing;

pub use backlog::{Backlog, DEFAULT_COALESCE_THRESHOLD, Delivery, EventList, EventPages};
pub use channel::{Receiver, SendError, Sender, channel};
pub use fifo::{DEFAULT_CAPACITY, DeltaFifo};
