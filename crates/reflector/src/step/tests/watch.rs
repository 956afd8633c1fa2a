//! Tests of watches: delivery, position, end and failures.

use super::{untidy::suspicious, *};

pub(super) fn deliver() -> Vec<Output> {
    vec![Output::Deliver]
}

/// Steps through events. Returns the last state and the verdict for each event.
pub(super) fn play(mut state: State, events: &[(EventKind, &str)]) -> (State, Vec<Output>) {
    let mut verdicts = Vec::new();
    for (kind, at) in events {
        let (next, outputs) = go(state, event(*kind, &version(at)));
        state = next;
        verdicts.push(outputs[0].clone());
    }
    (state, verdicts)
}

pub(super) fn position(state: &State) -> &Position {
    match state {
        State::Watching(watching) => &watching.position,
        State::Waiting(Waiting { then: AfterBackoff::Watch(position), .. }) => position,
        other => panic!("no position in {other:?}"),
    }
}

#[test]
fn event_is_delivered_once_and_moves_position() {
    for kind in [EventKind::Added, EventKind::Changed] {
        let (state, outputs) = go(watching(listed("7")), event(kind, &version("9")));
        assert_eq!((state, outputs), (spoken(moved("9")), deliver()));
    }
}

#[test]
fn repeated_event_is_dropped_without_move() {
    for at in ["9", "8", "1"] {
        for kind in [EventKind::Added, EventKind::Changed] {
            let (state, outputs) = go(watching(listed("9")), event(kind, &version(at)));
            let expected = Position { check_version: true, disordered: true, ..listed("9") };
            assert_eq!((position(&state), outputs), (&expected, suspicious()), "{at}");
        }
    }
}

#[test]
fn versions_are_compared_as_numbers_of_any_length() {
    let (_, verdicts) = play(
        watching(listed("9")),
        &[
            (EventKind::Changed, "10"),
            (EventKind::Changed, "9"),
            (EventKind::Changed, "100000000000000000000"),
            (EventKind::Changed, "18446744073709551615"),
        ],
    );
    assert_eq!(verdicts, [Output::Deliver, Output::Discard, Output::Deliver, Output::Discard]);
}

#[test]
fn bookmark_moves_position_and_arms_deadline() {
    let (state, outputs) = go(watching(listed("7")), event(EventKind::Bookmark, &version("9")));
    assert_eq!(outputs, [Output::Deliver, Output::Arm(Deadline::Bookmark)]);
    assert_eq!(position(&state), &moved("9"));
    let (_, outputs) = go(state, event(EventKind::Changed, &version("12")));
    assert_eq!(outputs, [Output::Deliver, Output::Arm(Deadline::Bookmark)]);
}

#[test]
fn bookmark_deadline_is_not_armed_before_bookmark() {
    let (_, outputs) = go(watching(listed("7")), event(EventKind::Changed, &version("9")));
    assert_eq!(outputs, deliver());
}

#[test]
fn opaque_version_is_never_repeat() {
    let events = [(EventKind::Changed, "b"), (EventKind::Changed, "b"), (EventKind::Changed, "a")];
    let (state, verdicts) = play(watching(listed("x")), &events);
    assert_eq!(verdicts, [Output::Deliver, Output::Deliver, Output::Deliver]);
    assert_eq!(position(&state).version, version("a"));
    let (_, outputs) = go(state, Input::WatchEnded(WatchEnd::Full));
    assert_eq!(outputs, watch_outputs("a"));
}

#[test]
fn relist_from_opaque_version_is_consistent() {
    let (_, outputs) = go(watching(listed("x")), Input::Relist);
    assert_eq!(list_request(&outputs), Some(ListRequest { at: ListAt::Consistent, limit: Some(500) }));
}

/// Versions of some aggregated servers. A watch cannot start after these versions.
const NO_POINTS: [&str; 2] = ["", "0"];

#[test]
fn event_without_version_does_not_move_position() {
    for none in NO_POINTS {
        let (state, outputs) = go(watching(listed("7")), event(EventKind::Changed, &version(none)));
        let expected = Position { disordered: true, ..listed("7") };
        assert_eq!((position(&state), outputs), (&expected, deliver()));
    }
}

#[test]
fn bookmark_without_version_only_arms_deadline() {
    for none in NO_POINTS {
        let (state, outputs) = go(watching(listed("7")), event(EventKind::Bookmark, &version(none)));
        assert_eq!(outputs, [Output::Discard, Output::Arm(Deadline::Bookmark)]);
        assert_eq!(position(&state), &listed("7"));
    }
}

#[test]
fn watch_without_version_delivers_each_event_and_does_not_move() {
    for none in NO_POINTS {
        let (state, _) = go(first_page(plan(ListAt::Any)), page_end(&version(none), None));
        let added = [(EventKind::Added, "9"), (EventKind::Added, "5"), (EventKind::Added, "7")];
        let (state, verdicts) = play(state, &added);
        assert_eq!(verdicts, [Output::Deliver, Output::Deliver, Output::Deliver]);
        let rest = [(EventKind::Changed, none), (EventKind::Added, "5"), (EventKind::Changed, none)];
        let (state, verdicts) = play(state, &rest);
        assert_eq!(verdicts, [Output::Deliver, Output::Deliver, Output::Deliver]);
        assert_eq!(position(&state), &listed(none));
    }
}

/// The object that was deleted between the list and the watch is not reported. A version shows that
/// the next list probably has a version, too.
#[test]
fn version_in_watch_without_version_causes_list() {
    let list = || list_outputs(RelistCause::Stuck, ListAt::Consistent, Some(500), false);
    for none in NO_POINTS {
        let ten = version("10");
        let (state, outputs) = go(watching(listed(none)), event(EventKind::Changed, &ten));
        assert_eq!(outputs, [deliver(), list()].concat());
        assert_eq!(state, first_page(immediate(plan(ListAt::Consistent))));
        let (state, _) = go(state, page_end(&ten, None));
        assert_eq!(position(&state), &Position { unstable: true, ..listed("10") });
        let (_, outputs) = go(watching(listed(none)), event(EventKind::Bookmark, &ten));
        assert_eq!(outputs, list());
    }
}

/// A server whose lists never have a version must not cause a list for each event.
#[test]
fn second_list_without_version_follows_end_of_watch() {
    for none in NO_POINTS {
        let (state, _) = go(watching(listed(none)), event(EventKind::Changed, &version("10")));
        let (state, _) = go(state, page_end(&version(none), None));
        let events = [(EventKind::Changed, "11"), (EventKind::Changed, "2"), (EventKind::Added, "3")];
        let (state, verdicts) = play(state, &events);
        assert_eq!(verdicts, [Output::Deliver, Output::Deliver, Output::Deliver]);
        let (state, outputs) = go(state, event(EventKind::Bookmark, &version("12")));
        assert_eq!(outputs, [Output::Arm(Deadline::Bookmark)]);
        assert_eq!(position(&state), &Position { unstable: true, ..listed(none) });
        let (_, outputs) = go(state, Input::WatchEnded(WatchEnd::Full));
        assert_eq!(outputs, list_outputs(RelistCause::Stuck, ListAt::Consistent, Some(500), false));
    }
}

/// A resumed watch would return the current state, but not the deletions.
#[test]
fn watch_without_version_is_followed_by_relist() {
    for none in NO_POINTS {
        let state = || State::Watching(Watching { delivered: true, ..opened(listed(none)) });
        let list = list_outputs(RelistCause::Stuck, ListAt::Consistent, Some(500), false);
        for end in [Input::WatchEnded(WatchEnd::Full), Input::Fired(Deadline::Bookmark)] {
            assert_eq!(go(state(), end).1, list);
        }
        let hasty = [WatchEnd::Short, WatchEnd::Early].map(Input::WatchEnded);
        for end in [hasty.as_slice(), &[failed(ErrorClass::Broken), failed(ErrorClass::Overloaded)]].concat()
        {
            let (state, outputs) = go(state(), end);
            assert_eq!(outputs, [Output::BackOff(None)], "{end:?}");
            assert_eq!(go(state, Input::Fired(Deadline::Backoff)).1, list);
        }
    }
}

#[test]
fn expiry_after_progress_causes_immediate_list() {
    for (class, cause) in
        [(ErrorClass::Expired, RelistCause::Expired), (ErrorClass::TooLarge, RelistCause::TooLarge)]
    {
        let (state, outputs) = go(watching(moved("9")), failed(class));
        assert_eq!(state, first_page(immediate(fresh())));
        assert_eq!(outputs, list_outputs(cause, ListAt::Consistent, Some(500), true));
    }
}

#[test]
fn expiry_without_progress_waits() {
    for class in [ErrorClass::Expired, ErrorClass::TooLarge] {
        let (state, outputs) = go(watching(listed("9")), failed(class));
        assert_eq!(outputs, [Output::BackOff(None)]);
        let (state, _) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(state, first_page(fresh()));
    }
}

/// One event after each list would otherwise make each expiry look like a new one.
#[test]
fn second_expiry_waits_after_progress() {
    let (state, _) = go(watching(moved("9")), failed(ErrorClass::Expired));
    let (state, _) = go(state, page_end(&version("20"), None));
    let (state, _) = go(state, event(EventKind::Changed, &version("21")));
    let (_, outputs) = go(state, failed(ErrorClass::Expired));
    assert_eq!(outputs, [Output::BackOff(None)]);
}

#[test]
fn expiry_after_watch_that_lasted_is_immediate() {
    let (state, _) = go(first_page(fresh()), page_end(&version("20"), None));
    let (state, _) = go(state, event(EventKind::Changed, &version("21")));
    let (state, _) = go(state, Input::WatchEnded(WatchEnd::Full));
    let (state, _) = go(state, failed(ErrorClass::Expired));
    assert_eq!(state, first_page(immediate(fresh())));
}

#[test]
fn watch_respects_retry_after_for_each_failure() {
    let delay = Some(Duration::from_secs(9));
    for class in [ErrorClass::Expired, ErrorClass::TooLarge, ErrorClass::NotFound, ErrorClass::Broken] {
        let (_, outputs) = go(watching(listed("9")), Input::Failed(class, delay));
        assert_eq!(outputs, [Output::BackOff(delay)], "{class:?}");
    }
}

#[test]
fn delayed_relist_keeps_cause() {
    let stuck = watching(Position { stall_weight: 8, ..moved("9") });
    for (state, input, cause) in [
        (watching(listed("9")), failed(ErrorClass::Expired), RelistCause::Expired),
        (watching(listed("9")), failed(ErrorClass::TooLarge), RelistCause::TooLarge),
        (watching(listed("9")), failed(ErrorClass::NotFound), RelistCause::NotFound),
        (stuck, failed(ErrorClass::Broken), RelistCause::Stuck),
        (waiting(AfterBackoff::Watch(listed("9"))), Input::Relist, RelistCause::Requested),
    ] {
        let (state, _) = go(state, input);
        let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(outputs[0], Output::Count(cause));
    }
}

#[test]
fn full_watch_with_events_is_always_resumed() {
    let mut state = watching(listed("7"));
    for at in 8..50_u64 {
        state = go(state, event(EventKind::Changed, &at.into())).0;
        let (next, outputs) = go(state, Input::WatchEnded(WatchEnd::Full));
        assert_eq!(outputs, watch_outputs(&at.to_string()));
        state = next;
    }
}

#[test]
fn second_silent_watch_causes_relist() {
    for ending in
        [Input::WatchEnded(WatchEnd::Full), Input::Fired(Deadline::Watch), Input::Fired(Deadline::Bookmark)]
    {
        let (state, outputs) = go(watching(moved("9")), ending);
        assert_eq!(outputs, watch_outputs("9"));
        let (_, outputs) = go(state, ending);
        assert_eq!(outputs, list_outputs(RelistCause::Stuck, newer_than("9"), None, false));
    }
}

#[test]
fn repeated_bookmarks_do_not_end_silence() {
    let mut state = watching(moved("9"));
    for _ in 0..2 {
        state = go(state, event(EventKind::Bookmark, &version("9"))).0;
        state = go(state, Input::WatchEnded(WatchEnd::Full)).0;
    }
    assert_eq!(state, first_page(plan(newer_than("9"))));
}

#[test]
fn repeats_do_not_reset_stall_weight() {
    for failure in [failed(ErrorClass::Broken), Input::WatchEnded(WatchEnd::Early)] {
        let mut state = watching(moved("9"));
        for _ in 0..3 {
            state = go(state, event(EventKind::Changed, &version("9"))).0;
            state = go(state, failure).0;
            state = go(state, Input::Fired(Deadline::Backoff)).0;
        }
        assert_eq!(state, first_page(plan(newer_than("9"))));
    }
}

#[test]
fn silence_and_two_failures_cause_relist() {
    let (state, _) = go(watching(moved("9")), Input::WatchEnded(WatchEnd::Full));
    let (state, _) = go(state, failed(ErrorClass::Broken));
    let (state, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(outputs, watch_outputs("9"));
    let (state, _) = go(state, failed(ErrorClass::Broken));
    let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(outputs[0], Output::Count(RelistCause::Stuck));
}

#[test]
fn progress_resets_weight_of_silence() {
    let (state, _) = go(watching(moved("9")), Input::WatchEnded(WatchEnd::Full));
    let (state, _) = go(state, event(EventKind::Bookmark, &version("10")));
    let (state, _) = go(state, Input::WatchEnded(WatchEnd::Full));
    let (_, outputs) = go(state, Input::WatchEnded(WatchEnd::Full));
    assert_eq!(outputs, watch_outputs("10"));
}

#[test]
fn short_watch_is_resumed_immediately() {
    for state in [watching(moved("9")), spoken(moved("9"))] {
        let (_, outputs) = go(state, Input::WatchEnded(WatchEnd::Short));
        assert_eq!(outputs, watch_outputs("9"));
    }
}

/// A proxy that closes idle watches after a minute must not hide a future version.
#[test]
fn twelve_short_silent_watches_cause_delayed_relist() {
    let mut state = watching(moved("9"));
    for _ in 0..11 {
        let (next, outputs) = go(state, Input::WatchEnded(WatchEnd::Short));
        assert_eq!(outputs, watch_outputs("9"));
        state = next;
    }
    let (state, outputs) = go(state, Input::WatchEnded(WatchEnd::Short));
    assert_eq!(outputs, [Output::BackOff(None)]);
    let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(outputs, list_outputs(RelistCause::Stuck, newer_than("9"), None, false));
}

#[test]
fn early_end_delays_resume() {
    for state in [watching(moved("9")), spoken(moved("9"))] {
        let (state, outputs) = go(state, Input::WatchEnded(WatchEnd::Early));
        assert_eq!(outputs, [Output::BackOff(None)]);
        let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(outputs, watch_outputs("9"));
    }
}

#[test]
fn third_failure_causes_delayed_relist() {
    for failure in
        [failed(ErrorClass::Broken), failed(ErrorClass::Unsupported), Input::WatchEnded(WatchEnd::Early)]
    {
        let mut state = watching(moved("9"));
        for _ in 0..2 {
            let (waiting, outputs) = go(state, failure);
            assert_eq!(outputs, [Output::BackOff(None)]);
            let (next, outputs) = go(waiting, Input::Fired(Deadline::Backoff));
            assert_eq!(outputs, watch_outputs("9"));
            state = next;
        }
        let (state, outputs) = go(state, failure);
        assert_eq!(outputs, [Output::BackOff(None)]);
        let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(list_request(&outputs), Some(ListRequest { at: newer_than("9"), limit: None }));
    }
}

#[test]
fn progress_resets_weight_of_failures() {
    let mut state = watching(moved("9"));
    for at in 10..20_u64 {
        state = go(state, event(EventKind::Changed, &at.into())).0;
        state = go(state, failed(ErrorClass::Broken)).0;
        let (next, outputs) = go(state, Input::Fired(Deadline::Backoff));
        assert_eq!(outputs, watch_outputs(&at.to_string()));
        state = next;
    }
}

#[test]
fn rejection_does_not_cause_relist() {
    for class in causes() {
        let mut state = watching(moved("9"));
        for _ in 0..20 {
            let delay = Some(Duration::from_secs(9));
            let (waiting, outputs) = go(state, Input::Failed(class, delay));
            assert_eq!(outputs, [Output::BackOff(delay)]);
            let (next, outputs) = go(waiting, Input::Fired(Deadline::Backoff));
            let unavailable = matches!(class, ErrorClass::Overloaded | ErrorClass::Refused);
            let expected = watching(Position { check_version: unavailable, ..moved("9") });
            assert_eq!((&next, outputs), (&expected, watch_outputs("9")), "{class:?}");
            state = next;
        }
    }
}

/// A restored server accepts a watch from a later version, and sends no events.
#[test]
fn watch_after_failure_checks_version_of_server() {
    for class in [ErrorClass::Refused, ErrorClass::Overloaded, ErrorClass::Broken] {
        let (waiting, _) = go(watching(moved("9")), failed(class));
        let (opening, outputs) = go(waiting, Input::Fired(Deadline::Backoff));
        assert_eq!(outputs, watch_outputs("9"));
        let (unchecked, outputs) = go(opening, Input::Opened);
        assert_eq!(outputs, [Output::CheckVersion]);
        for reached in ["9", "10", ""] {
            let (state, outputs) = go(unchecked.clone(), Input::ServerVersion(&version(reached)));
            assert!(outputs.is_empty() && !position(&state).check_version, "{reached}");
        }
        let (state, outputs) = go(unchecked, Input::ServerVersion(&version("8")));
        assert_eq!(state, first_page(immediate(fresh())), "{class:?}");
        assert_eq!(outputs[0], Output::Count(RelistCause::TooLarge));
    }
    let (_, outputs) = go(watching(moved("9")), Input::Opened);
    assert_eq!(outputs, [], "no request failed");
}

#[test]
fn progress_makes_version_check_unnecessary() {
    let unchecked = watching(Position { check_version: true, ..moved("9") });
    let (state, _) = go(unchecked, event(EventKind::Bookmark, &version("10")));
    assert!(!position(&state).check_version);
    let (same, outputs) = go(state.clone(), Input::ServerVersion(&version("8")));
    assert_eq!((same, outputs), (state, vec![]), "a late response has no effect");
}

/// Property 13. A restored server rejects the version as too large, and a new epoch starts.
#[test]
fn missing_resource_suspends_watch_and_keeps_position() {
    let (state, outputs) = go(watching(moved("9")), failed(ErrorClass::NotFound));
    assert!(matches!(&state, State::Waiting(waiting) if waiting.suspended), "{state:?}");
    assert_eq!(outputs, [Output::BackOff(None)]);
    let (_, outputs) = go(state, Input::Fired(Deadline::Backoff));
    assert_eq!(list_request(&outputs), Some(ListRequest { at: newer_than("9"), limit: None }));
}

#[test]
fn requested_relist_starts_at_position() {
    let (_, outputs) = go(spoken(moved("9")), Input::Relist);
    assert_eq!(outputs, list_outputs(RelistCause::Requested, newer_than("9"), None, false));
}
