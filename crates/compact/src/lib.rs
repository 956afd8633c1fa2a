//! Smaller forms in which objects may be cached, for programs that hold many of them or look at few.
//!
//! An informer keeps its objects as the type that it is named with. That is a type of k8s-openapi or of a CRD, with all of its
//! fields decoded, unless one of these forms is named instead:
//!
//! | form | what an object takes | what it answers at once | what it decodes when asked |
//! |---|---|---|---|
//! | `K` | all fields, in the structs of `K` | everything | nothing |
//! | [`Projection<K, F>`] | the fields of `F` | labels, the fields of `F` | nothing; other fields don't compile |
//! | `PartialObjectMeta<K>` | its metadata, and no more is sent | metadata | nothing; a spec doesn't compile |
//! | [`Lazy<K>`] | its JSON | labels | everything else: [`Lazy::get`] |
//! | `Compressed<K>` | its JSON, compressed | labels | everything else: `Compressed::get` |
//!
//! Key, uid and version are known of each. Handlers, listers, label selectors and indexes take all of them alike; an index
//! function may decode, once for each version of an object. `managedFields` are in none of them unless they are asked for.
//!
//! ```text
//! listwatch --RawObject--> a Decode of this crate --Arc<Lazy<K>>--> store, handlers, listers
//! ```
//!
//! # Invariants
//! - Nothing is decoded that nobody looks at.
//! - Those who look at one object at the same time share one decoded value, and it goes when the last of them goes.
//! - Who an object is comes from the bytes of the server.

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
