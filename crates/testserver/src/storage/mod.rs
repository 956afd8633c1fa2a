//! What is stored: a versioned log of sealed states. Plain data, without I/O.

pub(crate) mod entry;
pub(crate) mod log;
pub(crate) mod snapshot;
