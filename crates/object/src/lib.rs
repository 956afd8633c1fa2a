//! Who a Kubernetes object is, at which version, how its bytes become a value, and the plain
//! data that the layers pass to each other.
//!
//! Every other crate of the workspace stands on this one:
//!
//! ```text
//! listwatch --WatchEvent--> reflector --Delta--> delta-fifo --batch--> store --Event--> informer
//! ```
//!
//! [`Delta`] is what travels down to the store, [`Event`] is what the store says has changed.
//! Both carry objects as [`Entry`]: the identity beside an `Arc` of the value, so that no layer
//! has to look into an object, and none has to clone it. The one question asked upward is
//! [`CacheProbe`]: do you hold this uid at this version already? Where the version may be of another history, the [`Digest`] of the
//! object's JSON answers for it.
//!
//! # Invariants
//! - Nothing here does I/O, spawns or sleeps, and nobody waits for anybody.
//! - An [`Entry`]'s identity is taken from the bytes of the server, never from a value that a
//!   transform may have changed.
//! - An error never carries the text of an object: only its key, a position and a category.

mod cached;
mod decode;
mod delta;
mod digest;
mod entry;
mod event;
mod json;
mod json_object;
mod key;
mod labels;
mod object;
mod raw;
mod uid;
mod version;

pub use cached::Cached;
pub use decode::{Decode, DecodeError, JsonDecoder, decode_json};
pub use delta::{Delta, Listed};
pub use digest::Digest;
pub use entry::{CacheProbe, Entry, NoCache, ObjectId, VersionTrust};
pub use event::Event;
pub use json::{Envelope, JsonError, Outline, ValueEnd, from_slice};
pub use json_object::JsonObject;
pub use key::{KeyRef, ObjectKey, ParseKeyError};
pub use labels::Labels;
pub use object::{Object, ObjectIdRef};
pub use raw::{DecodeContext, RawObject};
pub use uid::Uid;
pub use version::ResourceVersion;

pub use kube_core::metadata::TypeMeta;
