//! Tests of a reflector with a server whose lists have no version, and with objects without a name.

mod support;

use std::time::Duration;

use kube_listwatch::WatchFrom;
use support::{
    fake::{Beat, Fake, events, list},
    run::{run, seconds},
};

/// An object that is deleted between such a list and its watch is not reported, and versions can count
/// per object.
#[tokio::test(start_paused = true)]
async fn deletion_before_watch_without_version_is_found_by_one_list() {
    for lists_have_versions in [false, true] {
        let fake = Fake::new(
            move |n, _| match (n, lists_have_versions) {
                (0, _) => list(&["z@1", "b@1"], ""),
                (_, true) => list(&["b@2", "c@10"], "12"),
                (_, false) => list(&["b@2", "c@10"], ""),
            },
            |n, _| match n {
                0 => vec![events(&["+b@1"]), events(&["~c@10", "~b@2", "~c@11"]), Beat::Hang],
                _ => vec![events(&["+c@13"]), Beat::Hang],
            },
        );
        let run = run(&fake);
        seconds(240).await;
        let from = if lists_have_versions { "12" } else { "" };
        let end = format!("end {from}");
        let expected = [
            "begin",
            "page z@1 b@1",
            "end ",
            "put b@1",
            "put c@10",
            "begin",
            "page b@2 c@10",
            &end,
            "put c@13",
        ];
        assert_eq!(run.taken(), expected, "events after the request for the list are not delivered");
        assert_eq!((fake.lists().len(), fake.watches().len()), (2, 2));
        assert_eq!(fake.watches()[1].from, WatchFrom::Version(from.into()));
        run.drop_it().await;
    }
}

/// At most one list for each watch.
#[tokio::test(start_paused = true)]
async fn server_without_list_versions_causes_no_loop_of_lists() {
    let fake = Fake::new(
        |_, _| list(&["a@1"], ""),
        |_, request| {
            let end = Beat::Wait(Duration::from_secs(request.timeout.unwrap().as_secs()));
            vec![events(&["+a@1", "~a@2", "~b@1", "*10"]), end]
        },
    );
    let run = run(&fake);
    seconds(3600).await;
    let (lists, watches) = (fake.lists().len(), fake.watches().len());
    assert!(lists <= watches, "{lists} lists, {watches} watches");
    for minute in 0..60 {
        let requests = fake.count(minute * 60, minute * 60 + 60);
        assert!(requests <= 4, "minute {minute}: {requests}");
    }
    run.drop_it().await;
}

/// A source that is not a `ListWatch` can return objects without a name. They would share one key, and a
/// complete list would delete the cached objects.
#[tokio::test(start_paused = true)]
async fn objects_without_name_from_any_source_make_list_incomplete() {
    let fake = Fake::new(
        |n, _| if n == 0 { list(&["a@1", "@2", "@3"], "5") } else { list(&["a@1"], "6") },
        |n, _| {
            let event = if n == 0 { "~@7" } else { "~b@7" };
            vec![events(&[event, "~c@8"]), Beat::Hang]
        },
    );
    let run = run(&fake);
    seconds(60).await;
    let expected =
        ["begin", "page a@1", "end 5 incomplete", "begin", "page a@1", "end 6", "put b@7", "put c@8"];
    assert_eq!(run.taken(), expected);
    assert_eq!((run.status().nameless, run.status().errors, fake.watches().len()), (2, 1, 2));
    run.drop_it().await;
}
