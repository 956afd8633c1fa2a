//! Lists and watches a Kubernetes resource. This crate is the layer between an API server and the
//! reflector.
//!
//! The trait [`ListerWatcher`] requests one page of a list, or the events after a resourceVersion.
//! [`ListWatch`] implements the trait with a [`kube_client::Client`]. It splits a response into objects
//! while the bytes arrive, and decodes each object once. Each failure is a [`ListWatchError`]. The
//! reflector selects its next request by the [`class`](ListWatchError::class) of the error.
//!
//! ```no_run
//! # async fn example(client: kube_client::Client) -> Result<(), kube_listwatch::ListWatchError> {
//! use std::sync::Arc;
//!
//! use futures_util::TryStreamExt;
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_client::Api;
//! use kube_listwatch::{ListAt, ListRequest, ListWatch, ListerWatcher};
//! use kube_object::NoCache;
//!
//! let pods = ListWatch::<Pod>::new(Api::namespaced(client, "shop")).labels("app=web");
//! let request = ListRequest { at: ListAt::Consistent, limit: None };
//! let mut parts = pods.list(request, Arc::new(NoCache));
//! while let Some(part) = parts.try_next().await? {
//!     println!("{part:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! bytes -> frame or split (pure) -> event or list (decode) -> batches: Vec<WatchEvent> or ListPart -> reflector
//! ```
//!
//! # Invariants
//! - This crate does not retry. Its requests have a [`single_use_body`], so the retry layer of a
//!   `kube_client::Client` does not repeat a request either.
//! - Between calls, this crate keeps only one flag: after a failed decompression, it no longer requests
//!   gzip.
//! - Each object is decoded at most once. If a [`CacheProbe`](kube_object::CacheProbe) finds an
//!   unchanged object in the cache, the object is not decoded. A [`transform`](ListWatch::transform)
//!   also runs at most once for each object, before any other code reads the object.
//! - The maximum object size ([`ListWatch::max_object_bytes`]) limits the memory for a response. The
//!   memory does not depend on the size of the entire response.
//! - No text of an error or log line contains JSON of an object. The message of a server can contain a
//!   value of an object. For Secrets, the text omits this message, see
//!   [`StatusText`](kube_object::StatusText).

mod batches;
mod decoded;
mod error;
mod event;
mod event_reader;
mod frame;
mod functions;
mod gzip;
mod http;
mod list;
mod list_watch;
mod request;
mod response_body;
mod retry_after;
mod single_use_body;
mod source;
mod split;
mod status;
mod transform;

pub use decoded::Decoded;
pub use error::{ErrorClass, ListWatchError, Target, Verb};
pub use event::WatchEvent;
pub use functions::ListPage;
pub use gzip::GzipError;
pub use list::{ListEnd, ListPart};
pub use list_watch::ListWatch;
pub use request::{ListAt, ListOptions, ListRequest, WatchFrom, WatchRequest};
pub use retry_after::{MAX_RETRY_AFTER, delay_after, retry_after_header};
pub use single_use_body::single_use_body;
pub use source::{Coverage, ListerWatcher, current_version};
