//! When requests are made, how long they are to last, and when they are let go of.

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
async fn nothing_is_asked_before_it_runs_nor_if_it_never_does() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| hangs());
    let (sender, _received) = mpsc::channel(2);
    let reflector = Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options());
    let run = reflector.run();
    seconds(3600).await;
    drop(run);
    assert_eq!((fake.asked().len(), fake.open()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_where_nobody_takes_it() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| hangs());
    let (sender, received) = mpsc::channel(2);
    drop(received);
    Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options()).run().await;
    assert_eq!((fake.asked().len(), fake.open()), (0, 0));
}

/// Property 20.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_stopped_before_it_is_read_is_closed() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| vec![events(&["*6"]), Beat::Hang]);
    let (sender, mut received) = mpsc::channel(1);
    let running =
        tokio::spawn(Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options()).run());
    // The sink takes so little that the end of the list still waits when the watch has been asked for.
    while fake.watches().is_empty() {
        received.recv().await.unwrap();
        seconds(1).await;
    }
    assert_eq!((fake.given(), fake.open()), (2, 1), "two parts of the list, and nothing of the watch");
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    seconds(3600).await;
    assert_eq!((fake.given(), fake.open(), fake.watches().len()), (2, 0, 1));
}

/// Property 20: what has failed is not held open until the next attempt takes its place.
#[tokio::test(start_paused = true)]
async fn a_request_that_failed_is_let_go_of_before_the_delay() {
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
async fn a_watch_asks_to_be_ended_after_the_time_that_was_set() {
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
