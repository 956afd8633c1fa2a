//! `EventRateLimiter`: limits the new events of each object with a token bucket.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::event::{EventKey, EventType, ObjectIdentity};

/// The time to refill one token. This and the burst of 25 are client-go's
/// (tools/record/events_cache.go).
pub(crate) const REFILL_INTERVAL: Duration = Duration::from_secs(300);

/// The key of a bucket. Each event type has a separate bucket. Normal events therefore do not
/// suppress warnings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RateLimitKey {
    regarding: ObjectIdentity,
    event_type: EventType,
}

impl RateLimitKey {
    pub(crate) fn of(key: &EventKey) -> Self {
        let mut regarding = key.regarding.clone();
        regarding.0.field_path = None;
        Self { regarding, event_type: key.event_type }
    }
}

/// A bounded set of token buckets.
#[derive(Debug)]
pub(crate) struct EventRateLimiter {
    limit: usize,
    /// The tokens in a full bucket.
    burst: u32,
    /// For each key, when its bucket is full again, and the number of the bucket. A full bucket
    /// need not be stored.
    buckets: HashMap<Arc<RateLimitKey>, BucketKey>,
    /// The content of `buckets`, ordered by the time when each bucket is full.
    by_time: BTreeMap<BucketKey, Arc<RateLimitKey>>,
    next: u64,
}

type BucketKey = (Instant, u64);

impl EventRateLimiter {
    pub(crate) fn new(limit: usize, burst: u32) -> Self {
        Self { limit, burst, buckets: HashMap::new(), by_time: BTreeMap::new(), next: 0 }
    }

    /// Takes a token. Returns whether there was one.
    pub(crate) fn take(&mut self, key: RateLimitKey, now: Instant) -> bool {
        let bucket = self.buckets.get(&key).copied();
        let full_at = bucket.map_or(now, |(full_at, _)| now.max(full_at)) + REFILL_INTERVAL;
        if full_at > now + REFILL_INTERVAL * self.burst {
            return false;
        }
        let (number, key) = match bucket {
            Some(bucket) => (bucket.1, self.by_time.remove(&bucket).unwrap_or_else(|| Arc::new(key))),
            None => {
                self.evict();
                self.next += 1;
                (self.next, Arc::new(key))
            }
        };
        self.by_time.insert((full_at, number), Arc::clone(&key));
        self.buckets.insert(key, (full_at, number));
        true
    }

    /// If the limit is reached, removes the bucket that is full first.
    fn evict(&mut self) {
        if self.buckets.len() >= self.limit
            && let Some((_, next)) = self.by_time.pop_first()
        {
            self.buckets.remove(&next);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn subject(name: &str, event_type: EventType) -> RateLimitKey {
        let regarding = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
        RateLimitKey { regarding: ObjectIdentity(regarding), event_type }
    }

    #[test]
    fn bucket_allows_burst_then_refills() {
        let (mut limiter, now) = (EventRateLimiter::new(10, 25), Instant::now());
        let mut take = |after: Duration| limiter.take(subject("a", EventType::Normal), now + after);
        assert_eq!((0..30).filter(|_| take(Duration::ZERO)).count(), 25);
        assert!(!take(REFILL_INTERVAL - Duration::from_secs(1)));
        assert!(take(REFILL_INTERVAL) && !take(REFILL_INTERVAL));
        assert_eq!((0..30).filter(|_| take(REFILL_INTERVAL * 100)).count(), 25);
    }

    #[test]
    fn each_object_and_type_has_its_own_bucket() {
        let (mut limiter, now) = (EventRateLimiter::new(10, 25), Instant::now());
        let mut take = |name, event_type| limiter.take(subject(name, event_type), now);
        while take("a", EventType::Normal) {}
        assert!(take("a", EventType::Warning) && take("b", EventType::Normal));
        assert!(!take("a", EventType::Normal));
    }

    #[test]
    fn full_bucket_is_evicted_first() {
        let (mut limiter, now) = (EventRateLimiter::new(2, 25), Instant::now());
        for (name, tokens) in [("early", 1), ("late", 3)] {
            assert!((0..tokens).all(|_| limiter.take(subject(name, EventType::Normal), now)));
        }
        assert!(limiter.take(subject("new", EventType::Normal), now + 2 * REFILL_INTERVAL));
        let kept = |name| limiter.buckets.contains_key(&subject(name, EventType::Normal));
        assert_eq!(["early", "late", "new"].map(kept), [false, true, true]);
        assert!(limiter.by_time.keys().all(|bucket| limiter.buckets.values().any(|other| other == bucket)));
    }

    #[test]
    fn bucket_count_is_limited_and_emptiest_remain() {
        let (mut limiter, now) = (EventRateLimiter::new(3, 25), Instant::now());
        while limiter.take(subject("loud", EventType::Normal), now) {}
        for quiet in 0..20 {
            assert!(limiter.take(subject(&quiet.to_string(), EventType::Normal), now));
            assert!(limiter.buckets.len() <= 3 && limiter.by_time.len() == limiter.buckets.len());
        }
        assert!(!limiter.take(subject("loud", EventType::Normal), now));
    }
}
