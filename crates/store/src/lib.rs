//! The indexed cache: one write path, snapshots that block nobody, Listers and typed indexes.
//!
//! [`Store::apply`] takes a batch of [`Delta`](kube_object::Delta)s and gives the
//! [`Event`](kube_object::Event)s that it has led to; what is changed when, and what is dropped,
//! is the contract on [`Store`]. Readers look through a [`Lister`], an [`Index`] or a [`Snapshot`],
//! each of which sees one moment. The store is plain data: it knows no watch, does no I/O, spawns
//! nothing, and can be used alone. Nobody waits but who asks for it, with [`Store::wait_until`].
//!
//! # Invariants
//! - Objects, key map, indexes, stale marks and watermark belong to one root, and every reader looks
//!   at one root: no two of them ever speak of different moments.
//! - A root that somebody holds is never written to.
//! - A slot keeps its number for as long as its object lives; indexes hold numbers, never keys.
//! - No foreign code but `Eq`, `Clone` and `Drop` of index values runs while readers are kept out.
//! - Nothing is listed in the order of hashes, so the same history gives the same order.
//!
//! From the bottom up: a growing array whose chunks are copied when a snapshot holds them (`cow`);
//! a table from hashes to numbers (`hashed`); elements in numbered slots (`slots`); which slots
//! have which value (`slot_set`, `postings`); indexes of any type behind one trait (`erased`); one
//! moment of it all and the rules by which a delta changes it (`root`, `replace`).
//!
//! # Invariants
//! - [`Store::apply`] is the only way in: objects, indexes and watermark move in one step, and readers see all of a
//!   batch or nothing.
//! - A snapshot never changes, and holding one keeps no writer waiting.
//! - Within an epoch the watermark never goes back, and it is never ahead of what was applied.
//! - What is listed again unchanged keeps its `Arc`.

mod cow;
mod erased;
mod hashed;
mod index;
mod lister;
mod plain;
mod postings;
mod replace;
mod root;
mod selector;
mod slot_set;
mod slots;
mod snapshot;
mod store;
#[cfg(test)]
mod testing;
mod wait;
mod watermark;

pub use index::{Index, IndexError, IndexSnapshot};
pub use lister::{Lister, NamespaceLister};
pub use selector::{LabelSelector, ParseSelectorError};
pub use snapshot::Snapshot;
pub use store::{Store, StoreStats};
pub use wait::WaitError;
pub use watermark::Watermark;
