//! The properties that informers are held to, one checker for each. Unit tests, the explorer and the simulation use the
//! same: they observe a server, an informer and its handlers, and hand each [`Observation`] to a [`Judge`].
//!
//! A checker is a pure function of what was before and of what is observed now; [`Past`] is all that is remembered. So a
//! judge can be cloned and compared, which the explorer does at every step of millions of histories. Nobody has to
//! observe everything: a checker that needs more than it is told judges what it can.

mod judge;
mod observation;
mod of_calls;
mod of_handlers;
mod of_life;
mod of_the_cache;
mod of_versions;
mod past;
#[cfg(test)]
mod tests;

pub use judge::{BROKEN_TOO, Judge, PROPERTIES, Property, Violation};
pub use observation::{Cause, Event, HandlerId, Key, Mark, Object, Observation, Shown, View};
pub use past::{Cache, Handler, Initial, Owed, Past, Server, Written};
