//! Tests of the slots as a pure state machine.

use kube_listwatch::{ErrorClass, ListAt, ListRequest};

use super::*;
use crate::{AfterBackoff, Deadline, ListPlan, Marker, State, Watching};

fn set(slots: &[u8]) -> SlotSet {
    slots.iter().copied().map(Slot).collect()
}

fn version(number: u64) -> ResourceVersion {
    number.into()
}

fn at(number: u64) -> Position {
    let options = ReflectorOptions::default();
    Position::listed(version(number), &ListPlan::first(&options))
}

/// Slots with the actions of the last inputs as text.
struct Run(Slots, ReflectorOptions);

impl Run {
    fn new(wanted: &[u8]) -> Self {
        Self(Slots::new(set(wanted)), ReflectorOptions::default())
    }

    /// Returns slots that are listed and watched.
    fn watching(wanted: &[u8]) -> Self {
        let mut run = Self::new(wanted);
        for input in [SlotsInput::Start, SlotsInput::ListBegan, SlotsInput::ListEnded, SlotsInput::WatchBegan]
        {
            run.step(input);
        }
        run
    }

    fn step(&mut self, input: SlotsInput<'_>) -> Vec<String> {
        self.0.step(input, &self.1).iter().map(text).collect()
    }

    fn want(&mut self, slots: &[u8]) -> Vec<String> {
        self.step(SlotsInput::Wanted(set(slots)))
    }

    fn settle(&mut self, position: u64) -> Vec<String> {
        self.step(SlotsInput::Settled(Some(&at(position))))
    }

    fn gain(&mut self, input: Input<'_>) -> Vec<String> {
        self.step(SlotsInput::Gain(input))
    }

    fn page_end(&mut self, number: u64, next: Option<&str>) -> Vec<String> {
        self.gain(Input::PageEnd { version: &version(number), next })
    }

    fn route(&self, slot: u8, number: u64) -> Route {
        self.0.route(Slot(slot), &version(number))
    }
}

fn text(output: &SlotsOutput) -> String {
    match output {
        SlotsOutput::Start => "start".to_owned(),
        SlotsOutput::Stop => "stop".to_owned(),
        SlotsOutput::Rewatch => "rewatch".to_owned(),
        SlotsOutput::Relist => "relist".to_owned(),
        SlotsOutput::Hold(slots) => format!("hold {slots}"),
        SlotsOutput::DropGain => "drop".to_owned(),
        SlotsOutput::Fill { filled, gained, version } => format!("fill {gained}@{version} -> {filled}"),
        SlotsOutput::Gain(Output::List {
            request: ListRequest { at: ListAt::Consistent, limit: Some(500) },
            ..
        }) => "list".to_owned(),
        SlotsOutput::Gain(Output::List {
            request: ListRequest { at: ListAt::Continue(token), .. }, ..
        }) => {
            format!("list {token}")
        }
        SlotsOutput::Gain(Output::Count(cause)) => format!("count {cause}"),
        SlotsOutput::Gain(Output::Arm(Deadline::List)) => "arm".to_owned(),
        SlotsOutput::Gain(Output::Mark(Marker::Begin { .. })) => "begin".to_owned(),
        SlotsOutput::Gain(Output::Deliver) => "deliver".to_owned(),
        SlotsOutput::Gain(Output::BackOff(_)) => "back off".to_owned(),
        SlotsOutput::Gain(other) => format!("{other:?}"),
    }
}

const LIST: [&str; 4] = ["count slots gained", "list", "arm", "begin"];

fn rewatch_and_list() -> Vec<&'static str> {
    ["rewatch"].into_iter().chain(LIST).collect()
}

#[test]
fn empty_set_sends_no_request() {
    let mut run = Run::new(&[]);
    assert_eq!(run.step(SlotsInput::Start), ["hold "]);
    assert_eq!(run.step(SlotsInput::Settled(None)), [""; 0]);
    assert_eq!(run.want(&[]), [""; 0]);
    assert_eq!(run.want(&[1]), ["start"]);
    assert_eq!(run.step(SlotsInput::ListBegan), ["hold 1"]);
    assert_eq!(run.want(&[]), ["stop", "drop", "hold "]);
    assert_eq!(run.route(1, 9), Route::Skip);
}

#[test]
fn gain_lists_only_missing_slots_next_to_the_watch() {
    let mut run = Run::watching(&[1, 2]);
    assert_eq!(run.want(&[1, 2, 3]), [""; 0]);
    assert_eq!(run.settle(10), rewatch_and_list());
    assert_eq!((run.0.requested(false), run.0.requested_gain()), (set(&[1, 2, 3]), set(&[3])));
    run.step(SlotsInput::WatchBegan);
    assert_eq!(run.settle(11), [""; 0], "the list of the slot is open");
    assert_eq!(
        (run.route(1, 12), run.route(3, 12), run.route(4, 12)),
        (Route::Deliver, Route::Collect, Route::Skip)
    );
    assert_eq!(run.gain(Input::Items { complete: true }), ["deliver"]);
    assert_eq!(run.page_end(15, Some("t")), ["list t", "arm"]);
    assert_eq!(run.page_end(15, None), ["fill 3@15 -> 1-3", "drop"]);
    assert_eq!(run.settle(12), [""; 0]);
}

#[test]
fn events_up_to_the_list_are_dropped_only_for_gained_slots() {
    let mut run = Run::watching(&[1]);
    run.want(&[1, 2]);
    run.settle(10);
    run.step(SlotsInput::WatchBegan);
    run.page_end(15, None);
    run.settle(12);
    assert_eq!((run.route(2, 15), run.route(2, 16)), (Route::Skip, Route::Deliver));
    assert_eq!((run.route(1, 13), run.route(1, 15)), (Route::Deliver, Route::Deliver));
    run.settle(15);
    assert!(run.0.ahead.is_empty(), "the watch has reached the list");
}

#[test]
fn list_older_than_the_watch_is_repeated() {
    let mut run = Run::watching(&[1]);
    run.want(&[1, 2]);
    run.settle(10);
    assert_eq!(run.page_end(9, None), ["back off"]);
    assert_eq!(run.route(2, 11), Route::Skip, "no list is open");
    assert_eq!(run.gain(Input::Fired(Deadline::Backoff)), ["drop"]);
    assert_eq!(run.settle(11), rewatch_and_list());
    assert_eq!(run.page_end(11, None), ["fill 2@11 -> 1-2", "drop"]);
}

#[test]
fn failed_gain_is_repeated_with_all_missing_slots() {
    let mut run = Run::watching(&[1]);
    run.want(&[1, 2]);
    run.settle(10);
    run.step(SlotsInput::WatchBegan);
    assert_eq!(run.gain(Input::Failed(ErrorClass::Broken, None)), ["back off"]);
    run.want(&[1, 2, 3]);
    assert_eq!(run.settle(12), [""; 0], "the backoff is not over");
    assert_eq!(run.route(1, 13), Route::Deliver, "the watch continues");
    assert_eq!(run.gain(Input::Fired(Deadline::Backoff)), ["drop"]);
    assert_eq!(run.settle(14), rewatch_and_list());
    assert_eq!(run.0.requested_gain(), set(&[2, 3]));
    assert_eq!(run.gain(Input::Fired(Deadline::List)), ["back off"], "a silent list also fails");
}

#[test]
fn expired_token_repeats_list_in_one_response_and_keeps_its_slots() {
    let mut run = Run::watching(&[1]);
    run.want(&[1, 2]);
    run.settle(10);
    run.page_end(15, Some("t"));
    run.want(&[1, 2, 3]);
    let outputs = run.gain(Input::Failed(ErrorClass::Expired, None));
    assert_eq!(outputs.first().map(String::as_str), Some("count expired"));
    assert_eq!(outputs.last().map(String::as_str), Some("begin"));
    assert_eq!(run.0.requested_gain(), set(&[2]));
    assert_eq!(run.page_end(20, None), ["fill 2@20 -> 1-2", "drop"]);
    assert_eq!(run.settle(18), rewatch_and_list(), "slot 3 is listed next");
}

#[test]
fn lost_slots_leave_and_watch_continues() {
    let mut run = Run::watching(&[1, 2]);
    assert_eq!(run.want(&[1]), ["hold 1"]);
    assert_eq!((run.route(1, 9), run.route(2, 9)), (Route::Deliver, Route::Skip));
    assert_eq!(run.settle(10), [""; 0], "the selector shrinks with the next watch");
    assert_eq!(run.want(&[1, 2]), [""; 0]);
    assert_eq!(run.settle(10), LIST, "the open watch already contains the slot");
    run.step(SlotsInput::WatchBegan);
    assert_eq!(run.want(&[2, 3]), ["hold "], "the gained slots are not lost");
    assert_eq!(run.page_end(12, None), ["fill 2@12 -> 2", "drop"]);
}

#[test]
fn slot_lost_during_its_list_is_listed_again() {
    let mut run = Run::watching(&[1]);
    run.want(&[1, 2, 3]);
    run.settle(10);
    assert_eq!(run.want(&[1, 3]), [""; 0]);
    assert!(!run.0.gains(Slot(2)) && run.0.gains(Slot(3)));
    run.want(&[1, 2, 3]);
    assert!(!run.0.gains(Slot(2)), "objects of the slot may have been dropped");
    assert_eq!(run.page_end(12, None), ["fill 3@12 -> 1,3", "drop"]);
    run.step(SlotsInput::WatchBegan);
    assert_eq!(run.settle(13), LIST);
    assert_eq!(run.0.requested_gain(), set(&[2]));
    assert_eq!(run.want(&[1, 3]), ["drop"], "the program no longer requests any slot of the list");
}

#[test]
fn slot_lost_after_gain_loses_the_version_of_its_list() {
    let mut run = Run::watching(&[1]);
    run.want(&[1, 2]);
    run.settle(10);
    run.page_end(20, None);
    run.want(&[1]);
    run.want(&[1, 2]);
    run.settle(12);
    assert_eq!(run.route(2, 15), Route::Collect);
    assert_eq!(run.page_end(13, None), ["fill 2@13 -> 1-2", "drop"], "a list of an API server that lags");
    assert_eq!((run.route(2, 13), run.route(2, 15)), (Route::Skip, Route::Deliver));
}

#[test]
fn list_of_all_slots_replaces_gain() {
    let mut run = Run::watching(&[1]);
    run.want(&[1, 2]);
    run.settle(10);
    assert_eq!(run.step(SlotsInput::ListBegan), ["drop", "hold 1-2"]);
    assert_eq!(run.page_end(12, None), [""; 0]);
    assert_eq!(run.step(SlotsInput::ListEnded), [""; 0]);
    assert_eq!(run.settle(12), [""; 0]);
    assert_eq!(run.route(2, 13), Route::Deliver);

    let mut run = Run::watching(&[1]);
    run.want(&[1, 2]);
    run.settle(10);
    assert_eq!(run.step(SlotsInput::Settled(None)), ["drop"], "a list of all slots follows after a backoff");
}

#[test]
fn slots_of_open_list_only_shrink() {
    let mut run = Run::new(&[1, 2]);
    run.step(SlotsInput::Start);
    run.step(SlotsInput::ListBegan);
    assert_eq!(run.want(&[2, 3]), ["hold 2"]);
    assert_eq!((run.0.requested(true), run.0.requested(false)), (set(&[1, 2]), set(&[2, 3])));
    run.want(&[1, 2, 3]);
    assert!(!run.0.lists(Slot(1)) && run.0.lists(Slot(2)) && !run.0.lists(Slot(3)));
    assert_eq!(
        (run.route(1, 5), run.route(2, 5)),
        (Route::Skip, Route::Deliver),
        "events of a streaming list"
    );
    run.step(SlotsInput::ListEnded);
    assert_eq!(run.settle(9), rewatch_and_list());
    assert_eq!(run.0.requested_gain(), set(&[1, 3]));
}

#[test]
fn list_of_only_lost_slots_is_restarted() {
    let mut run = Run::new(&[1]);
    run.step(SlotsInput::ListBegan);
    assert_eq!(run.want(&[2]), ["stop", "start"]);
    assert_eq!(run.step(SlotsInput::ListBegan), ["hold 2"]);
}

#[test]
fn versions_without_order_and_unnamed_items_list_all_slots() {
    for opaque in ["", "0", "abc"] {
        let mut run = Run::watching(&[1]);
        run.want(&[1, 2]);
        let position = Position { version: opaque.into(), ..at(1) };
        assert_eq!(run.step(SlotsInput::Settled(Some(&position))), ["relist"], "{opaque}");
        let mut run = Run::watching(&[1]);
        run.want(&[1, 2]);
        run.settle(10);
        let end = Input::PageEnd { version: &opaque.into(), next: None };
        assert_eq!(run.gain(end), ["drop", "relist"], "{opaque}");
    }
    let mut run = Run::watching(&[1]);
    run.want(&[1, 2]);
    run.settle(10);
    run.gain(Input::Items { complete: false });
    assert_eq!(run.page_end(12, None), ["drop", "relist"]);
}

#[test]
fn rewatch_resumes_open_watch_only() {
    let options = ReflectorOptions::default();
    let watching = Watching { position: at(9), opened: true, delivered: true, bookmarked: true };
    let (state, outputs) = crate::step(State::Watching(watching), Input::Rewatch, &options);
    let expected = Watching { position: at(9), opened: false, delivered: false, bookmarked: false };
    assert_eq!(state, State::Watching(expected));
    assert_eq!(outputs, [Output::Watch(version(9)), Output::Arm(Deadline::Watch)]);
    let waiting = State::Waiting(crate::Waiting { then: AfterBackoff::Watch(at(9)), suspended: false });
    assert_eq!(crate::step(waiting.clone(), Input::Rewatch, &options), (waiting, Vec::new()));
}
