//! The timer of resyncs.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Shorter periods are raised to this one, as in client-go. They would busy-loop over the cache.
const MIN_PERIOD: Duration = Duration::from_secs(1);

/// Returns a timer that ticks at the end of each period from now on.
///
/// Returns `None` for a period of zero, which disables resyncs in client-go too, and for a period
/// that the clock cannot represent.
pub(super) fn ticks(period: Duration) -> Option<Interval> {
    if period.is_zero() {
        return None;
    }
    let period = period.max(MIN_PERIOD);
    let mut ticks = interval_at(Instant::now().checked_add(period)?, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(ticks)
}
