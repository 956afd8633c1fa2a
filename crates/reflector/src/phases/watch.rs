//! A watch: its events, its end and its failures.

use std::time::Duration;

use kube_listwatch::{Class, WatchFrom};
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, list, suspend};
use crate::{
    Deadline, EventKind, Input, ListPlan, Options, Output, Position, RelistCause, State, Then, WatchEnd,
    Watching,
    position::{Fruitless, is_a_point},
};

/// Watch from where we are.
pub(crate) fn begin(position: Position) -> Step {
    let outputs =
        vec![Output::Watch(WatchFrom::Version(position.version.clone())), Output::Arm(Deadline::Watch)];
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
    let bookmarked = bookmarked || kind == EventKind::Bookmark;
    // The current state comes as ADDED events in no order: the position stays until it is over.
    let synthetic = synthetic && kind == EventKind::Added;
    let (position, verdict) = match (synthetic, position.has_passed(version)) {
        (true, _) => (position, Output::Deliver),
        // After an etcd restore all that the server says may lie in our past: this is no sign of
        // progress.
        (false, true) => (position, Output::Discard),
        // Without a version a bookmark says nothing. An event changes something, but leads nowhere
        // to resume from.
        (false, false) if !is_a_point(version) => match kind {
            EventKind::Bookmark => (position, Output::Discard),
            EventKind::Added | EventKind::Changed => (position, Output::Deliver),
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
    match (end, spoke) {
        (WatchEnd::Early, _) => resume_later(position.after(Fruitless::Failure), None),
        (WatchEnd::Short, false) => match position.after(Fruitless::ShortSilence) {
            // Watches as short as this must not lead to one list after the other.
            position if position.is_stuck() => resume_later(position, None),
            position => begin(position),
        },
        (WatchEnd::Full, false) => resume_now(position.lasted().after(Fruitless::Silence), options),
        (WatchEnd::Full, true) => begin(position.lasted()),
        (WatchEnd::Short, true) => begin(position),
    }
}

fn failed(position: Position, class: Class, retry_after: Option<Duration>, options: &Options) -> Step {
    match class {
        Class::Expired | Class::TooLarge => expired(&position, class, retry_after, options),
        Class::NotFound => {
            suspend(ListPlan::returned(position.pages_anyway), RelistCause::NotFound, retry_after)
        }
        Class::Overloaded | Class::Refused | Class::Unauthorized | Class::Forbidden => {
            back_off(Then::Watch(position), retry_after)
        }
        _ => resume_later(position.after(Fruitless::Failure), retry_after),
    }
}

/// A version that a list gave and that is gone at once would be gone again: don't loop. The same
/// if it is gone after an event or two, and was so before.
fn expired(position: &Position, class: Class, retry_after: Option<Duration>, options: &Options) -> Step {
    let plan = ListPlan::fresh(position.pages_anyway);
    let cause = if class == Class::Expired { RelistCause::Expired } else { RelistCause::TooLarge };
    match position.may_expire() {
        true => list::begin(plan, cause, options),
        false => back_off(Then::List { plan, cause }, retry_after),
    }
}

fn resume_now(position: Position, options: &Options) -> Step {
    match position.is_stuck() {
        true => list::begin(ListPlan::relist(&position), RelistCause::Stuck, options),
        false => begin(position),
    }
}

fn resume_later(position: Position, at_least: Option<Duration>) -> Step {
    match position.is_stuck() {
        true => {
            let plan = ListPlan::relist(&position);
            back_off(Then::List { plan, cause: RelistCause::Stuck }, at_least)
        }
        false => back_off(Then::Watch(position), at_least),
    }
}
