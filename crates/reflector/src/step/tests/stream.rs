//! Streaming lists: how they begin, end and are given up.

use super::*;

fn stream(state: State, input: Input<'_>) -> (State, Vec<Output>) {
    step(state, input, &ReflectorOptions::default())
}

fn stream_outputs(cause: RelistCause, not_older_than: Option<&str>, fresh: bool) -> Vec<Output> {
    vec![
        Output::Count(cause),
        Output::Stream { not_older_than: not_older_than.map(version), fresh },
        Output::Arm(Deadline::Watch),
        Output::Arm(Deadline::List),
        Output::Arm(Deadline::InitialEvents),
        Output::Mark(Marker::Begin { fresh }),
    ]
}

/// The plan of the list that is asked for after a delay in place of the streaming list of this plan.
fn instead(plan: ListPlan) -> ListPlan {
    ListPlan { unstreamed: true, ..plan }
}

#[test]
fn the_first_list_streams_the_most_recent_state() {
    let expected = (streaming(plan(ListAt::Any)), stream_outputs(RelistCause::Start, None, false));
    assert_eq!(stream(State::Idle, Input::Start), expected);
}

#[test]
fn a_relist_streams_a_state_that_is_no_older_than_what_was_seen() {
    let expected = stream_outputs(RelistCause::Requested, Some("9"), false);
    assert_eq!(stream(watching(moved("9")), Input::Relist), (streaming(plan(newer_than("9"))), expected));
}

#[test]
fn what_comes_before_the_end_belongs_to_the_list_and_keeps_its_deadline_off() {
    for kind in [EventKind::Added, EventKind::Changed] {
        let (state, outputs) = stream(streaming(plan(ListAt::Any)), event(kind, &version("3")));
        assert_eq!(state, streaming(plan(ListAt::Any)));
        assert_eq!(outputs, [Output::Deliver, Output::Arm(Deadline::InitialEvents)]);
    }
}

#[test]
fn its_end_ends_the_list_and_the_same_request_goes_on_as_a_watch() {
    let at = version("50");
    let (state, outputs) = stream(streaming(plan(ListAt::Any)), event(EventKind::InitialEnd, &at));
    assert_eq!(state, watching(listed("50")));
    let mark = Output::Mark(Marker::End { version: at, complete: true });
    let disarmed = [Deadline::List, Deadline::InitialEvents].map(Output::Disarm);
    assert_eq!(outputs, [vec![mark], disarmed.to_vec()].concat());
}

/// Property 13.
#[test]
fn an_end_at_a_version_older_than_asked_for_is_none() {
    let state = streaming(plan(newer_than("9")));
    let (after, outputs) = stream(state.clone(), event(EventKind::InitialEnd, &version("8")));
    assert_eq!((after, outputs), (state.clone(), vec![]));
    let (after, _) = stream(state, event(EventKind::InitialEnd, &version("9")));
    assert!(matches!(after, State::Watching(_)), "{after:?}");
}

#[test]
fn a_server_that_gives_none_is_asked_for_a_list_at_once() {
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
fn a_list_in_the_place_of_two_waits() {
    let (state, outputs) = stream(streaming(immediate(fresh())), failed(ErrorClass::Unsupported));
    assert_eq!((state, outputs), (waiting(again(instead(fresh()))), vec![Output::BackOff(None)]));
}

#[test]
fn a_server_that_asks_for_time_is_asked_for_the_list_after_it() {
    let nine = Some(Duration::from_secs(9));
    let (state, outputs) = stream(streaming(plan(ListAt::Any)), Input::Failed(ErrorClass::Broken, nine));
    assert_eq!((state, outputs), (waiting(again(instead(plan(ListAt::Any)))), vec![Output::BackOff(nine)]));
}

#[test]
fn an_overloaded_server_is_asked_for_a_streaming_list_again() {
    for class in [ErrorClass::Overloaded, ErrorClass::Refused] {
        let (state, outputs) = stream(streaming(plan(newer_than("7"))), failed(class));
        assert_eq!((state, outputs), (waiting(again(plan(newer_than("7")))), vec![Output::BackOff(None)]));
    }
}

#[test]
fn a_version_that_the_server_has_not_is_followed_by_the_most_recent_state() {
    for (class, cause) in
        [(ErrorClass::Expired, RelistCause::Expired), (ErrorClass::TooLarge, RelistCause::TooLarge)]
    {
        let expected = (streaming(immediate(fresh())), stream_outputs(cause, None, true));
        assert_eq!(stream(streaming(plan(newer_than("7"))), failed(class)), expected);
        let expected = (waiting(again(fresh())), vec![Output::BackOff(None)]);
        assert_eq!(stream(streaming(fresh()), failed(class)), expected);
    }
}

#[test]
fn a_resource_that_is_gone_is_waited_for() {
    let (state, outputs) = stream(streaming(plan(newer_than("7"))), failed(ErrorClass::NotFound));
    assert_eq!((state, outputs), (suspended(again(plan(newer_than("7")))), vec![Output::BackOff(None)]));
}

/// Property 2: what was lost may have been lost by this very request.
#[test]
fn a_relist_that_is_asked_for_meanwhile_follows_it() {
    let (asked, outputs) = stream(streaming(plan(ListAt::Any)), Input::Relist);
    assert_eq!(outputs, []);
    let at = version("50");
    let (state, outputs) = stream(asked.clone(), event(EventKind::InitialEnd, &at));
    let then = AfterBackoff::List { plan: ListPlan::relist(&listed("50")), cause: RelistCause::Requested };
    assert_eq!(state, waiting(then));
    let end = Output::Mark(Marker::End { version: at, complete: true });
    assert_eq!(outputs, [end, Output::BackOff(None)]);
    let (after, outputs) = stream(state.clone(), event(EventKind::Added, &version("51")));
    assert_eq!((after, outputs), (state, vec![]), "it is part of the relist");
    let (state, _) = stream(asked, Input::WatchEnded(WatchEnd::Short));
    assert_eq!(state, first_page(immediate(instead(plan(ListAt::Any)))), "another list is as good");
}

#[test]
fn that_a_server_gives_none_is_remembered_until_a_watch_has_lasted() {
    let (state, _) = stream(first_page(instead(plan(ListAt::Any))), page_end(&version("9"), None));
    let remembered = Position { unstreamed: true, ..listed("9") };
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
        assert_eq!(position.unstreamed, !forgotten, "{end:?}");
    }
}
