//! Tests of `Series`, step by step.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{
    EventWrite, MAX_TRIES, NextStep, REFRESH_INTERVAL, RecorderLimits, SERIES_TIMEOUT, Series, WriteOutcome,
};
use crate::recorder::{
    event::{EventKey, EventType, ObjectIdentity},
    status::{DroppedEvents, RecorderStatus},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn key(name: &str, reason: &str) -> EventKey {
    let regarding = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
    EventKey {
        event_type: EventType::Normal,
        reason: reason.to_owned(),
        action: "Test".to_owned(),
        regarding: ObjectIdentity(regarding),
        related: None,
    }
}

fn series() -> (Series, Instant) {
    (Series::new(RecorderLimits::DEFAULT, 7), Instant::now())
}

fn observe(series: &mut Series, name: &str, now: Instant) -> bool {
    series.observe(key(name, "Tested"), "note".to_owned(), Timestamp::UNIX_EPOCH, now)
}

fn write(series: &mut Series, now: Instant) -> Option<EventWrite> {
    match series.next(now) {
        NextStep::Write(write) => Some(write),
        NextStep::Wait(_) | NextStep::End => None,
    }
}

/// Returns the name of the object, the `creates` flag, and the count of a write.
fn summary(write: &EventWrite) -> (String, bool, i32) {
    (write.record.key.regarding.0.name.clone().unwrap_or_default(), write.creates, write.count)
}

/// Writes all pending events to a working server, and returns the writes.
fn flush(series: &mut Series, now: Instant) -> Vec<(String, bool, i32)> {
    let mut written = Vec::new();
    while let Some(write) = write(series, now) {
        assert!(!series.settle(&write, WriteOutcome::Written, now));
        written.push(summary(&write));
    }
    written
}

fn created(name: &str, count: i32) -> (String, bool, i32) {
    (name.to_owned(), true, count)
}

fn patched(name: &str, count: i32) -> (String, bool, i32) {
    (name.to_owned(), false, count)
}

#[test]
fn second_observation_starts_series_and_further_are_counted() {
    let (mut series, now) = series();
    assert!(observe(&mut series, "a", now));
    assert_eq!(flush(&mut series, now), [created("a", 1)]);
    assert!(observe(&mut series, "a", now));
    assert_eq!(flush(&mut series, now), [patched("a", 2)]);
    for second in 1..=5 {
        assert!(!observe(&mut series, "a", now + second * SECOND));
    }
    assert_eq!(
        series.status(),
        RecorderStatus { sent: 2, waiting: 5, tracked_series: 1, ..RecorderStatus::default() }
    );
    let finished = now + 5 * SECOND + SERIES_TIMEOUT;
    assert!(matches!(series.next(finished - SECOND), NextStep::Wait(Some(until)) if until == finished));
    assert_eq!(flush(&mut series, finished), [patched("a", 7)]);
    assert_eq!(series.status(), RecorderStatus { sent: 7, ..RecorderStatus::default() });
    assert!(matches!(series.next(finished), NextStep::Wait(None)) && series.entries.is_empty());
}

#[test]
fn event_without_repeat_expires_without_a_write() {
    let (mut series, now) = series();
    observe(&mut series, "a", now);
    flush(&mut series, now);
    assert_eq!(flush(&mut series, now + SERIES_TIMEOUT), []);
    assert!(series.entries.is_empty());
    observe(&mut series, "a", now + SERIES_TIMEOUT);
    assert_eq!(flush(&mut series, now + SERIES_TIMEOUT), [created("a", 1)]);
}

#[test]
fn active_series_is_written_every_half_hour() {
    let (mut series, now) = series();
    let mut writes = Vec::new();
    for minute in 0..100 {
        observe(&mut series, "a", now + minute * MINUTE);
        writes.extend(flush(&mut series, now + minute * MINUTE));
    }
    let expected = [created("a", 1), patched("a", 2), patched("a", 32), patched("a", 62), patched("a", 92)];
    assert_eq!((writes.as_slice(), REFRESH_INTERVAL), (expected.as_slice(), 30 * MINUTE));
}

#[test]
fn repeat_before_first_write_is_included_in_it() {
    let (mut series, now) = series();
    for _ in 0..3 {
        observe(&mut series, "a", now);
    }
    let first = write(&mut series, now).unwrap();
    assert_eq!((summary(&first), first.series().unwrap().count), (created("a", 3), 3));
    observe(&mut series, "a", now);
    series.settle(&first, WriteOutcome::Written, now);
    assert_eq!(flush(&mut series, now), [], "the series is on the server");
    assert_eq!(flush(&mut series, now + SERIES_TIMEOUT), [patched("a", 4)]);
}

#[test]
fn repeat_during_first_write_starts_a_series() {
    let (mut series, now) = series();
    observe(&mut series, "a", now);
    let first = write(&mut series, now).unwrap();
    assert!(
        first.series().is_none() && !observe(&mut series, "a", now),
        "an event has at most one write in flight"
    );
    series.settle(&first, WriteOutcome::Written, now);
    assert_eq!(flush(&mut series, now), [patched("a", 2)]);
}

#[test]
fn evicted_series_is_written_first() {
    let now = Instant::now();
    let mut series = Series::new(RecorderLimits { series: 2, ..RecorderLimits::DEFAULT }, 7);
    for (name, second) in [("a", 0), ("b", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5)] {
        observe(&mut series, name, now + second * SECOND);
        flush(&mut series, now + second * SECOND);
    }
    observe(&mut series, "c", now + 6 * SECOND);
    assert_eq!(flush(&mut series, now + 6 * SECOND), [patched("a", 3), created("c", 1)]);
    observe(&mut series, "a", now + 7 * SECOND);
    assert_eq!(flush(&mut series, now + 7 * SECOND), [patched("b", 3), created("a", 1)]);
    assert_eq!((series.entries.len(), series.status().tracked_series), (2, 2));
}

#[test]
fn deleted_event_is_created_again_with_its_series() {
    let (mut series, now) = series();
    observe(&mut series, "a", now);
    flush(&mut series, now);
    observe(&mut series, "a", now);
    let patch = write(&mut series, now).unwrap();
    assert_eq!(summary(&patch), patched("a", 2));
    assert!(!series.settle(&patch, WriteOutcome::Gone, now));
    let recreated = write(&mut series, now).unwrap();
    assert_eq!((summary(&recreated), &recreated.record.name), (created("a", 2), &patch.record.name));
    series.settle(&recreated, WriteOutcome::Written, now);
    assert_eq!(series.status(), RecorderStatus { sent: 2, tracked_series: 1, ..RecorderStatus::default() });
}

#[test]
fn existing_event_after_lost_response_counts_as_written() {
    let (mut series, now) = series();
    observe(&mut series, "a", now);
    let first = write(&mut series, now).unwrap();
    series.settle(&first, WriteOutcome::Unknown(None), now);
    observe(&mut series, "a", now);
    let later = now + MINUTE;
    let again = write(&mut series, later).unwrap();
    assert_eq!(summary(&again), created("a", 2));
    assert!(!series.settle(&again, WriteOutcome::Exists, later));
    assert_eq!(flush(&mut series, later), [patched("a", 2)], "the first try did not contain the repeat");
    assert_eq!(series.status(), RecorderStatus { sent: 2, tracked_series: 1, ..RecorderStatus::default() });
}

#[test]
fn existing_event_without_lost_response_is_a_conflict() {
    for earlier in [None, Some(WriteOutcome::Failed(None))] {
        let (mut series, mut now) = series();
        observe(&mut series, "a", now);
        if let Some(outcome) = earlier {
            let first = write(&mut series, now).unwrap();
            series.settle(&first, outcome, now);
            now += MINUTE;
        }
        let write = write(&mut series, now).unwrap();
        assert!(series.settle(&write, WriteOutcome::Exists, now), "{earlier:?}");
        assert_eq!(series.status(), RecorderStatus { failed: 1, ..RecorderStatus::default() });
    }
}

#[test]
fn existing_event_after_deletion_is_a_conflict() {
    let (mut series, now) = series();
    observe(&mut series, "a", now);
    for outcome in [WriteOutcome::Unknown(None), WriteOutcome::Exists] {
        let write = write(&mut series, now + MINUTE).unwrap();
        series.settle(&write, outcome, now);
    }
    observe(&mut series, "a", now + MINUTE);
    for (outcome, is_lost) in [(WriteOutcome::Gone, false), (WriteOutcome::Exists, true)] {
        let write = write(&mut series, now + MINUTE).unwrap();
        assert_eq!(series.settle(&write, outcome, now), is_lost);
    }
    assert_eq!(series.status(), RecorderStatus { sent: 1, failed: 1, ..RecorderStatus::default() });
}

#[test]
fn failed_write_is_queued_last_and_backoff_delays_all() {
    let (mut series, now) = series();
    for name in ["a", "b"] {
        observe(&mut series, name, now);
    }
    let first = write(&mut series, now).unwrap();
    series.settle(&first, WriteOutcome::Failed(Some(30 * SECOND)), now);
    let until = match series.next(now + 29 * SECOND) {
        NextStep::Wait(Some(until)) => until,
        other => panic!("{other:?}"),
    };
    assert!((now + 30 * SECOND..now + 40 * SECOND).contains(&until));
    assert_eq!(flush(&mut series, until), [created("b", 1), created("a", 1)]);
}

#[test]
fn write_is_lost_after_twelve_tries_with_its_repeats() {
    let (mut series, mut now) = series();
    observe(&mut series, "a", now);
    for tries in 1.. {
        let write = write(&mut series, now).unwrap();
        observe(&mut series, "a", now);
        let is_lost = series.settle(&write, WriteOutcome::Failed(None), now);
        assert_eq!(is_lost, tries == MAX_TRIES);
        if is_lost {
            break;
        }
        now += MINUTE;
    }
    assert_eq!(series.status(), RecorderStatus { failed: 13, ..RecorderStatus::default() });
    assert!(series.entries.is_empty() && series.by_age.is_empty());
}

#[test]
fn alternating_not_found_and_exists_is_lost() {
    let (mut series, mut now) = series();
    observe(&mut series, "a", now);
    flush(&mut series, now);
    observe(&mut series, "a", now);
    let (mut tries, mut is_unknown) = (0, false);
    while let Some(write) = write(&mut series, now) {
        tries += 1;
        is_unknown = write.creates && !is_unknown;
        let outcome = match (write.creates, is_unknown) {
            (false, _) => WriteOutcome::Gone,
            (true, true) => WriteOutcome::Unknown(None),
            (true, false) => WriteOutcome::Exists,
        };
        series.settle(&write, outcome, now);
        now += MINUTE;
    }
    assert_eq!((tries, series.status().failed), (MAX_TRIES, 1));
}

#[test]
fn event_after_rejected_event_is_created() {
    let (mut series, now) = series();
    observe(&mut series, "a", now);
    let first = write(&mut series, now).unwrap();
    assert!(series.settle(&first, WriteOutcome::Refused, now));
    assert!(matches!(series.next(now + SERIES_TIMEOUT), NextStep::Wait(None)));
    observe(&mut series, "a", now);
    assert_eq!(flush(&mut series, now), [created("a", 1)]);
    assert_eq!(
        series.status(),
        RecorderStatus { sent: 1, failed: 1, tracked_series: 1, ..RecorderStatus::default() }
    );
}

#[test]
fn stop_writes_counts_and_drops_new_events() {
    let (mut series, now) = series();
    for _ in 0..3 {
        observe(&mut series, "a", now);
        flush(&mut series, now);
    }
    observe(&mut series, "b", now);
    series.stop();
    assert!(!observe(&mut series, "a", now) && !observe(&mut series, "c", now));
    assert_eq!(flush(&mut series, now), [created("b", 1), patched("a", 3)]);
    assert!(matches!(series.next(now), NextStep::End));
    let dropped = DroppedEvents { stopped: 2, ..DroppedEvents::default() };
    assert_eq!(series.status(), RecorderStatus { sent: 4, dropped, ..RecorderStatus::default() });
}

#[test]
fn close_counts_unwritten_events_as_dropped() {
    let (mut series, now) = series();
    for _ in 0..4 {
        observe(&mut series, "a", now);
        flush(&mut series, now);
    }
    observe(&mut series, "b", now);
    write(&mut series, now).unwrap();
    series.close();
    observe(&mut series, "c", now);
    let dropped = DroppedEvents { stopped: 4, ..DroppedEvents::default() };
    assert_eq!(series.status(), RecorderStatus { sent: 2, dropped, ..RecorderStatus::default() });
    assert!(matches!(series.next(now), NextStep::End));
}

#[test]
fn event_names_are_unique_if_clock_does_not_advance() {
    let (mut series, now) = series();
    for reason in ["A", "B", "C"] {
        series.observe(key("a", reason), String::new(), Timestamp::UNIX_EPOCH, now);
    }
    let mut names: Vec<String> = Vec::new();
    while let Some(write) = write(&mut series, now) {
        names.push(write.record.name.clone());
        series.settle(&write, WriteOutcome::Written, now);
    }
    assert_eq!(names, ["a.1", "a.2", "a.3"]);
}
