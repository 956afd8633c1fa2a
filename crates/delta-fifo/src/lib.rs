//! The two queues of an informer: a [`DeltaFifo`] in front of the store, and behind it one
//! [`Backlog`] for each handler.
//!
//! ```text
//! reflector --Delta--> Sender [ DeltaFifo ] Receiver --batch--> store --Event--> [ Backlog ] --> handler
//!                                                                         \----> [ Backlog ] --> handler
//! ```
//!
//! In front of the store, deltas are never coalesced or reordered. The version of the last applied
//! delta is the watermark of the cache. The watermark is true only if every earlier delta was applied
//! too. A full queue makes the reflector wait ([`channel`]), so the API server is read no faster than
//! the store is written.
//!
//! Behind the store, a slow handler delays neither the store nor other handlers. Below a threshold its
//! [`Backlog`] shares the batches of the store. Above it, the events of each object are coalesced. A
//! handler that needs every state gets an unreachable threshold, and the writer of the store waits
//! while that handler lags.
//!
//! [`DeltaFifo`] and [`Backlog`] are plain data, so a test or a simulation can drive them step by
//! step. Only [`Sender`] and [`Receiver`] use tasks. This crate does no I/O, spawns nothing, and does
//! not know the store.
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
//! - Deltas leave a [`DeltaFifo`] as they were pushed: each once, in order.
//! - A batch is a prefix of the queue in which each key occurs once. `Begin`, each `Page`, `End` and
//!   `Clear` are batches of their own.
//! - The deltas of a [`DeltaFifo`] weigh at most its capacity, unless there is only one.
//! - For each key, the deliveries of a [`Backlog`] form a history from the state that the handler
//!   knows to the newest state. An Add is of an unknown object, an Update begins with the state that
//!   was delivered last, and a Delete is of a known object.
//! - Only events above the threshold are coalesced. Delivered events never change.
//! - A [`Backlog`] holds at most its threshold, one batch, and one change for each key that exists or
//!   that the handler knows. With an unreachable threshold it holds everything that was pushed.
//! - A resync is never older than another event of its key, pushed before or after it.

mod backlog;
mod channel;
mod fifo;
#[cfg(test)]
mod testing;

pub use backlog::{Backlog, DEFAULT_COALESCE_THRESHOLD, Delivery};
pub use channel::{Closed, Receiver, Sender, channel};
pub use fifo::{DEFAULT_CAPACITY, DeltaFifo};
