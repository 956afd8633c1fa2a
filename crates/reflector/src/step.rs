//! The state machine: one dispatch, and a function for each phase.

use crate::{
    Input, Output, ReflectorOptions, State,
    phases::{list, stream, wait, watch},
};

/// The next state, and what to do on the way there.
///
/// Pure: time comes in as [`Input::Fired`] and [`WatchEnd`](crate::WatchEnd), and delays go out
/// as [`Output::BackOff`] and [`Output::Arm`]. An input that a state does not wait for, such as a
/// deadline that fires while its request ends, leaves the state as it is.
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
