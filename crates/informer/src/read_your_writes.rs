//! Read-your-writes consistency: reads from a cache that show at least the writes of this program.
//!
//! The lower half depends on the store only. [`WriteTracker`] records the writes that are not
//! visible in the cache yet ([`pending_writes`]), and waits for them. Each informer owns one.
//! The upper half is for users: [`CachedApi`] decides which writes the informer will see
//! ([`coverage`]), records them, and waits before it reads ([`wait`]).

mod api_object;
mod cached_api;
mod coverage;
mod error;
mod pending_writes;
mod tracker;
mod wait;

pub use api_object::ApiObject;
pub use cached_api::CachedApi;
pub use error::CachedReadError;
pub(crate) use tracker::WriteTracker;
