//! Tests the events of a relist, and the contents of the store during their delivery.

use std::{collections::BTreeSet, time::Duration};

use kube_informer::handler_fn;

use crate::{
    fake::{Fake, broken, expired, object},
    log::{Log, short},
};

/// Properties 2, 3 and 7: changes without an open watch are delivered, deletions first.
#[tokio::test(start_paused = true)]
async fn relist_delivers_missed_changes() {
    let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4), object("c", "3", 5)]);
    let informer = fake.informer().build();
    let log = Log::new();
    let _registration = informer.on_event(log.writer());
    informer.start();
    log.reach(3).await;
    fake.list_from_now_on(9, &[object("b", "new", 7), object("c", "3", 8), object("d", "4", 9)]);
    fake.fails(expired()).await;
    let lines = log.reach(8).await;
    assert_eq!(lines[3..], ["?a@3", "?b@4", "+b@7", "~c@5>8", "+d@9"]);
    informer.stop().await;
}

/// Property 7: before the deletes are delivered, the store contains the complete list, without the
/// deleted objects.
#[tokio::test(start_paused = true)]
async fn relist_is_fully_visible_during_handler_calls() {
    let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4), object("c", "3", 5)]);
    let informer = fake.informer().build();
    let (log, writer, lister) = (Log::new(), Log::new(), informer.lister());
    let contents = move || {
        let objects = lister.list_all().into_iter().map(|object| object.metadata.clone());
        let mut contents: Vec<_> =
            objects.map(|of| format!("{}@{}", of.name.unwrap(), of.resource_version.unwrap())).collect();
        contents.sort();
        contents.join(" ")
    };
    let (events, seen) = (log.clone(), writer.clone());
    let _registration = informer.on_event(move |event| {
        events.write(short(event));
        seen.write(contents());
    });
    informer.start();
    assert_eq!(writer.reach(3).await, ["a@3 b@4 c@5"; 3]);
    fake.list_from_now_on(9, &[object("b", "new", 7), object("c", "3", 8), object("d", "4", 9)]);
    fake.fails(expired()).await;
    assert_eq!(writer.reach(8).await[3..], ["b@7 c@8 d@9"; 5], "{:?}", log.lines());
    informer.stop().await;
}

/// Properties 8 and 15: missed changes are delivered once, after resyncs of the old state and
/// before resyncs of the new state.
#[tokio::test(start_paused = true)]
async fn missed_changes_reach_handlers_with_and_without_resync() {
    let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4), object("c", "3", 5)]);
    let informer = fake.informer().build();
    let (often, never) = (Log::new(), Log::new());
    let second = Some(Duration::from_secs(1));
    let _often = informer.add_handler_with_resync(handler_fn(often.writer()), second);
    let _never = informer.add_handler_with_resync(handler_fn(never.writer()), None);
    informer.start();
    never.reach(3).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    fake.list_from_now_on(9, &[object("b", "new", 7), object("c", "3", 8), object("d", "4", 9)]);
    for _ in 0..3 {
        fake.fails(broken()).await; // the third leads to a relist; between them are delays of seconds
    }
    let changes = ["!a@3", "!b@4", "!c@5", "?a@3", "?b@4", "+b@7", "~c@5>8", "+d@9"];
    assert_eq!(never.reach(changes.len()).await, changes);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (resyncs, events): (Vec<_>, Vec<_>) = often.lines().into_iter().partition(|line| is_resync(line));
    assert_eq!(events, changes);
    let lines = often.lines();
    let relist = lines.iter().position(|line| line == "?a@3").unwrap();
    let resyncs_in =
        |lines: &[String]| lines.iter().filter(|line| is_resync(line)).cloned().collect::<BTreeSet<_>>();
    assert!(resyncs_in(&lines[..relist]).iter().eq(["~a@3>3", "~b@4>4", "~c@5>5"]), "{lines:?}");
    assert!(resyncs_in(&lines[relist..]).iter().eq(["~b@7>7", "~c@8>8", "~d@9>9"]), "{lines:?}");
    assert!(resyncs.len() >= 3 * 20, "{} in more than twenty seconds", resyncs.len());
    assert_eq!(never.lines(), changes, "the handler has no resync period");
    informer.stop().await;
}

/// Returns whether a line is an update without a change, for example `~a@3>3`.
fn is_resync(line: &str) -> bool {
    line.split_once('@')
        .and_then(|(_, versions)| versions.split_once('>'))
        .is_some_and(|(old, new)| old == new)
}

#[tokio::test(start_paused = true)]
async fn requested_relist_corrects_cache() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let log = Log::new();
    let _registration = informer.on_event(log.writer());
    informer.start();
    log.reach(1).await;
    fake.list_from_now_on(9, &[object("b", "2", 8)]);
    while fake.watches() == 0 {
        tokio::task::yield_now().await;
    }
    informer.relist();
    assert_eq!(log.reach(3).await, ["!a@3", "?a@3", "+b@8"]);
    informer.stop().await;
}
