//! Tests of the status, counts and errors of a reflector.

mod support;

use kube_listwatch::ErrorClass;
use kube_listwatch::ListAt;
use kube_reflector::{Phase, ReflectorOptions, RelistCause, RestartCause};
use support::{
    fake::{Beat, Fake, events, fails, hangs, items, list, silent},
    run::{options, run, run_with, seconds},
};

#[tokio::test(start_paused = true)]
async fn repeated_event_is_dropped_and_counted() {
    let fake = Fake::new(
        |_, _| list(&["a@5"], "5"),
        |_, _| vec![events(&["+a@5", "~a@6", "~a@6", "~a@4"]), Beat::Hang],
    );
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.taken(), ["begin", "page a@5", "end 5", "put a@6"]);
    assert_eq!(run.status().repeats, 3);
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_is_delivered_and_counted() {
    let fake = Fake::new(|_, _| list(&["!a@1"], "5"), |_, _| vec![events(&["+!b@6", "~!b@7"]), Beat::Hang]);
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.taken(), ["begin", "page !a@1", "end 5", "undecodable b@6", "undecodable b@7"]);
    assert_eq!(run.status().undecodable, 3);
}

#[tokio::test(start_paused = true)]
async fn error_contains_request_until_next_success() {
    let fake = Fake::new(
        |n, _| if n == 0 { fails(403) } else { list(&[], "5") },
        |n, _| if n == 0 { vec![Beat::Fail(401, None)] } else { vec![events(&["*6"]), Beat::Hang] },
    );
    let run = run(&fake);
    tokio::task::yield_now().await;
    seconds(0).await;
    assert_eq!(run.status().failing, Some(kube_listwatch::ErrorClass::Forbidden));
    assert_eq!(run.status().phase, Phase::Waiting);
    assert_eq!(run.status().failing_since, run.status().last_error_at);
    seconds(60).await;
    let errors = run.errors();
    assert!(errors[0].starts_with("LIST /things") && errors[1].starts_with("WATCH /things"), "{errors:?}");
    let status = run.status();
    assert_eq!((status.errors, status.failing, status.failing_since), (2, None, None));
    assert_eq!(status.last_error.as_ref(), errors.last());
}

#[tokio::test(start_paused = true)]
async fn failing_since_is_first_failure() {
    let began = tokio::time::Instant::now();
    let run = run(&Fake::new(|_, _| fails(500), |_, _| hangs()));
    seconds(100).await;
    let status = run.status();
    assert!(status.errors > 2 && status.last_error_at > Some(began), "{status}");
    assert_eq!(status.failing_since, Some(began), "the time of the first failure");
}

/// A server that accepts requests and never responds must not count as healthy.
#[tokio::test(start_paused = true)]
async fn timeout_is_reported_as_error() {
    let fake = Fake::new(
        |n, _| if n == 0 { hangs() } else { list(&[], "5") },
        |n, _| match n {
            0 => vec![events(&["*6"]), Beat::Hang],
            1 => hangs(),
            _ => vec![events(&["*7"]), Beat::Hang],
        },
    );
    let run = run(&fake);
    seconds(121).await;
    assert_eq!(run.errors(), ["LIST /things: timed out after 120s"]);
    assert_eq!(run.status().failing, Some(kube_listwatch::ErrorClass::Broken));
    seconds(10).await;
    assert_eq!((run.status().failing, run.status().phase), (None, Phase::Watching));
    seconds(180).await;
    assert_eq!(run.errors()[1], "WATCH /things: timed out after 180s");
    seconds(631).await;
    assert!(run.errors()[2].starts_with("WATCH /things: timed out after"));
    assert_eq!((run.status().errors, run.status().failing), (3, None));
}

#[tokio::test(start_paused = true)]
async fn list_without_last_part_is_error() {
    let fake = Fake::new(|n, _| if n == 0 { vec![items(&["a@1"])] } else { list(&[], "5") }, |_, _| hangs());
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.errors(), ["LIST function failed: the stream of the list closed before ListPart::End"]);
    assert_eq!(run.taken(), ["begin", "page a@1", "begin", "end 5"]);
}

#[tokio::test(start_paused = true)]
async fn successful_watch_clears_failure() {
    let fake = Fake::new(
        |_, _| list(&[], "5"),
        |n, request| match n {
            0 => vec![Beat::Fail(429, None)],
            1 => silent(request),
            _ => hangs(),
        },
    );
    let run = run(&fake);
    seconds(610).await;
    assert_eq!((fake.watches().len(), run.status().failing), (3, None));
}

#[tokio::test(start_paused = true)]
async fn missing_resource_suspends_reflector() {
    let fake = Fake::new(|n, _| if n < 4 { fails(404) } else { list(&["a@1"], "5") }, |_, _| hangs());
    let run = run(&fake);
    seconds(5).await;
    assert_eq!(run.status().phase, Phase::Suspended);
    seconds(60).await;
    assert_eq!(run.status().phase, Phase::Watching);
    assert_eq!(fake.lists().last().unwrap().at, ListAt::Consistent);
}

#[tokio::test(start_paused = true)]
async fn lists_and_closed_watches_are_counted_by_cause() {
    let fake = Fake::new(
        |n, _| if n == 1 { fails(500) } else { list(&[], "5") },
        |n, request| match n {
            0 => silent(request),
            1 => vec![events(&["+a@6", "*7"]), Beat::Hang],
            2 => vec![events(&["*8"]), Beat::Wait(std::time::Duration::from_secs(9))],
            3 => vec![Beat::Fail(429, None)],
            4 => vec![Beat::Fail(410, None)],
            _ => hangs(),
        },
    );
    let run = run(&fake);
    while fake.watches().len() < 6 {
        seconds(1).await;
    }
    let status = run.status();
    let restarts = [
        RestartCause::Ended,
        RestartCause::EndedEarly,
        RestartCause::Silent,
        RestartCause::Failed(ErrorClass::Expired),
        RestartCause::Failed(ErrorClass::Overloaded),
    ];
    assert_eq!(status.restarts, restarts.map(|cause| (cause, 1)).into());
    let lists = [RelistCause::Start, RelistCause::Retry, RelistCause::Expired];
    assert_eq!(status.lists_by_cause, lists.map(|cause| (cause, 1)).into());
    assert_eq!(status.lists, 3);
}

#[tokio::test(start_paused = true)]
async fn requested_relist_has_separate_cause() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| hangs());
    let (ask, requests) = tokio::sync::watch::channel(0);
    let run = run_with(&fake, options(), |reflector| reflector.relist_on(requests));
    seconds(10).await;
    ask.send_replace(1);
    seconds(10).await;
    let status = run.status();
    assert_eq!(status.restarts.into_iter().collect::<Vec<_>>(), [(RestartCause::Requested, 1)]);
    let lists = [(RelistCause::Start, 1), (RelistCause::Requested, 1)];
    assert_eq!(status.lists_by_cause.into_iter().collect::<Vec<_>>(), lists);
}

#[tokio::test(start_paused = true)]
async fn status_contains_times_of_last_events() {
    let began = tokio::time::Instant::now();
    let wait = |seconds| Beat::Wait(std::time::Duration::from_secs(seconds));
    let fake = Fake::new(
        |_, _| list(&["a@1"], "5"),
        move |n, _| match n {
            0 => {
                vec![wait(10), events(&["+b@6"]), wait(20), events(&["*7"]), wait(30), Beat::Fail(500, None)]
            }
            _ => hangs(),
        },
    );
    let run = run(&fake);
    seconds(5).await;
    assert_eq!(
        (run.status().last_event, run.status().last_bookmark, run.status().last_error_at),
        (None, None, None)
    );
    seconds(90).await;
    let at = |at: Option<tokio::time::Instant>| at.map(|at| (at - began).as_secs());
    let status = run.status();
    assert_eq!((at(status.last_event), at(status.last_bookmark)), (Some(10), Some(30)));
    assert_eq!((at(status.last_error_at), status.events), (Some(60), 1));
}

/// Tests `ReflectorOptions::clear_when_gone`.
#[tokio::test(start_paused = true)]
async fn missing_resource_clears_cache_if_configured() {
    let fake = Fake::new(
        |n, _| match n {
            0 => list(&["a@1"], "5"),
            1 | 2 => fails(404),
            _ => list(&["a@1"], "9"),
        },
        |n, _| if n == 0 { vec![events(&["+b@6"]), Beat::Fail(404, None)] } else { hangs() },
    );
    let run = run_with(&fake, ReflectorOptions { clear_when_gone: true, ..options() }, |reflector| reflector);
    seconds(1).await;
    assert!(run.status().cleared);
    seconds(60).await;
    let taken = [
        "begin", "page a@1", "end 5", "put b@6", "clear", "begin", "clear", "begin", "clear", "begin",
        "page a@1", "end 9",
    ];
    assert_eq!(run.taken(), taken);
    assert!(!run.status().cleared);
}
