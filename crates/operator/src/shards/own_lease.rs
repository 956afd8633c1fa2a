//! `OwnLease`: the Lease that proves that this member lives. Plain data without I/O and without a clock.
//!
//! Each process creates a Lease with a unique name, and renews it. Another member that has seen no renewal
//! for the lease duration marks the Lease as killed, with the resourceVersion that it saw as a
//! precondition. The mark is permanent, and a new process has a new name. A member whose Lease is killed or
//! deleted is dead.
//!
//! A member may act until [`LeaseTimes::renew_deadline`] after it *sent* the last accepted renewal. Other
//! members wait for the longer lease duration, and their wait starts later. A dead member has therefore
//! stopped to act, provided that no clock runs faster than another by more than
//! `lease_duration / renew_deadline`.

use std::time::Duration;

use kube_informer::ResourceVersion;
use kube_object::SlotSet;
use tokio::time::Instant;

use crate::LeaseTimes;

/// The information of a member for the other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberInfo {
    /// The share of the slots, relative to the weights of the other members. A member with weight 0 stops,
    /// and owns its slots only until other members take them.
    pub(crate) weight: u32,
    /// The slots whose objects are in the caches of the member.
    pub(crate) filled: SlotSet,
}

/// A Lease of a member, as the server stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberLease {
    /// The uid of the Lease.
    pub(crate) uid: String,
    /// Changes with every write. It is the precondition of writes and of deletions.
    pub(crate) version: ResourceVersion,
    /// `None` if the member has another version of this program, and uses a table of another format.
    pub(crate) info: Option<MemberInfo>,
    /// The renew time, as the member wrote it. Only equality counts.
    pub(crate) renewed: String,
    /// Another member has written that this member is dead.
    pub(crate) is_killed: bool,
    /// The time for which other members wait for a renewal.
    pub(crate) duration: Duration,
}

impl MemberLease {
    /// Returns whether the member has not renewed the Lease between this state and `other`.
    pub(crate) fn is_same_renewal(&self, other: &Self) -> bool {
        (&self.uid, &self.renewed) == (&other.uid, &other.renewed)
    }
}

/// The next request for the own Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaseStep {
    /// Wait until this time, or until the information changes.
    Wait(Instant),
    Read,
    /// Create the Lease, or replace the Lease if it still has this version.
    Write {
        over: Option<MemberLease>,
        info: MemberInfo,
    },
    /// The Lease was killed or deleted, so this member must stop. It can join again under another name.
    Dead,
}

/// The state of the own Lease.
#[derive(Clone, Debug)]
pub(crate) struct OwnLease {
    times: LeaseTimes,
    info: MemberInfo,
    /// The last Lease in a response. `None` before the first successful write.
    stored: Option<MemberLease>,
    /// The information in the last successful write. A webhook may have changed the stored information.
    told: Option<MemberInfo>,
    is_dead: bool,
    /// The last request failed, and may have been applied.
    must_read: bool,
    valid_until: Option<Instant>,
    next_renewal: Instant,
    /// The earliest time of the next request.
    next_request: Instant,
}

impl OwnLease {
    pub(crate) fn new(times: LeaseTimes, info: MemberInfo, now: Instant) -> Self {
        Self {
            times,
            info,
            stored: None,
            told: None,
            is_dead: false,
            must_read: false,
            valid_until: None,
            next_renewal: now,
            next_request: now,
        }
    }

    /// Returns the time until which this member may act. Returns `None` if it must not act.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        self.valid_until.filter(|_| !self.is_dead)
    }

    /// Returns the Lease in the last response.
    pub(crate) fn stored(&self) -> Option<&MemberLease> {
        self.stored.as_ref()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Returns the information that the next write contains.
    pub(crate) fn info(&self) -> MemberInfo {
        self.info
    }

    /// Changes the information. It is written with the next request.
    pub(crate) fn set_info(&mut self, info: MemberInfo) {
        self.info = info;
    }

    pub(crate) fn next_step(&self, now: Instant) -> LeaseStep {
        if self.is_dead {
            return LeaseStep::Dead;
        }
        let due = if self.told == Some(self.info) && !self.must_read {
            self.next_renewal
        } else {
            self.next_request
        };
        if now < due {
            LeaseStep::Wait(due)
        } else if self.must_read {
            LeaseStep::Read
        } else {
            LeaseStep::Write { over: self.stored.clone(), info: self.info }
        }
    }

    /// Handles the response to a read. `None` means that the Lease does not exist.
    pub(crate) fn on_read(&mut self, lease: Option<MemberLease>) {
        self.must_read = false;
        match (&self.stored, lease) {
            // The first write has not been applied yet.
            (None, None) => {}
            (Some(_), None) => self.is_dead = true,
            (Some(stored), Some(lease)) if stored.uid != lease.uid => self.is_dead = true,
            (_, Some(lease)) if lease.is_killed => self.is_dead = true,
            (_, lease) => self.stored = lease,
        }
    }

    /// Handles the response to a successful write of this information that was sent at `sent`.
    pub(crate) fn on_written(&mut self, lease: MemberLease, info: MemberInfo, sent: Instant) {
        // After a restored backup, a killed Lease can have a version that this member knows.
        if lease.is_killed {
            self.is_dead = true;
            return;
        }
        (self.stored, self.told) = (Some(lease), Some(info));
        self.valid_until = Some(sent + self.times.renew_deadline);
        self.next_renewal = sent + self.times.retry_period;
        self.next_request = sent;
    }

    /// Handles a failed request that was sent at `sent`, or a write that the server rejected.
    pub(crate) fn on_failure(&mut self, sent: Instant, now: Instant) {
        self.must_read = true;
        self.next_request = now.max(sent + self.times.retry_period);
    }
}
