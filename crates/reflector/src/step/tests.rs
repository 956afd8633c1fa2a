//! Tests of single transitions of the state machine. This file contains constructors of states, inputs
//! and outputs, and tests of all states.

use std::time::Duration;

use kube_listwatch::{ErrorClass, ListAt, ListRequest};
use kube_object::ResourceVersion;

use super::*;
use crate::{
    AfterBackoff, Deadline, EventKind, FirstList, ListPlan, Listing, Marker, Position, RelistCause,
    ServerLimits, Streaming, Waiting, WatchEnd, Watching,
};

mod list;
mod stream;
mod untidy;
mod wait;
mod watch;

fn version(text: &str) -> ResourceVersion {
    ResourceVersion::new(text)
}

fn newer_than(text: &str) -> ListAt {
    ListAt::NotOlderThan(version(text))
}

fn plan(at: ListAt) -> ListPlan {
    ListPlan { at, fresh: false, unpaged: false, limits: ServerLimits::default(), immediate: false }
}

fn no_streaming() -> ServerLimits {
    ServerLimits { no_streaming: true, ..ServerLimits::default() }
}

fn no_watch_cache() -> ServerLimits {
    ServerLimits { no_watch_cache: true, ..ServerLimits::default() }
}

fn fresh() -> ListPlan {
    ListPlan { fresh: true, ..plan(ListAt::Consistent) }
}

/// Returns the plan as the immediate replacement of a failed list.
fn immediate(plan: ListPlan) -> ListPlan {
    ListPlan { immediate: true, ..plan }
}

/// Returns the state with the open first page of a plan.
fn first_page(plan: ListPlan) -> State {
    State::Listing(Listing {
        plan,
        version: None,
        token: None,
        earlier: None,
        pages: 0,
        empty_pages: 0,
        complete: true,
    })
}

/// Returns the state with an open later page. The first page had version 100.
fn later_page(plan: ListPlan) -> State {
    let (version, token) = (Some(version("100")), Some("s".to_owned()));
    State::Listing(Listing {
        plan,
        version,
        earlier: token.clone(),
        token,
        pages: 1,
        empty_pages: 1,
        complete: true,
    })
}

/// Returns the position after a list at a version.
fn listed(at: &str) -> Position {
    let version = version(at);
    Position {
        version,
        moved: false,
        unstable: false,
        stall_weight: 0,
        check_version: false,
        disordered: false,
        resumed: false,
        limits: ServerLimits::default(),
    }
}

/// Returns the position after an event at a version.
fn moved(at: &str) -> Position {
    Position { moved: true, ..listed(at) }
}

/// Returns the state with a streaming list of a plan that the server has accepted.
fn streaming(plan: ListPlan) -> State {
    State::Streaming(Streaming { plan, opened: true, relist: false })
}

/// Returns the state with a streaming list that the server has not accepted yet.
fn unopened(plan: ListPlan) -> State {
    State::Streaming(Streaming { plan, opened: false, relist: false })
}

/// Returns a watch without events.
fn opened(position: Position) -> Watching {
    Watching { position, opened: false, delivered: false, bookmarked: false }
}

fn watching(position: Position) -> State {
    State::Watching(opened(position))
}

/// Returns the state of a watch that delivered an event.
fn spoken(position: Position) -> State {
    State::Watching(Watching { opened: true, delivered: true, ..opened(position) })
}

/// Returns a list as a retry.
fn again(plan: ListPlan) -> AfterBackoff {
    AfterBackoff::List { plan, cause: RelistCause::Retry }
}

fn waiting(then: AfterBackoff) -> State {
    State::Waiting(Waiting { then, suspended: false })
}

fn suspended(then: AfterBackoff) -> State {
    State::Waiting(Waiting { then, suspended: true })
}

/// Returns options without streaming lists.
fn listing() -> ReflectorOptions {
    ReflectorOptions { streaming_lists: false, first_list: FirstList::Any, ..ReflectorOptions::default() }
}

/// Returns options with streaming lists.
fn streaming_lists() -> ReflectorOptions {
    ReflectorOptions { streaming_lists: true, first_list: FirstList::Any, ..ReflectorOptions::default() }
}

fn go(state: State, input: Input<'_>) -> (State, Vec<Output>) {
    step(state, input, &listing())
}

fn failed(class: ErrorClass) -> Input<'static> {
    Input::Failed(class, None)
}

fn event(kind: EventKind, version: &ResourceVersion) -> Input<'_> {
    Input::Event { kind, version }
}

fn page_end<'a>(version: &'a ResourceVersion, next: Option<&'a str>) -> Input<'a> {
    Input::PageEnd { version, next }
}

/// Returns the outputs that request the first page of a list.
fn list_outputs(cause: RelistCause, at: ListAt, limit: Option<u32>, fresh: bool) -> Vec<Output> {
    vec![
        Output::Count(cause),
        Output::List { request: ListRequest { at, limit }, fresh },
        Output::Arm(Deadline::List),
        Output::Mark(Marker::Begin { fresh }),
    ]
}

fn watch_outputs(from: &str) -> Vec<Output> {
    vec![Output::Watch(version(from)), Output::Arm(Deadline::Watch)]
}

/// Returns the list request of these outputs, if any.
fn list_request(outputs: &[Output]) -> Option<ListRequest> {
    outputs.iter().find_map(|output| match output {
        Output::List { request, .. } => Some(request.clone()),
        _ => None,
    })
}

fn causes() -> [ErrorClass; 4] {
    [ErrorClass::Overloaded, ErrorClass::Refused, ErrorClass::Unauthorized, ErrorClass::Forbidden]
}

/// Returns a state of each kind.
fn states() -> Vec<State> {
    vec![
        State::Idle,
        first_page(plan(ListAt::Any)),
        later_page(plan(newer_than("7"))),
        watching(listed("7")),
        spoken(moved("7")),
        streaming(plan(ListAt::Any)),
        unopened(plan(ListAt::Any)),
        waiting(again(plan(ListAt::Any))),
        waiting(AfterBackoff::Watch(moved("7"))),
    ]
}

/// Returns an input of each kind.
fn inputs(version: &ResourceVersion) -> Vec<Input<'_>> {
    vec![
        Input::Start,
        Input::Items { complete: true },
        Input::Opened,
        page_end(version, None),
        page_end(version, Some("t")),
        event(EventKind::Added, version),
        event(EventKind::Bookmark, version),
        event(EventKind::InitialEnd, version),
        Input::WatchEnded(WatchEnd::Early),
        Input::WatchEnded(WatchEnd::Short),
        Input::WatchEnded(WatchEnd::Full),
        failed(ErrorClass::Expired),
        failed(ErrorClass::TooLarge),
        failed(ErrorClass::NotFound),
        failed(ErrorClass::Forbidden),
        failed(ErrorClass::Broken),
        Input::Fired(Deadline::List),
        Input::Fired(Deadline::InitialEvents),
        Input::Fired(Deadline::Watch),
        Input::Fired(Deadline::Bookmark),
        Input::Fired(Deadline::Backoff),
        Input::Relist,
    ]
}

/// Returns whether an output drops all deadlines: a request or a backoff.
fn is_move(output: &Output) -> bool {
    matches!(output, Output::List { .. } | Output::Stream { .. } | Output::Watch(_) | Output::BackOff(_))
}

#[test]
fn transition_sends_at_most_one_request_with_deadline() {
    let version = version("9");
    let all = states()
        .into_iter()
        .flat_map(|state| inputs(&version).into_iter().map(move |input| (state.clone(), input)));
    for (state, input) in all {
        for options in [listing(), streaming_lists()] {
            let (_, outputs) = step(state.clone(), input, &options);
            let moves: Vec<_> = outputs.iter().enumerate().filter(|(_, output)| is_move(output)).collect();
            assert!(moves.len() <= 1, "{state:?} {input:?}: {outputs:?}");
            if let Some((at, Output::List { .. } | Output::Stream { .. } | Output::Watch(_))) = moves.first()
            {
                assert!(matches!(outputs[at + 1], Output::Arm(_)), "{state:?} {input:?}: {outputs:?}");
            }
        }
    }
}

#[test]
fn unexpected_input_does_not_change_state() {
    let version = version("9");
    let unexpected = [
        (first_page(plan(ListAt::Any)), event(EventKind::Added, &version)),
        (first_page(plan(ListAt::Any)), Input::WatchEnded(WatchEnd::Full)),
        (first_page(plan(ListAt::Any)), Input::Fired(Deadline::Watch)),
        (first_page(plan(ListAt::Any)), Input::Fired(Deadline::Backoff)),
        (watching(listed("7")), Input::Items { complete: false }),
        (watching(listed("7")), page_end(&version, None)),
        (watching(listed("7")), Input::Fired(Deadline::List)),
        (watching(listed("7")), Input::Start),
        (watching(listed("7")), Input::Fired(Deadline::InitialEvents)),
        (streaming(plan(ListAt::Any)), page_end(&version, None)),
        (streaming(plan(ListAt::Any)), Input::Fired(Deadline::Backoff)),
        (waiting(AfterBackoff::Watch(listed("7"))), failed(ErrorClass::Expired)),
        (waiting(AfterBackoff::Watch(listed("7"))), event(EventKind::Added, &version)),
        (waiting(AfterBackoff::Watch(listed("7"))), Input::Fired(Deadline::Watch)),
        (State::Idle, Input::Relist),
        (State::Idle, Input::Fired(Deadline::Backoff)),
    ];
    for (state, input) in unexpected {
        assert_eq!(go(state.clone(), input), (state.clone(), vec![]), "{state:?} {input:?}");
    }
}
