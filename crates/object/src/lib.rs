//! Contains the data types that the other crates share: identities of objects, resourceVersions,
//! entries, deltas, events, and JSON decoders.
//!
//! All crates of the pipeline depend on this crate:
//!
//! ```text
//! listwatch --WatchEvent--> reflector --Delta--> delta-fifo --batch--> store --Event--> informer
//! ```
//!
//! The reflector sends [`Delta`]s to the store, and the store returns [`Event`]s. Both contain
//! objects as [`Entry`]: an identity and an `Arc` of the object. The layers share the `Arc` and do
//! not clone the object.
//!
//! A [`CacheProbe`] finds the cached entry of an unchanged object, so that the object is not
//! decoded again. After a restore of the server, a different state of an object can have the same
//! resourceVersion. Then, only an equal [`Digest`] of the JSON proves that the object is unchanged.
//!
//! ```
//! use kube_object::{ObjectKey, ResourceVersion};
//!
//! let key: ObjectKey = "shop/web-0".parse()?;
//! assert_eq!((key.namespace(), key.name()), (Some("shop"), "web-0"));
//! assert!(ResourceVersion::new("9") < ResourceVersion::new("10"));
//! # Ok::<(), kube_object::ParseKeyError>(())
//! ```
//!
//! # Invariants
//! - This crate does no I/O, starts no tasks, and never waits.
//! - The identity of an object from a server is read from the bytes of the server, and never from a
//!   value that a transform may have changed.
//! - A decode error never contains the contents of an object. It contains at most the kind, a
//!   position, a category, and the reason of a transform.
//! - [`StatusText`] is the only text of an error response. The text contains no contents of Secrets.
//! - `Display` escapes each text of a server ([`Escaped`]). The unchanged text is available through
//!   `as_str`.

mod cached;
mod decode;
mod delta;
mod digest;
mod entry;
mod escaped;
mod event;
mod json;
mod json_object;
mod key;
mod labels;
mod memory;
mod object;
mod persist;
mod raw;
mod shard;
mod status_text;
mod uid;
mod version;

pub use cached::{Cached, OwnerReferences, ToResource};
pub use decode::{Decode, DecodeError, JsonDecoder, decode_json};
pub use delta::{Delta, Listed};
pub use digest::{Digest, DigestSeed};
pub use entry::{CacheProbe, Entry, NoCache, ObjectId, VersionTrust};
pub use escaped::Escaped;
pub use event::{Event, Removal};
pub use json::{Envelope, JsonError, Outline, ValueEnd, from_slice};
pub use json_object::JsonObject;
pub use key::{KeyRef, ObjectKey, ParseKeyError};
pub use labels::Labels;
pub use memory::ObjectMemory;
pub use object::{Object, ObjectIdRef};
pub use persist::{Persist, PersistError};
pub use raw::{DecodeContext, RawObject};
pub use shard::{ParseSlotSetError, Shard, ShardKey, Slot, SlotCount, SlotCountError, SlotSet};
pub use status_text::{StatusText, is_sensitive, mark_sensitive, mask_quoted_values, set_requested_kind};
pub use uid::Uid;
pub use version::ResourceVersion;

pub use kube_core::metadata::TypeMeta;
