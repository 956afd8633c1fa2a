//! Retry delays. All kinds of retries share one budget.
//!
//! The `backoff` crate is unmaintained, so only this module uses it. Two of its defaults are disabled.
//! The first is a stop after 15 minutes, the second a jitter without a seed. This module adds the
//! jitter.

use std::time::Duration;

use backoff::{ExponentialBackoff, backoff::Backoff as _};
use kube_listwatch::delay_after;
use tokio::time::Instant;

use crate::ReflectorOptions;

pub(crate) struct Backoff {
    delays: ExponentialBackoff,
    reset_after: Duration,
    /// The end of the last delay. A time without failures starts here.
    last: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new(options: &ReflectorOptions) -> Self {
        let delays = ExponentialBackoff {
            current_interval: options.backoff_initial,
            initial_interval: options.backoff_initial,
            randomization_factor: 0.0,
            multiplier: 2.0,
            max_interval: options.backoff_max,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        Self { delays, reset_after: options.backoff_reset, last: None }
    }

    /// Returns the end of the next delay. The delay is uniform between the interval and twice the
    /// interval, and at least `retry_after`.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        retry_after: Option<Duration>,
        rng: &mut fastrand::Rng,
    ) -> Instant {
        if self.last.is_some_and(|last| now.duration_since(last) > self.reset_after) {
            self.delays.reset();
        }
        let max = self.delays.max_interval;
        let delay = self.delays.next_backoff().unwrap_or(max).mul_f64(1.0 + rng.f64());
        let over = now + delay.max(delay_after(retry_after));
        self.last = Some(over);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_to_maximum_and_reset() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut backoff = Backoff::new(&ReflectorOptions::default());
        let mut now = Instant::now();
        for expected in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let over = backoff.next(now, None, &mut rng);
            let delay = (over - now).as_secs_f64();
            assert!((expected..expected * 2.0).contains(&delay), "{delay} for {expected}");
            now = over;
        }
        now += Duration::from_secs(121);
        assert!(backoff.next(now, None, &mut rng) - now < Duration::from_millis(1600));
    }

    #[tokio::test(start_paused = true)]
    async fn delays_follow_options() {
        let [initial, max, reset] = [10, 100, 1000].map(Duration::from_millis);
        let set = ReflectorOptions {
            backoff_initial: initial,
            backoff_max: max,
            backoff_reset: reset,
            ..ReflectorOptions::default()
        };
        let mut rng = fastrand::Rng::with_seed(7);
        let mut backoff = Backoff::new(&set);
        let mut now = Instant::now();
        for expected in [10, 20, 40, 80, 100, 100] {
            let over = backoff.next(now, None, &mut rng);
            let delay = (over - now).as_millis();
            assert!((expected..expected * 2).contains(&delay), "{delay} for {expected}");
            now = over;
        }
        now += reset + Duration::from_millis(1);
        assert!(backoff.next(now, None, &mut rng) - now < initial * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn time_of_delay_does_not_reset_backoff() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut backoff = Backoff::new(&ReflectorOptions::default());
        let mut now = Instant::now();
        for _ in 0..4 {
            now = backoff.next(now, Some(Duration::from_secs(200)), &mut rng);
        }
        assert!(backoff.next(now, None, &mut rng) - now >= Duration::from_millis(12_800));
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_limited_to_five_minutes() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut backoff = Backoff::new(&ReflectorOptions::default());
        let now = Instant::now();
        for (retry_after, expected) in [(9, 9), (300, 300), (301, 300), (u64::MAX, 300)] {
            let over = backoff.next(now, Some(Duration::from_secs(retry_after)), &mut rng);
            assert_eq!(over - now, Duration::from_secs(expected));
            backoff.delays.reset();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_continues_indefinitely() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut backoff = Backoff::new(&ReflectorOptions::default());
        let mut now = Instant::now();
        for _ in 0..2000 {
            now = backoff.next(now, None, &mut rng);
        }
        assert!(backoff.next(now, None, &mut rng) - now <= Duration::from_secs(60));
    }

    /// The documentation states these limits.
    #[tokio::test(start_paused = true)]
    async fn persistent_failure_causes_few_attempts() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut backoff = Backoff::new(&ReflectorOptions::default());
            let start = Instant::now();
            let mut now = start;
            let mut attempts = Vec::new();
            while now - start < Duration::from_secs(600) {
                attempts.push(now - start);
                now = backoff.next(now, None, &mut rng);
            }
            let within =
                |from: u64, to: u64| attempts.iter().filter(|at| (from..to).contains(&at.as_secs())).count();
            assert!(within(0, 60) <= 14);
            assert!((1..10).all(|minute| within(minute * 60, minute * 60 + 60) <= 4));
        }
    }
}
