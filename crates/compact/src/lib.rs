//! Smaller representations of cached objects, for programs that cache many objects or read few of them.
//!
//! An informer caches objects as its type parameter. This is a type of k8s-openapi or of a CRD with all
//! fields decoded, or one of these representations:
//!
//! | form | what an object takes | what it answers at once | what it decodes when asked |
//! |---|---|---|---|
//! | `K` | all fields, in the structs of `K` | everything | nothing |
//! | [`Projection<K, F>`] | the fields of `F` | labels, the fields of `F` | nothing; other fields don't compile |
//! | `PartialObjectMeta<K>` | its metadata, and no more is sent | metadata | nothing; a spec doesn't compile |
//! | [`Lazy<K>`] | its JSON | labels | everything else: [`Lazy::get`] |
//! | `Compressed<K>` | its JSON, compressed | labels | everything else: `Compressed::get` |
//!
//! Key, uid and resourceVersion are available in each representation. Handlers, listers, label
//! selectors and indexes work with all of them. An index function may decode, once for each version of
//! an object. No representation contains `managedFields`, unless you request them.
//!
//! ```text
//! listwatch --RawObject--> a Decode of this crate --Arc<Lazy<K>>--> store, handlers, listers
//! ```
//!
//! # Invariants
//! - An object is decoded only when it is read.
//! - Concurrent readers of one object share one decoded value. It is dropped with its last reference.
//! - The identity of an object is taken from the bytes of the server.

#[cfg(feature = "compressed")]
mod codec;
#[cfg(feature = "compressed")]
mod compressed;
mod decoded;
#[cfg(feature = "compressed")]
mod dictionary;
mod lazy;
mod projection;

#[cfg(feature = "compressed")]
pub use compressed::{Compressed, CompressedDecoder};
pub use decoded::Decoded;
pub use lazy::{Lazy, LazyDecoder};
pub use projection::{Projection, ProjectionDecoder};
