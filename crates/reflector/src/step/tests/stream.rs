//! Tests of streaming lists.

use super::*;

fn stream(state: State, input: Input<'_>) -> (State, Vec<Output>) {
    step(state, input, &streaming_lists())
}

fn stream_outputs(cause: RelistCause, not_older_than: Option<&str>, fresh: bool) -> Vec<Output> {
    vec![
        Output::Count(cause),
        Output::Stream { not_older_than: not_older_than.map(version), fresh },
        Output::Arm(Deadline::Watch),
        Output::Arm(Deadline::List),
        Output::Mark(Marker::Begin { fresh }),
    ]
}

/// Returns the plan of the list after a failed streaming list of this plan.
fn instead(plan: ListPlan) -> ListPlan {
    ListPlan { limits: ServerLimits { no_streaming: true, ..plan.limits }, ..plan }
}

#[test]
fn first_list_streams_most_recent_state() {
    let expected = (unopened(plan(ListAt::Any)), stream_outputs(RelistCause::Start, None, false));
    assert_eq!(stream(State::Idle, Input::Start), expected);
}

#[test]
fn streaming_relist_is_not_older_than_position() {
    let expected = stream_outputs(RelistCause::Requested, Some("9"), false);
    assert_eq!(stream(watching(moved("9")), Input::Relist), (unopened(plan(newer_than("9"))), expected));
}

#[test]
fn deadline_of_initial_events_starts_when_server_accepts_request() {
    let at = version("3");
    let arm = Output::Arm(Deadline::InitialEvents);
    let expected = (streaming(plan(ListAt::Any)), vec![arm.clone()]);
    assert_eq!(stream(unopened(plan(ListAt::Any)), Input::Opened), expected);
    for kind in [EventKind::Added, EventKind::Changed] {
        let expected = (streaming(plan(ListAt::Any)), vec![Output::Deliver, arm.clone()]);
        assert_eq!(stream(unopened(plan(ListAt::Any)), event(kind, &at)), expected, "without Opened");
    }
}

/// A server that handles the request as a plain watch sends changes indefinitely.
#[test]
fn only_added_event_extends_deadline_of_initial_events() {
    let at = version("3");
    let (state, outputs) = stream(streaming(plan(ListAt::Any)), event(EventKind::Added, &at));
    assert_eq!(state, streaming(plan(ListAt::Any)));
    assert_eq!(outputs, [Output::Deliver, Output::Arm(Deadline::InitialEvents)]);
    let (state, outputs) = stream(streaming(plan(ListAt::Any)), event(EventKind::Changed, &at));
    assert_eq!((state, outputs), (streaming(plan(ListAt::Any)), vec![Output::Deliver]));
}

/// A server with streaming lists sends no other bookmark before the marked bookmark.
#[test]
fn unmarked_bookmark_causes_immediate_list() {
    let (state, _) = stream(streaming(plan(ListAt::Any)), event(EventKind::Bookmark, &version("3")));
    assert_eq!(state, first_page(immediate(instead(plan(ListAt::Any)))));
}

/// The request may wait in a queue of an overloaded server, which must not receive a further request.
#[test]
fn list_after_stream_without_response_waits() {
    for deadline in [Deadline::List, Deadline::Watch] {
        let (state, outputs) = stream(unopened(plan(ListAt::Any)), Input::Fired(deadline));
        assert_eq!(
            (state, outputs),
            (waiting(again(instead(plan(ListAt::Any)))), vec![Output::BackOff(None)])
        );
    }
}

#[test]
fn end_of_streaming_list_becomes_watch() {
    let at = version("50");
    let (state, outputs) = stream(streaming(plan(ListAt::Any)), event(EventKind::InitialEnd, &at));
    assert_eq!(state, State::Watching(Watching { opened: true, ..opened(listed("50")) }));
    let mark = Output::Mark(Marker::End { version: at, complete: true });
    let disarmed = [Deadline::List, Deadline::InitialEvents].map(Output::Disarm);
    assert_eq!(outputs, [vec![mark], disarmed.to_vec()].concat());
}

/// Property 13.
#[test]
fn initial_end_older_than_requested_is_ignored() {
    let state = streaming(plan(newer_than("9")));
    let (after, outputs) = stream(state.clone(), event(EventKind::InitialEnd, &version("8")));
    assert_eq!((after, outputs), (state.clone(), vec![]));
    let (after, _) = stream(state, event(EventKind::InitialEnd, &version("9")));
    assert!(matches!(after, State::Watching(_)), "{after:?}");
}

#[test]
fn failed_streaming_list_causes_immediate_list() {
    for at in [ListAt::Any, newer_than("7")] {
        let plan = plan(at);
        let ways = [
            failed(ErrorClass::Unsupported),
            failed(ErrorClass::Broken),
            failed(ErrorClass::Forbidden),
            failed(ErrorClass::Unauthorized),
            Input::WatchEnded(WatchEnd::Early),
            Input::WatchEnded(WatchEnd::Short),
            Input::WatchEnded(WatchEnd::Full),
            Input::Fired(Deadline::InitialEvents),
            Input::Fired(Deadline::List),
            Input::Fired(Deadline::Watch),
        ];
        for way in ways {
            let (state, outputs) = stream(streaming(plan.clone()), way);
            assert_eq!(state, first_page(immediate(instead(plan.clone()))), "{way:?}");
            let limit = matches!(plan.at, ListAt::Any).then_some(500);
            assert_eq!(outputs, list_outputs(RelistCause::Retry, plan.at.clone(), limit, false), "{way:?}");
        }
    }
}

#[test]
fn list_after_two_failed_lists_waits() {
    let (state, outputs) = stream(streaming(immediate(fresh())), failed(ErrorClass::Unsupported));
    assert_eq!((state, outputs), (waiting(again(instead(fresh()))), vec![Output::BackOff(None)]));
}

#[test]
fn retry_after_delays_list_after_stream() {
    let nine = Some(Duration::from_secs(9));
    let (state, outputs) = stream(streaming(plan(ListAt::Any)), Input::Failed(ErrorClass::Broken, nine));
    assert_eq!((state, outputs), (waiting(again(instead(plan(ListAt::Any)))), vec![Output::BackOff(nine)]));
}

#[test]
fn overloaded_server_gets_streaming_list_again() {
    for class in [ErrorClass::Overloaded, ErrorClass::Refused] {
        let (state, outputs) = stream(streaming(plan(newer_than("7"))), failed(class));
        assert_eq!((state, outputs), (waiting(again(plan(newer_than("7")))), vec![Output::BackOff(None)]));
    }
}

#[test]
fn unavailable_version_causes_consistent_streaming_list() {
    for (class, cause) in
        [(ErrorClass::Expired, RelistCause::Expired), (ErrorClass::TooLarge, RelistCause::TooLarge)]
    {
        let expected = (unopened(immediate(fresh())), stream_outputs(cause, None, true));
        assert_eq!(stream(streaming(plan(newer_than("7"))), failed(class)), expected);
    }
    let expected = (waiting(again(fresh())), vec![Output::BackOff(None)]);
    assert_eq!(stream(streaming(fresh()), failed(ErrorClass::TooLarge)), expected);
}

/// The server forgets events before it has sent the current state.
#[test]
fn expired_streaming_list_of_latest_state_is_repeated_as_plain_list() {
    let expected = (waiting(again(instead(fresh()))), vec![Output::BackOff(None)]);
    assert_eq!(stream(streaming(fresh()), failed(ErrorClass::Expired)), expected);
}

#[test]
fn missing_resource_suspends_streaming_list() {
    let (state, outputs) = stream(streaming(plan(newer_than("7"))), failed(ErrorClass::NotFound));
    assert_eq!((state, outputs), (suspended(again(plan(newer_than("7")))), vec![Output::BackOff(None)]));
}

/// Property 2. This streaming list may have lost the events.
#[test]
fn requested_relist_follows_streaming_list() {
    let (asked, outputs) = stream(streaming(plan(ListAt::Any)), Input::Relist);
    assert_eq!(outputs, []);
    let at = version("50");
    let (state, outputs) = stream(asked.clone(), event(EventKind::InitialEnd, &at));
    let then = AfterBackoff::List { plan: ListPlan::relist(&listed("50")), cause: RelistCause::Requested };
    assert_eq!(state, waiting(then));
    let end = Output::Mark(Marker::End { version: at, complete: true });
    assert_eq!(outputs, [end, Output::BackOff(None)]);
    let (after, outputs) = stream(state.clone(), event(EventKind::Added, &version("51")));
    assert_eq!((after, outputs), (state, vec![]), "the event is part of the relist");
    let (state, _) = stream(asked, Input::WatchEnded(WatchEnd::Short));
    assert_eq!(
        state,
        first_page(immediate(instead(plan(ListAt::Any)))),
        "another list satisfies the request"
    );
}

#[test]
fn failed_streaming_is_remembered_until_watch_lasts() {
    let (state, _) = stream(first_page(instead(plan(ListAt::Any))), page_end(&version("9"), None));
    let remembered = Position { limits: no_streaming(), ..listed("9") };
    assert_eq!(state, watching(remembered.clone()));
    let (state, _) = stream(state, Input::Relist);
    assert_eq!(state, first_page(instead(plan(newer_than("9")))));
    for (end, forgotten) in [(WatchEnd::Early, false), (WatchEnd::Short, false), (WatchEnd::Full, true)] {
        let (state, _) = stream(spoken(remembered.clone()), Input::WatchEnded(end));
        let (State::Watching(Watching { position, .. })
        | State::Waiting(Waiting { then: AfterBackoff::Watch(position), .. })) = state
        else {
            panic!("{state:?}")
        };
        assert_eq!(position.limits.no_streaming, !forgotten, "{end:?}");
    }
}
