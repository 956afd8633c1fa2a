//! Holds an indexed cache of Kubernetes objects, with snapshots, listers and typed indexes.
//!
//! [`Store::apply`] applies a batch of [`Delta`](kube_object::Delta)s and returns the resulting
//! [`Event`](kube_object::Event)s. The contract is on [`Store`]. Readers use a [`Lister`], an
//! [`Index`] or a [`Snapshot`]. Each read uses one snapshot of the store.
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
//! - [`Store::apply`] is the only write path. It changes objects, indexes and watermark atomically.
//! - A snapshot never changes, and never blocks a writer.
//! - Within an epoch the watermark never decreases. It is never ahead of the applied deltas.
//! - A relist keeps the `Arc` of an unchanged object.
//! - Objects, key map, indexes, stale marks and watermark belong to one root. Each read uses one
//!   root, so its results are consistent.
//! - A root that a reader holds is never written to.
//! - A slot keeps its number while its object exists. Indexes contain slot numbers, not keys.
//! - While readers are blocked, the only user code that runs is `Eq`, `Clone` and `Drop` of index
//!   values.
//! - The order of iteration depends only on the applied deltas, not on hashes.
//!
//! The modules, from the bottom up:
//! - `cow`: a growing array whose chunks are copied if a snapshot holds them.
//! - `hashed`: a table from hashes to numbers.
//! - `slots`: elements in numbered slots.
//! - `slot_set`, `postings`: the slots for each value of an index.
//! - `erased`: indexes with any type of value behind one trait. `index_functions`: the functions
//!   that compute the values.
//! - `relist_end`: the end of a large relist, without a lock.
//! - `root`, `replace`: the complete state of a store, and the rules by which a delta or a relist
//!   changes the state.

mod cow;
mod erased;
mod hashed;
mod index;
mod index_functions;
mod lister;
mod new_index;
mod plain;
mod postings;
mod reentrancy;
mod relist_end;
mod replace;
mod root;
mod selector;
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
pub use lister::{Lister, NamespaceLister};
pub use relist_end::RelistEnd;
pub use selector::{LabelSelector, ParseSelectorError};
pub use snapshot::Snapshot;
pub use store::{Store, StoreStats};
pub use wait::WaitError;
pub use watermark::Watermark;
