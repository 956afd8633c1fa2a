//! Transitions of a watch.

use std::time::Duration;

use kube_listwatch::ErrorClass;
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, list, suspend};
use crate::{
    AfterBackoff, Deadline, EventKind, Input, ListPlan, Output, Position, ReflectorOptions, RelistCause,
    State, WatchEnd, Watching, position::StallKind,
};

/// Requests a watch from the position.
pub(crate) fn begin(position: Position) -> Step {
    let outputs = vec![Output::Watch(position.version.clone()), Output::Arm(Deadline::Watch)];
    let watching = Watching { position, opened: false, delivered: false, bookmarked: false };
    (State::Watching(watching), outputs)
}

pub(crate) fn step(watching: Watching, input: Input<'_>, options: &ReflectorOptions) -> Step {
    match input {
        Input::Event { kind, version } if watching.position.version.is_resumable() => {
            event(watching, kind, version)
        }
        Input::Event { kind, version } => event_without_position(watching, kind, version, options),
        Input::Opened => opened(watching),
        Input::ServerVersion(version) => checked(watching, version, options),
        Input::WatchEnded(end) => ended(watching, end, options),
        Input::Failed(class, retry_after) => failed(watching, class, retry_after, options),
        Input::Fired(Deadline::Watch | Deadline::Bookmark) => ended(watching, WatchEnd::Full, options),
        Input::Relist => list::begin(ListPlan::relist(&watching.position), RelistCause::Requested, options),
        Input::Rewatch => begin(watching.position),
        other => ignore(State::Watching(watching), other),
    }
}

fn opened(watching: Watching) -> Step {
    let check = watching.position.check_version && watching.position.is_comparable();
    let outputs = if check { vec![Output::CheckVersion] } else { Vec::new() };
    (State::Watching(Watching { opened: true, ..watching }), outputs)
}

fn event(watching: Watching, kind: EventKind, version: &ResourceVersion) -> Step {
    if watching.position.is_out_of_order(kind, version) {
        return out_of_order(watching, kind);
    }
    let Watching { position, .. } = watching;
    let (position, verdict) = if position.can_move_to(version) {
        (position.moved_to(version.clone()), Output::Deliver)
    } else if is_bookmark(kind) {
        // A bookmark at the position, or with a version that cannot be compared, has no information.
        (position, Output::Discard)
    } else {
        (position.overtaken(), Output::Deliver)
    };
    let delivered = watching.delivered || verdict == Output::Deliver;
    let (bookmarked, arm) = expect_bookmarks(watching.bookmarked, kind);
    let outputs = [verdict].into_iter().chain(arm).collect();
    (State::Watching(Watching { position, opened: true, delivered, bookmarked }), outputs)
}

/// Discards an event that a conforming server does not send. It is not progress.
///
/// The server may have been restored to an older state, so the first such event after a list checks the
/// version of the server. Otherwise, its versions have no order, and the event can be a change. A list
/// follows the watch.
fn out_of_order(watching: Watching, kind: EventKind) -> Step {
    let first = !watching.position.disordered;
    let position = if first { watching.position.disordered() } else { watching.position };
    let check = (first && position.is_comparable()).then_some(Output::CheckVersion);
    let (bookmarked, arm) = expect_bookmarks(watching.bookmarked, kind);
    let outputs = [Output::Discard].into_iter().chain(check).chain(arm).collect();
    (State::Watching(Watching { position, opened: true, bookmarked, ..watching }), outputs)
}

/// Relists if the server has not reached the position, because it has lost its history. A watch from a
/// future version would be silent. If the server has passed the position, no client can detect the loss.
fn checked(watching: Watching, server: &ResourceVersion, options: &ReflectorOptions) -> Step {
    let Watching { position, .. } = watching;
    if position.check_version && position.is_ahead_of(server) {
        return expired(&position, ErrorClass::TooLarge, None, options);
    }
    let position = Position { check_version: false, ..position };
    (State::Watching(Watching { position, ..watching }), Vec::new())
}

/// Handles an event of a watch that started without a version.
///
/// The watch first sends the current state as ADDED events, in no order. An object that was deleted
/// between the list and the watch is not reported. The versions of such a server can count per object.
/// Therefore each event is delivered, no versions are compared, and the position does not move. A list
/// follows the watch. If an event after the current state has a version, lists probably also have one
/// now, and the list follows immediately. After an immediate list without a version, the next list
/// follows a watch that lasted.
fn event_without_position(
    watching: Watching,
    kind: EventKind,
    version: &ResourceVersion,
    options: &ReflectorOptions,
) -> Step {
    let Watching { position, .. } = watching;
    let deliver = (!is_bookmark(kind)).then_some(Output::Deliver);
    if kind != EventKind::Added && version.is_resumable() && !position.unstable {
        let (state, list) = list::instead(ListPlan::relist(&position), RelistCause::Stuck, None, options);
        return (state, deliver.into_iter().chain(list).collect());
    }
    let delivered = watching.delivered || deliver.is_some();
    let (bookmarked, arm) = expect_bookmarks(watching.bookmarked, kind);
    let outputs = deliver.into_iter().chain(arm).collect();
    (State::Watching(Watching { position, opened: true, delivered, bookmarked }), outputs)
}

fn is_bookmark(kind: EventKind) -> bool {
    matches!(kind, EventKind::Bookmark | EventKind::InitialEnd)
}

/// After the first bookmark of a watch, each event restarts the deadline of the next event.
fn expect_bookmarks(bookmarked: bool, kind: EventKind) -> (bool, Option<Output>) {
    let bookmarked = bookmarked || is_bookmark(kind);
    (bookmarked, bookmarked.then_some(Output::Arm(Deadline::Bookmark)))
}

fn ended(watching: Watching, end: WatchEnd, options: &ReflectorOptions) -> Step {
    let Watching { position, delivered, .. } = watching;
    let position = match (end, delivered) {
        // A server that is shut down closes its watches. It can be restored before the next request.
        (WatchEnd::Early, _) => position.after(StallKind::Failure).unchecked(),
        (WatchEnd::Short, false) => position.after(StallKind::ShortSilence).unchecked(),
        (WatchEnd::Short, true) => position.unchecked(),
        (WatchEnd::Full, false) => position.lasted().after(StallKind::Silence),
        (WatchEnd::Full, true) => position.lasted(),
    };
    match (end, next(position)) {
        (WatchEnd::Short | WatchEnd::Full, AfterBackoff::Watch(position)) => begin(position),
        (WatchEnd::Full, AfterBackoff::List { plan, cause }) => list::begin(plan, cause, options),
        // Short watches must not cause a loop of lists.
        (WatchEnd::Early, then) | (WatchEnd::Short, then @ AfterBackoff::List { .. }) => back_off(then, None),
    }
}

/// Resumes the watch, or relists if the watch may have missed a change:
///
/// - Resumed watches make no progress.
/// - The watch delivered an event that did not move an opaque position. The next watch would repeat it.
/// - The watch discarded an event out of order, which can be a change.
/// - A watch without a version returns the current state, but not the deletions since the last watch.
fn next(position: Position) -> AfterBackoff {
    if position.is_stuck() || position.disordered || !position.version.is_resumable() {
        AfterBackoff::List { plan: ListPlan::relist(&position), cause: RelistCause::Stuck }
    } else {
        AfterBackoff::Watch(position)
    }
}

fn failed(
    watching: Watching,
    class: ErrorClass,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    let Watching { position, opened, .. } = watching;
    // A server that accepts each watch and then rejects it never sends an event.
    let stalled = |position: Position| if opened { position.after(StallKind::Failure) } else { position };
    match class {
        ErrorClass::Expired | ErrorClass::TooLarge => expired(&position, class, retry_after, options),
        ErrorClass::NotFound => {
            suspend(ListPlan::relist(&position), RelistCause::NotFound, retry_after, options)
        }
        ErrorClass::Unauthorized | ErrorClass::Forbidden => back_off(next(stalled(position)), retry_after),
        ErrorClass::Overloaded | ErrorClass::Refused => {
            back_off(next(stalled(position).unchecked()), retry_after)
        }
        _ => back_off(next(position.after(StallKind::Failure).unchecked()), retry_after),
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
