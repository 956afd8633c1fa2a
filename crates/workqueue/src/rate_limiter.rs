//! Rate limiters: exponential per key, fast then slow per key, a token bucket for all keys, and the
//! maximum of several. They never read a clock: the caller passes the time.

use std::hash::Hash;
use std::time::Duration;

use dashmap::DashMap;
use foldhash::quality::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The delay after the first failure of a key. Doubling from 5 ms, a key that keeps failing is
/// retried 14 times in the first 90 seconds, and then less than once per minute.
const DEFAULT_BASE: Duration = Duration::from_millis(5);
/// The longest delay after a failure of a key: about 17 minutes.
const DEFAULT_MAX: Duration = Duration::from_secs(1000);
/// Permits one retry per 100 ms after the burst, for all keys together.
const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);
/// The number of retries without a delay after a quiet period.
const DEFAULT_BURST: u32 = 100;

/// Determines the delay before a failed key is retried.
///
/// The queue calls the methods from many tasks. The methods must not block.
pub trait RateLimiter<T>: Send + Sync + 'static {
    /// Counts a failure of `key` and returns the delay before the retry, counted from `now`.
    fn when(&self, key: &T, now: Instant) -> Duration;

    /// Resets the number of failures of `key`. Workers call this method after a success, or when
    /// they give up on the key.
    fn forget(&self, key: &T);

    /// Returns the number of failures of `key` since the last `forget`, or 0 if this limiter does
    /// not count them.
    fn num_requeues(&self, key: &T) -> u32;
}

impl<T: 'static> RateLimiter<T> for Box<dyn RateLimiter<T>> {
    fn when(&self, key: &T, now: Instant) -> Duration {
        (**self).when(key, now)
    }

    fn forget(&self, key: &T) {
        (**self).forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        (**self).num_requeues(key)
    }
}

/// Creates the rate limiter of [`WorkQueue::new`](crate::WorkQueue::new), equivalent to client-go's
/// `DefaultTypedControllerRateLimiter`.
///
/// The delay is the longer of two delays:
/// - The delay of the key is 5 ms after its first failure, and doubles with each further failure up
///   to 1000 s.
/// - A token bucket limits the retries of all keys together to 10 per second, with a burst of 100.
pub fn default_rate_limiter<T: Eq + Hash + Clone + Send + Sync + 'static>() -> MaxOfRateLimiter<T> {
    MaxOfRateLimiter::new([
        Box::new(ItemExponentialFailureRateLimiter::new(DEFAULT_BASE, DEFAULT_MAX))
            as Box<dyn RateLimiter<T>>,
        Box::new(BucketRateLimiter::new(DEFAULT_INTERVAL, DEFAULT_BURST)),
    ])
}

/// Counts failures per key: one entry for each distinct key that failed and was not forgotten.
struct Failures<T>(DashMap<T, u32, RandomState>);

impl<T: Eq + Hash + Clone> Failures<T> {
    /// Counts a failure and returns the number of earlier failures.
    fn increment(&self, key: &T) -> u32 {
        let mut failures = self.0.entry(key.clone()).or_insert(0);
        let before = *failures;
        *failures = before.saturating_add(1);
        before
    }

    fn forget(&self, key: &T) {
        self.0.remove(key);
    }

    fn get(&self, key: &T) -> u32 {
        self.0.get(key).map_or(0, |failures| *failures)
    }
}

/// Returns a delay for each key, which doubles with each failure of the key.
pub struct ItemExponentialFailureRateLimiter<T> {
    base: Duration,
    max: Duration,
    failures: Failures<T>,
}

impl<T: Eq + Hash + Clone> ItemExponentialFailureRateLimiter<T> {
    /// Creates a limiter. The delay after the first failure of a key is `base`, and the longest delay
    /// is `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        ItemExponentialFailureRateLimiter { base, max, failures: Failures(DashMap::default()) }
    }
}

impl<T: Eq + Hash + Clone + Send + Sync + 'static> RateLimiter<T> for ItemExponentialFailureRateLimiter<T> {
    fn when(&self, key: &T, _now: Instant) -> Duration {
        let factor = 2_u32.checked_pow(self.failures.increment(key));
        factor.and_then(|factor| self.base.checked_mul(factor)).map_or(self.max, |delay| delay.min(self.max))
    }

    fn forget(&self, key: &T) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.failures.get(key)
    }
}

/// Returns a short delay for the first failures of a key, and a long delay for further failures.
pub struct ItemFastSlowRateLimiter<T> {
    fast: Duration,
    slow: Duration,
    max_fast_attempts: u32,
    failures: Failures<T>,
}

impl<T: Eq + Hash + Clone> ItemFastSlowRateLimiter<T> {
    /// Creates a limiter that delays the first `max_fast_attempts` failures of a key by `fast`, and
    /// all later failures by `slow`.
    pub fn new(fast: Duration, slow: Duration, max_fast_attempts: u32) -> Self {
        ItemFastSlowRateLimiter { fast, slow, max_fast_attempts, failures: Failures(DashMap::default()) }
    }
}

impl<T: Eq + Hash + Clone + Send + Sync + 'static> RateLimiter<T> for ItemFastSlowRateLimiter<T> {
    fn when(&self, key: &T, _now: Instant) -> Duration {
        if self.failures.increment(key) < self.max_fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&self, key: &T) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.failures.get(key)
    }
}

/// Limits the rate of the retries of all keys together, with a token bucket. The limiter does not
/// count the failures of a key, so [`RateLimiter::num_requeues`] returns 0.
pub struct BucketRateLimiter {
    interval: Duration,
    /// `interval` times `burst`: a retry has no delay while the bucket is full within this time.
    tolerance: Duration,
    refill: Mutex<Refill>,
}

impl BucketRateLimiter {
    /// Creates a full bucket of `burst` tokens. Each retry takes one token, and the bucket gains one
    /// token per `interval`. If `burst` is 0, the first retry also waits for one interval.
    pub fn new(interval: Duration, burst: u32) -> Self {
        BucketRateLimiter {
            interval,
            tolerance: interval.saturating_mul(burst),
            refill: Mutex::new(Refill::default()),
        }
    }
}

impl<T> RateLimiter<T> for BucketRateLimiter {
    fn when(&self, _key: &T, now: Instant) -> Duration {
        self.refill.lock().take(now, self.interval).saturating_sub(self.tolerance)
    }

    fn forget(&self, _key: &T) {}

    fn num_requeues(&self, _key: &T) -> u32 {
        0
    }
}

/// The state of a token bucket: the time at which it is full again. Each taken token moves this
/// time by one interval. If the bucket is empty, a retry uses a future token and waits longer.
#[derive(Default)]
struct Refill {
    full_at: Option<Instant>,
}

impl Refill {
    /// Takes a token and returns the time from `now` until the bucket is full again.
    fn take(&mut self, now: Instant, interval: Duration) -> Duration {
        let from = self.full_at.map_or(now, |at| at.max(now));
        // If the sum exceeds the clock's range, the old time remains: the delay is centuries in
        // both cases.
        let full_at = from.checked_add(interval).unwrap_or(from);
        self.full_at = Some(full_at);
        full_at.duration_since(now)
    }
}

/// Combines several limiters. Each of these limiters counts the failure, and the longest of their
/// delays applies.
pub struct MaxOfRateLimiter<T> {
    limiters: Vec<Box<dyn RateLimiter<T>>>,
}

impl<T> MaxOfRateLimiter<T> {
    /// Creates a limiter from `limiters`. If `limiters` is empty, the delay is zero.
    pub fn new(limiters: impl IntoIterator<Item = Box<dyn RateLimiter<T>>>) -> Self {
        MaxOfRateLimiter { limiters: limiters.into_iter().collect() }
    }
}

impl<T: 'static> RateLimiter<T> for MaxOfRateLimiter<T> {
    fn when(&self, key: &T, now: Instant) -> Duration {
        self.limiters.iter().map(|limiter| limiter.when(key, now)).max().unwrap_or_default()
    }

    fn forget(&self, key: &T) {
        for limiter in &self.limiters {
            limiter.forget(key);
        }
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.limiters.iter().map(|limiter| limiter.num_requeues(key)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
