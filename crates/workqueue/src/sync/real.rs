//! The primitives of a production build.

pub(crate) use parking_lot::Mutex;
pub(crate) use tokio::sync::Notify;
use tokio::time::Instant;
pub(crate) use tokio::time::sleep_until;

/// Returns the current time of tokio's clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}
