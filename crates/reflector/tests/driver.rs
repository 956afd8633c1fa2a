//! Tests of a reflector with a scripted source and paused time.

mod support;

use std::{sync::Arc, time::Duration};

use kube_listwatch::{ListAt, WatchFrom};
use kube_object::{CacheProbe, Digest, Entry, ObjectIdRef};
use kube_reflector::{Phase, ReflectorOptions, RelistCause};
use support::{
    fake::{
        Asked, Beat, Fake, ListAnswer, Thing, events, fails, hangs, id, items, list, nameless, page_end,
        silent,
    },
    run::{options, run, run_with, seconds},
};
use tokio::sync::mpsc;

#[tokio::test(start_paused = true)]
async fn list_and_events_reach_sink_in_order() {
    let fake = Fake::new(
        |_, _| vec![items(&["a@1"]), items(&["b@2", "!c@3"]), page_end("5", None)],
        |_, _| vec![events(&["+d@6", "~a@7"]), events(&["-b@8", "*9"]), Beat::Hang],
    );
    let run = run(&fake);
    seconds(10).await;
    let expected =
        ["begin", "page a@1", "page b@2 !c@3", "end 5", "put d@6", "put a@7", "remove b@8", "bookmark 9"];
    assert_eq!(run.taken(), expected);
    let status = run.status();
    assert_eq!((status.phase, status.lists, status.watches), (Phase::Watching, 1, 1));
    assert_eq!((status.undecodable, status.errors, status.failing), (1, 0, None));
}

#[tokio::test(start_paused = true)]
async fn pages_are_requested_in_sequence() {
    let fake = Fake::new(
        |n, _| match n {
            0 => vec![items(&["a@1"]), page_end("5", Some("t"))],
            _ => list(&["b@2"], "5"),
        },
        |_, _| hangs(),
    );
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.taken(), ["begin", "page a@1", "page b@2", "end 5"]);
    let lists: Vec<_> = fake.lists().into_iter().map(|request| request.at).collect();
    assert_eq!(lists, [ListAt::Consistent, ListAt::Continue("t".into())]);
    let asked = fake.asked().into_iter().map(|(_, asked)| matches!(asked, Asked::Watch(_)));
    assert_eq!(asked.collect::<Vec<_>>(), [false, false, true], "the watch starts after the last page");
    assert_eq!(run.status().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn persistent_list_failure_causes_few_attempts() {
    for (code, class) in [(500, "broken"), (403, "forbidden"), (404, "not found"), (410, "expired")] {
        let fake = Fake::new(move |_, _| fails(code), |_, _| hangs());
        let run = run(&fake);
        seconds(600).await;
        assert!(fake.count(0, 60) <= 14, "{class}: {}", fake.count(0, 60));
        for minute in 1..10 {
            let requests = fake.count(minute * 60, minute * 60 + 60);
            assert!((1..=4).contains(&requests), "{class}, minute {minute}: {requests}");
        }
        assert_eq!(run.errors().len() as u64, run.status().errors);
        assert_eq!(run.errors().len(), fake.lists().len());
        run.drop_it().await;
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_up_to_limit() {
    for (asked, next) in [(20, 20), (u64::MAX, 300)] {
        let fake =
            Fake::new(move |_, _| vec![Beat::Fail(429, Some(Duration::from_secs(asked)))], |_, _| hangs());
        let run = run(&fake);
        seconds(301).await;
        assert_eq!(fake.asked()[1].0.as_secs(), next);
        run.drop_it().await;
    }
}

#[tokio::test(start_paused = true)]
async fn immediately_closed_watch_does_not_loop() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| Vec::new());
    let _run = run(&fake);
    seconds(600).await;
    assert!(fake.count(0, 60) <= 20, "{}", fake.count(0, 60));
    for minute in 1..10 {
        assert!(fake.count(minute * 60, minute * 60 + 60) <= 6, "minute {minute}");
    }
}

/// Each version expires, with or without an event before. Lists and watches must not alternate without
/// delays.
#[tokio::test(start_paused = true)]
async fn persistent_expiry_does_not_loop() {
    for progress in [false, true] {
        let mut newest = 100;
        let fake = Fake::new(
            |_, _| list(&[], "100"),
            move |_, _| {
                newest += 1;
                let event = format!("~a@{newest}");
                let expired = Beat::Fail(410, None);
                if progress { vec![events(&[&event]), expired] } else { vec![expired] }
            },
        );
        let _run = run(&fake);
        seconds(600).await;
        assert!(fake.count(0, 60) <= 30, "{}", fake.count(0, 60));
        for minute in 1..10 {
            assert!(fake.count(minute * 60, minute * 60 + 60) <= 8, "minute {minute}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silent_list_times_out() {
    let fake = Fake::new(|_, _| hangs(), |_, _| hangs());
    let run = run(&fake);
    seconds(119).await;
    assert_eq!((fake.lists().len(), fake.open()), (1, 1));
    seconds(5).await;
    assert_eq!((fake.lists().len(), fake.open()), (2, 1));
    assert_eq!(run.taken(), ["begin", "begin"]);
}

#[tokio::test(start_paused = true)]
async fn endless_list_times_out() {
    let endless: fn() -> ListAnswer =
        || vec![Beat::Repeat(|| kube_listwatch::ListPart::Items { items: Vec::new(), nameless: Vec::new() })];
    let fake = Fake::new(move |_, _| endless(), |_, _| hangs());
    let _run = run(&fake);
    seconds(119).await;
    assert_eq!(fake.lists().len(), 1);
    seconds(5).await;
    assert_eq!((fake.lists().len(), fake.open()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn each_page_has_separate_deadline() {
    let fake = Fake::new(
        |n, _| match n {
            0..4 => vec![Beat::Wait(Duration::from_secs(100)), page_end("5", Some(&format!("page {n}")))],
            _ => list(&[], "5"),
        },
        |_, _| hangs(),
    );
    let run = run(&fake);
    seconds(410).await;
    assert_eq!(run.taken(), ["begin", "end 5"]);
}

#[tokio::test(start_paused = true)]
async fn silent_open_watch_is_resumed_then_relisted() {
    let fake = Fake::new(|_, _| list(&["a@1"], "5"), |_, _| hangs());
    let run = run(&fake);
    seconds(329).await;
    assert_eq!(fake.watches().len(), 1);
    seconds(631 - 329).await;
    assert_eq!(fake.watches().len(), 2);
    seconds(631).await;
    assert_eq!(fake.lists().len(), 2, "after two silences");
    assert_eq!(fake.lists()[1].at, ListAt::NotOlderThan(5.into()));
    assert_eq!(run.status().last_relist, Some(RelistCause::Stuck));
    assert_eq!(fake.open(), 1);
}

#[tokio::test(start_paused = true)]
async fn silent_closed_watch_is_resumed_then_relisted() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, request| silent(request));
    let _run = run(&fake);
    seconds(1201).await;
    assert!(fake.lists().len() >= 2);
    let froms: Vec<_> = fake.watches().into_iter().map(|request| request.from).collect();
    assert!(froms.iter().all(|from| *from == WatchFrom::Version(5.into())));
}

#[tokio::test(start_paused = true)]
async fn watch_requests_five_to_ten_minutes() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, request| silent(request));
    let _run = run(&fake);
    seconds(40_000).await;
    let times: Vec<_> = fake.watches().iter().map(|request| request.timeout.unwrap().as_secs()).collect();
    assert!(times.iter().all(|time| (300..600).contains(time)), "{times:?}");
    assert!(times.iter().any(|time| *time < 400) && times.iter().any(|time| *time > 500), "{times:?}");
    assert!(fake.watches().iter().all(|request| request.bookmarks));
}

#[tokio::test(start_paused = true)]
async fn bookmark_deadline_requires_first_bookmark() {
    for (bookmark, resumed) in [(true, 2), (false, 1)] {
        let first = if bookmark { "*6" } else { "~a@6" };
        let fake = Fake::new(|_, _| list(&[], "5"), move |_, _| vec![events(&[first]), Beat::Hang]);
        let _run = run(&fake);
        seconds(200).await;
        assert_eq!(fake.watches().len(), resumed);
        assert_eq!(
            fake.watches().last().unwrap().from,
            WatchFrom::Version(if bookmark { 6 } else { 5 }.into())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn watch_with_bookmarks_stays_open() {
    let fake = Fake::new(
        |_, _| list(&[], "5"),
        |_, _| {
            let minute = || Beat::Wait(Duration::from_secs(60));
            vec![minute(), events(&["*6"]), minute(), events(&["*7"]), minute(), events(&["*8"]), minute()]
        },
    );
    let _run = run(&fake);
    seconds(239).await;
    assert_eq!(fake.watches().len(), 1);
    seconds(2).await;
    assert_eq!(fake.watches()[1].from, WatchFrom::Version(8.into()));
}

#[tokio::test(start_paused = true)]
async fn events_before_error_are_delivered_once() {
    let fake = Fake::new(
        |_, _| list(&[], "5"),
        |n, _| match n {
            0 => vec![events(&["+a@6", "+b@7"]), Beat::Fail(500, None)],
            _ => hangs(),
        },
    );
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.taken(), ["begin", "end 5", "put a@6", "put b@7"]);
    assert_eq!(fake.watches()[1].from, WatchFrom::Version(7.into()));
}

#[tokio::test(start_paused = true)]
async fn incomplete_list_is_repeated_until_complete() {
    let fake = Fake::new(
        |n, _| match n {
            0 => vec![items(&["a@1"]), nameless(), page_end("5", None)],
            _ => list(&["a@1"], "6"),
        },
        |_, _| hangs(),
    );
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.taken()[..4], ["begin", "page a@1", "page ", "end 5 incomplete"]);
    assert_eq!(run.taken()[4..], ["begin", "page a@1", "end 6"]);
    assert_eq!((run.status().nameless, fake.watches().len()), (1, 1));
}

/// Returns an entry for each object.
struct KnowsAll;

impl CacheProbe<Thing> for KnowsAll {
    fn find_unchanged(&self, asked: &ObjectIdRef<'_>, _: Option<Digest>) -> Option<Entry<Thing>> {
        let id = id(&format!("{}@{}", asked.key.name(), asked.version));
        Some(Entry::new(id, Arc::new(())).with_digest(Digest::new(7)))
    }
}

#[tokio::test(start_paused = true)]
async fn list_after_expiry_reuses_by_digest_only() {
    let knows = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = Arc::clone(&knows);
    let fake = Fake::asking(
        move |n, _, known| {
            let id = ObjectIdRef::new(None, "a", "a", "1");
            let known = |digest: Option<u64>| known.find_unchanged(&id, digest.map(Digest::new)).is_some();
            note.lock().unwrap().push([None, Some(7), Some(8)].map(known));
            list(&[], ["5", "7", "9"][n])
        },
        |n, _| match n {
            0 => vec![events(&["*6"]), Beat::Fail(410, None)],
            _ => vec![events(&["*9"]), Beat::Hang],
        },
    );
    let (ask, asked) = tokio::sync::watch::channel(0);
    let run =
        run_with(&fake, options(), |reflector| reflector.cache_probe(Arc::new(KnowsAll)).relist_on(asked));
    seconds(10).await;
    let (trusting, wary) = ([true; 3], [false, true, false]);
    assert_eq!(*knows.lock().unwrap(), [trusting, wary]);
    assert_eq!(
        run.taken().iter().filter(|delta| delta.starts_with("begin")).collect::<Vec<_>>(),
        ["begin", "begin fresh"]
    );
    ask.send(1).unwrap();
    seconds(1).await;
    assert_eq!(*knows.lock().unwrap(), [trusting, wary, trusting]);
}

#[tokio::test(start_paused = true)]
async fn requested_relist_is_sent() {
    let fake = Fake::new(|n, _| list(&[], ["5", "6"][n]), |_, _| vec![events(&["*6"]), Beat::Hang]);
    let (ask, asked) = tokio::sync::watch::channel(0);
    let run = run_with(&fake, options(), |reflector| reflector.relist_on(asked));
    seconds(1).await;
    ask.send(1).unwrap();
    seconds(1).await;
    assert_eq!(fake.lists()[1].at, ListAt::NotOlderThan(6.into()));
    assert_eq!((run.status().relists, run.status().last_relist), (1, Some(RelistCause::Requested)));
    drop(ask);
    seconds(100).await;
    assert_eq!(fake.lists().len(), 2, "dropping the sender does not request a relist");
}

#[tokio::test(start_paused = true)]
async fn full_sink_stops_reading() {
    let fake = Fake::new(
        |_, _| list(&["a@1"], "5"),
        |_, _| (6..100).map(|at| events(&[&format!("+a@{at}")])).chain([Beat::Hang]).collect(),
    );
    let (sender, mut received) = mpsc::channel(2);
    let reflector = kube_reflector::Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options());
    let running = tokio::spawn(reflector.run());
    seconds(10).await;
    // Begin and page fill the channel, and End waits.
    assert_eq!((received.len(), fake.given()), (2, 2));
    for _ in 0..3 {
        received.recv().await.unwrap();
    }
    seconds(10).await;
    assert_eq!((received.len(), fake.given()), (2, 2 + 3), "two events fill it, and a third waits");
    let mut deltas = 0;
    while let Ok(Some(batch)) = tokio::time::timeout(Duration::from_secs(1), received.recv()).await {
        deltas += batch.len();
    }
    assert_eq!(deltas, 94);
    drop(received);
    seconds(1).await;
    assert!(running.is_finished(), "a closed sink stops the reflector without a push");
    assert_eq!(fake.open(), 0);
}

/// A slow sink must not cause a timeout of a list or a watch.
#[tokio::test(start_paused = true)]
async fn time_of_full_sink_postpones_deadlines() {
    let fake = Fake::new(
        |_, _| vec![items(&["a@1"]), items(&["b@1"]), items(&["c@1"]), page_end("5", None)],
        |n, _| match n {
            0 => vec![events(&["*6"]), events(&["+a@7"]), events(&["+b@8"]), Beat::Hang],
            _ => hangs(),
        },
    );
    let (sender, mut received) = mpsc::channel(1);
    let reflector = kube_reflector::Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options());
    let status = reflector.status();
    tokio::spawn(reflector.run());
    // The reflector pushes the last of eight batches when the seventh leaves the channel.
    for _ in 0..7 {
        seconds(1000).await;
        received.recv().await.unwrap();
    }
    assert_eq!((fake.lists().len(), fake.watches().len(), status.borrow().errors), (1, 1, 0));
    seconds(179).await;
    assert_eq!(fake.watches().len(), 1);
    seconds(2).await;
    assert_eq!(fake.watches().len(), 2, "the deadline continues after the last push");
}

#[tokio::test(start_paused = true)]
async fn watch_duration_excludes_time_of_full_sink() {
    let fake = Fake::new(|_, _| list(&["a@1"], "5"), |n, _| if n == 0 { Vec::new() } else { hangs() });
    let (sender, mut received) = mpsc::channel(1);
    let reflector = kube_reflector::Reflector::from_shared(Arc::clone(&fake) as _, sender).options(options());
    tokio::spawn(reflector.run());
    // When the first batch leaves the channel, the watch opens. The reflector still waits to push End.
    for _ in 0..2 {
        seconds(1000).await;
        received.recv().await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(fake.watches().len(), 1);
    received.recv().await.unwrap();
    seconds(2).await;
    assert_eq!(fake.watches().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn deadlines_of_watch_are_removed_when_it_closes() {
    let fake = Fake::new(
        |n, _| if n == 0 { list(&[], "5") } else { hangs() },
        |_, _| vec![events(&["*6"]), Beat::Hang],
    );
    let (ask, asked) = tokio::sync::watch::channel(0);
    let run = run_with(&fake, options(), |reflector| reflector.relist_on(asked));
    seconds(100).await;
    ask.send(1).unwrap();
    seconds(100).await;
    assert_eq!(run.errors(), [""; 0], "the bookmark deadline was due after 180 seconds");
    seconds(25).await;
    assert_eq!(run.errors(), ["LIST /things: timed out after 120s"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_run_closes_streams() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| hangs());
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(fake.open(), 1);
    let fake = run.drop_it().await;
    assert_eq!(fake.open(), 0);
    seconds(3600).await;
    assert_eq!(fake.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn closed_sink_stops_reflector() {
    let fake = Fake::new(|_, _| list(&[], "5"), |_, _| hangs());
    let (sender, received) = mpsc::channel(2);
    let reflector = kube_reflector::Reflector::from_shared(Arc::clone(&fake) as _, sender);
    let status = reflector.status();
    drop(received);
    reflector.run().await;
    assert_eq!((status.borrow().phase, fake.open()), (Phase::Stopped, 0));
}

fn all_durations(duration: Duration) -> ReflectorOptions {
    ReflectorOptions {
        list_deadline: duration,
        watch_timeout: duration,
        watch_grace: duration,
        bookmark_deadline: duration,
        backoff_initial: duration,
        backoff_max: duration,
        backoff_reset: duration,
        ..options()
    }
}

#[tokio::test(start_paused = true)]
async fn extreme_options_are_clamped() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    // The configured duration, and the resulting delay and deadline.
    for (set, delay, deadline) in
        [(Duration::ZERO, Duration::from_millis(10), Duration::from_secs(1)), (Duration::MAX, DAY, DAY)]
    {
        let fake = Fake::new(
            |n, _| if n % 2 == 0 { fails(500) } else { list(&[], "5") },
            |n, _| if n % 2 == 0 { fails(500) } else { vec![events(&["*6"]), Beat::Hang] },
        );
        let run = run_with(&fake, all_durations(set), |reflector| reflector);
        tokio::time::sleep(100 * deadline).await;
        let asked = run.drop_it().await.asked();
        assert!(asked.len() >= 50, "the reflector stopped: {asked:?}");
        let (mut lists, mut watches) = (0, 0);
        for pair in asked.windows(2) {
            // A watch follows a list immediately. The watch is silent until its deadline.
            let (number, lasted) = match &pair[0].1 {
                Asked::List(_) => (&mut lists, Duration::ZERO),
                Asked::Watch(_) => (&mut watches, deadline),
            };
            let failed = *number % 2 == 0;
            let expected = if failed { delay..=2 * delay } else { lasted..=lasted };
            assert!(expected.contains(&(pair[1].0 - pair[0].0)), "{set:?}: {pair:?}, not {expected:?}");
            *number += 1;
        }
    }
}

async fn times(seed: u64) -> Vec<Duration> {
    let fake = Fake::new(
        |n, _| if n % 3 == 0 { fails(500) } else { list(&[], "5") },
        |n, request| if n % 2 == 0 { vec![Beat::Fail(500, None)] } else { silent(request) },
    );
    let run = run_with(&fake, ReflectorOptions { seed: Some(seed), ..options() }, |reflector| reflector);
    seconds(7200).await;
    run.drop_it().await.asked().into_iter().map(|(at, _)| at).collect()
}

#[tokio::test(start_paused = true)]
async fn equal_seed_repeats_request_times() {
    let first = times(7).await;
    assert!(first.len() > 10);
    assert_eq!(first, times(7).await);
    assert_ne!(first, times(8).await);
}
