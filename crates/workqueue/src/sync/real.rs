//! The real primitives of `sync`.

pub(crate) use parking_lot::Mutex;
pub(crate) use tokio::sync::Notify;
use tokio::time::Instant;
pub(crate) use tokio::time::sleep_until;

/// What time it is.
pub(crate) fn now() -> Instant {
    Instant::now()
}
