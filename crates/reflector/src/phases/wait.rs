//! Before the first request, and between two requests.

use super::{Step, ignore, list, watch};
use crate::{Deadline, Input, ListPlan, Options, RelistCause, State, Then, Waiting};

pub(crate) fn start(input: Input<'_>, options: &Options) -> Step {
    match input {
        Input::Start => list::begin(ListPlan::first(options), RelistCause::Start, options),
        other => ignore(State::Idle, other),
    }
}

pub(crate) fn step(waiting: Waiting, input: Input<'_>, options: &Options) -> Step {
    match (input, waiting.then) {
        (Input::Fired(Deadline::Backoff), Then::List { plan, cause }) => list::begin(plan, cause, options),
        (Input::Fired(Deadline::Backoff), Then::Watch(position)) => watch::begin(position),
        // A relist that somebody asked for waits its turn: it must not get around the backoff.
        (Input::Relist, Then::Watch(position)) => {
            let then = Then::List { plan: ListPlan::relist(&position), cause: RelistCause::Asked };
            (State::Waiting(Waiting { then, ..waiting }), Vec::new())
        }
        (other, then) => ignore(State::Waiting(Waiting { then, ..waiting }), other),
    }
}
