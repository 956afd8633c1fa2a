//! Tests of streaming lists with a scripted source and paused time.

mod support;

use std::{sync::Arc, time::Duration};

use futures_util::stream::BoxStream;
use kube_listwatch::{
    ListAt, ListPart, ListRequest, ListWatchError, ListerWatcher, WatchEvent, WatchFrom, WatchRequest,
};
use kube_object::CacheProbe;
use kube_reflector::{Phase, Reflector};
use support::{
    fake::{Beat, Fake, Thing, WatchAnswer, events, fails, hangs, list, silent},
    run::{Run, run_with, seconds, streaming},
};
use tokio::sync::mpsc;

fn run(fake: &Arc<Fake>) -> Run {
    run_with(fake, streaming(), |reflector| reflector)
}

/// Returns the initial event `+a@1`, and the end at version 5.
fn initial_events() -> WatchAnswer {
    vec![events(&["+a@1", ".5"]), Beat::Hang]
}

#[tokio::test(start_paused = true)]
async fn streaming_list_and_watch_share_one_request() {
    let fake = Fake::new(
        |_, _| fails(500),
        |_, _| vec![events(&["+b@4", "+a@1"]), events(&["~a@6", ".6", "~b@7"]), events(&["*9"]), Beat::Hang],
    );
    let run = run(&fake);
    seconds(100).await;
    let expected = ["begin", "put b@4", "put a@1", "put a@6", "end 6", "put b@7", "bookmark 9"];
    assert_eq!(run.taken(), expected);
    let status = run.status();
    assert_eq!((status.phase, status.lists, status.streams, status.watches), (Phase::Watching, 1, 1, 0));
    assert_eq!(fake.watches().len(), 1);
    assert_eq!(fake.watches()[0].from, WatchFrom::InitialEvents(None));
}

#[tokio::test(start_paused = true)]
async fn streaming_list_times_out_after_ten_silent_seconds() {
    let fake = Fake::new(
        |_, _| list(&["a@1"], "5"),
        |n, _| {
            if n == 0 {
                vec![Beat::Wait(Duration::from_secs(9)), events(&["+a@1"]), Beat::Hang]
            } else {
                hangs()
            }
        },
    );
    let run = run(&fake);
    seconds(18).await;
    assert_eq!(run.status().phase, Phase::Listing);
    seconds(2).await;
    assert_eq!(run.taken(), ["begin", "put a@1", "begin", "page a@1", "end 5"]);
    assert_eq!(run.errors().len(), 1);
    assert!(run.errors()[0].contains("timed out after 10s"), "{:?}", run.errors());
}

#[tokio::test(start_paused = true)]
async fn endless_streaming_list_times_out_at_list_deadline() {
    let fake = Fake::new(
        |_, _| list(&["a@1"], "5"),
        |n, _| if n == 0 { vec![Beat::Repeat(|| vec![support::fake::event("+a@1")])] } else { hangs() },
    );
    let run = run(&fake);
    seconds(119).await;
    assert_eq!(fake.lists(), []);
    seconds(2).await;
    assert_eq!(fake.lists().len(), 1);
    assert_eq!(run.taken().last().map(String::as_str), Some("end 5"));
}

#[tokio::test(start_paused = true)]
async fn watch_resumes_without_initial_events_after_error() {
    let fake = Fake::new(
        |_, _| fails(500),
        |n, _| match n {
            0 => vec![events(&["+a@1", ".5"]), events(&["+b@6"]), Beat::Fail(502, None)],
            _ => vec![events(&["~b@6", "~a@7"]), Beat::Hang],
        },
    );
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.taken(), ["begin", "put a@1", "end 5", "put b@6", "put a@7"]);
    let from: Vec<_> = fake.watches().into_iter().map(|request| request.from).collect();
    assert_eq!(from, [WatchFrom::InitialEvents(None), WatchFrom::Version(6.into())]);
}

#[tokio::test(start_paused = true)]
async fn list_deadlines_do_not_apply_to_later_watch() {
    let fake = Fake::new(|_, _| fails(500), |_, _| initial_events());
    let run = run(&fake);
    seconds(299).await;
    assert_eq!((fake.watches().len(), run.errors().len()), (1, 0));
    // The request has a random timeout of 5 to 10 minutes, and 30 s of grace.
    seconds(332).await;
    assert_eq!((fake.watches().len(), run.errors().len()), (2, 1));
    assert_eq!(fake.watches()[1].from, WatchFrom::Version(5.into()));
}

#[tokio::test(start_paused = true)]
async fn streaming_is_retried_after_watch_that_lasted() {
    let fake = Fake::new(
        |_, _| list(&["a@1"], "5"),
        |_, request| match request.from {
            WatchFrom::InitialEvents(_) => fails(422),
            WatchFrom::Version(_) => silent(request),
        },
    );
    let run = run(&fake);
    seconds(1).await;
    assert_eq!(fake.lists().iter().map(|list| list.at.clone()).collect::<Vec<_>>(), [ListAt::Consistent]);
    // Two silences cause a relist, which tries a streaming list again.
    seconds(2400).await;
    let status = run.status();
    assert!(status.streams >= 2 && status.lists >= status.streams * 2, "{status:?}");
    let (streams, watches) = (status.streams, status.watches);
    assert!(watches >= streams, "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn immediately_closed_streams_do_not_loop() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| Vec::new());
    let _run = run(&fake);
    seconds(600).await;
    assert!(fake.count(0, 60) <= 20, "{}", fake.count(0, 60));
    for minute in 1..10 {
        assert!(fake.count(minute * 60, minute * 60 + 60) <= 6, "minute {minute}");
    }
}

#[tokio::test(start_paused = true)]
async fn persistent_failure_causes_few_streaming_attempts() {
    for code in [403, 404, 410, 422, 429, 500, 504] {
        let fake = Fake::new(move |_, _| fails(code), move |_, _| fails(code));
        let _run = run(&fake);
        seconds(600).await;
        // One additional streaming list precedes the first list.
        assert!(fake.count(0, 60) <= 15, "{code}: {}", fake.count(0, 60));
        for minute in 1..10 {
            assert!(fake.count(minute * 60, minute * 60 + 60) <= 4, "{code}, minute {minute}");
        }
    }
}

/// A source without streaming lists.
struct Unable(Arc<Fake>);

impl ListerWatcher<Thing> for Unable {
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<Thing>>,
    ) -> BoxStream<'static, Result<ListPart<Thing>, ListWatchError>> {
        self.0.list(request, known)
    }

    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<Thing>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<Thing>>, ListWatchError>> {
        self.0.watch(request, known)
    }

    fn streams_lists(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn source_without_streaming_gets_lists_only() {
    let fake = Fake::new(|_, _| list(&["a@1"], "5"), |_, _| hangs());
    let (sender, _received) = mpsc::channel(8);
    let reflector = Reflector::new(Unable(Arc::clone(&fake)), sender).options(streaming());
    let running = tokio::spawn(reflector.run());
    seconds(1).await;
    assert_eq!(fake.lists().iter().map(|list| list.at.clone()).collect::<Vec<_>>(), [ListAt::Consistent]);
    assert_eq!(fake.watches()[0].from, WatchFrom::Version(5.into()));
    running.abort();
}

/// A request can wait in a queue of an overloaded server. It must not be replaced by a list.
#[tokio::test(start_paused = true)]
async fn streaming_list_waits_for_acceptance_of_request() {
    let fake = Fake::new(
        |_, _| fails(500),
        |_, _| vec![Beat::Wait(Duration::from_secs(60)), events(&["^", "+a@1", ".5"]), Beat::Hang],
    );
    let run = run(&fake);
    seconds(61).await;
    assert_eq!(run.taken(), ["begin", "put a@1", "end 5"]);
    assert_eq!((fake.lists().len(), fake.watches().len(), run.status().errors), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn list_after_streaming_list_without_response_has_a_delay() {
    let fake = Fake::new(|_, _| list(&["a@1"], "5"), |_, _| hangs());
    let run = run(&fake);
    tokio::time::sleep(Duration::from_millis(120_500)).await;
    assert_eq!((fake.lists().len(), run.status().phase), (0, Phase::Waiting));
    seconds(2).await;
    assert_eq!((fake.lists().len(), run.status().phase), (1, Phase::Watching));
}

/// The server ignores the parameters, and the type has an event each second.
#[tokio::test(start_paused = true)]
async fn changes_do_not_extend_streaming_list() {
    for ignored in ["~b@9", "-b@9"] {
        let event = move || vec![support::fake::event(ignored)];
        let fake = Fake::new(
            |_, _| list(&["a@1"], "5"),
            move |n, _| {
                if n > 0 {
                    return hangs();
                }
                let changes =
                    (0..100).flat_map(|_| [Beat::Wait(Duration::from_secs(1)), Beat::Give(event())]);
                [events(&["^", "+a@1"])].into_iter().chain(changes).collect()
            },
        );
        let run = run(&fake);
        seconds(9).await;
        assert_eq!(fake.lists().len(), 0);
        seconds(2).await;
        assert_eq!((fake.lists().len(), run.status().phase), (1, Phase::Watching));
        run.drop_it().await;
    }
}
