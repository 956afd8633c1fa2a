//! Provides shared informers. An informer watches a Kubernetes resource, keeps a cache of its
//! objects up to date, and calls handlers when objects change. This crate also re-exports the types
//! of the lower crates that most programs need.
//!
//! An [`Informer`] connects a reflector, a queue and a store. The reflector lists and watches the
//! resource, and sends each change to the queue. The informer removes changes from the queue in
//! batches, writes each batch to the store, and delivers the resulting events to every handler.
//!
//! All handlers of an informer share one watch and one cache. An [`InformerFactory`] returns the
//! same informer to all callers that request the same type and selection.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_informer::{Event, InformerFactory};
//!
//! # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let factory = InformerFactory::new(client).namespace("shop");
//! let pods = factory.informer::<Pod>()?;
//! let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
//! pods.on_event(|event| match event {
//!     Event::Added { object, .. } => println!("ADDED: {}", object.key()),
//!     Event::Updated { new, .. } => println!("MODIFIED: {}", new.key()),
//!     Event::Deleted { last, .. } => println!("DELETED: {}", last.key()),
//! })
//! .detach(); // keep the handler until the informer stops
//! factory.start();
//! factory.wait_for_sync(Duration::from_secs(30)).await?;
//!
//! let web = pods.lister().namespace("shop").get("web-0"); // from the cache, without I/O
//! let on_node = by_node.get("node-7");
//! factory.shutdown().await; // waits for all tasks
//! # Ok(()) }
//! ```
//!
//! # Invariants
//! - A handler is called with a change only after the change is visible in the store and every
//!   index.
//! - The calls of one handler are sequential, in the order of the store's writes.
//! - A slow or panicking handler affects neither other handlers nor the cache. The only exception
//!   is a handler of [`Informer::add_backpressured_handler`]: if this handler is slow, the cache
//!   waits.
//! - A handler that is added to a running informer receives the cached objects as initial adds,
//!   then every later change exactly once.
//! - [`Informer::stop`] waits for all tasks of the informer, and for the threads of its blocking
//!   handlers.

mod builder;
mod checkpoint;
mod config;
mod delivered;
mod factory;
mod fifo_sink;
mod files;
mod handlers;
mod informer;
mod latest;
mod read_your_writes;
mod restored;
mod shared;
mod slots;
#[cfg(feature = "snapshots")]
mod snapshot;
mod status;
mod subscription;
mod sync;
mod tasks;

pub use builder::InformerBuilder;
pub use checkpoint::{Checkpoint, CheckpointError, CheckpointHandler};
pub use factory::{
    AnyInformer, FactoryError, InformerFactory, MultiNamespaceInformer, MultiNamespaceRegistration, Scope,
    Selection, WeakAnyInformer,
};
pub use files::{ClusterId, ClusterIdError, FrameFormat, FrameReader, FrameWriter, Unusable as FrameError};
#[cfg(feature = "kube-runtime")]
pub use handlers::WatcherEvents;
pub use handlers::{
    EventHandler, EventStream, FilteringEventHandler, HandlerFn, HandlerRegistration, handler_fn,
};
pub use informer::{Informer, InformerId};
pub use latest::WaitForLatestError;
pub use read_your_writes::{ApiObject, ApiScope, CachedApi, CachedReadError, StaticObject};
pub use restored::Restored;
pub use slots::SlotsError;
#[cfg(feature = "snapshots")]
pub use snapshot::{SnapshotError, SnapshotFile};
pub use status::{HandlerStatus, InformerStatus};
pub use sync::{CacheSyncError, UnsyncedInformer};

#[cfg(feature = "compressed")]
pub use kube_compact::Compressed;
pub use kube_compact::{Decoded, Lazy, Projection};
#[doc(inline)]
pub use kube_listwatch as listwatch;
pub use kube_listwatch::{ErrorClass, ListOptions, ListWatch, ListWatchError, ListerWatcher};
pub use kube_object::{
    Cached, Entry, Escaped, Event, KeyRef, Object, ObjectId, ObjectIdRef, ObjectKey, ObjectMemory,
    OwnerReferences, ParseKeyError, Persist, Removal, ResourceVersion, Shard, ShardKey, Slot, SlotCount,
    SlotCountError, SlotSet, StatusText, ToResource, Uid, is_sensitive, mark_sensitive, mask_quoted_values,
    set_requested_kind,
};
pub use kube_reflector::{FirstList, Phase, ReflectorOptions, ReflectorStatus, RelistCause, RestartCause};
pub use kube_store::{
    Index, IndexError, IndexSnapshot, LabelSelector, Lister, NamespaceLister, ParseSelectorError, Snapshot,
    Store, StoreStats, WaitError, Watermark,
};
