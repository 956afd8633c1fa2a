//! When a handler or a stream is shown the whole cache again.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// A shorter period is taken for this one, as in client-go: it would be a loop over the cache.
const SHORTEST: Duration = Duration::from_secs(1);

/// Ticks at the end of each period from now on. Never for a period of zero, which is how client-go
/// says so, or for one that ends beyond the clock.
pub(crate) fn ticks(period: Duration) -> Option<Interval> {
    if period.is_zero() {
        return None;
    }
    let period = period.max(SHORTEST);
    let mut ticks = interval_at(Instant::now().checked_add(period)?, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(ticks)
}
