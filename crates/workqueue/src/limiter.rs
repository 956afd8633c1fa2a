//! How long a key that failed has to wait: per-key exponential, fast then slow, a token bucket for all keys
//! together, and the longest of several. Time comes in as an argument.

use std::hash::Hash;
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The first delay of a failing key. Doubling from 5 ms, a key that keeps failing is tried 14 times in the first
/// minute and a half, and less than once per minute from then on.
const DEFAULT_BASE: Duration = Duration::from_millis(5);
/// The longest delay of a failing key: one try in about 17 minutes.
const DEFAULT_MAX: Duration = Duration::from_secs(1000);
/// One retry each 100 ms: all failing keys together make at most 10 tries per second once the burst is spent.
const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);
/// As many retries may come at once after a quiet time.
const DEFAULT_BURST: u32 = 100;

/// Decides how long a key waits before it is tried again.
///
/// Calls come from any number of tasks and must not block.
pub trait RateLimiter<T>: Send + Sync + 'static {
    /// Counts one more failure of `key` and says how long to wait, from `now`.
    fn when(&self, key: &T, now: Instant) -> Duration;

    /// Drops what is remembered about `key`: it has succeeded, or nobody will retry it.
    fn forget(&self, key: &T);

    /// How many failures of `key` are remembered; 0 where none are counted.
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

/// The limiter of [`WorkQueue::new`](crate::WorkQueue::new), with client-go's numbers: the longer of 5 ms
/// doubling to 1000 s per key, and a token bucket of 10 per second with a burst of 100 for all keys together.
pub fn default_rate_limiter<T: Eq + Hash + Clone + Send + Sync + 'static>() -> MaxOf<T> {
    MaxOf::new([
        Box::new(ExponentialFailure::new(DEFAULT_BASE, DEFAULT_MAX)) as Box<dyn RateLimiter<T>>,
        Box::new(TokenBucket::new(DEFAULT_INTERVAL, DEFAULT_BURST)),
    ])
}

/// Failures per key. Bound: one entry for each distinct key that failed and was not forgotten.
struct Failures<T>(DashMap<T, u32>);

impl<T: Eq + Hash + Clone> Failures<T> {
    /// Counts a failure and says how many there were before it.
    fn count(&self, key: &T) -> u32 {
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

/// `base`, doubled with each failure of the key, up to `max`.
pub struct ExponentialFailure<T> {
    base: Duration,
    max: Duration,
    failures: Failures<T>,
}

impl<T: Eq + Hash + Clone> ExponentialFailure<T> {
    /// The first failure waits `base`; none waits longer than `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        ExponentialFailure { base, max, failures: Failures(DashMap::new()) }
    }
}

impl<T: Eq + Hash + Clone + Send + Sync + 'static> RateLimiter<T> for ExponentialFailure<T> {
    fn when(&self, key: &T, _now: Instant) -> Duration {
        let factor = 2_u32.checked_pow(self.failures.count(key));
        factor.and_then(|factor| self.base.checked_mul(factor)).map_or(self.max, |delay| delay.min(self.max))
    }

    fn forget(&self, key: &T) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.failures.get(key)
    }
}

/// `fast` for the first failures of a key, `slow` for all later ones.
pub struct FastSlow<T> {
    fast: Duration,
    slow: Duration,
    fast_tries: u32,
    failures: Failures<T>,
}

impl<T: Eq + Hash + Clone> FastSlow<T> {
    /// The first `fast_tries` failures wait `fast` each, the others `slow`.
    pub fn new(fast: Duration, slow: Duration, fast_tries: u32) -> Self {
        FastSlow { fast, slow, fast_tries, failures: Failures(DashMap::new()) }
    }
}

impl<T: Eq + Hash + Clone + Send + Sync + 'static> RateLimiter<T> for FastSlow<T> {
    fn when(&self, key: &T, _now: Instant) -> Duration {
        if self.failures.count(key) < self.fast_tries { self.fast } else { self.slow }
    }

    fn forget(&self, key: &T) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.failures.get(key)
    }
}

/// A token bucket shared by all keys: `burst` retries at once, then one each `interval`. It counts no failures.
pub struct TokenBucket {
    interval: Duration,
    /// `interval` times burst: how far ahead of now the bucket's refill may lie without a wait.
    tolerance: Duration,
    refill: Mutex<Refill>,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens that gains one each `interval`. With a burst of 0 even the first retry
    /// waits one interval.
    pub fn new(interval: Duration, burst: u32) -> Self {
        TokenBucket {
            interval,
            tolerance: interval.saturating_mul(burst),
            refill: Mutex::new(Refill::default()),
        }
    }
}

impl<T> RateLimiter<T> for TokenBucket {
    fn when(&self, _key: &T, now: Instant) -> Duration {
        self.refill.lock().take(now, self.interval).saturating_sub(self.tolerance)
    }

    fn forget(&self, _key: &T) {}

    fn num_requeues(&self, _key: &T) -> u32 {
        0
    }
}

/// A token bucket as one number: when it will be full again. Each taken token moves that by one interval, so
/// tokens may be taken ahead of time and the wait says how far ahead.
#[derive(Default)]
struct Refill {
    full_at: Option<Instant>,
}

impl Refill {
    /// Takes a token and says how long the bucket needs from `now` until it is full.
    fn take(&mut self, now: Instant, interval: Duration) -> Duration {
        let from = self.full_at.map_or(now, |at| at.max(now));
        // An addition that leaves the clock's range keeps the old time: the wait is centuries either way.
        let full_at = from.checked_add(interval).unwrap_or(from);
        self.full_at = Some(full_at);
        full_at.duration_since(now)
    }
}

/// The longest delay that any of several limiters asks for. Each of them counts the failure.
pub struct MaxOf<T> {
    limiters: Vec<Box<dyn RateLimiter<T>>>,
}

impl<T> MaxOf<T> {
    /// Asks `limiters` in their order; without any, every delay is zero.
    pub fn new(limiters: impl IntoIterator<Item = Box<dyn RateLimiter<T>>>) -> Self {
        MaxOf { limiters: limiters.into_iter().collect() }
    }
}

impl<T: 'static> RateLimiter<T> for MaxOf<T> {
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
