//! The timer of resyncs.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// The minimum resync period, like in client-go. With a shorter period, resyncs would use too much
/// CPU.
const MIN_PERIOD: Duration = Duration::from_secs(1);

/// Returns a timer that ticks at the end of each period.
///
/// Returns `None` for a period of zero, which also disables resyncs in client-go. Returns `None`
/// for a period that the clock cannot represent.
pub(super) fn ticks(period: Duration) -> Option<Interval> {
    if period.is_zero() {
        return None;
    }
    let period = period.max(MIN_PERIOD);
    let mut ticks = interval_at(Instant::now().checked_add(period)?, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(ticks)
}
