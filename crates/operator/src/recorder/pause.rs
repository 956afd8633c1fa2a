//! `Pause`: how long a server that fails is left alone.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

/// After one failure; twice as long after each further one. While a server fails it is asked about every 20 s, whatever waits.
const FIRST: Duration = Duration::from_secs(1);
/// Never longer, but for what the server itself asks for.
const LONGEST: Duration = Duration::from_secs(20);
/// A server or proxy that asks for a year must not silence a recorder for that long.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// One for all writes: while the server fails, nothing else is tried either.
#[derive(Debug)]
pub(crate) struct Pause {
    failures: u32,
    until: Option<Instant>,
    /// Up to a quarter is added, so that not all clients of a server that comes back ask at once.
    rng: Rng,
}

impl Pause {
    pub(crate) fn new(seed: u64) -> Self {
        Self { failures: 0, until: None, rng: Rng::with_seed(seed) }
    }

    /// Until when, if it is not over.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// The server has failed, and asked to be left alone for so long.
    pub(crate) fn failed(&mut self, now: Instant, retry_after: Option<Duration>) {
        let doubled = FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST);
        let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + doubled.max(asked).mul_f64(1.0 + self.rng.f64() / 4.0));
    }

    /// The server has answered.
    pub(crate) fn over(&mut self) {
        (self.failures, self.until) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_limit_and_resets() {
        let (mut pause, now) = (Pause::new(7), Instant::now());
        let mut after_failure = |retry_after| {
            pause.failed(now, retry_after);
            pause.until(now).unwrap() - now
        };
        for seconds in [1, 2, 4, 8, 16, 20, 20] {
            let (least, paused) = (Duration::from_secs(seconds), after_failure(None));
            assert!((least..=least.mul_f64(1.25)).contains(&paused), "{paused:?}");
        }
        for (asked, seconds) in [(5, 20), (30, 30), (100_000, 60)] {
            let (least, paused) =
                (Duration::from_secs(seconds), after_failure(Some(Duration::from_secs(asked))));
            assert!((least..=least.mul_f64(1.25)).contains(&paused), "{paused:?}");
        }
        pause.over();
        assert_eq!(pause.until(now), None);
        pause.failed(now, None);
        assert!(pause.until(now).unwrap() <= now + FIRST.mul_f64(1.25));
    }
}
