//! The storage: a versioned log of stored states, and the watch caches that follow it. Plain data, without
//! I/O.

pub(crate) mod entry;
pub(crate) mod log;
pub(crate) mod recent;
pub(crate) mod signal;
pub(crate) mod snapshot;
pub(crate) mod table;
pub(crate) mod watch_cache;
