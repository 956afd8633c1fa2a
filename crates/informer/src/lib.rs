//! Shared informers: a cache of a resource that is always fresh, and handlers that are told what
//! changed. The crate that most programs need.
//!
//! An [`Informer`] wires the layers below it together: a reflector feeds a DeltaFIFO, each batch
//! of it is one write of the store, and what the write changed goes to every handler. Many
//! handlers share one watch and one cache; an [`InformerFactory`] shares informers by type.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use k8s_openapi::api::core::v1::Pod;
//! # use kube_informer::{Event, InformerFactory, LabelSelector};
//! # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let factory = InformerFactory::new(client).namespace("shop");
//! let pods = factory.informer::<Pod>()?;
//! let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
//! pods.on(|event| match event {
//!     Event::Added { object, .. } => println!("ADDED : {}", object.key()),
//!     Event::Updated { new, .. } => println!("MODIFIED : {}", new.key()),
//!     Event::Deleted { last, .. } => println!("DELETED : {}", last.key()),
//! });
//! factory.start();
//! factory.wait_for_sync(Duration::from_secs(30)).await?;
//!
//! let web = pods.lister().namespace("shop").get("web-0"); // no I/O, no await
//! let on_node = by_node.get("node-7");
//! factory.shutdown().await; // after this no task is left
//! # Ok(()) }
//! ```
//!
//! # Invariants
//! - A handler is called only after the store and every index show what it is told.
//! - The calls of one handler are sequential, in the order of the store's writes; a slow or
//!   panicking handler disturbs neither the others nor the cache, unless it is one that the cache
//!   waits for ([`Informer::on_every`]).
//! - A handler that joins late sees the state it finds as initial adds and everything after it:
//!   no gap, no repeat.
//! - Each task, and each thread of a handler that may block, is owned by its informer and is gone when
//!   [`Informer::stop`] returns.
//! - This crate never parses bytes and never decides what to ask of the server.

mod builder;
mod cached_api;
mod catch_up;
mod coverage;
mod delivery;
mod events;
mod factory;
mod filtered;
mod handler;
mod informer;
mod mailbox;
mod namespaced;
mod registration;
mod registry;
mod resync;
mod selected;
mod shared;
mod status;
mod sync;
mod thread;
#[cfg(feature = "kube-runtime")]
mod watcher_events;
mod written;

pub use builder::InformerBuilder;
pub use cached_api::CachedApi;
pub use catch_up::StaleRead;
pub use events::EventStream;
pub use factory::{FactoryError, InformerFactory, Scope};
pub use filtered::Filtered;
pub use handler::{EventHandler, HandlerFn, handler_fn};
pub use informer::Informer;
pub use namespaced::{NamespacedInformers, NamespacedRegistration};
pub use registration::HandlerRegistration;
pub use selected::Selected;
pub use status::{HandlerStatus, InformerStatus};
pub use sync::{NotSynced, Unsynced};
#[cfg(feature = "kube-runtime")]
pub use watcher_events::WatcherEvents;

#[cfg(feature = "compressed")]
pub use kube_compact::Compressed;
pub use kube_compact::{Lazy, Projection, View};
pub use kube_listwatch::{
    Class as ErrorClass, Error as ListWatchError, ListOptions, ListWatch, ListerWatcher,
};
pub use kube_object::{Cached, Entry, Event, KeyRef, Object, ObjectId, ObjectKey, ResourceVersion, Uid};
pub use kube_reflector::{
    FirstList, Options as ReflectorOptions, Phase, RelistCause, RestartCause, Status as ReflectorStatus,
};
pub use kube_store::{Index, LabelSelector, Lister, NotReached, Snapshot, Stats, Store};
