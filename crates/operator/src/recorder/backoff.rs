//! `Backoff`: the delay before the next write to a server that fails.

use std::time::Duration;

use fastrand::Rng;
use kube_listwatch::delay_after;
use kube_workqueue::{ItemExponentialFailureRateLimiter, RateLimiter};
use tokio::time::Instant;

/// The delay after the first failure. The delay doubles with each further failure.
const MIN_DELAY: Duration = Duration::from_secs(1);
/// The longest delay, unless the server requests a longer one.
const MAX_DELAY: Duration = Duration::from_secs(20);

/// Shared by all writes: while the server fails, the recorder does not send other writes.
pub(crate) struct Backoff {
    delays: ItemExponentialFailureRateLimiter<()>,
    until: Option<Instant>,
    /// Adds up to a quarter to the delay, so that clients do not retry at the same time.
    rng: Rng,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        let delays = ItemExponentialFailureRateLimiter::new(MIN_DELAY, MAX_DELAY);
        Self { delays, until: None, rng: Rng::with_seed(seed) }
    }

    /// Returns the end of the delay, if it is in the future.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// Records a failure of the server, and the delay that it requested.
    pub(crate) fn failed(&mut self, now: Instant, retry_after: Option<Duration>) {
        let delay = self.delays.when(&(), now);
        self.until = Some(now + delay.max(delay_after(retry_after)).mul_f64(1.0 + self.rng.f64() / 4.0));
    }

    /// Records a response of the server.
    pub(crate) fn reset(&mut self) {
        self.delays.forget(&());
        self.until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_limit_and_resets() {
        let (mut backoff, now) = (Backoff::new(7), Instant::now());
        let mut after_failure = |retry_after| {
            backoff.failed(now, retry_after);
            backoff.until(now).unwrap() - now
        };
        for seconds in [1, 2, 4, 8, 16, 20, 20] {
            let (min, delay) = (Duration::from_secs(seconds), after_failure(None));
            assert!((min..=min.mul_f64(1.25)).contains(&delay), "{delay:?}");
        }
        for (requested, seconds) in [(5, 20), (30, 30), (100_000, 300)] {
            let (min, delay) =
                (Duration::from_secs(seconds), after_failure(Some(Duration::from_secs(requested))));
            assert!((min..=min.mul_f64(1.25)).contains(&delay), "{delay:?}");
        }
        backoff.reset();
        assert_eq!(backoff.until(now), None);
        backoff.failed(now, None);
        assert!(backoff.until(now).unwrap() <= now + MIN_DELAY.mul_f64(1.25));
    }
}
