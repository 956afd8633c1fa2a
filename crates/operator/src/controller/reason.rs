//! `Reason`: the cause of a reconcile. `PendingReasons`: the reasons of all queued keys.

use std::{
    fmt,
    hash::{BuildHasher, Hash},
    sync::Arc,
    time::Duration,
};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use kube_informer::{Escaped, Event, ObjectKey};
use tokio::time::Instant;

/// The number of reasons kept for a key. Further reasons are only counted.
const MAX_REASONS_PER_KEY: usize = 8;

/// Describes the cause of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The name of the source: the reconciled type, an owned type, a watched type, or a stream.
    pub source: Arc<str>,
    /// The API group of this type. Empty for the core group. `None` if the source is a stream, or if its
    /// informer has a name from the user.
    pub group: Option<Arc<str>>,
    /// The object that changed, if it is not the reconciled object.
    pub object: Option<ObjectKey>,
    /// The change.
    pub change: Change,
}

/// Describes the kind of change that caused a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was in the initial list.
    Listed,
    /// The object was added.
    Added,
    /// The object was updated.
    Updated,
    /// The object did not change. The informer delivered it again in a resync.
    Resynced,
    /// The object was deleted.
    Deleted,
    /// A stream requested the reconcile.
    Requested,
    /// The previous reconcile of the key failed, and is retried.
    Failed,
    /// The previous reconcile of the key requested a requeue after a delay.
    Requeued,
}

impl Change {
    /// Returns the change that an event describes.
    pub fn from_event<T>(event: &Event<T>) -> Self {
        match event {
            Event::Added { initial: true, .. } => Self::Listed,
            Event::Added { initial: false, .. } => Self::Added,
            Event::Updated { old, new } if Arc::ptr_eq(&old.object, &new.object) => Self::Resynced,
            Event::Updated { .. } => Self::Updated,
            Event::Deleted { .. } => Self::Deleted,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listed => "was listed",
            Self::Added => "was added",
            Self::Updated => "was updated",
            Self::Resynced => "was resynced",
            Self::Deleted => "was deleted",
            Self::Requested => "requested a reconcile",
            Self::Failed => "the last reconcile failed",
            Self::Requeued => "the last reconcile requested a requeue",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.object, self.change) {
            (_, Change::Failed | Change::Requeued) => self.change.fmt(f),
            (Some(object), change) => write!(f, "{} {object} {change}", Escaped(&self.source)),
            (None, change) => write!(f, "{} {change}", Escaped(&self.source)),
        }
    }
}

/// Contains the reasons for a reconcile of one key: the first 8 distinct reasons, and the number of
/// further reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// The first distinct reasons, in order of arrival. At most 8.
    pub first: Vec<Reason>,
    /// The number of reasons that arrived when `first` was full. A reason that `first` already
    /// contains is not counted.
    pub omitted: usize,
}

impl Reasons {
    fn add(&mut self, reason: Reason) {
        if self.first.contains(&reason) {
            return;
        }
        if self.first.len() < MAX_REASONS_PER_KEY {
            self.first.push(reason);
        } else {
            self.omitted += 1;
        }
    }
}

impl fmt::Display for Reasons {
    /// Prints the first reason and the number of further reasons.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.first.first() else { return f.write_str("unknown") };
        match self.first.len() - 1 + self.omitted {
            0 => write!(f, "{first}"),
            further => write!(f, "{first} (and {further} more)"),
        }
    }
}

/// Holds the reasons of all queued keys. The number of these keys bounds its size.
///
/// The table contains only pointers, so a table of many keys stays small and is cheap to search.
#[derive(Debug)]
pub(crate) struct PendingReasons<Q> {
    keys: HashTable<Box<Pending<Q>>>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Pending<Q> {
    key: Q,
    reasons: Reasons,
    since: Instant,
    cache_wait: Duration,
}

/// The times that a key waited before its reconcile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// The time from the first reason to the start of the reconcile, without `cache`, and with delays.
    pub(crate) queue: Duration,
    /// The time until the cache contained the earlier writes of this process.
    pub(crate) cache: Duration,
}

impl<Q> Default for PendingReasons<Q> {
    fn default() -> Self {
        Self { keys: HashTable::new(), hasher: RandomState::default() }
    }
}

impl<Q: Hash + Eq> PendingReasons<Q> {
    pub(crate) fn add(&mut self, key: Q, reason: Reason) {
        let Self { keys, hasher } = self;
        let hash = hasher.hash_one(&key);
        if let Some(known) = keys.find_mut(hash, |known| known.key == key) {
            return known.reasons.add(reason);
        }
        let reasons = Reasons { first: vec![reason], omitted: 0 };
        let pending = Pending { key, reasons, since: Instant::now(), cache_wait: Duration::ZERO };
        keys.insert_unique(hash, Box::new(pending), |known| hasher.hash_one(&known.key));
    }

    /// Records that a queued key waited for a cache.
    pub(crate) fn add_cache_wait(&mut self, key: &Q, wait: Duration) {
        if let Some(known) = self.keys.find_mut(self.hasher.hash_one(key), |known| known.key == *key) {
            known.cache_wait += wait;
        }
    }

    /// Returns the keys, in no particular order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Q> {
        self.keys.iter().map(|known| &known.key)
    }

    /// Returns the number of keys, and the keys that have waited longest since their first reason.
    #[cfg(feature = "page")]
    pub(crate) fn oldest(&self, limit: usize) -> (usize, Vec<(&Q, &Reasons, Duration)>) {
        let mut all: Vec<&Pending<Q>> = self.keys.iter().map(|known| &**known).collect();
        let count = all.len();
        if limit < count {
            all.select_nth_unstable_by_key(limit, |known| known.since);
            all.truncate(limit);
        }
        all.sort_unstable_by_key(|known| known.since);
        (count, all.into_iter().map(|known| (&known.key, &known.reasons, known.since.elapsed())).collect())
    }

    /// Removes the reasons of the selected keys.
    pub(crate) fn remove_where(&mut self, is_selected: impl Fn(&Q) -> bool) {
        self.keys.retain(|known| !is_selected(&known.key));
    }

    /// Returns a copy of the reasons of a key.
    pub(crate) fn get(&self, key: &Q) -> Reasons {
        let known = self.keys.find(self.hasher.hash_one(key), |known| known.key == *key);
        known.map_or_else(Reasons::default, |known| known.reasons.clone())
    }

    /// Removes and returns the reasons of a key when its reconcile starts, and the times that it waited.
    pub(crate) fn take(&mut self, key: &Q) -> (Reasons, Waits) {
        let Ok(known) = self.keys.find_entry(self.hasher.hash_one(key), |known| known.key == *key) else {
            return Default::default();
        };
        let Pending { reasons, since, cache_wait: cache, .. } = *known.remove().0;
        (reasons, Waits { queue: since.elapsed().saturating_sub(cache), cache })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(object: &str) -> Reason {
        let object = object.parse().ok();
        Reason {
            source: "owned Deployment".into(),
            group: Some("apps".into()),
            object,
            change: Change::Updated,
        }
    }

    #[test]
    fn reasons_of_key_accumulate_until_reconcile() {
        let (mut pending, key) = (PendingReasons::default(), ObjectKey::new(Some("shop"), "web"));
        for object in ["shop/a", "shop/b", "shop/a"] {
            pending.add(key.clone(), reason(object));
        }
        let reasons = pending.take(&key).0;
        assert_eq!(reasons, Reasons { first: vec![reason("shop/a"), reason("shop/b")], omitted: 0 });
        assert_eq!(reasons.first[0].to_string(), "owned Deployment shop/a was updated");
        assert_eq!(pending.take(&key).0, Reasons::default());
    }

    #[test]
    fn reasons_beyond_the_limit_are_counted() {
        let mut reasons = Reasons::default();
        for number in 0..100 {
            reasons.add(reason(&format!("shop/a-{number}")));
        }
        assert_eq!((reasons.first.len(), reasons.omitted), (MAX_REASONS_PER_KEY, 100 - MAX_REASONS_PER_KEY));
        assert_eq!(reasons.first[0], reason("shop/a-0"));
        assert_eq!(reasons.to_string(), "owned Deployment shop/a-0 was updated (and 99 more)");
    }
}
