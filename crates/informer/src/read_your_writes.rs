//! Provides read-your-writes consistency: a read from the cache contains at least the earlier
//! writes of this program.
//!
//! The lower part depends only on the store. Each informer has a [`WriteTracker`]. It records the
//! writes that are not visible in the cache yet ([`pending_writes`]), and waits until they are
//! visible. The upper part is the public API: [`CachedApi`] decides for which writes the informer
//! will receive an event ([`coverage`]), records these writes, and waits before each read
//! ([`wait`]).

mod api_object;
mod cached_api;
mod coverage;
mod decoded;
mod error;
mod own_slots;
mod pending_writes;
mod tracker;
mod wait;
mod write_settings;

pub use api_object::{ApiObject, ApiScope, StaticObject};
pub use cached_api::CachedApi;
pub use error::CachedReadError;
pub(crate) use tracker::WriteTracker;
