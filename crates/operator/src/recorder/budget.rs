//! `Budget`: how many events a controller may begin about one object: a token bucket for each.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::event::{EventKey, EventType, Reference};

/// So often a token comes back. client-go's, as is the burst of 25 (tools/record/events_cache.go).
pub(crate) const REFILL: Duration = Duration::from_secs(300);

/// What has a bucket: an object, and one for each type, so that a warning comes through where there is much that is normal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    regarding: Reference,
    event_type: EventType,
}

impl Subject {
    pub(crate) fn of(key: &EventKey) -> Self {
        let mut regarding = key.regarding.clone();
        regarding.0.field_path = None;
        Self { regarding, event_type: key.event_type }
    }
}

/// A bucket for each subject, of no more than so many.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    /// The tokens in a full bucket.
    burst: u32,
    /// When the bucket is full again, which is as good as none, and its number.
    buckets: HashMap<Arc<Subject>, Bucket>,
    /// The same, by when they are full.
    by_time: BTreeMap<Bucket, Arc<Subject>>,
    next: u64,
}

type Bucket = (Instant, u64);

impl Budget {
    pub(crate) fn new(limit: usize, burst: u32) -> Self {
        Self { limit, burst, buckets: HashMap::new(), by_time: BTreeMap::new(), next: 0 }
    }

    /// Takes a token, if one is there.
    pub(crate) fn take(&mut self, subject: Subject, now: Instant) -> bool {
        let known = self.buckets.get(&subject).copied();
        let full_at = known.map_or(now, |(full_at, _)| now.max(full_at)) + REFILL;
        if full_at > now + REFILL * self.burst {
            return false;
        }
        let (number, subject) = match known {
            Some(bucket) => (bucket.1, self.by_time.remove(&bucket).unwrap_or_else(|| Arc::new(subject))),
            None => {
                self.make_room();
                self.next += 1;
                (self.next, Arc::new(subject))
            }
        };
        self.by_time.insert((full_at, number), Arc::clone(&subject));
        self.buckets.insert(subject, (full_at, number));
        true
    }

    /// For one more. The bucket goes that is full, or will be next.
    fn make_room(&mut self) {
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

    fn subject(name: &str, event_type: EventType) -> Subject {
        let regarding = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
        Subject { regarding: Reference(regarding), event_type }
    }

    #[test]
    fn bucket_allows_burst_then_refills() {
        let (mut budget, now) = (Budget::new(10, 25), Instant::now());
        let mut take = |after: Duration| budget.take(subject("a", EventType::Normal), now + after);
        assert_eq!((0..30).filter(|_| take(Duration::ZERO)).count(), 25);
        assert!(!take(REFILL - Duration::from_secs(1)));
        assert!(take(REFILL) && !take(REFILL));
        assert_eq!((0..30).filter(|_| take(REFILL * 100)).count(), 25);
    }

    #[test]
    fn each_object_and_type_has_its_own_bucket() {
        let (mut budget, now) = (Budget::new(10, 25), Instant::now());
        let mut take = |name, event_type| budget.take(subject(name, event_type), now);
        while take("a", EventType::Normal) {}
        assert!(take("a", EventType::Warning) && take("b", EventType::Normal));
        assert!(!take("a", EventType::Normal));
    }

    #[test]
    fn full_bucket_is_evicted_first() {
        let (mut budget, now) = (Budget::new(2, 25), Instant::now());
        for (name, tokens) in [("early", 1), ("late", 3)] {
            assert!((0..tokens).all(|_| budget.take(subject(name, EventType::Normal), now)));
        }
        assert!(budget.take(subject("new", EventType::Normal), now + 2 * REFILL));
        let kept = |name| budget.buckets.contains_key(&subject(name, EventType::Normal));
        assert_eq!(["early", "late", "new"].map(kept), [false, true, true]);
        assert!(budget.by_time.keys().all(|bucket| budget.buckets.values().any(|other| other == bucket)));
    }

    #[test]
    fn bucket_count_is_limited_and_emptiest_remain() {
        let (mut budget, now) = (Budget::new(3, 25), Instant::now());
        while budget.take(subject("loud", EventType::Normal), now) {}
        for quiet in 0..20 {
            assert!(budget.take(subject(&quiet.to_string(), EventType::Normal), now));
            assert!(budget.buckets.len() <= 3 && budget.by_time.len() == budget.buckets.len());
        }
        assert!(!budget.take(subject("loud", EventType::Normal), now));
    }
}
