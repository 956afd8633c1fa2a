//! The state machine: dispatches to a function for each state.

use crate::{
    Input, Output, ReflectorOptions, State,
    phases::{list, stream, wait, watch},
};

/// Returns the next state and the outputs of a transition.
///
/// This function is pure, and reads no clock. The inputs [`Input::Fired`] and [`Input::WatchEnded`]
/// report that time has passed. The outputs [`Output::BackOff`] and [`Output::Arm`] start timers.
///
/// If the state does not expect the input, the function returns the same state and no outputs.
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
