//! `Series`: which events are remembered, how often each was seen, and what of that is to be written next. Plain data: no I/O
//! and no clock, `now` is an argument.
//!
//! What is seen for the first time is written as an event, and again when it is seen for the second time, as a series. Later
//! repeats are counted here. The count is written when the last write is [`REFRESH`] ago, and when the series is finished:
//! after a while without a repeat, as the oldest of too many, or at the end. A repeat never waits in the queue beside its
//! event: what is written is always the count at that moment.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{api::events::v1::EventSeries, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

use super::{
    budget::{Budget, Subject},
    event::{EventKey, Record},
    pause::Pause,
    status::{DroppedEvents, RecorderStatus},
};

/// Without a repeat for so long a series is finished. client-go's.
pub(crate) const FINISH: Duration = Duration::from_secs(6 * 60);
/// A series that goes on is written so often. client-go's: a server forgets an event an hour after its last write.
pub(crate) const REFRESH: Duration = Duration::from_secs(30 * 60);
/// How often one write is tried: for some minutes, more where others are tried in between. client-go's.
pub(crate) const TRIES: u32 = 12;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Nothing new is taken while so many writes wait.
    pub(crate) queue: usize,
    /// So many series are counted at once. With the queue this is all that is ever held.
    pub(crate) series: usize,
    /// Of so many objects it is known how much was said about them.
    pub(crate) subjects: usize,
    /// So many events about one object are taken at once.
    pub(crate) burst: u32,
}

impl Limits {
    /// client-go's.
    pub(crate) const USUAL: Self = Self { queue: 1000, series: 4096, subjects: 4096, burst: 25 };
}

/// An event to be created, or its series to be written.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) id: u64,
    pub(crate) record: Arc<Record>,
    /// The server does not have it: otherwise this is a patch of its series.
    pub(crate) creates: bool,
    /// So often it was seen by now.
    pub(crate) count: i32,
    last: Timestamp,
}

impl Write {
    /// What was seen once only is none.
    pub(crate) fn series(&self) -> Option<EventSeries> {
        let series = EventSeries { count: self.count, last_observed_time: MicroTime(self.last) };
        (self.count > 1).then_some(series)
    }
}

/// What a write has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written,
    /// It was to be created, and one of its name is there: made by an earlier try whose answer did not come; another's, if
    /// there was none.
    Exists,
    /// What was to be patched is there no more.
    Gone,
    /// Not this time; the server has asked to be left alone for so long.
    Failed(Option<Duration>),
    /// The same, but that the server may have it.
    Unknown(Option<Duration>),
    /// Nor at any other time.
    Refused,
}

/// What is to be done next.
#[derive(Clone, Debug)]
pub(crate) enum Next {
    Write(Write),
    /// Nothing until then, or until there is something new.
    Wait(Option<Instant>),
    /// All is written that was there at the end.
    End,
}

/// Whether a write of it is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The server has it, if not as of the last count.
    Idle,
    Queued,
    Writing,
}

/// One event, and how often it was seen.
#[derive(Debug)]
struct Entry {
    record: Arc<Record>,
    stage: Stage,
    count: i32,
    last: Timestamp,
    observed: Instant,
    /// The count that the server has; 0 if it does not have the event.
    written: i32,
    written_at: Instant,
    /// How many of them the server has ever had.
    sent: i32,
    tries: u32,
    /// It was to be created, and nobody knows whether it was.
    may_be_there: bool,
    /// No more repeats are counted here. It stays until it is written.
    is_finished: bool,
}

impl Entry {
    /// Whether it is written without waiting for more.
    fn is_due(&self) -> bool {
        match self.written {
            0 => true,
            1 => self.count > 1,
            written => self.is_finished && self.count > written,
        }
    }

    /// How many of them the server has never had.
    fn unsent(&self) -> u64 {
        (self.count - self.sent).unsigned_abs().into()
    }
}

/// All that a recorder remembers.
#[derive(Debug)]
pub(crate) struct Series {
    limits: Limits,
    entries: HashMap<u64, Entry>,
    /// Those that are not finished.
    by_key: HashMap<Arc<EventKey>, u64>,
    /// The same, by when they were last seen.
    by_age: BTreeSet<(Instant, u64)>,
    /// Those whose stage says so.
    queue: VecDeque<u64>,
    budget: Budget,
    pause: Pause,
    next_id: u64,
    /// The stamp in the name of the last event.
    last_stamp: i128,
    is_over: bool,
    reported: u64,
    sent: u64,
    failed: u64,
    dropped: DroppedEvents,
}

impl Series {
    pub(crate) fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            by_key: HashMap::new(),
            by_age: BTreeSet::new(),
            queue: VecDeque::new(),
            budget: Budget::new(limits.subjects, limits.burst),
            pause: Pause::new(seed),
            next_id: 0,
            last_stamp: 0,
            is_over: false,
            reported: 0,
            sent: 0,
            failed: 0,
            dropped: DroppedEvents::default(),
        }
    }

    pub(crate) fn status(&self) -> RecorderStatus {
        let settled = self.sent + self.failed + self.dropped.total();
        RecorderStatus {
            sent: self.sent,
            waiting: self.reported - settled,
            failed: self.failed,
            dropped: self.dropped,
            tracked_series: self.by_key.len(),
        }
    }

    /// An event that does not fit was reported.
    pub(crate) fn invalid(&mut self) {
        self.reported += 1;
        self.dropped.invalid += 1;
    }

    /// An event was reported. Says whether there is something to write now.
    pub(crate) fn observe(&mut self, key: EventKey, note: String, time: Timestamp, now: Instant) -> bool {
        self.reported += 1;
        if self.is_over {
            self.dropped.stopped += 1;
        } else if let Some(&id) = self.by_key.get(&key) {
            return self.repeat(id, time, now);
        } else if self.queue.len() >= self.limits.queue {
            self.dropped.queue_full += 1;
        } else if !self.budget.take(Subject::of(&key), now) {
            self.dropped.rate_limited += 1;
        } else {
            self.begin(key, note, time, now);
            return true;
        }
        false
    }

    fn repeat(&mut self, id: u64, time: Timestamp, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        self.by_age.remove(&(entry.observed, id));
        self.by_age.insert((now, id));
        entry.count = entry.count.saturating_add(1);
        (entry.last, entry.observed) = (time, now);
        let is_due = entry.is_due() || now >= entry.written_at + REFRESH;
        if is_due && entry.stage == Stage::Idle {
            self.enqueue(id);
            return true;
        }
        false
    }

    fn begin(&mut self, key: EventKey, note: String, time: Timestamp, now: Instant) {
        if self.by_key.len() >= self.limits.series
            && let Some(&(_, oldest)) = self.by_age.first()
        {
            self.finish(oldest);
        }
        let (id, key) = (self.next_id, Arc::new(key));
        self.next_id += 1;
        self.last_stamp = time.as_nanosecond().max(self.last_stamp + 1);
        self.by_key.insert(Arc::clone(&key), id);
        self.by_age.insert((now, id));
        let entry = Entry {
            record: Arc::new(Record::new(key, note, time, self.last_stamp)),
            stage: Stage::Idle,
            count: 1,
            last: time,
            observed: now,
            written: 0,
            written_at: now,
            sent: 0,
            tries: 0,
            may_be_there: false,
            is_finished: false,
        };
        self.entries.insert(id, entry);
        self.enqueue(id);
    }

    fn enqueue(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.stage = Stage::Queued;
            self.queue.push_back(id);
        }
    }

    /// No more repeats are counted with it.
    fn finish(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.by_key.remove(&entry.record.key);
        self.by_age.remove(&(entry.observed, id));
        entry.is_finished = true;
        match entry.stage {
            Stage::Idle if entry.is_due() => self.enqueue(id),
            Stage::Idle => drop(self.entries.remove(&id)),
            Stage::Queued | Stage::Writing => {}
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next {
        while let Some(&(observed, oldest)) = self.by_age.first()
            && now >= observed + FINISH
        {
            self.finish(oldest);
        }
        if self.queue.is_empty() && self.is_over {
            return Next::End;
        }
        if !self.queue.is_empty()
            && let Some(until) = self.pause.until(now)
        {
            return Next::Wait(Some(until));
        }
        match self.take() {
            Some(write) => Next::Write(write),
            None => Next::Wait(self.by_age.first().map(|(observed, _)| *observed + FINISH)),
        }
    }

    fn take(&mut self) -> Option<Write> {
        let id = self.queue.pop_front()?;
        let entry = self.entries.get_mut(&id)?;
        entry.stage = Stage::Writing;
        let record = Arc::clone(&entry.record);
        Some(Write { id, record, creates: entry.written == 0, count: entry.count, last: entry.last })
    }

    /// What a write has come to. Says whether it was given up.
    pub(crate) fn settle(&mut self, write: &Write, outcome: Outcome, now: Instant) -> bool {
        match outcome {
            Outcome::Failed(retry_after) | Outcome::Unknown(retry_after) => {
                self.pause.failed(now, retry_after);
            }
            _ => self.pause.over(),
        }
        let Some(entry) = self.entries.get_mut(&write.id) else { return false };
        entry.stage = Stage::Idle;
        entry.tries += 1;
        match outcome {
            Outcome::Written => {
                entry.tries = 0;
                self.sent += has(entry, write.count, now);
            }
            // With which count is not known: if it was seen again since, its series is written.
            Outcome::Exists if entry.may_be_there => self.sent += has(entry, 1, now),
            Outcome::Gone => (entry.written, entry.may_be_there) = (0, false),
            Outcome::Unknown(_) => entry.may_be_there |= write.creates,
            Outcome::Exists | Outcome::Failed(_) | Outcome::Refused => {}
        }
        let is_anothers = outcome == Outcome::Exists && !entry.may_be_there;
        let again = matches!(outcome, Outcome::Failed(_) | Outcome::Unknown(_)) || entry.is_due();
        if outcome == Outcome::Refused || is_anothers || (again && entry.tries >= TRIES) {
            self.give_up(write.id);
            return true;
        }
        if again {
            // Behind the others: what can't be written for itself holds nothing up.
            self.enqueue(write.id);
        } else if entry.is_finished {
            self.entries.remove(&write.id);
        } else {
            entry.tries = 0;
        }
        false
    }

    fn give_up(&mut self, id: u64) {
        if let Some(entry) = self.entries.remove(&id) {
            self.failed += entry.unsent();
            if !entry.is_finished {
                self.by_key.remove(&entry.record.key);
                self.by_age.remove(&(entry.observed, id));
            }
        }
    }

    /// Nothing new is taken; what was counted is to be written.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        while let Some(&(_, oldest)) = self.by_age.first() {
            self.finish(oldest);
        }
    }

    /// Nothing is written any more.
    pub(crate) fn close(&mut self) {
        self.is_over = true;
        self.dropped.stopped += self.entries.drain().map(|(_, entry)| entry.unsent()).sum::<u64>();
        self.by_key.clear();
        self.by_age.clear();
        self.queue.clear();
    }
}

/// The server has it with this count. Gives how many of these it never had before.
fn has(entry: &mut Entry, count: i32, now: Instant) -> u64 {
    (entry.written, entry.written_at) = (count, now);
    let news = (count - entry.sent).max(0);
    entry.sent += news;
    news.unsigned_abs().into()
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
