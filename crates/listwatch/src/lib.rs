//! LIST and WATCH: the first layer, between an API server and the reflector.
//!
//! A [`ListerWatcher`] answers two questions: one page of a list, and everything after a
//! resourceVersion. [`ListWatch`] asks them of a Kubernetes API server through a
//! [`kube_client::Client`]; it cuts the answers into objects as the bytes arrive and decodes each
//! object once. What goes wrong is said by one [`ListWatchError`], whose [`class`](ListWatchError::class) tells
//! what to do about it.
//!
//! ```text
//! bytes -> frame / list (pure) -> event (decode) -> Vec<WatchEvent> or ListPart -> reflector
//! ```
//!
//! # Invariants
//! - Nothing is retried, and nothing is remembered between calls. The retries that a
//!   `kube_client::Client` makes by itself never see a request of this crate (`uncloneable_body`).
//! - Each object is decoded at most once. An unchanged object that a
//!   [`CacheProbe`](kube_object::CacheProbe) returns is not decoded. The transform
//!   ([`ListWatch::transform`]) runs at most once too, and before any other code sees the object.
//! - Memory is bounded by the largest object allowed ([`ListWatch::max_object_bytes`]), never by
//!   what a server sends.
//! - No error, log line or `Debug` output quotes an object.

mod decoded;
mod error;
mod event;
mod frame;
mod functions;
mod http;
mod list;
mod list_watch;
mod request;
mod source;
mod split;
mod status;
mod transform;
mod uncloneable_body;

pub use decoded::Decoded;
pub use error::{ErrorClass, ListWatchError, Target, Verb};
pub use event::WatchEvent;
pub use functions::ListPage;
pub use list::{ListEnd, ListPart};
pub use list_watch::ListWatch;
pub use request::{ListAt, ListOptions, ListRequest, WatchFrom, WatchRequest};
pub use source::{Coverage, ListerWatcher};
