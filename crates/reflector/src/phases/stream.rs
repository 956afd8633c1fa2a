//! Transitions of a streaming list. It is a watch that first sends the current state up to a marked
//! bookmark.
//!
//! A server without streaming lists rejects the parameters, closes the watch, or never sends the
//! bookmark. The reflector then immediately requests a list. It requests the next streaming list only
//! after a watch that lasted.

use std::time::Duration;

use kube_listwatch::{ErrorClass, ListAt};
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, list, suspend};
use crate::{
    AfterBackoff, Deadline, EventKind, Input, ListPlan, Marker, Output, Position, ReflectorOptions,
    RelistCause, State, Streaming, Watching,
};

/// Requests a streaming list.
pub(crate) fn begin(plan: ListPlan, cause: RelistCause) -> Step {
    let outputs = vec![
        Output::Count(cause),
        Output::Stream { not_older_than: plan.initial_events(), fresh: plan.fresh },
        Output::Arm(Deadline::Watch),
        Output::Arm(Deadline::List),
        Output::Mark(Marker::Begin { fresh: plan.fresh }),
    ];
    (State::Streaming(Streaming { plan, opened: false, relist: false }), outputs)
}

pub(crate) fn step(streaming: Streaming, input: Input<'_>, options: &ReflectorOptions) -> Step {
    match input {
        Input::Event { kind: EventKind::InitialEnd, version } if !streaming.plan.is_missed_by(version) => {
            end(&streaming, version.clone())
        }
        Input::Relist => (State::Streaming(Streaming { relist: true, ..streaming }), Vec::new()),
        Input::Opened => {
            let streaming = Streaming { opened: true, ..streaming };
            (State::Streaming(streaming), vec![Output::Arm(Deadline::InitialEvents)])
        }
        Input::Event { kind: EventKind::Added, .. } => {
            let streaming = Streaming { opened: true, ..streaming };
            (State::Streaming(streaming), vec![Output::Deliver, Output::Arm(Deadline::InitialEvents)])
        }
        // A server that handles the request as a plain watch sends changes indefinitely, so a change
        // does not extend the deadline.
        Input::Event { kind: EventKind::Changed, .. } => {
            let first = (!streaming.opened).then_some(Output::Arm(Deadline::InitialEvents));
            let streaming = Streaming { opened: true, ..streaming };
            (State::Streaming(streaming), [Output::Deliver].into_iter().chain(first).collect())
        }
        // Before the marked bookmark, only a plain watch sends another bookmark.
        Input::Event { kind: EventKind::Bookmark, .. } | Input::WatchEnded(_) => {
            list_instead(streaming.plan, None, options)
        }
        // The request may wait in a queue of an overloaded server.
        Input::Fired(Deadline::Watch | Deadline::List) if !streaming.opened => {
            list::again_later(streaming.plan.without_streaming(), None)
        }
        Input::Fired(Deadline::Watch | Deadline::List | Deadline::InitialEvents) => {
            list_instead(streaming.plan, None, options)
        }
        Input::Failed(class, retry_after) => failed(streaming.plan, class, retry_after, options),
        // Ignore an end at a version older than requested. No other end follows, so the deadline causes
        // a list.
        other => ignore(State::Streaming(streaming), other),
    }
}

/// Completes the list. The same request continues as a watch.
fn end(streaming: &Streaming, version: ResourceVersion) -> Step {
    let position = Position::listed(version.clone(), &streaming.plan);
    let mark = Output::Mark(Marker::End { version, complete: true });
    if streaming.relist {
        // Do not start a request now, because events of this watch can follow in the same batch.
        let then = AfterBackoff::List { plan: ListPlan::relist(&position), cause: RelistCause::Requested };
        let (state, wait) = back_off(then, None);
        return (state, [vec![mark], wait].concat());
    }
    let outputs = vec![mark, Output::Disarm(Deadline::List), Output::Disarm(Deadline::InitialEvents)];
    // This bookmark does not require further bookmarks, so `bookmarked` is false.
    let watching = Watching { position, opened: true, delivered: false, bookmarked: false };
    (State::Watching(watching), outputs)
}

fn failed(
    plan: ListPlan,
    class: ErrorClass,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    match class {
        // The server forgets events before it has sent the current state, so the next streaming list can
        // expire too.
        ErrorClass::Expired if plan.at == ListAt::Consistent => {
            list::again_later(plan.without_reuse().without_streaming(), retry_after)
        }
        ErrorClass::Expired => list::without_version(&plan, RelistCause::Expired, retry_after, options),
        ErrorClass::TooLarge => list::without_version(&plan, RelistCause::TooLarge, retry_after, options),
        ErrorClass::NotFound => suspend(plan.after_not_found(), RelistCause::Retry, retry_after, options),
        // These failures are not caused by the streaming list.
        ErrorClass::Overloaded | ErrorClass::Refused => list::again_later(plan, retry_after),
        _ => list_instead(plan, retry_after, options),
    }
}

fn list_instead(plan: ListPlan, retry_after: Option<Duration>, options: &ReflectorOptions) -> Step {
    let plan = plan.without_streaming();
    match retry_after {
        Some(_) => list::again_later(plan, retry_after),
        None => list::instead(plan, RelistCause::Retry, None, options),
    }
}
