//! Transitions of a watch.

use std::time::Duration;

use kube_listwatch::ErrorClass;
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, list, suspend};
use crate::{
    AfterBackoff, Deadline, EventKind, Input, ListPlan, Output, Position, ReflectorOptions, RelistCause,
    State, WatchEnd, Watching,
    position::{StallKind, is_resumable},
};

/// Requests a watch from the position.
pub(crate) fn begin(position: Position) -> Step {
    let outputs = vec![Output::Watch(position.version.clone()), Output::Arm(Deadline::Watch)];
    let synthetic = !is_resumable(&position.version);
    (State::Watching(Watching { position, delivered: false, bookmarked: false, synthetic }), outputs)
}

pub(crate) fn step(watching: Watching, input: Input<'_>, options: &ReflectorOptions) -> Step {
    match input {
        Input::Event { kind, version } => event(watching, kind, version),
        Input::WatchEnded(end) => ended(watching, end, options),
        Input::Failed(class, retry_after) => failed(watching.position, class, retry_after, options),
        Input::Fired(Deadline::Watch | Deadline::Bookmark) => ended(watching, WatchEnd::Full, options),
        Input::Relist => list::begin(ListPlan::relist(&watching.position), RelistCause::Requested, options),
        other => ignore(State::Watching(watching), other),
    }
}

fn event(watching: Watching, kind: EventKind, version: &ResourceVersion) -> Step {
    let Watching { position, delivered, bookmarked, synthetic } = watching;
    let is_bookmark = matches!(kind, EventKind::Bookmark | EventKind::InitialEnd);
    let bookmarked = bookmarked || is_bookmark;
    // The current state arrives as ADDED events without order. These events do not change the position.
    let synthetic = synthetic && kind == EventKind::Added;
    let (position, verdict) = match (synthetic, position.has_passed(version)) {
        (true, _) => (position, Output::Deliver),
        // A repeat is not progress. After a restore of etcd, all events of the server can be repeats.
        (false, true) => (position, Output::Discard),
        // Without a version, a bookmark has no information. An event is delivered, but does not move the
        // position.
        (false, false) if !is_resumable(version) => {
            (position, if is_bookmark { Output::Discard } else { Output::Deliver })
        }
        (false, false) => (position.moved_to(version.clone()), Output::Deliver),
    };
    let delivered = delivered || verdict == Output::Deliver;
    let mut outputs = vec![verdict];
    if bookmarked {
        outputs.push(Output::Arm(Deadline::Bookmark));
    }
    (State::Watching(Watching { position, delivered, bookmarked, synthetic }), outputs)
}

fn ended(watching: Watching, end: WatchEnd, options: &ReflectorOptions) -> Step {
    let Watching { position, delivered, .. } = watching;
    let position = match (end, delivered) {
        (WatchEnd::Early, _) => position.after(StallKind::Failure),
        (WatchEnd::Short, false) => position.after(StallKind::ShortSilence),
        (WatchEnd::Full, false) => position.lasted().after(StallKind::Silence),
        (WatchEnd::Short, true) => position,
        (WatchEnd::Full, true) => position.lasted(),
    };
    match (end, next(position)) {
        (WatchEnd::Short | WatchEnd::Full, AfterBackoff::Watch(position)) => begin(position),
        (WatchEnd::Full, AfterBackoff::List { plan, cause }) => list::begin(plan, cause, options),
        // Short watches must not cause a loop of lists.
        (WatchEnd::Early, then) | (WatchEnd::Short, then @ AfterBackoff::List { .. }) => back_off(then, None),
    }
}

/// Resumes the watch, or relists if resuming makes no progress. A watch without a version returns the
/// current state, but not the deletions since the last watch, so a list must follow.
fn next(position: Position) -> AfterBackoff {
    if position.is_stuck() || !is_resumable(&position.version) {
        AfterBackoff::List { plan: ListPlan::relist(&position), cause: RelistCause::Stuck }
    } else {
        AfterBackoff::Watch(position)
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

/// Relists after an expired version. If the version of a list expires without progress, the next version
/// would expire too, so the list waits. The same applies to a second expiry without a full watch in
/// between.
fn expired(
    position: &Position,
    class: ErrorClass,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    let plan = ListPlan::most_recent(position).without_reuse();
    let cause = if class == ErrorClass::Expired { RelistCause::Expired } else { RelistCause::TooLarge };
    if position.may_expire() {
        list::instead(plan, cause, retry_after, options)
    } else {
        back_off(AfterBackoff::List { plan, cause }, retry_after)
    }
}
