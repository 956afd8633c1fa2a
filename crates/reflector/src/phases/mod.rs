//! One file for each phase of the state machine, and the moves that they share.

pub(crate) mod list;
pub(crate) mod stream;
pub(crate) mod wait;
pub(crate) mod watch;

use std::time::Duration;

use crate::{AfterBackoff, Input, ListPlan, Marker, Output, ReflectorOptions, RelistCause, State, Waiting};

/// A state and what to do on the way there.
pub(crate) type Step = (State, Vec<Output>);

/// Stay, with nothing to do: the input is not one that this state waits for.
pub(crate) fn ignore(state: State, _: Input<'_>) -> Step {
    (state, Vec::new())
}

/// Drop the open request, and go on after a delay.
pub(crate) fn back_off(then: AfterBackoff, at_least: Option<Duration>) -> Step {
    (State::Waiting(Waiting { then, suspended: false }), vec![Output::BackOff(at_least)])
}

/// The resource does not exist: look again after a delay. What was cached is kept unless it should be cleared, which is
/// said each time: nobody knows here whether anything was shown, and there is no harm in it.
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
