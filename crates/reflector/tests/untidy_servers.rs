//! Tests of a reflector with servers that kube-apiserver does not resemble: restored without a failed
//! request, without an order of events, with endless pages, or with watches that fail after they open.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kube_listwatch::{ListAt, ListRequest};
use kube_reflector::{ReflectorOptions, RelistCause, ServerVersions};
use support::{
    fake::{Beat, Fake, ListAnswer, WatchAnswer, events, hangs, items, list, page_end},
    run::{options, run, run_with, seconds},
};

fn is_check(request: &ListRequest) -> bool {
    request.limit == Some(1)
}

/// Returns a server at 1000 that is restored to 10 when the first watch is open.
fn restored(first: Vec<Beat<Vec<kube_listwatch::WatchEvent<()>>>>) -> Arc<Fake> {
    let mut first = Some(first);
    Fake::new(
        |n, request| match (n, &request.at) {
            (0, _) => list(&["old@900"], "1000"),
            (_, ListAt::NotOlderThan(_)) => vec![Beat::Fail(504, None)],
            _ => list(&["new@7"], "10"),
        },
        move |_, _| first.take().unwrap_or_else(|| vec![events(&["^"]), Beat::Hang]),
    )
}

#[tokio::test(start_paused = true)]
async fn restore_without_failed_request_is_detected() {
    let wait = || Beat::Wait(Duration::from_secs(30));
    let ways = [
        ("the watch closes without an error", vec![events(&["^"]), wait()]),
        ("a bookmark is below the position", vec![events(&["^"]), wait(), events(&["*8"]), Beat::Hang]),
        ("an event is below the position", vec![events(&["^"]), wait(), events(&["+new@8"]), Beat::Hang]),
    ];
    for (name, first) in ways {
        let fake = restored(first);
        let run = run(&fake);
        seconds(40).await;
        assert_eq!(run.taken()[3..], ["begin fresh", "page new@7", "end 10"], "{name}");
        assert_eq!(fake.lists().iter().filter(|request| is_check(request)).count(), 1, "{name}");
        assert_eq!(run.status().last_relist, Some(RelistCause::TooLarge), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_list_follows_watch_that_sent_event_out_of_order() {
    let fake = Fake::new(
        |n, request| match n {
            0 => list(&["a@100", "b@9"], "100"),
            _ if is_check(request) => list(&[], "120"),
            _ => list(&["a@120", "b@10"], "120"),
        },
        |n, request| match n {
            0 => {
                let rest = Beat::Wait(request.timeout.unwrap());
                vec![events(&["^", "~b@10", "~a@110", "~b@10", "~a@120"]), rest]
            }
            _ => vec![events(&["^"]), Beat::Hang],
        },
    );
    let run = run(&fake);
    seconds(1200).await;
    let taken = run.taken();
    assert_eq!(taken[..5], ["begin", "page a@100 b@9", "end 100", "put a@110", "put a@120"]);
    assert_eq!(taken[5..], ["begin", "page a@120 b@10", "end 120"]);
    let lists = fake.lists();
    assert_eq!(lists.iter().filter(|request| is_check(request)).count(), 1, "one check for two events");
    assert_eq!(lists[2].at, ListAt::NotOlderThan(120.into()));
    assert_eq!((run.status().last_relist, run.status().repeats), (Some(RelistCause::Stuck), 2));
}

/// The watch resumes at the version of the list, so that no event is lost.
#[tokio::test(start_paused = true)]
async fn events_after_list_with_opaque_version_are_all_delivered() {
    let fake = Fake::new(
        |_, _| list(&["a@49", "b@3", "d@1"], "etag-77"),
        |n, _| match n {
            0 => vec![events(&["~a@50", "~b@4", "+c@1", "-d@2", "*60"]), Beat::Hang],
            _ => hangs(),
        },
    );
    let run = run(&fake);
    seconds(60).await;
    assert_eq!(run.taken()[3..], ["put a@50", "put b@4", "put c@1", "remove d@2"]);
    assert_eq!(fake.lists().len(), 1, "a version that is not a number is not checked");
}

/// A watch that opens and then fails is no recovery.
#[tokio::test(start_paused = true)]
async fn watches_that_fail_after_they_open_count_as_one_outage() {
    for code in [401, 403, 429, 500] {
        let fails = move |_: usize, _: &_| -> WatchAnswer { vec![events(&["^"]), Beat::Fail(code, None)] };
        let fake = Fake::new(|_, _| list(&["a@1"], "5"), fails);
        let run = run(&fake);
        seconds(3600).await;
        let status = run.status();
        assert!(status.failing.is_some(), "{code} is a failure");
        assert!(status.lists > 10, "{code}: the cache is listed: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_that_opens_after_refused_connection_ends_failure() {
    let fake = Fake::new(
        |_, _| list(&["a@1"], "5"),
        |n, _| match n {
            0..3 => vec![Beat::Fail(503, None)],
            _ => vec![events(&["^"]), Beat::Hang],
        },
    );
    let run = run(&fake);
    seconds(60).await;
    assert_eq!((run.status().failing, run.status().failing_since), (None, None));
}

/// Returns pages with new tokens, each after a delay.
fn endless(delay: Duration, names: &'static [&'static str]) -> impl Fn(usize, &ListRequest) -> ListAnswer {
    move |n, _| vec![Beat::Wait(delay), items(names), page_end("5", Some(&format!("token {n}")))]
}

#[tokio::test(start_paused = true)]
async fn endless_empty_pages_are_reported_as_error() {
    let fake = Fake::new(endless(Duration::from_millis(2), &[]), |_, _| hangs());
    let run = run(&fake);
    seconds(3600).await;
    let error = "LIST /things: the pages of the list do not end; stopped after 17 pages";
    assert_eq!(run.errors().first().map(String::as_str), Some(error));
    assert!(fake.count(60, 3600) < 59 * 5 * 2 * 17, "{} requests in an hour", fake.count(0, 3600));
    assert!(run.status().last_error.is_some());
}

#[tokio::test(start_paused = true)]
async fn slow_endless_pages_end_after_half_an_hour() {
    let fake = Fake::new(endless(Duration::from_secs(60), &["a@1"]), |_, _| hangs());
    let run = run(&fake);
    seconds(29 * 60).await;
    assert_eq!((run.errors().len(), run.status().lists), (0, 1));
    seconds(3 * 60).await;
    assert_eq!(run.errors(), ["LIST /things: timed out after 1800s"]);
    assert_eq!(run.status().lists, 2, "the list starts again after the backoff");
}

/// Another reflector checked the server before the restore.
#[tokio::test(start_paused = true)]
async fn check_before_restore_is_not_shared_with_later_watch() {
    let restored = Arc::new(AtomicU64::new(1000));
    let server = |first_failure: Option<Duration>| {
        let restored = Arc::clone(&restored);
        Fake::new(
            move |n, request| match (n, &request.at) {
                (0, _) => list(&["old@900"], "1000"),
                (_, ListAt::NotOlderThan(_)) => vec![Beat::Fail(504, None)],
                _ => list(&[], &restored.load(Ordering::SeqCst).to_string()),
            },
            move |n, _| match n {
                0 => vec![events(&["^"]), Beat::Wait(Duration::from_secs(5)), Beat::Fail(429, first_failure)],
                _ => vec![events(&["^"]), Beat::Hang],
            },
        )
    };
    let versions = ServerVersions::default();
    let start = |fake: &Arc<Fake>, seed| {
        let versions = versions.clone();
        let options = ReflectorOptions { seed: Some(seed), ..options() };
        run_with(fake, options, |reflector| reflector.server_versions(versions))
    };
    let (late, early) = (server(Some(Duration::from_secs(300))), server(None));
    let (late_run, _early_run) = (start(&late, 1), start(&early, 2));
    seconds(100).await;
    restored.store(10, Ordering::SeqCst);
    seconds(300).await;
    assert_eq!(late_run.taken()[3..], ["begin fresh", "end 10"]);
}
