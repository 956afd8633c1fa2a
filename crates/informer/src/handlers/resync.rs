//! `Resync`: the periodic resync of one handler.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use kube_delta_fifo::Delivery;
use kube_object::Object;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::Mailbox;
use crate::shared::Shared;

/// The minimum resync period, like in client-go. With a shorter period, resyncs would use too much
/// CPU.
const MIN_PERIOD: Duration = Duration::from_secs(1);

/// Queues a resync after each period, in pages, when the handler has no queued events. A handler that
/// lags receives its resync when it has caught up.
pub(crate) struct Resync {
    /// The period, until the first poll creates the timer. A stream can be created before a runtime
    /// exists.
    period: Option<Duration>,
    ticks: Option<Interval>,
    /// The next page of the running resync.
    cursor: Option<usize>,
}

impl Resync {
    /// Creates a timer that starts with the first poll.
    pub(crate) fn new(period: Option<Duration>) -> Self {
        Self { period, ticks: None, cursor: None }
    }

    /// Takes the next events from the mailbox. If there are none, queues the next page of a running
    /// resync. `shared` returns the informer.
    pub(crate) fn poll_take<T: Object, S: std::ops::Deref<Target = Shared<T>>>(
        &mut self,
        context: &mut Context<'_>,
        mailbox: &Mailbox<T>,
        shared: impl Fn() -> Option<S>,
    ) -> Poll<Option<Delivery<T>>> {
        loop {
            let polled = mailbox.poll_take(context);
            if polled.is_ready() {
                return polled;
            }
            if let Some(period) = self.period.take() {
                self.ticks = ticks(period);
            }
            while self.ticks.as_mut().is_some_and(|ticks| ticks.poll_tick(context).is_ready()) {
                self.cursor.get_or_insert(0);
            }
            let Some(cursor) = self.cursor else { return Poll::Pending };
            let Some(shared) = shared() else { return Poll::Pending };
            self.cursor = shared.resync(mailbox, cursor);
        }
    }
}

/// Returns a timer that ticks at the end of each period.
///
/// Returns `None` for a period of zero, which also disables resyncs in client-go. Returns `None`
/// for a period that the clock cannot represent.
fn ticks(period: Duration) -> Option<Interval> {
    if period.is_zero() {
        return None;
    }
    let period = period.max(MIN_PERIOD);
    let mut ticks = interval_at(Instant::now().checked_add(period)?, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(ticks)
}
