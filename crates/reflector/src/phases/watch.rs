//! A watch: its events, its end and its failures.

use std::time::Duration;

use kube_listwatch::Class;
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, list, suspend};
use crate::{
    Deadline, EventKind, Input, ListPlan, Options, Output, Position, RelistCause, State, Then, WatchEnd,
    Watching,
    position::{Fruitless, is_a_point},
};

/// Watch from where we are.
pub(crate) fn begin(position: Position) -> Step {
    let outputs = vec![Output::Watch(position.version.clone()), Output::Arm(Deadline::Watch)];
    let synthetic = !is_a_point(&position.version);
    (State::Watching(Watching { position, spoke: false, bookmarked: false, synthetic }), outputs)
}

pub(crate) fn step(watching: Watching, input: Input<'_>, options: &Options) -> Step {
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

fn ended(watching: Watching, end: WatchEnd, options: &Options) -> Step {
    let Watching { position, spoke, .. } = watching;
    let position = match (end, spoke) {
        (WatchEnd::Early, _) => position.after(Fruitless::Failure),
        (WatchEnd::Short, false) => position.after(Fruitless::ShortSilence),
        (WatchEnd::Full, false) => position.lasted().after(Fruitless::Silence),
        (WatchEnd::Short, true) => position,
        (WatchEnd::Full, true) => position.lasted(),
    };
    match (end, next(position)) {
        (WatchEnd::Short | WatchEnd::Full, Then::Watch(position)) => begin(position),
        (WatchEnd::Full, Then::List { plan, cause }) => list::begin(plan, cause, options),
        // Watches as short as these must not lead to one list after the other.
        (WatchEnd::Early, then) | (WatchEnd::Short, then @ Then::List { .. }) => back_off(then, None),
    }
}

/// Go on from here, or list where that leads nowhere. A watch without a version to begin after
/// shows what there is and not what has been deleted meanwhile.
fn next(position: Position) -> Then {
    match position.is_stuck() || !is_a_point(&position.version) {
        true => Then::List { plan: ListPlan::relist(&position), cause: RelistCause::Stuck },
        false => Then::Watch(position),
    }
}

fn failed(position: Position, class: Class, retry_after: Option<Duration>, options: &Options) -> Step {
    match class {
        Class::Expired | Class::TooLarge => expired(&position, class, retry_after, options),
        Class::NotFound => suspend(ListPlan::relist(&position), RelistCause::NotFound, retry_after, options),
        Class::Overloaded | Class::Refused | Class::Unauthorized | Class::Forbidden => {
            back_off(next(position), retry_after)
        }
        _ => back_off(next(position.after(Fruitless::Failure)), retry_after),
    }
}

/// A version that a list gave and that is gone at once would be gone again: don't loop. The same
/// if it is gone after an event or two, and was so before.
fn expired(position: &Position, class: Class, retry_after: Option<Duration>, options: &Options) -> Step {
    let plan = ListPlan::most_recent(position).freshly();
    let cause = if class == Class::Expired { RelistCause::Expired } else { RelistCause::TooLarge };
    match position.may_expire() {
        true => list::instead(plan, cause, retry_after, options),
        false => back_off(Then::List { plan, cause }, retry_after),
    }
}
