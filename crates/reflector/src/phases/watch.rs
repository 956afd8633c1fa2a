//! A watch: its events, its end and its failures.

use std::time::Duration;

use kube_listwatch::ErrorClass;
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, list, suspend};
use crate::{
    AfterBackoff, Deadline, EventKind, Input, ListPlan, Output, Position, ReflectorOptions, RelistCause,
    State, WatchEnd, Watching,
    position::{StallKind, is_a_point},
};

/// Watch from where we are.
pub(crate) fn begin(position: Position) -> Step {
    let outputs = vec![Output::Watch(position.version.clone()), Output::Arm(Deadline::Watch)];
    let synthetic = !is_a_point(&position.version);
    (State::Watching(Watching { position, spoke: false, bookmarked: false, synthetic }), outputs)
}

pub(crate) fn step(watching: Watching, input: Input<'_>, options: &ReflectorOptions) -> Step {
    match input {
        Input::Event { kind, version } => event(watching, kind, version),
        Input::WatchEnded(end) => ended(watching, end, options),
        Input::Failed(class, retry_after) => failed(watching.position, class, retry_after, options),
        Input::Fired(Deadline::Watch | Deadline::Bookmark) => ended(watching, WatchEnd::Full, options),
        Input::Relist => list::begin(ListPlan::relist(&watching.position), RelistCause::Asked, options),
        other => ignore(State::Watching(watching), other),
    }
}

fn event(watching: Watching, kind: EventKind, version: &ResourceVersion) -> Step {
    let Watching { position, spoke, bookmarked, synthetic } = watching;
    let is_bookmark = matches!(kind, EventKind::Bookmark | EventKind::InitialEnd);
    let bookmarked = bookmarked || is_bookmark;
    // The current state comes as ADDED events in no order: the position stays until it is over.
    let synthetic = synthetic && kind == EventKind::Added;
    let (position, verdict) = match (synthetic, position.has_passed(version)) {
        (true, _) => (position, Output::Deliver),
        // After an etcd restore all that the server says may lie in our past: this is no sign of
        // progress.
        (false, true) => (position, Output::Discard),
        // Without a version a bookmark says nothing. An event changes something, but leads nowhere
        // to resume from.
        (false, false) if !is_a_point(version) => match is_bookmark {
            true => (position, Output::Discard),
            false => (position, Output::Deliver),
        },
        (false, false) => (position.moved_to(version.clone()), Output::Deliver),
    };
    let spoke = spoke || verdict == Output::Deliver;
    let mut outputs = vec![verdict];
    if bookmarked {
        outputs.push(Output::Arm(Deadline::Bookmark));
    }
    (State::Watching(Watching { position, spoke, bookmarked, synthetic }), outputs)
}

fn ended(watching: Watching, end: WatchEnd, options: &ReflectorOptions) -> Step {
    let Watching { position, spoke, .. } = watching;
    let position = match (end, spoke) {
        (WatchEnd::Early, _) => position.after(StallKind::Failure),
        (WatchEnd::Short, false) => position.after(StallKind::ShortSilence),
        (WatchEnd::Full, false) => position.lasted().after(StallKind::Silence),
        (WatchEnd::Short, true) => position,
        (WatchEnd::Full, true) => position.lasted(),
    };
    match (end, next(position)) {
        (WatchEnd::Short | WatchEnd::Full, AfterBackoff::Watch(position)) => begin(position),
        (WatchEnd::Full, AfterBackoff::List { plan, cause }) => list::begin(plan, cause, options),
        // Watches as short as these must not lead to one list after the other.
        (WatchEnd::Early, then) | (WatchEnd::Short, then @ AfterBackoff::List { .. }) => back_off(then, None),
    }
}

/// Go on from here, or list where that leads nowhere. A watch without a version to begin after
/// shows what there is and not what has been deleted meanwhile.
fn next(position: Position) -> AfterBackoff {
    match position.is_stuck() || !is_a_point(&position.version) {
        true => AfterBackoff::List { plan: ListPlan::relist(&position), cause: RelistCause::Stuck },
        false => AfterBackoff::Watch(position),
    }
}

fn failed(
    position: Position,
    class: ErrorClass,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    match class {
        ErrorClass::Expired | ErrorClass::TooLarge => expired(&position, class, retry_after, options),
        ErrorClass::NotFound => {
            suspend(ListPlan::relist(&position), RelistCause::NotFound, retry_after, options)
        }
        ErrorClass::Overloaded | ErrorClass::Refused | ErrorClass::Unauthorized | ErrorClass::Forbidden => {
            back_off(next(position), retry_after)
        }
        _ => back_off(next(position.after(StallKind::Failure)), retry_after),
    }
}

/// A version that a list gave and that is gone at once would be gone again: don't loop. The same
/// if it is gone after an event or two, and was so before.
fn expired(
    position: &Position,
    class: ErrorClass,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    let plan = ListPlan::most_recent(position).without_reuse();
    let cause = if class == ErrorClass::Expired { RelistCause::Expired } else { RelistCause::TooLarge };
    match position.may_expire() {
        true => list::instead(plan, cause, retry_after, options),
        false => back_off(AfterBackoff::List { plan, cause }, retry_after),
    }
}
