//! What a reflector says of itself while it runs: status, counts, errors.

mod support;

use kube_listwatch::ListAt;
use kube_reflector::Phase;
use support::{
    fake::{Beat, Fake, events, fails, hangs, items, list, silent},
    run::{run, seconds},
};

#[tokio::test(start_paused = true)]
async fn repeated_events_are_dropped_and_counted() {
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
async fn an_object_that_can_not_be_decoded_is_delivered_as_such_and_counted() {
    let fake = Fake::new(|_, _| list(&["!a@1"], "5"), |_, _| vec![events(&["+!b@6", "~!b@7"]), Beat::Hang]);
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.taken(), ["begin", "page !a@1", "end 5", "undecodable b@6", "undecodable b@7"]);
    assert_eq!(run.status().undecodable, 3);
}

#[tokio::test(start_paused = true)]
async fn errors_are_reported_with_what_was_asked_until_the_next_success() {
    let fake = Fake::new(
        |n, _| if n == 0 { fails(403) } else { list(&[], "5") },
        |n, _| if n == 0 { vec![Beat::Fail(401, None)] } else { vec![events(&["*6"]), Beat::Hang] },
    );
    let run = run(&fake);
    tokio::task::yield_now().await;
    seconds(0).await;
    assert_eq!(run.status().failing, Some(kube_listwatch::Class::Forbidden));
    assert_eq!(run.status().phase, Phase::Waiting);
    seconds(60).await;
    let errors = run.errors();
    assert!(errors[0].starts_with("LIST /things") && errors[1].starts_with("WATCH /things"), "{errors:?}");
    let status = run.status();
    assert_eq!((status.errors, status.failing), (2, None));
    assert_eq!(status.last_error.as_ref(), errors.last());
}

/// A server that accepts everything and answers nothing must not look healthy.
#[tokio::test(start_paused = true)]
async fn what_a_deadline_ends_is_an_error_like_another() {
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
    assert_eq!(run.errors(), ["LIST /things: given up after 120s"]);
    assert_eq!(run.status().failing, Some(kube_listwatch::Class::Broken));
    seconds(10).await;
    assert_eq!((run.status().failing, run.status().phase), (None, Phase::Watching));
    seconds(180).await;
    assert_eq!(run.errors()[1], "WATCH /things: given up after 180s");
    seconds(631).await;
    assert!(run.errors()[2].starts_with("WATCH /things: given up after"));
    assert_eq!((run.status().errors, run.status().failing), (3, None));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_ends_without_an_end_is_an_error() {
    let fake = Fake::new(|n, _| if n == 0 { vec![items(&["a@1"])] } else { list(&[], "5") }, |_, _| hangs());
    let run = run(&fake);
    seconds(10).await;
    assert_eq!(run.errors(), ["LIST function failed: the list ended without its end"]);
    assert_eq!(run.taken(), ["begin", "page a@1", "begin", "page ", "end 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lived_ends_a_failure() {
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
async fn a_resource_that_does_not_exist_suspends_until_it_is_back() {
    let fake = Fake::new(|n, _| if n < 4 { fails(404) } else { list(&["a@1"], "5") }, |_, _| hangs());
    let run = run(&fake);
    seconds(5).await;
    assert_eq!(run.status().phase, Phase::Suspended);
    seconds(60).await;
    assert_eq!(run.status().phase, Phase::Watching);
    assert_eq!(fake.lists().last().unwrap().at, ListAt::Consistent);
}
