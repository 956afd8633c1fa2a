//! Tests of watches whose events have no order, and of watches that fail after they open.

use super::{
    watch::{deliver, play, position},
    *,
};

/// Returns the outputs of the first event out of order after a list.
pub(super) fn suspicious() -> Vec<Output> {
    vec![Output::Discard, Output::CheckVersion]
}

/// The server was restored, or its versions have no order. The discarded event can then be a change.
#[test]
fn event_out_of_order_checks_version_once_and_causes_list_after_watch() {
    let (state, outputs) = go(watching(moved("9")), event(EventKind::Bookmark, &version("8")));
    assert_eq!(outputs[..2], suspicious());
    let (state, outputs) = go(state, event(EventKind::Changed, &version("7")));
    assert_eq!(outputs[0], Output::Discard);
    assert!(!outputs.contains(&Output::CheckVersion), "the second event: {outputs:?}");
    let (state, _) = go(state, event(EventKind::Changed, &version("20")));
    let (state, _) = go(state, Input::ServerVersion(&version("20")));
    let (ended, outputs) = go(state.clone(), Input::WatchEnded(WatchEnd::Full));
    assert_eq!(ended, first_page(plan(newer_than("20"))));
    assert_eq!(outputs[0], Output::Count(RelistCause::Stuck));
    for input in [Input::WatchEnded(WatchEnd::Short), failed(ErrorClass::Broken)] {
        let (state, _) = go(state.clone(), input);
        let expected = AfterBackoff::List { plan: plan(newer_than("20")), cause: RelistCause::Stuck };
        assert_eq!(state, waiting(expected), "{input:?}");
    }
}

#[test]
fn bookmark_at_position_is_no_evidence() {
    let (state, outputs) = go(watching(moved("9")), event(EventKind::Bookmark, &version("9")));
    assert_eq!((position(&state), &outputs[0]), (&moved("9"), &Output::Discard));
    assert!(!outputs.contains(&Output::CheckVersion));
}

/// Versions of such a server may count per object.
#[test]
fn opaque_position_does_not_move_to_number() {
    for (from, to, moves) in [("etag-7", "9", false), ("9", "etag-7", false), ("etag-7", "etag-8", true)] {
        let (state, outputs) = go(watching(listed(from)), event(EventKind::Changed, &version(to)));
        let expected = if moves { moved(to) } else { listed(from) };
        let expected = Position { disordered: !moves, ..expected };
        assert_eq!((position(&state), outputs), (&expected, deliver()), "{from} to {to}");
    }
    let (_, verdicts) = play(
        watching(listed("etag-7")),
        &[(EventKind::Changed, "50"), (EventKind::Changed, "4"), (EventKind::Bookmark, "60")],
    );
    assert_eq!(verdicts, [Output::Deliver, Output::Deliver, Output::Discard]);
}

/// A watch from the position would repeat the event after later events of the same object.
#[test]
fn event_that_does_not_move_position_causes_list_after_watch() {
    let opaque = go(watching(listed("etag-7")), event(EventKind::Changed, &version("9"))).0;
    let numeric = go(watching(listed("9")), event(EventKind::Changed, &version("etag-7"))).0;
    for (state, at) in [(opaque, ListAt::Consistent), (numeric, newer_than("9"))] {
        let (ended, outputs) = go(state.clone(), Input::WatchEnded(WatchEnd::Full));
        assert_eq!((ended, &outputs[0]), (first_page(plan(at.clone())), &Output::Count(RelistCause::Stuck)));
        let (state, _) = go(state, Input::WatchEnded(WatchEnd::Short));
        let expected = AfterBackoff::List { plan: plan(at), cause: RelistCause::Stuck };
        assert_eq!(state, waiting(expected));
    }
    let (state, _) = go(watching(listed("etag-7")), event(EventKind::Changed, &version("etag-8")));
    let (state, _) = go(state, Input::WatchEnded(WatchEnd::Full));
    assert_eq!(position(&state).version, version("etag-8"));
}

/// A server that accepts each watch and then rejects it never sends an event.
#[test]
fn failures_of_open_watches_cause_relist() {
    for class in [ErrorClass::Overloaded, ErrorClass::Unauthorized, ErrorClass::Forbidden] {
        let mut state = watching(listed("7"));
        for _ in 0..2 {
            let (open, _) = go(state, Input::Opened);
            let (wait, _) = go(open, failed(class));
            (state, _) = go(wait, Input::Fired(Deadline::Backoff));
            assert!(matches!(state, State::Watching(_)), "{class:?}");
        }
        let (open, _) = go(state, Input::Opened);
        let (state, _) = go(open, failed(class));
        let expected = AfterBackoff::List { plan: plan(newer_than("7")), cause: RelistCause::Stuck };
        assert_eq!(state, waiting(expected), "{class:?}");
    }
}
