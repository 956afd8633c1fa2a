//! `Reason`: why a key is to be worked on. `Reasons`: those of all keys that wait. Plain data.

use std::{collections::HashMap, fmt, sync::Arc};

use kube_informer::{Event, ObjectKey};

/// So many reasons of a key are kept; of more, only how many.
const KEPT: usize = 8;

/// Why a key is to be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Where it comes from, as the controller names its sources: the type itself, a type that it owns, one that it watches, a
    /// stream.
    pub source: Arc<str>,
    /// Which object of the source has changed, if it is another one.
    pub object: Option<ObjectKey>,
    /// What has happened to it.
    pub change: Change,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was there when the program began to look.
    Listed,
    /// It is new.
    Added,
    /// It has changed.
    Updated,
    /// Nothing has: it is shown again from time to time.
    Resynced,
    /// It is gone.
    Deleted,
    /// Somebody asked for it, outside of the cluster.
    Requested,
    /// The last run has failed.
    Failed,
    /// The last run has asked for another one after some time.
    Requeued,
}

impl Change {
    /// What an event tells.
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
            Self::Resynced => "was shown again",
            Self::Deleted => "was deleted",
            Self::Requested => "was asked for",
            Self::Failed => "the last run has failed",
            Self::Requeued => "the last run has asked for another one",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.object, self.change) {
            (_, Change::Failed | Change::Requeued) => self.change.fmt(f),
            (Some(object), change) => write!(f, "{} {object} {change}", self.source),
            (None, change) => write!(f, "{} {change}", self.source),
        }
    }
}

/// The reasons of a key: the first ones, each once, and how many more there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// In the order in which they came.
    pub first: Vec<Reason>,
    /// How many came after those, repeats of them not counted.
    pub omitted: usize,
}

impl Reasons {
    fn add(&mut self, reason: Reason) {
        if self.first.contains(&reason) {
            return;
        }
        match self.first.len() < KEPT {
            true => self.first.push(reason),
            false => self.omitted += 1,
        }
    }
}

/// The reasons of all keys that are to be worked on. Bounded by those keys.
#[derive(Debug, Default)]
pub(crate) struct Waiting(HashMap<ObjectKey, Reasons>);

impl Waiting {
    pub(crate) fn add(&mut self, key: ObjectKey, reason: Reason) {
        self.0.entry(key).or_default().add(reason);
    }

    /// Those of a key that waits.
    pub(crate) fn of(&self, key: &ObjectKey) -> Reasons {
        self.0.get(key).cloned().unwrap_or_default()
    }

    /// Those of a key whose run begins.
    pub(crate) fn take(&mut self, key: &ObjectKey) -> Reasons {
        self.0.remove(key).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(object: &str) -> Reason {
        let object = object.parse().ok();
        Reason { source: "owned Deployment".into(), object, change: Change::Updated }
    }

    #[test]
    fn a_key_s_reasons_are_kept_until_its_run_begins() {
        let (mut waiting, key) = (Waiting::default(), ObjectKey::new(Some("shop"), "web"));
        for object in ["shop/a", "shop/b", "shop/a"] {
            waiting.add(key.clone(), reason(object));
        }
        let reasons = waiting.take(&key);
        assert_eq!(reasons, Reasons { first: vec![reason("shop/a"), reason("shop/b")], omitted: 0 });
        assert_eq!(reasons.first[0].to_string(), "owned Deployment shop/a was updated");
        assert_eq!(waiting.take(&key), Reasons::default());
    }

    #[test]
    fn of_many_reasons_the_first_are_kept_and_the_others_are_counted() {
        let mut reasons = Reasons::default();
        for number in 0..100 {
            reasons.add(reason(&format!("shop/a-{number}")));
        }
        assert_eq!((reasons.first.len(), reasons.omitted), (KEPT, 100 - KEPT));
        assert_eq!(reasons.first[0], reason("shop/a-0"));
    }
}
