//! The log of the items of a list that cannot be read. A list can contain any number of such items, so
//! the number of log lines is limited.

use kube_object::{DecodeError, ObjectId};

/// The maximum number of undecodable objects of a list that are logged with their keys.
const MAX_LOGGED_KEYS: u64 = 10;

/// The unreadable items of the list in progress, and the counts that the status does not contain yet.
#[derive(Default)]
pub(crate) struct Unreadable {
    listed: u64,
    nameless: u64,
    /// The reason of the first item without an identity.
    first_nameless: Option<DecodeError>,
    counts: UnreadableCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UnreadableCounts {
    pub(crate) undecodable: u64,
    pub(crate) nameless: u64,
}

impl Unreadable {
    /// Logs an undecodable object of a watch event.
    pub(crate) fn event(&mut self, id: &ObjectId, error: &DecodeError) {
        self.counts.undecodable += 1;
        tracing::warn!(%id, %error, "cannot decode an object; an older cached state of the object is marked stale");
    }

    /// Logs an undecodable object of a list, or only counts it.
    pub(crate) fn listed(&mut self, id: &ObjectId, error: &DecodeError) {
        self.listed += 1;
        if self.listed <= MAX_LOGGED_KEYS {
            self.event(id, error);
        } else {
            self.counts.undecodable += 1;
        }
    }

    /// Counts the items of a list without an identity.
    pub(crate) fn nameless(&mut self, reasons: Vec<DecodeError>) {
        self.nameless += reasons.len() as u64;
        self.counts.nameless += reasons.len() as u64;
        if self.first_nameless.is_none() {
            self.first_nameless = reasons.into_iter().next();
        }
    }

    /// Logs the items that were only counted. Call it when a list ends or fails.
    pub(crate) fn list_over(&mut self) {
        let more = std::mem::take(&mut self.listed).saturating_sub(MAX_LOGGED_KEYS);
        if more > 0 {
            tracing::warn!(
                more,
                "cannot decode more objects of the list; older cached states of these objects are marked stale"
            );
        }
        let count = std::mem::take(&mut self.nameless);
        if let Some(first_error) = self.first_nameless.take() {
            tracing::warn!(count, %first_error, "cannot identify items of a list; objects that are missing in this list stay cached");
        }
    }

    /// Returns the counts since the last call.
    pub(crate) fn take_counts(&mut self) -> UnreadableCounts {
        std::mem::take(&mut self.counts)
    }
}
