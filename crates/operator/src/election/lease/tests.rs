//! The moves of one candidate, one by one.

use std::time::Duration;

use tokio::time::Instant;

use super::{Candidate, ElectionError, LeaseTimes, Next, RELEASED, Record, Write};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(15);

fn candidate() -> (Candidate, Instant) {
    let now = Instant::now();
    (Candidate::new("me".to_owned(), LeaseTimes::default(), now), now)
}

fn record(version: u64, holder: &str) -> Record {
    let (uid, renewed) = ("first".to_owned(), format!("at {version}"));
    Record {
        uid,
        version: version.into(),
        holder: holder.to_owned(),
        duration: LEASE,
        transitions: 3,
        renewed,
    }
}

/// One that was made anew.
fn anew(version: u64, holder: &str) -> Record {
    Record { uid: "second".to_owned(), ..record(version, holder) }
}

fn write(over: Option<u64>, transitions: i32, acquires: bool) -> Next {
    let over = over.map(Into::into);
    Next::Write(Write { over, holder: "me".to_owned(), duration: LEASE, transitions, acquires })
}

/// A candidate that has acquired the lease with a write that was sent when it began.
fn leader() -> (Candidate, Instant) {
    let (mut election, now) = candidate();
    election.read(None, now);
    election.wrote(record(10, "me"), now, now + SECOND);
    (election, now)
}

#[test]
fn a_lease_that_nobody_has_is_taken_at_once() {
    let (mut election, now) = candidate();
    assert_eq!(election.next(now), Next::Read);
    election.read(None, now);
    assert_eq!(election.next(now), write(None, 0, true));
    election.read(Some(record(7, "")), now);
    assert_eq!(election.next(now), write(Some(7), 4, true));
}

#[test]
fn a_lease_that_somebody_has_is_left_alone_until_nothing_has_changed_for_its_duration() {
    let (mut election, now) = candidate();
    election.read(Some(record(7, "other")), now);
    assert_eq!((election.next(now), election.other_holder()), (Next::Wait(now + LEASE), Some("other")));
    let later = now + LEASE - SECOND;
    election.watched(Some(record(7, "other")), later);
    assert_eq!(election.next(later), Next::Wait(now + LEASE), "that is no change");
    election.watched(Some(record(8, "other")), later);
    assert_eq!(election.next(later), Next::Wait(later + LEASE));
    assert_eq!(election.next(later + LEASE), write(Some(8), 4, true));
}

#[test]
fn the_holder_counts_on_it_from_when_it_sent_what_was_accepted() {
    let (mut election, sent) = leader();
    assert_eq!(election.leads_until(sent + 2 * SECOND), Some(sent + 10 * SECOND));
    assert_eq!(election.next(sent + SECOND), Next::Wait(sent + 2 * SECOND));
    assert_eq!(election.next(sent + 2 * SECOND), write(Some(10), 3, false));
    election.wrote(record(11, "me"), sent + 2 * SECOND, sent + 9 * SECOND);
    assert_eq!(election.leads_until(sent + 11 * SECOND), Some(sent + 12 * SECOND));
    assert_eq!(election.leads_until(sent + 12 * SECOND), None);
}

#[test]
fn a_write_that_failed_costs_nothing_before_the_deadline_and_is_looked_after() {
    let (mut election, sent) = leader();
    let (tried, failed) = (sent + 2 * SECOND, sent + 3 * SECOND);
    election.failed(tried, failed);
    assert_eq!(election.next(failed), Next::Wait(tried + 2 * SECOND));
    assert_eq!(election.next(tried + 2 * SECOND), Next::Read, "it may have been made");
    assert!(election.leads_until(failed).is_some());
    election.failed(tried + 2 * SECOND, tried + 5 * SECOND);
    assert_eq!(election.next(tried + 5 * SECOND), Next::Read, "that was a pause");
    election.read(Some(record(11, "me")), tried + 5 * SECOND);
    assert_eq!(election.next(tried + 5 * SECOND), write(Some(11), 3, false));
    assert_eq!(election.leads_until(sent + 10 * SECOND), None, "a record in one's own name is no lease");
    assert_eq!(election.other_holder(), None, "that is oneself");
}

#[test]
fn who_is_waited_for_is_not_given_more_time_by_failures() {
    let (mut election, now) = candidate();
    election.read(Some(record(7, "other")), now);
    election.failed(now + LEASE, now + LEASE);
    let then = now + LEASE + 2 * SECOND;
    assert_eq!(election.next(then), Next::Read);
    election.read(Some(record(7, "other")), then);
    assert_eq!(election.next(then), write(Some(7), 4, true));
}

#[test]
fn whoever_sees_another_holder_leads_no_more() {
    let (mut election, sent) = leader();
    election.watched(Some(record(9, "other")), sent + SECOND);
    assert!(election.leads_until(sent + SECOND).is_some(), "that was before");
    election.watched(Some(record(11, "other")), sent + SECOND);
    assert_eq!(election.leads_until(sent + SECOND), None);
}

#[test]
fn whoever_leads_makes_a_deleted_lease_anew_and_leads_on() {
    let (mut election, sent) = leader();
    let then = sent + 2 * SECOND;
    election.watched(None, then);
    assert_eq!(election.next(then), Next::Read);
    election.read(None, then);
    assert_eq!(election.next(then), write(None, 0, true));
    election.wrote(anew(12, "me"), then, then + SECOND);
    assert_eq!(election.leads_until(then + SECOND), Some(then + 10 * SECOND));
}

#[test]
fn whoever_follows_leaves_a_deleted_lease_to_its_holder_and_leads_by_a_new_one_only_after_a_while() {
    let (mut election, now) = candidate();
    election.read(Some(record(7, "other")), now);
    election.read(None, now + 60 * SECOND);
    election.read(None, now + 65 * SECOND);
    let then = now + 70 * SECOND;
    assert_eq!(election.next(now + 65 * SECOND), Next::Wait(then));
    assert_eq!(election.next(then), write(None, 0, true));
    election.wrote(anew(8, "me"), then, then + SECOND);
    let renewed = then + 14 * SECOND;
    assert_eq!(election.leads_until(then + SECOND), None, "the old holder may have renewed it before");
    election.wrote(anew(9, "me"), renewed, renewed);
    assert_eq!(election.leads_until(then + LEASE), None);
    assert_eq!(election.leads_until(then + LEASE + SECOND), Some(renewed + 10 * SECOND));
}

#[test]
fn another_lease_that_nobody_has_is_nobodys_only_after_a_while() {
    for another in [anew(8, ""), record(6, "")] {
        let (mut election, now) = candidate();
        election.read(Some(record(7, "other")), now);
        let then = now + SECOND;
        election.read(Some(another), then);
        election.wrote(Record { version: 9.into(), ..anew(9, "me") }, then, then);
        assert_eq!(election.leads_until(then), None, "made anew, or as it was before");
    }
    let (mut election, now) = candidate();
    election.read(Some(record(7, "other")), now);
    election.read(Some(record(8, "")), now);
    election.wrote(record(9, "me"), now, now);
    assert!(election.leads_until(now).is_some(), "it was given back");
}

#[test]
fn a_change_that_is_not_its_holders_gives_a_lease_no_more_time() {
    let (mut election, now) = candidate();
    election.read(Some(record(7, "other")), now);
    let labelled = Record { version: 8.into(), ..record(7, "other") };
    assert!(election.watched(Some(labelled.clone()), now + SECOND), "that is what would be written over");
    election.read(Some(labelled), now + 2 * SECOND);
    assert_eq!(election.next(now + LEASE - SECOND), Next::Wait(now + LEASE));
    assert_eq!(election.next(now + LEASE), write(Some(8), 4, true));
}

#[test]
fn a_lease_is_given_back_by_who_has_it() {
    let (mut election, sent) = leader();
    let released = election.release().unwrap();
    assert_eq!((released.over, &*released.holder, released.duration), (Some(10.into()), "", RELEASED));
    assert_eq!(election.leads_until(sent), None);

    let (mut election, now) = candidate();
    assert_eq!(election.release(), None);
    election.read(Some(record(7, "other")), now);
    assert_eq!(election.release(), None);
}

#[test]
fn times_that_would_let_two_lead_or_none_are_refused() {
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
fn a_renewal_that_fails_at_once_leaves_time_for_another_one() {
    let retry_period = Duration::from_millis(4500);
    let times = LeaseTimes { retry_period, ..LeaseTimes::default() }.validate().unwrap();
    let now = Instant::now();
    let mut election = Candidate::new("me".to_owned(), times, now);
    election.read(None, now);
    election.wrote(record(10, "me"), now, now);
    assert_eq!(election.next(now), Next::Wait(now + retry_period));
    election.failed(now + retry_period, now + retry_period);
    let Next::Wait(again) = election.next(now + retry_period) else { panic!("at once") };
    assert!(election.leads_until(again).is_some());
    assert_eq!(election.next(again), Next::Read);
}

#[test]
fn who_is_taken_out_of_the_lease_leads_no_more() {
    let (mut election, now) = leader();
    assert!(election.leads_until(now + SECOND).is_some());
    election.read(Some(record(11, "")), now + SECOND);
    assert_eq!(election.leads_until(now + SECOND), None);
}
