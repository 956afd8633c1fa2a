//! Who leads: the decisions of leader election as plain data. No I/O, no clock: `now` is an argument.
//!
//! One Lease object of the cluster says who holds it. Its holder writes it anew every [`LeaseTimes::retry_period`]; whoever else
//! wants it waits until nothing was written for as long as the record itself says. That is judged by one's own clock since
//! one has seen the last change: clocks of different machines are never compared, and the times in the record are only for
//! people.
//!
//! A holder counts on its lease for [`LeaseTimes::renew_deadline`] from the moment at which it *sent* the last write that
//! was accepted. Others count longer, from a later moment, so that no two of them count on it at once, as long as no clock
//! runs faster than another by more than `duration / renew_deadline`.
//!
//! A Lease that is deleted tells nobody until when its holder counts on it. Whoever finds another Lease than the one that it
//! knew leads by it only when it has known it for a duration, unless it led all the time: by then nobody counts on the old
//! one. Who has never seen the old one can't know: a candidate that begins after the deletion may lead beside who held it.

use std::time::Duration;

use kube_informer::ResourceVersion;
use tokio::time::Instant;

/// The duration that a lease says which nobody holds: the shortest that a Lease can say.
const RELEASED: Duration = Duration::from_secs(1);

/// How long a lease holds, and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// So long others wait after they have seen the last change; whole seconds, since a Lease says it in those.
    pub lease_duration: Duration,
    /// So long the holder counts on it after the last write that was accepted.
    pub renew_deadline: Duration,
    /// Between two writes of the holder, and between two tries of who wants it.
    pub retry_period: Duration,
}

impl Default for LeaseTimes {
    /// client-go's: 15 s, 10 s, 2 s.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Options with which two could lead at once, or one would lose its lease for a single write that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    /// A Lease without a holder is anybody's.
    #[error("no identity: it has to be another one in each process")]
    EmptyIdentity,
    /// A Lease has whole seconds.
    #[error("a lease of {0:?}: it has to be a number of seconds, and at least one")]
    NotWholeSeconds(Duration),
    /// Nothing would be left for the difference of two clocks.
    #[error(
        "a holder must stop before others begin: the renew deadline {renew_deadline:?} is not below {lease_duration:?}"
    )]
    RenewDeadlineTooLong {
        /// What was given.
        renew_deadline: Duration,
        /// What was given.
        lease_duration: Duration,
    },
    /// One try that fails would be the last.
    #[error(
        "the renew deadline {renew_deadline:?} leaves no time for a second try after one of each {retry_period:?} has failed: it \
         has to be more than 2.2 times that"
    )]
    RetryPeriodTooLong {
        /// What was given.
        renew_deadline: Duration,
        /// What was given.
        retry_period: Duration,
    },
}

impl LeaseTimes {
    /// Whether they can be used.
    ///
    /// # Errors
    /// [`ElectionError`] says which can't.
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
        // First: a duration that is too long can't be multiplied.
        if retry_period >= renew_deadline
            || renew_deadline <= retry_period.mul_f64(2.2)
            || retry_period.is_zero()
        {
            return Err(ElectionError::RetryPeriodTooLong { renew_deadline, retry_period });
        }
        Ok(self)
    }
}

/// What counts of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Another one where it was deleted and made anew.
    pub(crate) uid: String,
    /// Another one after each write, also of its labels: it says over what one writes, not that the holder lives.
    pub(crate) version: ResourceVersion,
    /// Nobody has it, where this is empty.
    pub(crate) holder: String,
    /// How long its holder is left alone.
    pub(crate) duration: Duration,
    /// How often it went to another holder.
    pub(crate) transitions: i32,
    /// When its holder has written it, in its words: only whether they are the same counts. A holder never writes the same
    /// twice, whatever its clock does, or else others could miss a renewal.
    pub(crate) renewed: String,
}

impl Record {
    /// Nobody has written it since as its holder: labels and the like are no sign of life. client-go compares the spec.
    fn is_as_old_as(&self, other: &Self) -> bool {
        *self == Self { version: self.version.clone(), ..other.clone() }
    }

    /// It was made anew, or put back to what it was before, as by a backup.
    fn is_another_than(&self, other: &Self) -> bool {
        self.uid != other.uid || self.version < other.version
    }
}

/// A write: it is made only if the record still has this version, or if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) over: Option<ResourceVersion>,
    pub(crate) holder: String,
    pub(crate) duration: Duration,
    pub(crate) transitions: i32,
    /// The holder has changed, and so has the time since when it holds.
    pub(crate) acquires: bool,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Look at the record.
    Read,
    Write(Write),
    /// Nothing until then, or until the record changes.
    Wait(Instant),
}

/// What one candidate knows.
#[derive(Debug)]
pub(crate) struct Candidate {
    me: String,
    times: LeaseTimes,
    seen: Option<Seen>,
    /// What was seen has to be seen again before it is acted on: a write has failed, which may have been made.
    is_doubtful: bool,
    /// The last record that there was.
    last: Option<Record>,
    /// This one leads until then.
    leads_until: Option<Instant>,
    /// And not before that: somebody may count on a Lease that is gone.
    leads_from: Instant,
    /// Nothing is tried before that.
    not_before: Instant,
}

/// The record as it was seen last, and since when its holder has not written it.
#[derive(Debug)]
struct Seen {
    record: Option<Record>,
    since: Instant,
}

impl Candidate {
    pub(crate) fn new(me: String, times: LeaseTimes, now: Instant) -> Self {
        Self {
            me,
            times,
            seen: None,
            is_doubtful: true,
            last: None,
            leads_until: None,
            leads_from: now,
            not_before: now,
        }
    }

    /// Until when this one leads, unless that is over.
    pub(crate) fn leads_until(&self, now: Instant) -> Option<Instant> {
        self.leads_until.filter(|until| (self.leads_from..*until).contains(&now))
    }

    /// Who else holds the lease, as far as is known.
    pub(crate) fn other_holder(&self) -> Option<&str> {
        let holder = self.record().map(|record| &*record.holder);
        holder.filter(|holder| !holder.is_empty() && *holder != self.me)
    }

    fn record(&self) -> Option<&Record> {
        self.seen.as_ref()?.record.as_ref()
    }

    /// What the server has answered to a read.
    pub(crate) fn read(&mut self, record: Option<Record>, now: Instant) {
        self.is_doubtful = false;
        if let (Some(record), Some(last)) = (&record, &self.last)
            && record.is_another_than(last)
            && self.leads_until(now).is_none()
        {
            self.leads_from = now + self.times.lease_duration.max(last.duration);
        }
        let since = match (&self.seen, &record) {
            (Some(Seen { record: None, since }), None) => *since,
            (Some(Seen { record: Some(seen), since }), Some(record)) if record.is_as_old_as(seen) => *since,
            _ => now,
        };
        if record.is_some() {
            self.last.clone_from(&record);
        }
        self.seen = Some(Seen { record, since });
        // Also where somebody has taken the holder out of it: it is anybody's now.
        if self.record().is_some_and(|record| record.holder != self.me) {
            self.leads_until = None;
        }
    }

    /// What a watch tells may be older than what is known; says whether it is news.
    pub(crate) fn watched(&mut self, record: Option<Record>, now: Instant) -> bool {
        match (&record, &self.last) {
            (None, _) => self.doubt(),
            (Some(record), Some(last)) if last.version.at_least(&record.version) => {}
            (Some(_), _) => {
                self.read(record, now);
                return true;
            }
        }
        false
    }

    pub(crate) fn next(&self, now: Instant) -> Next {
        if now < self.not_before {
            return Next::Wait(self.not_before);
        }
        let Some(Seen { record, since }) = self.seen.as_ref().filter(|_| !self.is_doubtful) else {
            return Next::Read;
        };
        match record {
            Some(record) if record.holder == self.me => Next::Write(Write {
                over: Some(record.version.clone()),
                holder: self.me.clone(),
                duration: self.times.lease_duration,
                transitions: record.transitions,
                acquires: false,
            }),
            Some(record) if !record.holder.is_empty() && now < *since + record.duration => {
                Next::Wait(*since + record.duration)
            }
            // Whoever leads makes it anew; by then it has done so, or leads no more.
            None if self.last.is_some()
                && self.leads_until(now).is_none()
                && now < *since + self.times.renew_deadline =>
            {
                Next::Wait(*since + self.times.renew_deadline)
            }
            _ => Next::Write(Write {
                over: record.as_ref().map(|record| record.version.clone()),
                holder: self.me.clone(),
                duration: self.times.lease_duration,
                transitions: record.as_ref().map_or(0, |record| record.transitions.saturating_add(1)),
                acquires: true,
            }),
        }
    }

    /// A write that was sent at `sent` was made, and this is the record now.
    pub(crate) fn wrote(&mut self, record: Record, sent: Instant, now: Instant) {
        let is_mine = record.holder == self.me;
        self.read(Some(record), now);
        self.leads_until = is_mine.then(|| sent + self.times.renew_deadline);
        self.not_before = sent + self.times.retry_period;
    }

    /// A read or a write that was sent at `sent` has failed, or somebody else was first. What was counted on before still is.
    /// One that has taken its time costs no further pause: of the renew deadline little is left.
    pub(crate) fn failed(&mut self, sent: Instant, now: Instant) {
        self.is_doubtful = true;
        self.not_before = now.max(sent + self.times.retry_period);
    }

    /// What was seen may have changed unseen.
    pub(crate) fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Nobody leads here from now on. Gives the write by which whoever comes next need not wait, if there is anything to give
    /// back.
    pub(crate) fn release(&mut self) -> Option<Write> {
        self.leads_until = None;
        let record = self.record().filter(|record| record.holder == self.me)?;
        Some(Write {
            over: Some(record.version.clone()),
            holder: String::new(),
            duration: RELEASED,
            transitions: record.transitions,
            acquires: true,
        })
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
