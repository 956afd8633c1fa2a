//! `Budget`: how many events a controller may begin about one object: a token bucket for each.

use std::{collections::HashMap, time::Duration};

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
    /// When the bucket is full again; one that is now is as good as none.
    full_at: HashMap<Subject, Instant>,
}

impl Budget {
    pub(crate) fn new(limit: usize, burst: u32) -> Self {
        Self { limit, burst, full_at: HashMap::new() }
    }

    /// Takes a token, if one is there.
    pub(crate) fn take(&mut self, subject: Subject, now: Instant) -> bool {
        let known = self.full_at.get(&subject);
        let full_at = known.map_or(now, |full_at| now.max(*full_at)) + REFILL;
        if full_at > now + REFILL * self.burst {
            return false;
        }
        if known.is_none() && self.full_at.len() >= self.limit {
            self.forget(now);
        }
        self.full_at.insert(subject, full_at);
        true
    }

    /// Makes room: of buckets that are full, or of the one that is next.
    fn forget(&mut self, now: Instant) {
        self.full_at.retain(|_, full_at| now < *full_at);
        if self.full_at.len() >= self.limit {
            let next = self.full_at.iter().min_by_key(|(_, full_at)| **full_at);
            if let Some(next) = next.map(|(subject, _)| subject.clone()) {
                self.full_at.remove(&next);
            }
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
    fn a_bucket_gives_its_burst_then_one_at_a_time_and_is_full_again_after_a_while() {
        let (mut budget, now) = (Budget::new(10, 25), Instant::now());
        let mut take = |after: Duration| budget.take(subject("a", EventType::Normal), now + after);
        assert_eq!((0..30).filter(|_| take(Duration::ZERO)).count(), 25);
        assert!(!take(REFILL - Duration::from_secs(1)));
        assert!(take(REFILL) && !take(REFILL));
        assert_eq!((0..30).filter(|_| take(REFILL * 100)).count(), 25);
    }

    #[test]
    fn each_object_and_type_has_a_bucket_of_its_own() {
        let (mut budget, now) = (Budget::new(10, 25), Instant::now());
        let mut take = |name, event_type| budget.take(subject(name, event_type), now);
        while take("a", EventType::Normal) {}
        assert!(take("a", EventType::Warning) && take("b", EventType::Normal));
        assert!(!take("a", EventType::Normal));
    }

    #[test]
    fn no_more_buckets_are_kept_than_allowed_and_the_emptiest_stay() {
        let (mut budget, now) = (Budget::new(3, 25), Instant::now());
        while budget.take(subject("loud", EventType::Normal), now) {}
        for quiet in 0..20 {
            assert!(budget.take(subject(&quiet.to_string(), EventType::Normal), now));
            assert!(budget.full_at.len() <= 3);
        }
        assert!(!budget.take(subject("loud", EventType::Normal), now));
    }
}
