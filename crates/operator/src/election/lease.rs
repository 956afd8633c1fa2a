//! Decisions of leader election, as plain data without I/O and without a clock. `now` is an argument.
//!
//! A Lease object contains the identity of its holder. The holder renews the Lease every
//! [`LeaseTimes::retry_period`]. A candidate may take the lease when it has seen no renewal for the
//! duration that the Lease itself states. Each candidate measures this time with its own clock,
//! starting when it observed the last change. Clocks of different machines are never compared; the
//! times in the Lease are only for people.
//!
//! A leader treats its lease as valid for [`LeaseTimes::renew_deadline`] after it *sent* the last
//! accepted write. Candidates wait longer, and their wait starts later. Two processes are therefore
//! never leaders at the same time, provided that no clock runs faster than another by more than
//! `lease_duration / renew_deadline`.
//!
//! If the Lease is deleted, a candidate cannot read until when the old holder acts as leader. If a
//! candidate observes a replaced Lease, it becomes leader only after one complete lease duration. After
//! that duration, the old lease has expired for every process. The current leader is exempt from this
//! wait. A candidate that starts after the deletion did not observe the old Lease. Such a candidate may
//! be leader at the same time as the old holder.

use std::time::Duration;

use kube_informer::ResourceVersion;
use tokio::time::Instant;

/// Duration in a released Lease. A Lease cannot contain a shorter duration.
const RELEASED_LEASE_DURATION: Duration = Duration::from_secs(1);

/// Contains the times of an election. The fields have the same meaning as in client-go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// The time that a candidate waits after the last observed renewal before it takes the lease. This
    /// time must be an integer number of seconds.
    pub lease_duration: Duration,
    /// The time for which the leader treats its lease as valid. The time starts when the leader
    /// sends the last write that the server accepted. It must be shorter than the lease duration.
    pub renew_deadline: Duration,
    /// The time between two renewals of the leader, and between two attempts of a candidate. The renew
    /// deadline must be more than 2.2 times this time.
    pub retry_period: Duration,
}

impl Default for LeaseTimes {
    /// Returns the defaults of client-go: a lease duration of 15 s, a renew deadline of 10 s and a retry
    /// period of 2 s.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Reports unsafe election options. With such options, two processes could be leaders at the same
/// time, or the leader could lose its lease after a single failed renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    /// The identity is empty. A Lease with an empty identity is free, so every candidate could take it.
    #[error("the election identity is empty; set an identity that is unique for each process")]
    EmptyIdentity,
    /// The lease duration is not an integer number of seconds from 1 to `i32::MAX`, as a Lease requires.
    #[error("invalid lease duration {0:?}; use an integer number of seconds, at least 1")]
    NotWholeSeconds(Duration),
    /// The renew deadline is not shorter than the lease duration. The leader must stop before a
    /// candidate takes the lease, even if their clocks have different speeds.
    #[error("renew deadline {renew_deadline:?} must be shorter than the lease duration {lease_duration:?}")]
    RenewDeadlineTooLong {
        /// The renew deadline in the options.
        renew_deadline: Duration,
        /// The lease duration in the options.
        lease_duration: Duration,
    },
    /// The retry period is zero or too long. If it is too long, the leader loses its lease after
    /// one failed renewal, because no time remains for a second attempt.
    #[error(
        "retry period {retry_period:?} must be above zero and less than the renew deadline {renew_deadline:?} divided by 2.2"
    )]
    RetryPeriodTooLong {
        /// The renew deadline in the options.
        renew_deadline: Duration,
        /// The retry period in the options.
        retry_period: Duration,
    },
}

impl LeaseTimes {
    /// Checks that an election with these times is safe, and returns the times.
    ///
    /// # Errors
    /// Returns an [`ElectionError`] in these cases:
    /// - The lease duration is not an integer number of seconds from 1 to `i32::MAX`.
    /// - The renew deadline is not shorter than the lease duration.
    /// - The retry period is zero, or the renew deadline is not more than 2.2 times the retry
    ///   period.
    pub fn validate(self) -> Result<Self, ElectionError> {
        let Self { lease_duration, renew_deadline, retry_period } = self;
        if lease_duration.subsec_nanos() != 0
            || lease_duration.is_zero()
            || i32::try_from(lease_duration.as_secs()).is_err()
        {
            return Err(ElectionError::NotWholeSeconds(lease_duration));
        }
        if renew_deadline >= lease_duration {
            return Err(ElectionError::RenewDeadlineTooLong { renew_deadline, lease_duration });
        }
        // The first comparison protects `mul_f64` from an overflow, which panics.
        if retry_period >= renew_deadline
            || renew_deadline <= retry_period.mul_f64(2.2)
            || retry_period.is_zero()
        {
            return Err(ElectionError::RetryPeriodTooLong { renew_deadline, retry_period });
        }
        Ok(self)
    }
}

/// The fields of a Lease that decide the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// Changes if the Lease is deleted and created again.
    pub(crate) uid: String,
    /// Changes with every write, also of labels. It is the precondition of a write, and no proof that
    /// the holder lives.
    pub(crate) version: ResourceVersion,
    /// Empty if the lease is free.
    pub(crate) holder: String,
    /// Time that candidates wait after a renewal.
    pub(crate) duration: Duration,
    /// How often the holder changed.
    pub(crate) transitions: i32,
    /// The renew time, as the holder wrote it. Only equality counts. A holder never writes the same
    /// text twice, even if its clock is set back. Otherwise candidates could miss a renewal.
    pub(crate) renewed: String,
}

impl LeaseRecord {
    /// Returns whether the holder has not renewed the lease between `other` and this record. Other
    /// changes, for example of labels, change only the version. client-go compares the spec.
    fn has_same_renewal(&self, other: &Self) -> bool {
        *self == Self { version: self.version.clone(), ..other.clone() }
    }

    /// Returns whether this Lease was created again after `last`, or restored from a backup. It is then
    /// not a later state of `last`.
    fn replaces(&self, last: &Self) -> bool {
        self.uid != last.uid || self.version < last.version
    }
}

/// A write of the Lease. Its precondition is the version in `over`, or that no Lease exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseWrite {
    pub(crate) over: Option<ResourceVersion>,
    pub(crate) holder: String,
    pub(crate) duration: Duration,
    pub(crate) transitions: i32,
    /// The write changes the holder, and therefore also the acquire time.
    pub(crate) acquires: bool,
}

/// Next action of the driver of a [`Candidate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    Read,
    Write(LeaseWrite),
    /// Wait until this time, or until the Lease changes.
    Wait(Instant),
}

/// The state of one candidate.
#[derive(Debug)]
pub(crate) struct Candidate {
    identity: String,
    times: LeaseTimes,
    observed: Option<ObservedLease>,
    /// The Lease must be read again before the next decision. A failed write, for example, may have
    /// been applied.
    must_reread: bool,
    /// The last record of an existing Lease.
    last: Option<LeaseRecord>,
    /// End of the time in which this candidate is the leader.
    leads_until: Option<Instant>,
    /// Start of that time. Before it, the holder of a deleted Lease may still be leader.
    leads_from: Instant,
    /// Earliest time of the next request.
    next_request_at: Instant,
}

/// The last state of the Lease, and since when its holder has not renewed it.
#[derive(Debug)]
struct ObservedLease {
    record: Option<LeaseRecord>,
    since: Instant,
    /// The time of the last read or watch event.
    last: Instant,
}

impl Candidate {
    pub(crate) fn new(identity: String, times: LeaseTimes, now: Instant) -> Self {
        Self {
            identity,
            times,
            observed: None,
            must_reread: true,
            last: None,
            leads_until: None,
            leads_from: now,
            next_request_at: now,
        }
    }

    /// Returns until when this candidate is the leader, or `None` if it is not the leader at `now`.
    pub(crate) fn leads_until(&self, now: Instant) -> Option<Instant> {
        self.leads_until.filter(|until| (self.leads_from..*until).contains(&now))
    }

    /// Returns the holder of the lease if it is another process.
    pub(crate) fn other_holder(&self) -> Option<&str> {
        Some(&*self.held_by_other()?.holder)
    }

    /// Returns the last observed Lease if another process is its holder.
    pub(crate) fn held_by_other(&self) -> Option<&LeaseRecord> {
        self.record().filter(|record| !record.holder.is_empty() && record.holder != self.identity)
    }

    /// Returns whether another process has not renewed its lease in time, according to a read or a watch
    /// event after this time.
    pub(crate) fn other_has_expired(&self) -> bool {
        let observed = self.observed.as_ref();
        self.held_by_other()
            .zip(observed)
            .is_some_and(|(record, ObservedLease { since, last, .. })| *last >= *since + record.duration)
    }

    fn record(&self) -> Option<&LeaseRecord> {
        self.observed.as_ref()?.record.as_ref()
    }

    /// Handles the answer to a read.
    pub(crate) fn on_read(&mut self, record: Option<LeaseRecord>, now: Instant) {
        self.must_reread = false;
        if let (Some(record), Some(last)) = (&record, &self.last)
            && record.replaces(last)
            && self.leads_until(now).is_none()
        {
            self.leads_from = now + self.times.lease_duration.max(last.duration);
        }
        let since = match (&self.observed, &record) {
            (Some(ObservedLease { record: None, since, .. }), None) => *since,
            (Some(ObservedLease { record: Some(before), since, .. }), Some(record))
                if record.has_same_renewal(before) =>
            {
                *since
            }
            _ => now,
        };
        if record.is_some() {
            self.last.clone_from(&record);
        }
        self.observed = Some(ObservedLease { record, since, last: now });
        // Also if a person removed the holder: the lease is then free for every candidate.
        if self.record().is_some_and(|record| record.holder != self.identity) {
            self.leads_until = None;
        }
    }

    /// Handles a watch event, which may be older than the last read. Returns whether the record was
    /// newer and is now used.
    pub(crate) fn on_watch_event(&mut self, record: Option<LeaseRecord>, now: Instant) -> bool {
        match (&record, &self.last) {
            (None, _) => self.require_reread(),
            (Some(record), Some(last)) if last.version.at_least(&record.version) => {}
            (Some(_), _) => {
                self.on_read(record, now);
                return true;
            }
        }
        false
    }

    pub(crate) fn next_step(&self, now: Instant) -> NextStep {
        if now < self.next_request_at {
            return NextStep::Wait(self.next_request_at);
        }
        let Some(ObservedLease { record, since, .. }) = self.observed.as_ref().filter(|_| !self.must_reread)
        else {
            return NextStep::Read;
        };
        match record {
            Some(record) if record.holder == self.identity => NextStep::Write(LeaseWrite {
                over: Some(record.version.clone()),
                holder: self.identity.clone(),
                duration: self.times.lease_duration,
                transitions: record.transitions,
                acquires: false,
            }),
            Some(record) if !record.holder.is_empty() && now < *since + record.duration => {
                NextStep::Wait(*since + record.duration)
            }
            // The leader creates the deleted Lease again before this time, or it is no longer the leader.
            None if self.last.is_some()
                && self.leads_until(now).is_none()
                && now < *since + self.times.renew_deadline =>
            {
                NextStep::Wait(*since + self.times.renew_deadline)
            }
            _ => NextStep::Write(LeaseWrite {
                over: record.as_ref().map(|record| record.version.clone()),
                holder: self.identity.clone(),
                duration: self.times.lease_duration,
                transitions: record.as_ref().map_or(0, |record| record.transitions.saturating_add(1)),
                acquires: true,
            }),
        }
    }

    /// Handles the success of a write that was sent at `sent`. `record` is the Lease after the write.
    pub(crate) fn on_written(&mut self, record: LeaseRecord, sent: Instant, now: Instant) {
        let is_mine = record.holder == self.identity;
        self.on_read(Some(record), now);
        self.leads_until = is_mine.then(|| sent + self.times.renew_deadline);
        self.next_request_at = sent + self.times.retry_period;
    }

    /// Handles the failure of a read or a write that was sent at `sent`, or a conflict. The current
    /// lease stays valid. A slow request causes no further pause, because little is left of the renew
    /// deadline.
    pub(crate) fn on_failure(&mut self, sent: Instant, now: Instant) {
        self.must_reread = true;
        self.next_request_at = now.max(sent + self.times.retry_period);
    }

    /// Requires a read before the next decision: the Lease may have changed unseen.
    pub(crate) fn require_reread(&mut self) {
        self.must_reread = true;
    }

    /// Stops leading. Returns the write that releases the lease, so that the next candidate need not
    /// wait, or `None` if this candidate does not hold it.
    pub(crate) fn release(&mut self) -> Option<LeaseWrite> {
        self.leads_until = None;
        let record = self.record().filter(|record| record.holder == self.identity)?;
        Some(LeaseWrite {
            over: Some(record.version.clone()),
            holder: String::new(),
            duration: RELEASED_LEASE_DURATION,
            transitions: record.transitions,
            acquires: true,
        })
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
