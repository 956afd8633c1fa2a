//! Tests of the start, duration and end of requests.

mod support;

use std::{sync::Arc, time::Duration};

use kube_listwatch::WatchFrom;
use kube_reflector::{Phase, Reflector, ReflectorOptions};
use support::{
    fake::{Beat, Fake, events, hangs, list, silent},
    run::{options, run, run_with, seconds},
};
use tokio::sync::mpsc;

/// Property 20.
#[tokio::test(start_paused = true)]
async fn no_request_is_sent_before_run() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| hangs());
    let (sender, _received) = mpsc::channel(2);
    let reflector = Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options());
    let run = reflector.run();
    seconds(3600).await;
    drop(run);
    assert_eq!((fake.asked().len(), fake.open()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn closed_sink_prevents_requests() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| hangs());
    let (sender, received) = mpsc::channel(2);
    drop(received);
    Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options()).run().await;
    assert_eq!((fake.asked().len(), fake.open()), (0, 0));
}

/// Property 20.
#[tokio::test(start_paused = true)]
async fn unread_watch_is_closed_on_drop() {
    let fake = Fake::new(|_, _| list(&["a@1"], "5"), |_, _| vec![events(&["*6"]), Beat::Hang]);
    let (sender, mut received) = mpsc::channel(1);
    let running =
        tokio::spawn(Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options()).run());
    // The small sink blocks the end of the list, while the watch is already requested.
    while fake.watches().is_empty() {
        received.recv().await.unwrap();
        seconds(1).await;
    }
    assert_eq!((fake.given(), fake.open()), (2, 1), "only the two parts of the list are read");
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    seconds(3600).await;
    assert_eq!((fake.given(), fake.open(), fake.watches().len()), (2, 0, 1));
}

/// Property 20. A failed request is closed before the next attempt.
#[tokio::test(start_paused = true)]
async fn failed_request_is_closed_before_backoff() {
    for first in ["a list", "a watch"] {
        let fake = Fake::new(
            move |_, _| match first {
                "a list" => vec![Beat::Fail(500, None)],
                _ => list(&[], "5"),
            },
            |_, _| vec![events(&["*6"]), Beat::Fail(500, None)],
        );
        let run = run(&fake);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!((run.status().phase, run.errors().len(), fake.open()), (Phase::Waiting, 1, 0), "{first}");
        run.drop_it().await;
    }
}

#[tokio::test(start_paused = true)]
async fn watch_requests_configured_duration() {
    for shortest in [7, 1800] {
        let fake = Fake::new(|_, _| list(&[], "5"), |_, request| silent(request));
        let set = ReflectorOptions { watch_timeout: Duration::from_secs(shortest), ..options() };
        let run = run_with(&fake, set, |reflector| reflector);
        seconds(10 * shortest).await;
        let times: Vec<_> = fake.watches().iter().map(|request| request.timeout.unwrap().as_secs()).collect();
        assert!(times.len() >= 5, "{times:?}");
        assert!(times.iter().all(|time| (shortest..2 * shortest).contains(time)), "{times:?}");
        assert!(fake.watches().iter().all(|request| request.from == WatchFrom::Version(5.into())));
        run.drop_it().await;
    }
}
