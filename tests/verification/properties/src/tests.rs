//! Each checker gets a history that violates its property, and all checkers get a history without
//! violations.

use kube_object::Removal;

use super::*;

const A: Key = 1;
const B: Key = 2;

fn at(key: Key, uid: u64, version: u64) -> Object {
    Object { key, uid, version, value: version }
}

fn mark(version: u64) -> Mark {
    Mark { epoch: 0, version: Some(version) }
}

fn wrote(object: Object) -> Observation<'static> {
    Observation::Written { object, decodable: true }
}

/// Leaks the values. The tests are short.
fn kept<T: Copy>(values: &[T]) -> &'static [T] {
    Box::leak(values.into())
}

fn cache(version: u64, objects: &[Object], events: Option<&[Event]>) -> Observation<'static> {
    let (objects, events, cause) = (kept(objects), events.map(kept), Cause::Changes);
    Observation::Cache(CacheState {
        objects,
        stale: &[],
        mark: mark(version),
        events,
        cause,
        content: Content::AtWatermark,
    })
}

fn listed(version: u64, objects: &[Object], events: &[Event]) -> Observation<'static> {
    let (objects, events, cause) = (kept(objects), Some(kept(events)), Cause::Relist { fresh: false });
    Observation::Cache(CacheState {
        objects,
        stale: &[],
        mark: mark(version),
        events,
        cause,
        content: Content::AtWatermark,
    })
}

fn called(event: Event) -> Observation<'static> {
    Observation::Called { handler: 0, event, view: None }
}

fn called_with_view(event: Event, view: CacheView) -> Observation<'static> {
    Observation::Called { handler: 0, event, view: Some(view) }
}

fn view(version: u64, cached: Option<Object>) -> CacheView {
    CacheView { cached, indexed: cached, mark: mark(version), synced: true }
}

fn added(object: Object) -> Event {
    Event::Added { object, initial: false }
}

fn initial(object: Object) -> Event {
    Event::Added { object, initial: true }
}

fn updated(old: Object, new: Object) -> Event {
    Event::Updated { old, new }
}

fn deleted(last: Object) -> Event {
    Event::Deleted { last, removal: Removal::Deleted }
}

const JOINED: Observation<'static> = Observation::HandlerAdded { handler: 0, mark: 1 };
const RETURNED: Observation<'static> = Observation::Returned { handler: 0 };
const DRAINED: Observation<'static> = Observation::Drained { handler: 0 };
const RESYNCED: Observation<'static> = Observation::Resynced { handler: 0 };
const SYNCED: Observation<'static> = Observation::HandlerSynced { handler: 0 };

/// Checks that this checker rejects the last observation, and that no checker rejects an earlier one.
#[track_caller]
fn breaks(number: u8, history: &[Observation<'_>]) {
    let (last, before) = history.split_last().expect("a history");
    let judge = fine(before);
    let property = PROPERTIES.iter().find(|property| property.number == number).expect("a property");
    assert!((property.check)(judge.past(), last).is_err(), "{} is not found: {last:?}", property.promise);
    assert!(judge.clone().observe(*last).is_err());
}

/// Checks that a history has no violation.
#[track_caller]
fn fine(history: &[Observation<'_>]) -> Judge {
    let mut judge = Judge::new();
    for observation in history {
        assert_eq!(judge.observe(*observation), Ok(()), "at {observation:?}");
    }
    judge
}

/// A handler that received `A` before and after the informer was synced. Most histories start with it.
fn ground() -> Vec<Observation<'static>> {
    vec![
        wrote(FIRST),
        JOINED,
        listed(1, &OBJECTS, &EVENTS),
        Observation::InformerSynced,
        called(EVENTS[0]),
        RETURNED,
        SYNCED,
        DRAINED,
    ]
}

const FIRST: Object = Object { key: A, uid: 1, version: 1, value: 1 };
const OBJECTS: [Object; 1] = [FIRST];
const EVENTS: [Event; 1] = [Event::Added { object: FIRST, initial: true }];

#[track_caller]
fn breaks_then(number: u8, history: &[Observation<'_>]) {
    breaks(number, &[&ground()[..], history].concat());
}

#[test]
fn correct_history_has_no_violation() {
    let [two, gone, other] = [at(A, 1, 2), at(A, 1, 3), at(B, 4, 4)];
    let late = Observation::HandlerAdded { handler: 1, mark: 1 };
    let calls = |handler, event| Observation::Called { handler, event, view: None };
    let history = [
        &ground()[..],
        &[
            wrote(two),
            Observation::Deleted { key: A, version: 3 },
            cache(2, &[two], Some(&[updated(FIRST, two)])),
            late,
            cache(3, &[], Some(&[deleted(gone)])),
            wrote(other),
            cache(4, &[other], Some(&[added(other)])),
            calls(0, updated(FIRST, two)),
            RETURNED,
            calls(0, deleted(gone)),
            RETURNED,
            calls(0, added(other)),
            RETURNED,
            DRAINED,
            calls(1, initial(two)),
            Observation::Returned { handler: 1 },
            Observation::HandlerSynced { handler: 1 },
            calls(1, deleted(gone)),
            Observation::Returned { handler: 1 },
            calls(1, added(other)),
            Observation::Returned { handler: 1 },
            Observation::Drained { handler: 1 },
            Observation::Quiet,
            Observation::HandlerRemoved { handler: 1 },
            Observation::Stopped { tasks: 0, sockets: 0, timers: 0 },
        ],
    ]
    .concat();
    fine(&history);
}

/// Property 1.
#[test]
fn unknown_or_repeated_cached_state_is_detected() {
    breaks(1, &[wrote(FIRST), cache(1, &[at(A, 1, 9)], None)]);
    breaks(1, &[cache(1, &[FIRST], None)]);
    let two = at(A, 1, 2);
    breaks_then(1, &[wrote(two), cache(2, &[two], None), cache(2, &[FIRST], None)]);
    // A cache that followed the new history contains no state of the lost history.
    let back = [wrote(two), Observation::Restored { version: 1 }, cache(1, &[FIRST], None)];
    breaks_then(1, &[&back[..], &[cache(2, &[two], None)]].concat());
}

/// Property 1: after a restore the old states are news again.
#[test]
fn a_state_that_a_restore_brought_back_may_be_cached_again() {
    let two = at(A, 1, 2);
    let back = Mark { epoch: 1, version: Some(1) };
    let cause = Cause::Relist { fresh: true };
    let shown = CacheState {
        objects: &[FIRST],
        stale: &[],
        mark: back,
        events: None,
        cause,
        content: Content::AtWatermark,
    };
    fine(&[
        wrote(FIRST),
        wrote(two),
        cache(2, &[two], None),
        Observation::Restored { version: 1 },
        Observation::Cache(shown),
        Observation::Quiet,
    ]);
}

/// Property 2.
#[test]
fn outdated_cache_is_detected() {
    breaks_then(2, &[wrote(at(A, 1, 2)), Observation::Quiet]);
    breaks_then(2, &[Observation::Deleted { key: A, version: 2 }, Observation::Quiet]);
    breaks_then(2, &[Observation::Written { object: at(A, 1, 2), decodable: false }, Observation::Quiet]);
}

/// Property 3.
#[test]
fn update_between_two_uids_is_detected() {
    let next = at(A, 2, 2);
    breaks_then(3, &[wrote(next), cache(2, &[next], Some(&[updated(FIRST, next)]))]);
    breaks_then(3, &[wrote(next), cache(2, &[next], None), called(updated(FIRST, next))]);
    breaks_then(3, &[called(deleted(next))]);
    breaks_then(3, &[wrote(next), cache(2, &[next], Some(&[deleted(next), added(next)]))]);
}

/// Property 4.
#[test]
fn snapshot_older_than_watermark_is_detected() {
    let (a, b) = (at(A, 1, 1), at(B, 2, 2));
    breaks(4, &[wrote(a), wrote(b), cache(2, &[b], None)]);
    let back = [wrote(a), wrote(at(A, 1, 2)), Observation::Restored { version: 1 }];
    breaks(4, &[&back[..], &[cache(2, &[at(A, 1, 2)], None)]].concat());
    breaks(4, &[Observation::Query { expected: &[a, b], found: &[b] }]);
}

/// Property 5.
#[test]
fn nested_or_inconsistent_calls_are_detected() {
    let two = at(A, 1, 2);
    breaks_then(5, &[RESYNCED, called(updated(FIRST, FIRST)), called(updated(FIRST, FIRST))]);
    breaks_then(5, &[called(added(two))]);
    breaks_then(5, &[called(updated(two, at(A, 1, 3)))]);
    breaks_then(5, &[called(deleted(at(B, 1, 3)))]);
    breaks_then(5, &[RETURNED]);
}

/// Property 6.
#[test]
fn call_before_store_or_index_is_detected() {
    let two = at(A, 1, 2);
    breaks_then(6, &[called_with_view(updated(FIRST, two), view(1, Some(FIRST)))]);
    breaks_then(
        6,
        &[called_with_view(updated(FIRST, two), CacheView { indexed: None, ..view(2, Some(two)) })],
    );
    breaks_then(6, &[called_with_view(deleted(FIRST), view(2, Some(FIRST)))]);
}

/// Property 7.
#[test]
fn call_before_end_of_relist_is_detected() {
    let (two, b) = (at(A, 1, 2), at(B, 3, 3));
    let written = [wrote(two), wrote(b)];
    let list = [updated(FIRST, two), added(b)];
    let early = called_with_view(list[0], view(2, Some(two)));
    breaks_then(7, &[&written[..], &[listed(3, &[two, b], &list), early]].concat());
    let replaced = [added(b), deleted(FIRST)];
    breaks_then(7, &[wrote(b), Observation::Deleted { key: A, version: 4 }, listed(4, &[b], &replaced)]);
    breaks_then(
        7,
        &[called_with_view(updated(FIRST, FIRST), CacheView { synced: false, ..view(1, Some(FIRST)) })],
    );
}

/// Property 8.
#[test]
fn undelivered_change_is_detected() {
    let (two, three) = (at(A, 1, 2), at(A, 1, 3));
    let first = [wrote(two), cache(2, &[two], Some(&[updated(FIRST, two)]))];
    breaks_then(8, &[&first[..], &[DRAINED]].concat());
    breaks_then(8, &[wrote(two), cache(2, &[two], None), DRAINED]);
    let second = [wrote(three), cache(3, &[three], Some(&[updated(two, three)]))];
    let merged = called(updated(FIRST, three));
    breaks_then(8, &[&first[..], &second, &[merged]].concat());
}

/// Property 8: past the mark changes may be merged.
#[test]
fn coalescing_above_mark_is_accepted() {
    let states = [2, 3, 4].map(|version| at(A, 1, version));
    let changes = [updated(FIRST, states[0]), updated(states[0], states[1]), updated(states[1], states[2])];
    let mut history = ground();
    for (state, change) in states.iter().zip(&changes) {
        history.extend([wrote(*state), cache(state.version, &[*state], Some(&[*change]))]);
    }
    history.extend([called(changes[0]), RETURNED, called(updated(states[0], states[2])), RETURNED, DRAINED]);
    fine(&history);
}

/// Property 9.
#[test]
fn duplicate_or_missing_initial_add_is_detected() {
    let late = Observation::HandlerAdded { handler: 1, mark: 1 };
    let calls = Observation::Called { handler: 1, event: initial(FIRST), view: None };
    let returned = Observation::Returned { handler: 1 };
    breaks_then(9, &[late, calls, returned, calls]);
    breaks_then(9, &[late, Observation::Drained { handler: 1 }]);
    let never_found = updated(FIRST, at(A, 1, 2));
    breaks_then(9, &[late, Observation::Called { handler: 1, event: never_found, view: None }]);
}

/// Property 10.
#[test]
fn synced_informer_without_list_is_detected() {
    breaks(10, &[wrote(FIRST), Observation::InformerSynced]);
}

/// Property 11.
#[test]
fn synced_handler_before_initial_adds_is_detected() {
    let before = [wrote(FIRST), JOINED, listed(1, &OBJECTS, &EVENTS), Observation::InformerSynced];
    breaks(11, &[&before[..], &[SYNCED]].concat());
    breaks(11, &[&before[..], &[called(initial(FIRST)), SYNCED]].concat());
    breaks(11, &[JOINED, SYNCED]);
}

/// Property 12.
#[test]
fn wrong_initial_flag_is_detected() {
    let late = Observation::HandlerAdded { handler: 0, mark: 1 };
    breaks_then(12, &[late, called(added(FIRST))]);
    breaks_then(12, &[late, called(initial(at(A, 2, 2)))]);
    let news = at(B, 2, 2);
    breaks_then(12, &[wrote(news), cache(2, &[FIRST, news], None), called(initial(news))]);
}

/// Property 13.
#[test]
fn decrease_of_version_is_detected() {
    let go = |mark, cause| Observation::Position { mark, cause };
    breaks(13, &[go(mark(5), Cause::Changes), go(mark(4), Cause::Changes)]);
    let back = Mark { epoch: 1, version: Some(1) };
    breaks(13, &[go(mark(5), Cause::Changes), go(back, Cause::Relist { fresh: false })]);
    breaks(13, &[go(mark(5), Cause::Changes), go(back, Cause::Unknown)]);
    let ahead = Mark { epoch: 1, version: Some(6) };
    breaks(13, &[go(mark(5), Cause::Changes), go(ahead, Cause::Relist { fresh: true })]);
    fine(&[go(mark(5), Cause::Changes), go(back, Cause::Relist { fresh: true })]);
    fine(&[go(mark(5), Cause::Changes), Observation::FreshRelist, go(back, Cause::Unknown)]);
}

/// Property 14.
#[test]
fn watermark_ahead_of_reflector_is_detected() {
    let position = Observation::Position { mark: mark(1), cause: Cause::Changes };
    breaks(14, &[wrote(FIRST), position, cache(2, &[FIRST], None)]);
}

/// Property 15.
#[test]
fn resync_with_older_or_newer_state_is_detected() {
    let two = at(A, 1, 2);
    let then = [wrote(two), cache(2, &[two], None), called(updated(FIRST, two)), RETURNED];
    let again = |state| called(updated(state, state));
    fine(&[&ground()[..], &then, &[RESYNCED, again(two)]].concat());
    breaks_then(15, &[&then[..], &[RESYNCED, again(FIRST)]].concat());
    breaks_then(15, &[&then[..], &[again(two)]].concat());
}

/// Property 16.
#[test]
fn repeated_key_or_unapplied_event_is_detected() {
    breaks(16, &[Observation::Batch { keys: &[A, B, A] }]);
    let two = at(A, 1, 2);
    breaks_then(16, &[wrote(two), cache(2, &[FIRST], Some(&[updated(FIRST, two)]))]);
    breaks_then(16, &[wrote(two), cache(2, &[two], Some(&[]))]);
}

/// Property 16.
#[test]
fn repeated_state_is_update_only_with_opaque_versions() {
    let repeated = cache(1, &OBJECTS, Some(&[updated(FIRST, FIRST)]));
    breaks_then(16, &[repeated]);
    let mut judge = Judge::of_opaque_versions();
    for observation in ground().into_iter().chain([repeated, called(updated(FIRST, FIRST)), RETURNED]) {
        assert_eq!(judge.observe(observation), Ok(()), "at {observation:?}");
    }
}

/// Property 17.
#[test]
fn late_or_repeated_transform_is_detected() {
    let decoded = Observation::Decoded(FIRST);
    let transformed = Observation::Transformed(FIRST);
    breaks(17, &[wrote(FIRST), decoded, cache(1, &OBJECTS, None)]);
    breaks(17, &[wrote(FIRST), decoded, transformed, cache(1, &OBJECTS, None), transformed]);
}

/// Property 18.
#[test]
fn delete_with_older_state_is_detected() {
    let two = at(A, 1, 2);
    let then = [
        wrote(two),
        cache(2, &[two], Some(&[updated(FIRST, two)])),
        Observation::Deleted { key: A, version: 3 },
    ];
    breaks_then(18, &[&then[..], &[cache(3, &[], Some(&[deleted(FIRST)]))]].concat());
    let lost = Event::Deleted { last: at(A, 1, 3), removal: Removal::FinalStateUnknown };
    breaks_then(18, &[&then[..], &[cache(3, &[], Some(&[lost]))]].concat());
    breaks_then(18, &[Observation::Deleted { key: A, version: 2 }, listed(2, &[], &[deleted(FIRST)])]);
    let merged = [cache(3, &[], Some(&[deleted(at(A, 1, 3))])), called(deleted(FIRST))];
    breaks_then(18, &[&then[..], &merged].concat());
    let calls = [called(updated(FIRST, two)), RETURNED, called(deleted(FIRST))];
    breaks_then(18, &[wrote(two), cache(2, &[two], None), calls[0], calls[1], calls[2]]);
}

/// Property 20.
#[test]
fn call_after_stop_and_remaining_resources_are_detected() {
    let stopped = Observation::Stopped { tasks: 0, sockets: 0, timers: 0 };
    breaks_then(20, &[stopped, called(updated(FIRST, FIRST))]);
    breaks_then(20, &[Observation::HandlerRemoved { handler: 0 }, called(initial(FIRST))]);
    breaks_then(20, &[RESYNCED, called(updated(FIRST, FIRST)), Observation::HandlerRemoved { handler: 0 }]);
    for left in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        let (tasks, sockets, timers) = left;
        breaks(20, &[Observation::Stopped { tasks, sockets, timers }]);
    }
}

#[test]
fn each_property_has_its_number_once_and_in_order() {
    let numbers: Vec<u8> = PROPERTIES.iter().map(|property| property.number).collect();
    assert_eq!(numbers, (1..=20).filter(|number| *number != 19).collect::<Vec<u8>>());
}
