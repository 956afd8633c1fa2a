//! Holds an indexed cache of Kubernetes objects, with snapshots, listers and typed indexes.
//!
//! [`Store::apply`] applies a batch of [`Delta`](kube_object::Delta)s and returns the resulting
//! [`Event`](kube_object::Event)s. [`Store`] documents the rules. Readers use a [`Lister`], an
//! [`Index`] or a [`Snapshot`]. Each read observes one state of the store.
//!
//! The store is plain data. It does no I/O and starts no tasks, and you can use it without a watch.
//! Only [`Store::wait_until`] and [`Store::wait_for`] wait.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_store::{LabelSelector, Store};
//!
//! let store = Store::<Pod>::new();
//! let mut pod = Pod::default();
//! pod.metadata.namespace = Some("shop".into());
//! pod.metadata.name = Some("web-0".into());
//! store.add(pod);
//! assert_eq!(store.lister().namespace("shop").list(&LabelSelector::everything()).len(), 1);
//! ```
//!
//! # Invariants
//! - Objects change only in [`Store::apply`] and [`LargeWrite::publish`]. Both change objects,
//!   indexes and watermark atomically.
//! - A snapshot never changes, and never blocks a writer.
//! - The [`Watermark`] decreases only at a list, after the server was restored from an older state.
//!   The watermark is never higher than the highest resourceVersion of the applied deltas.
//! - A relist keeps the `Arc` of an unchanged object.
//! - One value, the root, contains the objects, the key map, the indexes, the stale marks and the
//!   watermark. Each read uses one root, so its results are consistent. Only a lookup by key in the latest
//!   state uses the key table instead.
//! - The key table contains the same objects as the latest root. Each write changes both under one lock.
//! - While a reader holds a root, the store does not write to this root.
//! - Each object has a slot number, which does not change while the object exists. Indexes contain
//!   slot numbers instead of keys.
//! - While readers are blocked, the store calls no user code except `Eq`, `Clone` and `Drop` of
//!   index values.
//! - The order of iteration depends only on the applied deltas, and not on hashes.
//!
//! The modules, from the lowest layer to the highest layer:
//! - `cow`: a growing array whose chunks are copied if a snapshot holds them.
//! - `hashed`: a table from hashes to numbers.
//! - `slots`: elements in numbered slots.
//! - `slot_set`, `postings`: the slots for each value of an index.
//! - `erased`: indexes with any type of value behind one trait. `index_functions`: the functions
//!   that compute the values.
//! - `large_write`: applies, discards or clears many objects without holding a lock.
//! - `key_table`: the latest state of each object by its key.
//! - `current`: the latest root and the key table behind one lock.
//! - `shard`: the part of the objects that a store holds.
//! - `root`, `replace`: the complete state of a store, and the rules by which a delta or a relist
//!   changes the state.

mod cow;
mod current;
mod erased;
mod hashed;
mod index;
mod index_functions;
mod key_table;
mod large_write;
mod lister;
mod new_index;
mod objects;
mod plain;
mod postings;
mod reentrancy;
mod replace;
mod restore;
mod root;
mod selector;
mod shard;
mod slot_set;
mod slots;
mod snapshot;
mod store;
#[cfg(test)]
mod testing;
#[doc(hidden)]
pub mod touches;
mod wait;
mod watermark;

pub use index::{Index, IndexError, IndexSnapshot};
pub use large_write::LargeWrite;
pub use lister::{Lister, NamespaceLister};
pub use objects::{Objects, ObjectsIter};
#[doc(hidden)]
pub use reentrancy::{is_within_index_function, refuse_all_index_functions};
pub use selector::{LabelSelector, ParseSelectorError};
pub use snapshot::Snapshot;
pub use store::{Store, StoreStats};
pub use wait::WaitError;
pub use watermark::Watermark;
