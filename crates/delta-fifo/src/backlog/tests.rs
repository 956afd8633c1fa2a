//! Tests the deliveries of a backlog. `tests/model` covers random sequences.

use super::*;
use crate::testing::{added, deleted, entry, incarnation, initial, updated};

/// Pushes each event as a separate batch.
fn push_all(backlog: &mut Backlog<()>, events: impl IntoIterator<Item = Event<()>>) {
    for event in events {
        backlog.push(Arc::new([event]));
        backlog.check();
    }
}

/// Takes and acknowledges all queued events.
fn drain(backlog: &mut Backlog<()>) -> Vec<Event<()>> {
    let mut delivered = Vec::new();
    while let Some(mut delivery) = backlog.take() {
        delivered.extend_from_slice(&delivery);
        backlog.acknowledge(&mut delivery);
        backlog.check();
    }
    delivered
}

#[test]
fn batch_below_threshold_is_shared() {
    let batch: Arc<[Event<()>]> = Arc::new([added(&entry("a", 1)), added(&entry("b", 2))]);
    let [mut first, mut second] = [Backlog::default(), Backlog::default()];
    for backlog in [&mut first, &mut second] {
        backlog.push(Arc::clone(&batch));
        assert!(Arc::ptr_eq(&backlog.take().unwrap().events, &batch));
    }
}

/// Property 5.
#[test]
fn events_below_threshold_are_delivered_unchanged() {
    let [a, b, c] = [1, 2, 3].map(|version| entry("x", version));
    let events = [added(&a), updated(&a, &b), updated(&b, &c), deleted(&c)];
    let mut backlog = Backlog::new(4);
    push_all(&mut backlog, events.clone());
    assert!(!backlog.is_coalescing());
    assert_eq!(drain(&mut backlog), events);
}

/// Property 8: only events above the threshold are coalesced. Earlier events remain unchanged.
#[test]
fn changes_of_key_above_threshold_become_one() {
    let [a, b, c, d] = [1, 2, 3, 4].map(|version| entry("x", version));
    let mut backlog = Backlog::new(1);
    push_all(&mut backlog, [added(&a), updated(&a, &b), updated(&b, &c), updated(&c, &d)]);
    assert!(backlog.is_coalescing());
    assert_eq!(backlog.pending(), 2);
    assert_eq!(drain(&mut backlog), [added(&a), updated(&a, &d)]);
}

#[test]
fn delivered_events_are_never_coalesced() {
    let [a, b, c] = [1, 2, 3].map(|version| entry("x", version));
    let mut backlog = Backlog::new(0);
    push_all(&mut backlog, [added(&a)]);
    let delivery = backlog.take().unwrap();
    push_all(&mut backlog, [updated(&a, &b), updated(&b, &c)]);
    assert_eq!(*delivery, [added(&a)]);
    assert_eq!(drain(&mut backlog), [updated(&a, &c)]);
}

/// Property 5: otherwise, a shared batch would be delivered before older coalesced changes.
#[test]
fn batches_are_shared_again_after_coalesced_changes_drain() {
    let [a, b, c] = ["a", "b", "c"].map(|name| entry(name, 1));
    let mut backlog = Backlog::new(1);
    push_all(&mut backlog, [added(&a), added(&b)]);
    assert_eq!(*backlog.take().unwrap(), [added(&a)]);
    push_all(&mut backlog, [added(&c)]);
    assert_eq!((backlog.is_coalescing(), backlog.pending()), (true, 2));
    assert_eq!(drain(&mut backlog), [added(&b), added(&c)]);
    push_all(&mut backlog, [deleted(&c)]);
    assert!(!backlog.is_coalescing());
}

/// Property 8: frequent changes of a key do not delay its delivery.
#[test]
fn key_keeps_position_of_its_first_pending_change() {
    let [a, b, c] = [entry("a", 1), entry("b", 2), entry("a", 3)];
    let mut backlog = Backlog::new(0);
    push_all(&mut backlog, [added(&a), added(&b), updated(&a, &c)]);
    assert_eq!(drain(&mut backlog), [added(&c), added(&b)]);
    push_all(&mut backlog, [added(&a), added(&b), deleted(&a), added(&c)]);
    assert_eq!(drain(&mut backlog), [added(&b), added(&c)]);
}

#[test]
fn added_and_deleted_objects_above_threshold_need_no_memory() {
    let mut backlog = Backlog::new(0);
    for at in 0..10_000 {
        let object = entry(&format!("job-{at}"), at + 1);
        push_all(&mut backlog, [added(&object), deleted(&object)]);
    }
    assert!(backlog.is_empty());
}

/// Property 15.
#[test]
fn resync_skips_keys_with_queued_events() {
    let [a, b, c] = ["a", "b", "c"].map(|name| entry(name, 1));
    let mut backlog = Backlog::new(1);
    push_all(&mut backlog, [added(&a), added(&b)]);
    backlog.push_resync([a.clone(), b.clone(), c.clone()]);
    backlog.check();
    assert_eq!(drain(&mut backlog), [added(&a), added(&b), updated(&c, &c)]);
}

/// Property 15: the rule also holds for an entry that was read from the cache too early.
#[test]
fn resync_does_not_replace_newer_queued_state() {
    let [a, b] = [1, 2].map(|version| entry("x", version));
    for threshold in [0, 1] {
        let mut backlog = Backlog::new(threshold);
        push_all(&mut backlog, [updated(&a, &b)]);
        backlog.push_resync([a.clone()]);
        assert_eq!(drain(&mut backlog), [updated(&a, &b)]);
    }
}

/// Property 15: the entry was read from the cache before the delete.
#[test]
fn resync_skips_object_with_queued_delete() {
    let a = entry("x", 1);
    for threshold in [0, 1] {
        let mut backlog = Backlog::new(threshold);
        push_all(&mut backlog, [deleted(&a)]);
        backlog.push_resync([a.clone()]);
        backlog.check();
        assert_eq!(drain(&mut backlog), [deleted(&a)]);
    }
}

/// Property 15: a later change replaces the resync.
#[test]
fn pending_resync_is_never_older_than_later_events() {
    let [a, b] = [1, 2].map(|version| entry("x", version));
    let mut backlog = Backlog::new(0);
    backlog.push_resync([a.clone()]);
    push_all(&mut backlog, [updated(&a, &b)]);
    backlog.push_resync([b.clone()]);
    assert_eq!(drain(&mut backlog), [updated(&a, &b)]);
    backlog.push_resync([b.clone()]);
    assert_eq!(drain(&mut backlog), [updated(&b, &b)]);
}

/// The events of entries, with one event on every second page.
struct Pages {
    events: Vec<Event<()>>,
    initial: bool,
}

impl EventPages<()> for Pages {
    fn len(&self) -> usize {
        self.events.len()
    }

    fn is_initial(&self) -> bool {
        self.initial
    }

    fn page(&self, cursor: usize, _: usize) -> (Arc<[Event<()>]>, Option<usize>) {
        let event = self.events.get(cursor / 2).filter(|_| cursor % 2 == 1).cloned();
        (event.into_iter().collect(), (cursor < 2 * self.events.len()).then_some(cursor + 1))
    }
}

/// Properties 8, 9 and 11. Later events follow the pages, and the handler is not synced before.
#[test]
fn pages_are_delivered_before_later_events() {
    let [a, b, c] = ["a", "b", "c"].map(|name| entry(name, 1));
    let newer = entry("b", 2);
    let later = [added(&c), updated(&b, &newer)];
    for threshold in [0, 1, 100] {
        let mut backlog = Backlog::new(threshold);
        backlog.push_pages(Arc::new(Pages { events: vec![initial(&a), initial(&b)], initial: true }));
        push_all(&mut backlog, later.clone());
        assert_eq!((backlog.pending(), backlog.initial_pending()), (4, 2));
        let mut first = backlog.take().unwrap();
        assert_eq!((&first[..], backlog.pending()), (&[initial(&a)][..], 3));
        backlog.check();
        backlog.acknowledge(&mut first);
        assert_eq!(backlog.initial_pending(), 1);
        assert_eq!(drain(&mut backlog), [initial(&b), added(&c), updated(&b, &newer)]);
        assert_eq!((backlog.pending(), backlog.initial_pending()), (0, 0));
    }
}

/// Property 8. A list is delivered in pages, or coalesced.
#[test]
fn list_is_delivered_like_one_batch() {
    let entries: Vec<_> = (0..600).map(|number| entry(&format!("object-{number}"), 1)).collect();
    let events: Vec<_> = entries.iter().map(initial).collect();
    for threshold in [0, 1, usize::MAX] {
        let list = EventList::new(events.clone());
        let (mut backlog, mut other) = (Backlog::new(threshold), Backlog::new(threshold));
        backlog.push_list(&list);
        other.push_list(&list);
        backlog.check();
        assert_eq!((backlog.pending(), backlog.initial_pending()), (600, 600));
        if threshold > 0 {
            let first = backlog.take().unwrap();
            assert_eq!((&first[..], backlog.pending()), (&events[..256], 344));
            let shared = other.take().unwrap();
            assert!(std::ptr::eq(&first[0], &shared[0]), "handlers share the pages");
            backlog.check();
            assert_eq!(drain(&mut backlog), events[256..]);
        } else {
            assert!(backlog.is_coalescing());
            assert_eq!(drain(&mut backlog), events);
        }
        assert_eq!(
            backlog.initial_pending(),
            if threshold > 0 { 256 } else { 0 },
            "one page is not acknowledged"
        );
    }
}

/// A page is freed when the last backlog has delivered it.
#[test]
fn pages_of_list_are_freed_after_delivery() {
    let events: Vec<_> = (0..1000).map(|number| initial(&entry(&format!("object-{number}"), 1))).collect();
    let (mut one, mut other) = (Backlog::<()>::default(), Backlog::default());
    let list = EventList::new(events);
    one.push_list(&list);
    other.push_list(&list);
    drop(list);
    let object = |delivery: &Delivery<()>| match &delivery[0] {
        Event::Added { object, .. } => Arc::downgrade(&object.object),
        _ => panic!("only additions"),
    };
    let delivery = one.take().unwrap();
    let first = object(&delivery);
    drop(delivery);
    assert!(first.upgrade().is_some(), "the other backlog has not delivered it");
    drop(other.take());
    assert!(first.upgrade().is_none());
}

/// The deletes of a removed handler follow its coalesced changes.
#[test]
fn pages_follow_coalesced_changes() {
    let [a, b] = ["a", "b"].map(|name| entry(name, 1));
    let mut backlog = Backlog::new(1);
    push_all(&mut backlog, [added(&a), added(&b)]);
    assert!(backlog.is_coalescing());
    backlog.push_pages(Arc::new(Pages { events: vec![deleted(&a), deleted(&b)], initial: false }));
    backlog.check();
    assert_eq!(backlog.pending(), 4);
    assert_eq!(drain(&mut backlog), [added(&a), added(&b), deleted(&a), deleted(&b)]);
    assert!(backlog.is_empty());
}

#[test]
fn cleared_pages_are_not_delivered() {
    let a = entry("a", 1);
    let mut backlog = Backlog::new(1);
    backlog.push_pages(Arc::new(Pages { events: vec![initial(&a)], initial: true }));
    let cleared = backlog.clear();
    assert_eq!((cleared.pending(), backlog.pending(), backlog.initial_pending()), (1, 0, 0));
    backlog.push_pages(Arc::new(Pages { events: Vec::new(), initial: true }));
    assert!(backlog.is_empty() && backlog.take().is_none());
    backlog.check();
}

/// Property 11.
#[test]
fn initial_add_is_pending_until_acknowledged() {
    let [a, b] = ["a", "b"].map(|name| entry(name, 1));
    let mut backlog = Backlog::default();
    backlog.push(Arc::new([initial(&a), initial(&b)]));
    let mut delivery = backlog.take().unwrap();
    assert_eq!(backlog.initial_pending(), 2);
    for _ in 0..2 {
        backlog.acknowledge(&mut delivery);
        assert_eq!(backlog.initial_pending(), 0);
    }
}

/// Property 11: the object was deleted, so the handler never receives the Add.
#[test]
fn initial_add_cancelled_by_delete_is_not_pending() {
    let [a, b, c] = [entry("a", 1), entry("b", 2), entry("a", 3)];
    let mut backlog = Backlog::new(0);
    push_all(&mut backlog, [initial(&a), initial(&b), updated(&a, &c)]);
    assert_eq!(backlog.initial_pending(), 2);
    push_all(&mut backlog, [deleted(&c)]);
    assert_eq!(backlog.initial_pending(), 1);
    assert_eq!(drain(&mut backlog), [initial(&b)]);
    assert_eq!(backlog.initial_pending(), 0);
}

/// Property 3: events of two objects with one key and different uids remain separate.
#[test]
fn new_uid_above_threshold_is_delete_and_add() {
    let [old, new] = ["1", "2"].map(|uid| incarnation("x", uid, 1));
    let mut backlog = Backlog::new(0);
    push_all(&mut backlog, [updated(&old, &old), deleted(&old), added(&new)]);
    assert_eq!(*backlog.take().unwrap(), [deleted(&old), added(&new)]);
}

#[test]
fn clear_keeps_only_current_delivery_pending() {
    let objects = ["a", "b", "c"].map(|name| entry(name, 1));
    let mut backlog = Backlog::new(2);
    push_all(&mut backlog, objects.iter().map(initial));
    let mut delivery = backlog.take().unwrap();
    let rest = backlog.clear();
    backlog.check();
    rest.check();
    assert_eq!((rest.pending(), rest.initial_pending()), (2, 2));
    assert_eq!((backlog.pending(), backlog.initial_pending()), (0, 1));
    backlog.acknowledge(&mut delivery);
    assert_eq!(backlog.initial_pending(), 0);
}

#[test]
fn empty_batch_is_not_queued() {
    let mut backlog = Backlog::<()>::default();
    backlog.push(Arc::new([]));
    backlog.push_resync([]);
    assert!(backlog.is_empty() && backlog.take().is_none());
}
