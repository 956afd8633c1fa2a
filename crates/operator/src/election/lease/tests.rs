//! Unit tests of one candidate, step by step.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Candidate, ElectionError, LeaseRecord, LeaseTimes, LeaseWrite, NextStep, RELEASED_LEASE_DURATION,
};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(15);

fn new_candidate() -> (Candidate, Instant) {
    let now = Instant::now();
    (Candidate::new("me".to_owned(), LeaseTimes::default(), now), now)
}

fn record(version: u64, holder: &str) -> LeaseRecord {
    let (uid, renewed) = ("first".to_owned(), format!("at {version}"));
    LeaseRecord {
        uid,
        version: version.into(),
        holder: holder.to_owned(),
        duration: LEASE,
        transitions: 3,
        renewed,
    }
}

/// A Lease that was deleted and created again.
fn recreated(version: u64, holder: &str) -> LeaseRecord {
    LeaseRecord { uid: "second".to_owned(), ..record(version, holder) }
}

fn write(over: Option<u64>, transitions: i32, acquires: bool) -> NextStep {
    let over = over.map(Into::into);
    NextStep::Write(LeaseWrite { over, holder: "me".to_owned(), duration: LEASE, transitions, acquires })
}

/// Returns a candidate that acquired the lease with a write at the returned time.
fn leader() -> (Candidate, Instant) {
    let (mut candidate, now) = new_candidate();
    candidate.on_read(None, now);
    candidate.on_written(record(10, "me"), now, now + SECOND);
    (candidate, now)
}

#[test]
fn candidate_acquires_free_lease_immediately() {
    let (mut candidate, now) = new_candidate();
    assert_eq!(candidate.next_step(now), NextStep::Read);
    candidate.on_read(None, now);
    assert_eq!(candidate.next_step(now), write(None, 0, true));
    candidate.on_read(Some(record(7, "")), now);
    assert_eq!(candidate.next_step(now), write(Some(7), 4, true));
}

/// Without a connection, a candidate does not know whether the holder renews the lease.
#[test]
fn lease_of_another_process_has_expired_only_if_it_was_read_later() {
    let (mut candidate, now) = new_candidate();
    candidate.on_read(Some(record(7, "other")), now);
    candidate.on_failure(now + 20 * SECOND, now + 20 * SECOND);
    assert!(!candidate.other_has_expired());
    candidate.on_read(Some(record(7, "other")), now + 14 * SECOND);
    assert!(!candidate.other_has_expired());
    candidate.on_read(Some(record(7, "other")), now + LEASE);
    assert!(candidate.other_has_expired());
    candidate.on_read(Some(record(8, "other")), now + LEASE);
    assert!(!candidate.other_has_expired(), "the holder renewed the lease");
    candidate.on_read(Some(record(8, "me")), now + 40 * SECOND);
    assert!(!candidate.other_has_expired());
}

#[test]
fn candidate_acquires_lease_that_was_not_renewed() {
    let (mut candidate, now) = new_candidate();
    candidate.on_read(Some(record(7, "other")), now);
    assert_eq!(
        (candidate.next_step(now), candidate.other_holder()),
        (NextStep::Wait(now + LEASE), Some("other"))
    );
    let later = now + LEASE - SECOND;
    candidate.on_watch_event(Some(record(7, "other")), later);
    assert_eq!(candidate.next_step(later), NextStep::Wait(now + LEASE), "the version did not change");
    candidate.on_watch_event(Some(record(8, "other")), later);
    assert_eq!(candidate.next_step(later), NextStep::Wait(later + LEASE));
    assert_eq!(candidate.next_step(later + LEASE), write(Some(8), 4, true));
}

#[test]
fn lease_is_valid_from_send_time_of_accepted_write() {
    let (mut candidate, sent) = leader();
    assert_eq!(candidate.leads_until(sent + 2 * SECOND), Some(sent + 10 * SECOND));
    assert_eq!(candidate.next_step(sent + SECOND), NextStep::Wait(sent + 2 * SECOND));
    assert_eq!(candidate.next_step(sent + 2 * SECOND), write(Some(10), 3, false));
    candidate.on_written(record(11, "me"), sent + 2 * SECOND, sent + 9 * SECOND);
    assert_eq!(candidate.leads_until(sent + 11 * SECOND), Some(sent + 12 * SECOND));
    assert_eq!(candidate.leads_until(sent + 12 * SECOND), None);
}

#[test]
fn failed_write_keeps_lease_until_deadline_and_is_reread() {
    let (mut candidate, sent) = leader();
    let (tried, failed) = (sent + 2 * SECOND, sent + 3 * SECOND);
    candidate.on_failure(tried, failed);
    assert_eq!(candidate.next_step(failed), NextStep::Wait(tried + 2 * SECOND));
    assert_eq!(candidate.next_step(tried + 2 * SECOND), NextStep::Read, "the write may have been applied");
    assert!(candidate.leads_until(failed).is_some());
    candidate.on_failure(tried + 2 * SECOND, tried + 5 * SECOND);
    assert_eq!(candidate.next_step(tried + 5 * SECOND), NextStep::Read, "the slow request was pause enough");
    candidate.on_read(Some(record(11, "me")), tried + 5 * SECOND);
    assert_eq!(candidate.next_step(tried + 5 * SECOND), write(Some(11), 3, false));
    assert_eq!(candidate.leads_until(sent + 10 * SECOND), None, "a read does not extend the lease");
    assert_eq!(candidate.other_holder(), None, "the holder is this candidate");
}

#[test]
fn failed_requests_do_not_extend_the_wait_for_a_holder() {
    let (mut candidate, now) = new_candidate();
    candidate.on_read(Some(record(7, "other")), now);
    candidate.on_failure(now + LEASE, now + LEASE);
    let then = now + LEASE + 2 * SECOND;
    assert_eq!(candidate.next_step(then), NextStep::Read);
    candidate.on_read(Some(record(7, "other")), then);
    assert_eq!(candidate.next_step(then), write(Some(7), 4, true));
}

#[test]
fn leader_that_sees_another_holder_stops_leading() {
    let (mut candidate, sent) = leader();
    candidate.on_watch_event(Some(record(9, "other")), sent + SECOND);
    assert!(candidate.leads_until(sent + SECOND).is_some(), "the event is older");
    candidate.on_watch_event(Some(record(11, "other")), sent + SECOND);
    assert_eq!(candidate.leads_until(sent + SECOND), None);
}

#[test]
fn leader_recreates_deleted_lease_and_keeps_leading() {
    let (mut candidate, sent) = leader();
    let then = sent + 2 * SECOND;
    candidate.on_watch_event(None, then);
    assert_eq!(candidate.next_step(then), NextStep::Read);
    candidate.on_read(None, then);
    assert_eq!(candidate.next_step(then), write(None, 0, true));
    candidate.on_written(recreated(12, "me"), then, then + SECOND);
    assert_eq!(candidate.leads_until(then + SECOND), Some(then + 10 * SECOND));
}

#[test]
fn deleted_lease_delays_leadership_by_its_duration() {
    let (mut candidate, now) = new_candidate();
    candidate.on_read(Some(record(7, "other")), now);
    candidate.on_read(None, now + 60 * SECOND);
    candidate.on_read(None, now + 65 * SECOND);
    let then = now + 70 * SECOND;
    assert_eq!(candidate.next_step(now + 65 * SECOND), NextStep::Wait(then));
    assert_eq!(candidate.next_step(then), write(None, 0, true));
    candidate.on_written(recreated(8, "me"), then, then + SECOND);
    let renewed = then + 14 * SECOND;
    assert_eq!(
        candidate.leads_until(then + SECOND),
        None,
        "the old holder may have renewed before the deletion"
    );
    candidate.on_written(recreated(9, "me"), renewed, renewed);
    assert_eq!(candidate.leads_until(then + LEASE), None);
    assert_eq!(candidate.leads_until(then + LEASE + SECOND), Some(renewed + 10 * SECOND));
}

#[test]
fn recreated_lease_delays_leadership_by_its_duration() {
    for another in [recreated(8, ""), record(6, "")] {
        let (mut candidate, now) = new_candidate();
        candidate.on_read(Some(record(7, "other")), now);
        let then = now + SECOND;
        candidate.on_read(Some(another), then);
        candidate.on_written(LeaseRecord { version: 9.into(), ..recreated(9, "me") }, then, then);
        assert_eq!(candidate.leads_until(then), None, "recreated or restored");
    }
    let (mut candidate, now) = new_candidate();
    candidate.on_read(Some(record(7, "other")), now);
    candidate.on_read(Some(record(8, "")), now);
    candidate.on_written(record(9, "me"), now, now);
    assert!(candidate.leads_until(now).is_some(), "the holder released it");
}

#[test]
fn label_change_does_not_extend_the_lease() {
    let (mut candidate, now) = new_candidate();
    candidate.on_read(Some(record(7, "other")), now);
    let labelled = LeaseRecord { version: 8.into(), ..record(7, "other") };
    assert!(
        candidate.on_watch_event(Some(labelled.clone()), now + SECOND),
        "the next write needs this version"
    );
    candidate.on_read(Some(labelled), now + 2 * SECOND);
    assert_eq!(candidate.next_step(now + LEASE - SECOND), NextStep::Wait(now + LEASE));
    assert_eq!(candidate.next_step(now + LEASE), write(Some(8), 4, true));
}

#[test]
fn only_the_holder_releases_the_lease() {
    let (mut candidate, sent) = leader();
    let released = candidate.release().unwrap();
    assert_eq!(
        (released.over, &*released.holder, released.duration),
        (Some(10.into()), "", RELEASED_LEASE_DURATION)
    );
    assert_eq!(candidate.leads_until(sent), None);

    let (mut candidate, now) = new_candidate();
    assert_eq!(candidate.release(), None);
    candidate.on_read(Some(record(7, "other")), now);
    assert_eq!(candidate.release(), None);
}

#[test]
fn unsafe_lease_times_are_rejected() {
    let times = |lease_duration, renew_deadline, retry_period| {
        let [lease_duration, renew_deadline, retry_period] =
            [lease_duration, renew_deadline, retry_period].map(Duration::from_millis);
        LeaseTimes { lease_duration, renew_deadline, retry_period }.validate()
    };
    assert_eq!(LeaseTimes::default().validate(), Ok(LeaseTimes::default()));
    assert!(times(3000, 2000, 500).is_ok());
    assert!(matches!(times(1500, 1000, 200), Err(ElectionError::NotWholeSeconds(_))));
    assert!(matches!(times(0, 0, 0), Err(ElectionError::NotWholeSeconds(_))));
    assert!(matches!(times(2000, 2000, 200), Err(ElectionError::RenewDeadlineTooLong { .. })));
    assert!(matches!(times(15000, 2400, 2000), Err(ElectionError::RetryPeriodTooLong { .. })));
    assert!(matches!(times(15000, 2400, 0), Err(ElectionError::RetryPeriodTooLong { .. })));
    assert!(matches!(times(15000, 10000, 4600), Err(ElectionError::RetryPeriodTooLong { .. })));
    assert!(times(15000, 10000, 4500).is_ok());
    let never = LeaseTimes { retry_period: Duration::MAX, ..LeaseTimes::default() };
    assert!(matches!(never.validate(), Err(ElectionError::RetryPeriodTooLong { .. })));
}

#[test]
fn immediate_renewal_failure_leaves_time_for_a_retry() {
    let retry_period = Duration::from_millis(4500);
    let times = LeaseTimes { retry_period, ..LeaseTimes::default() }.validate().unwrap();
    let now = Instant::now();
    let mut candidate = Candidate::new("me".to_owned(), times, now);
    candidate.on_read(None, now);
    candidate.on_written(record(10, "me"), now, now);
    assert_eq!(candidate.next_step(now), NextStep::Wait(now + retry_period));
    candidate.on_failure(now + retry_period, now + retry_period);
    let NextStep::Wait(again) = candidate.next_step(now + retry_period) else {
        panic!("no pause after the failure")
    };
    assert!(candidate.leads_until(again).is_some());
    assert_eq!(candidate.next_step(again), NextStep::Read);
}

#[test]
fn leader_whose_holder_field_is_cleared_stops_leading() {
    let (mut candidate, now) = leader();
    assert!(candidate.leads_until(now + SECOND).is_some());
    candidate.on_read(Some(record(11, "")), now + SECOND);
    assert_eq!(candidate.leads_until(now + SECOND), None);
}
