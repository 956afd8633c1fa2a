//! The transitions of each state, and common transitions.

pub(crate) mod list;
pub(crate) mod stream;
pub(crate) mod wait;
pub(crate) mod watch;

use std::time::Duration;

use crate::{AfterBackoff, Input, ListPlan, Marker, Output, ReflectorOptions, RelistCause, State, Waiting};

/// The next state and the outputs.
pub(crate) type Step = (State, Vec<Output>);

/// Ignores an unexpected input.
pub(crate) fn ignore(state: State, _: Input<'_>) -> Step {
    (state, Vec::new())
}

/// Drops the open request and waits for the backoff.
pub(crate) fn back_off(then: AfterBackoff, at_least: Option<Duration>) -> Step {
    (State::Waiting(Waiting { then, suspended: false }), vec![Output::BackOff(at_least)])
}

/// Retries after a backoff, because the resource does not exist. With `clear_when_gone`, clears the
/// cache at each attempt, because the state does not record whether the cache is empty.
pub(crate) fn suspend(
    plan: ListPlan,
    cause: RelistCause,
    at_least: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    let then = AfterBackoff::List { plan, cause };
    let clear = options.clear_when_gone.then_some(Output::Mark(Marker::Clear));
    let outputs = clear.into_iter().chain([Output::BackOff(at_least)]).collect();
    (State::Waiting(Waiting { then, suspended: true }), outputs)
}
