//! Tests of slots that change at run time, and of failures during the changes.

use std::time::Duration;

use kube_informer::{Phase, RelistCause, ShardKey};
use kube_testserver::{Fault, RequestMatch, Verb};

use crate::stack::{NAMESPACES, Stack, set};

/// Returns an informer that watches the slots 1 and 2. Each namespace contains two objects.
async fn watching(supported: bool) -> Stack {
    let stack = Stack::new(supported, ShardKey::Namespace);
    for namespace in 0..8 {
        stack.create(namespace, &format!("a{namespace}"));
        stack.create(namespace, &format!("b{namespace}"));
    }
    stack.set([1, 2]);
    stack.informer.start();
    stack.agrees(set([1, 2])).await;
    stack.idle().await;
    stack.patch(1, "a1", "seen");
    stack.patch(2, "a2", "seen");
    stack.agrees(set([1, 2])).await;
    stack.take_log();
    stack.server.journal().clear();
    stack
}

fn lists() -> RequestMatch {
    RequestMatch::verb(Verb::List)
}

#[tokio::test(start_paused = true)]
async fn gain_lists_only_gained_slots() {
    for supported in [false, true] {
        let stack = watching(supported).await;
        stack.set([1, 2, 5, 7]);
        stack.agrees(set([1, 2, 5, 7])).await;
        assert_eq!(
            stack.take_log(),
            ["+a5", "+a7", "+b5", "+b7"],
            "retained objects are not delivered again"
        );
        assert_eq!(stack.selectors(Verb::List), [stack.selector([5, 7])]);
        assert_eq!(stack.selectors(Verb::Watch), [stack.selector([1, 2, 5, 7])]);
        let status = stack.informer.status().reflector;
        assert_eq!(status.lists_by_cause.get(&RelistCause::SlotsGained), Some(&1));
        for namespace in [1, 5] {
            stack.patch(namespace, &format!("a{namespace}"), "new");
            stack.delete(namespace, &format!("b{namespace}"));
        }
        stack.agrees(set([1, 2, 5, 7])).await;
        assert_eq!(stack.take_log(), ["-b1", "-b5", "~a1", "~a5"]);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_objects_leave_and_selector_shrinks_with_next_watch() {
    for supported in [false, true] {
        let stack = watching(supported).await;
        stack.set([2]);
        stack.agrees(set([2])).await;
        assert_eq!(stack.take_log(), ["<a1", "<b1"]);
        stack.patch(1, "a1", "unseen");
        stack.patch(2, "a2", "new");
        stack.agrees(set([2])).await;
        assert_eq!(stack.take_log(), ["~a2"]);
        assert_eq!(stack.server.journal().requests().len(), 0, "the watch stays open");
        stack.server.close_watches();
        stack.until("next watch", |stack| !stack.selectors(Verb::Watch).is_empty()).await;
        assert_eq!(stack.selectors(Verb::Watch), [stack.selector([2])]);
    }
}

#[tokio::test(start_paused = true)]
async fn slot_lost_and_gained_again_is_listed_again() {
    for supported in [false, true] {
        let stack = watching(supported).await;
        stack.set([2]);
        stack.filled(set([2])).await;
        stack.patch(1, "a1", "new");
        stack.delete(1, "b1");
        stack.set([1, 2]);
        stack.agrees(set([1, 2])).await;
        assert_eq!(stack.take_log(), ["+a1", "<a1", "<b1"]);
        assert_eq!(stack.selectors(Verb::List), [stack.selector([1])]);
    }
}

/// The list of the gained slot is older than events that the watch delivered meanwhile.
#[tokio::test(start_paused = true)]
async fn events_during_the_list_are_not_lost() {
    for supported in [false, true] {
        let stack = watching(supported).await;
        stack.server.faults().next(lists(), Fault::LateResponse(Duration::from_secs(30)));
        stack.set([1, 2, 5]);
        stack.until("list", |stack| !stack.selectors(Verb::List).is_empty()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        stack.patch(5, "a5", "later");
        stack.delete(5, "b5");
        stack.create(5, "c5");
        stack.create(5, "d5");
        stack.delete(5, "d5");
        stack.patch(1, "a1", "later");
        stack.until("event", |stack| stack.seen.0.lock().log == ["~a1"]).await;
        assert_eq!(*stack.filled.borrow(), set([1, 2]), "the other slots continue during the list");
        stack.agrees(set([1, 2, 5])).await;
        assert_eq!(stack.take_log(), ["+a5", "+c5", "~a1"], "the add contains the last state");
    }
}

/// The list of the gained slot is newer than events that the watch delivers after the list.
#[tokio::test(start_paused = true)]
async fn events_before_the_list_are_dropped() {
    for supported in [false, true] {
        let stack = watching(supported).await;
        // The watch delivers no events before the list is complete.
        let watches = RequestMatch::verb(Verb::Watch);
        stack.server.faults().next(watches, Fault::LateResponse(Duration::from_secs(30)));
        stack.server.faults().next(lists(), Fault::Delay(Duration::from_secs(5)));
        stack.set([1, 2, 5]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        stack.create(5, "c5");
        stack.delete(5, "c5");
        stack.delete(5, "b5");
        stack.patch(5, "a5", "new");
        stack.patch(1, "a1", "new");
        stack.filled(set([1, 2, 5])).await;
        assert_eq!(stack.take_log(), ["+a5"], "the watch is not open");
        stack.agrees(set([1, 2, 5])).await;
        assert_eq!(stack.take_log(), ["~a1"], "events of the gained slot up to its list are dropped");
        stack.delete(5, "a5");
        stack.agrees(set([1, 2, 5])).await;
    }
}

#[tokio::test(start_paused = true)]
async fn failing_list_is_repeated_while_other_slots_continue() {
    for supported in [false, true] {
        let stack = watching(supported).await;
        let guard = stack.server.faults().always(lists(), Fault::internal_error("broken"));
        stack.set([1, 2, 5]);
        for round in 0..20 {
            stack.patch(1, "a1", &round.to_string());
            stack.patch(5, "a5", &round.to_string());
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        assert_eq!(stack.take_log(), vec!["~a1"; 20]);
        let attempts = stack.selectors(Verb::List).len();
        assert!((4..=16).contains(&attempts), "{attempts} attempts with backoff in 200 s");
        assert_eq!(*stack.filled.borrow(), set([1, 2]));
        stack.set([1, 2, 5, 6]);
        drop(guard);
        stack.agrees(set([1, 2, 5, 6])).await;
        assert_eq!(stack.take_log(), ["+a5", "+a6", "+b5", "+b6"]);
        assert_eq!(
            stack.selectors(Verb::List).last(),
            Some(&stack.selector([5, 6])),
            "the list contains all missing slots"
        );
        assert_eq!(stack.informer.status().reflector.phase, Phase::Watching);
    }
}

#[tokio::test(start_paused = true)]
async fn silent_list_of_gained_slots_times_out() {
    let stack = watching(true).await;
    stack.server.faults().next(lists(), Fault::Hang);
    stack.set([1, 2, 5]);
    stack.agrees(set([1, 2, 5])).await;
    let error = stack.informer.status().reflector.last_error.unwrap();
    assert!(error.contains("120s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn expired_watch_during_gain_lists_the_whole_set() {
    for supported in [false, true] {
        let stack = watching(supported).await;
        stack.server.faults().next(lists(), Fault::LateResponse(Duration::from_secs(60)));
        stack.set([1, 2, 5]);
        stack.until("list", |stack| !stack.selectors(Verb::List).is_empty()).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        stack.server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Reset);
        stack.server.close_watches();
        stack.until("fault", |stack| stack.server.faults().pending() == 0).await;
        stack.delete(5, "b5");
        stack.delete(1, "b1");
        stack.server.compact();
        stack.agrees(set([1, 2, 5])).await;
        assert_eq!(stack.selectors(Verb::List), [stack.selector([5]), stack.selector([1, 2, 5])]);
        assert!(stack.seen.0.lock().log.contains(&"?b1".to_owned()), "{:?}", stack.seen.0.lock().log);
        stack.idle().await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        stack.agrees(set([1, 2, 5])).await;
    }
}

/// Changes of the set that the first list and the list of a gained slot do not contain.
#[tokio::test(start_paused = true)]
async fn changes_in_quick_succession_reach_the_last_set() {
    for supported in [false, true] {
        for pause in [0, 1, 40] {
            let stack = Stack::new(supported, ShardKey::Namespace);
            (0..8).for_each(|namespace| stack.create(namespace, &format!("a{namespace}")));
            let slow = stack.server.faults().always(lists(), Fault::LateResponse(Duration::from_millis(25)));
            stack.set([1, 2]);
            stack.informer.start();
            for slots in
                [vec![2, 3], vec![1, 2, 3], vec![3, 4], vec![5], vec![], vec![1, 5], vec![1], vec![1, 5, 6]]
            {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                stack.set(slots);
                stack.patch(5, "a5", "new");
            }
            stack.agrees(set([1, 5, 6])).await;
            drop(slow);
            stack.patch(5, "a5", "last");
            stack.agrees(set([1, 5, 6])).await;
            stack.informer.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watch_in_backoff_resumes_with_gained_slots() {
    for supported in [false, true] {
        let stack = watching(supported).await;
        let broken = stack.server.faults().always(RequestMatch::verb(Verb::Watch), Fault::Reset);
        stack.server.close_watches();
        stack.until("backoff", |stack| stack.informer.status().reflector.phase == Phase::Waiting).await;
        stack.patch(1, "a1", "missed");
        stack.set([1, 2, 5]);
        stack.filled(set([1, 2, 5])).await;
        stack.delete(5, "b5");
        drop(broken);
        stack.agrees(set([1, 2, 5])).await;
    }
}

/// The memory of lost objects is freed.
#[tokio::test(start_paused = true)]
async fn lost_objects_are_freed() {
    let stack = watching(true).await;
    let key: kube_informer::ObjectKey = format!("{}/b1", NAMESPACES[1]).parse().unwrap();
    let held = std::sync::Arc::downgrade(&stack.informer.lister().get_by_key(&key).unwrap());
    stack.set([2]);
    stack.filled(set([2])).await;
    stack.idle().await;
    assert_eq!(held.strong_count(), 0);
}

/// Only the key of uids restricts the requests. Handlers and cache are checked by the other tests.
#[tokio::test(start_paused = true)]
async fn requests_of_changes_select_uids_of_slots() {
    for supported in [false, true] {
        let stack = Stack::new(supported, ShardKey::Uid);
        (0..64).for_each(|number| stack.create(number % 8, &format!("map-{number}")));
        stack.set([1, 2]);
        stack.informer.start();
        stack.agrees(set([1, 2])).await;
        stack.idle().await;
        stack.server.journal().clear();
        stack.set([1, 2, 5, 7]);
        stack.agrees(set([1, 2, 5, 7])).await;
        stack.idle().await;
        assert_eq!(
            stack.selectors(Verb::List),
            [stack.selector([5, 7])],
            "retained slots are not listed again"
        );
        assert_eq!(stack.selectors(Verb::Watch), [stack.selector([1, 2, 5, 7])]);
        stack.set([2, 7]);
        stack.agrees(set([2, 7])).await;
        stack.server.close_watches();
        stack.until("next watch", |stack| stack.selectors(Verb::Watch).len() == 2).await;
        assert_eq!(stack.selectors(Verb::Watch)[1], stack.selector([2, 7]));
        assert_eq!(stack.selectors(Verb::List).len(), 1);
        (0..64).for_each(|number| stack.patch(number % 8, &format!("map-{number}"), "new"));
        stack.agrees(set([2, 7])).await;
    }
}
