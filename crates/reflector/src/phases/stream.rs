//! A streaming list: a watch that first tells the state it begins with, up to a marked bookmark, and goes on from there.
//!
//! A server may not know it in several ways: it refuses the parameters, ends the watch, or ignores them and never sends
//! the bookmark. Whatever it is, a list is asked for at once, and no streaming list again before a watch has lasted its
//! time.

use std::time::Duration;

use kube_listwatch::ErrorClass;
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, list, suspend};
use crate::{
    AfterBackoff, Deadline, EventKind, Input, ListPlan, Marker, Output, Position, ReflectorOptions,
    RelistCause, State, Streaming, Watching,
};

/// Ask for the state and what follows it.
pub(crate) fn begin(plan: ListPlan, cause: RelistCause) -> Step {
    let outputs = vec![
        Output::Count(cause),
        Output::Stream { not_older_than: plan.initial_events(), fresh: plan.fresh },
        Output::Arm(Deadline::Watch),
        Output::Arm(Deadline::List),
        Output::Arm(Deadline::InitialEvents),
        Output::Mark(Marker::Begin { fresh: plan.fresh }),
    ];
    (State::Streaming(Streaming { plan, relist: false }), outputs)
}

pub(crate) fn step(streaming: Streaming, input: Input<'_>, options: &ReflectorOptions) -> Step {
    match input {
        Input::Event { kind: EventKind::InitialEnd, version } if !streaming.plan.is_missed_by(version) => {
            end(&streaming, version.clone())
        }
        Input::Relist => (State::Streaming(Streaming { relist: true, ..streaming }), Vec::new()),
        Input::Event { kind: EventKind::Added | EventKind::Changed, .. } => {
            (State::Streaming(streaming), vec![Output::Deliver, Output::Arm(Deadline::InitialEvents)])
        }
        Input::WatchEnded(_) => list_instead(streaming.plan, None, options),
        Input::Fired(Deadline::Watch | Deadline::List | Deadline::InitialEvents) => {
            list_instead(streaming.plan, None, options)
        }
        Input::Failed(class, retry_after) => failed(streaming.plan, class, retry_after, options),
        // A bookmark in between says nothing of the state that is being told, nor does an end at a version older than
        // was asked for: no other comes, so that a list is asked for instead.
        other => ignore(State::Streaming(streaming), other),
    }
}

/// The state is complete, and the same request goes on as a watch.
fn end(streaming: &Streaming, version: ResourceVersion) -> Step {
    let position = Position::listed(version.clone(), &streaming.plan);
    let mark = Output::Mark(Marker::End { version, complete: true });
    if streaming.relist {
        // Not at once: the events that came together with this end belong to no other request.
        let then = AfterBackoff::List { plan: ListPlan::relist(&position), cause: RelistCause::Asked };
        let (state, wait) = back_off(then, None);
        return (state, [vec![mark], wait].concat());
    }
    let outputs = vec![mark, Output::Disarm(Deadline::List), Output::Disarm(Deadline::InitialEvents)];
    // A bookmark at the version of this end is never sent again, so that none has to follow.
    (State::Watching(Watching { position, spoke: false, bookmarked: false, synthetic: false }), outputs)
}

fn failed(
    plan: ListPlan,
    class: ErrorClass,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    match class {
        ErrorClass::Expired => list::without_version(&plan, RelistCause::Expired, retry_after, options),
        ErrorClass::TooLarge => list::without_version(&plan, RelistCause::TooLarge, retry_after, options),
        ErrorClass::NotFound => suspend(plan.after_not_found(), RelistCause::Retry, retry_after, options),
        // These say nothing about streaming lists.
        ErrorClass::Overloaded | ErrorClass::Refused => list::again_later(plan, retry_after),
        _ => list_instead(plan, retry_after, options),
    }
}

fn list_instead(plan: ListPlan, retry_after: Option<Duration>, options: &ReflectorOptions) -> Step {
    let plan = ListPlan { unstreamed: true, ..plan };
    match retry_after {
        Some(_) => list::again_later(plan, retry_after),
        None => list::instead(plan, RelistCause::Retry, None, options),
    }
}
