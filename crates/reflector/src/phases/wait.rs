//! Transitions before the first request and during a backoff.

use super::{Step, ignore, list, watch};
use crate::{
    AfterBackoff, Deadline, Input, ListPlan, Position, ReflectorOptions, RelistCause, State, Waiting,
};

pub(crate) fn start(input: Input<'_>, options: &ReflectorOptions) -> Step {
    match input {
        Input::Start => list::begin(ListPlan::first(options), RelistCause::Start, options),
        Input::Resume(version) => watch::begin(Position::resumed(version.clone())),
        other => ignore(State::Idle, other),
    }
}

pub(crate) fn step(waiting: Waiting, input: Input<'_>, options: &ReflectorOptions) -> Step {
    match (input, waiting.then) {
        (Input::Fired(Deadline::Backoff), AfterBackoff::List { plan, cause }) => {
            list::begin(plan, cause, options)
        }
        (Input::Fired(Deadline::Backoff), AfterBackoff::Watch(position)) => watch::begin(position),
        // A requested relist must not bypass the backoff.
        (Input::Relist, AfterBackoff::Watch(position)) => {
            let then =
                AfterBackoff::List { plan: ListPlan::relist(&position), cause: RelistCause::Requested };
            (State::Waiting(Waiting { then, ..waiting }), Vec::new())
        }
        (other, then) => ignore(State::Waiting(Waiting { then, ..waiting }), other),
    }
}
