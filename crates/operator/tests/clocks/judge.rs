//! What is judged, what has happened, and how often.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use parking_lot::Mutex;

/// What has to have happened before it counts for anything that nothing was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Met {
    /// Runs that have started, each judged.
    Run,
    /// Writes that have left a process, each judged.
    Write,
    /// The Lease went to another process.
    Handover,
    /// A process was paused, and a leader for longer than its lease.
    Pause,
    PauseOfALeaderPastItsLease,
    /// With requests that were on their way out.
    PauseInAWrite,
    /// With a run that perhaps waited for the cache to show what was written.
    PauseBeforeARun,
    /// A machine was cut off, and a leader for longer than its lease.
    Partition,
    PartitionOfALeaderPastItsLease,
    /// A leader that was cut off or paused still leads when that is over.
    StillLeads,
    Killed,
    ToldToStop,
    /// A process has ended since it has lost its lease.
    EndedWithoutLease,
    /// Writes that were not sent, or given up.
    NotLeading,
    LeaseExpired,
}

pub(crate) const ALL: [Met; 15] = [
    Met::Run,
    Met::Write,
    Met::Handover,
    Met::Pause,
    Met::PauseOfALeaderPastItsLease,
    Met::PauseInAWrite,
    Met::PauseBeforeARun,
    Met::Partition,
    Met::PartitionOfALeaderPastItsLease,
    Met::StillLeads,
    Met::Killed,
    Met::ToldToStop,
    Met::EndedWithoutLease,
    Met::NotLeading,
    Met::LeaseExpired,
];

/// How often each was met.
pub(crate) type Counts = BTreeMap<Met, usize>;

#[derive(Default)]
pub(crate) struct Judge {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// By the world's clock.
    now: Duration,
    /// Whom the Lease names, as the server has it.
    holder: Option<String>,
    counts: Counts,
    history: Vec<String>,
    wrongs: BTreeSet<String>,
}

impl Judge {
    pub(crate) fn goes_on(&self, now: Duration) {
        self.seen.lock().now = now;
    }

    /// Whom the Lease names now.
    pub(crate) fn sees(&self, holder: Option<String>) {
        if self.holder() != holder {
            if holder.is_some() {
                self.meets(Met::Handover);
            }
            self.tells(format_args!("the Lease names {holder:?}"));
            self.seen.lock().holder = holder;
        }
    }

    pub(crate) fn holder(&self) -> Option<String> {
        self.seen.lock().holder.clone()
    }

    pub(crate) fn meets(&self, what: Met) {
        *self.seen.lock().counts.entry(what).or_default() += 1;
    }

    pub(crate) fn tells(&self, what: impl std::fmt::Display) {
        let mut seen = self.seen.lock();
        let line = format!("{:9.3} {what}", seen.now.as_secs_f64());
        seen.history.push(line);
    }

    pub(crate) fn wrong(&self, what: String) {
        self.tells(format_args!("WRONG: {what}"));
        self.seen.lock().wrongs.insert(what);
    }

    pub(crate) fn wrongs(&self) -> Vec<String> {
        self.seen.lock().wrongs.iter().cloned().collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.seen.lock().counts.clone()
    }

    pub(crate) fn history(&self) -> String {
        self.seen.lock().history.join("\n")
    }
}
