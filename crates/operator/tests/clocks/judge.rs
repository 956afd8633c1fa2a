//! `Judge` records the history of a world, its violations, and how often each kind of event happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use parking_lot::Mutex;

/// Events that must happen in the worlds. Otherwise, the absence of violations would not prove anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Coverage {
    /// A reconcile started.
    Reconcile,
    /// A process sent a write.
    Write,
    /// The Lease changed its holder.
    Handover,
    /// A process was paused. The second variant is a leader that was paused for longer than its lease.
    Pause,
    LeaderPausedPastItsLease,
    /// A process was paused with unsent requests.
    PauseWithUnsentRequest,
    /// A process was paused shortly before a reconcile, which may wait for the cache.
    PauseBeforeReconcile,
    /// A machine was disconnected. The second variant is a leader that was disconnected for longer than
    /// its lease.
    Partition,
    LeaderDisconnectedPastItsLease,
    /// A leader was still leader after a pause or a partition.
    StillLeader,
    Killed,
    Stopped,
    /// A process exited because it lost its lease.
    LostLease,
    /// A write failed with this error.
    NotLeading,
    LeaseExpired,
}

pub(crate) const ALL_EVENTS: [Coverage; 15] = [
    Coverage::Reconcile,
    Coverage::Write,
    Coverage::Handover,
    Coverage::Pause,
    Coverage::LeaderPausedPastItsLease,
    Coverage::PauseWithUnsentRequest,
    Coverage::PauseBeforeReconcile,
    Coverage::Partition,
    Coverage::LeaderDisconnectedPastItsLease,
    Coverage::StillLeader,
    Coverage::Killed,
    Coverage::Stopped,
    Coverage::LostLease,
    Coverage::NotLeading,
    Coverage::LeaseExpired,
];

/// Number of events of each kind.
pub(crate) type Counts = BTreeMap<Coverage, usize>;

#[derive(Default)]
pub(crate) struct Judge {
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    /// Time of the world.
    now: Duration,
    /// Holder of the Lease on the server.
    holder: Option<String>,
    counts: Counts,
    history: Vec<String>,
    violations: BTreeSet<String>,
}

impl Judge {
    pub(crate) fn set_time(&self, now: Duration) {
        self.records.lock().now = now;
    }

    /// Records the holder of the Lease.
    pub(crate) fn set_holder(&self, holder: Option<String>) {
        if self.holder() != holder {
            if holder.is_some() {
                self.count(Coverage::Handover);
            }
            self.log(format_args!("the holder of the Lease is {holder:?}"));
            self.records.lock().holder = holder;
        }
    }

    pub(crate) fn holder(&self) -> Option<String> {
        self.records.lock().holder.clone()
    }

    pub(crate) fn count(&self, event: Coverage) {
        *self.records.lock().counts.entry(event).or_default() += 1;
    }

    pub(crate) fn log(&self, event: impl std::fmt::Display) {
        let mut records = self.records.lock();
        let line = format!("{:9.3} {event}", records.now.as_secs_f64());
        records.history.push(line);
    }

    pub(crate) fn violation(&self, text: String) {
        self.log(format_args!("VIOLATION: {text}"));
        self.records.lock().violations.insert(text);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.records.lock().violations.iter().cloned().collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.records.lock().counts.clone()
    }

    pub(crate) fn history(&self) -> String {
        self.records.lock().history.join("\n")
    }
}
