//! Checkers for the properties of informers, one for each property. Unit tests, the explorer and the
//! simulation use the same checkers. They observe a server, an informer and its handlers, and pass each
//! [`Observation`] to a [`Judge`].
//!
//! A checker is a pure function of the recorded state and the new observation. [`Past`] contains the
//! complete recorded state. A judge can therefore be cloned and compared, as the explorer does at every
//! step of millions of histories. Observers may omit observations. A checker that requires more
//! observations than it gets checks only a part of its property.

mod cache_state;
mod calls;
mod delivery;
mod judge;
mod lifecycle;
mod observation;
mod past;
#[cfg(test)]
mod tests;
mod versions;

pub use judge::{BROKEN_TOO, Judge, PROPERTIES, Property, Violation};
pub use observation::{
    CacheState, CacheView, Cause, Content, Event, HandlerId, Key, Mark, Object, Observation,
};
pub use past::{Cache, Handler, Initial, Past, PendingEvent, Server, Written};
