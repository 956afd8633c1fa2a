//! The state machine: dispatches to a function for each state.

use crate::{
    Input, Output, ReflectorOptions, State,
    phases::{list, stream, wait, watch},
};

/// Returns the next state and the outputs of a transition.
///
/// This function is pure. The passing of time is an input ([`Input::Fired`],
/// [`WatchEnd`](crate::WatchEnd)), and a delay is an output ([`Output::BackOff`], [`Output::Arm`]). An
/// unexpected input does not change the state. For example, a deadline can fire while its request
/// closes.
pub fn step(state: State, input: Input<'_>, options: &ReflectorOptions) -> (State, Vec<Output>) {
    match state {
        State::Idle => wait::start(input, options),
        State::Listing(listing) => list::step(listing, input, options),
        State::Streaming(streaming) => stream::step(streaming, input, options),
        State::Watching(watching) => watch::step(watching, input, options),
        State::Waiting(waiting) => wait::step(waiting, input, options),
    }
}

#[cfg(test)]
mod tests;
