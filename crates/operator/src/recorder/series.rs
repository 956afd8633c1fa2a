//! `Series`: the reported events, the number of observations of each event, and the next write.
//! Plain data without I/O and without a clock; `now` is an argument.
//!
//! The first observation is written as an event, and the second one as a series. Further repeats
//! are only counted. The count is written [`REFRESH_INTERVAL`] after the last write, and when the
//! series is closed: after [`SERIES_TIMEOUT`] without a repeat, as the oldest of too many series,
//! or at the stop. A repeat is never queued in addition to its event, because a write contains the
//! current count.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{api::events::v1::EventSeries, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

use super::{
    backoff::Backoff,
    event::{EventKey, EventRecord},
    rate_limit::{EventRateLimiter, RateLimitKey},
    status::{DroppedEvents, RecorderStatus},
};

/// A series is closed after this time without a repeat, as in client-go.
pub(crate) const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);
/// The interval of the writes of an active series, as in client-go. A server deletes an event an
/// hour after its last write.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The number of tries of one write, as in client-go. All tries together take some minutes, or
/// longer if other writes are sent in between.
pub(crate) const MAX_TRIES: u32 = 12;

/// The limits of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecorderLimits {
    /// New events are dropped while this many writes wait.
    pub(crate) queue: usize,
    /// The number of tracked series. Together with the queue, this bounds all entries.
    pub(crate) series: usize,
    /// The number of objects with a rate limit.
    pub(crate) rate_limited_objects: usize,
    /// The burst of events about one object.
    pub(crate) burst: u32,
}

impl RecorderLimits {
    /// The limits of client-go.
    pub(crate) const DEFAULT: Self =
        Self { queue: 1000, series: 4096, rate_limited_objects: 4096, burst: 25 };
}

/// Creates an event, or patches its series.
#[derive(Clone, Debug)]
pub(crate) struct EventWrite {
    pub(crate) id: u64,
    pub(crate) record: Arc<EventRecord>,
    /// The event is not on the server. Otherwise this patches its series.
    pub(crate) creates: bool,
    /// The number of observations.
    pub(crate) count: i32,
    last: Timestamp,
}

impl EventWrite {
    /// Returns the series, or `None` after a single observation.
    pub(crate) fn series(&self) -> Option<EventSeries> {
        let series = EventSeries { count: self.count, last_observed_time: MicroTime(self.last) };
        (self.count > 1).then_some(series)
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Written,
    /// An event of this name exists. An earlier try whose response was lost created it. Without a
    /// lost response, another client created the event.
    Exists,
    /// The event to patch does not exist.
    Gone,
    /// The server did not write the event, and requests this delay before a retry.
    Failed(Option<Duration>),
    /// Like `Failed`, but the server may have written the event.
    Unknown(Option<Duration>),
    /// The server rejected the event. A retry would also fail.
    Refused,
}

/// The next step of the writer.
#[derive(Clone, Debug)]
pub(crate) enum NextStep {
    Write(EventWrite),
    /// Wait until this time, or until a new event.
    Wait(Option<Instant>),
    /// The recorder is stopped, and all events are written.
    End,
}

/// The state of the write of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteStage {
    /// The server has the event, possibly with an older count.
    Idle,
    Queued,
    Writing,
}

/// An event, and how often it was observed.
#[derive(Debug)]
struct SeriesEntry {
    record: Arc<EventRecord>,
    stage: WriteStage,
    count: i32,
    last: Timestamp,
    observed: Instant,
    /// The count on the server. 0 if the server does not have the event.
    written: i32,
    written_at: Instant,
    /// The highest count that the server ever had.
    sent: i32,
    tries: u32,
    /// A create had an unknown outcome.
    may_exist: bool,
    /// Repeats are no longer counted here. The entry stays until it is written.
    is_finished: bool,
}

impl SeriesEntry {
    /// Returns whether the entry must be written without waiting for more repeats.
    fn is_due(&self) -> bool {
        match self.written {
            0 => true,
            1 => self.count > 1,
            written => self.is_finished && self.count > written,
        }
    }

    /// Returns the number of observations that the server never had.
    fn unsent(&self) -> u64 {
        (self.count - self.sent).unsigned_abs().into()
    }
}

/// The state of a recorder.
pub(crate) struct Series {
    limits: RecorderLimits,
    entries: HashMap<u64, SeriesEntry>,
    /// The entries that are not finished.
    by_key: HashMap<Arc<EventKey>, u64>,
    /// The entries that are not finished, by their last observation.
    by_age: BTreeSet<(Instant, u64)>,
    /// The entries in the stage `Queued`.
    queue: VecDeque<u64>,
    rate_limiter: EventRateLimiter,
    backoff: Backoff,
    next_id: u64,
    /// The stamp in the name of the latest event.
    last_stamp: i128,
    is_stopped: bool,
    reported: u64,
    sent: u64,
    failed: u64,
    dropped: DroppedEvents,
}

impl Series {
    pub(crate) fn new(limits: RecorderLimits, seed: u64) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            by_key: HashMap::new(),
            by_age: BTreeSet::new(),
            queue: VecDeque::new(),
            rate_limiter: EventRateLimiter::new(limits.rate_limited_objects, limits.burst),
            backoff: Backoff::new(seed),
            next_id: 0,
            last_stamp: 0,
            is_stopped: false,
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

    /// Records an invalid event.
    pub(crate) fn invalid(&mut self) {
        self.reported += 1;
        self.dropped.invalid += 1;
    }

    /// Records an event. Returns whether there is something to write now.
    pub(crate) fn observe(&mut self, key: EventKey, note: String, time: Timestamp, now: Instant) -> bool {
        self.reported += 1;
        if self.is_stopped {
            self.dropped.stopped += 1;
        } else if let Some(&id) = self.by_key.get(&key) {
            return self.repeat(id, time, now);
        } else if self.queue.len() >= self.limits.queue {
            self.dropped.queue_full += 1;
        } else if !self.rate_limiter.take(RateLimitKey::of(&key), now) {
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
        let is_due = entry.is_due() || now >= entry.written_at + REFRESH_INTERVAL;
        if is_due && entry.stage == WriteStage::Idle {
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
        let entry = SeriesEntry {
            record: Arc::new(EventRecord::new(key, note, time, self.last_stamp)),
            stage: WriteStage::Idle,
            count: 1,
            last: time,
            observed: now,
            written: 0,
            written_at: now,
            sent: 0,
            tries: 0,
            may_exist: false,
            is_finished: false,
        };
        self.entries.insert(id, entry);
        self.enqueue(id);
    }

    fn enqueue(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.stage = WriteStage::Queued;
            self.queue.push_back(id);
        }
    }

    /// Closes a series. Further repeats are not counted in this series.
    fn finish(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.by_key.remove(&entry.record.key);
        self.by_age.remove(&(entry.observed, id));
        entry.is_finished = true;
        match entry.stage {
            WriteStage::Idle if entry.is_due() => self.enqueue(id),
            WriteStage::Idle => drop(self.entries.remove(&id)),
            WriteStage::Queued | WriteStage::Writing => {}
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> NextStep {
        while let Some(&(observed, oldest)) = self.by_age.first()
            && now >= observed + SERIES_TIMEOUT
        {
            self.finish(oldest);
        }
        if self.queue.is_empty() && self.is_stopped {
            return NextStep::End;
        }
        if !self.queue.is_empty()
            && let Some(until) = self.backoff.until(now)
        {
            return NextStep::Wait(Some(until));
        }
        match self.take() {
            Some(write) => NextStep::Write(write),
            None => NextStep::Wait(self.by_age.first().map(|(observed, _)| *observed + SERIES_TIMEOUT)),
        }
    }

    fn take(&mut self) -> Option<EventWrite> {
        let id = self.queue.pop_front()?;
        let entry = self.entries.get_mut(&id)?;
        entry.stage = WriteStage::Writing;
        let record = Arc::clone(&entry.record);
        Some(EventWrite { id, record, creates: entry.written == 0, count: entry.count, last: entry.last })
    }

    /// Records the outcome of a write. Returns whether the event was given up.
    pub(crate) fn settle(&mut self, write: &EventWrite, outcome: WriteOutcome, now: Instant) -> bool {
        match outcome {
            WriteOutcome::Failed(retry_after) | WriteOutcome::Unknown(retry_after) => {
                self.backoff.failed(now, retry_after);
            }
            _ => self.backoff.reset(),
        }
        let Some(entry) = self.entries.get_mut(&write.id) else { return false };
        entry.stage = WriteStage::Idle;
        entry.tries += 1;
        match outcome {
            WriteOutcome::Written => {
                entry.tries = 0;
                self.sent += record_written(entry, write.count, now);
            }
            // The count on the server is unknown. If the event was observed again, its series is written.
            WriteOutcome::Exists if entry.may_exist => self.sent += record_written(entry, 1, now),
            WriteOutcome::Gone => (entry.written, entry.may_exist) = (0, false),
            WriteOutcome::Unknown(_) => entry.may_exist |= write.creates,
            WriteOutcome::Exists | WriteOutcome::Failed(_) | WriteOutcome::Refused => {}
        }
        let is_name_conflict = outcome == WriteOutcome::Exists && !entry.may_exist;
        let is_pending =
            matches!(outcome, WriteOutcome::Failed(_) | WriteOutcome::Unknown(_)) || entry.is_due();
        if outcome == WriteOutcome::Refused || is_name_conflict || (is_pending && entry.tries >= MAX_TRIES) {
            self.fail(write.id);
            return true;
        }
        if is_pending {
            // Queued behind the other writes, so that a failing event does not block other events.
            self.enqueue(write.id);
        } else if entry.is_finished {
            self.entries.remove(&write.id);
        } else {
            entry.tries = 0;
        }
        false
    }

    fn fail(&mut self, id: u64) {
        if let Some(entry) = self.entries.remove(&id) {
            self.failed += entry.unsent();
            if !entry.is_finished {
                self.by_key.remove(&entry.record.key);
                self.by_age.remove(&(entry.observed, id));
            }
        }
    }

    /// Rejects further events, and closes all series, so that their counts are written.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
        while let Some(&(_, oldest)) = self.by_age.first() {
            self.finish(oldest);
        }
    }

    /// Drops all entries that are not written.
    pub(crate) fn close(&mut self) {
        self.is_stopped = true;
        self.dropped.stopped += self.entries.drain().map(|(_, entry)| entry.unsent()).sum::<u64>();
        self.by_key.clear();
        self.by_age.clear();
        self.queue.clear();
    }
}

/// Records that the server has the entry with this count. Returns how many of the observations are
/// new to the server.
fn record_written(entry: &mut SeriesEntry, count: i32, now: Instant) -> u64 {
    (entry.written, entry.written_at) = (count, now);
    let news = (count - entry.sent).max(0);
    entry.sent += news;
    news.unsigned_abs().into()
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
