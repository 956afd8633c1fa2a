//! Provides representations of cached objects that need less memory.
//!
//! Use them in programs that cache many objects, or that read only a few of the cached objects. The
//! type parameter of an informer selects the representation. In this table, `K` is a type of
//! k8s-openapi or of a CRD, and `F` is a struct with some of its fields.
//!
//! | Type | Data in memory | Available without decoding | Decoded on demand |
//! |---|---|---|---|
//! | `K` | all fields of `K` | all fields | – |
//! | [`Projection<K, F>`] | the fields of `F` | the labels and the fields of `F` | – |
//! | `PartialObjectMeta<K>` | the metadata; the server sends only metadata | the metadata | – |
//! | [`Lazy<K>`] | the JSON | the labels | all fields, with [`Lazy::get`] |
//! | `Compressed<K>` | the compressed JSON | the labels | all fields, with `Compressed::get` |
//!
//! Key, uid and resourceVersion are available in each representation. Handlers, listers, label
//! selectors and indexes work with every representation. An index function may decode an object.
//! The function runs once for each version of the object. A representation contains `managedFields`
//! only if the informer keeps them.
//!
//! A `Lazy` is created from the JSON of a server without decoding the object:
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_compact::{Lazy, LazyDecoder};
//! use kube_object::{Decode, DecodeContext, Outline, RawObject, TypeMeta};
//!
//! let json = br#"{"metadata":{"name":"web-0","labels":{"app":"web"}},"spec":{"containers":[],"nodeName":"n1"}}"#;
//! let context = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
//! let pod: Lazy<Pod> = LazyDecoder.decode(&RawObject::new(Outline::scan(json), &context)?)?;
//!
//! assert_eq!(pod.labels().get("app"), Some("web"));
//! assert_eq!(pod.get()?.spec.as_ref().and_then(|spec| spec.node_name.as_deref()), Some("n1"));
//! # Ok::<(), kube_object::DecodeError>(())
//! ```
//!
//! ```text
//! listwatch --RawObject--> a Decode of this crate --Arc<Lazy<K>>--> store, handlers, listers
//! ```
//!
//! # Invariants
//! - A [`Lazy`] or `Compressed` object is decoded only when a program reads it.
//! - Concurrent readers of one object share one decoded value. The value is dropped with its last
//!   reference.
//! - The identity of an object is taken from the bytes of the server.

#[cfg(feature = "compressed")]
mod codec;
#[cfg(feature = "compressed")]
mod compressed;
mod decoded;
#[cfg(feature = "compressed")]
mod dictionary;
mod header;
mod lazy;
mod projection;
#[cfg(feature = "compressed")]
mod stored;

#[cfg(feature = "compressed")]
pub use compressed::{Compressed, CompressedDecoder};
pub use decoded::Decoded;
pub use lazy::{Lazy, LazyDecoder};
pub use projection::{Projection, ProjectionDecoder};
#[cfg(feature = "compressed")]
pub use stored::Dictionaries;
